// SPDX-License-Identifier: MIT
#include "userspace/report/top_screen.hpp"

#include <fmt/format.h>
#include <wchar.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace xdpgpu::report {
namespace {

using std::chrono::seconds;

constexpr std::size_t kHeadings = 4;  // the row of the columns' titles; those of the table follow it
constexpr std::array<std::chrono::seconds, 8> kPaces{seconds(1),  seconds(2),  seconds(3),  seconds(5),
                                                     seconds(10), seconds(15), seconds(30), seconds(60)};
constexpr std::string_view kHelp[] = {
    "1 to 6, Tab     verdicts and reasons, rules, flows, sources, queues, device",
    "< >, arrows     sort by the column before or behind; r the other way round",
    "/               show rows with some words alone; Enter ends, Esc takes it back",
    "Space           pause, and nothing is asked meanwhile; again: go on",
    "+ -             look less often, or more often",
    "Up Down PgUp PgDn Home End    scroll",
    "?               this, and back",
    "q               quit",
    "",
    "packets/s and bits/s are since the last look; packets is since the attach.",
    "Rings: RX and TX are bad when they are full, fill when it is empty.",
    "p50 < and p99 <: that share of packets took less, from receipt to verdict.",
    "Its bar goes from 1 us to 1 s by powers of ten: two letters each in ten.",
    "Flows and sources are those that the kernel decides by a flow verdict;",
    "of large tables each look goes through a part, and 200 are shown.",
};

Spot looks(Tone tone, bool reverse = false, bool bold = false) { return {L' ', tone, reverse, bold}; }

std::string rate_text(std::optional<double> rate) { return rate ? short_text(*rate) : "-"; }

// Which columns there is room for, and how wide each is; 0: none.
std::vector<std::size_t> layout(const Table& table, std::size_t width) {
  std::vector<std::size_t> widths;
  for (const Column& column : table.columns) widths.push_back(column.width);
  const auto taken = [&] {
    std::size_t sum = 0;
    for (const std::size_t one : widths) sum += one ? one + 1 : 0;
    return sum ? sum - 1 : 0;
  };
  while (taken() > width) {
    std::size_t dearest = 0;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (widths[i] && table.columns[i].rank > table.columns[dearest].rank) dearest = i;
    if (table.columns[dearest].rank == 0) {
      // All have to stay: the widest gives way.
      auto& widest = *std::max_element(widths.begin(), widths.end());
      widest -= std::min(widest - 1, taken() - width);
      break;
    }
    widths[dearest] = 0;
  }
  // Words as far as they are long, then bars as far as they help.
  constexpr std::size_t kLongBar = 24;
  for (const auto kind : {Column::Kind::words, Column::Kind::bar})
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const Column& column = table.columns[i];
      if (!column.grows || column.kind != kind || !widths[i] || taken() >= width) continue;
      std::size_t wanted = kind == Column::Kind::bar ? kLongBar : 0;
      if (kind == Column::Kind::words)
        for (const auto& row : table.rows) wanted = std::max(wanted, width_of(printable(row[i].text)));
      widths[i] += std::min(width - taken(), std::max(wanted, widths[i]) - widths[i]);
    }
  return widths;
}

}  // namespace

// ---- letters ---------------------------------------------------------------------------------------------

std::size_t Grid::put(std::size_t row, std::size_t column, std::wstring_view text, Spot look) {
  if (row >= height_) return column;
  for (const wchar_t letter : text) {
    const auto wide = static_cast<std::size_t>(std::max(0, wcwidth(letter)));
    if (wide == 0) continue;
    if (column + wide > width_) break;
    look.letter = letter;
    spots_[row * width_ + column] = look;
    look.letter = 0;
    for (std::size_t i = 1; i < wide; ++i) spots_[row * width_ + column + i] = look;
    column += wide;
  }
  return column;
}

void Grid::fill(std::size_t row, std::size_t column, Spot look) {
  look.letter = L' ';
  for (; row < height_ && column < width_; ++column) spots_[row * width_ + column] = look;
}

