// SPDX-License-Identifier: MIT
//
// A report is the same whether its values are looked at or what came over the control socket.
#include "userspace/control/status_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/control/metrics.hpp"
#include "userspace/control/summary.hpp"

namespace xdpgpu::control {
namespace {

using testing::HasSubstr;

// Every number is another one, every optional is there.
class Filler {
 public:
  template <class T>
  void operator()(std::string_view, T& value) {
    fill(value);
  }
  template <class T>
  void derived(std::string_view, const T&) {}
  template <class T>
  void part(std::string_view, std::optional<T>& value) {
    fill(value.emplace());
  }

 private:
  template <class T>
  void fill(T& value) {
    if constexpr (Record<T>)
      Fields<T>::fields(value, *this);
    else if constexpr (std::is_same_v<T, bool>)
      value = true;
    else if constexpr (std::is_arithmetic_v<T>)
      value = static_cast<T>(++last_);
    else if constexpr (std::is_same_v<T, std::string>)
      value = "word " + std::to_string(++last_);
    else if constexpr (std::is_same_v<T, Json>)
      value = {{"event", ++last_}};
    else if constexpr (std::is_same_v<T, std::map<std::string, u64>>)
      value = {{"found", ++last_}};
    else if constexpr (requires { value.emplace_back(); })
      fill(value.emplace_back());
    else if constexpr (requires { value.emplace(); })
      fill(value.emplace());
    else
      for (auto& one : value) fill(one);
  }
  u64 last_ = 0;
};

StatusReport filled() {
  StatusReport report;
  Filler filler;
  StatusReport::fields(report, filler);
  return report;
}

TEST(StatusReport, ComesBackAsItWas) {
  const StatusReport report = filled();
  const Json json = as_json(report);
  const auto back = read_answer<StatusReport>(json);
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(as_json(*back), json);
  EXPECT_EQ(account_text(*back), account_text(report));
  EXPECT_EQ(ready_text(*back), ready_text(report));
  EXPECT_EQ(tables_text(*back->service), tables_text(*report.service));
  EXPECT_EQ(programs_text(back->service->programs), programs_text(report.service->programs));
}

TEST(StatusReport, EveryCounterOfTheTablesIsInIt) {
  const Json json = as_json(filled());
  const Json& port = json.at("ports").at(0);
  for (const auto& counter : dataplane::kKernelCounters)
    EXPECT_TRUE(port.at("kernel").at(counter.name).contains("bytes")) << counter.name;
  EXPECT_EQ(port.at("kernel").size(), dataplane::kKernelCounters.size());
  const Json& worker = port.at("queues").at(0).at("counters");
  for (const auto& counter : dataplane::kWorkerCounters)
    EXPECT_NE(worker.at(counter.name), 0) << counter.name;
  EXPECT_EQ(worker.size(), dataplane::kWorkerCounters.size());
  EXPECT_EQ(port.at("malformed").size(), dataplane::kMalformedCounters.size());
  EXPECT_EQ(json.at("device"), json.at("devices").at(0));
  EXPECT_TRUE(json.at("policy").contains("goes_back_to"));
}

TEST(StatusReport, EveryCounterOfTheTablesIsInTheAccount) {
  const std::string text = account_text(filled());
  for (const auto& counter : dataplane::kKernelCounters) {
    if (counter.outcome == XG_OUTCOME_in) continue;
    EXPECT_THAT(text, HasSubstr(std::string("kernel: ") + counter.words));
  }
  for (const auto& counter : dataplane::kWorkerCounters)
    EXPECT_THAT(text, HasSubstr(std::string("user space: ") + counter.words));
  for (const auto& counter : dataplane::kMalformedCounters) EXPECT_THAT(text, HasSubstr(counter.words));
}

TEST(StatusReport, WithoutADataPlaneItHasNothingOfOne) {
  StatusReport report;
  report.ports.emplace_back().queues.emplace_back().counters.lost_in_kernel = 2;
  const Json json = as_json(report);
  for (const char* name :
       {"device", "devices", "rules", "frames", "tables", "cage", "health", "notes", "kept"})
    EXPECT_FALSE(json.contains(name)) << name;
  EXPECT_EQ(json.at("ports").at(0).at("queues").at(0).size(), 2u);
  EXPECT_EQ(json.at("policy").size(), 2u);
  const auto back = read_answer<StatusReport>(json);
  ASSERT_TRUE(back) << back.error();
  EXPECT_FALSE(back->service);
  EXPECT_THAT(account_text(*back), HasSubstr("2  user space: lost between redirect and RX ring\n"));
}

TEST(StatusReport, OneThatLacksSomethingIsRefused) {
  Json json = as_json(filled());
  json.at("ports").at(0).at("kernel").erase("drop_rule");
  const auto back = read_answer<StatusReport>(json);
  ASSERT_FALSE(back);
  EXPECT_THAT(back.error(), HasSubstr("drop_rule"));
  EXPECT_FALSE(read_answer<StatusReport>(Json("text")));
  EXPECT_FALSE(read_answer<StatusReport>(Json(Json::array())));
  json = as_json(filled());
  json.at("uptime_s") = "long";
  EXPECT_FALSE(read_answer<StatusReport>(json));
}

}  // namespace
}  // namespace xdpgpu::control
