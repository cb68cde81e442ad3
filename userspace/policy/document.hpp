// SPDX-License-Identifier: MIT
//
// userspace/policy/document.hpp: JSON text as a tree that knows where each value stands in the text.
//
// The parsing is nlohmann's SAX parser; this only builds the tree, notes offsets and refuses duplicate
// keys, deep nesting and absurd sizes.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::policy {

using i64 = std::int64_t;
struct Node;
struct Member;
using Array = std::vector<Node>;
using Object = std::vector<Member>;

struct Node {
  // A number outside of what u64 and i64 hold, or with a fraction, is a double.
  std::variant<std::nullptr_t, bool, i64, u64, double, std::string, Array, Object> value;
  u32 offset = 0;  // of the value's first byte in the text

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  const char* type_name() const;  // "a string", "an object", ...
};
struct Member {
  std::string key;
  u32 key_offset = 0;
  Node value;
};

struct Location {
  u32 line = 1, column = 1;  // column in characters (UTF-8), not bytes
};
Location locate(std::string_view text, u64 offset);

struct SyntaxError {
  u64 offset = 0;
  std::string pointer;
  std::string message;
};
// Duplicate keys are all reported; any other problem ends the reading and comes last. Never throws on
// bad input; takes at most kMaxTextBytes.
tl::expected<Node, std::vector<SyntaxError>> read_document(std::string_view text);

// "/a~1b/0": RFC 6901's escaping of one reference token, with the slash in front.
std::string pointer_token(std::string_view key);

}  // namespace xdpgpu::policy
