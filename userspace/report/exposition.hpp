// SPDX-License-Identifier: MIT
//
// userspace/report/exposition.hpp: metrics as Prometheus reads them: its text format 0.0.4, or OpenMetrics
// 1.0.0. Own code, as Debian 12's prometheus-cpp writes the first one alone.
//
//   Exposition metrics(Syntax::prometheus);
//   metrics.family(Kind::counter, "xdpgpu_packets", "", "Packets by what became of them.");
//   metrics.sample({{"verdict", "drop"}}, 7);    xdpgpu_packets_total{verdict="drop"} 7
//   std::string text = std::move(metrics).text();
//
// https://prometheus.io/docs/instrumenting/exposition_formats/
// https://github.com/OpenObservability/OpenMetrics/blob/main/specification/OpenMetrics.md
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::report {

enum class Syntax { prometheus, openmetrics };
// What a reply in it says that it is.
const char* content_type(Syntax syntax);
// The one that a request's Accept header prefers; Prometheus' text where it names neither.
Syntax preferred(std::string_view accept);

enum class Kind { counter, gauge, histogram, info };

struct Label {
  std::string_view name;
  std::string_view value;
};
// Of several samples, labels that are written once.
class Labels {
 public:
  Labels() = default;
  Labels(std::initializer_list<Label> labels) { add(labels); }
  Labels& add(std::initializer_list<Label> labels);
  const std::string& text() const { return text_; }

 private:
  std::string text_;  // escaped, without braces
};

// The same ones and more.
template <class... More>
Labels with(Labels labels, const More&... more) {
  labels.add({more...});
  return labels;
}

// One thread. Families one after the other, and behind each all of its samples.
class Exposition {
 public:
  explicit Exposition(Syntax syntax) : syntax_(syntax) {}
  // name: without the "_total" or "_info" of its samples, and with the unit at its end if there is one. A
  // family without a sample is left out. The texts outlive the next call.
  void family(Kind kind, std::string_view name, std::string_view unit, std::string_view help);
  void sample(const Labels& labels, u64 value);
  void sample(const Labels& labels, double value);
  // counts[i]: how many were at most bounds[i] and more than the bound before; the last of `counts` has those
  // beyond all bounds, so there is one more.
  void histogram(const Labels& labels, std::span<const double> bounds, std::span<const u64> counts,
                 double sum);
  std::string text() &&;

 private:
  void begin();
  void line(std::string_view suffix, const Labels& labels, std::string_view last, std::string_view value);
  Syntax syntax_;
  Kind kind_ = Kind::gauge;
  std::string_view name_, unit_, help_;
  bool begun_ = false;
  std::string text_;
};

}  // namespace xdpgpu::report
