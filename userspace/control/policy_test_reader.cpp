// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "userspace/compiler/refusals.hpp"
#include "userspace/control/policy_test.hpp"
#include "userspace/control/program_reader.hpp"
#include "userspace/dataplane/counters.hpp"
#include "userspace/host/capture.hpp"
#include "userspace/policy/reader.hpp"

namespace xdpgpu::control {

using compiler::Refusal;
using policy::Place;

namespace {

constexpr u64 kLongestText = 4096;      // of names and words
constexpr u64 kLongestHex = 3 * 66000;  // digits of the longest frame, with something between bytes
constexpr u64 kMostPort = 65535;
constexpr u64 kMostRepeat = kMostCasePackets;
constexpr std::size_t kLeastFrame = 14, kMostFrame = 14 + 8 + 65535;

std::string path_beside(const std::string& file, const std::string& named) {
  const std::string path = (std::filesystem::path(file).parent_path() / named).lexically_normal().string();
  return path == "-" ? "./-" : path;  // a file of that name
}

const std::vector<std::string_view>& reasons() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    all.reserve(dataplane::kKernelCounters.size());
    for (const auto& counter : dataplane::kKernelCounters) all.emplace_back(counter.name);
    return all;
  }();
  return names;
}

}  // namespace

// One file, as it is read.
class PolicyTestFile {
 public:
  PolicyTestFile(PolicyTestReader& reader, std::string path, std::string_view text)
      : reader_(reader), report_(text, path) {
    test_.file = std::move(path);
  }

  tl::expected<PolicyTest, Refusal> read(const policy::Node& root) {
    const Place top{&root};
    const policy::Fields fields(report_, top, test_keys::kTest, "a test file");
    if (const auto version = fields.require("version")) policy::read_integer(report_, *version, 1, 1);
    policy::read_description(report_, top);
    const auto named = fields.require("policy");
    const auto path = named ? policy::read_string(report_, *named, kLongestText) : std::nullopt;
    const auto interface = fields.get("interface");
    if (interface) interface_ = policy::read_interface(report_, *interface);
    const auto cases = fields.require("cases");
    // A case is held against its policy.
    if (!report_.empty() || !path || !cases) return refused();
    test_.policy = path_beside(test_.file, *path);
    policy_place_ = &*named;
    u64 count = 0;
    policy::each_element(report_, *cases, [&](const Place& place) {
      if (++count <= kMostTestCases && !refusal_ && !report_.full()) read_case(place);
    });
    if (count == 0 && report_.empty()) report_.at(*cases, "has no case, so nothing would be tested");
    if (count > kMostTestCases) report_.at(*cases, fmt::format("has more than {} cases", kMostTestCases));
    if (!report_.empty() || refusal_) return refused();
    return std::move(test_);
  }

 private:
  tl::unexpected<Refusal> refused() {
    if (report_.empty() && refusal_) return tl::unexpected(std::move(*refusal_));
    return tl::unexpected(compiler::refusal(report_.take()));
  }

  void read_case(const Place& place) {
    const policy::Fields fields(report_, place, test_keys::kCase, "a case");
    if (!fields.is_object()) return;
    TestCase one;
    one.pointer = place.pointer();
    if (const auto name = fields.require("name"))
      one.name = policy::read_string(report_, *name, kLongestText).value_or("");
    if (!one.name.empty() && !names_.insert(one.name).second)
      report_.at(place, fmt::format("there is another case \"{}\": name them apart", one.name));
    policy::read_description(report_, place);
    std::string interface = interface_;
    if (const auto own = fields.get("interface")) interface = policy::read_interface(report_, *own);
    interfaces_.insert(interface);
    if (interfaces_.size() > kMostTestInterfaces)
      return report_.at(
          place, fmt::format("the file's packets come in by more than {} interfaces", kMostTestInterfaces));
    auto compiled = reader_.policy_of(test_.policy, interface);
    if (!compiled) {
      // What is wrong in the policy has its place there; that it is not there has one here.
      if (compiled.error().problems.empty() || !compiled.error().problems.front().file)
        report_.at(*policy_place_, compiled.error().sentence);
      else
        refusal_ = std::move(compiled.error());
      return;
    }
    one.policy = std::move(*compiled);
    policy_ = one.policy.get();
    if (const auto expect = fields.get("expect")) one.expect = read_expectation(*expect);
    if (const auto counts = fields.get("counts")) read_counts(*counts, one);
    const auto packets = fields.get("packets"), capture = fields.get("capture");
    if (packets.has_value() == capture.has_value())
      report_.at(place, "a case has either \"packets\" or a \"capture\"");
    else if (packets)
      read_packets(*packets, one);
    else
      read_capture(*capture, one);
    const bool asks = one.expect || !one.counts.empty() ||
                      std::any_of(one.packets.begin(), one.packets.end(),
                                  [](const TestPacket& packet) { return packet.expect.has_value(); });
    if (report_.empty() && !asks)
      report_.at(place, "nothing is expected of this case; say what in \"expect\" or \"counts\"");
    test_.cases.push_back(std::move(one));
  }

