// SPDX-License-Identifier: MIT
//
// The classifier in the kernel against rules asked one after the other. The oracle knows packets by the
// words they were made of, not by the parser, and rules by the policy, not by its tables.
#include <algorithm>
#include <random>
#include <unordered_set>

#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

struct Words {  // what a random packet is made of
  bool v6 = false;
  std::array<u8, 16> src{}, dst{};
  u8 protocol = 17;
  u16 src_port = 0, dst_port = 0;
  u8 tcp_flags = 0;
  u16 vlan = 0;  // 0: none
};

std::string text_of(const std::array<u8, 16>& bytes, bool v6) {
  char buffer[INET6_ADDRSTRLEN];
  inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), buffer, sizeof buffer);
  return buffer;
}

Frame build(const Words& w) {
  Frame l4 = w.protocol == 6    ? tcp(w.src_port, w.dst_port, w.tcp_flags)
             : w.protocol == 17 ? udp(w.src_port, w.dst_port, 4)
                                : bytes(24, 0);
  const Frame l2 = w.vlan != 0 ? ethernet({w.vlan}) : ethernet();
  if (w.v6)
    return l2 + ipv6({.src = text_of(w.src, true), .dst = text_of(w.dst, true), .next = w.protocol}, l4);
  return l2 + ipv4({.src = text_of(w.src, false), .dst = text_of(w.dst, false), .protocol = w.protocol}, l4);
}

