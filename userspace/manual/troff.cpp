// SPDX-License-Identifier: MIT
#include "userspace/manual/troff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <vector>

#include "userspace/cli/command_line.hpp"

namespace xdpgpu::manual {
namespace {

// groff_char(7) and mandoc_char(7): what a troff for typesetting would show as something prettier, which
// nobody could paste into a shell.
std::string escaped(char c, std::string_view text) {
  switch (c) {
    case '\\':
      return "\\(rs";
    case '-':
      return "\\-";
    case '\'':
      return "\\(aq";
    case '`':
      return "\\(ga";
    case '^':
      return "\\(ha";
    case '~':
      return "\\(ti";
    case '"':
      return "\\(dq";  // in a macro's arguments it would begin or end one
    case '\n':
      return " ";
    default:
      if (c >= 0x20 && c < 0x7f) return {c};
      throw std::runtime_error(
          fmt::format("a manual page can show ASCII alone, and \"{}\" has the byte {:#x}", text,
                      static_cast<unsigned char>(c)));
  }
}

std::string upper(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return all;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

Troff plain(std::string_view text) {
  Troff troff;
  for (const char c : text) troff.text += escaped(c, text);
  return troff;
}
Troff bold(std::string_view text) { return {"\\fB" + plain(text).text + "\\fR"}; }
Troff italic(std::string_view text) { return {"\\fI" + plain(text).text + "\\fR"}; }

Troff marked(std::string_view text) {
  Troff troff;
  for (bool literal = false; !text.empty(); literal = !literal) {
    const auto end = std::min(text.find('`'), text.size());
    if (end > 0) troff += literal ? bold(text.substr(0, end)) : plain(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return troff;
}

Troff together(const Troff& troff) {
  Troff all;
  for (const char c : troff.text) all.text += c == ' ' ? "\\ " : std::string(1, c);
  return all;
}

Page::Page(std::string_view name, std::string_view section, std::string_view date) {
  macro(fmt::format("TH {} {} {} \"xdpgpu {}\" \"{}\"", plain(upper(name)).text, section, date, cli::kVersion,
                    section == "1" ? "User Commands" : "File Formats"));
  // Flush left, and no word is divided: what is looked for is found, and what is copied is right. groff
  // divides words anew with each paragraph, unless its HY says otherwise.
  macro("nh");
  macro("nr HY 0");
  macro("ad l");
}

void Page::macro(std::string_view line) { text_ += fmt::format(".{}\n", line); }

void Page::line(const Troff& text) {
  // A line that begins with a dot would be a macro. (An apostrophe is escaped in any place.)
  text_ += fmt::format("{}{}\n", text.text.starts_with('.') ? "\\&" : "", text.text);
}

void Page::section(std::string_view heading) { macro(fmt::format("SH {}", plain(heading).text)); }
void Page::subsection(std::string_view heading) { macro(fmt::format("SS \"{}\"", plain(heading).text)); }

void Page::begin_paragraph() {
  // man(7) makes one behind a heading by itself, and mandoc warns of another.
  const auto last = text_.rfind('\n', text_.size() - 2);
  const std::string_view before = std::string_view(text_).substr(last + 1);
  if (!before.starts_with(".SH") && !before.starts_with(".SS")) macro("PP");
}

void Page::paragraph(const Troff& text) {
  begin_paragraph();
  line(text);
}

void Page::item(const Troff& tag, const Troff& about) {
  macro("TP");
  line(tag);
  line(about.empty() ? Troff{"\\&"} : about);
}

void Page::item_paragraph(const Troff& text) {
  macro("IP");
  line(text);
}

void Page::literal(std::string_view lines) {
  begin_paragraph();
  macro("RS 4");
  macro("nf");
  for (const auto one : lines_of(lines)) line(one.empty() ? Troff{"\\&"} : plain(one));
  macro("fi");
  macro("RE");
}

void Page::synopsis(std::string_view name, const Troff& rest) {
  macro(fmt::format("SY \"{}\"", plain(name).text));
  if (!rest.empty()) line(rest);
  macro("YS");
}

void Page::help_text(std::string_view text) {
  std::string flowed, indented;
  const auto end = [&] {
    if (!flowed.empty()) paragraph(plain(flowed));
    if (!indented.empty()) literal(indented);
    flowed.clear();
    indented.clear();
  };
  for (const auto one : lines_of(text)) {
    const auto begin = one.find_first_not_of(' ');
    if (begin == std::string_view::npos) {
      end();
    } else if (begin > 0) {
      if (!flowed.empty()) end();
      indented += fmt::format("{}\n", one.substr(std::min<std::size_t>(begin, 2)));
    } else {
      if (!indented.empty()) end();
      if (!flowed.empty()) flowed += ' ';
      flowed += one.substr(0, one.find_last_not_of(' ') + 1);
    }
  }
  end();
}

Troff Page::reference(std::string_view name, std::string_view section) {
  return together(bold(name) + plain(fmt::format("({})", section)));
}

}  // namespace xdpgpu::manual
