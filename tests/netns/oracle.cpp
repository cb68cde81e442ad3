// SPDX-License-Identifier: MIT
#include "tests/netns/oracle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace xdpgpu::lab {
namespace {

// By number modulo kClasses.
enum Class : std::uint64_t {
  kPipelines,  // another pipeline of another policy
  kLists,      // a list and the rules by it, which agree in each policy alone
  kSentBack,   // remembered by the kernel, which rewrites and sends back
  kSentOn,     // likewise, to the other port
  kRule,       // TCP: the kernel drops or passes
  kIpv6,
  kTagged,
  kStages,    // the two stages of one pipeline agree in each policy alone
  kEcho,      // ICMP: the kernel passes, or a pipeline sends
  kFragment,  // by `fragments`
  kDefault,
};
constexpr std::array kNames{"pipelines", "lists",  "sent back", "sent on",  "rule",   "IPv6",
                            "tagged",    "stages", "echo",      "fragment", "default"};
static_assert(kNames.size() == Oracle::kClasses);

enum Pipeline : std::uint8_t { kX = 1, kY, kBack, kOn, kStaged };
constexpr Fate sent(bool b, Pipeline by) { return static_cast<Fate>((b ? 0x20 : 0x10) + by); }

constexpr std::size_t kFlows = 16;
// Few, so that the kernel's answer is seen while a policy is in force.
constexpr std::size_t kCachedFlows = 3;
constexpr std::size_t kMarkerDigits = 10;
constexpr std::string_view kMarker = "oracle";

std::uint64_t class_of(std::uint64_t number) { return number % Oracle::kClasses; }
unsigned flow_of(std::uint64_t number) {
  const bool cached = class_of(number) == kSentBack || class_of(number) == kSentOn;
  return static_cast<unsigned>(number / Oracle::kClasses % (cached ? kCachedFlows : kFlows));
}

std::string balancer(bool b, Pipeline by, const std::string& more) {
  return fmt::format(R"({{"stage": "load_balance", "backends": [{{"mac": "02:00:00:00:{}:{:02x}"{}}}]{}}})",
                     b ? "0b" : "0a", static_cast<unsigned>(by), by == kY || by == kOn ? more : "",
                     by == kBack || by == kOn ? R"(, "cache": true)" : "");
}

// Where the packets' sources are: 10.9.0.16 and the next ones, of which a list holds every other one.
std::string source(unsigned flow) { return fmt::format("10.9.0.{}", 16 + flow); }
bool in_half(unsigned flow, bool b) { return (flow % 2 == 1) == b; }

std::uint32_t scattered(std::uint32_t i) { return i * 2654435761U; }

}  // namespace

std::string fate_name(Fate fate) {
  if (fate == kGone) return "gone";
  if (fate == kHost) return "passed to the host";
  constexpr std::array kPipelineNames{"", "x", "y", "back", "on", "staged"};
  const unsigned by = fate & 0xfU;
  if (fate == kUnknown || by == 0 || by >= kPipelineNames.size()) return "what neither policy knows";
  return fmt::format("sent by pipeline {} of {}", kPipelineNames[by], (fate & 0x20U) != 0 ? "B" : "A");
}

Oracle::Oracle(const Interface& left, const Interface& host, std::string right_ifname, const Size& size)
    : left_(left.mac()), host_(host.mac()), right_(std::move(right_ifname)), size_(size) {}

const char* Oracle::class_name(std::uint64_t number) { return kNames.at(class_of(number)); }

