// SPDX-License-Identifier: MIT
//
// userspace/control/policy_test.hpp: tests of policies, as operators write them for their own CI: a file
// names a policy, and cases of packets with what is expected of them (config/policy-tests.md has the
// language).
//
//   PolicyTestReader reader(seed);
//   auto test = reader.read("tests/firewall.json");
//   for (const TestCase& one : test->cases) auto result = run_case(one, options);
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/packet_words.hpp"
#include "userspace/control/replay.hpp"

namespace xdpgpu::control {

// What of a test file is read at most.
inline constexpr u64 kMostTestCases = 10'000;   // of a file
inline constexpr u64 kMostTestInterfaces = 64;  // that packets come in by: the policy is compiled for each
inline constexpr u64 kMostCasePackets = 1'000'000;    // of a case, fragments and repetitions counted
inline constexpr u64 kMostCaptureBytes = 1ull << 30;  // of a capture's file
inline constexpr u64 kMostFrameBytes = 64ull << 20;   // of a file's packets in words and hexadecimal digits
inline constexpr u64 kMostSpacingNs = 7ull * 24 * 3600 * 1'000'000'000;

// The keys, which config/policy-test.schema.json has, too.
namespace test_keys {
inline constexpr std::array<std::string_view, 6> kTest{"$schema", "version",   "description",
                                                       "policy",  "interface", "cases"};
inline constexpr std::array<std::string_view, 7> kCase{"name",    "description", "interface", "packets",
                                                       "capture", "expect",      "counts"};
inline constexpr std::array<std::string_view, 11> kPacket{"packet",      "hex",   "description", "payload",
                                                          "payload_hex", "mtu",   "fragments",   "repeat",
                                                          "every",       "after", "expect"};
inline constexpr std::array<std::string_view, 3> kCapture{"file", "first", "last"};
inline constexpr std::array<std::string_view, 10> kExpect{
    "verdict", "reason",     "rule",        "pipeline",       "stage",
    "target",  "decided_by", "mirrored_to", "changed_length", "alerts"};
inline constexpr std::array<std::string_view, 4> kVerdicts{"pass", "drop", "tx", "redirect"};
}  // namespace test_keys

// Each that is there must be so.
struct Expectation {
  std::optional<std::string> verdict, reason, rule, pipeline, stage, target, decided_by;
  std::optional<std::vector<std::string>> mirrored_to;  // names in their order
  std::optional<u64> changed_length;
  std::optional<std::vector<u64>> alerts;  // signature ids in their order
  // "drop, rule "known bad"".
  std::string text() const;
  // What differs, in words; empty: nothing.
  std::string differs(const PacketVerdict& verdict) const;
};

struct TestPacket {
  std::string words;  // or hexadecimal digits, as they were written
  Frames frames;      // in the order in which they come
  u64 repeat = 1, every_ns = 0, after_ns = 0;
  std::optional<Expectation> expect;  // of each of its frames; else the case's
};

struct TestCapture {
  std::string file;  // its path from here
  u64 first = 1, last = ~u64{0};
};

struct TestCase {
  std::string name, pointer;  // JSON pointer
  std::shared_ptr<const compiler::CompiledPolicy> policy;
  std::vector<TestPacket> packets;  // or
  std::optional<TestCapture> capture;
  std::optional<Expectation> expect;  // of each packet that has none of its own
  std::map<std::string, u64> counts;  // packets by verdict
};

struct PolicyTest {
  std::string file, policy;  // paths, as they are named and from here
  std::vector<TestCase> cases;
};

// Reads test files, and compiles each policy once for each interface that its packets come in by.
class PolicyTestReader {
 public:
  // seed: of the key by which flows are hashed (compiler::compile_policy_anywhere).
  explicit PolicyTestReader(u64 seed) : seed_(seed) {}
  // Relative paths in the file start where the file is. What is refused has its place in the file, or in the
  // policy.
  tl::expected<PolicyTest, compiler::Refusal> read(const std::string& path);

 private:
  using PolicyPtr = std::shared_ptr<const compiler::CompiledPolicy>;
  tl::expected<PolicyPtr, compiler::Refusal> policy_of(const std::string& path, const std::string& interface);
  friend class PolicyTestFile;

  u64 seed_;
  std::map<std::pair<std::string, std::string>, PolicyPtr> policies_;  // by path and interface
};

// A packet that was not as expected.
struct TestFailure {
  u64 packet = 0;  // from 1: of the case, or of its capture
  std::string words, expected, came;
  static void fields(auto& self, auto& field) {
    field("packet", self.packet);
    field("words", self.words);
    field("expected", self.expected);
    field("came", self.came);
  }
};

struct CaseResult {
  std::string name, pointer;
  bool ok = true;
  u64 packets = 0;
  std::map<std::string, u64> verdicts;
  std::vector<TestFailure> failures;  // the first ones
  u64 more_failures = 0;
  std::vector<std::string> problems;  // of the whole: counts, a damaged capture
  static void fields(auto& self, auto& field) {
    field("name", self.name);
    field("pointer", self.pointer);
    field("ok", self.ok);
    field("packets", self.packets);
    field("verdicts", self.verdicts);
    field("failures", self.failures);
    field("more_failures", self.more_failures);
    field("problems", self.problems);
  }
};

struct CaseRun {
  CaseResult result;
  std::string kernel_part, device;  // as of Replay
};

// Decides on the case's packets as `replay` does, with nothing remembered at its beginning. The error is a
// sentence: it could not be run.
Result<CaseRun> run_case(const TestCase& test, const ReplayOptions& options);

}  // namespace xdpgpu::control
