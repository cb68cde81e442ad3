// SPDX-License-Identifier: MIT
#define PCRE2_CODE_UNIT_WIDTH 8
#include "userspace/compiler/rules/regex.hpp"
#include "userspace/expressions/expressions.hpp"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>

namespace xdpgpu::rules {
namespace {

using Kind = RegexNode::Kind;

// ---- sets of bytes, in the C locale ----------------------------------------------------------------------

Bytes from_to(u32 first, u32 last) {
  Bytes made;
  for (u32 byte = first; byte <= last; byte++) made.set(byte);
  return made;
}
Bytes bytes_of(std::string_view text) {
  Bytes made;
  for (const char c : text) made.set(static_cast<u8>(c));
  return made;
}

Bytes digits() { return from_to('0', '9'); }
Bytes lower_letters() { return from_to('a', 'z'); }
Bytes upper_letters() { return from_to('A', 'Z'); }
Bytes letters() { return lower_letters() | upper_letters(); }
Bytes spaces() { return bytes_of(" \t\n\v\f\r"); }
Bytes newline() { return bytes_of("\n"); }

std::optional<Bytes> posix_class(std::string_view name, bool caseless) {
  const Bytes graph = from_to(0x21, 0x7e);
  if (name == "alpha" || (caseless && (name == "lower" || name == "upper"))) return letters();
  if (name == "lower") return lower_letters();
  if (name == "upper") return upper_letters();
  if (name == "alnum") return letters() | digits();
  if (name == "ascii") return from_to(0, 0x7f);
  if (name == "blank") return bytes_of(" \t");
  if (name == "cntrl") return from_to(0, 0x1f) | from_to(0x7f, 0x7f);
  if (name == "digit") return digits();
  if (name == "graph") return graph;
  if (name == "print") return graph | bytes_of(" ");
  if (name == "punct") return graph & ~(letters() | digits());
  if (name == "space") return spaces();
  if (name == "word") return word_bytes();
  if (name == "xdigit") return digits() | from_to('a', 'f') | from_to('A', 'F');
  return {};
}

// \d, \W, ...: what a letter stands for, inside of classes, too.
std::optional<Bytes> class_of(char letter) {
  switch (letter) {
    case 'd':
      return digits();
    case 'D':
      return ~digits();
    case 's':
      return spaces();
    case 'S':
      return ~spaces();
    case 'w':
      return word_bytes();
    case 'W':
      return ~word_bytes();
    case 'h':
      return bytes_of("\t \xa0");
    case 'H':
      return ~bytes_of("\t \xa0");
    case 'v':
      return bytes_of("\n\v\f\r\x85");
    case 'V':
      return ~bytes_of("\n\v\f\r\x85");
    default:
      return {};
  }
}

Bytes in_both_cases(Bytes bytes) {
  for (u32 i = 0; i < 26; i++)
    if (bytes['a' + i] || bytes['A' + i]) bytes.set('a' + i).set('A' + i);
  return bytes;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_letter(char c) { return letters()[static_cast<u8>(c)]; }
std::optional<u32> hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const char small = lower(c);
  if (small >= 'a' && small <= 'f') return small - 'a' + 10;
  return {};
}

RegexNode node_of(const Bytes& bytes) {
  RegexNode made;
  made.kind = Kind::bytes;
  made.bytes = bytes;
  return made;
}
RegexNode node_of(Assertion::Kind kind, const Bytes& bytes = {}) {
  RegexNode made;
  made.kind = Kind::assertion;
  made.assertion = {kind, bytes};
  return made;
}

// ---- the parser ------------------------------------------------------------------------------------------

// What it cannot take ends it: it leaves by this, and not beyond tree_of().
struct NotTaken {
  std::string why;
};
[[noreturn]] void not_taken(std::string why) { throw NotTaken{std::move(why)}; }

class Parser {
 public:
  explicit Parser(const Regex& regex) : text_(regex.pattern), options_(regex.options) {
    flags_.caseless = has(PCRE2_CASELESS);
    flags_.dot_all = has(PCRE2_DOTALL);
    flags_.lines = has(PCRE2_MULTILINE);
    flags_.extended = has(PCRE2_EXTENDED);
  }

  RegexNode all() {
    if (starts("(*")) not_taken("it begins with a verb");
    RegexNode made = either();
    if (!at_end()) not_taken("it has brackets that are not known here");
    return made;
  }

