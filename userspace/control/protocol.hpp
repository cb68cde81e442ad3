// SPDX-License-Identifier: MIT
//
// userspace/control/protocol.hpp: what is said on the control socket: one JSON object a line, each
// request answered by one line, in order.
//
//   → {"request": "policy.apply", "text": "...", "file": "policy.json", "files": {"a.txt": "..."}}
//   ← {"ok": true, "result": {...}}
//   ← {"ok": false, "error": "one sentence", "diagnostics": ["...", ...]}
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/control/result.hpp"

namespace xdpgpu::control {

using Json = nlohmann::json;
// Longest line in either direction, its newline included.
inline constexpr std::size_t kMaxMessage = std::size_t{64} << 20;
inline constexpr int kMaxDepth = 16;  // of nested values
// Longest time within which an applied policy can be asked to be confirmed.
inline constexpr unsigned kMaxConfirmSeconds = 24 * 3600;

// Names of the requests, and what each takes and gives.
namespace request {
inline constexpr std::string_view kStatus = "status";                 // → the status report
inline constexpr std::string_view kPolicyApply = "policy.apply";      // text, file, files, confirm_s?
inline constexpr std::string_view kPolicyConfirm = "policy.confirm";  // keeps what --confirm applied
inline constexpr std::string_view kPolicyShow = "policy.show";        // → text, file, generation, hash
inline constexpr std::string_view kFlowsList = "flows.list";          // limit?, interface?
inline constexpr std::string_view kFlowsFlush = "flows.flush";
inline constexpr std::string_view kDetach = "detach";  // answered when everything is undone
inline constexpr std::string_view kBypass = "bypass";  // on: bool
}  // namespace request

struct Request {
  std::string name;
  Json arguments;  // the whole object
};

struct Response {
  Json result;
  std::string error;  // empty: ok
  std::vector<std::string> diagnostics;
  bool ok() const { return error.empty(); }
  static Response success(Json result = Json::object());
  static Response failure(std::string error, std::vector<std::string> diagnostics = {});
};

// Encoded lines end in '\n'. Invalid UTF-8 is replaced, never an exception.
std::string encode(const Request& request);
std::string encode(const Response& response);
// One line, with or without its newline. The error is a sentence.
Result<Request> decode_request(std::string_view line);
Result<Response> decode_response(std::string_view line);

}  // namespace xdpgpu::control
