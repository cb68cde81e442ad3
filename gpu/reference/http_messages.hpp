// SPDX-License-Identifier: MIT
//
// gpu/reference/http_messages.hpp: the requests by HTTP/1 in what a client says, and the answers in what a
// server does, one behind the other, however that is cut (gpu/signatures.hpp, "HTTP").
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpu/reference/http_head.hpp"

namespace xdpgpu::gpu::reference {

// What has come of the body of the request or answer whose head was read last.
struct HttpBody {
  std::string text;        // B(e)
  std::size_t before = 0;  // so many of its bytes are not new
  u64 bytes = 0;           // of the body, as far as it has come
  bool is_whole = false;   // it has ended
  bool loses = false;      // with the stream's next byte B() begins later
};

// What both sides of a connection know of its requests.
struct HttpExchange {
  std::deque<Method> unanswered;  // requests
  bool is_asked = false;          // the client's side has begun one, and is in no tunnel
};

class HttpMessages {
 public:
  enum class Of : u8 { client, server };
  explicit HttpMessages(Of of = Of::client) : is_server_(of == Of::server) {}

  // What has come to be whole, in its order.
  struct Said {
    std::vector<std::variant<HttpHead, HttpBody>> read;
    bool too_long = false;  // there was a head of too many lines, or longer than what is kept
  };
  // text: all that the side has said. from: its first byte that is kept, of which with `window` more bytes
  // than those up to the end, or the next block's, fewer will be. ends: it says no more.
  Said go_on(std::string_view text, u64 from, u64 window, bool ends, HttpExchange& exchange);
  // Something of a body has come, and its end has not.
  bool has_body() const { return !body_.empty(); }
  // Of a server, which has said so many bytes: a line, or what is no answer, may be whole with its end.
  bool waits_for_end(u64 bytes) const {
    return is_server_ && at_ < bytes &&
           (in_ == In::first || in_ == In::head || in_ == In::chunk_size || in_ == In::optional);
  }

 private:
  // optional: a body, or the next answer.
  enum class In : u8 {
    first,
    message,
    head,
    passed,
    body,
    rest,
    optional,
    chunk_size,
    chunk,
    chunk_end,
    trailer,
    none
  };
  void take(HttpHead read, u64 end, Said& said);
  void take_request(const HttpHead& read);
  void take_answer(const HttpHead& read);
  void take_line(std::string_view text, u64 end, Said& said);
  // The line with which something begins: a request, an answer without a head, or none.
  bool begins(std::string_view line);
  bool is_headless(bool begins) const {
    return is_server_ && !begins && in_ == In::first && exchange_->is_asked;
  }
  // From byte `at` on all is a body, or more of one.
  void take_rest(u64 at);
  // Whether what stands there is the next answer is known.
  bool take_optional(std::string_view text, bool is_lost);
  // Behind the line that goes on from there; nothing: its end is not there.
  std::optional<std::size_t> line_end(std::string_view text, std::size_t from) const;
  // What is there of a body or a chunk, up to its end at the most. Whether that is there.
  bool take_data(std::string_view text);
  void tell(bool is_whole, Said& said);

  bool is_server_;
  HttpExchange* exchange_ = nullptr;  // of go_on()
  In in_ = In::first;
  u64 at_ = 0;     // where that begins or, of a body and a chunk, ends
  u64 bytes_ = 0;  // of an optional body; 0: it is in chunks
  u64 line_ = 0;   // of a head: the line that is not whole
  std::size_t lines_ = 0;
  // Of a body: what has come, where each byte stands in the stream, and how many have been told.
  std::string body_;
  std::vector<u64> places_;
  std::size_t told_ = 0;
  bool is_over_ = false;  // it has been told as whole: what comes behind a FIN is none of it
  u64 data_ = 0;          // where the next byte of a body or chunk stands
  // Of go_on(): the first byte that is kept, and the one that will be with the next byte.
  u64 from_ = 0, next_from_ = 0;
};

}  // namespace xdpgpu::gpu::reference
