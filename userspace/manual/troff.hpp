// SPDX-License-Identifier: MIT
//
// userspace/manual/troff.hpp: a manual page in the macros of man(7), as man-db (groff) and mandoc both read
// them.
#pragma once

#include <string>
#include <string_view>

namespace xdpgpu::manual {

// What troff shows as the text that it was made of.
struct Troff {
  std::string text;
  Troff& operator+=(const Troff& other) {
    text += other.text;
    return *this;
  }
  friend Troff operator+(Troff a, const Troff& b) { return a += b; }
  bool empty() const { return text.empty(); }
};

// Line ends are blanks. Throws std::runtime_error where the text has other characters than ASCII: what shows
// those differs from one troff to the next.
Troff plain(std::string_view text);
Troff bold(std::string_view text);    // to be written as it stands
Troff italic(std::string_view text);  // what something else stands for
// What stands between backticks is bold.
Troff marked(std::string_view text);
// Blanks in it end no line.
Troff together(const Troff& troff);

class Page {
 public:
  // section: "1", "5". date: "2026-01-31".
  Page(std::string_view name, std::string_view section, std::string_view date);

  void section(std::string_view heading);
  void subsection(std::string_view heading);
  void paragraph(const Troff& text);
  // Something and what there is to say of it.
  void item(const Troff& tag, const Troff& about);
  // A further paragraph of the item.
  void item_paragraph(const Troff& text);
  // Line by line, as it stands.
  void literal(std::string_view lines);
  // One use of a command: its name, and what follows with a hanging indent.
  void synopsis(std::string_view name, const Troff& rest);
  // Text as --help has it: paragraphs by empty lines; lines that are indented stand as they are.
  void help_text(std::string_view text);
  // "NAME(1)" of another page.
  static Troff reference(std::string_view name, std::string_view section);

  const std::string& text() const { return text_; }

 private:
  void macro(std::string_view line);
  void line(const Troff& text);
  void begin_paragraph();
  std::string text_;
};

}  // namespace xdpgpu::manual
