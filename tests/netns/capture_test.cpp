// SPDX-License-Identifier: MIT
//
// tests/netns/capture_test.cpp: recorded traffic of all kinds, put onto the wire: every packet meets its
// verdict and a counter, and what bounces is what was sent.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

// The source tree's captures; where a bundle runs, its own.
std::vector<std::string> captures() {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(source_tree() / "tests/data/pcap", error))
    if (entry.path().extension() == ".pcap") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Captures : public OnTheWire {};
INSTANTIATE_TEST_SUITE_P(Netns, Captures, kNativeAndGeneric, config_name);

TEST_P(Captures, BounceByteExact) {
  const auto paths = captures();
  if (paths.empty()) GTEST_SKIP() << "no captures beside the program";
  // Control protocols are passed before the rules, all else is inspected.
  attach(inspect_all(R"({"stage": "l2fwd"})", R"("fragments": "inspect", "malformed": "inspect")"));
  const Pins& pins = attached_->pins();
  Sniffer left(left_port());
  Sender sender(left_port());
  std::uint64_t total = 0;
  for (const auto& path : paths) {
    SCOPED_TRACE(path);
    const std::uint64_t passed_before = pins.kernel("pass_control");
    const std::uint64_t repaired_before = pins.worker("checksums_repaired");
    std::vector<Frame> sent;
    for (Frame& frame : read_pcap(path))
      if (frame.size() >= 14 && frame.size() <= 1514) sent.push_back(std::move(frame));
    ASSERT_FALSE(sent.empty());
    sender.send_paced(sent, 20000);
    total += sent.size();
    ASSERT_TRUE(eventually([&] { return pins.kernel("received") == total; }))
        << pins.kernel("received") << " of " << total << " arrived";
    const std::uint64_t control = pins.kernel("pass_control") - passed_before;
    std::vector<Frame> back;
    for (Captured& captured : left.take(sent.size() - control, 3000ms))
      back.push_back(std::move(captured.frame));
    EXPECT_EQ(back.size(), sent.size() - control);
    std::vector<Frame> expected;
    expected.reserve(sent.size());
    for (Frame& frame : sent) expected.push_back(with_macs_swapped(std::move(frame)));
    std::sort(back.begin(), back.end());
    std::sort(expected.begin(), expected.end());
    // What was recorded on a loopback interface carries partial checksums, which are completed on the way.
    std::vector<Frame> changed;
    std::set_difference(back.begin(), back.end(), expected.begin(), expected.end(),
                        std::back_inserter(changed));
    EXPECT_EQ(changed.size(), pins.worker("checksums_repaired") - repaired_before);
  }
  expect_conserved(pins);
}

TEST_P(Captures, AreCountedUnderDrop) {
  const auto paths = captures();
  if (paths.empty()) GTEST_SKIP() << "no captures beside the program";
  attach(policy(R"("default": "drop", "fragments": "drop")"));
  const Pins& pins = attached_->pins();
  Sniffer left(left_port());
  std::uint64_t total = 0;
  for (const auto& path : paths) {
    std::vector<Frame> sent;
    for (Frame& frame : read_pcap(path))
      if (frame.size() >= 14 && frame.size() <= 1514) sent.push_back(std::move(frame));
    Sender(left_port()).send_paced(sent, 20000);
    total += sent.size();
  }
  EXPECT_TRUE(eventually([&] { return pins.kernel("received") == total; }));
  const auto counts = pins.kernel_counts();
  EXPECT_EQ(counts.at("drop_default") + counts.at("drop_fragment") + counts.at("drop_malformed") +
                counts.at("pass_control"),
            total);
  EXPECT_TRUE(left.drain(50ms).empty());
}

}  // namespace
}  // namespace xdpgpu::lab
