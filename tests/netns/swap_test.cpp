// SPDX-License-Identifier: MIT
//
// tests/netns/swap_test.cpp: policies swapped under traffic without pause, before an oracle that knows each
// packet's fate under either. None may have a third one, and those that were classified while one policy was
// in force (after its swap was acknowledged, before the next was asked for) have that policy's.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/netns/control_socket.hpp"
#include "tests/netns/on_the_wire.hpp"
#include "tests/netns/oracle.hpp"

namespace xdpgpu::lab {
namespace {

constexpr unsigned kPps = 20000;
constexpr std::uint64_t kMostPackets = 1 << 24;

double since_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// What was seen of some swaps.
struct Seen {
  std::uint64_t packets = 0;    // sent
  std::uint64_t in_force = 0;   // of those: while no swap was under way
  std::uint64_t mixtures = 0;   // neither policy's fate
  std::uint64_t misjudged = 0;  // the other policy's fate, while one was in force
  std::uint64_t lost = 0;       // did not arrive, and should have
  std::uint64_t shed = 0;       // and were counted as lost by somebody
  std::string first_wrong;
  std::array<std::array<std::uint64_t, 2>, Oracle::kClasses> as{};  // by class and policy, while in force
  std::vector<double> swaps_ms;                                     // sorted
};

class Swaps : public OnTheWire {
 protected:
  void start(const Oracle::Size& size) {
    attach_both(Oracle(left_port(), host_port(), host_second().ifname()).policy(false));
    oracle_.emplace(left_port(), host_port(), host_second().ifname(), size);
  }

  // Why it was refused; empty: it was not.
  std::string swap_to(const std::string& text, const std::map<std::string, std::string>& files = {}) const {
    const Json answer =
        ask(host_port().ifname(), "policy.apply", {{"text", text}, {"file", "swap.json"}}, files);
    return answer.value("ok", false) ? "" : answer.dump();
  }

  std::string swap(bool b) const {
    std::map<std::string, std::string> files;
    if (!half_[b].empty()) files[Oracle::kHalfFile] = half_[b];
    return swap_to(text_[b], files);
  }

  // `swaps` of them, with `between` packets at least while each policy is in force.
  Seen run(int swaps, std::uint64_t between) {
    for (const bool b : {false, true}) {
      text_[b] = oracle_->policy(b);
      half_[b] = oracle_->half_file(b);
    }
    const Pins& pins = attached_->pins();
    if (const std::string problem = swap(false); !problem.empty()) {
      ADD_FAILURE() << problem;
      return {};
    }
    struct Window {
      std::uint64_t first, end;
      bool b;
    };
    std::vector<Window> windows;
    Seen seen;
    const auto received_before = pins.kernel("received");
    const auto shed_before = shed();
    const auto refused_before = refused();
    Observer observer(left_port(), right_port(), host_port(), kMostPackets);
    NumberedLoad load(*oracle_, left_port(), kPps, kMostPackets);
    std::uint64_t first = 0;
    for (int i = 0; i <= swaps; ++i) {
      const bool b = i % 2 == 1;
      // On a busy machine what comes first may all be shed.
      const auto arrived = observer.arrived();
      eventually([&] { return observer.arrived() >= arrived + between / 2; }, 10s);
      if (!eventually([&] { return load.sent() >= first + between; }, 20s)) {
        ADD_FAILURE() << "the load stands still at packet " << load.sent();
        break;
      }
      // Those that are on the wire still meet whatever is in force when they come.
      const std::uint64_t end = load.sent();
      if (!eventually(
              [&] { return pins.kernel("received") - received_before + refused() - refused_before >= end; },
              5s)) {
        ADD_FAILURE() << "packets did not come to the host: " << pins.summary();
        break;
      }
      windows.push_back({first, end, b});
      if (i == swaps) break;
      const auto asked = std::chrono::steady_clock::now();
      const std::string problem = swap(!b);
      seen.swaps_ms.push_back(since_ms(asked));
      first = load.issued();
      if (!problem.empty()) {
        ADD_FAILURE() << problem;
        break;
      }
    }
    seen.packets = load.end();
    std::uint64_t last_arrived = 0;
    eventually([&] {  // nothing is under way any more
      const auto arrived = observer.arrived();
      std::this_thread::sleep_for(100ms);
      return std::exchange(last_arrived, arrived) == arrived;
    });
    observer.end();
    seen.shed = shed() - shed_before + refused() - refused_before;
    std::sort(seen.swaps_ms.begin(), seen.swaps_ms.end());

    auto window = windows.begin();
    for (std::uint64_t number = 0; number < seen.packets; ++number) {
      while (window != windows.end() && number >= window->end) ++window;
      const bool settled = window != windows.end() && number >= window->first;
      const Fate fate = observer.fate(number);
      const std::array<Fate, 2> right{Oracle::fate(number, false), Oracle::fate(number, true)};
      const auto wrong = [&](std::uint64_t& count) {
        ++count;
        if (seen.first_wrong.empty())
          seen.first_wrong = fmt::format("packet {} ({}): {}; A: {}; B: {}; in force: {}", number,
                                         Oracle::class_name(number), fate_name(fate), fate_name(right[0]),
                                         fate_name(right[1]),
                                         !settled    ? "a swap was under way"
                                         : window->b ? "B"
                                                     : "A");
      };
      if (settled) {
        ++seen.in_force;
        if (fate == right.at(window->b))
          ++seen.as.at(number % Oracle::kClasses).at(window->b);
        else if (fate == right.at(!window->b) && fate != kGone)
          wrong(seen.misjudged);
      }
      if (fate == kGone && (settled ? right.at(window->b) != kGone : right[0] != kGone && right[1] != kGone))
        wrong(seen.lost);
      else if (fate != kGone && fate != right[0] && fate != right[1])
        wrong(seen.mixtures);
    }
    EXPECT_EQ(observer.overrun(), 0U) << "the test was too slow to see all";
    EXPECT_EQ(observer.twice(), 0U);
    return seen;
  }