bool in_prefix(const policy::Prefix& p, const std::array<u8, 16>& address, bool v6) {
  if ((p.family == 6) != v6) return false;
  for (u32 bit = 0; bit < p.length; ++bit)
    if (((p.address[bit / 8] ^ address[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
  return true;
}
bool in_prefixes(const std::vector<policy::Prefix>& prefixes, const std::array<u8, 16>& address, bool v6) {
  return prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(),
                                         [&](const auto& p) { return in_prefix(p, address, v6); });
}
bool in_ranges(const std::vector<policy::PortRange>& ranges, const Words& w, u16 port) {
  const bool has_ports = w.protocol == 6 || w.protocol == 17;
  return ranges.empty() || (has_ports && std::any_of(ranges.begin(), ranges.end(), [&](const auto& r) {
                              return port >= r.first && port <= r.last;
                            }));
}
bool matches(const policy::Match& m, const Words& w) {
  auto named = [](const auto& values, auto value) {
    return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
  };
  auto in_vlans = [&] {
    return m.vlans.empty() || std::any_of(m.vlans.begin(), m.vlans.end(), [&](const auto& range) {
             return w.vlan >= range.first && w.vlan <= range.last;
           });
  };
  return (!m.family || (*m.family == 6) == w.v6) && in_prefixes(m.src, w.src, w.v6) &&
         in_prefixes(m.dst, w.dst, w.v6) && in_ranges(m.src_ports, w, w.src_port) &&
         in_ranges(m.dst_ports, w, w.dst_port) && named(m.protocols, w.protocol) && in_vlans() &&
         (!m.tcp_flags_mask || (w.protocol == 6 && (w.tcp_flags & *m.tcp_flags_mask) == m.tcp_flags_value));
}

// DHCP towards its server or its client passes ahead of all rules that do not name it.
bool is_dhcp(const Words& w) {
  const u16 client = w.v6 ? 546 : 68, server = w.v6 ? 547 : 67;
  return w.protocol == 17 && ((w.src_port == client && w.dst_port == server) ||
                              (w.src_port == server && (w.dst_port == client || w.dst_port == server)));
}

// Draws from small pools, so that rules overlap and packets meet them.
class Draw {
 public:
  explicit Draw(u32 seed) : random_(seed) {}
  u32 below(u32 n) { return static_cast<u32>(random_() % n); }
  bool one_in(u32 n) { return below(n) == 0; }

  Words packet() {
    static constexpr u8 kProtocols[] = {6, 17, 1, 47, 58};
    Words w;
    w.v6 = one_in(3);
    w.src = host(w.v6), w.dst = host(w.v6);
    w.protocol = kProtocols[below(one_in(4) ? 5 : 2)];
    w.src_port = port(), w.dst_port = port();
    w.tcp_flags = static_cast<u8>(below(256));
    w.vlan = one_in(2) ? 0 : static_cast<u16>(1 + below(5));
    return w;
  }
  // Half the packets are drawn towards one rule, so that narrow rules are met too.
  Words packet_near(const policy::Match& m) {
    Words w = packet();
    if (m.family) w.v6 = *m.family == 6;
    if (!m.src.empty())
      w.v6 = m.src[0].family == 6;
    else if (!m.dst.empty())
      w.v6 = m.dst[0].family == 6;
    w.src = m.src.empty() ? host(w.v6) : inside(m.src[0], w.v6);
    w.dst = m.dst.empty() ? host(w.v6) : inside(m.dst[0], w.v6);
    if (!m.protocols.empty()) w.protocol = m.protocols[0];
    if (m.tcp_flags_mask)
      w.protocol = 6, w.tcp_flags = static_cast<u8>((w.tcp_flags & ~*m.tcp_flags_mask) | m.tcp_flags_value);
    if (!m.src_ports.empty()) w.src_port = m.src_ports[0].first;
    if (!m.dst_ports.empty()) w.dst_port = m.dst_ports[0].last;
    if (!m.vlans.empty()) w.vlan = one_in(2) ? m.vlans[0].first : m.vlans[0].last;
    return w;
  }
  policy::Match match(bool narrow) {
    policy::Match m;
    const bool v6 = one_in(3);
    const u32 named = narrow ? 2 : 4;  // the smaller, the more conditions
    if (one_in(named)) m.src.push_back(prefix(v6));
    if (one_in(named)) m.dst.push_back(prefix(v6));
    if (one_in(named)) m.src_ports.push_back(range());
    if (one_in(named)) m.dst_ports.push_back(range());
    if (one_in(named)) m.protocols.push_back(one_in(2) ? 6 : 17);
    if (one_in(8)) {
      m.protocols = {6};
      m.tcp_flags_mask = static_cast<u8>(1u << below(6) | 1u << below(6));
      m.tcp_flags_value = static_cast<u8>(below(256) & *m.tcp_flags_mask);
    }
    if (one_in(named * 2)) {
      const u16 first = static_cast<u16>(below(6));
      m.vlans.push_back({first, first == 0 ? first : static_cast<u16>(first + below(3))});
    }
    if (one_in(16) && m.src.empty() && m.dst.empty()) m.family = v6 ? 6 : 4;
    return m;
  }
  policy::Prefix prefix(bool v6) {
    policy::Prefix p;
    p.family = v6 ? 6 : 4;
    p.length = static_cast<u8>(v6 ? 8 + below(121) : 4 + below(29));
    cut(p, host(v6));
    return p;
  }

 private:
  static void cut(policy::Prefix& p, const std::array<u8, 16>& address) {
    for (u32 bit = 0; bit < p.length; ++bit)
      p.address[bit / 8] |= static_cast<u8>(address[bit / 8] & (0x80u >> (bit % 8)));
  }
  std::array<u8, 16> inside(const policy::Prefix& p, bool v6) {
    std::array<u8, 16> out = host(v6);
    for (u32 bit = 0; bit < p.length; ++bit) {
      const u8 mask = static_cast<u8>(0x80u >> (bit % 8));
      out[bit / 8] = static_cast<u8>((out[bit / 8] & ~mask) | (p.address[bit / 8] & mask));
    }
    return out;
  }
  std::array<u8, 16> host(bool v6) {
    std::array<u8, 16> out{};
    const u32 size = v6 ? 16 : 4;
    for (u32 i = 0; i < size; ++i) out[i] = static_cast<u8>(below(one_in(3) ? 256 : 4));
    out[0] = v6 ? 0x20 : 10;
    return out;
  }
  u16 port() {
    if (one_in(64)) return one_in(2) ? static_cast<u16>(66 + below(4)) : static_cast<u16>(545 + below(4));
    return static_cast<u16>(one_in(4) ? below(65536) : 1000 + below(64));
  }
  policy::PortRange range() {
    const u16 first = port();
    const u32 last = first + (one_in(2) ? 0 : below(one_in(4) ? 30000 : 16));
    return {first, static_cast<u16>(std::min(last, 65535u))};
  }
  std::mt19937 random_;
};

class RulesTest : public KernelTest {
 protected:
  static policy::Tables compiled(const policy::Policy& policy) {
    auto tables = policy::compile(policy);
    if (!tables) throw std::runtime_error(tables.error().at(0).sentence());
    return *tables;
  }
};

void expect_first_match(Program& program, const policy::Policy& policy, const Words& words, u32& matched) {
  const Frame frame = build(words);
  const auto first = std::find_if(policy.rules.begin(), policy.rules.end(),
                                  [&](const policy::Rule& rule) { return matches(rule.match, words); });
  const u32 index = static_cast<u32>(first - policy.rules.begin());
  const u64 before = first == policy.rules.end() ? 0 : program.rule_counter(index).packets;
  const Outcome outcome = program.run(frame);
  if (is_dhcp(words)) {
    ASSERT_EQ(outcome.reason, "pass_control");
    return;
  }
  if (first == policy.rules.end()) {
    ASSERT_EQ(outcome.reason, "pass_default");
    return;
  }
  ++matched;
  ASSERT_EQ(outcome.reason, first->action == policy::Rule::Action::drop ? "drop_rule" : "pass_rule")
      << "rule " << index;
  ASSERT_EQ(program.rule_counter(index).packets, before + 1) << "another rule than " << index << " decided";
}

TEST_F(RulesTest, FirstMatchOfManyRandomRules) {
  u32 matched = 0;
  for (u32 count : {1u, 63u, 65u, 700u, 4096u})
    for (bool narrow : {false, true}) {
      const u32 seed = std::random_device{}();
      SCOPED_TRACE(testing::Message() << count << (narrow ? " narrow" : " wide") << " rules, seed " << seed);
      Draw draw(seed);
      policy::Policy policy;
      while (policy.rules.size() < count) {
        policy::Rule rule;
        rule.match = draw.match(narrow);
        rule.action = draw.one_in(2) ? policy::Rule::Action::drop : policy::Rule::Action::pass;
        policy.rules.push_back(rule);
      }
      Program program;
      program.install(compiled(policy));
      for (int i = 0; i < 1500 && !HasFatalFailure(); ++i)
        expect_first_match(
            program, policy,
            i % 2 == 0 ? draw.packet() : draw.packet_near(policy.rules[draw.below(count)].match), matched);
      if (HasFatalFailure()) return;
    }
  // Of 15,000; a single policy's rules may well be hard to meet.
  EXPECT_GT(matched, 5000u) << "the packets hardly met the rules";
}

// Rules that all match up to the last: the one before the end decides, wherever it stands.
TEST_F(RulesTest, OrderHoldsAcrossWords) {
  for (u32 decisive : {0u, 1u, 63u, 64u, 100u, 127u, 128u, 2048u, 4094u, 4095u}) {
    policy::Policy policy;
    for (u32 i = 0; i < 4096; ++i) {
      policy::Rule rule;
      rule.match.protocols = {static_cast<u8>(i < decisive ? 6 : 17)};
      rule.match.dst_ports = {{0, static_cast<u16>(i < decisive ? 65535 : 60000 + i)}};
      rule.action = i == decisive ? policy::Rule::Action::drop : policy::Rule::Action::pass;
      policy.rules.push_back(rule);
    }
    Program program;
    program.install(compiled(policy));
    EXPECT_EQ(program.run(ethernet() + ipv4({}, udp(1, 53))).reason, "drop_rule");
    EXPECT_EQ(program.rule_counter(decisive).packets, 1u);
  }
}

// Nobody is in a list of nobody, whatever else a rule asks for.
TEST_F(RulesTest, AnEmptyListHoldsNoPacket) {
  for (const bool with_protocol : {false, true}) {
    policy::Policy policy;
    policy.lists["empty"] = {};
    policy::Rule& rule = policy.rules.emplace_back();
    rule.match.src_lists = {"empty"};
    if (with_protocol) rule.match.protocols = {17};
    rule.action = policy::Rule::Action::drop;
    Program program;
    program.install(compiled(policy));
    EXPECT_EQ(program.run(ethernet() + ipv4({}, udp(1, 53))).reason, "pass_default");
  }
}

// A large list against sets by prefix length: all kinds of trie words are walked, in several chunks of lines.
TEST_F(RulesTest, LargePrefixList) {
  const u32 seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  auto any_address = [&](bool v6) {
    std::array<u8, 16> out{};
    for (u32 i = 0; i < (v6 ? 16u : 4u); ++i) out[i] = static_cast<u8>(random());
    if (v6) out[0] = 0x20, out[1] = static_cast<u8>(out[1] & 3), out[2] = static_cast<u8>(out[2] & 15);
    return out;
  };
  policy::Policy policy;
  auto& list = policy.lists["bad"].prefixes;
  std::vector<std::array<u8, 16>> seen[2];
  for (int i = 0; i < 150'000; ++i) {
    const bool v6 = random() % 2 == 0;
    std::array<u8, 16> address = any_address(v6);
    // Clusters: deep subtrees, several prefixes in one 64-bit network.
    if (!seen[v6].empty() && random() % 2 == 0) {
      const u32 keep = static_cast<u32>(v6 ? 4 + random() % 12 : 1 + random() % 3);
      std::copy_n(seen[v6][random() % seen[v6].size()].begin(), keep, address.begin());
    }
    seen[v6].push_back(address);
    policy::Prefix p;
    p.family = v6 ? 6 : 4;
    p.length = static_cast<u8>(v6 ? 32 + random() % 97 : 12 + random() % 21);
    for (u32 bit = 0; bit < p.length; ++bit)
      p.address[bit / 8] |= static_cast<u8>(address[bit / 8] & (0x80u >> (bit % 8)));
    list.push_back(p);
  }
  std::unordered_set<std::string> by_length;
  for (const auto& p : list)
    by_length.insert(std::string(reinterpret_cast<const char*>(p.address), 16) + static_cast<char>(p.length) +
                     static_cast<char>(p.family));
  auto listed = [&](const std::array<u8, 16>& address, bool v6) {
    std::array<u8, 16> cut = address;
    for (int length = v6 ? 128 : 32; length >= 0; --length) {
      if (by_length.contains(std::string(reinterpret_cast<const char*>(cut.data()), 16) +
                             static_cast<char>(length) + static_cast<char>(v6 ? 6 : 4)))
        return true;
      if (length > 0)
        cut[static_cast<u32>(length - 1) / 8] &= static_cast<u8>(~(0x80u >> ((length - 1) % 8)));
    }
    return false;
  };
  policy::Rule rule;
  rule.match.src_lists = {"bad"};
  rule.action = policy::Rule::Action::drop;
  policy.rules.push_back(rule);
  Program program;
  const policy::Tables tables = compiled(policy);
  ASSERT_GT(tables.lines.size(), 2 * XG_CHUNK_LINES);
  program.install(tables);
  u32 hits = 0;
  for (int i = 0; i < 20'000; ++i) {
    Words w;
    w.v6 = random() % 2 == 0;
    w.src = any_address(w.v6);
    if (random() % 4 != 0) {  // near a listed one: the last bits differ, or none
      w.src = seen[w.v6][random() % seen[w.v6].size()];
      w.src[w.v6 ? 7 + random() % 9 : 2 + random() % 2] ^= static_cast<u8>(random() % 4 == 0 ? random() : 0);
    }
    const bool bad = listed(w.src, w.v6);
    hits += bad;
    ASSERT_EQ(program.run(build(w)).reason, bad ? "drop_rule" : "pass_default") << text_of(w.src, w.v6);
  }
  EXPECT_GT(hits, 2000u);
  EXPECT_LT(hits, 19'000u);
}

}  // namespace
}  // namespace xdpgpu::test