 private:
  // Of its letters, or of what (?...) says in it.
  struct Flags {
    bool caseless = false, dot_all = false, lines = false, extended = false;
  };

  bool has(u32 option) const { return (options_ & option) != 0; }
  bool at_end() const { return at_ == text_.size(); }
  std::string_view rest() const { return text_.substr(at_); }
  bool starts(std::string_view with) const { return rest().starts_with(with); }
  char peek(std::size_t on = 0) const { return at_ + on < text_.size() ? text_[at_ + on] : '\0'; }
  bool take(std::string_view text) {
    if (!starts(text)) return false;
    at_ += text.size();
    return true;
  }

  // ---- what stands beside each other, and in brackets

  RegexNode either() {
    if (++depth_ > expressions::kDeepest) not_taken("its brackets are too deep");
    const Flags before = flags_;
    RegexNode made;
    made.kind = Kind::either;
    do made.parts.push_back(sequence());
    while (take("|"));
    flags_ = before;
    depth_--;
    if (made.parts.size() == 1) return std::move(made.parts.front());
    return made;
  }

  RegexNode sequence() {
    RegexNode made;
    for (;;) {
      if (!quoted_) skip_what_says_nothing();
      if (quoted_ && take("\\E")) {
        quoted_ = false;
        continue;
      }
      if (at_end() || (!quoted_ && (peek() == '|' || peek() == ')'))) break;
      auto one = quoted_ ? literal(text_[at_++]) : atom();
      if (!one) continue;
      if (quoted_ && take("\\E")) quoted_ = false;
      if (!quoted_) skip_what_says_nothing();
      made.parts.push_back(quoted_ ? *std::move(one) : repeated(*std::move(one)));
    }
    return made;
  }

  void skip_what_says_nothing() {
    for (;;) {
      if (take("\\Q\\E") || take("\\E")) continue;
      if (starts("(?#")) {
        at_ = std::min(text_.find(')', at_), text_.size() - 1) + 1;
      } else if (flags_.extended && !at_end() && spaces()[static_cast<u8>(peek())]) {
        at_++;
      } else if (flags_.extended && peek() == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
      } else {
        return;
      }
    }
  }

  // ---- repeats

  struct Times {
    u32 least, most;
  };
  // {n}, {n,} and {n,m}; all else in such brackets is itself.
  std::optional<Times> counted() {
    const auto end = text_.find('}', at_);
    if (peek() != '{' || end == std::string_view::npos) return {};
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    const auto comma = inside.find(',');
    const auto least = number(inside.substr(0, comma), 65535);
    const std::string_view behind = comma == std::string_view::npos ? "" : inside.substr(comma + 1);
    const auto most = number(behind, 65535);
    if (!least || (!behind.empty() && !most)) {
      if (inside.find_first_not_of("0123456789, \t") == std::string_view::npos && !inside.empty())
        not_taken("versions of PCRE2 differ in what its braces mean");
      return {};
    }
    at_ = end + 1;
    return Times{static_cast<u32>(*least), comma == std::string_view::npos ? static_cast<u32>(*least)
                                           : behind.empty()                ? kNoMost
                                                                           : static_cast<u32>(*most)};
  }
  std::optional<Times> times() {
    if (take("*")) return Times{0, kNoMost};
    if (take("+")) return Times{1, kNoMost};
    if (take("?")) return Times{0, 1};
    return counted();
  }

  RegexNode repeated(RegexNode one) {
    const auto count = times();
    if (!count) return one;
    if (take("+")) not_taken("it has possessive repeats");
    take("?");
    if (one.kind == Kind::assertion) not_taken("it repeats an assertion");
    RegexNode made;
    made.kind = Kind::repeat;
    made.parts.push_back(std::move(one));
    made.least = count->least;
    made.most = count->most;
    return made;
  }

  // ---- single ones

  // Nothing: it changes flags.
  std::optional<RegexNode> atom() {
    const char c = text_[at_++];
    switch (c) {
      case '^':
        return node_of(flags_.lines ? Assertion::Kind::line_begin : Assertion::Kind::begin);
      case '$':
        return node_of(flags_.lines                ? Assertion::Kind::line_end
                       : has(PCRE2_DOLLAR_ENDONLY) ? Assertion::Kind::end
                                                   : Assertion::Kind::end_or_newline);
      case '.':
        return node_of(flags_.dot_all ? Bytes().set() : ~newline());
      case '[':
        return node_of(set());
      case '(':
        return group();
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
        not_taken("it repeats nothing");
      default:
        return literal(c);
    }
  }