std::string Grid::line(std::size_t row) const {
  std::wstring text;
  for (std::size_t column = 0; column < width_; ++column)
    if (const wchar_t letter = at(row, column).letter) text += letter;
  text.erase(text.find_last_not_of(L' ') + 1);
  return narrow(text);
}

// ---- what keys do ----------------------------------------------------------------------------------------

Screen::Screen(Settings settings)
    : view_(settings.view),
      filter_(std::move(settings.filter)),
      host_(std::move(settings.host)),
      interval_(settings.interval) {
  if (const auto column = column_of(table(), settings.sort)) chosen() = Order{*column};
}

void Screen::take(Look look) {
  if (paused_) return;
  before_ = std::move(now_);
  now_ = std::move(look);
}

Table Screen::table() const { return table_of(view_, before_ ? &*before_ : nullptr, now_ ? *now_ : Look{}); }

Order Screen::order_of(const Table& table) { return chosen().value_or(Order{table.sorted_by}); }

Screen::Effect Screen::show(View view) {
  if (view == view_) return Effect::none;
  view_ = view;
  first_ = 0;
  // What the last look did not ask for.
  return wants() != More::nothing && !paused_ && !(now_ && now_->more == wants()) ? Effect::look
                                                                                  : Effect::none;
}

Screen::Effect Screen::type(Key key) {
  if (key == key::kEnter || key == U'\r') {
    typing_ = false;
  } else if (key == key::kEscape) {
    typing_ = false;
    filter_.clear();
  } else if (key == key::kBackspace || key == 0x7f || key == 0x08) {
    // A letter may be several bytes.
    while (!filter_.empty() && (static_cast<unsigned char>(filter_.back()) & 0xc0U) == 0x80U)
      filter_.pop_back();
    if (!filter_.empty()) filter_.pop_back();
  } else if (key >= 0x20 && key < 0x110000 && filter_.size() < 60) {
    filter_ += narrow(std::wstring(1, static_cast<wchar_t>(key)));
  }
  first_ = 0;
  return Effect::none;
}

bool Screen::sort(Key key) {
  const Table shown = table();
  Order order = order_of(shown);
  const std::size_t count = shown.columns.size();
  if (key == U'r' || key == U'R') {
    order.reversed = !order.reversed;
  } else {
    const bool on = key == U'>' || key == key::kRight;
    if (!on && key != U'<' && key != key::kLeft) return false;
    // Behind the last column stands "as they come", where a view has such an order.
    const std::size_t places = count + (shown.sorted_by >= count);
    order = {(std::min(order.column, places - 1) + (on ? 1 : places - 1)) % places};
  }
  chosen() = order;
  first_ = 0;
  return true;
}

bool Screen::scroll(Key key) {
  switch (key) {
    case key::kUp:
      first_ -= std::min<std::size_t>(first_, 1);
      return true;
    case key::kDown:
      ++first_;
      return true;
    case key::kPageUp:
      first_ -= std::min(first_, page_);
      return true;
    case key::kPageDown:
      first_ += page_;
      return true;
    case key::kHome:
      first_ = 0;
      return true;
    case key::kEnd:
      first_ = table().rows.size();
      return true;
    default:
      return false;
  }
}

void Screen::pace(bool longer) {
  if (longer) {
    const auto* const next = std::upper_bound(kPaces.begin(), kPaces.end(), interval_);
    interval_ = next == kPaces.end() ? kPaces.back() : *next;
  } else {
    const auto* const here = std::lower_bound(kPaces.begin(), kPaces.end(), interval_);
    interval_ = here == kPaces.begin() ? kPaces.front() : *std::prev(here);
  }
}

