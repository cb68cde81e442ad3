// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/rule_words.hpp: the words of what a rule asks for: addresses, ports, conditions and
// steps (gpu/stages/signatures/layout.h). For the compiler of the stage alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "gpu/stages/compilers.hpp"
#include "gpu/stages/signatures/layout.h"
#include "gpu/stages/signatures/windows.hpp"
#include "maps/packet.h"

namespace xdpgpu::gpu::signatures {

// ---- words that many rules share -------------------------------------------------------------------------

// Pieces of the image, each there once.
class Shared {
 public:
  explicit Shared(Compiled& to) : to_(to) {}
  u32 at(const std::vector<u32>& words) {
    const auto [found, is_new] = places_.try_emplace(words, to_.here());
    if (is_new) to_.image.insert(to_.image.end(), words.begin(), words.end());
    return found->second;
  }

 private:
  Compiled& to_;
  std::map<std::vector<u32>, u32> places_;
};

inline u32 big_endian(const Address& address, std::size_t word) {
  u32 value = 0;
  for (std::size_t i = 0; i < 4; i++) value = value << 8 | address[word * 4 + i];
  return value;
}

inline std::vector<u32> words_of(const Ranges<Address>& ranges, std::size_t each) {
  std::vector<u32> words;
  for (const auto& range : ranges)
    for (const Address* address : {&range.first, &range.last})
      for (std::size_t i = 0; i < each; i++) words.push_back(big_endian(*address, i));
  return words;
}

// Kind, mask and value.
inline std::vector<u32> words_of(const ConnectionIs& is) {
  using Way = ConnectionIs::Way;
  u32 mask = XG_CONNECTION_SEEN, value = XG_CONNECTION_SEEN;
  if (is.way != Way::any) {
    mask |= XG_CONNECTION_HAS | XG_CONNECTION_ANSWERS;
    value |= XG_CONNECTION_HAS | (is.way == Way::to_client ? XG_CONNECTION_ANSWERS : 0);
  }
  if (is.established) mask |= XG_CONNECTION_ESTABLISHED;
  if (is.established.value_or(false)) value |= XG_CONNECTION_ESTABLISHED;
  return {XG_CONDITION_CONNECTION, mask, value};
}

// -> addresses
inline u32 place(const Addresses& addresses, Shared& shared, std::map<std::vector<u32>, u32>& heads,
                 Compiled& to) {
  const u32 v4 = shared.at(words_of(addresses.v4, 1)), v6 = shared.at(words_of(addresses.v6, 4));
  const std::vector<u32> head{static_cast<u32>(addresses.v4.size()), v4,
                              static_cast<u32>(addresses.v6.size()), v6};
  const auto [found, is_new] = heads.try_emplace(head, to.here());
  if (is_new) {
    to.image.insert(to.image.end(), head.begin(), head.end());
    to.points(found->second + 1);
    to.points(found->second + 3);
  }
  return found->second;
}

inline bool is_all(const Ranges<Address>& ranges, std::size_t bytes) {
  if (ranges.size() != 1) return false;
  const auto all = [&](const Address& address, u8 value) {
    return std::all_of(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(bytes),
                       [&](u8 byte) { return byte == value; });
  };
  return all(ranges[0].first, 0) && all(ranges[0].last, 0xff);
}
inline bool is_any(const Addresses& addresses) { return is_all(addresses.v4, 4) && is_all(addresses.v6, 16); }

inline std::vector<u32> words_of(const std::optional<Ranges<u16>>& ports) {
  if (!ports) return {0};
  std::vector<u32> words{static_cast<u32>(ports->size())};
  for (const auto& range : *ports) words.push_back(range.first | u32{range.last} << 16);
  return words;
}

// ---- conditions and steps --------------------------------------------------------------------------------

inline std::vector<u32> words_of(const Condition& condition) {
  const auto word = [](u32 kind, auto argument) { return kind | static_cast<u32>(argument) << 8; };
  return std::visit(
      Visitor{[&](const FieldIs& one) -> std::vector<u32> {
                return {word(XG_CONDITION_FIELD_IS, one.field) | (one.negated ? XG_CONDITION_NEGATED : 0),
                        one.values.first, one.values.last};
              },
              [&](const TcpFlagsAre& one) -> std::vector<u32> {
                return {word(XG_CONDITION_TCP_FLAGS, one.mode), one.flags | u32{one.mask} << 8,
                        one.some_of[0] | u32{one.some_of[1]} << 8};
              },
              [&](const FragmentBitsAre& one) -> std::vector<u32> {
                return {word(XG_CONDITION_FRAGMENT_BITS, one.mode), one.bits, 0};
              },
              [&](const IpOptionIs& one) -> std::vector<u32> {
                return {word(XG_CONDITION_IP_OPTION, one.type), 0, 0};
              },
              [&](const SameAddresses&) -> std::vector<u32> {
                return {XG_CONDITION_SAME_ADDRESSES, 0, 0};
              },
              [&](const ConnectionIs& one) -> std::vector<u32> { return words_of(one); }},
      condition);
}

// A step's words, with what is common to them.
class StepWords {
 public:
  explicit StepWords(u32 kind) { words_[0] = kind; }
  StepWords& flag(bool on, u32 bit) {
    if (on) words_[0] |= bit;
    return *this;
  }
  StepWords& argument(auto value) {
    words_[0] |= static_cast<u32>(value) << 24;
    return *this;
  }
  StepWords& word(u32 at, u64 value) {
    words_[at] = static_cast<u32>(value);
    return *this;
  }
  // Its low word, or its variable.
  StepWords& amount(u32 at, const Amount& amount, u32 variable) {
    flag(amount.variable.has_value(), variable);
    return word(at, amount.variable ? *amount.variable : static_cast<u64>(amount.constant));
  }
  StepWords& value(const Amount& amount) {
    if (!amount.variable) word(5, static_cast<u64>(amount.constant) >> 32);
    return this->amount(4, amount, XG_STEP_VAR_VALUE);
  }
  StepWords& number(const Number& number) {
    flag(number.relative, XG_STEP_RELATIVE);
    word(1, number.bytes | (number.base ? XG_NUMBER_TEXT | u32{*number.base} << 8 : 0) |
                (number.little_endian ? XG_NUMBER_LITTLE : 0));
    return amount(2, number.offset, XG_STEP_VAR_OFFSET);
  }
  StepWords& mask(const Mask& mask) {
    flag(mask.has_value(), XG_STEP_MASK);
    return word(3, mask.value_or(0));
  }
  const std::array<u32, XG_SIGNATURES_STEP>& words() const { return words_; }