std::string Oracle::policy(bool b) const {
  const std::string to = fmt::format(R"(, "to": "{}")", right_);
  std::vector<std::string> rules;
  const auto rule = [&](const std::string& match, const std::string& action) {
    rules.push_back(fmt::format(R"({{"match": {{{}}}, "action": {}}})", match, action));
  };
  const auto inspect = [](const char* name) { return fmt::format(R"({{"inspect": "{}"}})", name); };
  rule(R"("proto": "udp", "family": "ipv4", "vlan": "none", "dst_port": 7001)", inspect(b ? "y" : "x"));
  rule(R"("proto": "udp", "src": "@half", "dst_port": 7002)", inspect(b ? "y" : "x"));
  rule(R"("proto": "udp", "dst_port": 7002)", inspect(b ? "x" : "y"));
  rule(R"("proto": "udp", "dst_port": 7003)", inspect(b ? "on" : "back"));
  rule(R"("proto": "udp", "dst_port": 7004)", inspect(b ? "back" : "on"));
  rule(R"("proto": "tcp", "dst_port": 7005)", b ? R"("pass")" : R"("drop")");
  rule(R"("proto": "udp", "dst": "fd09::/16", "dst_port": 7006)", inspect(b ? "x" : "y"));
  rule(R"("proto": "udp", "vlan": 10, "dst_port": 7007)", inspect(b ? "y" : "x"));
  rule(R"("proto": "udp", "dst_port": 7008)", inspect("staged"));
  rule(R"("proto": "icmp")", b ? inspect("y") : R"("pass")");
  // The same answers from tables of another order and size.
  if (b) std::reverse(rules.begin() + 3, rules.end());
  for (unsigned i = 0; i < (b ? 10U : 40U); ++i)
    rule(fmt::format(R"("proto": "tcp", "src": "192.0.2.{}", "dst_port": "{}-{}")", i, 100 * i, 100 * i + 50),
         R"("drop")");
  std::string all;
  for (const auto& one : rules) all += (all.empty() ? "" : ",\n") + one;

  std::string half;
  if (size_.prefixes == 0) {
    for (unsigned flow = 0; flow < kFlows; ++flow)
      if (in_half(flow, b)) half += fmt::format(R"({}"{}")", half.empty() ? "" : ", ", source(flow));
    half = "[" + half + "]";
  } else {
    half = fmt::format(R"({{"file": "{}"}})", kHalfFile);
  }

  // The first stage drops every other flow, which those are that the other policy keeps.
  std::string acl;
  for (std::size_t i = 0; i < size_.acl_rules; ++i)
    acl += fmt::format(
        R"({{"match": {{"src": "{}.{}.{}.0/24", "proto": "tcp", "dst_port": {}}}, "action": "drop"}}, )",
        11 + i / 65536, i / 256 % 256, i % 256, 1 + (i * 7 + (b ? 1 : 0)) % 60000);
  for (unsigned flow = 0; flow < kFlows; ++flow)
    if (in_half(flow, b))
      acl += fmt::format(R"({}{{"match": {{"src_port": {}}}, "action": "drop"}})", flow < 2 ? "" : ", ",
                         20000 + flow);

  return fmt::format(R"({{"version": 1, "default": "{}", "fragments": "{}", "on_overload": "drop",
 "on_failure": "drop", "lists": {{"half": {}}},
 "rules": [{}],
 "pipelines": {{"x": [{}], "y": [{}], "back": [{}], "on": [{}],
  "staged": [{{"stage": "acl", "rules": [{}]}}, {}]}}}})",
                     b ? "drop" : "pass", b ? "drop" : "pass", half, all, balancer(b, kX, to),
                     balancer(b, kY, to), balancer(b, kBack, to), balancer(b, kOn, to), acl,
                     balancer(b, kStaged, to));
}

std::string Oracle::half_file(bool b) const {
  std::string text;
  if (size_.prefixes == 0) return text;
  for (unsigned flow = 0; flow < kFlows; ++flow)
    if (in_half(flow, b)) text += source(flow) + "\n";
  // None of 10.0.0.0/8, where the packets come from.
  for (std::uint32_t i = 0, made = 0; made < size_.prefixes; ++i) {
    const std::uint32_t address = scattered(2 * i + (b ? 1 : 0));
    const unsigned first = address >> 24U;
    if (first == 10 || first == 0 || first >= 224) continue;
    text += fmt::format("{}.{}.{}.{}\n", first, address >> 16U & 255U, address >> 8U & 255U, address & 255U);
    ++made;
  }
  return text;
}

Frame Oracle::packet(std::uint64_t number) const {
  const unsigned flow = flow_of(number);
  // To nobody, so that no stack answers.
  PacketSpec spec{.src = left_,
                  .dst = host_,
                  .src_ip = "10.9.0.2",
                  .dst_ip = "10.9.0.200",
                  .src_port = static_cast<std::uint16_t>(20000 + flow),
                  .dst_port = static_cast<std::uint16_t>(7001 + class_of(number)),
                  .payload = fmt::format("{:>48}{}{:0{}}", "", kMarker, number, kMarkerDigits)};
  switch (class_of(number)) {
    case kLists:
      spec.src_ip = source(flow);
      break;
    case kRule:
      spec.protocol = kTcp;
      break;
    case kIpv6:
      spec.src_ip = "fd09::2";
      spec.dst_ip = "fd09::200";
      break;
    case kTagged:
      spec.vlans = {{10}};
      break;
    case kEcho:
      spec.protocol = kIcmp;
      break;
    case kFragment:
      spec.ip_id = static_cast<std::uint16_t>(number);
      return build_fragments(spec, 40).back();
    default:
      break;
  }
  return build(spec);
}

