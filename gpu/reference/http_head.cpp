// SPDX-License-Identifier: MIT
#include "gpu/reference/http_head.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "gpu/best_fit.hpp"

namespace xdpgpu::gpu::reference {
namespace {

namespace sig = signatures;
using sig::HttpPart;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_blank(char c) { return c == ' ' || c == '\t'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
std::string in_lower_case(std::string_view text) {
  std::string made(text);
  std::transform(made.begin(), made.end(), made.begin(), lower);
  return made;
}
template <class Is>
std::string_view without_front(std::string_view text, Is is) {
  while (!text.empty() && is(text.front())) text.remove_prefix(1);
  return text;
}
template <class Is>
std::string_view without_back(std::string_view text, Is is) {
  while (!text.empty() && is(text.back())) text.remove_suffix(1);
  return text;
}
std::string_view without_end_of_line(std::string_view line) {
  return without_back(line, [](char c) { return c == '\r' || c == '\n'; });
}

// ---- the request line -----------------------------------------------------------------------------------

struct RequestLine {
  std::string_view method;
  std::optional<std::string_view> uri{}, protocol{};
};

// A status line's words, with an answer's protocol for a method, a code for a URI and a message for a
// protocol.
RequestLine read_status_line(std::string_view line) {
  RequestLine made{};
  const auto word = [&] {
    line = without_front(line, is_space);
    const auto end = std::find_if(line.begin(), line.end(), is_space);
    const auto found = line.substr(0, static_cast<std::size_t>(end - line.begin()));
    line.remove_prefix(found.size());
    return found;
  };
  made.method = word();
  if (const auto code = word(); !code.empty()) made.uri = code;
  line = without_front(line, is_space);
  if (!line.empty()) made.protocol = line;
  return made;
}

RequestLine read_line(std::string_view line) {
  line = without_front(line, is_space);
  const auto method_end = std::find_if(line.begin(), line.end(), is_space);
  RequestLine made{line.substr(0, static_cast<std::size_t>(method_end - line.begin()))};
  line = without_front(line.substr(made.method.size()), is_space);
  if (line.empty()) return made;
  std::size_t end = line.find(' ');
  if (end == std::string_view::npos)
    end = static_cast<std::size_t>(std::find_if(line.begin(), line.end(), is_space) - line.begin());
  made.uri = line.substr(0, end);
  line = without_front(line.substr(end), is_space);
  if (!line.empty()) made.protocol = line;
  return made;
}

bool names_http(std::string_view protocol) { return in_lower_case(protocol.substr(0, 5)) == "http/"; }

// ---- the URI --------------------------------------------------------------------------------------------

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
// A number of so many hexadecimal digits; nothing: they are not there.
std::optional<u32> hex_number(std::string_view text, std::size_t at, std::size_t digits) {
  if (text.size() < at + digits) return {};
  u32 value = 0;
  for (std::size_t i = at; i < at + digits; i++) {
    const int digit = digit_of(text[i]);
    if (digit < 0) return {};
    value = value << 4 | static_cast<u32>(digit);
  }
  return value;
}
char single_byte(u32 code) { return static_cast<char>(code < 0x100 ? code : best_fit(code)); }

// Each %XX, and with `words` each %uXXXX.
std::string decoded(std::string_view text, bool words) {
  std::string made;
  for (std::size_t i = 0; i < text.size();) {
    const bool is_word = words && text[i] == '%' && i + 1 < text.size() && lower(text[i + 1]) == 'u';
    const auto byte = text[i] != '%' ? std::nullopt
                      : is_word      ? hex_number(text, i + 2, 4)
                                     : hex_number(text, i + 1, 2);
    made += byte ? single_byte(*byte) : text[i];
    i += !byte ? 1 : is_word ? 6 : 3;
  }
  return made;
}

// Whether a byte may be the one behind the first of a character.
bool may_follow(u8 first, u8 second) {
  if (first == 0xed) return second >= 0x80 && second < 0xa0;  // no surrogates
  if (first == 0xf4) return second >= 0x80 && second < 0x90;
  return (second & 0xc0) == 0x80;
}

// UTF-8, also where it is longer than it has to be, as single bytes. Of what is none, each byte that begins
// something is kNoFit; a character that ends too early at the end is nothing.
std::string narrowed(std::string_view text) {
  std::string made;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<u8>(text[i++]);
    if (first < 0x80) {
      made += static_cast<char>(first);
      continue;
    }
    const std::size_t more = first < 0xc0 || first > 0xf4 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    u32 code = first & (0x3fu >> more);
    std::size_t have = 0;
    for (; have < more && i < text.size(); have++, i++) {
      const auto byte = static_cast<u8>(text[i]);
      if (have == 0 ? !may_follow(first, byte) : (byte & 0xc0) != 0x80) break;
      code = code << 6 | (byte & 0x3fu);
    }
    if (more != 0 && have == more)
      made += single_byte(code);
    else if (more == 0 || i < text.size())
      made += kNoFit;
  }
  return made;
}

// RFC 3986, 5.2.4, but for a path that ends with such a segment: of the slash that is left then nothing is.
std::string without_dot_segments(std::string_view text) {
  std::string made;
  const auto go_on = [&](std::size_t bytes) {
    text.remove_prefix(std::min(bytes, text.size()));
    if (text == "/") text = {};
  };
  while (!text.empty()) {
    if (text.starts_with("../")) {
      text.remove_prefix(3);
    } else if (text.starts_with("./")) {
      text.remove_prefix(2);
    } else if (text.starts_with("/./") || text == "/.") {
      go_on(2);
    } else if (text.starts_with("/../") || text == "/..") {
      const std::size_t last = made.rfind('/');
      made.resize(last == std::string::npos ? 0 : last);
      go_on(3);
    } else if (text == "." || text == "..") {
      text = {};
    } else {
      const std::size_t end = std::min(text.find('/', 1), text.size());
      made += text.substr(0, end);
      text.remove_prefix(end);
    }
  }
  return made;
}

std::string path_of(std::string_view raw) {
  std::string made;
  for (char c : decoded(raw, true)) {
    if (c == '\\') c = '/';
    if (c != '/' || made.empty() || made.back() != '/') made += c;
  }
  return without_dot_segments(narrowed(made));
}

struct Uri {
  std::optional<std::string_view> authority{};
  std::string_view path;
  std::optional<std::string_view> query{}, fragment{};
};

Uri read_uri(std::string_view text) {
  Uri made;
  if (!text.empty() && text[0] != '/') {
    const std::size_t colon = text.find(':');
    if (colon != std::string_view::npos) {
      text.remove_prefix(colon + 1);
      if (text.size() > 2 && text.starts_with("//") && text[2] != '/') {
        const std::size_t end = std::min(text.find_first_of("?/#", 2), text.size());
        made.authority = text.substr(2, end - 2);
        text.remove_prefix(end);
      }
    }
  }
  const std::size_t path_end = std::min(text.find_first_of("?#"), text.size());
  made.path = text.substr(0, path_end);
  text.remove_prefix(path_end);
  if (!text.empty() && text[0] == '?') {
    const std::size_t query_end = std::min(text.find('#'), text.size());
    made.query = text.substr(1, query_end - 1);
    text.remove_prefix(query_end);
  }
  if (!text.empty()) made.fragment = text.substr(1);
  return made;
}

std::string normalized(const Uri& uri) {
  std::string made = path_of(uri.path);
  if (uri.query) made += "?" + decoded(*uri.query, false);
  if (uri.fragment) made += "#" + decoded(*uri.fragment, true);
  return made;
}

// ---- hosts ----------------------------------------------------------------------------------------------

// Of the Host header, or of what CONNECT asks for.
std::optional<std::string> host_of(std::string_view value) {
  value = without_back(without_front(value, is_space), is_space);
  if (value.empty()) return {};
  if (value[0] == '[') {
    const std::size_t end = value.find(']');
    if (end == std::string_view::npos) return {};
    return in_lower_case(value.substr(0, end + 1));
  }
  return in_lower_case(without_back(value.substr(0, std::min(value.find(':'), value.size())), is_space));
}

// Of a URI.
std::string host_in(std::string_view authority) {
  const std::size_t at = authority.find('@');
  if (at != std::string_view::npos) authority.remove_prefix(at + 1);
  std::size_t end = authority.find(authority.starts_with('[') ? ']' : ':');
  if (authority.starts_with('[') && end != std::string_view::npos) end++;
  const std::string host = in_lower_case(decoded(authority.substr(0, end), true));
  return std::string(without_back(host, [](char c) { return c == '.'; }));
}

// ---- headers --------------------------------------------------------------------------------------------

struct Field {
  std::string name, value;
  bool is_joined = false;  // several lines have it
};

// up_to_nul: of a request; a name that has a NUL in it is none.
Field read_field(std::string_view line, bool up_to_nul) {
  const std::size_t colon = std::min(line.find(':'), line.size());
  if (colon == line.size() || (up_to_nul && line.find('\0') < colon))
    return {"", std::string(without_back(line, is_blank))};
  return {std::string(without_back(line.substr(0, colon), is_blank)),
          std::string(without_back(without_front(line.substr(colon + 1), is_blank), is_blank))};
}

}  // namespace

std::size_t line_bytes(std::string_view text, bool by_cr) {
  for (std::size_t at = 0; at < text.size(); at++) {
    if (text[at] == '\n') return at + 1;
    if (by_cr && text[at] == '\r' && at + 1 < text.size() && text[at + 1] != '\r' && text[at + 1] != '\n')
      return at + 1;
  }
  return std::string_view::npos;
}

namespace {

// Lines that go on are one with those in front of them. One of CR alone has no name and no value, but behind
// such a line. parts: but where both have a colon.
std::vector<std::string> unfolded(std::string_view lines, bool parts, bool by_cr) {
  const auto folds = [](char c) { return is_blank(c) || c == '\0'; };
  std::vector<std::string> made;
  bool went_on = false;
  while (!lines.empty()) {
    const std::size_t end = std::min(line_bytes(lines, by_cr), lines.size());
    const std::string_view line = without_end_of_line(lines.substr(0, end));
    went_on = line.empty() ? went_on : folds(line[0]);
    const auto has_colon = [](std::string_view text) { return text.find(':') != std::string_view::npos; };
    if (went_on && !made.empty() && parts && has_colon(line) && has_colon(made.back()))
      made.emplace_back(line.substr(1));
    else if (went_on && !made.empty())
      made.back() += line;
    else
      made.emplace_back(without_front(line, folds));
    lines.remove_prefix(end);
  }
  return made;
}

// Of a body, and of a chunk of one.
constexpr u64 kMostBody = 0x7fffffff;

struct Named {
  std::string_view name;
  HttpPart part;
};
constexpr Named kAnswersNamed[] = {{"server", HttpPart::server},
                                   {"location", HttpPart::location},
                                   {"set-cookie", HttpPart::set_cookie},
                                   {"connection", HttpPart::answer_connection},
                                   {"content-type", HttpPart::answer_content_type},
                                   {"content-length", HttpPart::answer_content_length}};
constexpr Named kNamed[] = {{"user-agent", HttpPart::user_agent},
                            {"cookie", HttpPart::cookie},
                            {"referer", HttpPart::referer},
                            {"accept", HttpPart::accept},
                            {"accept-encoding", HttpPart::accept_encoding},
                            {"accept-language", HttpPart::accept_language},
                            {"connection", HttpPart::connection},
                            {"content-type", HttpPart::content_type},
                            {"content-length", HttpPart::content_length},
                            {"host", HttpPart::raw_host}};

// The first number that stands in it.
std::optional<u64> number_of(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  text = without_front(text, [&](char c) { return !is_digit(c); });
  u64 value = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && is_digit(text[digits]); digits++) {
    value = value * 10 + static_cast<u64>(text[digits] - '0');
    if (value > kMostBody) return {};
  }
  if (digits == 0) return {};
  return value;
}

// Each once, where it stands first, with all of its values.
std::vector<Field> joined(const std::vector<std::string>& lines, bool up_to_nul) {
  std::vector<Field> made;
  for (const std::string& line : lines) {
    Field field = read_field(line, up_to_nul);
    const auto known = std::find_if(made.begin(), made.end(), [&](const Field& one) {
      return in_lower_case(one.name) == in_lower_case(field.name);
    });
    if (known == made.end()) {
      made.push_back(std::move(field));
    } else if (in_lower_case(field.name) != "content-length") {
      known->value += ", " + field.value;
      known->is_joined = true;
    }
  }
  return made;
}

}  // namespace