 private:
  std::array<u32, XG_SIGNATURES_STEP> words_{};
};

inline StepWords words_of(const Content& one, Shared& shared) {
  StepWords step(XG_STEP_CONTENT);
  step.flag(one.negated, XG_STEP_NEGATED)
      .flag(one.nocase, XG_STEP_NOCASE)
      .flag(one.ends, XG_STEP_ENDS)
      .flag(one.depth.has_value(), XG_STEP_DEPTH)
      .flag(one.distance.has_value(), XG_STEP_DISTANCE)
      .flag(one.within.has_value(), XG_STEP_WITHIN)
      .flag(one.tried_again, XG_STEP_TRIED_AGAIN)
      .word(1, shared.at(bytes_as_words(one.bytes)))
      .word(2, one.bytes.size())
      .amount(3, one.offset, XG_STEP_VAR_OFFSET);
  if (one.depth) step.amount(4, *one.depth, XG_STEP_VAR_DEPTH);
  if (one.distance) step.amount(5, *one.distance, XG_STEP_VAR_DISTANCE);
  if (one.within) step.amount(6, *one.within, XG_STEP_VAR_WITHIN);
  return step;
}

static_assert(kMostPositions == XG_REGEX_MOST_WORDS * 32);

// Of a regular expression, its automaton. Bytes that the same positions have are of one set.
inline std::vector<u32> automaton_of(const Regex& regex) {
  const std::size_t count = regex.positions.size();
  const auto words = static_cast<u32>((count + 31) / 32);
  std::vector<u32> made{words | (regex.empty ? XG_REGEX_EMPTY : 0) |
                        (regex.empty_at_end ? XG_REGEX_EMPTY_AT_END : 0) | static_cast<u32>(count) << 16};
  std::vector<Positions> sets;
  for (std::size_t byte = 0; byte < 256; byte++) {
    Positions have;
    for (std::size_t i = 0; i < count; i++) have[i] = regex.sets[regex.positions[i]][byte];
    const auto known = std::find(sets.begin(), sets.end(), have);
    if (byte % 4 == 0) made.push_back(0);
    made.back() |= static_cast<u32>(known - sets.begin()) << byte % 4 * 8;
    if (known == sets.end()) sets.push_back(have);
  }
  const auto row = [&](const Positions& some) {
    for (u32 w = 0; w < words; w++)
      made.push_back(static_cast<u32>((some >> w * 32 & Positions(~u32{0})).to_ulong()));
  };
  Positions next, self, branches;
  for (std::size_t i = 0; i < count; i++) {
    next[i] = i + 1 < count && regex.follow[i][i + 1];
    self[i] = regex.follow[i][i];
    branches[i] = signatures::branches(regex, i);
  }
  for (const Positions& some :
       {regex.first, regex.again, regex.last, regex.last_at_end, next, self, branches})
    row(some);
  for (const Positions& some : regex.follow) row(some);
  for (const Positions& some : sets) row(some);
  return made;
}

inline StepWords words_of(const Step& step, Shared& shared) {
  return std::visit(Visitor{[&](const Content& one) { return words_of(one, shared); },
                            [](const ByteTest& one) {
                              return StepWords(XG_STEP_TEST)
                                  .flag(one.negated, XG_STEP_NEGATED)
                                  .argument(one.op)
                                  .number(one.number)
                                  .mask(one.mask)
                                  .value(one.value);
                            },
                            [](const ByteJump& one) {
                              return StepWords(XG_STEP_JUMP)
                                  .flag(one.align, XG_STEP_ALIGN)
                                  .argument(one.from)
                                  .number(one.number)
                                  .word(3, one.multiplier)
                                  .value({one.post_offset, {}});
                            },
                            [](const ByteExtract& one) {
                              return StepWords(XG_STEP_EXTRACT)
                                  .number(one.number)
                                  .word(3, one.multiplier)
                                  .value({one.align, {}})
                                  .word(6, one.variable);
                            },
                            [](const ByteMath& one) {
                              return StepWords(XG_STEP_MATH)
                                  .argument(one.op)
                                  .number(one.number)
                                  .mask(one.mask)
                                  .value(one.right)
                                  .word(6, one.variable);
                            },
                            [](const DataAt& one) {
                              return StepWords(XG_STEP_DATA_AT)
                                  .flag(one.negated, XG_STEP_NEGATED)
                                  .flag(one.relative, XG_STEP_RELATIVE)
                                  .value(one.offset);
                            },
                            [&](const Regex& one) {
                              return StepWords(XG_STEP_REGEX)
                                  .flag(one.negated, XG_STEP_NEGATED)
                                  .flag(one.relative, XG_STEP_RELATIVE)
                                  .word(1, shared.at(automaton_of(one)));
                            },
                            // check() refuses it.
                            [](const Expression&) { return StepWords(XG_STEP_DATA_AT); }},
                    step);
}

struct PlacedSteps {
  u32 at, count;
};
// fast: the content that has the rule's fast pattern, from that one's byte `at` on.
inline PlacedSteps place(const std::vector<Step>& steps, Shared& shared, Compiled& to,
                         const Content* fast = nullptr, u32 at_byte = 0) {
  std::vector<StepWords> words;
  words.reserve(steps.size());
  for (const Step& step : steps) {
    words.push_back(words_of(step, shared));
    if (fast != nullptr && std::get_if<Content>(&step) == fast)
      words.back().flag(true, XG_STEP_FAST).word(7, at_byte);
  }
  const u32 at = to.here();
  for (const StepWords& step : words) {
    const u32 kind = XG_STEP_KIND(step.words()[0]);
    if (kind == XG_STEP_CONTENT || kind == XG_STEP_REGEX) to.points(to.here() + 1);
    to.image.insert(to.image.end(), step.words().begin(), step.words().end());
  }
  return {at, static_cast<u32>(words.size())};
}

}  // namespace xdpgpu::gpu::signatures
