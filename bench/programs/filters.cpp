// SPDX-License-Identifier: MIT
#include "bench/programs/filters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <unordered_map>

#include "maps/packet.h"
#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/policy/policy.hpp"

asm(R"(
  .section .rodata
  .global xdpgpu_filter_object, xdpgpu_balancer_object, xdpgpu_again_object, xdpgpu_objects_end
xdpgpu_filter_object:
  .incbin ")" XDPGPU_OBJECTS R"(/filter.bpf.o"
xdpgpu_balancer_object:
  .incbin ")" XDPGPU_OBJECTS R"(/balancer.bpf.o"
xdpgpu_again_object:
  .incbin ")" XDPGPU_OBJECTS R"(/balancer_again.bpf.o"
xdpgpu_objects_end:
  .text
)");
extern "C" const char xdpgpu_filter_object[], xdpgpu_balancer_object[], xdpgpu_again_object[],
    xdpgpu_objects_end[];

namespace xdpgpu::bench {
namespace {

namespace fs = std::filesystem;

constexpr u64 kSeed = 20261127;
constexpr const char* kObject = "object.o";  // as the policy names it
// xdp-filter's: what of a packet is looked at (MAP_FLAG_*).
constexpr u64 kSource = 1, kDestination = 2, kTcp = 4, kUdp = 8;

u32 mask_of(u32 length) { return length == 0 ? 0 : ~u32{0} << (32 - length); }

u32 address_of(const gpu::Prefix& prefix) {
  u32 address = 0;
  for (u32 i = 0; i < 4; ++i) address = address << 8 | prefix.address[i];
  return address;
}

template <class T>
std::vector<u8> bytes_of(const T& value) {
  const auto* const first = reinterpret_cast<const u8*>(&value);
  return {first, first + sizeof(value)};
}
std::vector<u8> on_the_wire(u16 port) { return {static_cast<u8>(port >> 8), static_cast<u8>(port)}; }

// As bpftool prints them.
nlohmann::json as_printed(const std::vector<u8>& bytes) {
  nlohmann::json printed = nlohmann::json::array();
  for (const u8 byte : bytes) printed.push_back(fmt::format("0x{:02x}", byte));
  return printed;
}

// Position of the rule that a packet meets first, + 1; 0: it meets none.
class FirstRule {
 public:
  explicit FirstRule(const Entries& entries) {
    for (std::size_t i = 0; i < entries.sources.size(); ++i)
      sources_[entries.sources[i].length].emplace(address_of(entries.sources[i]), static_cast<u32>(i) + 1);
    for (std::size_t i = 0; i < entries.ports.size(); ++i)
      ports_.emplace(entries.ports[i], static_cast<u32>(entries.sources.size() + i) + 1);
  }
  u32 of(const StagePacket& packet) const {
    u32 first = ~0u;
    for (const auto& [length, of_length] : sources_)
      if (const auto at = of_length.find(packet.src & mask_of(length)); at != of_length.end())
        first = std::min(first, at->second);
    if (first != ~0u) return first;
    const auto at = ports_.find(packet.dst_port);
    return at == ports_.end() ? 0 : at->second;
  }

