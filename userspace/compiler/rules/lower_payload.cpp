// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/lower_payload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "userspace/compiler/rules/automaton.hpp"
#include "userspace/compiler/rules/limits.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;

constexpr std::string_view kNoVariable = "a variable where Suricata takes none, or in front of what makes it";

sig::ByteTest::Op op_of(ByteTest::Op op) {
  using To = sig::ByteTest::Op;
  switch (op) {
    case ByteTest::Op::less:
      return To::less;
    case ByteTest::Op::more:
      return To::more;
    case ByteTest::Op::equal:
      return To::equal;
    case ByteTest::Op::less_or_equal:
      return To::less_or_equal;
    case ByteTest::Op::more_or_equal:
      return To::more_or_equal;
    case ByteTest::Op::and_:
      return To::common_bits;
    case ByteTest::Op::or_:
      return To::differs;
  }
  return To::equal;
}

sig::ByteMath::Op op_of(char op) {
  using To = sig::ByteMath::Op;
  switch (op) {
    case '-':
      return To::subtract;
    case '*':
      return To::multiply;
    case '/':
      return To::divide;
    case '<':
      return To::shift_left;
    case '>':
      return To::shift_right;
    default:
      return To::add;
  }
}

std::optional<u8> base_of(Digits digits) {
  switch (digits) {
    case Digits::none:
      return {};
    case Digits::hex:
      return u8{16};
    case Digits::dec:
      return u8{10};
    case Digits::oct:
      return u8{8};
    case Digits::any:
      return u8{0};
  }
  return {};
}

class Lowering {
 public:
  Lowering(const Rule& rule, const Buffer& buffer) : rule_(rule), buffer_(buffer) {}

  LoweredPayload done() && {
    limits_.reserve(buffer_.matches.size());
    for (std::size_t i = 0; i < buffer_.matches.size(); i++) {
      places_.push_back(made_.steps.size());
      if (const auto* const content = std::get_if<Content>(&buffer_.matches[i]))
        take(*content);
      else
        take(std::get<Condition>(buffer_.matches[i]));
    }
    fast_pattern();
    made_.matches_nothing = std::all_of(made_.steps.begin(), made_.steps.end(),
                                        [&](const sig::Step& step) { return may_match_nothing(step); });
    if (is_name() && extracts_ + computes_ != 0)
      not_yet(extracts_ != 0 ? "byte_extract" : "byte_math", "no numbers of a name are kept");
    if (made_.not_yet.empty()) place_contents();
    if (made_.not_yet.empty()) divide();
    return std::move(made_);
  }

 private:
  void not_yet(std::string_view keyword, std::string_view why) {
    made_.not_yet.push_back({std::string(keyword), std::string(why)});
  }

  bool is_name() const {
    return buffer_.name == "dns_query" || buffer_.name == "tls.sni" || http_part_of(buffer_.name, false) ||
           http_part_of(buffer_.name, true);
  }

  // ---- variables: Suricata numbers those of byte_extract and those of byte_math from 0 each, and keeps both
  // in the same places.

  void make_variable(std::map<std::string, u8, std::less<>>& made, u32& count, const std::string& name,
                     u8& number) {
    number = static_cast<u8>(std::min(count, sig::kMostVariables - 1));
    if (count++ == sig::kMostVariables)
      not_yet("byte_extract", fmt::format("it keeps more than {} numbers", sig::kMostVariables));
    made.try_emplace(name, number);
  }
  std::optional<u8> variable(const std::string& name) const {
    if (const auto found = extracted_.find(name); found != extracted_.end()) return found->second;
    if (const auto found = computed_.find(name); found != computed_.end()) return found->second;
    return {};
  }
  template <class OneOf>
  sig::Amount amount(std::string_view keyword, const OneOf& value) {
    if (const auto* const name = std::get_if<std::string>(&value)) {
      const auto found = variable(*name);
      if (!found) not_yet(keyword, kNoVariable);
      return {0, found.value_or(0)};
    }
    return {std::get<0>(value), {}};
  }

  // ---- contents

