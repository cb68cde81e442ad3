// SPDX-License-Identifier: MIT
#include "userspace/policy/diversion.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace xdpgpu::policy {
namespace {

namespace sig = gpu::signatures;
__extension__ using Whole = unsigned __int128;  // an address, in host order

constexpr u32 bits_of(u8 family) { return family == 4 ? 32 : 128; }

Whole number_of(const sig::Address& address, u8 family) {
  Whole number = 0;
  for (u32 i = 0; i < bits_of(family) / 8; i++) number = number << 8 | address[i];
  return number;
}

Prefix prefix_of(Whole first, u8 length, u8 family) {
  Prefix made{family, length, {}};
  for (u32 i = bits_of(family) / 8; i-- > 0; first >>= 8) made.address[i] = static_cast<u8>(first);
  return made;
}

// The fewest prefixes that are all of the ranges.
void add_prefixes(const sig::Ranges<sig::Address>& ranges, u8 family, std::vector<Prefix>& to) {
  const u32 bits = bits_of(family);
  for (const auto& range : ranges) {
    Whole first = number_of(range.first, family);
    const Whole last = number_of(range.last, family);
    for (;;) {
      u32 host = 0;  // bits
      while (host < bits) {
        const Whole wider = host + 1 == 128 ? ~Whole{0} : (Whole{1} << (host + 1)) - 1;
        if ((first & wider) != 0 || last - first < wider) break;
        host++;
      }
      to.push_back(prefix_of(first, static_cast<u8>(bits - host), family));
      const Whole end = first + (host == 128 ? ~Whole{0} : (Whole{1} << host) - 1);
      if (end == last) break;
      first = end + 1;
    }
  }
}

bool is_all(const sig::Ranges<sig::Address>& ranges, u8 family) {
  const Whole most = family == 4 ? 0xffffffffu : ~Whole{0};
  return ranges.size() == 1 && number_of(ranges[0].first, family) == 0 &&
         number_of(ranges[0].last, family) == most;
}

// One direction of a header.
struct Way {
  std::bitset<256> protocols;
  sig::Addresses src, dst;
  std::optional<sig::Ranges<u16>> src_ports, dst_ports;

  bool meets_none() const {
    const auto none = [](const sig::Addresses& addresses) {
      return addresses.v4.empty() && addresses.v6.empty();
    };
    const bool v4 = !src.v4.empty() && !dst.v4.empty(), v6 = !src.v6.empty() && !dst.v6.empty();
    return protocols.none() || none(src) || none(dst) || (!v4 && !v6) || (src_ports && src_ports->empty()) ||
           (dst_ports && dst_ports->empty());
  }
};

// Whether all of `inner` is in `outer`; ranges that touch are one.
template <class T>
bool includes(const sig::Ranges<T>& outer, const sig::Ranges<T>& inner) {
  return std::all_of(inner.begin(), inner.end(), [&](const auto& one) {
    return std::any_of(outer.begin(), outer.end(),
                       [&](const auto& other) { return other.first <= one.first && one.last <= other.last; });
  });
}
bool includes(const std::optional<sig::Ranges<u16>>& outer, const std::optional<sig::Ranges<u16>>& inner) {
  return !outer || (inner && includes(*outer, *inner));
}
bool includes(const sig::Addresses& outer, const sig::Addresses& inner) {
  return includes(outer.v4, inner.v4) && includes(outer.v6, inner.v6);
}
bool includes(const Way& outer, const Way& inner) {
  return (inner.protocols & ~outer.protocols).none() && includes(outer.src, inner.src) &&
         includes(outer.dst, inner.dst) && includes(outer.src_ports, inner.src_ports) &&
         includes(outer.dst_ports, inner.dst_ports);
}

Way way_of(const sig::Header& header) {
  Way way{header.protocols, header.src, header.dst, header.src_ports, header.dst_ports};
  for (sig::Addresses* const side : {&way.src, &way.dst}) {
    if (!header.v4) side->v4.clear();
    if (!header.v6) side->v6.clear();
  }
  return way;
}
Way turned(Way way) {
  std::swap(way.src, way.dst);
  std::swap(way.src_ports, way.dst_ports);
  return way;
}

void add(std::vector<Way>& ways, Way way) {
  const auto is_in = [&](const Way& other) { return includes(other, way); };
  if (way.meets_none() || std::any_of(ways.begin(), ways.end(), is_in)) return;
  ways.erase(std::remove_if(ways.begin(), ways.end(), [&](const Way& other) { return includes(way, other); }),
             ways.end());
  ways.push_back(std::move(way));
}

std::vector<Prefix> prefixes_of(const sig::Addresses& addresses) {
  std::vector<Prefix> made;
  if (is_all(addresses.v4, 4) && is_all(addresses.v6, 6)) return made;
  add_prefixes(addresses.v4, 4, made);
  add_prefixes(addresses.v6, 6, made);
  return made;
}

Match match_of(const Way& way) {
  Match match;
  match.src = prefixes_of(way.src);
  match.dst = prefixes_of(way.dst);
  for (u32 protocol = 0; protocol < way.protocols.size(); protocol++)
    if (way.protocols[protocol]) match.protocols.push_back(static_cast<u8>(protocol));
  const auto add_ports = [](const std::optional<sig::Ranges<u16>>& ports, std::vector<PortRange>& to) {
    if (!ports) return;
    for (const auto& range : *ports) to.push_back({range.first, range.last});
  };
  add_ports(way.src_ports, match.src_ports);
  add_ports(way.dst_ports, match.dst_ports);
  return match;
}

// Nothing: its packets stay.
std::optional<Diversion> diversion_of(const Pipeline& pipeline, u16 number) {
  for (const Stage& stage : pipeline.stages) {
    const std::string* const to = gpu::sends_undecided(stage);
    if (to == nullptr) continue;
    Diversion made{number, *to, {}};
    const auto& headers = gpu::file_rules(stage)->undecided;
    std::vector<Way> ways;
    if (headers)
      for (const sig::Header& header : *headers) {
        add(ways, way_of(header));
        if (header.both_ways) add(ways, turned(way_of(header)));
      }
    for (const Way& way : ways) made.conditions.push_back(match_of(way));
    return made;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Diversion> diversions_of(const Policy& policy) {
  std::vector<Diversion> made;
  for (std::size_t i = 0; i < policy.pipelines.size(); i++)
    if (auto one = diversion_of(policy.pipelines[i], static_cast<u16>(i))) made.push_back(*std::move(one));
  return made;
}

}  // namespace xdpgpu::policy
