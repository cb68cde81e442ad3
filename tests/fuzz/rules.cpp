// SPDX-License-Identifier: MIT
//
// Any bytes as a rule file. What is refused is refused with its place and a reason; what is taken has its
// fast pattern within itself, and patterns that are the same when they are written and read again. Either
// packets decide it, by a signature whose parts are within its bounds, or it is said what stands in the way.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

#include "tests/fuzz/target.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"

namespace xdpgpu::fuzz {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void judge(Input input, const rules::Rule& rule) {
  if (rule.sid == 0) fail(input, "a rule has no sid");
  for (const auto& buffer : rule.buffers)
    for (const auto& match : buffer.matches)
      if (const auto* const content = std::get_if<rules::Content>(&match)) {
        const auto again = rules::parse_pattern(rules::pattern_text(content->bytes));
        if (!again || *again != content->bytes) fail(input, "a pattern is another one when it is read again");
      }
  if (!rule.fast_pattern) return;
  if (rule.fast_pattern->buffer >= rule.buffers.size() ||
      rule.fast_pattern->match >= rule.buffers[rule.fast_pattern->buffer].matches.size() ||
      !std::holds_alternative<rules::Content>(
          rule.buffers[rule.fast_pattern->buffer].matches[rule.fast_pattern->match]))
    fail(input, "a fast pattern is none of the rule's contents");
}

namespace sig = gpu::signatures;

template <class T>
void judge(Input input, const sig::Ranges<T>& ranges) {
  for (std::size_t i = 0; i < ranges.size(); i++)
    if (ranges[i].last < ranges[i].first || (i > 0 && ranges[i].first <= ranges[i - 1].last))
      fail(input, "ranges are out of order");
}

void judge(Input input, const rules::Lowered& lowered) {
  if (lowered.signature.has_value() != lowered.not_yet.empty())
    fail(input, "a rule is decided and not, or neither");
  if (!lowered.signature) return;
  const auto& [header, payload, first] =
      std::tie(lowered.signature->header, lowered.signature->payload, lowered.signature->fast_pattern);
  for (const auto* const addresses : {&header.src, &header.dst}) {
    judge(input, addresses->v4);
    judge(input, addresses->v6);
  }
  for (const auto* const ports : {&header.src_ports, &header.dst_ports})
    if (*ports) judge(input, **ports);
  if (sig::beyond_bounds(*lowered.signature)) fail(input, "a signature is beyond its bounds");
  for (const auto& step : payload) {
    const auto* const extract = std::get_if<sig::ByteExtract>(&step);
    const auto* const math = std::get_if<sig::ByteMath>(&step);
    if ((extract != nullptr && extract->variable >= sig::kMostVariables) ||
        (math != nullptr && math->variable >= sig::kMostVariables))
      fail(input, "a variable has no place");
  }
  if (!first) return;
  const auto& steps = sig::searched_steps(*lowered.signature);
  const auto* const content =
      first->step < steps.size() ? std::get_if<sig::Content>(&steps[first->step]) : nullptr;
  if (content == nullptr || first->first + first->length > content->bytes.size())
    fail(input, "what is looked for first is not in a content");
}

}  // namespace

// Some rules of each real file.
std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const char* const folder : {"rules", "signatures"})
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(XDPGPU_SOURCE_DIR "/tests/data") / folder)) {
      if (entry.path().extension() != ".rules") continue;
      const auto texts = rules::rule_texts(read(entry.path()), entry.path());
      for (std::size_t i = 0; i < texts.size(); i += texts.size() / 8 + 1)
        all.emplace_back(texts[i].text.begin(), texts[i].text.end());
    }
  return all;
}

}  // namespace xdpgpu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
  using namespace xdpgpu;
  using namespace xdpgpu::fuzz;
  const Input input(data, size);
  const std::string text(reinterpret_cast<const char*>(data), size);
  // The files that they name are like it, too.
  const auto read = [&](const std::string&) -> tl::expected<std::shared_ptr<const std::string>, std::string> {
    return std::make_shared<const std::string>(text);
  };
  const auto loaded = rules::load_rules({{"input", text}}, rules::usual_variables(), {}, {}, read);
  for (const auto& one : loaded.wrong)
    if (one.why.empty() || one.place.line == 0) fail(input, "a rule is refused without a place or a reason");
  for (const auto& rule : loaded.rules) {
    judge(input, rule);
    judge(input, rules::lower(rule));
  }
  (void)rules::parse_classes({"input", text});
  (void)rules::dataset_paths(text, "input");
  if (const auto strings = rules::parse_strings("input", text, "input"))
    for (std::size_t i = 0; i < strings->ends.size(); i++)
      if ((*strings)[i].size() > 1022) fail(input, "a string is longer than its line");
  (void)rules::parse_limits({"input", text}, rules::usual_variables());
  const auto matchers = rules::parse_matchers({"input", text});
  const auto modifications = rules::parse_modifications({"input", text});
  const rules::RuleText rule{"alert tcp any any -> any any (msg:\"a\"; sid:1;)", {"rule", 1}};
  if (matchers) (void)rules::selected(rule, {*matchers, *matchers, *matchers, {}});
  if (modifications) (void)rules::selected(rule, {{}, {}, {}, *modifications});
  return 0;
}
