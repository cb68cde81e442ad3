// SPDX-License-Identifier: MIT
#include "userspace/control/policy_test.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>

#include "userspace/control/decide.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/verdict_text.hpp"
#include "userspace/host/capture.hpp"

namespace xdpgpu::control {
namespace {

constexpr std::size_t kMostFailures = 10;  // of a case that are told
// A clock that has gone for a while, as on a host.
constexpr u64 kStartNs = 1'000'000'000'000;

// A packet whose verdict has not come yet.
struct Sent {
  const TestPacket* packet = nullptr;  // nullptr: of a capture
  u64 repetition = 0, piece = 0;
};

class Run {
 public:
  Run(const TestCase& test, Replay& replay) : test_(test), replay_(replay) {
    result_.name = test.name;
    result_.pointer = test.pointer;
  }

  Result<CaseResult> run() {
    if (auto fed = test_.capture ? feed_capture() : feed_words(); !fed) return Error(fed.error());
    if (auto finished = replay_.finish(); !finished) return Error(finished.error());
    take();
    compare_counts();
    result_.ok = result_.failures.empty() && result_.problems.empty();
    return std::move(result_);
  }

 private:
  Result<void> feed(std::span<const u8> frame, u32 length, u64 time_ns, const Sent& sent) {
    sent_.push_back(sent);
    if (auto fed = replay_.feed(frame, length, time_ns); !fed) return fed;
    take();
    return {};
  }

  Result<void> feed_words() {
    u64 now = kStartNs;
    for (const TestPacket& packet : test_.packets) {
      now += packet.after_ns;
      for (u64 i = 0; i < packet.repeat; i++) {
        if (i > 0) now += packet.every_ns;
        for (u64 piece = 0; piece < packet.frames.size(); piece++) {
          const auto& frame = packet.frames[piece];
          if (auto fed = feed(frame, static_cast<u32>(frame.size()), now, {&packet, i, piece}); !fed)
            return fed;
        }
      }
    }
    return {};
  }

  Result<void> feed_capture() {
    const TestCapture& from = *test_.capture;
    auto capture = host::Capture::open(from.file);
    if (!capture) return Error(capture.error());
    u64 number = 0;
    while (number < from.last) {
      const auto packet = (*capture)->next();
      if (!packet) break;
      if (++number < from.first) continue;
      if (number - from.first >= kMostCasePackets) {
        result_.problems.push_back(
            fmt::format("the capture has more than {} packets: name a range with \"first\" and \"last\"",
                        kMostCasePackets));
        return {};
      }
      if (auto fed = feed(packet->frame, packet->original_length, packet->time_ns, {}); !fed) return fed;
    }
    if (!(*capture)->problem().empty()) {
      result_.problems.push_back((*capture)->problem());
    } else if (const bool named = from.last != ~u64{0};
               number < from.first || (named && number < from.last)) {
      result_.problems.push_back(fmt::format("the capture has {} alone, and packet {} is named",
                                             counted(number, "packet"), named ? from.last : from.first));
    }
    return {};
  }

  void take() {
    for (const auto& verdict : replay_.take()) {
      const Sent sent = sent_.front();
      sent_.pop_front();
      result_.packets++;
      result_.verdicts[action_name(verdict.action)]++;
      const auto& own = sent.packet != nullptr ? sent.packet->expect : test_.expect;
      const Expectation* const expected = own ? &*own : test_.expect ? &*test_.expect : nullptr;
      if (expected == nullptr) continue;
      std::string came = expected->differs(verdict);
      if (came.empty()) continue;
      if (result_.failures.size() >= kMostFailures) {
        result_.more_failures++;
        continue;
      }
      const u64 offset = test_.capture ? test_.capture->first - 1 : 0;
      result_.failures.push_back(
          {verdict.number + offset, words_of(sent, verdict), expected->text(), std::move(came)});
    }
  }

