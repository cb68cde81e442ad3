// SPDX-License-Identifier: MIT
#include "userspace/cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

// Else "move", "erase" and others are macros.
#define NCURSES_NOMACROS
#include <curses.h>

namespace xdpgpu::cli {
namespace {

using report::Key;
using report::Spot;
using report::Tone;

// Of what a program on the far side of a slow line sends by one key, the letters come at most so long after
// one another.
constexpr int kEscapeMs = 200;

short pair_of(Tone tone) {
  switch (tone) {
    case Tone::good:
      return 1;
    case Tone::warn:
      return 2;
    case Tone::bad:
      return 3;
    case Tone::plain:
    case Tone::quiet:
      return 0;
  }
  return 0;
}

bool looks_like(const Spot& a, const Spot& b) {
  return a.tone == b.tone && a.reverse == b.reverse && a.bold == b.bold;
}

std::optional<Key> key_of(wint_t code) {
  switch (code) {
    case KEY_UP:
      return report::key::kUp;
    case KEY_DOWN:
      return report::key::kDown;
    case KEY_LEFT:
      return report::key::kLeft;
    case KEY_RIGHT:
      return report::key::kRight;
    case KEY_PPAGE:
      return report::key::kPageUp;
    case KEY_NPAGE:
      return report::key::kPageDown;
    case KEY_HOME:
      return report::key::kHome;
    case KEY_END:
      return report::key::kEnd;
    case KEY_BACKSPACE:
      return report::key::kBackspace;
    case KEY_BTAB:
      return report::key::kBackTab;
    case KEY_ENTER:
      return report::key::kEnter;
    default:
      return std::nullopt;
  }
}

}  // namespace

struct Terminal::Library {
  explicit Library(SCREEN* opened) : screen(opened) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    endwin();
    delscreen(screen);
  }
  SCREEN* screen;
  bool colours = false;
};

control::Result<std::unique_ptr<Terminal>> Terminal::open() {
  constexpr const char* kPlain = "\"xdpgpu top --plain\" needs none";
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)
    return control::Error(fmt::format("standard input and output are not a terminal; {}", kPlain));
  const char* const name = std::getenv("TERM");
  if (name == nullptr || *name == '\0')
    return control::Error(fmt::format("TERM does not say which terminal this is; set it, or {}", kPlain));
  SCREEN* const screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr)
    return control::Error(fmt::format(
        "the terminal \"{}\" is not known here; set TERM to one that is (ncurses-term has many), or {}", name,
        kPlain));
  auto library = std::make_unique<Library>(screen);
  // "cup", by which the cursor goes where it is told.
  const char* const goes = tigetstr("cup");
  if (goes == nullptr || reinterpret_cast<std::intptr_t>(goes) == -1) {
    library.reset();
    return control::Error(
        fmt::format("the terminal \"{}\" cannot put letters where they belong; {}", name, kPlain));
  }
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  leaveok(stdscr, TRUE);
  set_escdelay(kEscapeMs);
  curs_set(0);
  const char* const without = std::getenv("NO_COLOR");
  library->colours = (without == nullptr || *without == '\0') && has_colors();
  if (library->colours) {
    start_color();
    use_default_colors();
    init_pair(pair_of(Tone::good), COLOR_GREEN, -1);
    init_pair(pair_of(Tone::warn), COLOR_YELLOW, -1);
    init_pair(pair_of(Tone::bad), COLOR_RED, -1);
  }
  return std::unique_ptr<Terminal>(new Terminal(std::move(library)));
}

Terminal::Terminal(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Terminal::~Terminal() = default;

// Asked for each time: it may have changed while the program was stopped, where no signal tells.
Terminal::Size Terminal::size() {
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 && window.ws_col > 0 &&
      is_term_resized(window.ws_row, window.ws_col))
    resizeterm(window.ws_row, window.ws_col);
  return {static_cast<std::size_t>(getmaxx(stdscr)), static_cast<std::size_t>(getmaxy(stdscr))};
}

void Terminal::show(const report::Grid& grid) {
  werase(stdscr);
  for (std::size_t row = 0; row < grid.height(); ++row)
    for (std::size_t column = 0; column < grid.width();) {
      const Spot look = grid.at(row, column);
      const std::size_t first = column;
      std::wstring text;
      for (; column < grid.width() && looks_like(grid.at(row, column), look); ++column)
        if (const wchar_t letter = grid.at(row, column).letter) text += letter;
      attr_t attributes = A_NORMAL;
      if (look.reverse) attributes |= A_REVERSE;
      if (look.bold || look.tone == Tone::bad) attributes |= A_BOLD;
      // Many terminals show it as grey, which is a colour.
      if (look.tone == Tone::quiet && library_->colours) attributes |= A_DIM;
      wattr_set(stdscr, attributes, library_->colours ? pair_of(look.tone) : static_cast<short>(0), nullptr);
      mvwaddnwstr(stdscr, static_cast<int>(row), static_cast<int>(first), text.c_str(),
                  static_cast<int>(text.size()));
    }
  wrefresh(stdscr);
}

std::optional<Key> Terminal::key() {
  for (;;) {
    wint_t code = 0;
    const int kind = wget_wch(stdscr, &code);
    if (kind == ERR) return std::nullopt;
    if (kind != KEY_CODE_YES) return code == L'\r' ? report::key::kEnter : static_cast<Key>(code);
    if (const auto known = key_of(code)) return known;
  }
}

}  // namespace xdpgpu::cli
