// SPDX-License-Identifier: MIT
//
// userspace/report/top_table.hpp: a table of `xdpgpu top`, as a value: sorted, filtered, as text and as JSON.
// What draws it on a terminal is top_screen.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/control/fields.hpp"

namespace xdpgpu::report {

// How a cell is to strike the eye.
enum class Tone : unsigned char { plain, quiet, good, warn, bad };

struct Cell {
  std::string text{};              // of words; of a number what is shown for it
  std::optional<double> number{};  // what is sorted by; none: not known
  std::optional<double> part{};    // of a bar: how full it is, 0 to 1
  Tone tone = Tone::plain;
};

struct Column {
  enum class Kind : unsigned char { words, number, bar };
  std::string_view name;   // in JSON, and what --sort takes: "packets_s"
  std::string_view title;  // at its head
  Kind kind = Kind::words;
  std::size_t width = 8;  // the least
  unsigned rank = 0;      // where there is no room, the highest one goes first; 0 stays
  bool grows = false;     // takes room that is left
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each as long as the columns
  std::string note{};                   // what has to be known of it, a sentence; may be empty
  std::size_t sorted_by = 0;            // the column, where nobody chose one
};

// By one of the columns: words go up, numbers and bars down, reversed the other way round. What is not known
// goes last, and equals stay in their order. `filter`: rows stay that have it in some of their words, in
// upper or lower case; empty: all.
struct Order {
  std::size_t column = 0;
  bool reversed = false;
};
void arrange(Table& table, const Order& order, std::string_view filter);
// The column of that name.
std::optional<std::size_t> column_of(const Table& table, std::string_view name);

// In at most six letters: "0", "0.5", "1234", "12.3k", "1.23M".
std::string short_text(double number);
// Nothing is "-".
Cell number_cell(std::optional<double> number);
Cell words_cell(std::string text, Tone tone = Tone::plain);
// value of most; nothing where there is no most.
Cell bar_cell(double value, double most);
// Between 1 us and 1 s, by its logarithm. 0: none.
Cell time_bar_cell(double ns);
// `width` letters.
std::string bar_text(double part, std::size_t width);

// As the terminal can show it, in the locale's letters: what is none of them, and what steers a terminal, is
// a question mark.
std::wstring printable(std::string_view text);
// In columns of the terminal.
std::size_t width_of(std::wstring_view text);
// At most so many columns of it; where it was cut, the last one is "~".
std::wstring cut(std::wstring_view text, std::size_t columns);
std::string narrow(std::wstring_view text);

// Every column, and the first `rows` rows; says how many are left out.
std::string text_of(const Table& table, std::size_t rows);
// The rows, as objects.
control::Json json_of(const Table& table, std::size_t rows);

}  // namespace xdpgpu::report
