// SPDX-License-Identifier: MIT
//
// A target without libFuzzer, for any compiler: judges its seeds and the files that it is given, then inputs
// made of them at random, and says how many and how fast. It is guided by nothing; libfuzzer.cpp's is.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/target.hpp"

namespace xdpgpu::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongest = 16'384;

class Mutator {
 public:
  Mutator(u64 seed, std::vector<Bytes> from) : random_(seed), from_(std::move(from)) {}

  Bytes next() {
    Bytes input = from_[below(from_.size())];
    for (std::size_t left = 1 + below(4); left > 0; --left) change(input);
    if (input.size() > kLongest) input.resize(kLongest);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }

  void change(Bytes& input) {
    static constexpr std::array<u8, 10> kEdges{0x00, 0x01, 0x04, 0x0f, 0x10, 0x20, 0x7f, 0x80, 0xf0, 0xff};
    if (input.empty()) input.push_back(0);
    const std::size_t at = below(input.size());
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(8)) {
      case 0:
        *place = static_cast<u8>(*place ^ 1u << below(8));
        break;
      case 1:
        *place = static_cast<u8>(random_());
        break;
      case 2:
        *place = kEdges[below(kEdges.size())];
        break;
      case 3:
        *place = static_cast<u8>(*place + 1 - 2 * below(2));
        break;
      case 4:
        input.resize(at);
        break;
      case 5:
        input.erase(place, place + static_cast<std::ptrdiff_t>(std::min(input.size() - at, 1 + below(16))));
        break;
      case 6: {  // some of it twice
        const Bytes piece(place,
                          place + static_cast<std::ptrdiff_t>(std::min(input.size() - at, 1 + below(64))));
        input.insert(place, piece.begin(), piece.end());
        break;
      }
      default: {  // the rest from another one
        const Bytes& other = from_[below(from_.size())];
        const std::size_t begin = other.empty() ? 0 : below(other.size());
        input.resize(at);
        input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(begin), other.end());
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<Bytes> from_;
};

void read(const std::filesystem::path& path, std::vector<Bytes>& into) {
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) read(entry.path(), into);
    return;
  }
  std::ifstream file(path, std::ios::binary);
  into.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

}  // namespace
}  // namespace xdpgpu::fuzz

int main(int argc, char** argv) {
  using namespace xdpgpu;
  using namespace xdpgpu::fuzz;
  CLI::App app("Judges inputs made at random of a target's seeds and of the files given.");
  u64 inputs = 100'000, seed = std::random_device{}();
  double seconds = 3600;
  std::vector<std::string> files;
  app.add_option("--inputs", inputs, "How many inputs, at most")->capture_default_str();
  app.add_option("--seconds", seconds, "For how long, at most")->capture_default_str();
  app.add_option("--seed", seed, "Of the random numbers; another one each time");
  app.add_option("file", files, "Files of one input each, and directories of them");
  CLI11_PARSE(app, argc, argv);

  std::vector<Bytes> from = seeds();
  for (const std::string& file : files) read(file, from);
  for (const std::string& what : left_out()) fmt::print("left out: {}\n", what);
  fmt::print("--seed {}, {} inputs to begin with\n", seed, from.size());
  std::fflush(stdout);
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  u64 judged = 0;
  for (const auto& inputs_to_judge : {from, cases()})
    for (const Bytes& input : inputs_to_judge) {
      LLVMFuzzerTestOneInput(input.data(), input.size());
      ++judged;
    }
  Mutator mutator(seed, from);
  while (judged < inputs && (judged % 256 != 0 || elapsed() < seconds)) {
    const Bytes input = mutator.next();
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++judged;
  }
  finish();
  fmt::print("{} inputs in {:.1f} s, {:.0f} a second: nothing wrong\n", judged, elapsed(),
             static_cast<double>(judged) / elapsed());
  return 0;
}
