// SPDX-License-Identifier: MIT
//
// What `xdpgpu top` makes of two looks, and where it puts it on a screen; no terminal is here.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>

#include "userspace/report/top_flows.hpp"
#include "userspace/report/top_screen.hpp"
#include "userspace/report/top_table.hpp"
#include "userspace/report/top_views.hpp"

namespace xdpgpu::report {
namespace {

using control::StatusReport;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ReportTop : public testing::Test {
 protected:
  ReportTop() { std::setlocale(LC_CTYPE, "C.UTF-8"); }
};

constexpr u64 kMany = 5'000'000;

// eth0 with two queues, as it is `at` seconds after its attach, at so many packets a second that a rule
// drops.
StatusReport status(double at, u64 dropped) {
  StatusReport status;
  status.pid = 7;
  status.uptime_s = at;
  status.policy.hash = "0123456789abcdef";
  status.policy.in_force.emplace();
  status.packets.in = dropped + 100;
  status.packets.drop = dropped;
  status.packets.pass = 100;
  control::PortReport port;
  port.interface = "eth0";
  port.state = "active";
  port.kernel.by[XG_KERNEL_received] = {dropped + 100, 100 * (dropped + 100)};
  port.kernel.by[XG_KERNEL_drop_rule] = {dropped, 100 * dropped};
  port.kernel.by[XG_KERNEL_pass_default] = {100, 10'000};
  for (u32 number : {0U, 1U}) {
    control::QueueReport queue;
    queue.queue = number;
    queue.counters.received = dropped / 10;
    auto& service = queue.service.emplace();
    service.device = "cpu";
    service.mode = "copy";
    service.compute_mode = "inline";
    service.credits = number ? 512 : 0;
    auto& metrics = service.metrics;
    metrics.ring_size = 1024;
    metrics.send_ring_size = 2048;
    metrics.rings.rx.now = number ? 0 : 1020;
    metrics.rings.fill.now = number ? 1000 : 10;
    metrics.batches = {dropped / 100, dropped / 10, {}};
    metrics.latency.log2[14] = dropped;  // below 16.4 us
    metrics.latency.log2[20] = dropped / 50;
    metrics.device_time.log2[12] = dropped / 100;
    port.queues.push_back(queue);
  }
  status.ports.push_back(port);
  auto& service = status.service.emplace();
  service.devices.emplace_back();
  service.devices.back().name = "cpu";
  service.devices.back().frames = "in_place";
  service.devices.back().mode = "inline";
  service.rules.push_back({"known bad", dropped, 100 * dropped, {dropped / 2, 0}});
  service.rules.push_back({"dns flood", 7, 700, {}});
  service.frames.total = 4096;
  service.frames.free = 1024;
  control::StageTableReport table;
  table.pipeline = "web";
  table.stage = 2;
  table.kind = "conntrack";
  table.entries = 100;
  table.live = 95;
  table.pressure_percent = 95;
  service.tables.emplace().push_back(table);
  return status;
}
Look look(double at, u64 dropped) { return {.answers = {{{"eth0", "", status(at, dropped)}}, {}}}; }

std::string row_of(const Table& table, std::string_view words) {
  for (const auto& row : table.rows)
    for (const Cell& cell : row)
      if (cell.text == words) {
        std::string text;
        for (const Cell& one : row) text += (text.empty() ? "" : "|") + one.text;
        return text;
      }
  return "none";
}
const Cell& cell_of(const Table& table, std::string_view words, std::string_view column) {
  for (const auto& row : table.rows)
    for (const Cell& cell : row)
      if (cell.text == words) return row.at(column_of(table, column).value());
  throw std::runtime_error("no such row");
}
std::vector<std::string> first_column(const Table& table) {
  std::vector<std::string> all;
  for (const auto& row : table.rows) all.push_back(row.front().text);
  return all;
}

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

const FlowPlace kPlace{"eth0", "", 7};

// Flows whose packets, by index, are these.
control::FlowCountsReport counts(const std::vector<std::pair<u32, u64>>& packets, u64 at_ns = 1,
                                 u32 table = 8) {
  control::FlowCountsReport report;
  report.at_ns = at_ns;
  report.table = table;
  report.current = packets.size();
  report.sources = {"192.0.2.1", "192.0.2.2"};
  for (const auto& [index, count] : packets) {
    report.index.push_back(index);
    report.packets.push_back(count);
    report.bytes.push_back(100 * count);
    report.source.push_back(index % 2);
  }
  return report;
}
control::FlowsReport described(const std::vector<std::pair<u32, u64>>& packets) {
  control::FlowsReport report;
  for (const auto& [index, count] : packets) {
    control::FlowReport& flow = report.flows.emplace_back();
    flow.interface = "eth0";
    flow.index = index;
    flow.flow = fmt::format("192.0.2.1:{} > 192.0.2.9:80 tcp", index);
    flow.action = "drop";
    flow.packets = count;
    flow.bytes = 100 * count;
  }
  return report;
}

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

// ---- the screen

std::vector<std::string> lines_of(const Grid& grid) {
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < grid.height(); ++row) lines.push_back(grid.line(row));
  return lines;
}
std::string text_of(const Grid& grid) {
  std::string text;
  for (const auto& line : lines_of(grid)) text += line + "\n";
  return text;
}
// A screen that has seen 2000 packets a second dropped.
Screen screen(Screen::Settings settings = {}) {
  Screen screen(std::move(settings));
  screen.take(look(10, kMany));
  screen.take(look(12, kMany + 4000));
  return screen;
}
void press(Screen& screen, std::u32string_view keys) {
  for (const Key key : keys) screen.press(key);
}

TEST_F(ReportTop, EachViewFitsInto80x24) {
  for (const Key view : U"123456") {
    if (view == 0) break;
    Screen shown = screen();
    shown.press(view);
    const Grid grid = shown.draw(80, 24);
    const auto lines = lines_of(grid);
    SCOPED_TRACE(text_of(grid));
    EXPECT_THAT(lines[0], HasSubstr("eth0 up 12 s, policy 0123456789ab"));
    EXPECT_TRUE(lines[0].ends_with("every 2 s"));
    EXPECT_THAT(lines[1], HasSubstr("in 2000  pass 0  drop 2000"));
    EXPECT_THAT(lines[3], HasSubstr(fmt::format("[{} {}]", static_cast<char>(view), kViews[view - U'1'])));
    EXPECT_THAT(lines[23], HasSubstr("?:help"));
  }
}

TEST_F(ReportTop, TheRateOfDropsIsSeen) {
  Screen shown = screen();
  const auto lines = lines_of(shown.draw(80, 24));
  EXPECT_THAT(lines[4], HasSubstr("verdict"));
  EXPECT_THAT(lines[4], HasSubstr("*packets/s"));
  const auto row = std::find_if(lines.begin(), lines.end(),
                                [](const auto& line) { return line.find("drop_rule") != std::string::npos; });
  ASSERT_NE(row, lines.end());
  EXPECT_THAT(*row, testing::StartsWith("drop        drop_rule             eth0            2000"));
  EXPECT_TRUE(row->ends_with("##########")) << *row;
}

TEST_F(ReportTop, EveryColumnOfRingsAndLatencyIsIn80) {
  Screen shown = screen();
  shown.press(U'5');
  const auto lines = lines_of(shown.draw(80, 24));
  for (const char* title : {"RX ring", "fill ring", "TX ring", "credits", "p99 <", "latency"})
    EXPECT_THAT(lines[4], HasSubstr(title));
  EXPECT_THAT(lines[5] + lines[6], HasSubstr("#######. "));
}

TEST_F(ReportTop, NarrowScreensShowWhatMattersMost) {
  for (const Key view : U"123456") {
    if (view == 0) break;
    Screen shown = screen();
    shown.press(view);
    const Grid grid = shown.draw(40, 10);
    SCOPED_TRACE(text_of(grid));
    const auto lines = lines_of(grid);
    for (const auto& line : lines) EXPECT_LE(line.size(), 40U);
    EXPECT_THAT(lines[1], HasSubstr("drop 2000"));
    EXPECT_THAT(lines[3], HasSubstr(fmt::format("[{} {}]", static_cast<char>(view), kViews[view - U'1'])));
    EXPECT_FALSE(lines[5].empty() && view != U'3' && view != U'4');
  }
  Screen shown = screen();
  EXPECT_THAT(lines_of(shown.draw(40, 10))[4], HasSubstr("*packets/s"));
}

TEST_F(ReportTop, TooSmallIsSaid) {
  Screen shown = screen();
  EXPECT_THAT(text_of(shown.draw(39, 10)), HasSubstr("39x10: top needs 40x10; 80x24 is enough"));
  EXPECT_THAT(text_of(shown.draw(80, 9)), HasSubstr("top needs 40x10"));
  for (std::size_t width : {0U, 1U, 5U})
    for (std::size_t height : {0U, 1U, 3U}) EXPECT_EQ(shown.draw(width, height).height(), height);
}

TEST_F(ReportTop, AnySizeHoldsTheGrid) {
  Look strange = look(14, kMany);
  strange.answers.attaches.front().status->service->rules.front().name =
      "漢字漢字漢字漢字漢字漢字漢字\x1b[31m";
  for (std::size_t width = 30; width < 140; width += 7)
    for (std::size_t height = 8; height < 40; height += 5)
      for (const Key view : U"123456?/") {
        Screen shown = screen();
        shown.take(strange);
        shown.press(view);
        const Grid grid = shown.draw(width, height);
        for (const auto& line : lines_of(grid)) EXPECT_LE(width_of(printable(line)), width);
        EXPECT_EQ(text_of(grid).find('\x1b'), std::string::npos);
      }
}

TEST_F(ReportTop, KeysSort) {
  Screen shown = screen();
  shown.press(U'2');
  EXPECT_THAT(lines_of(shown.draw(80, 24))[5], HasSubstr("known bad"));
  shown.press(U'r');
  EXPECT_THAT(lines_of(shown.draw(80, 24))[5], HasSubstr("dns flood"));
  EXPECT_THAT(lines_of(shown.draw(80, 24))[4], HasSubstr("^packets/s"));
  press(shown, U"<<");
  EXPECT_THAT(lines_of(shown.draw(80, 24))[4], HasSubstr("*rule"));
  shown.press(key::kLeft);
  EXPECT_THAT(lines_of(shown.draw(80, 24))[4], HasSubstr("*share")) << "round";
  // Each view has its own order.
  shown.press(U'1');
  EXPECT_THAT(lines_of(shown.draw(80, 24))[4], HasSubstr("*packets/s"));
  // The device's rows are as they come, and so again behind the last column.
  shown.press(U'6');
  const auto before = lines_of(shown.draw(80, 24));
  EXPECT_THAT(before[5], HasSubstr("device cpu"));
  press(shown, U">");
  EXPECT_NE(lines_of(shown.draw(80, 24)), before);
  press(shown, U">>>>>");
  EXPECT_EQ(lines_of(shown.draw(80, 24)), before);
  Screen chosen = screen({.view = View::rules, .sort = "rule"});
  EXPECT_THAT(lines_of(chosen.draw(80, 24))[5], HasSubstr("dns flood"));
}

TEST_F(ReportTop, KeysFilter) {
  Screen shown = screen();
  shown.press(U'2');
  press(shown, U"/DNSx");
  EXPECT_THAT(lines_of(shown.draw(80, 24))[23], testing::StartsWith("filter: DNSx_"));
  EXPECT_THAT(text_of(shown.draw(80, 24)), HasSubstr("nothing with these words"));
  shown.press(key::kBackspace);
  shown.press(key::kEnter);
  std::string text = text_of(shown.draw(80, 24));
  EXPECT_THAT(text, HasSubstr("dns flood"));
  EXPECT_THAT(text, Not(HasSubstr("known bad")));
  EXPECT_THAT(text, HasSubstr("filter: DNS"));
  EXPECT_THAT(text, HasSubstr("drop 2000")) << "the head is of all";
  shown.press(key::kEscape);
  EXPECT_THAT(text_of(shown.draw(80, 24)), HasSubstr("known bad"));
  // What was typed are no keys.
  press(shown, U"/q é");
  EXPECT_EQ(shown.press(U'q'), Screen::Effect::none);
  EXPECT_FALSE(shown.paused());
  EXPECT_THAT(lines_of(shown.draw(80, 24))[23], HasSubstr("filter: q éq_"));
  shown.press(key::kBackspace);
  shown.press(key::kBackspace);
  EXPECT_THAT(lines_of(shown.draw(80, 24))[23], HasSubstr("filter: q _")) << "a letter of two bytes";
}

TEST_F(ReportTop, KeysPause) {
  Screen shown = screen();
  EXPECT_EQ(shown.press(U' '), Screen::Effect::none);
  EXPECT_TRUE(shown.paused());
  shown.take(look(14, kMany + 100'000));
  const auto lines = lines_of(shown.draw(80, 24));
  EXPECT_TRUE(lines[0].ends_with("PAUSED"));
  EXPECT_THAT(lines[1], HasSubstr("drop 2000")) << "it stands still";
  EXPECT_EQ(shown.press(U' '), Screen::Effect::look) << "at once";
  shown.take(look(16, kMany + 8000));
  EXPECT_THAT(lines_of(shown.draw(80, 24))[1], HasSubstr("drop 1000"));
}

TEST_F(ReportTop, KeysSetThePaceAndChooseViews) {
  Screen shown = screen();
  press(shown, U"++");
  EXPECT_EQ(shown.interval(), seconds(5));
  press(shown, U"++++++++");
  EXPECT_EQ(shown.interval(), Screen::kLongest);
  press(shown, U"----------");
  EXPECT_EQ(shown.interval(), Screen::kShortest);
  Screen odd = screen({.interval = seconds(7)});
  odd.press(U'-');
  EXPECT_EQ(odd.interval(), seconds(5));
  EXPECT_EQ(shown.press(key::kTab), Screen::Effect::look) << "nobody has asked for rules in files";
  EXPECT_THAT(lines_of(shown.draw(80, 24))[3], HasSubstr("[2 rules]"));
  EXPECT_EQ(shown.wants(), More::file_rules);
  EXPECT_EQ(shown.press(key::kTab), Screen::Effect::look) << "nobody has asked for flows";
  EXPECT_EQ(shown.wants(), More::flows);
  press(shown, {&key::kBackTab, 1});
  press(shown, {&key::kBackTab, 1});
  press(shown, {&key::kBackTab, 1});
  EXPECT_THAT(lines_of(shown.draw(80, 24))[3], HasSubstr("[6 device]"));
  EXPECT_EQ(shown.press(U'q'), Screen::Effect::quit);
}

TEST_F(ReportTop, HelpStandsInPlaceOfTheTable) {
  Screen shown = screen();
  shown.press(U'?');
  const auto lines = lines_of(shown.draw(80, 24));
  EXPECT_THAT(text_of(shown.draw(80, 24)), HasSubstr("Space           pause"));
  EXPECT_THAT(text_of(shown.draw(80, 24)),
              HasSubstr("of large tables each look goes through a part, and 200 are shown."));
  EXPECT_THAT(lines[1], HasSubstr("drop 2000")) << "the rates are still there";
  EXPECT_THAT(text_of(shown.draw(80, 24)), Not(HasSubstr("drop_rule")));
  shown.press(key::kEscape);
  EXPECT_THAT(text_of(shown.draw(80, 24)), HasSubstr("drop_rule"));
}

TEST_F(ReportTop, LongTablesScroll) {
  Screen shown(Screen::Settings{});
  const auto many = [](double at) {
    Look all = look(at, 1000);
    auto& rules = all.answers.attaches.front().status->service->rules;
    rules.clear();
    for (int i = 0; i < 50; ++i) rules.push_back({fmt::format("rule {:02}", i), 100, 0, {}});
    return all;
  };
  shown.take(many(10));
  shown.take(many(12));
  shown.press(U'2');
  auto lines = lines_of(shown.draw(80, 24));
  EXPECT_THAT(lines[5], HasSubstr("rule 00"));
  EXPECT_THAT(lines[23], HasSubstr("rows 1-18 of 50"));
  EXPECT_EQ(lines[22], lines_of(shown.draw(80, 24))[22]);
  shown.press(key::kDown);
  EXPECT_THAT(lines_of(shown.draw(80, 24))[5], HasSubstr("rule 01"));
  shown.press(key::kPageDown);
  EXPECT_THAT(lines_of(shown.draw(80, 24))[5], HasSubstr("rule 19"));
  shown.press(key::kEnd);
  lines = lines_of(shown.draw(80, 24));
  EXPECT_THAT(lines[5], HasSubstr("rule 32"));
  EXPECT_THAT(lines[22], HasSubstr("rule 49"));
  for (int i = 0; i < 3; ++i) shown.press(key::kPageUp);
  shown.press(key::kUp);
  EXPECT_THAT(lines_of(shown.draw(80, 24))[5], HasSubstr("rule 00"));
}

TEST_F(ReportTop, WhatIsWrongIsSaidInRed) {
  Screen shown(Screen::Settings{});
  Look bad = look(10, 1);
  bad.answers.attaches.front().status->ports.front().state = "bypass";
  shown.take(bad);
  const Grid grid = shown.draw(80, 24);
  EXPECT_EQ(grid.line(2), "eth0: BYPASS, everything passes");
  EXPECT_EQ(grid.at(2, 0).tone, Tone::bad);
  EXPECT_THAT(grid.line(1), HasSubstr("drop -")) << "one look has no rates";
  shown.take(Look{});
  EXPECT_EQ(shown.draw(80, 24).line(2), "attach an interface: xdpgpu attach IF");
}

TEST_F(ReportTop, FlowsSayWhatTheyAreOf) {
  Look all = look(12, kMany);
  FlowsSeen& flows = all.flows.emplace();
  flows.parts = 4;
  flows.rated = 1;
  flows.current = 30'000;
  flows.flows.push_back({kPlace, described({{1, 50}}).flows.front(), 25, 2500});
  flows.sources.push_back({"2001:db8:1111:2222:3333:4444:5555:6666", 3, 25, 2500});
  Screen shown(Screen::Settings{});
  shown.take(look(10, kMany));
  shown.take(all);
  shown.press(U'3');
  auto lines = lines_of(shown.draw(80, 24));
  EXPECT_THAT(lines[5], testing::StartsWith("192.0.2.1:1 > 192.0.2.9:80 tcp"));
  EXPECT_THAT(lines[5], HasSubstr("drop"));
  EXPECT_THAT(lines[5], HasSubstr("20.0k"));
  EXPECT_THAT(lines[23], HasSubstr("rates of 1 of 4 parts so far; 30.0k flow verdicts"));
  shown.press(U'4');
  lines = lines_of(shown.draw(80, 24));
  EXPECT_THAT(lines[5], testing::StartsWith("2001:db8:1111:2222:3333:4444:5555:6666"));
  EXPECT_THAT(lines[5], HasSubstr("####"));
}

}  // namespace
}  // namespace xdpgpu::report