  void take(const Content& content) {
    ContentLimits limits;
    limits.size = static_cast<u16>(content.bytes.size());
    limits.negated = content.negated;
    limits.ends = content.ends_with;
    sig::Content made;
    made.bytes = content.bytes;
    made.negated = content.negated;
    made.nocase = content.nocase;
    made.ends = content.ends_with;
    const auto place = [&](const std::optional<Position>& from, auto& to, bool& has, std::optional<u8>& by) {
      if (!from) return;
      const auto found = amount("content", *from);
      has = true;
      by = found.variable;
      to = static_cast<std::remove_reference_t<decltype(to)>>(found.variable ? *found.variable
                                                                             : found.constant);
    };
    Variables variables;
    place(content.offset, limits.offset, limits.has_offset, variables.offset);
    place(content.depth, limits.depth, limits.has_depth, variables.depth);
    place(content.distance, limits.distance, limits.has_distance, variables.distance);
    place(content.within, limits.within, limits.has_within, variables.within);
    limits.varies = variables.distance || variables.within;
    // A depth counts from the offset, if both are constants.
    if (content.depth && !variables.depth && !variables.offset)
      limits.depth = static_cast<u16>(limits.depth + limits.offset);
    else if (content.depth && content.offset && variables.depth.has_value() != variables.offset.has_value())
      not_yet("content", "offset and depth are a variable and a constant");
    if (content.starts_with) {
      limits.depth = limits.size;
      limits.has_depth = true;
    }
    if (content.within || content.distance) from_position();
    if (!content.negated) position_is_of_.reset();
    // It is relative to the content or expression in front of it, whatever stands between them.
    if (content.within || (content.distance && (content.negated || !last_content()))) try_again();
    last_match_ = made_.steps.size();
    last_is_match_ = true;
    made_.steps.emplace_back(std::move(made));
    limits_.push_back({made_.steps.size() - 1, limits, variables});
  }

  sig::Content& content(std::size_t step) { return std::get<sig::Content>(made_.steps[step]); }
  // The last of contents and expressions, if it is a content.
  sig::Content* last_content() {
    return last_match_ ? std::get_if<sig::Content>(&made_.steps[*last_match_]) : nullptr;
  }
  // A step is relative to it.
  void try_again() {
    if (!last_match_) return;
    std::visit(sig::Visitor{[](sig::Content& one) { one.tried_again = true; },
                            [](sig::Expression& one) { one.tried_again = true; }, [](auto&) {}},
               made_.steps[*last_match_]);
  }

  struct Variables {
    std::optional<u8> offset, depth, distance, within;
  };
  struct Placed {
    std::size_t step;
    ContentLimits limits;
    Variables variables;
  };

  // Once all steps are known.
  void place_contents() {
    std::vector<LimitedStep> all;
    auto next = limits_.begin();
    auto other = others_.begin();
    for (std::size_t step = 0; step < made_.steps.size(); step++) {
      for (; other != others_.end() && *other == step; ++other) all.emplace_back();
      const bool is_content = next != limits_.end() && next->step == step;
      const auto* const regex = std::get_if<sig::Expression>(&made_.steps[step]);
      all.push_back({is_content ? &next->limits : nullptr, regex != nullptr && regex->relative});
      if (is_content) next++->limits.ends = content(step).ends;
    }
    if (!work_out_limits(all)) not_yet("content", "Suricata takes a variable's number for its value");
    by_dsize();
    for (const auto& [step, limits, variables] : limits_) {
      sig::Content& made = content(step);
      const bool anywhere =
          !limits.has_offset && !limits.has_depth && !limits.has_distance && !limits.has_within;
      if (!is_name() && is_first(step) && made.negated && anywhere) made.ends = false;
      const auto set = [&](std::optional<sig::Amount>& to, bool has, std::int64_t value,
                           const std::optional<u8>& by) {
        if (has) to = by ? sig::Amount{0, by} : sig::Amount{value, {}};
      };
      set(made.distance, limits.has_distance, limits.distance, variables.distance);
      set(made.within, limits.has_within, limits.within, variables.within);
      set(made.depth, variables.depth || limits.depth != 0, limits.depth, variables.depth);
      made.offset = variables.offset ? sig::Amount{0, variables.offset} : sig::Amount{limits.offset, {}};
      if (variables.depth && limits.depth != *variables.depth)
        not_yet("content", "Suricata takes a variable's number for its value");
    }
  }
  // Looked for first, and whole. Where that may not be in a payload, and has no place, it is not asked where
  // it ends.
  bool is_first(std::size_t step) const {
    return made_.fast_pattern && made_.fast_pattern->step == step && !chopped_;
  }