  static std::string words_of(const Sent& sent, const PacketVerdict& verdict) {
    if (sent.packet == nullptr) return verdict.flow;
    std::string words = sent.packet->words;
    if (sent.packet->frames.size() > 1) words += fmt::format(", fragment {} of those named", sent.piece + 1);
    if (sent.packet->repeat > 1)
      words += fmt::format(", time {} of {}", sent.repetition + 1, sent.packet->repeat);
    return words;
  }

  void compare_counts() {
    for (const auto& [verdict, expected] : test_.counts) {
      const auto at = result_.verdicts.find(verdict);
      const u64 came = at == result_.verdicts.end() ? 0 : at->second;
      if (came != expected)
        result_.problems.push_back(
            fmt::format("expected {} with verdict {}, came {}", counted(expected, "packet"), verdict, came));
    }
  }

  const TestCase& test_;
  Replay& replay_;
  std::deque<Sent> sent_;
  CaseResult result_;
};

std::vector<u64> signature_ids(const PacketVerdict& verdict) {
  std::vector<u64> ids;
  for (const auto& alert : verdict.alerts) ids.push_back(alert.sid);
  return ids;
}

}  // namespace

std::string Expectation::text() const {
  std::vector<std::string> parts;
  if (verdict) parts.push_back(*verdict);
  const auto add = [&](const char* what, const std::optional<std::string>& value) {
    if (value) parts.push_back(fmt::format("{} \"{}\"", what, *value));
  };
  add("reason", reason);
  add("rule", rule);
  add("pipeline", pipeline);
  add("stage", stage);
  add("target", target);
  add("decided_by", decided_by);
  if (mirrored_to) parts.push_back(fmt::format("mirrored to [{}]", fmt::join(*mirrored_to, ", ")));
  if (changed_length) parts.push_back(fmt::format("changed to {} bytes", *changed_length));
  if (alerts) parts.push_back(fmt::format("alerts [{}]", fmt::join(*alerts, ", ")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string Expectation::differs(const PacketVerdict& came) const {
  std::vector<std::string> wrong;
  const auto compare = [&](const char* what, const std::optional<std::string>& expected,
                           const std::string& is) {
    if (expected && *expected != is)
      wrong.push_back(is.empty() ? fmt::format("no {}", what) : fmt::format("{} \"{}\"", what, is));
  };
  const bool other_verdict = verdict && *verdict != action_name(came.action);
  compare("reason", reason, reason_name(came.kernel_reason));
  compare("rule", rule, came.rule);
  compare("pipeline", pipeline, came.pipeline);
  // By its number or by its kind.
  const bool by_number = stage && !stage->empty() && (*stage)[0] >= '0' && (*stage)[0] <= '9';
  compare("stage", stage,
          !by_number               ? came.stage_kind
          : came.stage_number == 0 ? std::string()
                                   : std::to_string(came.stage_number));
  compare("target", target, came.target);
  compare("decided_by", decided_by, came.stage);
  if (mirrored_to && *mirrored_to != came.mirrors)
    wrong.push_back(fmt::format("mirrored to [{}]", fmt::join(came.mirrors, ", ")));
  if (changed_length && *changed_length != came.changed_length.value_or(0))
    wrong.push_back(came.changed_length ? fmt::format("changed to {} bytes", *came.changed_length)
                                        : std::string("not changed"));
  if (alerts && *alerts != signature_ids(came))
    wrong.push_back(fmt::format("alerts [{}]", fmt::join(signature_ids(came), ", ")));
  if (!other_verdict && wrong.empty()) return {};
  std::string text = action_name(came.action);
  if (!came.target.empty()) text += " to " + came.target;
  for (const auto& one : wrong) text += ", " + one;
  return fmt::format("{} ({})", text, why_of(came));
}

Result<CaseRun> run_case(const TestCase& test, const ReplayOptions& options) {
  auto replay = Replay::open(*test.policy, options);
  if (!replay) return Error(replay.error());
  auto result = Run(test, **replay).run();
  if (!result) return Error(result.error());
  return CaseRun{std::move(*result), (*replay)->kernel_part(), (*replay)->device()};
}

}  // namespace xdpgpu::control