bool is_empty_line(std::string_view line) { return line == "\n" || line == "\r\n" || line == "\r"; }

bool begins_request(std::string_view line) {
  const RequestLine read = read_line(without_end_of_line(line));
  const auto upper = [&] {
    std::string made(read.method);
    for (char& c : made) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    return made;
  };
  return (read.protocol && names_http(*read.protocol)) || (read.uri && names_http(*read.uri)) ||
         std::find(std::begin(sig::kHttpMethods), std::end(sig::kHttpMethods), upper()) !=
             std::end(sig::kHttpMethods);
}

namespace {

void set(HttpHead& to, HttpPart part, std::string_view text) {
  to.parts[static_cast<std::size_t>(part)] = text;
}

// What stands behind the first line.
struct Headers {
  std::span<const Named> named;
  std::string_view cookie;  // the one that is not among all
  HttpPart all, names;
  bool up_to_nul, parts;  // read_field(), unfolded()
};
void read_headers(std::string_view lines, const Headers& of, HttpHead& to) {
  // Up to the empty line.
  if (lines.ends_with('\n')) lines.remove_suffix(1);
  if (lines.ends_with('\r')) lines.remove_suffix(1);
  const auto single = unfolded(lines, of.parts, !of.up_to_nul);
  for (const std::string& one : single) {
    to.line_bytes += one.size();
    const Field field = read_field(one, of.up_to_nul);
    if (in_lower_case(field.name) == "content-encoding" && !field.value.empty() &&
        in_lower_case(field.value) != "identity")
      to.encoded = true;
  }
  std::string all, names;
  for (const Field& field : joined(single, of.up_to_nul)) {
    const std::string name = in_lower_case(field.name);
    names += field.name + "\r\n";
    if (name != of.cookie) all += field.name + ": " + field.value + "\r\n";
    for (const Named& one : of.named)
      if (one.name == name) {
        set(to, one.part, field.value);
        if (field.is_joined) to.joined_bytes[static_cast<std::size_t>(one.part)] = field.value.size();
      }
    if (name == "content-length") to.content_length = number_of(field.value);
    if (name == "transfer-encoding" && in_lower_case(field.value).find("chunked") != std::string::npos)
      to.chunked = true;
  }
  if (!all.empty()) set(to, of.all, all);
  if (!names.empty()) set(to, of.names, "\r\n" + names + "\r\n");
}

u32 status_of(std::string_view code) {
  u32 value = 0;
  for (const char c : code) {
    if (c < '0' || c > '9' || value >= 100) return 0;
    value = value * 10 + static_cast<u32>(c - '0');
  }
  return value >= 100 ? value : 0;
}

}  // namespace