Screen::Effect Screen::press(Key key) {
  if (typing_) return type(key);
  if (key >= U'1' && key < U'1' + kViews.size()) {
    help_ = false;
    return show(static_cast<View>(key - U'1'));
  }
  if (sort(key) || scroll(key)) return Effect::none;
  constexpr unsigned kCount = kViews.size();
  const auto number = static_cast<unsigned>(view_);
  switch (key) {
    case U'q':
    case U'Q':
      return Effect::quit;
    case key::kTab:
      return show(static_cast<View>((number + 1) % kCount));
    case key::kBackTab:
      return show(static_cast<View>((number + kCount - 1) % kCount));
    case U' ':
      paused_ = !paused_;
      return paused_ ? Effect::none : Effect::look;
    case U'+':
    case U'=':
    case U'-':
      pace(key != U'-');
      return Effect::none;
    case U'/':
      help_ = false;
      typing_ = true;
      return Effect::none;
    case U'?':
    case U'h':
      help_ = !help_;
      return Effect::none;
    case key::kEscape:
      if (!std::exchange(help_, false)) filter_.clear();
      return Effect::none;
    default:
      return Effect::none;
  }
}

// ---- what stands where -----------------------------------------------------------------------------------

void Screen::draw_head(Grid& grid) const {
  grid.fill(0, 0, looks(Tone::plain, true));
  std::string title = "xdpgpu top";
  if (!host_.empty()) title += "  " + host_;
  if (now_) {
    const auto& attaches = now_->answers.attaches;
    if (attaches.empty()) title += "  nothing attached";
    if (attaches.size() == 1) title += "  " + attaches.front().name;
    if (attaches.size() > 1) title += fmt::format("  {} attaches", attaches.size());
    if (attaches.size() == 1 && attaches.front().status)
      title += fmt::format(" up {:.0f} s, policy {}", attaches.front().status->uptime_s,
                           attaches.front().status->policy.hash.substr(0, 12));
  }
  const std::string pace = paused_ ? "PAUSED" : fmt::format("every {} s", interval_.count());
  grid.put(0, 0, cut(printable(title), grid.width() - pace.size() - 1), looks(Tone::plain, true, true));
  grid.put(0, grid.width() - pace.size(), printable(pace), looks(Tone::plain, true, paused_));

  const Rates rates = now_ ? rates_of(before_ ? &*before_ : nullptr, *now_) : Rates{};
  std::size_t column = 0;
  const auto tell = [&](std::string_view name, std::optional<double> rate, Tone tone) {
    column = grid.put(1, column, printable(name)) + 1;
    if (column < grid.width())
      column = grid.put(1, column, printable(rate_text(rate)),
                        looks(rate && *rate > 0 ? tone : Tone::plain, false, true)) +
               2;
  };
  tell("in", rates.in, Tone::plain);
  tell("pass", rates.pass, Tone::good);
  tell("drop", rates.drop, Tone::warn);
  tell("tx", rates.tx, Tone::plain);
  tell("redirect", rates.redirect, Tone::plain);
  tell("error", rates.error, Tone::bad);
  tell("inspected", rates.inspected, Tone::plain);
  if (column + 9 <= grid.width()) grid.put(1, column, L"packets/s", looks(Tone::quiet));

  if (now_) {
    std::string text;
    for (const std::string& warning : warnings_of(*now_)) text += (text.empty() ? "" : "; ") + warning;
    if (text.empty() && now_->answers.attaches.empty()) text = "attach an interface: xdpgpu attach IF";
    grid.put(2, 0, cut(printable(text), grid.width()), looks(Tone::bad, false, true));
  } else {
    grid.put(2, 0, L"asking ...");
  }

  column = 0;
  for (std::size_t i = 0; i < kViews.size(); ++i) {
    const bool chosen = i == static_cast<std::size_t>(view_);
    // All of them, also where it is narrow: by their numbers.
    const bool narrow_one = grid.width() < 60;
    if (narrow_one && !chosen)
      column = grid.put(3, column, printable(fmt::format("{} ", i + 1)));
    else
      column = grid.put(
          3, column,
          printable(fmt::format("{}{} {}{} ", chosen ? "[" : " ", i + 1, kViews[i], chosen ? "]" : " ")),
          looks(Tone::plain, false, chosen));
  }
}

