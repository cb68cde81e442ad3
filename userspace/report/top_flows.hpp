// SPDX-License-Identifier: MIT
//
// userspace/report/top_flows.hpp: rates of flows, and of the addresses that they come from. What the kernel
// remembers of flows can be a large table, so each look goes through a bounded part of one port's, the next
// look through the next part, and of the busiest flows that were found so each look asks anew. A part that
// was seen once only is seen again at once: a rate takes two looks.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "userspace/control/flows.hpp"

namespace xdpgpu::report {

// A port whose flows are looked at.
struct FlowPlace {
  std::string interface, netns;
  int pid = 0;  // of the process: another one has another table
  bool operator==(const FlowPlace&) const = default;
  bool operator<(const FlowPlace& other) const {
    return std::tie(netns, interface, pid) < std::tie(other.netns, other.interface, other.pid);
  }
};

struct FlowRate {
  FlowPlace place;
  control::FlowReport flow;
  double packets_s = 0, bytes_s = 0;
};
struct SourceRate {
  std::string address;
  u64 flows = 0;  // that had packets
  double packets_s = 0, bytes_s = 0;
};

// What is known by now.
struct FlowsSeen {
  std::vector<FlowRate> flows;      // the busiest, that one first; at most FlowWatch::kShown
  std::vector<SourceRate> sources;  // likewise
  u64 current = 0;                  // flow verdicts that there were, as far as it was looked
  unsigned parts = 0;               // of all tables
  unsigned rated = 0;               // of them, from which there are rates
};

// One thread. Asks nobody: says what is to be asked, and is told the answers. Times are of one steady clock.
class FlowWatch {
 public:
  static constexpr std::size_t kShown = 200, kSourcesOfPart = 1000;

  // Entries of a part. For tests.
  explicit FlowWatch(u32 part = control::kMostCounted) : part_(part) {}

  // The ports that there are now; what was known of others is forgotten.
  void set_places(std::vector<FlowPlace> places);
  struct Ask {
    FlowPlace place;
    u32 from = 0, entries = 0;
    u64 since_ns = 0;
  };
  // The part that is next; nothing where there is no port.
  std::optional<Ask> next() const;
  void counted(const Ask& ask, const control::FlowCountsReport& counts, double now_s);
  // A part that could not be asked about.
  void failed(const Ask& ask);
  // Whose counts are asked for anew, by port; of other flows it is forgotten what was answered.
  std::vector<std::pair<FlowPlace, std::vector<u32>>> wanted();
  void described(const FlowPlace& place, const std::vector<u32>& indices, const control::FlowsReport& answer,
                 double now_s);
  FlowsSeen seen() const;

 private:
  struct Busy {
    u32 index = 0;
    double packets_s = 0, bytes_s = 0;
  };
  struct Count {
    u64 packets = 0, bytes = 0;
  };
  struct Part {
    u32 from = 0;
    u64 at_ns = 0;  // by the clock of whoever was asked
    double at_s = 0;
    unsigned looks = 0;
    u64 current = 0;
    std::vector<Count> before{};        // by entry
    std::vector<Busy> busiest{};        // at most kShown
    std::vector<SourceRate> sources{};  // at most kSourcesOfPart
  };
  struct Table {
    FlowPlace place;
    u32 entries = 0;            // 0: not known yet
    std::vector<Part> parts{};  // one at least
  };
  struct Shown {
    control::FlowReport flow;
    double at_s = 0, packets_s = 0, bytes_s = 0;
  };
  Table* table_of(const FlowPlace& place);
  Part* part_of(const Ask& ask);
  void advance();

  u32 part_;
  std::vector<Table> tables_;
  std::size_t table_ = 0, next_part_ = 0;
  std::map<std::pair<FlowPlace, u32>, Shown> shown_;
};

}  // namespace xdpgpu::report