  // A number that dsize says, but for a least size, is a depth to Suricata: that changes nothing but for
  // these.
  void by_dsize() {
    if (is_name()) return;
    for (const auto& condition : rule_.conditions) {
      if (condition.keyword->name != "dsize") continue;
      const auto& range = std::get<Range>(condition.value);
      const bool varies = std::any_of(limits_.begin(), limits_.end(),
                                      [](const Placed& one) { return one.variables.depth.has_value(); });
      if (!limits_.empty() && (range.negated || (varies && range.most < 65535)))
        not_yet("dsize", "Suricata takes its number for a depth of contents");
    }
  }

  // ---- other steps

  sig::Number number(std::string_view keyword, const Number& from) {
    if (from.dce) not_yet("dce", "it is about what an application says");
    if (from.bytes == 0 && from.digits != Digits::none)
      not_yet(keyword, "a number as text that says no most digits");
    return {static_cast<u8>(from.bytes), amount(keyword, from.offset), from.relative, from.little_endian,
            base_of(from.digits)};
  }
  // The step is relative to what stands in front of it; in a name, to the last content or expression there,
  // whatever stands between them.
  void follows(std::string_view keyword, bool relative) {
    if (!relative) return;
    from_position();
    if (last_is_match_ || is_name()) try_again();
    if (!last_match_ && is_name() && &buffer_ != first_name())
      not_yet(keyword, "Suricata may take it for relative to a content of another name");
  }
  // Which of its matches PCRE2 chooses says where an expression ends.
  void from_position() {
    if (position_is_of_) expressions_.at(*position_is_of_).automaton.reset();
  }
  const Buffer* first_name() const {
    const auto first = std::find_if(rule_.buffers.begin(), rule_.buffers.end(),
                                    [&](const Buffer& one) { return one.name == buffer_.name; });
    return first == rule_.buffers.end() ? nullptr : &*first;
  }

  void take(const Condition& condition) {
    const std::string_view name = condition.keyword->name;
    if (const auto* const test = std::get_if<ByteTest>(&condition.value)) {
      auto from = number(name, test->number);
      made_.steps.emplace_back(
          sig::ByteTest{op_of(test->op), test->negated, from, test->number.mask, amount(name, test->value)});
      behind(name, test->number.relative);
    } else if (const auto* const jump = std::get_if<ByteJump>(&condition.value)) {
      using From = sig::ByteJump::From;
      auto from = number(name, jump->number);
      const auto post = amount(name, jump->post_offset);
      if (post.variable || jump->number.mask) not_yet(name, kNoVariable);
      made_.steps.emplace_back(sig::ByteJump{jump->from_beginning ? From::start
                                             : jump->from_end     ? From::end
                                                                  : From::number,
                                             from, jump->multiplier, jump->align,
                                             static_cast<std::int32_t>(post.constant)});
      behind(name, jump->number.relative, true);
    } else if (const auto* const extract = std::get_if<ByteExtract>(&condition.value)) {
      auto from = number(name, extract->number);
      if (from.offset.variable || extract->number.mask) not_yet(name, kNoVariable);
      u8 variable = 0;
      make_variable(extracted_, extracts_, extract->variable, variable);
      made_.steps.emplace_back(sig::ByteExtract{from, extract->multiplier, extract->align, variable});
      behind(name, extract->number.relative, true);
    } else if (const auto* const math = std::get_if<ByteMath>(&condition.value)) {
      auto from = number(name, math->number);
      if (from.offset.variable) not_yet(name, kNoVariable);
      const auto right = amount(name, math->right);
      u8 variable = 0;
      make_variable(computed_, computes_, math->variable, variable);
      made_.steps.emplace_back(sig::ByteMath{op_of(math->op), from, math->number.mask, right, variable});
      behind(name, math->number.relative, true);
    } else if (const auto* const at = std::get_if<DataAt>(&condition.value)) {
      data_at(*at);
    } else if (name == "bsize" && is_name()) {
      const auto& size = std::get<Range>(condition.value);
      made_.sizes.push_back({range_of(size), size.negated});
      others_.push_back(made_.steps.size());
    } else if (const auto* const length = std::get_if<UriLength>(&condition.value)) {
      auto& sizes = length->raw ? made_.raw_sizes : made_.sizes;
      sizes.push_back({range_of(length->length), length->length.negated});
      others_.push_back(made_.steps.size());
    } else if (const auto* const regex = std::get_if<Regex>(&condition.value)) {
      take(*regex);
    } else if (const auto* const dataset = std::get_if<Dataset>(&condition.value)) {
      take(*dataset);
    } else {
      not_yet(name, "packets are not looked at for it");
    }
  }
  // moves: it says what the position is behind it.
  void behind(std::string_view keyword, bool relative, bool moves = false) {
    follows(keyword, relative);
    if (moves) position_is_of_.reset();
    last_is_match_ = false;
  }

