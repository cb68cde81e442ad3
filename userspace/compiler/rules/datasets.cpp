// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/datasets.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace xdpgpu::rules {
namespace {

constexpr std::size_t kLongestName = 63;    // Suricata cuts off the rest
constexpr std::size_t kLongestLine = 1022;  // of a longer one it makes two
constexpr std::string_view kBlank = " \t";
constexpr std::string_view kTypes[] = {"string", "md5", "sha256", "ipv4", "ipv6", "ip"};

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

// "type string": the word, and what stands behind it; nothing: there is none.
struct Word {
  std::string_view name;
  std::optional<std::string_view> value;
};
Word word_of(std::string_view text) {
  const auto space = text.find(' ');
  if (space == std::string_view::npos) return {text, std::nullopt};
  const auto value = text.substr(space);
  return {text.substr(0, space), value.substr(std::min(value.find_first_not_of(kBlank), value.size()))};
}

// The first word, which says nothing else.
std::optional<std::string_view> lone(const Word& word) {
  if (word.value && !word.value->empty()) return std::nullopt;
  return trimmed(word.name);
}

// Of a line without its end; nothing: it is none.
std::optional<std::string_view> decoded(std::string_view text, std::array<char, kLongestLine>& to) {
  const bool padded = text.size() % 4 == 0;
  if (text.size() == 2) return std::nullopt;
  std::size_t bytes = 0;
  const int failed = sodium_base642bin(
      reinterpret_cast<unsigned char*>(to.data()), to.size(), text.data(), text.size(), nullptr, &bytes,
      nullptr, padded ? sodium_base64_VARIANT_ORIGINAL : sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
  if (failed != 0) return std::nullopt;
  return std::string_view(to.data(), bytes);
}

}  // namespace

Result<Dataset> parse_dataset(std::string_view text) {
  std::vector<Word> words;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    one.remove_prefix(std::min(one.find_first_not_of(kBlank), one.size()));
    if (!one.empty()) words.push_back(word_of(one));
  }
  constexpr std::pair<std::string_view, Dataset::Do> kDo[] = {{"isset", Dataset::Do::is_set},
                                                              {"isnotset", Dataset::Do::is_not_set},
                                                              {"set", Dataset::Do::set},
                                                              {"unset", Dataset::Do::unset}};
  const auto what = words.empty() ? std::nullopt : lone(words[0]);
  const auto* const found =
      std::find_if(std::begin(kDo), std::end(kDo), [&](const auto& one) { return what == one.first; });
  if (found == std::end(kDo))
    return wrong(fmt::format("dataset {} says none of isset, isnotset, set and unset first", text));
  const auto name = words.size() < 2 ? std::nullopt : lone(words[1]);
  if (!name) return wrong(fmt::format("dataset {} has no name, or one with spaces", text));
  Dataset made{.what = found->second,
               .name = std::string(name->substr(0, kLongestName)),
               .type = {},
               .load = {},
               .save = {}};
  std::optional<std::string_view> load, save, state;
  const auto once = [&](std::optional<std::string_view>& to, const Word& word) -> Result<void> {
    if (to) return wrong(fmt::format("dataset {} says \"{}\" twice", made.name, word.name));
    to = word.value;
    return {};
  };
  for (std::size_t i = 2; i < words.size(); i++) {
    const Word& word = words[i];
    if (!word.value) return wrong(fmt::format("dataset {} has no value for \"{}\"", made.name, word.name));
    Result<void> taken;
    if (word.name == "type") {
      if (std::find(std::begin(kTypes), std::end(kTypes), *word.value) == std::end(kTypes))
        return wrong(fmt::format("dataset {} has no type \"{}\": string, md5, sha256, ipv4 and ip", made.name,
                                 *word.value));
      made.type = *word.value;
    } else if (word.name == "load") {
      taken = once(load, word);
    } else if (word.name == "save") {
      taken = once(save, word);
    } else if (word.name == "state") {
      taken = once(state, word);
    }
    // Others Suricata passes over; memcap and hashsize say how much room it gives the set.
    if (!taken) return wrong(std::move(taken.error()));
  }
  if (state && (load || save))
    return wrong(fmt::format("dataset {} has \"state\" beside \"load\" or \"save\"", made.name));
  made.load = load.value_or(state.value_or(std::string_view()));
  made.save = save.value_or(state.value_or(std::string_view()));
  return made;
}

