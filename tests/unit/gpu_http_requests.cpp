// SPDX-License-Identifier: MIT
//
// Heads of requests by HTTP/1 are read as libhtp 0.5.50 reads them for Suricata: tests/data/http/requests.txt
// has its answers. config/streams.md says what is another thing here.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gpu/reference/http_requests.hpp"

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

struct Asked {
  std::string head;
  std::map<std::string, std::string> parts;
  std::vector<std::pair<std::string, std::string>> headers;
};

std::vector<Asked> asked() {
  std::vector<Asked> all;
  std::ifstream file(XDPGPU_SOURCE_DIR "/tests/data/http/requests.txt");
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

TEST(HttpRequests, AreReadAsLibhtpDoes) {
  const auto all = asked();
  ASSERT_GT(all.size(), 300u);
  const std::map<std::string, HttpPart> names{
      {"request_line", HttpPart::request_line}, {"method", HttpPart::method},
      {"raw_uri", HttpPart::raw_uri},           {"uri", HttpPart::uri},
      {"protocol", HttpPart::protocol},         {"host", HttpPart::host}};
  for (const Asked& one : all) {
    SCOPED_TRACE(one.head);
    const HttpRequest read = read_http_request(one.head);
    EXPECT_TRUE(begins_request(one.head.substr(0, one.head.find('\n') + 1)));
    for (const auto& [name, part] : names) {
      const auto said = one.parts.find(name);
      ASSERT_EQ(read[part].has_value(), said != one.parts.end()) << name;
      // It leaves capital letters where a port stands behind them.
      if (read[part]) {
        EXPECT_EQ(*read[part], part == HttpPart::host ? in_lower_case(said->second) : said->second) << name;
      }
    }
    std::string header, header_names;
    for (const auto& [name, value] : one.headers) {
      header_names.append(name).append("\r\n");
      if (in_lower_case(name) != "cookie") header.append(name).append(": ").append(value).append("\r\n");
      if (in_lower_case(name) == "user-agent") {
        EXPECT_EQ(read[HttpPart::user_agent], value);
      }
    }
    EXPECT_EQ(read[HttpPart::header].value_or(""), header);
    EXPECT_EQ(read[HttpPart::header_names].value_or(""),
              one.headers.empty() ? "" : "\r\n" + header_names + "\r\n");
  }
}

// However a text is cut: the same heads.
TEST(HttpRequests, AreTheSameInEveryCut) {
  const std::string text =
      "\r\nPOST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nabc\nGET /b HTTP/1.1\r\n\r\n"
      "PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nGET /\r\n0\r\nA: b\r\n\r\nno request\n"
      "CONNECT d HTTP/1.1\r\n\r\nGET /e\r\nGET /f HTTP/1.1\nHost: a\n\n";
  const std::vector<std::string> should{"/a", "/b", "/c", "d", "/e", "/f"};
  for (std::size_t step = 1; step < 40; step++) {
    HttpRequests requests;
    std::vector<std::string> found;
    for (std::size_t end = step; end < text.size() + step; end += step) {
      const auto said = requests.go_on(std::string_view(text).substr(0, end), 0, 4096);
      EXPECT_FALSE(said.too_long);
      for (const auto& one : said.read)
        if (const auto* const read = std::get_if<HttpRequest>(&one))
          found.push_back(*(*read)[HttpPart::raw_uri]);
    }
    EXPECT_EQ(found, should) << step;
  }
}

}  // namespace
}  // namespace xdpgpu::gpu::reference
