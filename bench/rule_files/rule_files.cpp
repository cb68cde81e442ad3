// SPDX-License-Identifier: MIT
//
// bench/rule_files: how long `rules check` takes for tens of thousands of rules, and `policy apply` in an
// attach whose device decides by them, after one of them was edited; and how many packets are lost meanwhile.
// The packets go through the pipeline of these rules; that the edited rule counts is seen by one that it
// drops.
#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <string>
#include <thread>

#include "bench/rows.hpp"
#include "tests/netns/lab/traffic.hpp"
#include "tests/netns/lab/wire.hpp"
#include "tests/netns/product.hpp"

namespace xdpgpu::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr double kCheckBar = 5, kApplyBar = 2;  // seconds
constexpr std::uint16_t kPort = 7000;
constexpr auto kPatience = 120s;

struct Settings {
  unsigned rules = 40'000, packets_per_second = 20'000;
  std::vector<std::string> files;
  int repeats = 5;
  std::string json;
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Made ones, each for something else: most by names that are asked for, as real ones are, then by what a
// datagram has in it, and by headers. All of them are decided.
std::string made_rule(unsigned sid) {
  const std::string head = fmt::format("alert {{}} any any -> any any (msg:\"made {}\"; ", sid);
  if (sid % 10 < 6)
    return fmt::format(
        fmt::runtime(head + "dns.query; dotprefix; content:\".n{:x}.example\"; nocase; endswith; sid:{};)\n"),
        "dns", sid * 2654435761U, sid);
  if (sid % 10 < 9)
    return fmt::format(
        fmt::runtime(head + "content:\"{:08x}\"; offset:4; content:\"end\"; distance:0; sid:{};)\n"), "udp",
        sid * 2654435761U, sid);
  return fmt::format(
      fmt::runtime(head + "content:\"|{:02x} {:02x} {:02x} {:02x} 00|\"; dsize:<{}; sid:{};)\n"), "udp",
      sid >> 24, sid >> 16 & 255, sid >> 8 & 255, sid & 255, 20 + sid % 1000, sid);
}

// Those of files, again and again with other sids.
std::vector<std::string> rules_of(const std::vector<std::string>& files) {
  std::vector<std::string> lines;
  for (const auto& name : files) {
    std::ifstream file(name);
    if (!file) throw std::runtime_error(fmt::format("{} cannot be read", name));
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("alert ")) lines.push_back(line);
  }
  return lines;
}

std::string rules_text(const Settings& settings) {
  std::string text;
  const auto real = rules_of(settings.files);
  const std::regex sid("sid: *[0-9]+;");
  for (unsigned i = 1; i < settings.rules; i++)
    text += real.empty() ? made_rule(i)
                         : std::regex_replace(real[i % real.size()], sid, fmt::format("sid:{};", i)) + "\n";
  return text;
}

