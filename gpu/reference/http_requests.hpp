// SPDX-License-Identifier: MIT
//
// gpu/reference/http_requests.hpp: the requests by HTTP/1 in what a client says, one behind the other,
// however that is cut (gpu/signatures.hpp, "HTTP").
#pragma once

#include <string_view>
#include <vector>

#include "gpu/reference/http_request.hpp"

namespace xdpgpu::gpu::reference {

class HttpRequests {
 public:
  // What has come to be whole, in its order.
  struct Heads {
    std::vector<HttpRequest> read;
    bool too_long = false;  // there was one of too many lines, or longer than what is kept
  };
  // text: all that the client has said. from: its first byte that is kept, of which with `window` more bytes
  // than those up to the end, or the next block's, fewer will be.
  Heads go_on(std::string_view text, u64 from, u64 window);

 private:
  enum class In : u8 { first, request, head, passed, body, chunk_size, chunk, chunk_end, trailer, none };
  void take(std::string_view head, u64 end, Heads& heads);
  void take_line(std::string_view text, u64 end, Heads& heads);

  In in_ = In::first;
  u64 at_ = 0;    // where that begins or, of a body and a chunk, ends
  u64 line_ = 0;  // of a head: the line that is not whole
  std::size_t lines_ = 0;
};

}  // namespace xdpgpu::gpu::reference
