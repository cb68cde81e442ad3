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
#include <mutex>
#include <regex>
#include <span>
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

// What became of packets.
struct Fate {
  std::uint64_t sent = 0, lost = 0;
  std::uint64_t uninspected = 0;  // on_overload decided them: no worker was there in time
  nlohmann::json json() const { return {{"sent", sent}, {"lost", lost}, {"uninspected", uninspected}}; }
};

// The same frames again and again, until it ends.
class Traffic {
 public:
  Traffic(const lab::Interface& from, const std::vector<lab::Frame>& frames, unsigned packets_per_second,
          const lab::Pins& pins)
      : from_(from), pins_(pins), thread_([this, &frames, packets_per_second] {
          lab::Sender sender(from_);
          while (!ended_) {
            const std::lock_guard lock(mutex_);
            sender.send_paced(frames, packets_per_second);
            sent_ += frames.size();
          }
        }) {}
  ~Traffic() {
    ended_ = true;
    thread_.join();
  }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  void send(std::span<const lab::Frame> frames) {
    lab::Sender(from_).send(frames);
    more_ += frames.size();
  }
  // Of those since the last call; it waits until none is under way.
  Fate fate() {
    const std::lock_guard lock(mutex_);
    Fate all{sent_ + more_, 0, 0};
    const auto arrived = [&] {
      const auto worker = pins_.worker_counts();
      all.uninspected = pins_.kernel("pass_overload");
      return worker.at("passed") + worker.at("dropped") + all.uninspected;
    };
    (void)lab::eventually([&] { return arrived() == all.sent; }, 2s);
    all.lost = all.sent - std::min(arrived(), all.sent);
    const Fate since{all.sent - before_.sent, all.lost - before_.lost, all.uninspected - before_.uninspected};
    before_ = all;
    return since;
  }

 private:
  const lab::Interface& from_;
  const lab::Pins& pins_;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // while frames are on their way
  std::uint64_t sent_ = 0, more_ = 0;
  Fate before_;
  std::thread thread_;
};

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
    Traffic traffic(wire.b(), frames, settings_.packets_per_second, attached.pins());
    // How many are lost on this machine anyway.
    std::this_thread::sleep_for(2s);
    rows_["without_an_apply"] = traffic.fate().json();
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
      const lab::Frame last[] = {frame(wire, 19'999, fmt::format("edit {:06}", edits_ - 1)),
                                 frame(wire, 19'999, fmt::format("edit {:06}", edits_))};
      traffic.send(last);
      dropped++;
      if (!lab::eventually([&] { return attached.pins().worker("dropped") >= dropped; }, 5s) ||
          attached.pins().worker("dropped") != dropped)
        row.problem = fmt::format("{} packets were dropped by the edited rules, not {}",
                                  attached.pins().worker("dropped"), dropped);
      if (i >= 0) row.runs.push_back(seconds);
    }
    const Fate fate = traffic.fate();
    rows_["while_applied"] = fate.json();
    judge(row, "apply", kApplyBar);
    row.note += fmt::format("; of {} packets {} were lost, {} went by uninspected", fate.sent, fate.lost,
                            fate.uninspected);
    if (fate.lost != 0) row.note += fmt::format(" ({})", attached.pins().summary());
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
