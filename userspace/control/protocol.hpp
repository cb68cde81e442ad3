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
// With "for": "eth0" a request says whose process is meant; one that has not attached that interface refuses.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/control/result.hpp"

namespace xdpgpu::control {

using Json = nlohmann::json;
// Longest line in either direction, its newline included.
inline constexpr std::size_t kMaxMessage = std::size_t{64} << 20;
inline constexpr std::size_t kMaxFilesBytes = std::size_t{1} << 30;  // of all files behind a request
inline constexpr int kMaxDepth = 16;                                 // of nested values
// Of a request, the names of its files included. Of each the process would make more than it takes in the
// line.
inline constexpr std::size_t kMaxRequestValues = 100'000;
// Longest time within which an applied policy can be asked to be confirmed.
inline constexpr unsigned kMaxConfirmSeconds = 24 * 3600;

// Names of the requests, and what each takes and gives.
namespace request {
inline constexpr std::string_view kStatus = "status";             // → the status report
inline constexpr std::string_view kPolicyApply = "policy.apply";  // text, file, files, confirm_s?, audit?,
                                                                  // or keep_audit? (as it is now)
inline constexpr std::string_view kPolicyConfirm = "policy.confirm";  // keeps what --confirm applied
inline constexpr std::string_view kPolicyShow = "policy.show";        // → text, file, generation, hash
inline constexpr std::string_view kFlowsList = "flows.list";          // limit?, interface?, from?
inline constexpr std::string_view kFlowsFlush = "flows.flush";
inline constexpr std::string_view kDetach = "detach";  // answered when everything is undone
inline constexpr std::string_view kBypass = "bypass";  // on: bool
}  // namespace request

// What every failure is with -o json: {"error": {"message": ..., and of the first of the problems its
// "pointer", "line", ...}}, and all of them as "problems" where there are several.
Json error_json(const std::string& sentence, const Json& problems = {});

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
  Json problems{};  // of a policy, in their parts (compiled_policy.hpp); not an array: none
  bool ok() const { return error.empty(); }
  static Response success(Json result = Json::object());
  static Response failure(std::string error, std::vector<std::string> diagnostics = {}, Json problems = {});
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
