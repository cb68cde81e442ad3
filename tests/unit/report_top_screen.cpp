// SPDX-License-Identifier: MIT
//
// Where `xdpgpu top` puts what it has seen on a screen, and what its keys do; no terminal is here.
#include <gmock/gmock.h>

#include "tests/unit/report_top.hpp"
#include "userspace/report/top_screen.hpp"

namespace xdpgpu::report {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

class ReportTopScreen : public TopTest {};

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

TEST_F(ReportTopScreen, EachViewFitsInto80x24) {
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

TEST_F(ReportTopScreen, TheRateOfDropsIsSeen) {
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

TEST_F(ReportTopScreen, EveryColumnOfRingsAndLatencyIsIn80) {
  Screen shown = screen();
  shown.press(U'5');
  const auto lines = lines_of(shown.draw(80, 24));
  for (const char* title : {"RX ring", "fill ring", "TX ring", "credits", "p99 <", "latency"})
    EXPECT_THAT(lines[4], HasSubstr(title));
  EXPECT_THAT(lines[5] + lines[6], HasSubstr("#######. "));
}

TEST_F(ReportTopScreen, NarrowScreensShowWhatMattersMost) {
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

TEST_F(ReportTopScreen, TooSmallIsSaid) {
  Screen shown = screen();
  EXPECT_THAT(text_of(shown.draw(39, 10)), HasSubstr("39x10: top needs 40x10; 80x24 is enough"));
  EXPECT_THAT(text_of(shown.draw(80, 9)), HasSubstr("top needs 40x10"));
  for (std::size_t width : {0U, 1U, 5U})
    for (std::size_t height : {0U, 1U, 3U}) EXPECT_EQ(shown.draw(width, height).height(), height);
}

TEST_F(ReportTopScreen, AnySizeHoldsTheGrid) {
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

TEST_F(ReportTopScreen, KeysSort) {
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

TEST_F(ReportTopScreen, KeysFilter) {
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

TEST_F(ReportTopScreen, KeysPause) {
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

TEST_F(ReportTopScreen, KeysSetThePaceAndChooseViews) {
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

TEST_F(ReportTopScreen, HelpStandsInPlaceOfTheTable) {
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

TEST_F(ReportTopScreen, LongTablesScroll) {
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

TEST_F(ReportTopScreen, WhatIsWrongIsSaidInRed) {
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

TEST_F(ReportTopScreen, FlowsSayWhatTheyAreOf) {
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
