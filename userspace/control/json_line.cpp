// SPDX-License-Identifier: MIT
#include "userspace/control/json_line.hpp"

#include <charconv>

namespace xdpgpu::control {
namespace {

// Bytes of the UTF-8 sequence that `text` begins with (RFC 3629); 0: it begins with none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<u8>(text[at]); };
  const u8 first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; i++)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Longer than need be, a surrogate, or past the last character.
  const u8 second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
    return 0;
  return length;
}

void escape(std::string& line, u8 byte) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (byte) {
    case '"':
      line += "\\\"";
      return;
    case '\\':
      line += "\\\\";
      return;
    case '\n':
      line += "\\n";
      return;
    case '\r':
      line += "\\r";
      return;
    case '\t':
      line += "\\t";
      return;
    default:
      line += "\\u00";
      line += kHex[byte >> 4];
      line += kHex[byte & 15];
  }
}

}  // namespace

void JsonLine::key(std::string_view key) {
  line_ += first_ ? "\"" : ",\"";
  line_ += key;
  line_ += "\":";
  first_ = false;
}

void JsonLine::text(std::string_view key, std::string_view value) {
  this->key(key);
  line_ += '"';
  while (!value.empty()) {
    const auto byte = static_cast<u8>(value.front());
    const std::size_t length = utf8_length(value);
    if (byte < 0x20 || byte == 0x7f || byte == '"' || byte == '\\')
      escape(line_, byte);
    else if (length == 0)
      line_ += "\xef\xbf\xbd";
    else
      line_ += value.substr(0, length);
    value.remove_prefix(length == 0 ? 1 : length);
  }
  line_ += '"';
}

void JsonLine::number(std::string_view key, u64 value) {
  this->key(key);
  char digits[20];
  const auto written = std::to_chars(std::begin(digits), std::end(digits), value);
  line_.append(digits, written.ptr);
}

void JsonLine::boolean(std::string_view key, bool value) {
  this->key(key);
  line_ += value ? "true" : "false";
}

void JsonLine::base64(std::string_view key, const u8* bytes, std::size_t count) {
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  this->key(key);
  line_ += '"';
  for (std::size_t i = 0; i < count; i += 3) {
    const std::size_t left = count - i;
    const u32 group =
        u32{bytes[i]} << 16 | (left > 1 ? u32{bytes[i + 1]} << 8 : 0) | (left > 2 ? u32{bytes[i + 2]} : 0);
    line_ += kLetters[group >> 18];
    line_ += kLetters[group >> 12 & 63];
    line_ += left > 1 ? kLetters[group >> 6 & 63] : '=';
    line_ += left > 2 ? kLetters[group & 63] : '=';
  }
  line_ += '"';
}

void JsonLine::raw(std::string_view key, std::string_view json) {
  this->key(key);
  line_ += json;
}

}  // namespace xdpgpu::control