std::string beside(const std::string& rule_file, const std::string& path) {
  return (std::filesystem::path(rule_file).parent_path() / path).string();
}

std::vector<std::string> dataset_paths(std::string_view content, const std::string& file) {
  std::vector<std::string> paths;
  if (content.find("dataset") == std::string_view::npos) return paths;
  for (const RuleText& rule : rule_texts(content, file, true)) {
    if (rule.text.find("dataset") == std::string::npos) continue;
    const auto parts = split_rule(rule.text);
    if (!parts) continue;
    for (const OptionText& option : parts->options) {
      if (option.name != "dataset" || !option.value) continue;
      const auto dataset = parse_dataset(*option.value);
      if (dataset && !dataset->load.empty() && dataset->save.empty())
        paths.push_back(beside(file, dataset->load));
    }
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

Result<gpu::signatures::StringSet> parse_strings(std::string name, std::string_view content,
                                                 const std::string& file) {
  gpu::signatures::StringSet made{.name = std::move(name), .bytes = {}, .ends = {}};
  const auto bad = [&](u32 line, std::string_view why) {
    return wrong(fmt::format("{}:{}: {}", file, line, why));
  };
  std::array<char, kLongestLine> bytes{};
  for (u32 number = 1; !content.empty(); number++) {
    const std::string_view line = content.substr(0, content.find('\n'));
    if (line.size() == content.size())
      return bad(number, "the last line has no end: Suricata takes its last letter for that");
    content.remove_prefix(line.size() + 1);
    if (line.empty()) continue;
    if (line.size() > kLongestLine) return bad(number, "the line is longer than 1022 bytes");
    const auto comma = line.find(',');
    if (comma != std::string_view::npos) {
      const auto value = line.substr(comma + 1);
      if (!rules::number(value.substr(0, value.find(',')), 65535))
        return bad(number, "what stands behind the comma is no number up to 65535");
    }
    const auto string = decoded(line.substr(0, comma), bytes);
    if (!string) return bad(number, "that is no base64 (RFC 4648), a string a line");
    made.add(*string);
  }
  return made;
}

Result<Datasets::Strings> Datasets::read(const std::string& name, const std::string& file) {
  if (const auto known = wrong_.find(file); known != wrong_.end()) return wrong(known->second);
  const auto content = read_(file);
  auto strings = content ? parse_strings(name, **content, file) : wrong(content.error());
  if (strings) return std::make_shared<const gpu::signatures::StringSet>(*std::move(strings));
  wrong_.emplace(file, strings.error());
  return wrong(std::move(strings.error()));
}

Result<void> Datasets::take(const Place& rule, Dataset& one) {
  const auto known = known_.find(in_lower_case(one.name));
  if (known != known_.end()) {
    const auto& [place, first] = known->second;
    if (!one.type.empty() && one.type != first.type)
      return wrong(fmt::format("dataset {} is of type {}, and of type {} in {}", one.name, one.type,
                               first.type, where(place)));
    const std::string file =
        one.load.empty() || !one.save.empty() ? std::string() : beside(rule.file, one.load);
    if ((!one.load.empty() || !one.save.empty()) && (file != first.file || one.save != first.save))
      return wrong(fmt::format("dataset {} is loaded or saved elsewhere than in {}", one.name, where(place)));
    const auto what = one.what;
    one = first;
    one.what = what;
    return {};
  }
  if (one.type.empty())
    return wrong(fmt::format("dataset {} has no type, and no rule in front says it", one.name));
  if (!one.load.empty() && one.save.empty()) one.file = beside(rule.file, one.load);
  if (one.type == "string" && !one.file.empty() && read_) {
    auto strings = read(one.name, one.file);
    if (!strings) return wrong(fmt::format("dataset {}: {}", one.name, strings.error()));
    one.strings = *std::move(strings);
  }
  known_.emplace(in_lower_case(one.name), Known{rule, one});
  return {};
}

}  // namespace xdpgpu::rules