void Screen::draw_table(Grid& grid) {
  Table shown = table();
  const Order order = order_of(shown);
  arrange(shown, order, filter_);
  const std::vector<std::size_t> widths = layout(shown, grid.width());
  grid.fill(kHeadings, 0, looks(Tone::plain, true));
  page_ = grid.height() - kHeadings - 2;
  first_ = std::min(first_, shown.rows.size() > page_ ? shown.rows.size() - page_ : 0);
  const std::size_t count = std::min(page_, shown.rows.size() - first_);
  std::size_t at = 0;
  for (std::size_t c = 0; c < shown.columns.size(); ++c) {
    if (widths[c] == 0) continue;
    const Column& column = shown.columns[c];
    const bool right = column.kind == Column::Kind::number;
    const auto place = [&](std::size_t row, std::wstring_view text, const Spot& look) {
      const std::wstring fits = cut(text, widths[c]);
      grid.put(row, at + (right ? widths[c] - width_of(fits) : 0), fits, look);
    };
    const bool sorted = c == order.column;
    std::wstring title = printable(column.title);
    if (sorted) {
      title.insert(title.begin(), order.reversed ? L'^' : L'*');
      title.resize(std::min(title.size(), widths[c]));
    }
    place(kHeadings, title, looks(Tone::plain, true, sorted));
    for (std::size_t i = 0; i < count; ++i) {
      const Cell& cell = shown.rows[first_ + i][c];
      const bool bar = column.kind == Column::Kind::bar;
      place(kHeadings + 1 + i,
            printable(!bar        ? cell.text
                      : cell.part ? bar_text(*cell.part, widths[c])
                                  : ""),
            looks(cell.tone));
    }
    at += widths[c] + 1;
  }
  if (shown.rows.empty() && now_)
    grid.put(kHeadings + 1, 0,
             cut(printable(filter_.empty() ? "nothing yet" : "nothing with these words"), grid.width()),
             looks(Tone::quiet));
  std::string note = shown.note;
  if (shown.rows.size() > page_)
    note = fmt::format("rows {}-{} of {}{}{}", first_ + 1, first_ + count, shown.rows.size(),
                       note.empty() ? "" : "; ", note);
  else if (grid.width() < 80 && note.empty())
    note = "80 columns show more";
  draw_foot(grid, note);
}

void Screen::draw_help(Grid& grid) {
  for (std::size_t i = 0; i < std::size(kHelp) && kHeadings + i < grid.height(); ++i)
    grid.put(kHeadings + i, 0, cut(printable(kHelp[i]), grid.width()));
}

void Screen::draw_foot(Grid& grid, const std::string& note) const {
  const std::size_t row = grid.height() - 1;
  if (typing_) {
    const std::size_t end =
        grid.put(row, 0, printable("filter: " + filter_), looks(Tone::plain, false, true));
    grid.put(row, end, L"_");
    return;
  }
  std::size_t column = 0;
  if (!filter_.empty())
    column = grid.put(row, 0, printable("filter: " + filter_), looks(Tone::warn, false, true)) + 2;
  const std::string keys = filter_.empty() ? "?:help  q:quit  /:filter  <>:sort  r:reverse  space:pause"
                                           : "Esc:all  ?:help  q:quit";
  // What has to be known of the rows comes first.
  const std::string text = note.empty()                                             ? keys
                           : note.size() + 2 + keys.size() <= grid.width() - column ? keys + "  " + note
                                                                                    : "?:help  " + note;
  if (column < grid.width())
    grid.put(row, column, cut(printable(text), grid.width() - column), looks(Tone::quiet));
}

Grid Screen::draw(std::size_t width, std::size_t height) {
  Grid grid(width, height);
  if (width < kLeastWidth || height < kLeastHeight) {
    const std::wstring text = printable(fmt::format("{}x{}: top needs {}x{}; 80x24 is enough for all", width,
                                                    height, kLeastWidth, kLeastHeight));
    for (std::size_t row = 0; row < height && row * width < text.size() && width > 0; ++row)
      grid.put(row, 0, std::wstring_view(text).substr(row * width, width));
    return grid;
  }
  draw_head(grid);
  if (help_) {
    draw_help(grid);
    draw_foot(grid, "");
  } else {
    draw_table(grid);
  }
  return grid;
}

}  // namespace xdpgpu::report
