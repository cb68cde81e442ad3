// SPDX-License-Identifier: MIT
//
// userspace/control/protocol.hpp: what is said on the control socket: one JSON object a line, each
// request answered by one line, in order. The files that a policy names are too long to be quoted: a request
// says how many bytes each has, and they follow its line as they are, in the order of their names.
//
//   → {"request": "policy.apply", "text": "...", "file": "policy.json", "files": {"a.txt": 11}}
//     10.0.0.0/8
//   ← {"ok": true, "result": {...}}
//   ← {"ok": false, "error": "one sentence", "diagnostics": ["...", ...], "problems": [{...}, ...]}
//
// Which requests there are, and what each takes and gives, is in request/: one file a request. With "for":
// "eth0" a request says whose process is meant; one that has not attached that interface refuses.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/compiler/refusal.hpp"
#include "userspace/control/fields.hpp"
#include "userspace/control/result.hpp"

namespace xdpgpu::control {

// Longest line in either direction, its newline included.
inline constexpr std::size_t kMaxMessage = std::size_t{64} << 20;
inline constexpr std::size_t kMaxFilesBytes = std::size_t{1} << 30;  // of all files behind a request
inline constexpr int kMaxDepth = 16;                                 // of nested values
// Of a request, the names of its files included. Of each the process would make more than it takes in the
// line.
inline constexpr std::size_t kMaxRequestValues = 100'000;

using compiler::Problem;
using compiler::Problems;
using compiler::Refusal;

// What every failure is with -o json: of a policy the first of its problems, and all of them where there are
// several.
struct FailureReport {
  Problem error;
  std::optional<Problems> problems;
  std::optional<std::string> event;      // "end": of an attach
  std::optional<std::string> interface;  // of one among several
  // Of a policy that was refused: false, and its problems as sentences.
  std::optional<bool> ok;
  std::optional<std::vector<std::string>> diagnostics;
  static void fields(auto& self, auto& field) {
    field("error", self.error);
    field("problems", self.problems);
    field("event", self.event);
    field("interface", self.interface);
    field("ok", self.ok);
    field("diagnostics", self.diagnostics);
  }
};
FailureReport failure_report(const std::string& sentence, const Problems& problems = {});
// Of an attach: {"event": "end", ...}
Json failed_end(const std::string& sentence, const Problems& problems = {});

using Files = std::map<std::string, std::string>;  // contents by name

struct Request {
  std::string name;
  Json arguments;  // the whole object
  Files files{};
  std::map<std::string, std::size_t> announced{};  // bytes by name, of a request that was decoded
  std::string ifname{};                            // "for"; empty: whoever is asked
  std::function<bool()> left{};                    // whether its client has gone; empty: it cannot have
};

struct Response {
  Json result;
  std::string error;  // empty: ok
  std::vector<std::string> diagnostics;
  Problems problems{};  // of a policy
  bool ok() const { return error.empty(); }
  static Response success(Json result = Json::object());
  static Response failure(std::string error) { return failure(Refusal{std::move(error)}); }
  static Response failure(Refusal why);
};

// Encoded lines end in '\n'. Invalid UTF-8 is replaced, never an exception.
// Of a request its line; the files' contents are to follow it.
std::string encode(const Request& request);
std::string encode(const Response& response);
// One line, with or without its newline. The error is a sentence. A request's files are announced:
// they follow the line.
Result<Request> decode_request(std::string_view line);
Result<Response> decode_response(std::string_view line);

}  // namespace xdpgpu::control
