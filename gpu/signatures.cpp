// SPDX-License-Identifier: MIT
#include "gpu/signatures.hpp"

#include <algorithm>

namespace xdpgpu::gpu::signatures {
namespace {

constexpr u32 kMostConditions = 32;
// Bytes of a number, and of one that is written as text.
constexpr u32 kMostBytes = 8, kMostDigits = 32;

bool known(const Amount& amount) { return !amount.variable || *amount.variable < kMostVariables; }
bool known(const std::optional<Amount>& amount) { return !amount || known(*amount); }
bool possible(const Number& number) {
  return known(number.offset) && number.bytes <= (number.base ? kMostDigits : kMostBytes);
}
bool possible(const Mask& mask) { return !mask || *mask != 0; }

bool possible(const Content& content) {
  return !content.bytes.empty() && content.bytes.size() <= kMostContent && known(content.offset) &&
         known(content.depth) && known(content.distance) && known(content.within);
}
bool possible(const ByteTest& test) {
  return possible(test.number) && possible(test.mask) && known(test.value);
}
bool possible(const ByteJump& jump) { return possible(jump.number); }
bool possible(const ByteExtract& extract) {
  return possible(extract.number) && extract.align != 0 && extract.variable < kMostVariables;
}
bool possible(const ByteMath& math) {
  return possible(math.number) && possible(math.mask) && known(math.right) && math.variable < kMostVariables;
}
bool possible(const DataAt& at) { return known(at.offset); }
bool possible(const Regex& regex) {
  const std::size_t count = regex.positions.size();
  const auto within = [&](const Positions& some) { return (some >> count).none(); };
  return count <= kMostPositions && regex.follow.size() == count &&
         std::all_of(regex.positions.begin(), regex.positions.end(),
                     [&](u8 set) { return set < regex.sets.size(); }) &&
         std::all_of(regex.follow.begin(), regex.follow.end(), within) && within(regex.first) &&
         within(regex.again) && within(regex.last) && within(regex.last_at_end);
}
bool possible(const Expression& expression) { return expression.pattern.size() <= kMostContent; }

bool is_possible(const Step& step) {
  return std::visit([](const auto& one) { return possible(one); }, step);
}
bool is_expression(const Step& step) { return std::holds_alternative<Expression>(step); }

// Of a step's numbers, which variables there are.
bool varies(const Amount& amount) { return amount.variable.has_value(); }
bool varies(const std::optional<Amount>& amount) { return amount && varies(*amount); }
bool varies(const Content& content) {
  return varies(content.offset) || varies(content.depth) || varies(content.distance) ||
         varies(content.within);
}
bool varies(const ByteTest& test) { return varies(test.number.offset) || varies(test.value); }
bool varies(const ByteJump& jump) { return varies(jump.number.offset); }
bool varies(const ByteExtract&) { return true; }
bool varies(const ByteMath&) { return true; }
bool varies(const DataAt& at) { return varies(at.offset); }
bool varies(const Regex&) { return false; }
bool varies(const Expression&) { return false; }
bool has_variables(const Step& step) {
  return std::visit([](const auto& one) { return varies(one); }, step);
}

template <class Visit>
void each_step(const Signature& signature, const Visit& visit) {
  std::for_each(signature.payload.begin(), signature.payload.end(), visit);
  for (const NameIs& name : names_of(signature)) std::for_each(name.steps.begin(), name.steps.end(), visit);
}

// Each sentence's end is said of a rule.
constexpr const char* kTooManySteps = "has more than 64 steps: use fewer contents and tests";
constexpr const char* kTooManyNames =
    "asks more than 8 times for the name, its size, its sets or the operation of a message: ask less often";
constexpr const char* kNamesVary = "has variables of a name";

bool is_asked_too_often(std::span<const NameIs> names) {
  return names.size() > kMostNames || std::any_of(names.begin(), names.end(), [](const NameIs& name) {
           return name.sizes.size() > kMostNames || name.sets.size() > kMostNames;
         });
}
bool have_variables(std::span<const NameIs> names) {
  return std::any_of(names.begin(), names.end(), [](const NameIs& name) {
    return std::any_of(name.steps.begin(), name.steps.end(), has_variables);
  });
}

bool has_its_fast_pattern(const Signature& signature) {
  if (!signature.fast_pattern) return true;
  const FastPattern& pattern = *signature.fast_pattern;
  if (pattern.buffer > names_of(signature).size()) return false;
  const auto& steps = searched_steps(signature);
  if (pattern.step >= steps.size()) return false;
  const auto* const content = std::get_if<Content>(&steps[pattern.step]);
  return content != nullptr && pattern.length != 0 && pattern.first < content->bytes.size() &&
         pattern.length <= content->bytes.size() - pattern.first;
}

}  // namespace

bool branches(const Regex& regex, std::size_t position) {
  Positions others = regex.follow[position];
  others.reset(position);
  if (position + 1 < kMostPositions) others.reset(position + 1);
  return others.any();
}

u32 turn_of(Action action) {
  switch (action) {
    case Action::pass:
      return 0;
    case Action::drop:
      return 1;
    case Action::alert:
      return 3;
    default:
      return 2;
  }
}

std::span<const NameIs> names_of(const Signature& signature) {
  if (signature.dns) return signature.dns->names;
  if (signature.hello) return signature.hello->names;
  if (signature.http) return signature.http->parts;
  return {};
}

const std::vector<Step>& searched_steps(const Signature& signature) {
  const u32 buffer = signature.fast_pattern->buffer;
  return buffer == 0 ? signature.payload : names_of(signature)[buffer - 1].steps;
}

const Content* found_by(const Signature& signature) {
  if (!signature.fast_pattern) return nullptr;
  const auto& content = std::get<Content>(searched_steps(signature)[signature.fast_pattern->step]);
  return content.negated ? nullptr : &content;
}

namespace {

bool counts_from_start(const Content& one) {
  return !one.relative() && (one.depth || one.offset.variable || one.offset.constant != 0);
}
bool counts_from_start(const ByteTest&) { return true; }
bool counts_from_start(const ByteJump&) { return true; }
bool counts_from_start(const ByteExtract&) { return true; }
bool counts_from_start(const ByteMath&) { return true; }
bool counts_from_start(const DataAt&) { return true; }
// What may begin at any byte may begin at the first one.
bool counts_from_start(const Regex& one) { return (one.first & ~one.again).any(); }
bool counts_from_start(const Expression&) { return true; }

bool is_relative(const Content& one) { return one.relative(); }
bool is_relative(const ByteTest& one) { return one.number.relative; }
bool is_relative(const ByteJump& one) { return one.number.relative && one.from != ByteJump::From::start; }
bool is_relative(const ByteExtract& one) { return one.number.relative; }
bool is_relative(const ByteMath& one) { return one.number.relative; }
template <class Other>
bool is_relative(const Other& one) {
  return one.relative;
}

// What moves the position when it matches.
bool moves(const Content& one) { return !one.negated; }
bool moves(const ByteJump&) { return true; }
bool moves(const ByteExtract&) { return true; }
bool moves(const ByteMath&) { return true; }
template <class Other>
bool moves(const Other&) {
  return false;
}

bool is_negated(const Content& one) { return one.negated; }
bool is_negated(const Regex& one) { return one.negated; }
bool is_negated(const Expression& one) { return one.negated; }
template <class Other>
bool is_negated(const Other&) {
  return false;
}

bool has_negated(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    return std::visit([](const auto& one) { return is_negated(one); }, step);
  });
}
bool is_of_body(const NameIs& name) {
  return name.part == HttpPart::request_body || name.part == HttpPart::response_body;
}