  // What is lost on purpose, or by a full ring, and counted.
  std::uint64_t shed() const {
    std::uint64_t sum = 0;
    const auto kernel = attached_->pins().kernel_counts();
    const auto worker = attached_->pins().worker_counts();
    for (const char* reason : {"drop_overload", "drop_failure", "error_redirect"}) sum += kernel.at(reason);
    for (const char* reason : {"lost_in_kernel", "error_ring_full"}) sum += worker.at(reason);
    return sum + host_port().counters().tx_dropped + host_second().counters().tx_dropped;
  }
  std::uint64_t refused() const { return left_port().counters().tx_dropped; }

  void expect_right(const Seen& seen, int swaps) const {
    const Pins& pins = attached_->pins();
    EXPECT_EQ(seen.swaps_ms.size(), static_cast<std::size_t>(swaps));
    EXPECT_EQ(seen.mixtures, 0U) << seen.first_wrong;
    EXPECT_EQ(seen.misjudged, 0U) << seen.first_wrong;
    EXPECT_LE(seen.lost, seen.shed) << seen.first_wrong << "; " << pins.summary();
    for (const char* reason : {"error_generation", "error_device", "error_target", "error_invalid"})
      EXPECT_EQ(pins.worker(reason), 0U) << reason;
    // Else it shows nothing.
    for (std::size_t c = 0; c < Oracle::kClasses; ++c)
      for (const std::size_t b : {0U, 1U})
        EXPECT_GT(seen.as.at(c).at(b), 0U) << Oracle::class_name(c) << (b == 1 ? " under B" : " under A");
    if (!generic() && kernel_at_least(6, 3)) {
      EXPECT_GT(pins.kernel("tx_flow") + pins.kernel("redirect_flow"), 0U) << "the kernel remembered nothing";
    }
    expect_conserved(pins);
  }

  void print(const Seen& seen, const std::string& of = "") const {
    if (seen.swaps_ms.empty()) return;
    fmt::print(
        "{} swaps{}, {} packets ({} while one policy was in force): {} mixtures, {} misjudged, {} lost ({} "
        "shed "
        "and counted); a swap took {:.1f} ms (median), {:.1f} ms (longest)\n",
        seen.swaps_ms.size(), of, seen.packets, seen.in_force, seen.mixtures, seen.misjudged, seen.lost,
        seen.shed, seen.swaps_ms[seen.swaps_ms.size() / 2], seen.swaps_ms.back());
  }

  std::optional<Oracle> oracle_;
  std::array<std::string, 2> text_, half_;
};
INSTANTIATE_TEST_SUITE_P(Netns, Swaps, testing::Values(Config{false, 2, "split"}, Config{true, 1, "inline"}),
                         config_name);

// XDPGPU_TEST_SWAPS says how many.
TEST_P(Swaps, NoPacketIsJudgedByAMixture) {
  const char* said = std::getenv("XDPGPU_TEST_SWAPS");
  const int swaps = said != nullptr ? std::atoi(said) : 20;
  start({});
  const Seen seen = run(swaps, 200);
  print(seen);
  expect_right(seen, swaps);
}

// Ten thousand rules and a million prefixes, another list and other rules each time. XDPGPU_TEST_LARGE_SWAPS
// says how many.
class LargeSwaps : public Swaps {};
INSTANTIATE_TEST_SUITE_P(Netns, LargeSwaps, testing::Values(Config{false, 2, "split"}), config_name);

TEST_P(LargeSwaps, NoPacketIsJudgedByAMixture) {
  const char* said = std::getenv("XDPGPU_TEST_LARGE_SWAPS");
  const int swaps = said != nullptr ? std::atoi(said) : 2;
  constexpr Oracle::Size kSize{.acl_rules = 10'000, .prefixes = 1'000'000};
  start(kSize);
  const Seen seen = run(swaps, 2000);
  print(seen, fmt::format(" of {} rules and {} prefixes", kSize.acl_rules, kSize.prefixes));
  expect_right(seen, swaps);
}

// Neither its text, which is long here, nor its tables.
TEST_P(LargeSwaps, APolicyThatIsGoneTakesNoMemory) {
  const std::string text = inspect_udp(7000, R"({"stage": "l2fwd"})");
  attach(text);
  const pid_t pid = attached_->data_plane();
  const auto own_kib = [&] {
    std::ifstream file(fmt::format("/proc/{}/status", pid));
    std::string word;
    std::int64_t kib = 0;
    while (file >> word && word != "RssAnon:") {
    }
    file >> kib;
    return kib;
  };
  const auto apply = [&](int times) {
    for (int i = 0; i < times; ++i) EXPECT_EQ(swap_to(text + std::string(2 << 20, ' ')), "");
  };
  apply(4);
  const std::int64_t before = own_kib();
  ASSERT_GT(before, 0);
  apply(8);
  EXPECT_LT(own_kib() - before, 16 << 10);
}

}  // namespace
}  // namespace xdpgpu::lab
