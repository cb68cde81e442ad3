// SPDX-License-Identifier: MIT
//
// Requests and answers by HTTP/1 are read as libhtp 0.5.50 reads them for Suricata:
// tests/data/http/requests.txt and answers.txt have what it says. config/streams.md says what is another
// thing here.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gpu/reference/http_messages.hpp"

namespace xdpgpu::gpu::reference {
namespace {

using signatures::HttpPart;

std::string from_hex(const std::string& digits) {
  std::string made;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    made.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return made;
}
std::string in_lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

// What libhtp says of one head.
struct Said {
  std::string head;
  std::map<std::string, std::string> parts;
  std::vector<std::pair<std::string, std::string>> headers;
};

std::vector<Said> said_of(const std::string& name) {
  std::vector<Said> all;
  std::ifstream file(XDPGPU_SOURCE_DIR "/tests/data/http/" + name);
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const std::size_t space = std::min(line.find(' '), line.size() - 1);
    const std::string name = line.substr(0, line.find(' ')), bytes = from_hex(line.substr(space + 1));
    if (name == "head")
      all.push_back({bytes, {}, {}});
    else if (name == "name")
      all.back().headers.emplace_back(bytes, "");
    else if (name == "value")
      all.back().headers.back().second = bytes;
    else
      all.back().parts[name] = bytes;
  }
  return all;
}

struct Headers {
  std::string all, names;
};
Headers headers_of(const Said& said, const std::string& without) {
  Headers made;
  for (const auto& [name, value] : said.headers) {
    made.names.append(name).append("\r\n");
    if (in_lower_case(name) != without) made.all.append(name).append(": ").append(value).append("\r\n");
  }
  if (!made.names.empty()) made.names = "\r\n" + made.names + "\r\n";
  return made;
}

TEST(HttpMessages, RequestsAreReadAsLibhtpDoes) {
  const auto all = said_of("requests.txt");
  ASSERT_GT(all.size(), 300u);
  const std::map<std::string, HttpPart> names{
      {"request_line", HttpPart::request_line}, {"method", HttpPart::method},
      {"raw_uri", HttpPart::raw_uri},           {"uri", HttpPart::uri},
      {"protocol", HttpPart::protocol},         {"host", HttpPart::host}};
  for (const Said& one : all) {
    SCOPED_TRACE(one.head);
    const HttpHead read = read_http_request(one.head);
    EXPECT_TRUE(begins_request(one.head.substr(0, one.head.find('\n') + 1)));
    for (const auto& [name, part] : names) {
      const auto said = one.parts.find(name);
      ASSERT_EQ(read[part].has_value(), said != one.parts.end()) << name;
      // It leaves capital letters where a port stands behind them.
      if (read[part]) {
        EXPECT_EQ(*read[part], part == HttpPart::host ? in_lower_case(said->second) : said->second) << name;
      }
    }
    for (const auto& [name, value] : one.headers)
      if (in_lower_case(name) == "user-agent") {
        EXPECT_EQ(read[HttpPart::user_agent], value);
      }
    const Headers headers = headers_of(one, "cookie");
    EXPECT_EQ(read[HttpPart::header].value_or(""), headers.all);
    EXPECT_EQ(read[HttpPart::header_names].value_or(""), headers.names);
  }
}

TEST(HttpMessages, AnswersAreReadAsLibhtpDoes) {
  const auto all = said_of("answers.txt");
  ASSERT_GT(all.size(), 300u);
  const std::map<std::string, HttpPart> names{{"response_line", HttpPart::response_line},
                                              {"answer_protocol", HttpPart::answer_protocol},
                                              {"stat_code", HttpPart::stat_code},
                                              {"stat_msg", HttpPart::stat_msg}};
  const std::map<std::string, HttpPart> values{{"server", HttpPart::server},
                                               {"location", HttpPart::location},
                                               {"set-cookie", HttpPart::set_cookie},
                                               {"connection", HttpPart::answer_connection},
                                               {"content-type", HttpPart::answer_content_type},
                                               {"content-length", HttpPart::answer_content_length}};
  for (const Said& one : all) {
    SCOPED_TRACE(one.head);
    HttpMessages answers(HttpMessages::Of::server);
    HttpExchange exchange;
    exchange.is_asked = true;
    exchange.unanswered = {Method::other};
    const auto said = answers.go_on(one.head, 0, 4096, false, exchange);
    const auto* const read = said.read.empty() ? nullptr : std::get_if<HttpHead>(said.read.data());
    ASSERT_NE(read, nullptr);
    for (const auto& [name, part] : names) {
      const auto part_said = one.parts.find(name);
      ASSERT_EQ((*read)[part].has_value(), part_said != one.parts.end()) << name;
      if (part_said != one.parts.end()) {
        EXPECT_EQ((*read)[part], part_said->second) << name;
      }
    }
    for (const auto& [name, value] : one.headers)
      if (const auto known = values.find(in_lower_case(name)); known != values.end()) {
        EXPECT_EQ((*read)[known->second], value) << name;
      }
    const Headers headers = headers_of(one, "set-cookie");
    EXPECT_EQ((*read)[HttpPart::answer_header].value_or(""), headers.all);
    EXPECT_EQ((*read)[HttpPart::answer_header_names].value_or(""), headers.names);
    // What clients take none of.
    if (read->status == 204 || read->status == 304) continue;
    std::string body;
    for (const auto& what : said.read)
      if (const auto* const some = std::get_if<HttpBody>(&what)) body = some->text;
    std::string should = one.parts.contains("body") ? one.parts.at("body") : "";
    // What comes behind as many bytes as it says is no body's.
    if (read->content_length && !read->chunked) should.resize(std::min(should.size(), body.size()));
    EXPECT_EQ(body, should);
  }
}

// However a text is cut: the same heads.
TEST(HttpMessages, AreTheSameInEveryCut) {
  const std::string text =
      "\r\nPOST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nabc\nGET /b HTTP/1.1\r\n\r\n"
      "PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nGET /\r\n0\r\nA: b\r\n\r\nno request\n"
      "CONNECT d HTTP/1.1\r\n\r\nGET /e\r\nGET /f HTTP/1.1\nHost: a\n\n";
  const std::vector<std::string> should{"/a", "/b", "/c", "d", "/e", "/f"};
  for (std::size_t step = 1; step < 40; step++) {
    HttpMessages requests;
    HttpExchange exchange;
    std::vector<std::string> found;
    for (std::size_t end = step; end < text.size() + step; end += step) {
      const auto said = requests.go_on(std::string_view(text).substr(0, end), 0, 4096, false, exchange);
      EXPECT_FALSE(said.too_long);
      for (const auto& one : said.read)
        if (const auto* const read = std::get_if<HttpHead>(&one))
          found.push_back(*(*read)[HttpPart::raw_uri]);
    }
    EXPECT_EQ(found, should) << step;
  }
}

}  // namespace
}  // namespace xdpgpu::gpu::reference
