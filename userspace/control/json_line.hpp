// SPDX-License-Identifier: MIT
//
// userspace/control/json_line.hpp: one JSON object on one line (RFC 8259), its keys in the order in which
// they are written, for logs that get thousands of them a second.
//
//   std::string line;
//   JsonLine json(line);
//   json.text("proto", "UDP");
//   json.begin("dns");
//   json.number("id", 7);
//   json.end();
//   json.finish();          // {"proto":"UDP","dns":{"id":7}} and a newline
#pragma once

#include <string>
#include <string_view>

#include "maps/types.h"

namespace xdpgpu::control {

class JsonLine {
 public:
  // Appends to `line`, which outlives this object. Keys are the caller's own words: they are not escaped.
  explicit JsonLine(std::string& line) : line_(line) { line_ += '{'; }

  void begin(std::string_view key) {
    this->key(key);
    line_ += '{';
    first_ = true;
  }
  void end() {
    line_ += '}';
    first_ = false;
  }
  void finish() { line_ += "}\n"; }

  // Any bytes: what is not UTF-8 stands as U+FFFD, control characters as escapes, so that the line is one.
  void text(std::string_view key, std::string_view value);
  void number(std::string_view key, u64 value);
  void boolean(std::string_view key, bool value);
  // RFC 4648, 4.
  void base64(std::string_view key, const u8* bytes, std::size_t count);
  // JSON that is right as it is, and has no newline.
  void raw(std::string_view key, std::string_view json);

 private:
  void key(std::string_view key);
  std::string& line_;
  bool first_ = true;
};

}  // namespace xdpgpu::control
