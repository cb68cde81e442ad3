// SPDX-License-Identifier: MIT
#include "tests/stages/http_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace xdpgpu::tests {
namespace {

using namespace std::string_view_literals;

template <std::size_t N>
std::string_view one_of(Random& random, const std::array<std::string_view, N>& all) {
  return all[random.below(static_cast<u32>(N))];
}

constexpr std::array kPieces{"/"sv,
                             "/"sv,
                             "/"sv,
                             "a"sv,
                             "b"sv,
                             "B"sv,
                             "0"sv,
                             "."sv,
                             ".."sv,
                             "/../"sv,
                             "/./"sv,
                             "%2e"sv,
                             "%2F"sv,
                             "%5c"sv,
                             "\\"sv,
                             "//"sv,
                             "%41"sv,
                             "%zz"sv,
                             "%"sv,
                             "%4"sv,
                             "%u0041"sv,
                             "%u2f"sv,
                             "%U012f"sv,
                             "%u00zz"sv,
                             "\xc3\xa9"sv,
                             "%c0%af"sv,
                             "%e2%82%ac"sv,
                             "\xff"sv,
                             "\xf0\x9f\x98\x80"sv,
                             "\xc3"sv,
                             "%00"sv,
                             "?"sv,
                             "#"sv,
                             "+"sv,
                             "="sv,
                             "&"sv,
                             ":"sv,
                             "http://"sv,
                             "ab"sv,
                             "A.b"sv,
                             "\x01"sv,
                             "\xe0\x80"sv,
                             "%ff%2e"sv,
                             "@"sv,
                             "\xed\xa0\x80"sv,
                             "\xf4\x90\x80\x80"sv,
                             "\xf8\x80"sv,
                             "\xe2\x81\x84"sv};
constexpr std::array kMethods{
    "GET"sv, "GET"sv, "POST"sv, "HEAD"sv, "get"sv, "OPTIONS"sv, "BASELINE-CONTROL"sv, "CONNECT"sv, "AB"sv};
constexpr std::array kSpaces{" "sv, " "sv, " "sv, " "sv, " "sv, " "sv, "  "sv, "\t"sv, " \t"sv, "\v"sv};
constexpr std::array kProtocols{"HTTP/1.1"sv, "HTTP/1.1"sv,  "HTTP/1.1"sv,  "HTTP/1.1"sv, "HTTP/1.0"sv,
                                "http/1.1"sv, "HTTP/1.1 "sv, "HTTP /1.1"sv, "ab"sv,       ""sv};
constexpr std::array kNames{"Host"sv,
                            "Host"sv,
                            "User-Agent"sv,
                            "Cookie"sv,
                            "X"sv,
                            "x"sv,
                            "A"sv,
                            "Accept"sv,
                            "Accept-Encoding"sv,
                            "Accept-Language"sv,
                            "Referer"sv,
                            "HOST"sv,
                            "Connection"sv,
                            "Content-Type"sv,
                            "cookie"sv,
                            "B "sv,
                            "C\t"sv,
                            ""sv,
                            "D\0"sv,
                            "E E"sv,
                            " F"sv,
                            "\tG"sv,
                            "\0H"sv};
constexpr std::array kAnswersNames{
    "Server"sv,     "Server"sv,       "Location"sv, "Set-Cookie"sv, "set-cookie"sv,
    "Connection"sv, "Content-Type"sv, "X"sv,        "A"sv,          "B "sv,
    ""sv,           "D\0"sv,          " F"sv,       "\0H"sv,        "Content-Encoding"sv,
    "SERVER"sv};
constexpr std::array kStatuses{"200"sv, "200"sv, "200"sv, "200"sv, "404"sv,  "100"sv,  "101"sv, "204"sv,
                               "304"sv, "500"sv, "20x"sv, "99"sv,  "0200"sv, "2000"sv, ""sv,    "0"sv};
constexpr std::array kMessages{" OK"sv, " OK"sv, ""sv, " "sv, "\tab  AB "sv, "  a"sv, " \xff\0"sv};
constexpr std::array kValues{"a"sv,       "b "sv,  " ab"sv,  "  aB\t"sv, "A.b.ab"sv,  "ab:80"sv,
                             "[::A]:1"sv, "[a"sv,  ""sv,     "5"sv,      "x\0y"sv,    "a\tb"sv,
                             "a b"sv,     "a:b"sv, "a.b."sv, " : "sv,    "0.0.0.0"sv, "BAba"sv};
constexpr std::array kColons{": "sv, ": "sv, ": "sv, ": "sv, ":"sv, " : "sv, ""sv, ":\t"sv};
constexpr std::array kEnds{"\r\n"sv, "\r\n"sv, "\r\n"sv,   "\r\n"sv,  "\r\n"sv,   "\r\n"sv,
                           "\r\n"sv, "\n"sv,   "\r\r\n"sv, " \r\n"sv, "\r \r\n"sv};

std::string random_uri(Random& random) {
  std::string uri;
  if (random.one_in(10))
    uri = "http://" + std::string(one_of(random, std::array{""sv, "a:b@"sv, "a@"sv})) +
          std::string(one_of(random, std::array{"aB"sv, "b%41."sv, "[::1]"sv, "[::1"sv, ""sv})) +
          std::string(one_of(random, std::array{""sv, ":80"sv, ":b"sv}));
  for (u32 i = random.between(1, 9); i != 0; i--) uri += one_of(random, kPieces);
  return uri;
}

std::string random_letters(Random& random, u32 bytes) {
  std::string text;
  while (text.size() < bytes) text += random.pick(std::array{'a', 'b', 'A', 'B', '0', '.', '\n'});
  return text;
}

enum class Of : u8 { client, server };

std::string first_line(Random& random, Of of) {
  std::string line{random.one_in(20) ? one_of(random, kSpaces) : ""sv};
  if (of == Of::server) {
    line += one_of(random, std::array{"HTTP/1.1"sv, "HTTP/1.1"sv, "HTTP/1.0"sv, "http/1.1"sv, "HTTP"sv});
    line += one_of(random, kSpaces);
    line += one_of(random, kStatuses);
    line += one_of(random, kMessages);
    return line;
  }
  line += one_of(random, kMethods);
  line += one_of(random, kSpaces);
  line += random_uri(random);
  line += one_of(random, kSpaces);
  line += one_of(random, kProtocols);
  return line;
}

// headers: that say how a body is cut.
std::string head_with(Random& random, std::string_view headers, Of of = Of::client) {
  std::string head = first_line(random, of);
  head += one_of(random, kEnds);
  const u32 lines = random.one_in(60) ? random.between(95, 105) : random.below(7);
  const u32 place = random.below(lines + 1);
  for (u32 i = 0; i <= lines; i++) {
    if (i == place) head += headers;
    if (i == lines) break;
    head += of == Of::server ? one_of(random, kAnswersNames) : one_of(random, kNames);
    head += one_of(random, kColons);
    head +=
        random.one_in(30) ? random_letters(random, random.below(300)) : std::string(one_of(random, kValues));
    head += one_of(random, kEnds);
  }
  return head + std::string(one_of(random, std::array{"\r\n"sv, "\r\n"sv, "\n"sv}));
}

std::string random_chunks(Random& random) {
  std::string body;
  for (u32 i = random.below(4); i != 0; i--) {
    const u32 bytes = random.between(1, random.one_in(8) ? 400 : 20);
    body +=
        fmt::format("{}{:x}{}\r\n", random.one_in(8) ? "\r\n" : "", bytes, random.one_in(4) ? " ;ab" : "");
    body += random_letters(random, bytes) + (random.one_in(10) ? "ab\n" : "\r\n");
  }
  body += random.one_in(16) ? "zz\r\n" : "0\r\n";
  if (random.one_in(3)) body += "A: b\r\n";
  return body + "\r\n";
}

std::string one_head(Random& random, Of of) {
  const std::string all = head_with(random, "", of);
  // A line may have come out empty.
  std::size_t end = all.size();
  for (const std::string_view empty : {"\n\n"sv, "\n\r\n"sv})
    if (const std::size_t at = all.find(empty); at != std::string::npos)
      end = std::min(end, at + empty.size());
  return all.substr(0, end);
}

// unsized: one in so many has no length.
std::string messages(Random& random, Of of, u32 count, u32 unsized) {
  std::string text;
  for (; count != 0; count--) {
    if (random.one_in(10))
      text += one_of(random, std::array{"\r\n"sv, "\n"sv, "ab A\n"sv, "a b HTTP/1\n\n"sv});
    if (random.one_in(unsized)) {
      text += head_with(random, "", of);
      if (of == Of::server) text += random_letters(random, random.below(300));
    } else if (random.one_in(2)) {
      const u32 bytes = random.below(random.one_in(5) ? 1000 : 40);
      text +=
          head_with(random, fmt::format("Content-Length:{}{}\r\n", random.one_in(8) ? " a" : " ", bytes), of);
      text += random_letters(random, random.one_in(10) ? random.below(60) : bytes);
    } else {
      text += head_with(
          random,
          random.one_in(6) ? "Transfer-Encoding: gzip, Chunked\r\n" : "transfer-encoding: chunked\r\n", of);
      text += random_chunks(random);
    }
  }
  return text;
}

}  // namespace

std::string random_http_head(Random& random) { return one_head(random, Of::client); }
std::string random_answer_head(Random& random) { return one_head(random, Of::server); }

std::string random_http(Random& random, u32 requests) { return messages(random, Of::client, requests, 2); }
std::string random_answers(Random& random, u32 answers) {
  std::string text = messages(random, Of::server, answers, 5);
  if (random.one_in(12)) text.insert(0, "ab b\nabA\n");
  return text;
}

}  // namespace xdpgpu::tests
