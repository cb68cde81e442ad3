// SPDX-License-Identifier: MIT
#include "gpu/reference/http_messages.hpp"

#include <algorithm>

namespace xdpgpu::gpu::reference {

namespace sig = signatures;

// The head, which ends in front of `end`.
void HttpMessages::take(HttpHead read, u64 end, Said& said) {
  in_ = In::message;
  at_ = data_ = end;
  body_.clear();
  places_.clear();
  told_ = 0;
  is_over_ = false;
  if (is_server_)
    take_answer(read);
  else
    take_request(read);
  read.has_body = in_ == In::body || in_ == In::rest || in_ == In::chunk_size || in_ == In::optional;
  said.read.emplace_back(std::move(read));
}

void HttpMessages::take_request(const HttpHead& read) {
  const auto& line = read[sig::HttpPart::request_line];
  if (method_of(*line) == Method::connect) {
    in_ = In::first;
  } else if (read.chunked) {
    in_ = In::chunk_size;
  } else if (read.content_length.value_or(0) != 0) {
    in_ = In::body;
    at_ += *read.content_length;
  }
}

void HttpMessages::take_answer(const HttpHead& read) {
  if (read.status == 101) in_ = In::none;
  const auto may_have_body = [&] {
    bytes_ = read.chunked ? 0 : read.content_length.value_or(0);
    if (read.chunked || bytes_ != 0) in_ = In::optional;
  };
  if (read.status == 101) return;
  if (read.status >= 100 && read.status < 200) return may_have_body();
  Method asked = Method::other;
  if (!exchange_->unanswered.empty()) {
    asked = exchange_->unanswered.front();
    exchange_->unanswered.pop_front();
  }
  if (asked == Method::connect && read.status / 100 == 2) {
    in_ = In::first;
  } else if (asked == Method::head) {
    return;
  } else if (read.status == 204 || read.status == 304) {
    may_have_body();
  } else if (read.chunked) {
    in_ = In::chunk_size;
  } else if (!read.content_length) {
    take_rest(at_);
  } else if (*read.content_length != 0) {
    in_ = In::body;
    at_ += *read.content_length;
  }
}

void HttpMessages::take_rest(u64 at) {
  in_ = In::rest;
  data_ = at;
  at_ = ~u64{0};
}

bool HttpMessages::take_optional(std::string_view text, bool is_lost) {
  const std::string_view there = text.substr(at_);
  const std::size_t begin =
      std::min(there.find_first_not_of(std::string_view(" \t\n\v\f\r\0", 7)), there.size());
  if (there.size() - begin < 4 && !is_lost) return false;
  data_ = at_;
  if (begins_answer(there.substr(begin, 4))) {
    in_ = In::message;
  } else {
    in_ = bytes_ == 0 ? In::chunk_size : In::body;
    at_ += bytes_;
  }
  return true;
}

std::optional<std::size_t> HttpMessages::line_end(std::string_view text, std::size_t from) const {
  const bool by_cr = is_server_ && in_ != In::chunk_size && in_ != In::chunk_end && in_ != In::passed;
  const std::size_t bytes = line_bytes(text.substr(from), by_cr);
  if (bytes == std::string_view::npos) return {};
  return from + bytes;
}

bool HttpMessages::begins(std::string_view line) {
  if (is_server_) return begins_answer(line);
  if (!begins_request(line)) return false;
  exchange_->unanswered.push_back(exchange_->unanswered.size() < sig::kMostAsked ? method_of(line)
                                                                                 : Method::other);
  return true;
}

bool HttpMessages::take_data(std::string_view text) {
  for (; data_ < std::min<u64>(at_, text.size()); data_++) {
    if (is_over_) continue;
    body_ += text[data_];
    places_.push_back(data_);
  }
  return data_ == at_;
}

void HttpMessages::tell(bool is_whole, Said& said) {
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
  if (!is_whole) return;
  body_.clear();
  places_.clear();
  is_over_ = true;
}

// The line that begins at line_ in a head, and else at at_.
void HttpMessages::take_line(std::string_view text, u64 end, Said& said) {
  const u64 begin = in_ == In::head ? line_ : at_;
  const std::string_view line = text.substr(begin, end - begin);
  const auto go_to = [&](In in, u64 at) {
    in_ = in;
    at_ = data_ = at;
  };
  switch (in_) {
    case In::head:
      if (is_empty_line(line)) {
        const std::string_view head = text.substr(at_, end - at_);
        return take(is_server_ ? read_http_answer(head) : read_http_request(head), end, said);
      }
      line_ = end;
      if (++lines_ <= sig::kMostHttpLines) return;
      said.too_long = true;
      return go_to(In::passed, end);
    case In::passed:
      return go_to(In::message, end);
    case In::chunk_end:
      return go_to(In::chunk_size, end);
    case In::trailer:
      return go_to(is_empty_line(line) ? In::message : In::trailer, end);
    case In::chunk_size: {
      if (is_empty_line(line)) return go_to(in_, end);
      const auto size = read_chunk_size(line);
      if (!size && is_server_) return take_rest(at_);
      if (size.value_or(0) == 0) tell(true, said);
      if (!size) return go_to(In::message, at_);
      if (*size == 0) return go_to(In::trailer, end);
      go_to(In::chunk, end);
      at_ = end + *size;
      return;
    }
    default:
      break;
  }
  if (is_empty_line(line)) return go_to(in_, end);
  const bool is_begun = begins(line);
  if (is_headless(is_begun)) return take({}, begin, said);
  if (!is_begun) return in_ == In::first ? go_to(In::none, end) : go_to(in_, end);
  if (!is_server_) {
    const HttpHead request = read_http_request(line);
    if (!request[sig::HttpPart::protocol]) return take(request, end, said);
  }
  in_ = In::head;
  line_ = end;
  lines_ = 0;
}

HttpMessages::Said HttpMessages::go_on(std::string_view text, u64 from, u64 window, bool ends,
                                       HttpExchange& exchange) {
  Said said;
  exchange_ = &exchange;
  from_ = from;
  next_from_ = text.size() == from + 2 * window ? from + window : from;
  if (at_ < from) in_ = In::none;
  while (in_ != In::none) {
    if (in_ == In::body || in_ == In::chunk || in_ == In::rest) {
      if (!take_data(text)) break;
      if (in_ == In::body) tell(true, said);
      in_ = in_ == In::body ? In::message : In::chunk_end;
      continue;
    }
    const bool is_lost = text.size() == from + 2 * window && at_ < from + window;
    if (in_ == In::optional) {
      if (!take_optional(text, is_lost || ends)) break;
      continue;
    }
    if (at_ >= text.size()) break;
    if (const auto end = line_end(text, in_ == In::head ? line_ : at_)) {
      take_line(text, *end, said);
      continue;
    }
    if (is_server_ && ends && in_ == In::head) {
      take(read_http_answer(text.substr(at_)), text.size(), said);
      continue;
    }
    if (in_ == In::passed || in_ == In::chunk_end || (in_ == In::trailer && is_lost)) at_ = text.size();
    if (in_ == In::passed || in_ == In::chunk_end || in_ == In::trailer) break;
    if (!is_lost && !(ends && is_server_ && (in_ == In::first || in_ == In::chunk_size))) break;
    if (is_server_ && in_ == In::chunk_size) {
      take_rest(at_);
      continue;
    }
    const bool is_message = in_ == In::head || in_ == In::chunk_size || begins(text.substr(at_));
    if (is_headless(is_message)) {
      take({}, at_, said);
      continue;
    }
    if (!is_lost) break;
    said.too_long = said.too_long || is_message;
    in_ = in_ == In::first && !is_message ? In::none : In::passed;
    at_ = text.size();
  }
  if (!is_server_) exchange_->is_asked = in_ != In::first && in_ != In::none;
  tell(ends, said);
  return said;
}

}  // namespace xdpgpu::gpu::reference
