// SPDX-License-Identifier: MIT
#include "userspace/control/protocol.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace xdpgpu::control {
namespace {

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Looks before anything is made of the text. (A parser with a callback takes the square of an array's
// length.)
class Bounds : public nlohmann::json_sax<Json> {
 public:
  explicit Bounds(std::size_t most_values) : most_(most_values) {}
  bool too_deep() const { return depth_ > kMaxDepth; }
  bool too_many() const { return values_ > most_; }

  bool null() override { return count(); }
  bool boolean(bool /*value*/) override { return count(); }
  bool number_integer(number_integer_t /*value*/) override { return count(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return count(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return count(); }
  bool string(string_t& /*value*/) override { return count(); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool key(string_t& /*name*/) override { return true; }
  bool start_object(std::size_t /*size*/) override { return deeper(); }
  bool start_array(std::size_t /*size*/) override { return deeper(); }
  bool end_object() override { return higher(); }
  bool end_array() override { return higher(); }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*why*/) override {
    return false;
  }

 private:
  bool count() { return ++values_ <= most_; }
  bool deeper() { return ++depth_ <= kMaxDepth && count(); }
  bool higher() {
    --depth_;
    return true;
  }
  std::size_t most_, values_ = 0;
  int depth_ = 0;
};

// One JSON object of bounded depth and so many values at most; no exception leaves.
Result<Json> parse_object(std::string_view line, std::string_view what, std::size_t most_values) {
  if (line.size() > kMaxMessage)
    return tl::unexpected(fmt::format("the {} is longer than {} MiB", what, kMaxMessage >> 20));
  Bounds bounds(most_values);
  const bool right = Json::sax_parse(line, &bounds);
  if (bounds.too_deep())
    return tl::unexpected(fmt::format("the {} nests deeper than {} levels", what, kMaxDepth));
  if (bounds.too_many())
    return tl::unexpected(fmt::format("the {} has more than {} values", what, most_values));
  Json json = right ? Json::parse(line, nullptr, false) : Json(Json::value_t::discarded);
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

FailureReport failure_report(const std::string& sentence, const Problems& problems) {
  FailureReport report;
  report.error = problems.empty() ? Problem{.message = sentence} : problems.front();
  if (problems.size() > 1) report.problems = problems;
  return report;
}

Json failed_end(const std::string& sentence, const Problems& problems) {
  FailureReport report = failure_report(sentence, problems);
  report.event = "end";
  return as_json(report);
}

Response Response::success(Json result) {
  return {.result = std::move(result), .error = {}, .diagnostics = {}, .problems = {}};
}

Response Response::failure(Refusal why) {
  return {.result = {},
          .error = std::move(why.sentence),
          .diagnostics = std::move(why.diagnostics),
          .problems = std::move(why.problems)};
}

std::string encode(const Request& request) {
  Json json = request.arguments.is_object() ? request.arguments : Json::object();
  json["request"] = request.name;
  if (!request.ifname.empty()) json["for"] = request.ifname;
  for (const auto& [name, content] : request.files) json["files"][name] = content.size();
  return line_of(json);
}

std::string encode(const Response& response) {
  if (response.ok()) return line_of({{"ok", true}, {"result", response.result}});
  Json json = {{"ok", false}, {"error", response.error}};
  if (!response.diagnostics.empty()) json["diagnostics"] = response.diagnostics;
  if (!response.problems.empty()) json["problems"] = as_json(response.problems);
  return line_of(json);
}

Result<Request> decode_request(std::string_view line) {
  auto json = parse_object(line, "request", kMaxRequestValues);
  if (!json) return tl::unexpected(json.error());
  const auto name = json->find("request");
  if (name == json->end() || !name->is_string())
    return tl::unexpected(std::string("the request does not name itself: {\"request\": \"status\"}"));
  Request request;
  request.name = name->get<std::string>();
  if (const auto meant = json->find("for"); meant != json->end()) {
    if (!meant->is_string() || meant->get_ref<const std::string&>().empty())
      return tl::unexpected(std::string("\"for\" is not the name of an interface"));
    request.ifname = meant->get<std::string>();
  }
  if (auto announced = announce_files(*json, request.announced); !announced)
    return tl::unexpected(announced.error());
  request.arguments = std::move(*json);
  return request;
}

Result<Response> decode_response(std::string_view line) {
  auto json = parse_object(line, "answer", SIZE_MAX);
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
  if (const auto list = json->find("problems"); list != json->end() && list->is_array())
    for (const auto& entry : *list)
      if (auto problem = read_answer<Problem>(entry)) response.problems.push_back(std::move(*problem));
  return response;
}

}  // namespace xdpgpu::control
