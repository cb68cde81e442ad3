// SPDX-License-Identifier: MIT
#include "userspace/report/top_table.hpp"

#include <fmt/format.h>
#include <wchar.h>
#include <wctype.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cwchar>
#include <utility>

namespace xdpgpu::report {
namespace {

constexpr std::size_t kBarText = 10;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool has(std::string_view text, std::string_view wanted) {
  return std::search(text.begin(), text.end(), wanted.begin(), wanted.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != text.end();
}

std::wstring padded(std::wstring text, std::size_t width, bool right) {
  const std::size_t have = width_of(text);
  if (have < width) text.insert(right ? 0 : text.size(), width - have, L' ');
  return text;
}

std::wstring shown(const Column& column, const Cell& cell) {
  if (column.kind == Column::Kind::bar)
    return printable(cell.part ? bar_text(*cell.part, kBarText) : std::string());
  return printable(cell.text);
}

}  // namespace

void arrange(Table& table, const Order& order, std::string_view filter) {
  if (!filter.empty())
    std::erase_if(table.rows, [&](const auto& row) {
      for (std::size_t i = 0; i < row.size(); ++i)
        if (table.columns[i].kind == Column::Kind::words && has(row[i].text, filter)) return false;
      return true;
    });
  const std::size_t by = order.column;
  if (by >= table.columns.size()) return;
  const bool words = table.columns[by].kind == Column::Kind::words;
  std::stable_sort(table.rows.begin(), table.rows.end(), [&](const auto& a, const auto& b) {
    const Cell &one = a[by], &other = b[by];
    if (words) return order.reversed ? other.text < one.text : one.text < other.text;
    if (!one.number || !other.number) return one.number.has_value() && !other.number;
    return order.reversed ? *one.number < *other.number : *one.number > *other.number;
  });
}

std::optional<std::size_t> column_of(const Table& table, std::string_view name) {
  const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                  [&](const Column& column) { return column.name == name; });
  if (found == table.columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - table.columns.begin());
}

std::string short_text(double number) {
  if (number <= 0) return "0";
  if (number < 0.05) return "<0.1";
  if (number < 9.95 && std::abs(number - std::round(number)) >= 0.05) return fmt::format("{:.1f}", number);
  if (number < 9'999.5) return fmt::format("{:.0f}", number);
  constexpr std::string_view kUnits = "kMGTPE";
  std::size_t unit = 0;
  for (number /= 1e3; number >= 999.5 && unit + 1 < kUnits.size(); ++unit) number /= 1e3;
  if (number < 9.995) return fmt::format("{:.2f}{}", number, kUnits[unit]);
  if (number < 99.95) return fmt::format("{:.1f}{}", number, kUnits[unit]);
  return fmt::format("{:.0f}{}", number, kUnits[unit]);
}

Cell number_cell(std::optional<double> number) { return {number ? short_text(*number) : "-", number}; }

Cell words_cell(std::string text, Tone tone) { return {.text = std::move(text), .tone = tone}; }

Cell bar_cell(double value, double most) {
  if (most <= 0) return {};
  return {.number = value, .part = std::clamp(value / most, 0.0, 1.0)};
}

Cell time_bar_cell(double ns) {
  if (ns <= 0) return {};
  return {.number = ns, .part = std::clamp((std::log10(ns) - 3) / 6, 0.0, 1.0)};
}

std::string bar_text(double part, std::size_t width) {
  // Something is never shown as nothing, nor something less as all.
  auto full = static_cast<std::size_t>(std::lround(part * static_cast<double>(width)));
  if (part > 0 && full == 0) full = 1;
  if (part < 1 && full == width && width > 1) --full;
  full = std::min(full, width);
  return std::string(full, '#') + std::string(width - full, '.');
}

std::wstring printable(std::string_view text) {
  std::wstring wide;
  mbstate_t state{};
  while (!text.empty()) {
    wchar_t letter = 0;
    const std::size_t bytes = mbrtowc(&letter, text.data(), text.size(), &state);
    const bool none = bytes == 0 || bytes > text.size();
    if (none) state = {};
    const int width = none ? -1 : wcwidth(letter);
    // What takes no room would change the letter in front of it.
    if (width != 0) wide += width < 0 || !iswprint(static_cast<wint_t>(letter)) ? L'?' : letter;
    text.remove_prefix(none ? 1 : bytes);
  }
  return wide;
}

std::size_t width_of(std::wstring_view text) {
  std::size_t width = 0;
  for (const wchar_t letter : text) width += static_cast<std::size_t>(std::max(0, wcwidth(letter)));
  return width;
}

std::wstring cut(std::wstring_view text, std::size_t columns) {
  if (width_of(text) <= columns) return std::wstring(text);
  std::wstring kept;
  std::size_t width = 0;
  for (const wchar_t letter : text) {
    const auto more = static_cast<std::size_t>(std::max(0, wcwidth(letter)));
    if (width + more + 1 > columns) break;
    kept += letter;
    width += more;
  }
  if (columns > 0) kept += L'~';
  return kept;
}

std::string narrow(std::wstring_view text) {
  std::string bytes;
  std::mbstate_t state{};
  for (const wchar_t letter : text) {
    std::array<char, MB_LEN_MAX> out{};
    const std::size_t length = std::wcrtomb(out.data(), letter, &state);
    if (length == static_cast<std::size_t>(-1)) {
      state = {};
      bytes += '?';
    } else {
      bytes.append(out.data(), length);
    }
  }
  return bytes;
}

std::string text_of(const Table& table, std::size_t rows) {
  const std::size_t count = std::min(rows, table.rows.size());
  std::vector<std::vector<std::wstring>> lines(1);
  for (const Column& column : table.columns) lines.front().push_back(printable(column.title));
  for (std::size_t i = 0; i < count; ++i) {
    auto& line = lines.emplace_back();
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      line.push_back(shown(table.columns[c], table.rows[i][c]));
  }
  std::wstring text;
  for (const auto& line : lines) {
    std::wstring one;
    for (std::size_t c = 0; c < line.size(); ++c) {
      std::size_t width = 0;
      for (const auto& other : lines) width = std::max(width, width_of(other[c]));
      one += (c ? L"  " : L"") + padded(line[c], width, table.columns[c].kind == Column::Kind::number);
    }
    one.erase(one.find_last_not_of(L' ') + 1);
    text += one + L'\n';
  }
  std::string out = narrow(text);
  if (table.rows.empty()) out += "(nothing)\n";
  if (count < table.rows.size()) out += fmt::format("({} more)\n", table.rows.size() - count);
  return out;
}

control::Json json_of(const Table& table, std::size_t rows) {
  control::Json all = control::Json::array();
  for (std::size_t i = 0; i < std::min(rows, table.rows.size()); ++i) {
    control::Json row = control::Json::object();
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const Cell& cell = table.rows[i][c];
      const std::string name(table.columns[c].name);
      if (table.columns[c].kind == Column::Kind::words)
        row[name] = cell.text;
      else
        row[name] = cell.number ? control::Json(*cell.number) : control::Json();
    }
    all.push_back(std::move(row));
  }
  return all;
}

}  // namespace xdpgpu::report
