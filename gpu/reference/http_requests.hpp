// SPDX-License-Identifier: MIT
//
// gpu/reference/http_requests.hpp: the requests by HTTP/1 in what a client says, one behind the other,
// however that is cut (gpu/signatures.hpp, "HTTP").
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpu/reference/http_request.hpp"

namespace xdpgpu::gpu::reference {

// What has come of the body of the request whose head was read last.
struct HttpBody {
  std::string text;        // B(e)
  std::size_t before = 0;  // so many of its bytes are not new
  u64 bytes = 0;           // of the body, as far as it has come
  bool is_whole = false;   // it has ended
  bool loses = false;      // with the stream's next byte B() begins later
};

class HttpRequests {
 public:
  // What has come to be whole, in its order.
  struct Said {
    std::vector<std::variant<HttpRequest, HttpBody>> read;
    bool too_long = false;  // there was a head of too many lines, or longer than what is kept
  };
  // text: all that the client has said. from: its first byte that is kept, of which with `window` more bytes
  // than those up to the end, or the next block's, fewer will be.
  Said go_on(std::string_view text, u64 from, u64 window);

 private:
  enum class In : u8 { first, request, head, passed, body, chunk_size, chunk, chunk_end, trailer, none };
  void take(std::string_view head, u64 end, Said& said);
  void take_line(std::string_view text, u64 end, Said& said);
  // What is there of a body or a chunk, up to its end at the most. Whether that is there.
  bool take_data(std::string_view text);
  void tell(bool is_whole, Said& said);

  In in_ = In::first;
  u64 at_ = 0;    // where that begins or, of a body and a chunk, ends
  u64 line_ = 0;  // of a head: the line that is not whole
  std::size_t lines_ = 0;
  // Of a body: what has come, where each byte stands in the stream, and how many have been told.
  std::string body_;
  std::vector<u64> places_;
  std::size_t told_ = 0;
  u64 data_ = 0;  // where the next byte of a body or chunk stands
  // Of go_on(): the first byte that is kept, and the one that will be with the next byte.
  u64 from_ = 0, next_from_ = 0;
};

}  // namespace xdpgpu::gpu::reference