Method method_of(std::string_view line) {
  const std::string method = in_lower_case(read_line(without_end_of_line(line)).method);
  return method == "head" ? Method::head : method == "connect" ? Method::connect : Method::other;
}

bool begins_answer(std::string_view line) {
  line = without_front(without_end_of_line(line), [](char c) { return is_space(c) || c == '\0'; });
  return in_lower_case(line.substr(0, 4)) == "http";
}

HttpHead read_http_answer(std::string_view head) {
  HttpHead made;
  const std::size_t line_end = std::min(line_bytes(head, true), head.size());
  const std::string_view line = without_end_of_line(head.substr(0, line_end));
  const RequestLine read = read_status_line(line);
  made.line_bytes = line.size();
  set(made, HttpPart::response_line, line);
  set(made, HttpPart::answer_protocol, read.method);
  if (read.uri) {
    set(made, HttpPart::stat_code, *read.uri);
    made.status = status_of(*read.uri);
  }
  if (read.protocol) set(made, HttpPart::stat_msg, *read.protocol);
  read_headers(head.substr(line_end),
               {kAnswersNamed, "set-cookie", HttpPart::answer_header, HttpPart::answer_header_names, false,
                read.method == "HTTP/1.1"},
               made);
  return made;
}

HttpHead read_http_request(std::string_view head) {
  HttpHead made;
  const std::size_t line_end = head.find('\n') + 1;
  const std::string_view line = without_end_of_line(head.substr(0, line_end));
  const RequestLine read = read_line(line);
  const Uri uri = read_uri(read.uri.value_or(""));
  made.line_bytes = line.size();
  set(made, HttpPart::request_line, line);
  set(made, HttpPart::method, read.method);
  if (read.uri) {
    set(made, HttpPart::raw_uri, *read.uri);
    set(made, HttpPart::uri, normalized(uri));
  }
  if (read.protocol) set(made, HttpPart::protocol, *read.protocol);
  read_headers(head.substr(line_end),
               {kNamed, "cookie", HttpPart::header, HttpPart::header_names, true, false}, made);
  std::optional<std::string> host;
  const auto& header = made[HttpPart::raw_host];
  if (uri.authority)
    host = host_in(*uri.authority);
  else if (header)
    host = host_of(*header);
  if (uri.authority || header) made.host_bytes = 1 + (uri.authority ? uri.authority->size() : header->size());
  if (host) set(made, HttpPart::host, *host);
  return made;
}

std::optional<u64> read_chunk_size(std::string_view line) {
  line = without_front(line, is_space);
  u64 value = 0;
  std::size_t digits = 0;
  for (; digits < line.size() && digit_of(line[digits]) >= 0; digits++) {
    value = value << 4 | static_cast<u64>(digit_of(line[digits]));
    if (value > kMostBody) return {};
  }
  if (digits == 0) return {};
  return value;
}

}  // namespace xdpgpu::gpu::reference
