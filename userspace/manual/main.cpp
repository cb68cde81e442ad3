// SPDX-License-Identifier: MIT
//
// write-manual TREE FOLDER: writes the manual pages and what shells complete into FOLDER (man/man1, man/man5,
// bash, zsh), from the command line that this program has in it and from TREE/config.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "userspace/cli/command_line.hpp"
#include "userspace/manual/command_pages.hpp"
#include "userspace/manual/completion.hpp"
#include "userspace/manual/policy_page.hpp"

namespace {

namespace fs = std::filesystem;
using namespace xdpgpu;

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw std::runtime_error(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  return text;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file)
    throw std::runtime_error(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

// Of the build, or as who wants the same bytes from each build says:
// https://reproducible-builds.org/specs/source-date-epoch/
std::string date() {
  std::time_t seconds = std::time(nullptr);
  if (const char* said = std::getenv("SOURCE_DATE_EPOCH"); said != nullptr) {
    const std::string_view text(said);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size())
      throw std::runtime_error(
          fmt::format("SOURCE_DATE_EPOCH is \"{}\", which is no number of seconds", text));
  }
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(seconds));
}

void write_all(const fs::path& tree, const fs::path& folder) {
  cli::Chosen chosen;
  const auto app = cli::command_line(chosen);
  const auto program = manual::read_commands(*app);
  const auto today = date();
  for (const auto& page : manual::command_pages(program, today))
    write(folder / "man/man1" / (page.name + ".1"), page.text);
  write(folder / "man/man5/xdpgpu-policy.5",
        manual::policy_page(contents(tree / "config/policy.schema.json"),
                            contents(tree / "config/examples/quickstart.json"), today));
  const fs::path frames = tree / "userspace/manual";
  write(folder / "bash/xdpgpu", manual::bash_completion(program, contents(frames / "completion.bash")));
  write(folder / "zsh/_xdpgpu", manual::zsh_completion(program, contents(frames / "completion.zsh")));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    fmt::print(stderr, "usage: write-manual TREE FOLDER\n");
    return cli::kUsage;
  }
  try {
    write_all(arguments[1], arguments[2]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "write-manual: {}\n", error.what());
    return cli::kFailed;
  }
  return cli::kDone;
}
