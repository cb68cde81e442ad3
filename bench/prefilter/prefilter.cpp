// SPDX-License-Identifier: MIT
//
// bench/prefilter: ns a packet in the kernel program. Root; needs no interface.
//
//   sudo bench-prefilter [--json FILE] [--quick] [--largest N]
//
// Two ways of measuring. "program": the whole XDP program, BPF_PROG_TEST_RUN repeats one packet, so its
// lines are in the nearest cache; rows with rules average over 64 different packets. "loop": the
// classifier alone (loop.bpf.c), each turn another packet, half a million of them, so that tables are
// met where they really lie; "overlapped" lets the CPU begin the next packet before it is done with the
// last, "dependent" makes the next address wait for the last result. The kernel's LPM trie is looked up
// in the same loop, with the same addresses, beside the same classifier without a list. What "the list
// adds" is the loop with the list less the loop with the same verdicts and no list: where a packet is
// listed, a rule matches it either way. So both figures are the lookup's own.
//
// Every figure's verdicts are checked in the same run against answers found without the tables:
// exit 1 if one is wrong. A missed bar is printed, and no error.
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "bench/machine.hpp"
#include "bench/prefilter/loop.hpp"
#include "bench/prefilter/report.hpp"
#include "tests/kernel/program.hpp"

namespace xdpgpu::bench {
namespace {

struct Effort {
  u32 repeat = 300'000;  // of one packet
  u32 packets = PREFILTER_PACKETS;
  u32 runs = 3;
};

policy::Tables compiled(const policy::Policy& policy) {
  auto tables = policy::compile(policy);
  if (!tables) throw std::runtime_error(tables.error().at(0).sentence());
  return *tables;
}

u32 least_ns(test::Program& program, const test::Frame& frame, const Effort& effort) {
  u32 least = ~0u;
  for (u32 i = 0; i < effort.runs; ++i) least = std::min(least, program.nanoseconds(frame, effort.repeat));
  return least;
}

// One packet through the program, its outcome checked before and after.
void program_row(Report& report, const std::string& name, test::Program& program, const test::Frame& frame,
                 const std::string& reason, const Effort& effort) {
  const std::string before = program.run(frame).reason;
  const u32 ns = least_ns(program, frame, effort);
  const std::string after = program.run(frame).reason;
  if (before != reason || after != reason)
    report.wrong(fmt::format("{}: {} and {}, not {}", name, before, after, reason));
  report.row(name, ns, reason);
}

// The program's fixed parts: what each step of a packet's way adds to the one before.
void measure_program(Report& report, const Effort& effort) {
  using namespace test;
  report.section("The program by its steps: one packet, repeated");
  const Frame frame = ethernet() + ipv4({}, udp(1000, 53, 18));
  const Frame frame6 = ethernet() + ipv6({}, udp(1000, 53, 18));
  Program program({.queues = 1, .flow_entries_per_queue = 16384, .limits = 1024});
  program.install(compiled({}));
  program.config().state = XG_STATE_BYPASS;
  program_row(report, "program: bypass (counting alone)", program, frame, "pass_bypass", effort);
  program.config().state = XG_STATE_RUNNING;
  program_row(report, "program: no rules, IPv4 (parse, hash, verdict miss)", program, frame, "pass_default",
              effort);
  program_row(report, "program: no rules, IPv6", program, frame6, "pass_default", effort);
  program.publish(frame, XG_DROP);
  program_row(report, "program: verdict hit, drop", program, frame, "drop_flow", effort);
  program.publish(frame6, XG_PASS);
  program_row(report, "program: verdict hit, pass, IPv6", program, frame6, "pass_flow", effort);
}

// Average over packets; each one's deciding rule is known by asking all rules in turn.
double measure_rule_set(Report& report, const std::string& name, const Rules& rules, const Effort& effort) {
  test::Program program({.queues = 1, .flow_entries_per_queue = 16384, .limits = 1024});
  program.install(compiled(rules.policy));
  double sum = 0;
  u32 matches = 0;
  for (const auto& packet : rules.packets) {
    const auto first = first_match(rules.policy, packet);
    const test::Frame frame = frame_of(packet);
    const u64 before = first ? program.rule_counter(*first).packets : 0;
    const std::string reason = program.run(frame).reason;
    if (reason != (first ? "drop_rule" : "pass_default") ||
        (first && program.rule_counter(*first).packets != before + 1))
      report.wrong(fmt::format("{}: {}", name, reason));
    matches += first ? 1 : 0;
    sum += least_ns(program, frame, {effort.repeat / 10, effort.packets, 2});
  }
  const double ns = sum / double(rules.packets.size());
  report.row(name, ns, fmt::format("{} of {} packets match", matches, rules.packets.size()));
  return ns;
}

// The same rules in the loop, each turn another packet.
double measure_rule_loop(Report& report, Loop& loop, const std::string& name, const Rules& rules,
                         const Effort& effort) {
  std::vector<prefilter_packet> records;
  Found right;
  std::vector<u64> first_of;
  for (const auto& packet : rules.packets) {
    const auto first = first_match(rules.policy, packet);
    first_of.push_back(first ? *first + 1 : 0);
  }
  for (u32 i = 0; i < effort.packets; ++i) {
    records.push_back(record_of(rules.packets[i % rules.packets.size()]));
    const u64 first = first_of[i % rules.packets.size()];
    right.rule_hits += first != 0;
    right.rule_sum += (i + 1) * first;
  }
  loop.set_policy(rules.policy);
  loop.set_packets(records);
  const double ns = loop.nanoseconds(0, false, effort.runs);
  if (loop.found().rule_hits != right.rule_hits || loop.found().rule_sum != right.rule_sum)
    report.wrong(fmt::format("{}: {} matches, not {}", name, loop.found().rule_hits, right.rule_hits));
  report.row(name, ns, fmt::format("{} of {} packets match", right.rule_hits, effort.packets));
  return ns;
}

void measure_rules(Report& report, Loop& loop, const Effort& effort) {
  const std::pair<Shape, const char*> shapes[] = {
      {Shape::random, "random"}, {Shape::overlapping, "overlapping"}, {Shape::crossing, "crossing"}};
  for (const auto& [shape, text] : shapes) {
    report.section(fmt::format("Rules, {}", text));
    double program_64 = 0, loop_64 = 0;
    for (u32 count : {1u, 64u, XG_MAX_RULES}) {
      Random random(count);
      const Rules few = rules(shape, count, 64, random);
      const double whole =
          measure_rule_set(report, fmt::format("program: {} {} rules", count, text), few, effort);
      const Rules many = rules(shape, count, 4096, random);
      const double looped = measure_rule_loop(
          report, loop, fmt::format("loop: {} {} rules, 4,096 packets", count, text), many, effort);
      if (count == 64) program_64 = whole, loop_64 = looped;
      if (count == XG_MAX_RULES) {
        report.bar(fmt::format("program: 4,096 against 64 {} rules", text), whole / program_64, 1.3, false);
        report.row(fmt::format("loop: what 4,096 {} rules add to 64", text), looped - loop_64,
                   fmt::format("{:.2f} x, no bar", looped / loop_64));
      }
    }
  }
}

// One list: ns that it adds to the loop, ours and the trie's, and what was found.
void measure_list(Report& report, Loop& loop, u8 family, u32 count, const Effort& effort) {
  Random random(family + count);
  const auto list = prefixes(family, count, random);
  const policy::Policy with = list_policy(list);
  const std::string size = fmt::format("IPv{}, {} prefixes", family, count);
  report.section(fmt::format("Prefix lists: {}", size));
  loop.set_trie(family, list);
  for (u32 percent : {0u, 50u, 100u}) {
    const Sources mix = sources(list, family, effort.packets, percent, random);
    Found right;
    for (u32 i = 0; i < mix.packets.size(); ++i) {
      if (!mix.listed[i]) continue;
      right.trie_hits += 1;
      right.trie_sum += i + 1;
    }
    loop.set_packets(mix.packets);
    const auto name = [&](bool dependent) {
      return fmt::format("{} % listed, {}", percent, dependent ? "dependent" : "overlapped");
    };
    // [dependent]. One policy after the other, as compiling a million prefixes takes a second.
    std::array<double, 2> match{}, miss{}, trie{}, ours{};
    loop.set_policy(matching_policy());
    for (const bool dependent : {false, true}) {
      match[dependent] = loop.nanoseconds(0, dependent, effort.runs);
      if (loop.found().rule_hits != mix.packets.size())
        report.wrong(name(dependent) + ": a rule for all did not match");
    }
    loop.set_policy(missing_policy());
    for (const bool dependent : {false, true}) {
      miss[dependent] = loop.nanoseconds(0, dependent, effort.runs);
      if (loop.found().rule_hits != 0) report.wrong(name(dependent) + ": a rule for none matched");
      trie[dependent] = loop.nanoseconds(family, dependent, effort.runs) - miss[dependent];
      if (loop.found().trie_hits != right.trie_hits || loop.found().trie_sum != right.trie_sum)
        report.wrong(name(dependent) + ": the trie's answers");
    }
    loop.set_policy(with);
    for (const bool dependent : {false, true}) {
      const double base = miss[dependent] + (match[dependent] - miss[dependent]) * double(right.trie_hits) /
                                                double(mix.packets.size());
      ours[dependent] = loop.nanoseconds(0, dependent, effort.runs) - base;
      if (loop.found().rule_hits != right.trie_hits || loop.found().rule_sum != 2 * right.trie_sum)
        report.wrong(
            fmt::format("{}: {} hits, not {}", name(dependent), loop.found().rule_hits, right.trie_hits));
      report.row(fmt::format("loop: no list, {}", name(dependent)), base, "the loop itself, same verdicts");
      report.row(fmt::format("loop: LPM_TRIE adds, {}", name(dependent)), trie[dependent], "");
      report.row(fmt::format("loop: the list adds, {}", name(dependent)), ours[dependent],
                 fmt::format("{} hits", right.trie_hits));
      const double ratio = trie[dependent] / ours[dependent];
      if (count == 1'000'000)
        report.bar(fmt::format("{}: LPM_TRIE against the list, {}", size, name(dependent)), ratio,
                   dependent ? 3 : 10, true);
      else
        report.row(fmt::format("{}: the trie's part", name(dependent)), trie[dependent] - ours[dependent],
                   fmt::format("{:.2f} x, no bar", ratio));
    }
  }
}

int run(const std::string& json_file, const Effort& effort, u32 largest) {
  Report report;
  utsname host{};
  uname(&host);
  fmt::print("bench/prefilter: ns a packet in the kernel program, kernel {}\n", host.release);
  measure_program(report, effort);
  Loop loop;
  measure_rules(report, loop, effort);
  for (u8 family : {u8{4}, u8{6}})
    for (u32 count : {10'000u, 1'000'000u})
      if (count <= largest) measure_list(report, loop, family, count, effort);
  if (!write_json(json_file, report.json())) return 1;
  fmt::print("\n{}\n", report.right() ? "All verdicts were right." : "There were wrong verdicts, see above.");
  return report.right() ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  CLI::App app("ns a packet in the kernel program: verdicts, rules, prefix lists");
  std::string json_file;
  bool quick = false;
  app.add_option("--json", json_file, "also write the figures to this file");
  u32 largest = 1'000'000;
  app.add_option("--largest", largest, "prefixes of the longest list (10000 or 1000000)");
  app.add_flag("--quick", quick, "less repetition: a look, not a measurement");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (auto why = xdpgpu::test::why_unavailable(); !why.empty()) {
    fmt::print(stderr, "bench-prefilter: {}\n", why);
    return 1;
  }
  try {
    xdpgpu::bench::Effort effort;
    if (quick) effort = {30'000, 1u << 16, 1};
    return xdpgpu::bench::run(json_file, effort, largest);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-prefilter: {}\n", error.what());
    return 1;
  }
}