  RegexNode literal(char c) const {
    const Bytes one = Bytes().set(static_cast<u8>(c));
    return node_of(flags_.caseless ? in_both_cases(one) : one);
  }

  std::optional<RegexNode> group() {
    if (peek() == '*') not_taken("it has verbs");
    if (!take("?")) return in_brackets();
    if (take(":") || take("|")) return in_brackets();
    for (const auto& [sign, kind] : {std::pair{"=", Assertion::Kind::next},
                                     {"!", Assertion::Kind::not_next},
                                     {"<=", Assertion::Kind::before},
                                     {"<!", Assertion::Kind::not_before}})
      if (take(sign)) return looking(kind);
    if (take(">")) not_taken("it has atomic groups");
    if (starts("P=") || starts("P>") || starts("&") || starts("R") || starts("(") || starts("C") ||
        starts("+") || is_digit(peek()) || (peek() == '-' && is_digit(peek(1))))
      not_taken("it has back-references, recursion, conditions or callouts");
    if (take("P<") || take("<")) return named('>');
    if (take("'")) return named('\'');
    return change_flags();
  }
  RegexNode in_brackets() {
    RegexNode made = either();
    if (!take(")")) not_taken("it has brackets that are not known here");
    return made;
  }
  RegexNode named(char end) {
    const auto found = text_.find(end, at_);
    if (found == std::string_view::npos) not_taken("it has a group with a name that does not end");
    at_ = found + 1;
    return in_brackets();
  }
  std::optional<RegexNode> change_flags() {
    Flags changed = flags_;
    if (take("^")) changed = {};
    for (bool on = true; !starts(")") && !starts(":"); at_++) {
      switch (peek()) {
        case '-':
          on = false;
          break;
        case 'i':
          changed.caseless = on;
          break;
        case 's':
          changed.dot_all = on;
          break;
        case 'm':
          changed.lines = on;
          break;
        case 'x':
          if (peek(1) == 'x') not_taken("it has (?xx)");
          changed.extended = on;
          break;
        case 'n':  // groups keep nothing here
        case 'U':
          break;
        default:
          not_taken("it has brackets that are not known here");
      }
    }
    if (take(")")) {
      flags_ = changed;
      return {};
    }
    at_++;
    const Flags before = flags_;
    flags_ = changed;
    RegexNode made = in_brackets();
    flags_ = before;
    return made;
  }

  // At one byte. At more only where nothing else follows: that it is there is then all that counts.
  RegexNode looking(Assertion::Kind kind) {
    RegexNode inside = in_brackets();
    if (const auto bytes = one_byte(inside)) return node_of(kind, *bytes);
    skip_what_says_nothing();
    if (kind == Assertion::Kind::next && depth_ == 1 && (at_end() || peek() == '|')) return inside;
    not_taken("it looks around at more than one byte");
  }

  static std::optional<Bytes> one_byte(const RegexNode& node) {
    if (node.kind == Kind::bytes) return node.bytes;
    if (node.kind == Kind::sequence && node.parts.size() == 1) return one_byte(node.parts.front());
    if (node.kind != Kind::either) return {};
    Bytes made;
    for (const RegexNode& part : node.parts) {
      const auto bytes = one_byte(part);
      if (!bytes) return {};
      made |= *bytes;
    }
    return made;
  }

  // ---- behind a backslash

  std::optional<RegexNode> escape() {
    const char c = peek();
    switch (c) {
      case 'A':
        at_++;
        return node_of(Assertion::Kind::begin);
      case 'z':
        at_++;
        return node_of(Assertion::Kind::end);
      case 'Z':
        at_++;
        return node_of(Assertion::Kind::end_or_newline);
      case 'b':
        at_++;
        return node_of(Assertion::Kind::word);
      case 'B':
        at_++;
        return node_of(Assertion::Kind::not_word);
      case 'Q':
        at_++;
        quoted_ = true;
        return {};
      case 'N':
        if (peek(1) == '{') break;
        at_++;
        return node_of(~newline());
      default:
        break;
    }
    if (c >= '1' && c <= '9') not_taken("it has back-references");
    if (const auto bytes = class_of(c)) {
      at_++;
      return node_of(*bytes);
    }
    return literal(escaped_byte());
  }

