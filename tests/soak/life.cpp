// SPDX-License-Identifier: MIT
#include "tests/soak/life.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/netns/control_socket.hpp"

namespace xdpgpu::soak {
namespace {

using lab::Attached;
using lab::Json;
using lab::Pins;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Every kind of verdict, by every part that has one. TCP to 5001 is the transfers', which all policies let
// be.
std::vector<std::string> policies(const std::string& first, const std::string& last,
                                  const std::string& device) {
  constexpr const char* kTransfers =
      R"({"name": "transfers", "match": {"proto": "tcp", "dst_port": 5001}, "priority": 5, "action": {"inspect": "tcp"}})";
  constexpr const char* kTcp =
      R"("tcp": [{"stage": "conntrack", "loose": true, "on_invalid": "pass", "entries": 4096}])";
  const char* mirror =
      device.starts_with("vulkan")
          ? ""
          : R"({"match": {"proto": "udp", "dst_port": 7003}, "action": {"mirror": "scrub"}},)";
  return {
      fmt::format(R"({{"version": 1, "default": "pass", "fragments": "inspect", "on_overload": "pass",
        "io": {{"heartbeat": "500ms"}},
        "rules": [{}, {{"match": {{"proto": "udp", "dst_port": 7000}}, "action": {{"inspect": "bounce"}}}},
          {{"match": {{"proto": "udp", "dst_port": 7001}}, "limit": {{"per": "src", "pps": 100, "burst": 100}}}},
          {{"match": {{"proto": "udp", "dst_port": 7002}}, "action": {{"inspect": "look"}}}},
          {}{{"match": {{"proto": "icmp"}}, "action": "drop"}},
          {{"match": {{"vlan": 10}}, "action": {{"inspect": "look"}}}}],
        "pipelines": {{{}, "bounce": [{{"stage": "l2fwd", "cache": true}}],
          "scrub": [{{"stage": "acl", "rules": [{{"match": {{"src_port": "20000-20050"}}, "action": "drop"}}], "cache": "50ms"}}],
          "look": [{{"stage": "acl", "rules": [{{"match": {{"src_port": "20000-20100"}}, "action": "drop"}}]}}]}}}})",
                  kTransfers, mirror, kTcp),
      fmt::format(R"({{"version": 1, "default": "drop", "fragments": "inspect", "on_overload": "drop",
        "rules": [{}, {{"match": {{}}, "action": {{"inspect": "all"}}}}],
        "pipelines": {{{}, "all": [{{"stage": "conntrack", "loose": true, "entries": 4096}},
          {{"stage": "rate_limit", "per": "src", "pps": 2000, "burst": 500, "entries": 4096}},
          {{"stage": "acl", "rules": [{{"match": {{"proto": "tcp", "tcp_flags": "syn,!ack"}}, "action": "drop"}},
                                      {{"match": {{"proto": "icmp"}}, "action": "pass"}}]}},
          {{"stage": "l2fwd", "to": "{}"}}]}}}})",
                  kTransfers, kTcp, last),
      fmt::format(R"({{"version": 1, "default": "drop", "fragments": "drop", "on_failure": "pass",
        "lists": {{"some": ["10.20.0.96/29", "fd0a::/123"]}},
        "rules": [{}, {{"match": {{"src": "@some"}}, "action": "pass"}}], "pipelines": {{{}}}}})",
                  kTransfers, kTcp),
      fmt::format(
          R"({{"version": 1, "default": "pass", "fragments": "pass", "on_overload": {{"known": "keep", "new": "pass"}},
        "rules": [{}, {{"match": {{"proto": "udp"}}, "priority": 2, "action": {{"inspect": "balance"}}}}],
        "pipelines": {{{}, "balance": [{{"stage": "load_balance", "algorithm": "maglev", "cache": true, "backends": [
          {{"name": "one", "mac": "02:00:00:00:01:01", "to": "{}"}},
          {{"name": "two", "mac": "02:00:00:00:01:02", "to": "{}"}}]}}]}}}})",
          kTransfers, kTcp, first, last)};
}

std::int64_t descriptors(pid_t pid) {
  std::error_code gone;
  std::int64_t count = 0;
  for (auto entry = std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), gone);
       !gone && entry != std::filesystem::directory_iterator(); entry.increment(gone))
    ++count;
  return count;
}

