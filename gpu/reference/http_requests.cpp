// SPDX-License-Identifier: MIT
#include "gpu/reference/http_requests.hpp"

namespace xdpgpu::gpu::reference {

namespace sig = signatures;

// The head, which ends in front of `end`.
void HttpRequests::take(std::string_view head, u64 end, Heads& heads) {
  const HttpRequest& read = heads.read.emplace_back(read_http_request(head));
  in_ = In::request;
  at_ = end;
  if (read.is_connect) {
    in_ = In::first;
  } else if (read.chunked) {
    in_ = In::chunk_size;
  } else if (read.content_length.value_or(0) != 0) {
    in_ = In::body;
    at_ = end + *read.content_length;
  }
}

// The line that begins at line_ in a head, and else at at_.
void HttpRequests::take_line(std::string_view text, u64 end, Heads& heads) {
  const u64 begin = in_ == In::head ? line_ : at_;
  const std::string_view line = text.substr(begin, end - begin);
  const auto go_to = [&](In in, u64 at) {
    in_ = in;
    at_ = at;
  };
  switch (in_) {
    case In::head:
      if (is_empty_line(line)) return take(text.substr(at_, end - at_), end, heads);
      line_ = end;
      if (++lines_ <= sig::kMostHttpLines) return;
      heads.too_long = true;
      return go_to(In::passed, end);
    case In::passed:
      return go_to(In::request, end);
    case In::chunk_end:
      return go_to(In::chunk_size, end);
    case In::trailer:
      return go_to(is_empty_line(line) ? In::request : In::trailer, end);
    case In::chunk_size: {
      if (is_empty_line(line)) return go_to(in_, end);
      const auto size = read_chunk_size(line);
      if (!size) return go_to(In::request, at_);
      return *size == 0 ? go_to(In::trailer, end) : go_to(In::chunk, end + *size);
    }
    default:
      break;
  }
  if (is_empty_line(line)) return go_to(in_, end);
  if (!begins_request(line)) return in_ == In::first ? go_to(In::none, end) : go_to(in_, end);
  if (!read_http_request(line)[sig::HttpPart::protocol]) return take(line, end, heads);
  in_ = In::head;
  line_ = end;
  lines_ = 0;
}

HttpRequests::Heads HttpRequests::go_on(std::string_view text, u64 from, u64 window) {
  Heads heads;
  if (at_ < from) in_ = In::none;
  while (in_ != In::none && at_ < text.size()) {
    if (in_ == In::body || in_ == In::chunk) {
      in_ = in_ == In::body ? In::request : In::chunk_end;
      continue;
    }
    const std::size_t end = text.find('\n', in_ == In::head ? line_ : at_);
    if (end != std::string_view::npos) {
      take_line(text, end + 1, heads);
      continue;
    }
    const bool is_lost = text.size() == from + 2 * window && at_ < from + window;
    if (in_ == In::passed || in_ == In::chunk_end || (in_ == In::trailer && is_lost)) at_ = text.size();
    if (in_ == In::passed || in_ == In::chunk_end || in_ == In::trailer || !is_lost) break;
    const bool is_request = in_ == In::head || in_ == In::chunk_size || begins_request(text.substr(at_));
    heads.too_long = heads.too_long || is_request;
    in_ = in_ == In::first && !is_request ? In::none : In::passed;
    at_ = text.size();
  }
  return heads;
}

}  // namespace xdpgpu::gpu::reference
