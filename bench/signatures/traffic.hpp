// SPDX-License-Identifier: MIT
//
// bench/signatures/traffic.hpp: payloads like HTTP requests, TLS records and DNS messages, with none of the
// patterns in them or some, and payloads that are made to look as if they had many.
#pragma once

#include <string>
#include <vector>

#include "bench/signatures/patterns.hpp"

namespace xdpgpu::bench {

enum class Like { http, tls, dns, made };
enum class Hits {
  none,  // no pattern stands in a payload
  real,  // HTTP text: some 9.5 different patterns in 1,446 bytes; TLS and DNS: one in every second payload
};

struct Traffic {
  Like like = Like::http;
  Hits hits = Hits::none;
  std::string name() const;  // "http with real hits"; "made to hit"
};
// What is measured: text with and without hits, then what is made to hit.
std::vector<Traffic> all_traffic();

// The patterns that stand in what is the same in every HTTP request: a packet of these would never be without
// a hit.
std::vector<SearchedPattern> without_the_usual(std::vector<SearchedPattern> patterns);

// `count` different payloads of `bytes` bytes, the same ones every time. Made to hit: one pattern behind the
// other, most of them short, of each the first or last byte left out; none is there.
// Throws std::runtime_error, a sentence, where a text without a pattern cannot be made.
std::vector<std::string> make_payloads(const Traffic& traffic, const std::vector<SearchedPattern>& patterns,
                                       const PlainSearch& search, u32 count, u32 bytes);

}  // namespace xdpgpu::bench
