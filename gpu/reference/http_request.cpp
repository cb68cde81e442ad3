// SPDX-License-Identifier: MIT
#include "gpu/reference/http_request.hpp"

#include <algorithm>
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

Field read_field(std::string_view line) {
  const std::size_t colon = std::min(line.find(':'), line.size());
  if (colon == line.size() || line.find('\0') < colon) return {"", std::string(without_back(line, is_blank))};
  return {std::string(without_back(line.substr(0, colon), is_blank)),
          std::string(without_back(without_front(line.substr(colon + 1), is_blank), is_blank))};
}

// Lines that go on are one with those in front of them. One of CR alone has no name and no value, but behind
// such a line.
std::vector<std::string> unfolded(std::string_view lines) {
  const auto folds = [](char c) { return is_blank(c) || c == '\0'; };
  std::vector<std::string> made;
  bool went_on = false;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    const std::string_view line = without_end_of_line(lines.substr(0, end));
    went_on = line.empty() ? went_on : folds(line[0]);
    if (went_on && !made.empty())
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
std::vector<Field> joined(const std::vector<std::string>& lines) {
  std::vector<Field> made;
  for (const std::string& line : lines) {
    Field field = read_field(line);
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

bool is_empty_line(std::string_view line) { return line == "\n" || line == "\r\n"; }

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

HttpRequest read_http_request(std::string_view head) {
  HttpRequest made;
  const auto set = [&](HttpPart part, std::string_view text) {
    made.parts[static_cast<std::size_t>(part)] = text;
  };
  const std::size_t line_end = head.find('\n') + 1;
  const std::string_view line = without_end_of_line(head.substr(0, line_end));
  const RequestLine read = read_line(line);
  const Uri uri = read_uri(read.uri.value_or(""));
  set(HttpPart::request_line, line);
  set(HttpPart::method, read.method);
  made.is_connect = in_lower_case(read.method) == "connect";
  if (read.uri) {
    set(HttpPart::raw_uri, *read.uri);
    set(HttpPart::uri, normalized(uri));
  }
  if (read.protocol) set(HttpPart::protocol, *read.protocol);
  std::string_view lines = head.substr(line_end);
  if (!lines.empty()) lines.remove_suffix(lines.ends_with("\r\n") ? 2 : 1);
  const auto single = unfolded(lines);
  made.line_bytes = line.size();
  for (const std::string& one : single) made.line_bytes += one.size();
  std::string all, names;
  for (const Field& field : joined(single)) {
    const std::string name = in_lower_case(field.name);
    names += field.name + "\r\n";
    if (name != "cookie") all += field.name + ": " + field.value + "\r\n";
    for (const Named& one : kNamed)
      if (one.name == name) {
        set(one.part, field.value);
        if (field.is_joined) made.joined_bytes[static_cast<std::size_t>(one.part)] = field.value.size();
      }
    if (name == "content-length") made.content_length = number_of(field.value);
    if (name == "transfer-encoding" && in_lower_case(field.value).find("chunked") != std::string::npos)
      made.chunked = true;
  }
  if (!all.empty()) set(HttpPart::header, all);
  if (!names.empty()) set(HttpPart::header_names, "\r\n" + names + "\r\n");
  std::optional<std::string> host;
  const auto& header = made[HttpPart::raw_host];
  if (uri.authority)
    host = host_in(*uri.authority);
  else if (header)
    host = host_of(*header);
  if (uri.authority || header) made.host_bytes = 1 + (uri.authority ? uri.authority->size() : header->size());
  if (host) set(HttpPart::host, *host);
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