// For the attach that is made while it lives.
class Fault {
 public:
  explicit Fault(const std::string& what) {
    if (!what.empty()) setenv("XDPGPU_FAULT", what.c_str(), 1);
  }
  ~Fault() { unsetenv("XDPGPU_FAULT"); }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

class Life {
 public:
  Life(const lab::Namespace& host, const std::vector<const lab::Veth*>& wires, Traffic& traffic,
       const Plan& plan, Sampler& sampler, std::mt19937_64& random)
      : host_(host), wires_(wires), traffic_(traffic), plan_(plan), sampler_(sampler), random_(random) {
    for (const auto* wire : wires) ifnames_.push_back(wire->a().ifname());
    policies_ = policies(ifnames_.front(), ifnames_.back(), plan.device);
    const Fault fault(plan.fault);
    attached_ = std::make_unique<Attached>(host, lab::AttachSpec{.interfaces = ifnames_,
                                                                 .policy = policies_.front(),
                                                                 .queues = plan.queues,
                                                                 .more = {"--device", plan.device},
                                                                 .device_by_policy = true});
    everybody_ = lab::descendants(attached_->process().pid());
    everybody_.insert(everybody_.begin(), attached_->process().pid());
    for (const auto* wire : wires) on_the_wire_.push_back(wire->b().counters().tx_packets);
    own_flaps_.resize(wires.size());
    for (std::size_t port = 0; port < ifnames_.size(); ++port)
      received_before_.push_back(pins(port).kernel("received"));
    watch_ = std::make_unique<Watch>(sampler, attached_->process().pid(), wires);
  }

  Found run() {
    const auto end = Clock::now() + plan_.length;
    // What is made once is made now: all policies, both ways of bypass, a status.
    for (const auto& policy : policies_) apply(policy);
    traffic_.go();
    disturb(Clock::now() + plan_.length / 4);
    rest(true);
    do {
      traffic_.go();
      if (plan_.stands_still) stand_still();
      disturb(std::min(end, Clock::now() + 60s));
      rest(false);
    } while (Clock::now() < end);
    traffic_.go();
    if (!plan_.fault.empty() && !fault_was_said())
      problem(fmt::format("the fault {} did not come about", plan_.fault));
    std::this_thread::sleep_for(100ms);
    finish();
    return std::move(found_);
  }

 private:
  const Pins& pins(std::size_t port) const { return attached_->pins(port); }
  Json status() const { return ask("status"); }
  Json ask(const char* request, Json arguments = Json::object()) const {
    Json answer = lab::ask(ifnames_.front(), request, std::move(arguments));
    return answer.value("ok", false) ? answer.at("result") : Json{{"error", answer.value("error", "?")}};
  }
  void problem(std::string what) {
    if (std::find(found_.problems.begin(), found_.problems.end(), what) == found_.problems.end())
      found_.problems.push_back(std::move(what));
  }
  unsigned below(std::uint64_t end) { return static_cast<unsigned>(random_() % end); }

  void apply(const std::string& policy, bool audit = false) {
    const Json answer = ask("policy.apply", {{"text", policy}, {"file", "soak.json"}, {"audit", audit}});
    if (answer.contains("error"))
      problem("a policy was refused: " + answer.at("error").get<std::string>());
    else
      ++found_.swaps;
  }

  void disturb(Clock::time_point until) {
    do {
      const unsigned what = below(16);
      if (what < 9) {
        apply(policies_[below(policies_.size())], what == 0);
      } else if (what < 11) {
        ask("bypass", {{"on", true}});
        std::this_thread::sleep_for(20ms);
        ask("bypass", {{"on", false}});
        ++found_.bypasses;
      } else if (what == 11) {
        // Either end: the attached one, too.
        const unsigned port = below(wires_.size());
        const bool own = below(2) == 0;
        const auto& end = own ? wires_[port]->a() : wires_[port]->b();
        if (own) ++own_flaps_[port];
        traffic_.flap([&] {
          end.down();
          std::this_thread::sleep_for(20ms);
          end.up();
        });
        ++found_.flaps;
      } else if (what == 12) {
        ask("flows.flush");
      } else if (what == 13) {
        if (!ask("policy.apply", {{"text", R"({"version": 1, "rules": 7})"}, {"file", "wrong.json"}})
                 .contains("error"))
          problem("a wrong policy was taken");
      } else if (what == 14) {
        status();
      } else {
        ask("flows.list", {{"limit", 10}});
      }
      std::this_thread::sleep_for(lab::Millis(below(50)));
    } while (Clock::now() < until);
    ask("bypass", {{"on", false}});
  }

  // By the control thread, a moment after the worker has the standby decide.
  bool fault_was_said() const {
    return lab::eventually(
        [&] { return attached_->process().err().find("in its place") != std::string::npos; });
  }