// Of a step that matches by where what is there ends: a stream goes on.
const char* end_that_is_asked(const Step& step) {
  const auto* const content = std::get_if<Content>(&step);
  if (content != nullptr && content->ends) return "asks for the end of a stream (endswith)";
  const auto* const jump = std::get_if<ByteJump>(&step);
  if (jump != nullptr && jump->from == ByteJump::From::end)
    return "asks for the end of a stream (byte_jump with from_end)";
  const auto* const data = std::get_if<DataAt>(&step);
  if (data != nullptr && data->negated) return "asks where a stream ends (isdataat with !)";
  const auto* const regex = std::get_if<Regex>(&step);
  if (regex != nullptr && (regex->empty_at_end || (regex->last_at_end & ~regex->last).any()))
    return "asks for the end of a stream ($ in pcre)";
  if (std::holds_alternative<Expression>(step))
    return "has an expression that no device decides, and a stream is on devices alone";
  return nullptr;
}

}  // namespace

const NameIs* body_of(const Signature& signature) {
  if (!signature.http) return nullptr;
  const auto& parts = signature.http->parts;
  const auto found = std::find_if(parts.begin(), parts.end(), is_of_body);
  return found == parts.end() ? nullptr : &*found;
}

bool from_start(const Signature& signature) {
  const NameIs* const body = body_of(signature);
  bool is_somewhere = false;  // the position is not the start's
  for (const Step& step : body != nullptr ? body->steps : signature.payload) {
    const bool relative = std::visit([](const auto& one) { return is_relative(one); }, step);
    if (relative ? !is_somewhere : std::visit([](const auto& one) { return counts_from_start(one); }, step))
      return true;
    is_somewhere = is_somewhere || std::visit([](const auto& one) { return moves(one); }, step);
  }
  return false;
}