  char escaped_byte() {
    const char c = text_[at_++];
    switch (c) {
      case 'a':
        return '\a';
      case 'e':
        return '\x1b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'c': {
        const char letter = peek();
        at_++;
        return static_cast<char>((letter >= 'a' && letter <= 'z' ? letter - ('a' - 'A') : letter) ^ 0x40);
      }
      case 'x':
        return take("{") ? braced(16) : digits_of(16, 2);
      case 'o':
        if (!take("{")) not_taken("it has \\o without braces");
        return braced(8);
      default:
        break;
    }
    if (is_octal(c)) {
      at_--;
      return digits_of(8, 3);
    }
    if (is_letter(c)) not_taken(fmt::format("it has \\{}", c));
    return c;
  }
  char digits_of(u32 base, u32 most) {
    u32 value = 0;
    for (u32 i = 0; i < most; i++, at_++) {
      const auto digit = hex_digit(peek());
      if (!digit || *digit >= base) break;
      value = value * base + *digit;
    }
    if (value > 255) not_taken("it has a byte beyond 255");
    return static_cast<char>(value);
  }
  char braced(u32 base) {
    const std::size_t before = at_;
    const char byte = digits_of(base, 8);
    if (at_ == before || !take("}")) not_taken("it has a number in braces that is none");
    return byte;
  }

  // ---- classes

  Bytes set() {
    if (starts("[:<:]]") || starts("[:>:]]")) not_taken("it has [[:<:]] or [[:>:]]");
    const bool negated = take("^");
    Bytes made;
    std::optional<u32> before;  // what may be a range's first byte
    bool in_range = false, first = true, quoted = false;
    for (;;) {
      if (at_end()) not_taken("it has a class that does not end");
      if (quoted ? take("\\E") : take("\\Q")) {
        quoted = !quoted;
        continue;
      }
      if (!quoted && take("\\E")) continue;
      if (!quoted && !first && take("]")) break;
      first = false;
      std::optional<u32> byte;
      Bytes several;
      if (!quoted && peek() == '[' && (peek(1) == ':' || peek(1) == '.' || peek(1) == '=') && is_posix()) {
        several = posix();
      } else if (!quoted && peek() == '-' && before && !in_range && peek(1) != ']') {
        at_++;
        in_range = true;
        continue;
      } else if (!quoted && peek() == '\\') {
        at_++;
        if (const auto known = class_of(peek())) {
          at_++;
          several = *known;
        } else if (take("b")) {
          byte = '\b';
        } else if (peek() == 'N' || peek() == 'B' || peek() == 'R' || peek() == 'X') {
          not_taken("it has a class with what is none");
        } else {
          byte = static_cast<u8>(escaped_byte());
        }
      } else {
        byte = static_cast<u8>(text_[at_++]);
      }
      if (in_range && !byte) not_taken("it has a range with a class as its end");
      if (byte) several = in_range ? from_to(*before, *byte) : from_to(*byte, *byte);
      made |= several;
      before = in_range ? std::nullopt : byte;
      in_range = false;
    }
    if (flags_.caseless) made = in_both_cases(made);
    return negated ? ~made : made;
  }
  bool is_posix() const {
    const auto end = rest().find(std::string{peek(1), ']'}, 2);
    return end != std::string_view::npos &&
           rest().substr(2, end - 2).find_first_of("]\\[") == std::string_view::npos;
  }
  Bytes posix() {
    const auto end = rest().find(std::string{peek(1), ']'}, 2);
    std::string_view name = rest().substr(2, end - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const auto bytes = peek(1) == ':' ? posix_class(name, flags_.caseless) : std::nullopt;
    if (!bytes) not_taken("it has a class of a name that is not known here");
    at_ += end + 2;
    return negated ? ~*bytes : *bytes;
  }

  std::string_view text_;
  u32 options_;
  Flags flags_;
  std::size_t at_ = 0;
  u32 depth_ = 0;
  bool quoted_ = false;  // between \Q and \E
};

}  // namespace

Bytes word_bytes() { return letters() | digits() | bytes_of("_"); }

Result<RegexNode> tree_of(const Regex& regex) {
  try {
    return Parser(regex).all();
  } catch (const NotTaken& one) {
    return tl::unexpected(one.why);
  }
}

}  // namespace xdpgpu::rules