  // The workers hang, their beats go stale, the kernel goes by on_failure, and comes back to them.
  void stand_still() {
    apply(policies_.front());
    const std::uint64_t failed = by_on_failure();
    kill(everybody_.back(), SIGSTOP);
    if (!lab::eventually([&] { return by_on_failure() > failed; }))
      problem("the data plane stood still, and the kernel did not go by on_failure");
    std::this_thread::sleep_for(lab::Millis(below(200)));
    kill(everybody_.back(), SIGCONT);
    const std::uint64_t inspected = kernel_sum({"inspected"});
    if (!lab::eventually([&] { return kernel_sum({"inspected"}) > inspected; }))
      problem("the data plane went on, and the kernel handed it nothing");
    ++found_.standstills;
  }
  std::uint64_t by_on_failure() const { return kernel_sum({"pass_failure", "drop_failure"}); }
  // Over all ports.
  std::uint64_t kernel_sum(std::initializer_list<const char*> reasons) const {
    std::uint64_t sum = 0;
    for (std::size_t port = 0; port < ifnames_.size(); ++port) {
      const auto counts = pins(port).kernel_counts();
      for (const char* reason : reasons) sum += counts.at(reason);
    }
    return sum;
  }

  // Nobody sends: what came in is accounted for to the last packet, and every frame. The hosts may say
  // something of their own while it is looked at; then it is looked at again.
  void rest(bool first) {
    traffic_.pause();
    std::vector<std::string> wrong;
    lab::eventually(
        [&] {
          wrong = look();
          return wrong.empty();
        },
        10s);
    for (std::string& what : wrong) problem(std::move(what));
    measure(first);
  }

  // What does not add up.
  std::vector<std::string> look() {
    const Json report = status();
    if (!report.contains("packets")) return {"no status: " + report.dump()};
    std::vector<std::string> wrong;
    const Json& packets = report.at("packets");
    const Json& frames = report.at("frames");
    const auto sum = [](const Json& object, std::initializer_list<const char*> names) {
      std::uint64_t total = 0;
      for (const char* name : names) total += object.at(name).get<std::uint64_t>();
      return total;
    };
    if (packets.at("in_flight") != 0 ||
        packets.at("in") != sum(packets, {"pass", "drop", "tx", "redirect", "error"}))
      wrong.push_back("packets are not accounted for: " + packets.dump());
    if (frames.at("batch") != 0 || frames.at("tx") != 0 || !frames.at("conserved").get<bool>() ||
        frames.at("total") != sum(frames, {"free", "fill", "batch", "tx"}))
      wrong.push_back("frames are not conserved: " + frames.dump());
    frames_ = frames.at("total");
    found_.in = packets.at("in");
    found_.pass = packets.at("pass");
    found_.drop = packets.at("drop");
    found_.tx = packets.at("tx");
    found_.redirect = packets.at("redirect");
    found_.error = packets.at("error");
    compare_with_maps_and_wire(wrong);
    return wrong;
  }

  // The report against the maps themselves, and these against what the far ends put on the wire.
  void compare_with_maps_and_wire(std::vector<std::string>& wrong) {
    // While a veth goes down the kernel hands what is left in its rings to the stack, past the program.
    constexpr std::uint64_t kVethRing = 256;
    std::uint64_t in = 0;
    found_.past_the_program = 0;
    for (std::size_t port = 0; port < ifnames_.size(); ++port) {
      const std::uint64_t received = pins(port).kernel("received");
      in += received;
      const std::uint64_t came = received - received_before_[port];
      const std::uint64_t sent = wires_[port]->b().counters().tx_packets - on_the_wire_[port];
      const std::uint64_t most = own_flaps_[port] * kVethRing * plan_.queues;
      if (came > sent || sent - came > most)
        wrong.push_back(fmt::format("{}: {} packets on the wire, {} received", ifnames_[port], sent, came));
      else
        found_.past_the_program += sent - came;
      if (std::string what = kernel_imbalance(port); !what.empty()) wrong.push_back(std::move(what));
    }
    if (in != found_.in)
      wrong.push_back(fmt::format("status says {} packets in, the maps {}", found_.in, in));
  }

  // Empty: it decided as many as it received.
  std::string kernel_imbalance(std::size_t port) const {
    const auto counts = pins(port).kernel_counts();
    const auto outcomes = lab::Pins::outcomes(counts);
    if (counts.at("received") == outcomes) return {};
    return fmt::format("{}: the kernel received {} packets and decided {}", ifnames_[port],
                       counts.at("received"), outcomes);
  }

  void measure(bool first) {
    const auto nobody_asks = sampler_.pause();
    std::int64_t rss = 0, files = 0;
    for (const pid_t pid : everybody_) rss += own_memory_kib(pid);
    // The last answer's connection may not be closed yet.
    lab::eventually([&] {
      files = 0;
      for (const pid_t pid : everybody_) files += descriptors(pid);
      return first || files <= first_files_;
    });
    if (first) {
      first_rss_ = rss;
      first_files_ = files;
    }
    found_.rss_kib = static_cast<std::uint64_t>(rss);
    found_.descriptors = static_cast<std::uint64_t>(files);
    found_.rss_growth_kib = rss - first_rss_;
    found_.descriptor_growth = files - first_files_;
    if (found_.rss_growth_kib > kRssGrowthKib)
      problem(fmt::format("memory grew by {} KiB to {} KiB", found_.rss_growth_kib, rss));
    if (found_.descriptor_growth > 0)
      problem(fmt::format("descriptors grew by {} to {}", found_.descriptor_growth, files));
  }