Fate Oracle::fate(std::uint64_t number, bool b) {
  const unsigned flow = flow_of(number);
  switch (class_of(number)) {
    case kPipelines:
    case kTagged:
      return sent(b, b ? kY : kX);
    case kLists:
      return sent(b, in_half(flow, false) ? kX : kY);
    case kSentBack:
      return sent(b, b ? kOn : kBack);
    case kSentOn:
      return sent(b, b ? kBack : kOn);
    case kRule:
      return b ? kHost : kGone;
    case kIpv6:
      return sent(b, b ? kX : kY);
    case kStages:
      return in_half(flow, b) ? kGone : sent(b, kStaged);
    case kEcho:
      return b ? sent(b, kY) : kHost;
    default:
      return b ? kGone : kHost;
  }
}

// ---- load ------------------------------------------------------------------------------------------

NumberedLoad::NumberedLoad(const Oracle& oracle, const Interface& from, unsigned pps, std::uint64_t most)
    : thread_([this, &oracle, sender = Sender(from), pps, most]() mutable {
        const auto start = std::chrono::steady_clock::now();
        std::vector<Frame> frames;
        while (!stop_ && issued_ < most) {
          const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
          // What was missed while others had the core is not made up for at once.
          const std::uint64_t due = std::min<std::uint64_t>(
              {static_cast<std::uint64_t>(elapsed.count() * pps), issued_ + pps / 250, most});
          frames.clear();
          for (std::uint64_t number = issued_; number < due; ++number)
            frames.push_back(oracle.packet(number));
          issued_ = std::max<std::uint64_t>(due, issued_);
          sender.send(frames);
          sent_ = issued_.load();
          std::this_thread::sleep_for(1ms);
        }
      }) {}

std::uint64_t NumberedLoad::end() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  return sent_;
}

// ---- observation -----------------------------------------------------------------------------------

Observer::Observer(const Interface& left, const Interface& right, const Interface& host, std::uint64_t most)
    : most_(most), fates_(std::make_unique<std::atomic<Fate>[]>(most)) {
  const auto start = [this](Place place, const Interface& at) {
    threads_.emplace_back(
        [this, place, sniffer = Sniffer(at)]() mutable { watch(place, std::move(sniffer)); });
  };
  start(Place::left, left);
  start(Place::right, right);
  start(Place::host, host);
}

void Observer::watch(Place place, Sniffer sniffer) {
  const auto see = [&](const Captured& captured) {
    const Frame& frame = captured.frame;
    constexpr std::size_t kTail = kMarker.size() + kMarkerDigits;
    if (frame.size() < 14 + kTail) return false;
    const std::string_view tail(reinterpret_cast<const char*>(frame.data()) + frame.size() - kTail, kTail);
    std::uint64_t number = 0;
    if (!tail.starts_with(kMarker) ||
        std::from_chars(tail.data() + kMarker.size(), tail.data() + kTail, number).ec != std::errc() ||
        number >= most_)
      return false;
    Fate fate = kUnknown;
    if (place == Place::host) {
      fate = kHost;
    } else if (frame[0] == 2 && frame[1] == 0 && frame[2] == 0 && frame[3] == 0) {
      const bool onward = frame[5] == kY || frame[5] == kOn;
      if (onward == (place == Place::right)) fate = sent(frame[4] == 0x0b, static_cast<Pipeline>(frame[5]));
    }
    if (fates_[number].exchange(fate) != kGone) ++twice_;
    ++arrived_;
    return false;
  };
  // All that has come is looked at before the end.
  bool last = false;
  while (!last) {
    last = stop_;
    sniffer.take(1, 50ms, see);
  }
  overrun_ += sniffer.lost();
}

void Observer::end() {
  stop_ = true;
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
}

}  // namespace xdpgpu::lab