  void take(const Regex& regex) {
    if (!regex.captures.empty()) not_yet("pcre", "it keeps what its groups match");
    if (regex.relative) {
      from_position();
      try_again();
    }
    last_match_ = made_.steps.size();
    last_is_match_ = true;
    if (!regex.negated) position_is_of_ = last_match_;
    auto automaton = automaton_of(regex);
    expressions_.emplace(*last_match_,
                         Automaton{automaton ? std::optional(*std::move(automaton)) : std::nullopt,
                                   regex.negated || regex.matches_empty});
    made_.steps.emplace_back(
        sig::Expression{regex.pattern, regex.options, regex.negated, regex.relative, false, {}});
  }

  // ---- who asks for what

  // Where it is decided by an automaton.
  struct Automaton {
    std::optional<sig::Regex> automaton;
    bool matches_nothing;
  };

  // In a payload of no bytes.
  bool may_match_nothing(const sig::Step& step) const {
    const auto place = static_cast<std::size_t>(&step - made_.steps.data());
    const auto* const content = std::get_if<sig::Content>(&step);
    const auto* const at = std::get_if<sig::DataAt>(&step);
    const auto expression = expressions_.find(place);
    if (expression == expressions_.end())
      return (content != nullptr && content->negated) || (at != nullptr && at->negated);
    const auto& [automaton, matches_nothing] = expression->second;
    return automaton ? automaton->negated || automaton->empty || automaton->empty_at_end : matches_nothing;
  }

  // A device stops in front of the first expression that it has not. It gets there for each packet for which
  // all steps hold: up to there it tries what the host tries. That the contents behind it are somewhere
  // spares hosts packets, and one may be what the rule is found by.
  void divide() {
    std::size_t end = 0;
    while (end < made_.steps.size() && !is_for_hosts(end)) end++;
    std::vector<sig::Step> whole = made_.steps;
    for (auto& [place, one] : expressions_)
      if (place < end) made_.steps[place] = *std::move(one.automaton);
    if (end == whole.size()) return;
    if (!made_.sets.empty()) not_yet("pcre", "a host matches it, and its name is looked up in a set");
    made_.steps.resize(end);
    std::optional<sig::FastPattern> fast;
    for (std::size_t place = 0; place < whole.size(); place++) {
      const auto* const content = std::get_if<sig::Content>(&whole[place]);
      if (place >= end && (content == nullptr || content->negated)) continue;
      if (made_.fast_pattern && made_.fast_pattern->step == place) {
        fast = made_.fast_pattern;
        if (place >= end) fast->step = static_cast<u32>(made_.steps.size());
      }
      if (place < end) continue;
      sig::Content somewhere;
      somewhere.bytes = content->bytes;
      somewhere.nocase = content->nocase;
      made_.steps.emplace_back(std::move(somewhere));
    }
    // No expression is looked for where there is no payload.
    if (made_.steps.empty() && !is_name()) made_.steps.emplace_back(sig::DataAt{});
    made_.fast_pattern = fast;
    made_.rest = std::move(whole);
  }
  bool is_for_hosts(std::size_t step) const {
    const auto found = expressions_.find(step);
    return found != expressions_.end() && !found->second.automaton;
  }

  // Of a name alone.
  void take(const Dataset& dataset) {
    using Do = Dataset::Do;
    if (dataset.what == Do::set || dataset.what == Do::unset)
      return not_yet("dataset", "it changes the set: strings are not learnt");
    if (dataset.type != "string")
      return not_yet("dataset",
                     fmt::format("its set is of type {}: strings alone are looked up", dataset.type));
    if (!dataset.save.empty()) return not_yet("dataset", "its set is saved: strings are not learnt");
    if (!dataset.changed_by.empty())
      return not_yet("dataset",
                     fmt::format("rule {} changes its set: strings are not learnt", dataset.changed_by));
    if (!dataset.strings) return not_yet("dataset", "no file has its strings");
    made_.sets.push_back({{dataset.strings}, dataset.what == Do::is_not_set});
    others_.push_back(made_.steps.size());
  }

