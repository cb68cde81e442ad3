// SPDX-License-Identifier: MIT
#include "userspace/report/exposition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace xdpgpu::report {
namespace {

// In HELP lines quotes stand as they are; in labels they do not.
void escape(std::string& to, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\')
      to += "\\\\";
    else if (c == '\n')
      to += "\\n";
    else if (c == '"' && quotes)
      to += "\\\"";
    else
      to += c;
  }
}

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return std::isnan(value) ? "NaN" : fmt::format("{}", value);
}

const char* type_of(Kind kind, Syntax syntax) {
  switch (kind) {
    case Kind::counter:
      return "counter";
    case Kind::gauge:
      return "gauge";
    case Kind::histogram:
      return "histogram";
    case Kind::info:
      return syntax == Syntax::openmetrics ? "info" : "gauge";
  }
  return "";
}

const char* suffix_of(Kind kind) {
  return kind == Kind::counter ? "_total" : kind == Kind::info ? "_info" : "";
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// RFC 9110, 12.4.2; a weight that is none counts as 0.
double weight_of(std::string_view parameters) {
  while (!parameters.empty()) {
    const auto end = std::min(parameters.find(';'), parameters.size());
    const auto one = trimmed(parameters.substr(0, end));
    if (one.starts_with("q=") || one.starts_with("Q=")) {
      double weight = 0;
      const auto digits = one.substr(2);
      std::from_chars(digits.data(), digits.data() + digits.size(), weight);
      return weight;
    }
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
  }
  return 1;
}

}  // namespace

const char* content_type(Syntax syntax) {
  return syntax == Syntax::openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                       : "text/plain; version=0.0.4; charset=utf-8";
}

Syntax preferred(std::string_view accept) {
  double openmetrics = 0, plain = 0;
  while (!accept.empty()) {
    const auto end = std::min(accept.find(','), accept.size());
    const auto range = accept.substr(0, end);
    const auto type_end = std::min(range.find(';'), range.size());
    const auto type = trimmed(range.substr(0, type_end));
    const double weight = weight_of(range.substr(type_end));
    if (type == "application/openmetrics-text") openmetrics = std::max(openmetrics, weight);
    if (type == "text/plain" || type == "text/*" || type == "*/*") plain = std::max(plain, weight);
    accept.remove_prefix(std::min(end + 1, accept.size()));
  }
  return openmetrics > 0 && openmetrics >= plain ? Syntax::openmetrics : Syntax::prometheus;
}

Labels& Labels::add(std::initializer_list<Label> labels) {
  for (const Label& label : labels) {
    if (!text_.empty()) text_ += ',';
    text_ += label.name;
    text_ += "=\"";
    escape(text_, label.value, true);
    text_ += '"';
  }
  return *this;
}

void Exposition::family(Kind kind, std::string_view name, std::string_view unit, std::string_view help) {
  kind_ = kind;
  name_ = name;
  unit_ = unit;
  help_ = help;
  begun_ = false;
}

void Exposition::begin() {
  if (std::exchange(begun_, true)) return;
  // OpenMetrics names the family, the older format the samples.
  const std::string_view suffix = syntax_ == Syntax::openmetrics ? "" : suffix_of(kind_);
  fmt::format_to(std::back_inserter(text_), "# HELP {}{} ", name_, suffix);
  escape(text_, help_, syntax_ == Syntax::openmetrics);
  fmt::format_to(std::back_inserter(text_), "\n# TYPE {}{} {}\n", name_, suffix, type_of(kind_, syntax_));
  if (syntax_ == Syntax::openmetrics && !unit_.empty())
    fmt::format_to(std::back_inserter(text_), "# UNIT {} {}\n", name_, unit_);
}

void Exposition::line(std::string_view suffix, const Labels& labels, std::string_view last,
                      std::string_view value) {
  text_ += name_;
  text_ += suffix;
  if (!labels.text().empty() || !last.empty()) {
    text_ += '{';
    text_ += labels.text();
    if (!labels.text().empty() && !last.empty()) text_ += ',';
    text_ += last;
    text_ += '}';
  }
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

void Exposition::sample(const Labels& labels, u64 value) {
  begin();
  line(suffix_of(kind_), labels, "", fmt::format_int(value).c_str());
}

void Exposition::sample(const Labels& labels, double value) {
  begin();
  line(suffix_of(kind_), labels, "", number(value));
}

void Exposition::histogram(const Labels& labels, std::span<const double> bounds, std::span<const u64> counts,
                           double sum) {
  begin();
  u64 so_far = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    so_far += counts[i];
    std::string bound = i < bounds.size() ? number(bounds[i]) : "+Inf";
    // OpenMetrics has bounds as floating-point numbers, always.
    if (syntax_ == Syntax::openmetrics && bound.find_first_of(".eI") == std::string::npos) bound += ".0";
    line("_bucket", labels, fmt::format("le=\"{}\"", bound), fmt::format_int(so_far).c_str());
  }
  line("_sum", labels, "", number(sum));
  line("_count", labels, "", fmt::format_int(so_far).c_str());
}

std::string Exposition::text() && {
  if (syntax_ == Syntax::openmetrics) text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace xdpgpu::report