  void read_packets(const Place& place, TestCase& into) {
    u64 packets = 0;
    policy::each_element(report_, place, [&](const Place& element) {
      auto packet = read_packet(element);
      if (!packet) return;
      packets += packet->frames.size() * packet->repeat;
      into.packets.push_back(std::move(*packet));
    });
    if (packets > kMostCasePackets)
      report_.at(place, fmt::format("has {} packets, at most {} are taken", packets, kMostCasePackets));
    if (packets == 0 && report_.empty()) report_.at(place, "has no packet");
  }

  std::optional<TestPacket> read_packet(const Place& place) {
    TestPacket packet;
    if (place.node->as<std::string>() != nullptr) {
      const auto words = policy::read_string(report_, place, kLongestText);
      if (!words) return std::nullopt;
      packet.words = *words;
      return with_frames(place, std::move(packet), frames_of({.words = *words}));
    }
    const policy::Fields fields(report_, place, test_keys::kPacket, "a packet");
    if (!fields.is_object()) return std::nullopt;
    policy::read_description(report_, place);
    if (const auto repeat = fields.get("repeat"))
      packet.repeat = policy::read_integer(report_, *repeat, 1, kMostRepeat).value_or(1);
    packet.every_ns = read_spacing(fields, "every");
    packet.after_ns = read_spacing(fields, "after");
    if (const auto expect = fields.get("expect")) packet.expect = read_expectation(*expect);
    const auto words = fields.get("packet"), hex = fields.get("hex");
    if (words.has_value() == hex.has_value()) {
      report_.at(place, "a packet is given either in words (\"packet\") or as \"hex\"");
      return std::nullopt;
    }
    return hex ? read_hex(fields, *hex, std::move(packet)) : read_words(fields, *words, std::move(packet));
  }

  std::optional<TestPacket> read_hex(const policy::Fields& fields, const Place& place, TestPacket packet) {
    for (const char* key : {"payload", "payload_hex", "mtu", "fragments"})
      if (const auto other = fields.get(key))
        report_.at(*other, "goes with a packet in words alone; \"hex\" is the whole frame");
    const auto text = policy::read_string(report_, place, kLongestHex);
    if (!text) return std::nullopt;
    packet.words = text->size() <= 64 ? *text : text->substr(0, 64) + "...";
    auto bytes = bytes_of_hex(*text);
    if (bytes && (bytes->size() < kLeastFrame || bytes->size() > kMostFrame))
      bytes = Error(
          fmt::format("a frame has {} to {} bytes, this one {}", kLeastFrame, kMostFrame, bytes->size()));
    return with_frames(place, std::move(packet),
                       bytes ? Result<Frames>(Frames{std::move(*bytes)}) : Error(bytes.error()));
  }

  std::optional<TestPacket> read_words(const policy::Fields& fields, const Place& place, TestPacket packet) {
    const auto words = policy::read_string(report_, place, kLongestText);
    if (!words) return std::nullopt;
    packet.words = *words;
    PacketWords said{.words = *words};
    const auto text = fields.get("payload"), hex = fields.get("payload_hex");
    if (text && hex) report_.at(*hex, "the payload is said twice");
    if (text) {
      // Lines of a protocol end with control characters.
      const auto* const value = text->node->as<std::string>();
      if (value == nullptr)
        report_.at(*text, fmt::format("must be a string, is {}", text->node->type_name()));
      else
        said.payload = *value;
    } else if (hex) {
      const auto digits = policy::read_string(report_, *hex, kLongestHex);
      const auto bytes = digits ? bytes_of_hex(*digits) : Error(std::string());
      if (bytes)
        said.payload.emplace(bytes->begin(), bytes->end());
      else if (digits)
        report_.at(*hex, bytes.error());
    }
    if (const auto mtu = fields.get("mtu"))
      said.mtu = static_cast<u32>(policy::read_integer(report_, *mtu, 68, kMostPort).value_or(0));
    auto frames = frames_of(said);
    if (const auto order = fields.get("fragments"); order && frames) frames = in_order(*order, *frames);
    return with_frames(place, std::move(packet), std::move(frames));
  }