  void data_at(const DataAt& at) {
    const auto offset = amount("isdataat", at.offset);
    // That no byte is behind a content says where it ends.
    if (at.relative) from_position();
    sig::Content* const last = last_content();
    if (at.relative && at.negated && (last_is_match_ || is_name()) && last != nullptr && !offset.variable &&
        offset.constant == 1) {
      last->ends = true;
      return;
    }
    made_.steps.emplace_back(sig::DataAt{offset, at.relative, at.negated});
    behind("isdataat", at.relative);
  }

  void fast_pattern() {
    if (!rule_.fast_pattern || &rule_.buffers[rule_.fast_pattern->buffer] != &buffer_) return;
    const auto& content = std::get<Content>(buffer_.matches[rule_.fast_pattern->match]);
    made_.fast_pattern = sig::FastPattern{static_cast<u32>(places_[rule_.fast_pattern->match]), 0,
                                          static_cast<u32>(content.bytes.size())};
    chopped_ = content.chop.has_value();
    if (content.chop) {
      made_.fast_pattern->first = content.chop->first;
      made_.fast_pattern->length = content.chop->second;
    }
  }

  const Rule& rule_;
  const Buffer& buffer_;
  LoweredPayload made_;
  std::vector<Placed> limits_;
  std::vector<std::size_t> places_;  // of a match: its step
  std::vector<std::size_t> others_;  // steps in front of which a size or a set is asked for
  std::map<std::string, u8, std::less<>> extracted_, computed_;
  u32 extracts_ = 0, computes_ = 0;
  std::map<std::size_t, Automaton> expressions_;  // by step
  std::optional<std::size_t> last_match_;         // the last content or expression
  std::optional<std::size_t> position_is_of_;  // the expression that says what the position is, if one does
  bool chopped_ = false;                       // of the fast pattern a part is looked for
  bool last_is_match_ = false;                 // of what relative steps may be relative to
};

}  // namespace

sig::Range<u32> range_of(const Range& range) {
  const auto fitting = [](u64 value) { return static_cast<u32>(std::min<u64>(value, ~u32{0})); };
  return {fitting(range.least), fitting(range.most)};
}

std::optional<sig::HttpPart> http_part_of(std::string_view buffer, bool of_answers) {
  using Part = sig::HttpPart;
  constexpr std::pair<std::string_view, Part> kOfAnswers[] = {
      {"http_stat_code", Part::stat_code},
      {"http_stat_msg", Part::stat_msg},
      {"http_protocol", Part::answer_protocol},
      {"http_response_line", Part::response_line},
      {"http.server", Part::server},
      {"http.location", Part::location},
      {"http_cookie", Part::set_cookie},
      {"http_connection", Part::answer_connection},
      {"http_content_type", Part::answer_content_type},
      {"http_content_len", Part::answer_content_length},
      {"http_header", Part::answer_header},
      {"http_header_names", Part::answer_header_names},
      {"file_data", Part::response_body},
  };
  constexpr std::pair<std::string_view, Part> kOfRequests[] = {
      {"http_method", Part::method},
      {"http_uri", Part::uri},
      {"http_raw_uri", Part::raw_uri},
      {"http_protocol", Part::protocol},
      {"http_request_line", Part::request_line},
      {"http_host", Part::host},
      {"http_raw_host", Part::raw_host},
      {"http_user_agent", Part::user_agent},
      {"http_cookie", Part::cookie},
      {"http_referer", Part::referer},
      {"http_accept", Part::accept},
      {"http_accept_enc", Part::accept_encoding},
      {"http_accept_lang", Part::accept_language},
      {"http_connection", Part::connection},
      {"http_content_type", Part::content_type},
      {"http_content_len", Part::content_length},
      {"http_header", Part::header},
      {"http_header_names", Part::header_names},
      {"http_client_body", Part::request_body},
  };
  const auto parts =
      of_answers ? std::span<const std::pair<std::string_view, Part>>(kOfAnswers) : kOfRequests;
  for (const auto& [name, part] : parts)
    if (name == buffer) return part;
  return {};
}

LoweredPayload lower_payload(const Rule& rule, const Buffer& buffer) { return Lowering(rule, buffer).done(); }

}  // namespace xdpgpu::rules
