// SPDX-License-Identifier: MIT
//
// What `xdpgpu top` makes of two looks: its tables.
#include <gmock/gmock.h>

#include "tests/unit/report_top.hpp"

namespace xdpgpu::report {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ReportTop : public TopTest {};

// ---- numbers and tables

TEST_F(ReportTop, NumbersAreShort) {
  EXPECT_EQ(short_text(0), "0");
  EXPECT_EQ(short_text(0.01), "<0.1");
  EXPECT_EQ(short_text(0.5), "0.5");
  EXPECT_EQ(short_text(3), "3");
  EXPECT_EQ(short_text(9999), "9999");
  EXPECT_EQ(short_text(9999.6), "10.0k");
  EXPECT_EQ(short_text(12'345), "12.3k");
  EXPECT_EQ(short_text(1'234'567), "1.23M");
  EXPECT_EQ(short_text(999'700), "1.00M");
  EXPECT_EQ(short_text(123e9), "123G");
  for (double value = 0.013; value < 1e18; value *= 1.7) EXPECT_LE(short_text(value).size(), 6U) << value;
}

TEST_F(ReportTop, BarsNeverLie) {
  EXPECT_EQ(bar_text(0, 4), "....");
  EXPECT_EQ(bar_text(0.001, 4), "#...") << "a little is not nothing";
  EXPECT_EQ(bar_text(0.5, 4), "##..");
  EXPECT_EQ(bar_text(0.999, 4), "###.") << "nearly all is not all";
  EXPECT_EQ(bar_text(1, 4), "####");
  EXPECT_FALSE(bar_cell(1, 0).part);
  EXPECT_NEAR(*time_bar_cell(1e6).part, 0.5, 0.01) << "1 ms is in the middle of 1 us and 1 s";
  EXPECT_EQ(*time_bar_cell(10).part, 0);
  EXPECT_EQ(*time_bar_cell(1e12).part, 1);
}

TEST_F(ReportTop, WordsCannotSteerTheTerminal) {
  EXPECT_EQ(narrow(printable("\x1b[2Jrule\n\x7f")), "?[2Jrule??");
  EXPECT_EQ(narrow(printable("dégât")), "dégât");
  EXPECT_EQ(narrow(printable("a\xff"
                             "b")),
            "a?b")
      << "no letter of the locale";
  EXPECT_EQ(narrow(printable("e\u0301x")), "ex") << "it would go into the letter in front";
  EXPECT_EQ(narrow(printable("\u202e"
                             "cod"))
                .find("\u202e"),
            std::string::npos)
      << "it would turn the row round";
  EXPECT_EQ(width_of(printable("漢字")), 4U);
  EXPECT_EQ(narrow(cut(printable("漢字漢字"), 5)), "漢字~");
  EXPECT_EQ(narrow(cut(L"abc", 3)), "abc");
  EXPECT_EQ(narrow(cut(L"abcd", 3)), "ab~");
}

Table small() {
  Table table;
  table.columns = {{"name", "name", Column::Kind::words, 4, 0, true},
                   {"rate", "rate", Column::Kind::number, 6, 0, false}};
  for (const auto& [name, rate] : std::vector<std::pair<const char*, std::optional<double>>>{
           {"b", 2}, {"a", std::nullopt}, {"d", 3}, {"c", 2}})
    table.rows.push_back({words_cell(name), number_cell(rate)});
  return table;
}

TEST_F(ReportTop, RowsAreSorted) {
  Table table = small();
  arrange(table, {1, false}, "");
  EXPECT_THAT(first_column(table), ElementsAre("d", "b", "c", "a")) << "equals as they came, unknown last";
  table = small();
  arrange(table, {1, true}, "");
  EXPECT_THAT(first_column(table), ElementsAre("b", "c", "d", "a")) << "unknown last all the same";
  table = small();
  arrange(table, {0, false}, "");
  EXPECT_THAT(first_column(table), ElementsAre("a", "b", "c", "d"));
  table = small();
  arrange(table, {0, true}, "");
  EXPECT_THAT(first_column(table), ElementsAre("d", "c", "b", "a"));
  table = small();
  arrange(table, {2, false}, "");
  EXPECT_THAT(first_column(table), ElementsAre("b", "a", "d", "c")) << "as they come";
}

TEST_F(ReportTop, RowsAreFiltered) {
  Table table = table_of(View::verdicts, nullptr, look(1, 10));
  arrange(table, {}, "DROP");
  EXPECT_THAT(first_column(table), ElementsAre("drop"));
  table = small();
  arrange(table, {}, "2");
  EXPECT_THAT(first_column(table), IsEmpty()) << "words alone";
}

TEST_F(ReportTop, ATableIsTextAndJSON) {
  Table table = small();
  EXPECT_EQ(text_of(table, 2), "name  rate\nb        2\na        -\n(2 more)\n");
  EXPECT_EQ(json_of(table, 2).dump(), R"([{"name":"b","rate":2.0},{"name":"a","rate":null}])");
  table.rows.clear();
  EXPECT_EQ(text_of(table, 2), "name  rate\n(nothing)\n");
}

// ---- rates

TEST_F(ReportTop, RatesAreOfTwoLooks) {
  const Look first = look(10, 1000), second = look(12, 5000);
  const Rates rates = rates_of(&first, second);
  EXPECT_EQ(rates.seconds, 2);
  EXPECT_EQ(rates.drop, 2000);
  EXPECT_EQ(rates.pass, 0);
  const Table reasons = table_of(View::verdicts, &first, second);
  EXPECT_THAT(row_of(reasons, "drop_rule"), HasSubstr("drop|drop_rule|eth0|2000|1.60M|5000|"));
  EXPECT_EQ(cell_of(reasons, "drop_rule", "share").part, 1);
  EXPECT_EQ(cell_of(reasons, "pass_default", "packets_s").number, 0);
  const Table rules = table_of(View::rules, &first, second);
  EXPECT_THAT(row_of(rules, "known bad"), HasSubstr("known bad|eth0|2000|1.60M|5000|1000"));
}

TEST_F(ReportTop, RulesOfFilesAreAmongTheRules) {
  const auto with = [](Look all, const std::vector<std::pair<u32, u64>>& matched, u64 left_out) {
    control::FileRulesReport report{.rules = 9, .holding = 2, .left_out = left_out, .top = {}};
    for (const auto& [sid, times] : matched) report.top.push_back({"ids", 1, sid, 1, "a worm", times, 0.5});
    all.file_rules[{"", "eth0"}] = report;
    return all;
  };
  const Look first = with(look(10, 1000), {{7, 30}}, 0);
  const Look second = with(look(12, 5000), {{7, 50}, {8, 4}}, 0);
  Table rules = table_of(View::rules, &first, second);
  EXPECT_EQ(row_of(rules, "1:7 a worm"), "1:7 a worm|eth0|10||50||");
  EXPECT_EQ(row_of(rules, "1:8 a worm"), "1:8 a worm|eth0|2||4||") << "it had never held";
  EXPECT_EQ(rules.note, "");
  const Look few = with(look(10, 1000), {{7, 30}}, 5);
  EXPECT_EQ(row_of(table_of(View::rules, &few, second), "1:8 a worm"), "1:8 a worm|eth0|-||4||")
      << "how often it had held was left out";
  const Look bare = look(10, 1000);
  EXPECT_EQ(row_of(table_of(View::rules, &bare, second), "1:7 a worm"), "1:7 a worm|eth0|-||50||");
  EXPECT_THAT(table_of(View::rules, &second, with(look(14, 5000), {{7, 60}}, 5)).note,
              HasSubstr("the 1 that held"));
}

TEST_F(ReportTop, OneLookHasCountsAndNoRates) {
  const Look only = look(10, 1000);
  EXPECT_FALSE(rates_of(nullptr, only).drop);
  const Table reasons = table_of(View::verdicts, nullptr, only);
  EXPECT_FALSE(cell_of(reasons, "drop_rule", "packets_s").number);
  EXPECT_EQ(cell_of(reasons, "drop_rule", "packets").number, 1000);
}

TEST_F(ReportTop, ACounterThatBeganAnewHasCountedSince) {
  const Look first = look(10, 1000), second = look(12, 300);
  EXPECT_EQ(cell_of(table_of(View::rules, &first, second), "known bad", "packets_s").number, 150);
  EXPECT_EQ(rates_of(&first, second).drop, 150);
}

TEST_F(ReportTop, AnotherProcessHasNoRatesYet) {
  const Look first = look(10, 1000);
  Look second = look(12, 5000);
  second.answers.attaches.front().status->pid = 8;
  EXPECT_FALSE(rates_of(&first, second).drop);
  EXPECT_FALSE(cell_of(table_of(View::rules, &first, second), "known bad", "packets_s").number);
  // Nor has one that was told twice of the same moment.
  const Look same = look(10, 5000);
  EXPECT_FALSE(rates_of(&first, same).drop);
}

TEST_F(ReportTop, SeveralAttachesAreTogether) {
  const auto both = [](double at, u64 dropped) {
    Look all = look(at, dropped);
    StatusReport other = status(at, dropped);
    other.pid = 9;
    other.netns.inode = 4026;
    other.ports.front().interface = "eth1";
    all.answers.attaches.push_back({"eth1", "netns-4026-1", other});
    all.answers.attaches.push_back({"eth2", "", std::nullopt});
    return all;
  };
  const Look first = both(10, 0), second = both(12, 4000);
  EXPECT_EQ(rates_of(&first, second).drop, 4000);
  EXPECT_THAT(row_of(table_of(View::queues, &first, second), "eth1@4026"), HasSubstr("eth1@4026|0|200"));
  EXPECT_THAT(warnings_of(second), ElementsAre("eth2 DOES NOT ANSWER"));
}

TEST_F(ReportTop, QueuesHaveBarsAndTimes) {
  const Look first = look(10, 1000), second = look(12, 5000);
  const Table queues = table_of(View::queues, &first, second);
  EXPECT_EQ(queues.rows.size(), 2U);
  const auto& full = queues.rows.front();
  const auto at = [&](std::string_view name) { return full.at(column_of(queues, name).value()); };
  EXPECT_EQ(at("packets_s").number, 200);
  EXPECT_EQ(at("rx").number, 1020);
  EXPECT_GT(*at("rx").part, 0.99);
  EXPECT_EQ(at("rx").tone, Tone::bad);
  EXPECT_EQ(at("fill").tone, Tone::bad) << "the kernel has no frames";
  EXPECT_EQ(at("credits").tone, Tone::bad);
  EXPECT_EQ(at("p50_ns").number, 16384);
  EXPECT_EQ(at("p99_ns").number, 1 << 20) << "one in fifty is late";
  EXPECT_EQ(queues.rows.back().at(column_of(queues, "rx").value()).tone, Tone::good);
  // Of what has been since, not of all: nothing was.
  const Look third = look(14, 5000);
  EXPECT_EQ(table_of(View::queues, &second, third).rows.front().at(7).text, "-");
}

TEST_F(ReportTop, TheDeviceAndWhatIsWrong) {
  const Look first = look(10, 1000);
  Look second = look(12, 5000);
  auto& now = *second.answers.attaches.front().status;
  now.service->devices.front().degraded = "the CPU stands in";
  now.policy.in_force->audit = true;
  now.ports.front().state = "bypass";
  now.alarms.emplace().on.push_back({"web", 1, "in", "192.0.2.1", "syn_pps", 70, 50, 80, 0, 0, 0, {}});
  const Table device = table_of(View::device, &first, second);
  EXPECT_THAT(row_of(device, "device cpu"), HasSubstr("the CPU stands in"));
  EXPECT_THAT(row_of(device, "  batches"), HasSubstr("of 10.0 packets"));
  EXPECT_THAT(row_of(device, "table web 2 conntrack"), HasSubstr("95 of 100 live"));
  EXPECT_EQ(cell_of(device, "table web 2 conntrack", "level").tone, Tone::bad);
  EXPECT_THAT(row_of(device, "ALARM 192.0.2.1"), HasSubstr("70 syn_pps, threshold 50"));
  EXPECT_EQ(cell_of(device, "frames", "level").part, 0.75);
  EXPECT_THAT(warnings_of(second),
              ElementsAre("eth0: BYPASS, everything passes", "eth0: AUDIT, nothing is dropped",
                          "eth0: cpu is DEGRADED", "eth0: 1 ALARM"));
  now.service.reset();
  EXPECT_THAT(row_of(table_of(View::device, &first, second), "no data plane"),
              HasSubstr("on_failure decides"));
  EXPECT_THAT(warnings_of(second).front(), HasSubstr("NO DATA PLANE"));
}

// ---- flows

TEST_F(ReportTop, FlowsAreRatedByTwoLooks) {
  FlowWatch watch(8);
  EXPECT_FALSE(watch.next());
  watch.set_places({kPlace});
  auto ask = watch.next();
  ASSERT_TRUE(ask);
  EXPECT_EQ(ask->since_ns, 0U);
  watch.counted(*ask, counts({{1, 10}, {2, 100}, {3, 5}}, 77), 1);
  EXPECT_THAT(watch.wanted(), IsEmpty()) << "it takes two looks";
  EXPECT_EQ(watch.seen().rated, 0U);
  ask = watch.next();
  EXPECT_EQ(ask->since_ns, 77U);
  watch.counted(*ask, counts({{1, 20}, {2, 400}}, 99), 3);
  const auto wanted = watch.wanted();
  ASSERT_EQ(wanted.size(), 1U);
  EXPECT_THAT(wanted.front().second, ElementsAre(2U, 1U)) << "the busiest first";
  watch.described(kPlace, {2, 1}, described({{2, 400}, {1, 20}}), 3);
  FlowsSeen seen = watch.seen();
  ASSERT_EQ(seen.flows.size(), 2U);
  EXPECT_EQ(seen.flows[0].packets_s, 150);
  EXPECT_EQ(seen.flows[0].bytes_s, 15'000);
  EXPECT_EQ(seen.flows[1].packets_s, 5);
  ASSERT_EQ(seen.sources.size(), 2U);
  EXPECT_EQ(seen.sources[0].address, "192.0.2.1");
  EXPECT_EQ(seen.sources[0].packets_s, 150);
  EXPECT_EQ(seen.sources[0].flows, 1U);
  EXPECT_EQ(seen.rated, 1U);
  // The next answer about it is the difference to that one.
  watch.counted(*watch.next(), counts({{1, 30}, {2, 500}}), 5);
  (void)watch.wanted();
  watch.described(kPlace, {2, 1}, described({{2, 500}}), 5);
  seen = watch.seen();
  ASSERT_EQ(seen.flows.size(), 1U) << "one has gone";
  EXPECT_EQ(seen.flows[0].packets_s, 50);
}

TEST_F(ReportTop, AFlowInAnothersPlaceBeginsAnew) {
  FlowWatch watch(8);
  watch.set_places({kPlace});
  watch.counted(*watch.next(), counts({{2, 100}}), 1);
  watch.counted(*watch.next(), counts({{2, 60}}), 2);
  (void)watch.wanted();
  watch.described(kPlace, {2}, described({{2, 60}}), 2);
  EXPECT_EQ(watch.seen().flows.front().packets_s, 60);
  auto other = described({{2, 90}});
  other.flows.front().flow = "198.51.100.1:1 > 192.0.2.9:80 tcp";
  watch.described(kPlace, {2}, other, 3);
  EXPECT_EQ(watch.seen().flows.front().packets_s, 90) << "all of it is its own";
}

TEST_F(ReportTop, ALargeTableIsSeenInParts) {
  FlowWatch watch(4);
  watch.set_places({kPlace});
  std::vector<u32> order;
  double now = 0;
  for (int i = 0; i < 8; ++i) {
    const auto ask = watch.next();
    ASSERT_TRUE(ask);
    EXPECT_EQ(ask->entries, 4U);
    order.push_back(ask->from);
    watch.counted(*ask, counts({{ask->from, 10U * static_cast<u64>(i)}}, 1, 10), ++now);
  }
  EXPECT_THAT(order, ElementsAre(0, 0, 4, 4, 8, 8, 0, 4)) << "twice at first, then round";
  const FlowsSeen seen = watch.seen();
  EXPECT_EQ(seen.parts, 3U);
  EXPECT_EQ(seen.rated, 3U);
  EXPECT_EQ(seen.current, 3U);
  // Indices that no part has, and columns that are not as long as others, do no harm.
  auto wrong = counts({{0, 1}, {4'000'000'000U, 7}}, 1, 10);
  wrong.bytes.pop_back();
  wrong.source.front() = 99;
  watch.counted({kPlace, 0, 4, 0}, wrong, ++now);
  watch.failed({kPlace, 4, 4, 0});
  EXPECT_EQ(watch.seen().rated, 2U);
  // Another process has another table.
  watch.set_places({{"eth0", "", 8}});
  EXPECT_EQ(watch.next()->from, 0U);
  EXPECT_EQ(watch.seen().rated, 0U);
  EXPECT_THAT(watch.seen().sources, IsEmpty());
}

}  // namespace
}  // namespace xdpgpu::report