  // Another data plane goes on.
  void kill_data_plane() {
    kill(everybody_.back(), SIGKILL);
    const auto lives = [&] {
      try {
        const Json life = status().value("data_plane", Json::object());
        return life.value("deaths", 0) == 1 && life.value("lives", false);
      } catch (const std::exception&) {
        return false;
      }
    };
    if (!lab::eventually(lives, 30s))
      problem("the data plane did not come back: " + attached_->process().err());
  }

  void finish() {
    watch_.reset();
    if (plan_.end == End::data_plane_killed) kill_data_plane();
    if (plan_.end != End::all_killed) {
      const lab::Outcome outcome = attached_->detach();
      traffic_.pause();
      if (outcome.status != 0) problem("detach: " + outcome.out + outcome.err);
      const auto line = outcome.out.find(R"("event":"end")");
      if (line == std::string::npos) return problem("no account at the end: " + outcome.out);
      const auto start = outcome.out.rfind('\n', line) + 1;
      const Json account =
          Json::parse(outcome.out.substr(start, outcome.out.find('\n', line) - start), nullptr, false);
      if (!account.value("frames_conserved", false) || !account.value("packets_balanced", false))
        problem("the account at the end does not balance: " + account.dump());
    } else {
      attached_->process().signal(SIGKILL);
      kill(everybody_.back(), SIGKILL);
      const int status = attached_->process().wait(10s);
      if (status != 137) problem(fmt::format("attach ended with {}: {}", status, attached_->process().err()));
      traffic_.pause();
    }
    std::uint64_t handed = 0, accounted = 0;
    found_.in = 0;
    for (std::size_t port = 0; port < ifnames_.size(); ++port) {
      std::string wrong;
      lab::eventually([&] {
        wrong = kernel_imbalance(port);
        return wrong.empty();
      });
      if (!wrong.empty()) problem(std::move(wrong));
      found_.in += pins(port).kernel("received");
      handed += pins(port).kernel("inspected");
      const auto worker = pins(port).worker_counts();
      accounted += lab::Pins::ends(worker) + worker.at("lost_in_kernel") - worker.at("lost_with_worker");
    }
    found_.in_flight_at_death = handed - accounted;
    if (plan_.end == End::detached && handed != accounted)
      problem(fmt::format("{} packets were handed to user space, {} came to an end", handed, accounted));
    // More than there are frames cannot have been in flight.
    if (handed < accounted || handed - accounted > frames_)
      problem(fmt::format("{} packets were handed to user space, {} came to an end, and there are {} frames",
                          handed, accounted, frames_));
  }

  const lab::Namespace& host_;
  const std::vector<const lab::Veth*>& wires_;
  Traffic& traffic_;
  const Plan& plan_;
  Sampler& sampler_;
  std::mt19937_64& random_;
  std::vector<std::string> ifnames_, policies_;
  std::unique_ptr<Attached> attached_;
  std::unique_ptr<Watch> watch_;
  std::vector<pid_t> everybody_;
  std::vector<std::uint64_t> on_the_wire_, received_before_, own_flaps_;
  std::uint64_t frames_ = 0;
  std::int64_t first_rss_ = 0, first_files_ = 0;
  Found found_;
};

}  // namespace

const char* name_of(End end) {
  switch (end) {
    case End::detached:
      return "detached";
    case End::data_plane_killed:
      return "data plane killed";
    case End::all_killed:
      return "all killed";
  }
  return "";
}

Json to_json(const Found& found) {
  return {{"in", found.in},
          {"pass", found.pass},
          {"drop", found.drop},
          {"tx", found.tx},
          {"redirect", found.redirect},
          {"error", found.error},
          {"in_flight_at_death", found.in_flight_at_death},
          {"swaps", found.swaps},
          {"flaps", found.flaps},
          {"bypasses", found.bypasses},
          {"standstills", found.standstills},
          {"past_the_program", found.past_the_program},
          {"rss_kib", found.rss_kib},
          {"rss_growth_kib", found.rss_growth_kib},
          {"descriptors", found.descriptors},
          {"descriptor_growth", found.descriptor_growth},
          {"problems", found.problems}};
}

Found live(const lab::Namespace& host, const std::vector<const lab::Veth*>& wires, Traffic& traffic,
           const Plan& plan, Sampler& sampler, std::mt19937_64& random) {
  return Life(host, wires, traffic, plan, sampler, random).run();
}

}  // namespace xdpgpu::soak
