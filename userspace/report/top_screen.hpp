// SPDX-License-Identifier: MIT
//
// userspace/report/top_screen.hpp: the screen of `xdpgpu top`: what its keys do, and what stands where. Knows
// no terminal: it is given keys and a size, and gives letters with their looks.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/report/top_table.hpp"
#include "userspace/report/top_views.hpp"

namespace xdpgpu::report {

// Letters of a terminal. Of one that is two columns wide the second column has letter 0.
struct Spot {
  wchar_t letter = L' ';
  Tone tone = Tone::plain;
  bool reverse = false, bold = false;
};
class Grid {
 public:
  Grid(std::size_t width, std::size_t height) : width_(width), height_(height), spots_(width * height) {}
  std::size_t width() const noexcept { return width_; }
  std::size_t height() const noexcept { return height_; }
  const Spot& at(std::size_t row, std::size_t column) const { return spots_.at(row * width_ + column); }
  // Puts the text as far as there is room, its letters looking like `look`. The column behind it.
  std::size_t put(std::size_t row, std::size_t column, std::wstring_view text, Spot look = {});
  // From there to the end of the row.
  void fill(std::size_t row, std::size_t column, Spot look);
  // Without spaces at its end.
  std::string line(std::size_t row) const;

 private:
  std::size_t width_, height_;
  std::vector<Spot> spots_;
};

// A letter is its own key.
using Key = char32_t;
namespace key {
inline constexpr Key kUp = 0x110000, kDown = 0x110001, kLeft = 0x110002, kRight = 0x110003,
                     kPageUp = 0x110004, kPageDown = 0x110005, kHome = 0x110006, kEnd = 0x110007,
                     kBackspace = 0x110008, kBackTab = 0x110009;
inline constexpr Key kEnter = U'\n', kEscape = 0x1b, kTab = U'\t';
}  // namespace key

class Screen {
 public:
  static constexpr std::size_t kLeastWidth = 40, kLeastHeight = 10;
  // How often it is looked, by +/-.
  static constexpr std::chrono::seconds kShortest{1}, kLongest{60};

  struct Settings {
    View view = View::verdicts;
    std::string sort{};  // a column's name; empty: as the view has it
    std::string filter{};
    std::chrono::seconds interval{2};
    std::string host{};  // said at the top; may be empty
  };
  explicit Screen(Settings settings);

  // What has been seen. While it is paused it is dropped.
  void take(Look look);
  // What the caller has to do beside drawing it anew.
  enum class Effect : unsigned char { none, look, quit };  // look: at once
  Effect press(Key key);
  Grid draw(std::size_t width, std::size_t height);

  bool paused() const noexcept { return paused_; }
  More wants() const noexcept { return more_of(view_); }
  std::chrono::seconds interval() const noexcept { return interval_; }

 private:
  // What somebody chose for the view; nothing: as it has it.
  std::optional<Order>& chosen() { return chosen_[static_cast<std::size_t>(view_)]; }
  Table table() const;
  Order order_of(const Table& table);
  Effect show(View view);
  Effect type(Key key);
  bool sort(Key key);
  bool scroll(Key key);
  void pace(bool longer);
  void draw_head(Grid& grid) const;
  void draw_table(Grid& grid);
  static void draw_help(Grid& grid);
  void draw_foot(Grid& grid, const std::string& note) const;

  View view_;
  std::string filter_, host_;
  std::chrono::seconds interval_;
  std::array<std::optional<Order>, kViews.size()> chosen_{};
  std::optional<Look> before_, now_;
  bool paused_ = false, typing_ = false, help_ = false;
  std::size_t first_ = 0, page_ = 1;  // row that is shown first, rows that there is room for
};

}  // namespace xdpgpu::report