  // Those fragments that are named, counted from 1, in that order.
  Result<Frames> in_order(const Place& place, const Frames& all) {
    Frames some;
    policy::each_element(report_, place, [&](const Place& element) {
      if (const auto number = policy::read_integer(report_, element, 1, all.size());
          number && some.size() < kMostPort)
        some.push_back(all[*number - 1]);
    });
    if (some.empty() && report_.empty()) report_.at(place, "names no fragment");
    return some;
  }

  std::optional<TestPacket> with_frames(const Place& place, TestPacket packet, Result<Frames> frames) {
    if (!frames) {
      report_.at(place, frames.error());
      return std::nullopt;
    }
    packet.frames = std::move(*frames);
    for (const auto& frame : packet.frames) frame_bytes_ += frame.size();
    if (frame_bytes_ <= kMostFrameBytes) return packet;
    if (!std::exchange(too_long_, true))
      report_.at(place, fmt::format("the file's packets have more than {} MiB; put them into a capture",
                                    kMostFrameBytes >> 20));
    return std::nullopt;
  }

  u64 read_spacing(const policy::Fields& fields, const char* key) {
    const auto place = fields.get(key);
    if (!place) return 0;
    const auto ns = policy::read_time(report_, *place, "10ms");
    if (ns && *ns > kMostSpacingNs) report_.at(*place, "is more than 168h");
    return std::min(ns.value_or(0), kMostSpacingNs);
  }

  void read_capture(const Place& place, TestCase& into) {
    TestCapture capture;
    std::optional<Place> named = place;
    if (place.node->as<std::string>() == nullptr) {
      const policy::Fields fields(report_, place, test_keys::kCapture, "a capture");
      if (!fields.is_object()) return;
      named = fields.require("file");
      if (const auto first = fields.get("first"))
        capture.first = policy::read_integer(report_, *first, 1, ~u64{0} - 1).value_or(1);
      if (const auto last = fields.get("last"))
        capture.last =
            policy::read_integer(report_, *last, capture.first, ~u64{0} - 1).value_or(capture.first);
    }
    const auto file = named ? policy::read_string(report_, *named, kLongestText) : std::nullopt;
    if (!file) return;
    capture.file = path_beside(test_.file, *file);
    if (auto fits = check_capture(capture.file); !fits) report_.at(*named, fits.error());
    into.capture = std::move(capture);
  }

  // A pipe would be waited for.
  static Result<void> check_capture(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0)
      return Error(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    if (!S_ISREG(info.st_mode)) return Error(fmt::format("{} is no regular file", path));
    if (static_cast<u64>(info.st_size) > kMostCaptureBytes)
      return Error(fmt::format("{} has more than {} MiB", path, kMostCaptureBytes >> 20));
    if (const auto opened = host::Capture::open(path); !opened) return Error(opened.error());
    return {};
  }

  Expectation read_expectation(const Place& place) {
    Expectation expect;
    if (place.node->as<std::string>() != nullptr) {
      read_verdict(place, expect);
      return expect;
    }
    const policy::Fields fields(report_, place, test_keys::kExpect, "an expectation");
    if (const auto verdict = fields.get("verdict")) read_verdict(*verdict, expect);
    if (const auto reason = fields.get("reason"))
      if (const auto index = policy::read_word(report_, *reason, reasons()))
        expect.reason = std::string(reasons()[*index]);
    expect.rule = read_known(fields, "rule", rules_of_policy(), "rule");
    expect.pipeline = read_known(fields, "pipeline", pipelines_of_policy(), "pipeline");
    expect.target = read_known(fields, "target", policy_->ports, "interface");
    if (const auto stage = fields.get("stage")) read_stage(*stage, expect);
    if (const auto decided = fields.get("decided_by"))
      expect.decided_by = policy::read_string(report_, *decided, kLongestText);
    if (const auto mirrored = fields.get("mirrored_to")) {
      expect.mirrored_to.emplace();
      policy::each_element(report_, *mirrored, [&](const Place& element) {
        if (auto name = known(element, pipelines_of_policy(), "pipeline"))
          expect.mirrored_to->push_back(std::move(*name));
      });
    }
    if (const auto length = fields.get("changed_length"))
      expect.changed_length = policy::read_integer(report_, *length, 1, kMostFrame);
    if (const auto alerts = fields.get("alerts")) {
      expect.alerts.emplace();
      policy::each_element(report_, *alerts, [&](const Place& element) {
        if (const auto sid = policy::read_integer(report_, element, 0, ~u32{0}))
          expect.alerts->push_back(*sid);
      });
    }
    if (fields.is_object() && report_.empty() && expect.text().empty()) report_.at(place, "expects nothing");
    return expect;
  }