class Bench {
 public:
  Bench(const Settings& settings, Rows& rows) : settings_(settings), rows_(rows) {
    std::string name = "/tmp/xdpgpu-rule-files-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made in /tmp");
    folder_ = name;
    text_ = rules_text(settings);
    std::ofstream(path("policy.json")) << fmt::format(
        R"({{"version": 1, "default": "pass", "io": {{"heartbeat": "5s"}},
            "rules": [{{"match": {{"proto": "udp", "dst_port": {}}}, "action": {{"inspect": "ids"}}}}],
            "pipelines": {{"ids": [{{"stage": "signatures", "rules": ["all.rules"]}}]}}}})",
        kPort);
    edit();
  }
  ~Bench() { std::filesystem::remove_all(folder_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  std::size_t bytes() const { return text_.size(); }

  // Throws lab::Error where there is no namespace to be had.
  void run() {
    const lab::Namespace host("bench-host"), peer("bench-peer");
    lab::Veth wire(host, "bench0", peer, "bench1");
    wire.address("10.9.0.1/24", "10.9.0.2/24");
    wire.up();
    check(host);
    apply(host, wire);
  }

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // The last rule drops what no packet had before.
  void edit() {
    std::ofstream(path("all.rules")) << text_
                                     << fmt::format(
                                            "drop udp any any -> any any (content:\"edit {:06}\"; sid:{};)\n",
                                            ++edits_, settings_.rules);
  }
  lab::Frame frame(const lab::Veth& wire, std::uint16_t from, std::string payload) const {
    return lab::build({.src = wire.b().mac(),
                       .dst = wire.a().mac(),
                       .src_port = from,
                       .dst_port = kPort,
                       .payload = std::move(payload)});
  }

  void check(const lab::Namespace& host) {
    Row& row = rows_.add({.name = "rules check", .unit = "ms", .scale = 1e3});
    for (int i = -1; i < settings_.repeats; ++i) {
      edit();
      const auto start = Clock::now();
      const auto outcome = lab::product(host, {"rules", "check", path("all.rules"), "-o", "json"});
      const double seconds = since(start);
      if (outcome.status != 0) {
        row.problem = fmt::format("rules check: exit {}: {}", outcome.status, outcome.err);
        return;
      }
      const auto said = nlohmann::json::parse(outcome.out);
      rows_["enabled"] = said.at("enabled");
      rows_["decided"] = said.at("decided");
      if (said.at("enabled") != settings_.rules) row.problem = "not all rules are enabled";
      if (i >= 0) row.runs.push_back(seconds);
    }
    judge(row, "check", kCheckBar);
  }

  void apply(const lab::Namespace& host, const lab::Veth& wire) {
    Row& row = rows_.add({.name = "policy apply", .device = "cpu", .unit = "ms", .scale = 1e3});
    const lab::Attached attached(host, {.interfaces = {wire.a().ifname()},
                                        .more = {"--device", "cpu"},
                                        .device_by_policy = true,
                                        .policy_file = path("policy.json"),
                                        .patience_s = 120});
    std::vector<lab::Frame> frames;
    for (std::uint16_t i = 0; i < 64; i++)
      frames.push_back(frame(wire, static_cast<std::uint16_t>(20'000 + i), fmt::format("a datagram, {}", i)));
    std::atomic<bool> ended{false};
    std::atomic<std::uint64_t> sent{0};
    std::thread traffic([&] {
      lab::Sender sender(wire.b());
      while (!ended) {
        sender.send_paced(frames, settings_.packets_per_second);
        sent += frames.size();
      }
    });
    std::uint64_t dropped = 0;
    for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
      edit();
      const auto start = Clock::now();
      lab::Process command(host,
                           {lab::product_path(), "policy", "apply", wire.a().ifname(), path("policy.json")});
      const int status = command.wait(kPatience);
      const double seconds = since(start);
      if (status != 0) row.problem = fmt::format("policy apply: exit {}: {}", status, command.err());
      // The rule that was edited counts, and the one before does not.
      lab::Sender(wire.b()).send(frame(wire, 19'999, fmt::format("edit {:06}", edits_ - 1)));
      lab::Sender(wire.b()).send(frame(wire, 19'999, fmt::format("edit {:06}", edits_)));
      sent += 2;
      dropped++;
      if (!lab::eventually([&] { return attached.pins().worker("dropped") == dropped; }, 5s))
        row.problem = fmt::format("{} packets were dropped by the edited rules, not {}",
                                  attached.pins().worker("dropped"), dropped);
      if (i >= 0) row.runs.push_back(seconds);
    }
    ended = true;
    traffic.join();
    const auto done = [&] {
      const auto counts = attached.pins().worker_counts();
      return counts.at("passed") + counts.at("dropped");
    };
    (void)lab::eventually([&] { return done() == sent; }, 5s);
    const std::uint64_t lost = sent - std::min<std::uint64_t>(done(), sent);
    rows_["packets"] = {{"sent", sent.load()}, {"lost", lost}};
    judge(row, "apply", kApplyBar);
    row.note += fmt::format("; {} of {} packets lost", lost, sent.load());
  }

  void judge(Row& row, const std::string& what, double bar) {
    const bool met = row.problem.empty() && row.median() <= bar;
    row.note = fmt::format("at most {:.0f} ms: {}", bar * 1e3, met ? "met" : "MISSED");
    rows_[what] = {{"seconds", row.median()}, {"bar_seconds", bar}, {"met", met}};
  }

  const Settings& settings_;
  Rows& rows_;
  std::string folder_, text_;
  unsigned edits_ = 0;
};

int run(const Settings& settings) {
  Rows rows("rule-files");
  rows["rules"] = settings.rules;
  rows["made"] = settings.files.empty();
  rows["packets_per_second"] = settings.packets_per_second;
  rows["repeats"] = settings.repeats;
  Bench bench(settings, rows);
  rows["bytes"] = bench.bytes();
  try {
    bench.run();
  } catch (const lab::Error& error) {
    rows.leave_out(error.what());
  }
  fmt::print("{} rules, {}, {:.1f} MiB; median of {} edits of one of them, with {} packets/s\n\n",
             settings.rules, settings.files.empty() ? "made up, all of them decided" : "of files",
             static_cast<double>(bench.bytes()) / (1 << 20), settings.repeats, settings.packets_per_second);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  CLI::App app("Tens of thousands of rules of files: checked, and applied under traffic");
  app.add_option("--rules", settings.rules, "rules")->check(CLI::Range(10, 65'535));
  app.add_option(
         "--files", settings.files,
         "rule files whose rules are taken, again and again with other sids; without, they are made up")
      ->check(CLI::ExistingFile);
  app.add_option("--packets-per-second", settings.packets_per_second, "that are sent meanwhile")
      ->check(CLI::Range(1000, 200'000));
  app.add_option("--repeats", settings.repeats, "edits")->check(CLI::Range(1, 100));
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-rule-files: {}\n", error.what());
    return 1;
  }
}
