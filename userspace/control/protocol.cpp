// SPDX-License-Identifier: MIT
#include "userspace/control/protocol.hpp"

#include <fmt/format.h>

namespace xdpgpu::control {
namespace {

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

// One JSON object of bounded depth; no exception leaves.
Result<Json> parse_object(std::string_view line, std::string_view what) {
  if (line.size() > kMaxMessage)
    return tl::unexpected(fmt::format("the {} is longer than {} MiB", what, kMaxMessage >> 20));
  bool too_deep = false;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  Json json = Json::parse(line, watch, false);
  if (too_deep) return tl::unexpected(fmt::format("the {} nests deeper than {} levels", what, kMaxDepth));
  if (json.is_discarded() || !json.is_object())
    return tl::unexpected(fmt::format("the {} is not one JSON object on one line", what));
  return json;
}

Result<void> announce_files(const Json& json, std::map<std::string, std::size_t>& files) {
  const auto announced = json.find("files");
  if (announced == json.end()) return {};
  const auto refuse = [] {
    return tl::unexpected(
        fmt::format("\"files\" must name each file with its length, {} MiB at most of all; the contents "
                    "follow the line",
                    kMaxFilesBytes >> 20));
  };
  if (!announced->is_object()) return refuse();
  std::size_t total = 0;
  for (const auto& [name, length] : announced->items()) {
    if (!length.is_number_unsigned() || length.get<std::size_t>() > kMaxFilesBytes - total) return refuse();
    total += length.get<std::size_t>();
  }
  for (const auto& [name, length] : announced->items()) files[name] = length.get<std::size_t>();
  return {};
}

}  // namespace

Response Response::success(Json result) {
  return {.result = std::move(result), .error = {}, .diagnostics = {}};
}

Response Response::failure(std::string error, std::vector<std::string> diagnostics) {
  return {.result = {}, .error = std::move(error), .diagnostics = std::move(diagnostics)};
}

std::string encode(const Request& request) {
  Json json = request.arguments.is_object() ? request.arguments : Json::object();
  json["request"] = request.name;
  for (const auto& [name, content] : request.files) json["files"][name] = content.size();
  return line_of(json);
}

std::string encode(const Response& response) {
  if (response.ok()) return line_of({{"ok", true}, {"result", response.result}});
  Json json = {{"ok", false}, {"error", response.error}};
  if (!response.diagnostics.empty()) json["diagnostics"] = response.diagnostics;
  return line_of(json);
}

Result<Request> decode_request(std::string_view line) {
  auto json = parse_object(line, "request");
  if (!json) return tl::unexpected(json.error());
  const auto name = json->find("request");
  if (name == json->end() || !name->is_string())
    return tl::unexpected(std::string("the request does not name itself: {\"request\": \"status\"}"));
  Request request;
  request.name = name->get<std::string>();
  if (auto announced = announce_files(*json, request.announced); !announced)
    return tl::unexpected(announced.error());
  request.arguments = std::move(*json);
  return request;
}

Result<Response> decode_response(std::string_view line) {
  auto json = parse_object(line, "answer");
  if (!json) return tl::unexpected(json.error());
  const auto ok = json->find("ok");
  if (ok == json->end() || !ok->is_boolean()) return tl::unexpected(std::string("the answer lacks \"ok\""));
  if (ok->get<bool>()) {
    const auto result = json->find("result");
    return Response::success(result == json->end() ? Json::object() : *result);
  }
  const auto error = json->find("error");
  Response response = Response::failure(error != json->end() && error->is_string() &&
                                                !error->get_ref<const std::string&>().empty()
                                            ? error->get<std::string>()
                                            : "refused without a reason");
  if (const auto list = json->find("diagnostics"); list != json->end() && list->is_array())
    for (const auto& entry : *list)
      if (entry.is_string()) response.diagnostics.push_back(entry.get<std::string>());
  return response;
}

}  // namespace xdpgpu::control