 private:
  std::map<u8, std::unordered_map<u32, u32>> sources_;  // by length and address
  std::unordered_map<u16, u32> ports_;
};

}  // namespace

Entries random_entries(u32 sources, u32 ports, bool whole) {
  constexpr std::array<u8, 10> kLengths{16, 20, 20, 24, 24, 24, 24, 32, 32, 32};
  Random random(kSeed);
  Entries made;
  std::set<gpu::Prefix> known;
  while (made.sources.size() < sources) {
    gpu::Prefix prefix;
    prefix.length = whole ? 32 : kLengths[below(random, kLengths.size())];
    const u32 address = static_cast<u32>(random()) & mask_of(prefix.length);
    for (u32 i = 0; i < 4; ++i) prefix.address[i] = static_cast<u8>(address >> (24 - 8 * i));
    if (known.insert(prefix).second) made.sources.push_back(prefix);
  }
  std::set<u16> used;
  while (made.ports.size() < ports)
    if (const auto port = static_cast<u16>(random()); used.insert(port).second) made.ports.push_back(port);
  return made;
}

std::vector<StagePacket> packets_for(const Entries& entries, u32 count, u32 hits) {
  Random random(kSeed + 1);
  std::vector<StagePacket> packets(count);
  const std::set<u16> ports(entries.ports.begin(), entries.ports.end());
  for (StagePacket& packet : packets) {
    packet.src = static_cast<u32>(random());
    packet.dst = static_cast<u32>(random());
    packet.src_port = static_cast<u16>(random());
    do {
      packet.dst_port = static_cast<u16>(random());
    } while (ports.contains(packet.dst_port));
    packet.protocol = below(random, 4) == 0 ? 17 : 6;
    if (packet.protocol == 6) packet.tcp_flags = 0x10;
    if (below(random, 100) >= hits) continue;
    if (below(random, 2) == 0) {
      const gpu::Prefix& prefix = entries.sources[below(random, static_cast<u32>(entries.sources.size()))];
      packet.src = address_of(prefix) | (packet.src & ~mask_of(prefix.length));
    } else {
      packet.dst_port = entries.ports[below(random, static_cast<u32>(entries.ports.size()))];
    }
  }
  return packets;
}

Filter own_filter(const Entries& prefixes) {
  Filter made{.name = "filter.bpf.c",
              .object = {xdpgpu_filter_object, xdpgpu_balancer_object},
              .maps = {{"sources", {}}, {"ports", {}}},
              .entries = prefixes};
  for (const gpu::Prefix& prefix : prefixes.sources) {
    std::vector<u8> key = bytes_of(u32{prefix.length});
    key.insert(key.end(), prefix.address.begin(), prefix.address.begin() + 4);
    made.maps[0].entries.emplace_back(std::move(key), bytes_of(u32{1}));
  }
  for (const u16 port : prefixes.ports)
    made.maps[1].entries.emplace_back(on_the_wire(port), bytes_of(u32{1}));
  return made;
}

namespace {

constexpr u32 kServices = 64, kServersOfOne = 4, kRingOfOne = 64;
constexpr u16 kServicePort = 443;

u32 service_address(u32 number) { return 0xcb007100u + number; }  // 203.0.113.0 and up
u8 service_protocol(u32 number) { return number % 4 == 3 ? 17 : 6; }
std::array<u8, 4> in_order(u32 address) {
  return {static_cast<u8>(address >> 24), static_cast<u8>(address >> 16), static_cast<u8>(address >> 8),
          static_cast<u8>(address)};
}
// Behind each other: numbers as this host has them.
template <class... Parts>
std::vector<u8> joined(const Parts&... parts) {
  std::vector<u8> all;
  const auto add = [&](const auto& part) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(part)>>) {
      const auto bytes = bytes_of(part);
      all.insert(all.end(), bytes.begin(), bytes.end());
    } else {
      all.insert(all.end(), part.begin(), part.end());
    }
  };
  (add(parts), ...);
  return all;
}
u32 server_address(u32 number) { return 0xc6336400u + number; }  // 198.51.100.0 and up
const std::array<u8, 6> kGateway{2, 0, 0x5e, 0, 0x53, 1};

}  // namespace

Filter balancer(u32 flows) {
  Filter made{.name = "balancer.bpf.c",
              .object = {xdpgpu_balancer_object, xdpgpu_again_object},
              .maps = {{"services", {}}, {"ring", {}}, {"servers", {}}, {"way", {}}},
              .services = kServices,
              .flows = flows,
              .again = {xdpgpu_again_object, xdpgpu_objects_end},
              .again_section = "xdp/again",
              .compile_bar = 3};
  const std::array<u8, 12> none{};
  for (u32 i = 0; i < kServices; ++i) {
    made.maps[0].entries.emplace_back(joined(in_order(service_address(i)), none, on_the_wire(kServicePort),
                                             std::array<u8, 2>{service_protocol(i), 4}),
                                      joined(i * kRingOfOne, kRingOfOne, i));
    for (u32 at = 0; at < kRingOfOne; ++at)
      made.maps[1].entries.emplace_back(bytes_of(i * kRingOfOne + at),
                                        bytes_of(i * kServersOfOne + at % kServersOfOne + 1));
  }
  for (u32 i = 1; i <= kServices * kServersOfOne; ++i)
    made.maps[2].entries.emplace_back(bytes_of(i), joined(in_order(server_address(i)), none));
  made.maps[3].entries.emplace_back(
      bytes_of(u32{0}),
      joined(kGateway, std::array<u8, 2>{}, in_order(service_address(0)), none, std::array<u8, 16>{}));
  return made;
}

std::vector<StagePacket> packets_to_services(const Filter& balancer, u32 count) {
  Random random(kSeed + 2);
  std::vector<StagePacket> packets(count);
  for (StagePacket& packet : packets) {
    const u32 service = below(random, balancer.services);
    packet.src = static_cast<u32>(random());
    packet.dst = service_address(service);
    packet.src_port = static_cast<u16>(random());
    packet.dst_port = kServicePort;
    packet.protocol = service_protocol(service);
    if (packet.protocol == 6) packet.tcp_flags = 0x10;
  }
  return packets;
}