  void read_verdict(const Place& place, Expectation& into) {
    if (const auto word = policy::read_word(report_, place, test_keys::kVerdicts))
      into.verdict = std::string(test_keys::kVerdicts[*word]);
  }

  // A stage's number in its pipeline, or its kind.
  void read_stage(const Place& place, Expectation& into) {
    if (place.node->as<std::string>() == nullptr) {
      if (const auto number = policy::read_integer(report_, place, 1, 255))
        into.stage = std::to_string(*number);
      return;
    }
    std::vector<std::string> kinds;
    for (const auto& pipeline : policy_->policy.pipelines)
      for (const auto& stage : pipeline.stages) kinds.emplace_back(gpu::stage_name(stage));
    into.stage = known(place, kinds, "stage");
  }

  std::optional<std::string> read_known(const policy::Fields& fields, const char* key,
                                        const std::vector<std::string>& names, const char* what) {
    const auto place = fields.get(key);
    return place ? known(*place, names, what) : std::nullopt;
  }
  // A name that the policy has: another one is never met.
  std::optional<std::string> known(const Place& place, const std::vector<std::string>& names,
                                   const char* what) {
    auto name = policy::read_string(report_, place, kLongestText);
    if (!name || std::find(names.begin(), names.end(), *name) != names.end()) return name;
    const std::vector<std::string_view> views(names.begin(), names.end());
    report_.at(place,
               fmt::format("the policy has no {} \"{}\"{}", what, *name, policy::suggestion(views, *name)));
    return std::nullopt;
  }
  std::vector<std::string> rules_of_policy() const { return policy_->tables.rule_names; }
  std::vector<std::string> pipelines_of_policy() const {
    std::vector<std::string> names;
    for (const auto& pipeline : policy_->policy.pipelines) names.push_back(pipeline.name);
    return names;
  }

  void read_counts(const Place& place, TestCase& into) {
    const policy::Fields fields(report_, place, test_keys::kVerdicts, "\"counts\"");
    for (const auto word : test_keys::kVerdicts)
      if (const auto count = fields.get(word))
        into.counts[std::string(word)] =
            policy::read_integer(report_, *count, 0, kMostCasePackets).value_or(0);
    if (fields.is_object() && report_.empty() && into.counts.empty()) report_.at(place, "counts nothing");
  }

  PolicyTestReader& reader_;
  policy::Report report_;
  PolicyTest test_;
  std::optional<Refusal> refusal_;  // of the policy
  const Place* policy_place_ = nullptr;
  std::string interface_ = "(ingress)";
  const compiler::CompiledPolicy* policy_ = nullptr;  // of the case that is read
  std::set<std::string> names_, interfaces_;
  u64 frame_bytes_ = 0;
  bool too_long_ = false;
};

tl::expected<PolicyTestReader::PolicyPtr, Refusal> PolicyTestReader::policy_of(const std::string& path,
                                                                               const std::string& interface) {
  PolicyPtr& known = policies_[{path, interface}];
  if (known) return known;
  auto source = compiler::read_policy(path, object_reader());
  if (!source) return tl::unexpected(std::move(source.error()));
  auto compiled = compiler::compile_policy_anywhere(std::move(*source), interface, seed_);
  if (!compiled) return tl::unexpected(std::move(compiled.error()));
  known = std::make_shared<const compiler::CompiledPolicy>(std::move(*compiled));
  return known;
}

tl::expected<PolicyTest, Refusal> PolicyTestReader::read(const std::string& path) {
  const auto text = policy::read_policy_text(path);
  if (!text) return tl::unexpected(compiler::refusal(text.error()));
  const auto root = policy::read_document(*text);
  PolicyTestFile file(*this, path, *text);
  if (root) return file.read(*root);
  policy::Report report(*text, path);
  for (const auto& error : root.error()) report.at_offset(error.pointer, error.offset, error.message);
  return tl::unexpected(compiler::refusal(report.take()));
}

}  // namespace xdpgpu::control
