// SPDX-License-Identifier: MIT
#include "gpu/reference/http_requests.hpp"

#include <algorithm>

namespace xdpgpu::gpu::reference {

namespace sig = signatures;

// The head, which ends in front of `end`.
void HttpRequests::take(std::string_view head, u64 end, Said& said) {
  const HttpRequest read = read_http_request(head);
  said.read.emplace_back(read);
  in_ = In::request;
  at_ = data_ = end;
  body_.clear();
  places_.clear();
  told_ = 0;
  if (read.is_connect) {
    in_ = In::first;
  } else if (read.chunked) {
    in_ = In::chunk_size;
  } else if (read.content_length.value_or(0) != 0) {
    in_ = In::body;
    at_ = end + *read.content_length;
  }
}

bool HttpRequests::take_data(std::string_view text) {
  for (; data_ < std::min<u64>(at_, text.size()); data_++) {
    body_ += text[data_];
    places_.push_back(data_);
  }
  return data_ == at_;
}

void HttpRequests::tell(bool is_whole, Said& said) {
  if (body_.empty() || (!is_whole && told_ == body_.size())) return;
  const auto place_of = [&](u64 position) {
    return static_cast<std::size_t>(std::lower_bound(places_.begin(), places_.end(), position) -
                                    places_.begin());
  };
  const std::size_t begin = place_of(from_);
  HttpBody made;
  made.text = body_.substr(begin);
  made.before = std::max(told_, begin) - begin;
  made.bytes = body_.size();
  made.is_whole = is_whole;
  made.loses = place_of(next_from_) != begin;
  told_ = body_.size();
  said.read.emplace_back(std::move(made));
}

// The line that begins at line_ in a head, and else at at_.
void HttpRequests::take_line(std::string_view text, u64 end, Said& said) {
  const u64 begin = in_ == In::head ? line_ : at_;
  const std::string_view line = text.substr(begin, end - begin);
  const auto go_to = [&](In in, u64 at) {
    in_ = in;
    at_ = data_ = at;
  };
  switch (in_) {
    case In::head:
      if (is_empty_line(line)) return take(text.substr(at_, end - at_), end, said);
      line_ = end;
      if (++lines_ <= sig::kMostHttpLines) return;
      said.too_long = true;
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
      if (size.value_or(0) == 0) tell(true, said);
      if (!size) return go_to(In::request, at_);
      if (*size == 0) return go_to(In::trailer, end);
      go_to(In::chunk, end);
      at_ = end + *size;
      return;
    }
    default:
      break;
  }
  if (is_empty_line(line)) return go_to(in_, end);
  if (!begins_request(line)) return in_ == In::first ? go_to(In::none, end) : go_to(in_, end);
  if (!read_http_request(line)[sig::HttpPart::protocol]) return take(line, end, said);
  in_ = In::head;
  line_ = end;
  lines_ = 0;
}

HttpRequests::Said HttpRequests::go_on(std::string_view text, u64 from, u64 window) {
  Said said;
  from_ = from;
  next_from_ = text.size() == from + 2 * window ? from + window : from;
  if (at_ < from) in_ = In::none;
  while (in_ != In::none) {
    if (in_ == In::body || in_ == In::chunk) {
      if (!take_data(text)) break;
      if (in_ == In::body) tell(true, said);
      in_ = in_ == In::body ? In::request : In::chunk_end;
      continue;
    }
    if (at_ >= text.size()) break;
    const std::size_t end = text.find('\n', in_ == In::head ? line_ : at_);
    if (end != std::string_view::npos) {
      take_line(text, end + 1, said);
      continue;
    }
    const bool is_lost = text.size() == from + 2 * window && at_ < from + window;
    if (in_ == In::passed || in_ == In::chunk_end || (in_ == In::trailer && is_lost)) at_ = text.size();
    if (in_ == In::passed || in_ == In::chunk_end || in_ == In::trailer || !is_lost) break;
    const bool is_request = in_ == In::head || in_ == In::chunk_size || begins_request(text.substr(at_));
    said.too_long = said.too_long || is_request;
    in_ = in_ == In::first && !is_request ? In::none : In::passed;
    at_ = text.size();
  }
  tell(false, said);
  return said;
}

}  // namespace xdpgpu::gpu::reference