gpu::LoadBalanceSettings load_balance_of(const Filter& balancer) {
  gpu::LoadBalanceSettings stage;
  for (u32 i = 1; i <= kServersOfOne; ++i) {
    gpu::Backend& backend = stage.backends.emplace_back();
    backend.name = fmt::format("server{}", i);
    std::copy(kGateway.begin(), kGateway.end(), backend.mac.begin());
    const auto address = in_order(server_address(i));
    backend.address.length = 32;
    std::copy(address.begin(), address.end(), backend.address.address.begin());
  }
  stage.algorithm = gpu::LoadBalanceSettings::Algorithm::maglev;
  stage.affinity = gpu::AffinitySettings{.table = {.entries = std::bit_ceil(balancer.flows)}};
  stage.encapsulation = gpu::EncapsulationSettings{};
  gpu::Prefix source;
  source.length = 32;
  const auto address = in_order(service_address(0));
  std::copy(address.begin(), address.end(), source.address.begin());
  stage.encapsulation->source4 = source;
  return stage;
}

std::string usual_folder() {
  if (const char* const said = std::getenv("LIBXDP_OBJECT_PATH")) return said;
  for (const char* const folder :
       {"/usr/lib/x86_64-linux-gnu/bpf", "/usr/lib/aarch64-linux-gnu/bpf", "/usr/lib64/bpf"})
    if (fs::exists(folder)) return folder;
  return "/usr/lib/bpf";
}

gpu::Result<Filter> xdp_filter(const std::string& folder, bool drops_hits, const Entries& addresses) {
  Filter made{.name = drops_hits ? "xdpfilt_alw_all" : "xdpfilt_dny_all",
              .object = {},
              .maps = {{"filter_ipv4", {}}, {"filter_ports", {}}},
              .entries = addresses,
              .drops_hits = drops_hits};
  const fs::path path = fs::path(folder) / (made.name + ".o");
  std::ifstream file(path, std::ios::binary);
  made.object.assign(std::istreambuf_iterator<char>(file), {});
  if (made.object.empty())
    return tl::unexpected(
        fmt::format("{}: {} cannot be read: install xdp-tools, or name another folder with --objects",
                    made.name, path.string()));
  for (const gpu::Prefix& address : addresses.sources)
    made.maps[0].entries.emplace_back(std::vector<u8>(address.address.begin(), address.address.begin() + 4),
                                      bytes_of(kSource));
  for (const u16 port : addresses.ports) {
    // An index whose first two bytes are the port's on the wire.
    std::vector<u8> key = on_the_wire(port);
    key.resize(sizeof(u32));
    made.maps[1].entries.emplace_back(std::move(key), bytes_of(kDestination | kTcp | kUdp));
  }
  return made;
}

compiler::PolicySource policy_of(const Filter& filter, const programs::ObjectProgram& program) {
  using Json = nlohmann::json;
  auto bytes = programs::to_bytes(program);
  if (!bytes) throw std::runtime_error(fmt::format("{}: {}", filter.name, bytes.error()));
  compiler::PolicySource source{"policy.json", {}, {}};
  source.files.emplace(policy::program_key(kObject, {}), *std::move(bytes));
  Json maps = Json::object();
  for (const FilledMap& map : filter.maps) {
    Json entries = Json::array();
    for (const auto& [key, value] : map.entries)
      entries.push_back({{"key", as_printed(key)}, {"value", as_printed(value)}});
    maps[map.name] = {{"file", map.name + ".json"}};
    source.files.emplace(map.name + ".json", entries.dump());
  }
  const Json stage{{"stage", "program"}, {"object", kObject}, {"maps", maps}};
  source.text = Json{{"version", 1},
                     {"rules", Json::array({{{"action", {{"inspect", "own"}}}}})},
                     {"pipelines", {{"own", Json::array({stage})}}}}
                    .dump();
  return source;
}

gpu::AclSettings acl_of(const Filter& filter) {
  const auto hit = filter.drops_hits ? gpu::Action::drop : gpu::Action::pass;
  gpu::AclSettings acl;
  acl.otherwise = filter.drops_hits ? gpu::Action::pass : gpu::Action::drop;
  for (const gpu::Prefix& source : filter.entries.sources) {
    gpu::AclRule& rule = acl.rules.emplace_back();
    rule.src = {source};
    rule.action = hit;
  }
  for (const u16 port : filter.entries.ports) {
    gpu::AclRule& rule = acl.rules.emplace_back();
    rule.dst_ports = {{port, port}};
    rule.action = hit;
  }
  return acl;
}

std::vector<u32> acl_verdicts(const Filter& filter, const std::vector<StagePacket>& packets) {
  const FirstRule first(filter.entries);
  std::vector<u32> verdicts;
  verdicts.reserve(packets.size());
  for (const StagePacket& packet : packets) {
    const u32 rule = first.of(packet);
    const u32 action = (rule != 0) == filter.drops_hits ? XG_DROP : XG_PASS;
    verdicts.push_back(XG_VERDICT(action, 0u, 1u, rule));
  }
  return verdicts;
}

}  // namespace xdpgpu::bench
