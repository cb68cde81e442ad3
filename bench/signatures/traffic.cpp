// SPDX-License-Identifier: MIT
#include "bench/signatures/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>

namespace xdpgpu::bench {
namespace {

using Random = std::mt19937_64;
using Word = std::function<std::string(u32 letters)>;

constexpr double kRealHits = 9.5, kRealBytes = 1446;
constexpr u32 kSamples = 64, kRounds = 200, kTries = 64;

std::string word(Random& random, u32 letters) {
  static constexpr std::string_view kLetters = "eeeaattoinsrhldcumfpgwybvkxjqz0123456789";
  std::string text;
  while (text.size() < letters) text.push_back(kLetters[random() % kLetters.size()]);
  return text;
}

std::string user_agent(Random& random, const Word& some) {
  switch (random() % 3) {
    case 0:
      return fmt::format("Mozilla/5.0 (X11; Linux x86_64; rv:{0}) Gecko/20100101 Firefox/{0}", some(3));
    case 1:
      return fmt::format(
          "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
          "Chrome/{}.0.0.0 Safari/537.36",
          some(3));
    default:
      return fmt::format(
          "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 "
          "(KHTML, like Gecko) Version/17.5 Mobile/{} Safari/604.1",
          some(6));
  }
}

std::string request(Random& random, const Word& some) {
  static constexpr std::string_view kEnds[] = {".html", ".js", ".css", ".png", "/"};
  std::string text = fmt::format("{} /{}/{}{}?{}={} HTTP/1.1\r\n", random() % 4 == 0 ? "POST" : "GET",
                                 some(7), some(9), kEnds[random() % std::size(kEnds)], some(4), some(12));
  text += fmt::format("Host: {}.{}.com\r\n", some(4), some(10));
  text += fmt::format("User-Agent: {}\r\n", user_agent(random, some));
  text += "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";
  text += "Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n";
  text += fmt::format("Referer: https://{}.{}.org/{}\r\n", some(3), some(8), some(10));
  text += "Cookie: ";
  for (u64 i = 0; i < 3 + random() % 4; i++) text += fmt::format("{}={}; ", some(5), some(24));
  text += fmt::format("{}={}\r\nConnection: keep-alive\r\n\r\n", some(4), some(16));
  return text;
}

std::string http(Random& random, u32 bytes) {
  const Word some = [&](u32 letters) { return word(random, letters); };
  std::string text;
  while (text.size() < bytes) text += request(random, some);
  text.resize(bytes);
  return text;
}

std::string any_bytes(Random& random, std::size_t bytes) {
  std::string text(bytes, 0);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string number(std::size_t value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }

// A record of application data.
std::string tls(Random& random, u32 bytes) {
  return "\x17\x03\x03" + number(bytes - 5) + any_bytes(random, bytes - 5);
}

// An answer: a question, then records of text until it is full.
std::string dns(Random& random, u32 bytes) {
  using namespace std::string_literals;
  const auto label = [&](u32 letters) { return static_cast<char>(letters) + word(random, letters); };
  std::string text = any_bytes(random, 2) + "\x81\x80\0\1\0\x9\0\0\0\0"s;
  text += label(3) + label(8 + static_cast<u32>(random() % 8)) + label(3) + "\0\0\x10\0\1"s;
  while (text.size() < bytes) {
    const u32 letters = 40 + static_cast<u32>(random() % 80);
    text += "\xc0\x0c\0\x10\0\1\0\0\1\x2c"s + number(letters + 1) + label(letters);
  }
  text.resize(bytes);
  return text;
}

// Short ones stand closer together, long ones take longer to compare.
std::string made(Random& random, const std::vector<SearchedPattern>& patterns, u32 bytes) {
  std::string text;
  while (text.size() < bytes) {
    const bool any = random() % 4 == 0;
    std::string piece = patterns[random() % patterns.size()].bytes;
    for (u32 tries = 0; tries < kTries && !any && (piece.size() < 5 || piece.size() > 8); tries++)
      piece = patterns[random() % patterns.size()].bytes;
    if (any || random() % 2 == 0)
      piece.pop_back();
    else
      piece.erase(0, 1);
    text += piece;
  }
  text.resize(bytes);
  return text;
}

// Changes a byte of each pattern that is there, until there is none.
void clean(std::string& text, Like like, const PlainSearch& search, Random& random) {
  for (u32 round = 0; round < kRounds; round++) {
    bool found = false;
    search.each(text, [&](u32, std::size_t at) {
      found = true;
      // The search goes on with what is there now.
      text[at] = like == Like::http ? word(random, 1)[0] : static_cast<char>(random());
    });
    if (!found) return;
  }
  throw std::runtime_error(
      "no text can be made in which none of the patterns stands: leave short patterns out");
}

// Patterns overwrite parts of the text, until as many different ones are there.
void plant(std::string& text, u32 wanted, const std::vector<SearchedPattern>& patterns,
           const PlainSearch& search, Random& random) {
  for (u32 tries = 0; tries < kTries && search.all_in(text).size() < wanted; tries++) {
    const SearchedPattern& one = patterns[random() % patterns.size()];
    if (one.bytes.size() * 4 > text.size()) continue;
    const std::size_t at = random() % (text.size() - one.bytes.size() + 1);
    for (std::size_t i = 0; i < one.bytes.size(); i++) {
      char c = one.bytes[i];
      if (one.nocase && c >= 'a' && c <= 'z' && random() % 4 == 0) c = static_cast<char>(c - ('a' - 'A'));
      text[at + i] = c;
    }
  }
}

u32 wanted_hits(Like like, u32 bytes, Random& random) {
  const double mean = like == Like::http ? kRealHits * bytes / kRealBytes : 0.5;
  return static_cast<u32>(mean + static_cast<double>(random() % 1000) / 1000);
}

}  // namespace

std::string Traffic::name() const {
  if (like == Like::made) return "made to hit";
  return fmt::format("{} with {}",
                     like == Like::http  ? "http"
                     : like == Like::tls ? "tls"
                                         : "dns",
                     hits == Hits::none ? "no hits" : "real hits");
}

std::vector<Traffic> all_traffic() {
  std::vector<Traffic> all;
  for (const Like like : {Like::http, Like::tls, Like::dns})
    for (const Hits hits : {Hits::none, Hits::real}) all.push_back({like, hits});
  all.push_back({Like::made, Hits::none});
  return all;
}

std::vector<SearchedPattern> without_the_usual(std::vector<SearchedPattern> patterns) {
  Random random(1);
  std::vector<bool> usual(patterns.size());
  const PlainSearch search(patterns);
  for (u32 i = 0; i < kSamples; i++)
    search.each(request(random, [](u32) { return std::string(); }),
                [&](u32 pattern, std::size_t) { usual[pattern] = true; });
  std::vector<SearchedPattern> left;
  for (std::size_t i = 0; i < patterns.size(); i++)
    if (!usual[i]) left.push_back(std::move(patterns[i]));
  return left;
}

std::vector<std::string> make_payloads(const Traffic& traffic, const std::vector<SearchedPattern>& patterns,
                                       const PlainSearch& search, u32 count, u32 bytes) {
  Random random(20261126 + bytes);
  std::vector<std::string> payloads;
  for (u32 i = 0; i < count; i++) {
    std::string& text = payloads.emplace_back();
    switch (traffic.like) {
      case Like::http:
        text = http(random, bytes);
        break;
      case Like::tls:
        text = tls(random, bytes);
        break;
      case Like::dns:
        text = dns(random, bytes);
        break;
      case Like::made:
        text = made(random, patterns, bytes);
        break;
    }
    clean(text, traffic.like, search, random);
    if (traffic.hits == Hits::real)
      plant(text, wanted_hits(traffic.like, bytes, random), patterns, search, random);
  }
  return payloads;
}

}  // namespace xdpgpu::bench
