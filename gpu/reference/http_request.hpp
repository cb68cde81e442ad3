// SPDX-License-Identifier: MIT
//
// gpu/reference/http_request.hpp: what a client asks by HTTP/1 (gpu/signatures.hpp, "HTTP").
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/signatures.hpp"

namespace xdpgpu::gpu::reference {

struct HttpRequest {
  std::array<std::optional<std::string>, signatures::kHttpParts> parts;
  std::size_t line_bytes = 0;  // of its lines without their ends
  // Of each header that several lines have and that is a part: its value's bytes.
  std::array<std::size_t, signatures::kHttpParts> joined_bytes{};
  std::size_t host_bytes = 0;                // of what the host is taken from
  std::optional<u64> content_length{};       // of its body
  bool chunked = false, is_connect = false;  // how its body is cut, and whether a tunnel is behind it

  const std::optional<std::string>& operator[](signatures::HttpPart part) const {
    return parts[static_cast<std::size_t>(part)];
  }
};

// Whether a line, with what ends it, is one that a request may begin with.
bool begins_request(std::string_view line);
// Whether it has nothing but what ends a line.
bool is_empty_line(std::string_view line);
// head: from its request line's first byte up to the empty line's last, or its first line alone, if that
// names no protocol.
HttpRequest read_http_request(std::string_view head);
// A chunk's bytes, by the line in front of it; nothing: it says no number.
std::optional<u64> read_chunk_size(std::string_view line);

}  // namespace xdpgpu::gpu::reference
