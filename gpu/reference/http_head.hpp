// SPDX-License-Identifier: MIT
//
// gpu/reference/http_head.hpp: what a client asks by HTTP/1, and what a server answers (gpu/signatures.hpp,
// "HTTP").
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/signatures.hpp"

namespace xdpgpu::gpu::reference {

struct HttpHead {
  std::array<std::optional<std::string>, signatures::kHttpParts> parts;
  std::size_t line_bytes = 0;  // of its lines without their ends
  // Of each header that several lines have and that is a part: its value's bytes.
  std::array<std::size_t, signatures::kHttpParts> joined_bytes{};
  std::size_t host_bytes = 0;           // of what the host is taken from
  std::optional<u64> content_length{};  // of its body
  bool chunked = false;                 // how that is cut
  bool encoded = false;                 // of an answer: and that it is
  u32 status = 0;                       // of an answer; 0: it has none
  bool has_body = false;                // something may be behind it (HttpMessages)

  const std::optional<std::string>& operator[](signatures::HttpPart part) const {
    return parts[static_cast<std::size_t>(part)];
  }
};

// Whether a line, with what ends it, is one that a request, or an answer, may begin with.
bool begins_request(std::string_view line);
bool begins_answer(std::string_view line);
// What answers hang on, of what a request with this line asks for.
enum class Method : u8 { other, head, connect };
Method method_of(std::string_view line);
// Bytes of the text's first line with what ends it; npos: that is not there. by_cr: as in an answer's head.
std::size_t line_bytes(std::string_view text, bool by_cr);
// Whether it has nothing but what ends a line.
bool is_empty_line(std::string_view line);
// head: from its request line's first byte up to the empty line's last, or its first line alone, if that
// names no protocol.
HttpHead read_http_request(std::string_view head);
// head: from its first line's first byte up to the empty line's last, or up to its stream's end.
HttpHead read_http_answer(std::string_view head);
// A chunk's bytes, by the line in front of it; nothing: it says no number.
std::optional<u64> read_chunk_size(std::string_view line);

}  // namespace xdpgpu::gpu::reference
