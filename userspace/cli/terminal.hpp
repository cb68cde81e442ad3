// SPDX-License-Identifier: MIT
//
// userspace/cli/terminal.hpp: the terminal, by ncurses, which sends what has changed alone. It is as it was
// again once the object is gone.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "userspace/control/result.hpp"
#include "userspace/report/top_screen.hpp"

namespace xdpgpu::cli {

// One at a time, of standard input and output; one thread. Colours where the terminal has them and NO_COLOR
// (https://no-color.org) is not set.
class Terminal {
 public:
  // The error is a sentence: there is none, or it is not known, or it cannot put letters where they belong.
  static control::Result<std::unique_ptr<Terminal>> open();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Size {
    std::size_t width = 0, height = 0;
  };
  // As it is now.
  Size size();
  void show(const report::Grid& grid);
  // The next key that was pressed; nothing where none was. Keys that are none of report::key are passed over.
  std::optional<report::Key> key();

 private:
  struct Library;
  explicit Terminal(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace xdpgpu::cli