bool negates(const Signature& signature) { return has_negated(signature.payload); }

bool asks_for_end(const Signature& signature) {
  const NameIs* const body = body_of(signature);
  return body != nullptr &&
         (!body->sizes.empty() || std::any_of(body->steps.begin(), body->steps.end(), [](const Step& step) {
           return end_that_is_asked(step) != nullptr;
         }));
}

bool asks_when_whole(const Signature& signature) {
  const NameIs* const body = body_of(signature);
  return body != nullptr && (has_negated(body->steps) || asks_for_end(signature));
}

std::optional<std::string> not_of_streams(const Signature& signature) {
  if (signature.header.protocols != std::bitset<256>().set(6)) return "is not for TCP alone";
  if (signature.dns) return "asks of DNS messages";
  if (signature.hello || signature.http) {
    if (!signature.payload.empty())
      return signature.hello ? "asks for the stream's contents beside those of its ClientHello"
                             : "asks for the stream's contents beside those of HTTP";
    return std::nullopt;
  }
  const Content* const fast = found_by(signature);
  if (fast == nullptr || signature.fast_pattern->buffer != 0)
    return "has no content that has to be there, by which a stream's rules are found";
  for (const Step& step : signature.payload)
    if (const char* const why = end_that_is_asked(step)) return why;
  return std::nullopt;
}

std::optional<std::string> beyond_bounds(const Signature& signature) {
  std::size_t steps = 0, tried_again = 0;
  bool possible = true;
  each_step(signature, [&](const Step& step) {
    const auto* const content = std::get_if<Content>(&step);
    steps++;
    tried_again += content != nullptr && content->tried_again;
    possible = possible && is_possible(step) && !is_expression(step);
  });
  if (steps > kMostSteps) return kTooManySteps;
  if (signature.conditions.size() > kMostConditions)
    return "has more than 32 conditions on headers: use fewer";
  if (tried_again > kMostTriedAgain)
    return "has more than 32 contents that others are relative to: use fewer";
  if (!possible) return "has a step with a length, a mask, a variable or an automaton that no device takes";
  const auto names = names_of(signature);
  if (is_asked_too_often(names) || (signature.dns && signature.dns->operations.size() > kMostNames))
    return kTooManyNames;
  if (have_variables(names)) return kNamesVary;
  if (signature.hello && (signature.dns || names.empty() || signature.where != Where::stream))
    return "asks of a ClientHello, and not of a stream's alone";
  if (signature.http &&
      (signature.dns || signature.hello || names.empty() || signature.where != Where::stream))
    return "asks of HTTP, and not of a stream's alone";
  const auto of_answers = [](const NameIs& name) { return is_of_answers(name.part); };
  if (signature.http && std::any_of(names.begin(), names.end(), of_answers) &&
      !std::all_of(names.begin(), names.end(), of_answers))
    return "asks of a request and of an answer by HTTP";
  if (std::any_of(names.begin(), names.end(), [&](const NameIs& name) {
        return signature.http && name.dot_prefix && name.part != HttpPart::host;
      }))
    return "asks for a dot in front of another part of HTTP than a request's host";
  if (signature.http && std::count_if(names.begin(), names.end(), is_of_body) > 1)
    return "asks twice for a body";
  if (const NameIs* const body = body_of(signature); body != nullptr && !body->sets.empty())
    return "looks a body up in a set";
  if (!has_its_fast_pattern(signature)) return "has a fast pattern that is in none of its contents";
  if (signature.where != Where::packet) return not_of_streams(signature);
  return std::nullopt;
}

std::optional<std::string> beyond_bounds(const HostPart& part) {
  std::size_t steps = 0;
  bool possible = true, asks = false;
  const auto look_at = [&](const std::vector<Step>& some) {
    steps += some.size();
    possible = possible && std::all_of(some.begin(), some.end(), [](const Step& step) {
                 return is_possible(step) && !std::holds_alternative<Regex>(step);
               });
    asks = asks || std::any_of(some.begin(), some.end(), is_expression);
  };
  look_at(part.payload);
  for (const NameIs& name : part.names) {
    look_at(name.steps);
    possible = possible && name.sets.empty();
  }
  if (steps > kMostSteps) return kTooManySteps;
  if (!possible || !asks) return "has a step with a length, a mask or a variable that no host takes";
  if (is_asked_too_often(part.names)) return kTooManyNames;
  if (have_variables(part.names)) return kNamesVary;
  return std::nullopt;
}

}  // namespace xdpgpu::gpu::signatures
