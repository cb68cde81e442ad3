// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/regex.hpp: regular expressions in PCRE2's language
// (https://www.pcre.org/current/doc/html/pcre2pattern.html), as trees, as far as they are regular and only
// whether they match is asked: lazy repeats are the greedy ones, and groups keep nothing. Bytes are what
// PCRE2 takes them for in the C locale.
#pragma once

#include <variant>

#include "gpu/signatures.hpp"
#include "userspace/compiler/rules/pcre.hpp"

namespace xdpgpu::rules {

using gpu::signatures::Bytes;

Bytes word_bytes();  // that \w takes

// What is asked of the two bytes next to a place.
struct Assertion {
  enum class Kind : u8 {
    begin,           // \A, ^: no byte is in front of it
    line_begin,      // ^ of lines: likewise, or a line's end, and a byte is behind it
    end,             // \z: none is behind it
    end_or_newline,  // \Z, $: likewise, or the subject's last byte is, and ends a line
    line_end,        // $ of lines: likewise, or any that ends a line
    word,            // \b: one of the two is in a word
    not_word,        // \B
    next,            // (?=[...]): one of `bytes` is behind it
    not_next,        // (?![...])
    before,          // (?<=[...]): one of `bytes` is in front of it
    not_before,      // (?<![...])
  } kind = Kind::begin;
  Bytes bytes{};
};

struct RegexNode {
  // One of some bytes; all parts, one behind the other; any of them; the one part, so many times.
  enum class Kind : u8 { bytes, assertion, sequence, either, repeat } kind = Kind::sequence;
  Bytes bytes{};
  Assertion assertion{};
  std::vector<RegexNode> parts{};
  u32 least = 0, most = 0;  // kNoMost: any number
};
inline constexpr u32 kNoMost = ~u32{0};

// regex: one that PCRE2 takes. The error is a sentence's end: what of it is not regular, or not known here.
Result<RegexNode> tree_of(const Regex& regex);

}  // namespace xdpgpu::rules
