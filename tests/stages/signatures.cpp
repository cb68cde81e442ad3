// SPDX-License-Identifier: MIT
//
// Random rules in random packets: tests/unit/compiler_signatures.cpp holds the reference against Suricata's
// own answers.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

namespace sig = gpu::signatures;
using gpu::PipelineSettings;
using gpu::SignaturesSettings;
using Bytes = std::vector<u8>;

// Of few letters, so that contents stand in payloads, and near each other.
char letter(Random& random) {
  return random.pick(std::array{'a', 'b', 'A', 'B', '0', '1', ' ', '\0', '\xff'});
}
std::string letters(Random& random, u32 count) {
  std::string text;
  while (text.size() < count) text.push_back(letter(random));
  return text;
}

sig::Ranges<u16> random_ports(Random& random) {
  const auto first = static_cast<u16>(random.between(0, 40));
  sig::Ranges<u16> ranges{{first, static_cast<u16>(first + random.between(0, 30))}};
  if (random.one_in(2)) ranges.push_back({static_cast<u16>(ranges[0].last + 2), 65535});
  return ranges;
}

sig::Addresses any_address() {
  sig::Address v4{}, v6{};
  std::fill_n(v4.begin(), 4, u8{0xff});
  v6.fill(0xff);
  return {{{sig::Address{}, v4}}, {{sig::Address{}, v6}}};
}
sig::Addresses random_addresses(Random& random) {
  if (random.one_in(2)) return any_address();
  sig::Addresses addresses;
  for (u32 i = 0; i < random.below(4); i++) {
    sig::Address first{192, 0, 2, static_cast<u8>(i * 3)}, last = first;
    last[3] = static_cast<u8>(last[3] + random.below(2));
    addresses.v4.push_back({first, last});
  }
  for (u32 i = 0; i < random.below(4); i++) {
    sig::Address first{0xfd, 0xfd}, last{};
    first[15] = static_cast<u8>(i * 3);
    last = first;
    last[15] = static_cast<u8>(last[15] + random.below(2));
    addresses.v6.push_back({first, last});
  }
  return addresses;
}

sig::Condition random_condition(Random& random) {
  switch (random.below(8)) {
    case 0:
      return sig::TcpFlagsAre{
          random.pick(std::array{sig::Bits::exactly, sig::Bits::all, sig::Bits::any, sig::Bits::not_all}),
          static_cast<u8>(random.below(64)),
          static_cast<u8>(random.one_in(2) ? 0xff : 0x3f),
          {static_cast<u8>(random.one_in(3) ? 7 : 0), static_cast<u8>(random.one_in(8) ? 0xe0 : 0)}};
    case 1:
      return sig::FragmentBitsAre{
          random.pick(std::array{sig::Bits::exactly, sig::Bits::all, sig::Bits::any, sig::Bits::not_all}),
          static_cast<u8>(random.below(8))};
    case 2:
      return sig::IpOptionIs{random.pick(std::array<u8, 9>{0, 1, 7, 131, 137, 68, 130, 133, 136})};
    case 3:
      return sig::SameAddresses{};
    default: {
      const auto field = static_cast<sig::Field>(random.below(12));
      const u32 first = random.one_in(2) ? random.below(64) : static_cast<u32>(random.bits());
      return sig::FieldIs{field,
                          {first, random.one_in(3) ? first : first + random.below(1u << random.below(32))},
                          random.one_in(3)};
    }
  }
}

sig::Amount random_amount(Random& random, u32 least, u32 most, u32& variables) {
  if (variables != 0 && random.one_in(4)) return {0, static_cast<u8>(random.below(variables))};
  return {static_cast<std::int64_t>(random.between(least, most)), {}};
}

sig::Number random_number(Random& random, u32& variables) {
  sig::Number number;
  number.bytes = static_cast<u8>(random.between(random.one_in(8) ? 0 : 1, random.one_in(4) ? 8 : 4));
  number.offset = random_amount(random, 0, 12, variables);
  if (!number.offset.variable && random.one_in(6)) number.offset.constant = -number.offset.constant;
  number.relative = random.one_in(2);
  number.little_endian = random.one_in(2);
  if (random.one_in(3)) {
    number.base = random.pick(std::array<u8, 4>{0, 8, 10, 16});
    number.bytes = static_cast<u8>(random.between(1, random.one_in(3) ? 23 : 4));
  }
  return number;
}

sig::Mask random_mask(Random& random) {
  if (!random.one_in(4)) return std::nullopt;
  return 1 + random.below(0xffff);
}

sig::Content random_content(Random& random, bool first, u32& variables) {
  sig::Content content;
  content.bytes = letters(random, random.one_in(6) ? random.between(5, 12) : random.between(1, 4));
  content.nocase = random.one_in(3);
  if (content.nocase)
    for (char& c : content.bytes)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  content.negated = random.one_in(7);
  content.ends = random.one_in(12);
  if (!first && random.one_in(2)) {
    if (random.one_in(2)) {
      content.distance = random_amount(random, 0, 6, variables);
      if (!content.distance->variable && random.one_in(4))
        content.distance->constant = -content.distance->constant;
    }
    if (!content.distance || random.one_in(2)) content.within = random_amount(random, 1, 16, variables);
    if (random.one_in(8)) content.depth = random_amount(random, 1, 30, variables);
    if (random.one_in(8)) content.offset = random_amount(random, 0, 8, variables);
  } else {
    if (random.one_in(3)) content.offset = random_amount(random, 0, 20, variables);
    if (random.one_in(3)) content.depth = random_amount(random, 1, 60, variables);
  }
  content.tried_again = random.one_in(2);
  return content;
}

sig::Step random_step(Random& random, bool first, u32& variables) {
  switch (random.below(9)) {
    case 0: {
      sig::ByteTest test;
      test.op = static_cast<sig::ByteTest::Op>(random.below(7));
      test.negated = random.one_in(3);
      test.number = random_number(random, variables);
      test.mask = random_mask(random);
      test.value = random_amount(random, 0, random.one_in(2) ? 64 : 0x41424344, variables);
      return test;
    }
    case 1: {
      sig::ByteJump jump;
      jump.from = static_cast<sig::ByteJump::From>(random.below(3));
      jump.number = random_number(random, variables);
      jump.multiplier = random.between(1, 3);
      jump.align = random.one_in(3);
      jump.post_offset = static_cast<std::int32_t>(random.below(40)) - 20 - (random.one_in(3) ? 48 : 0);
      return jump;
    }
    case 2: {
      sig::ByteExtract extract;
      extract.number = random_number(random, variables);
      extract.multiplier = random.between(1, 3);
      extract.align = random.pick(std::array<u32, 3>{1, 2, 4});
      if (variables < sig::kMostVariables) variables++;
      extract.variable = static_cast<u8>(variables - 1);
      return extract;
    }
    case 3: {
      sig::ByteMath math;
      math.op = static_cast<sig::ByteMath::Op>(random.below(6));
      math.number = random_number(random, variables);
      math.mask = random_mask(random);
      math.right = random_amount(random, 0, 5, variables);
      if (variables < sig::kMostVariables) variables++;
      math.variable = static_cast<u8>(variables - 1);
      return math;
    }
    case 4:
      return sig::DataAt{random_amount(random, 0, 60, variables), random.one_in(2), random.one_in(2)};
    default:
      return random_content(random, first, variables);
  }
}

sig::Signature random_rule(Random& random, u32 sid) {
  sig::Signature rule;
  rule.sid = sid;
  rule.action =
      random.pick(std::array{sig::Action::alert, sig::Action::alert, sig::Action::alert, sig::Action::alert,
                             sig::Action::alert, sig::Action::drop, sig::Action::reject});
  if (random.one_in(150)) rule.action = sig::Action::pass;
  if (random.one_in(2))
    rule.header.protocols.set();
  else
    for (const u32 protocol : {1, 6, 17, 44, 50, 58, 132}) rule.header.protocols[protocol] = random.one_in(2);
  rule.header.v4 = !random.one_in(4);
  rule.header.v6 = !rule.header.v4 || !random.one_in(4);
  rule.header.src = random_addresses(random);
  rule.header.dst = random_addresses(random);
  if (random.one_in(4)) rule.header.src_ports = random_ports(random);
  if (random.one_in(4)) rule.header.dst_ports = random_ports(random);
  rule.header.both_ways = random.one_in(6);
  for (u32 i = random.one_in(3) ? random.below(3) : 0; i != 0; i--)
    rule.conditions.push_back(random_condition(random));
  u32 variables = 0;
  for (u32 i = random.below(6); i != 0; i--)
    rule.payload.push_back(random_step(random, rule.payload.empty(), variables));
  for (u32 i = 0; i < rule.payload.size(); i++) {
    const auto* const content = std::get_if<sig::Content>(&rule.payload[i]);
    if (content == nullptr || (content->negated && !random.one_in(4))) continue;
    const auto size = static_cast<u32>(content->bytes.size());
    const u32 first = random.one_in(4) ? random.below(size) : 0;
    rule.fast_pattern = sig::FastPattern{i, first, random.between(1, size - first)};
    if (random.one_in(3)) break;
  }
  // What holds for each packet leaves nothing to the others.
  if (rule.payload.empty() && rule.conditions.empty()) rule.conditions.push_back(random_condition(random));
  return rule;
}

SignaturesSettings random_signatures(Random& random, u32 count) {
  std::vector<sig::Signature> rules;
  for (u32 i = 0; i < count; i++) rules.push_back(random_rule(random, i + 1));
  const auto turn = [](const sig::Signature& rule) {
    return rule.action == sig::Action::pass ? 0 : rule.action == sig::Action::alert ? 2 : 1;
  };
  std::stable_sort(rules.begin(), rules.end(),
                   [&](const auto& a, const auto& b) { return turn(a) < turn(b); });
  SignaturesSettings settings;
  settings.rules.signatures = std::make_shared<const std::vector<sig::Signature>>(std::move(rules));
  settings.work = random.pick(std::array<u32, 3>{256, 512, gpu::kMostWork});
  settings.limit = random.pick(std::array{gpu::Action::next, gpu::Action::drop, gpu::Action::pass});
  return settings;
}

void put(Bytes& to, std::initializer_list<u32> bytes) {
  for (const u32 byte : bytes) to.push_back(static_cast<u8>(byte));
}
void put16(Bytes& to, u32 value) { put(to, {value >> 8, value}); }

Bytes transport(Random& random, u32 protocol) {
  Bytes bytes;
  const std::string payload = letters(random, random.one_in(3) ? random.below(200) : random.below(40));
  const auto size = static_cast<u32>(payload.size());
  switch (protocol) {
    case 6:
      put16(bytes, random.below(80)), put16(bytes, random.below(80));
      for (u32 i = 0; i < 8; i++) put(bytes, {random.one_in(2) ? 0 : random.below(256)});
      put(bytes, {random.one_in(8) ? 0x60u : 0x50u, random.below(256), random.below(4), random.below(256), 0,
                  0, 0, 0});
      break;
    case 17:
      put16(bytes, random.below(80)), put16(bytes, random.below(80));
      put16(bytes, random.one_in(8) ? random.between(8, 8 + size) : 8 + size), put16(bytes, 0);
      break;
    case 132:
      put16(bytes, random.below(80)), put16(bytes, random.below(80));
      put(bytes, {0, 0, 0, 0, 0, 0, 0, 0});
      break;
    case 1:
      put(bytes, {random.below(20), random.below(4), 0, 0, random.below(4), random.below(4), random.below(4),
                  random.below(4)});
      break;
    case 58:
      put(bytes, {random.one_in(2) ? random.below(6) : random.between(126, 140), random.below(3), 0, 0,
                  random.below(4), random.below(4), random.below(4), random.below(4)});
      break;
    default:
      break;
  }
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

Bytes frame_of(Random& random) {
  const bool v4 = random.one_in(2);
  const u32 protocol = random.pick(std::array<u32, 7>{6, 6, 17, v4 ? 1u : 58u, 132, 50, 47});
  const Bytes inside = transport(random, protocol);
  const auto bytes = static_cast<u32>(inside.size());
  Bytes frame(12, 2);
  if (v4) {
    Bytes options;
    if (random.one_in(4))
      options = random.pick(std::array<Bytes, 6>{Bytes{7, 7, 4, 0, 0, 0, 0, 0},
                                                 {68, 8, 5, 0, 1, 1, 1, 1},
                                                 {130, 4, 0, 0},
                                                 {1, 1, 136, 4, 0, 0, 0, 0},
                                                 {131, 3, 4, 0},
                                                 {9, 1, 0, 0}});
    const auto header = static_cast<u32>(20 + options.size());
    put(frame, {8, 0, 0x40 | header / 4, random.below(4)});
    put16(frame, header + bytes);
    put(frame, {0, random.below(64), random.one_in(10) ? random.below(8) << 5 : 0u,
                random.one_in(20) ? random.below(4) : 0u, random.below(64), protocol, 0, 0});
    put(frame, {192, 0, 2, random.below(12), 192, 0, 2, random.below(12)});
    frame.insert(frame.end(), options.begin(), options.end());
  } else {
    const u32 extension = random.one_in(5) ? random.pick(std::array<u32, 3>{0, 44, 60}) : 255;
    put(frame, {0x86, 0xdd, 0x60, 0, 0, 0});
    put16(frame, bytes + (extension != 255 ? 8 : 0));
    put(frame, {extension != 255 ? extension : protocol, random.below(64)});
    for (u32 i = 0; i < 32; i++) put(frame, {i % 16 < 2 ? 0xfdu : i % 16 == 15 ? random.below(12) : 0});
    if (extension == 44)
      put(frame, {protocol, 0, 0, random.one_in(2) ? random.below(32) : 0, 0, 0, 0, 1});
    else if (extension != 255)
      put(frame, {protocol, 0, 1, 4, 0, 0, 0, 0});
  }
  frame.insert(frame.end(), inside.begin(), inside.end());
  while (frame.size() < 60 && random.one_in(2)) frame.push_back('a');  // an Ethernet frame's padding
  return frame;
}

Traffic payloads(Random& random, u32 packets, u32 pipelines) {
  return with_frames(random, packets, pipelines, frame_of);
}

std::vector<PipelineSettings> signatures(Random& random) {
  std::vector<PipelineSettings> settings{
      {"none", {SignaturesSettings{}}},
      {"between others", {mostly_next(random), random_signatures(random, 10), gpu::L2fwdSettings{}}},
      {"inside of tunnels", {random_signatures(random, 20)}, true}};
  for (const u32 count : {1u, 3u, 10u, 40u, 200u})
    settings.push_back({fmt::format("{} rules", count), {random_signatures(random, count)}});
  return settings;
}

SettingsCase settings() {
  return {
      "Signatures",
      R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "signatures", "description": "what", "rules": ["ids-*.rules", "more.rules"],
             "vars": {"HOME_NET": ["10.0.0.0/8", "2001:db8::/32"], "HTTP_PORTS": [80, 8080],
                      "EXTERNAL_NET": "!$HOME_NET", "SSH_PORTS": 22, "SERVERS": "[192.0.2.1,192.0.2.2]"},
             "classification": "classification.config", "disable": "disable.conf", "enable": "enable.conf",
             "modify": "modify.conf", "drop": "drop.conf", "work": 1024, "limit": "drop"}]}})",
      together(
          {each("/pipelines/p/0/rules", {R"(["more.rules"])", R"(["*.rules"])", R"(["ids-[ab].rules"])"}),
           each("/pipelines/p/0/vars", {R"({"HTTP_PORTS": "1024:"})", R"({"HTTP_PORTS": [80, "8000:8080"]})",
                                        R"({"HOME_NET": "any", "EXTERNAL_NET": "any"})"}),
           SettingsValues{{"/pipelines/p/0/vars/SSH_PORTS", R"("22")", "22"},
                          {"/pipelines/p/0/vars/SSH_PORTS", "[22]", "22"}},
           each("/pipelines/p/0/work", {"256", "2048"}), each("/pipelines/p/0/limit", kStageDefaults)})};
}

}  // namespace

StageTests signatures_tests() {
  return {
      .conformance = {{"signatures", signatures, {.verdicts = 6, .alerts = 100}, 3'000, payloads}},
      .settings = {settings()},
      .files = {
          {"ids-a.rules",
           "# whose\nalert udp any any -> $HOME_NET $HTTP_PORTS (msg:\"a\"; content:\"abc\"; classtype:misc; "
           "sid:1; rev:2;)\n#alert ip any any -> any any (sid:2;)\n"},
          {"ids-b.rules", "drop udp any any -> any any (msg:\"b\"; content:\"bad\"; sid:3;)\n"},
          {"more.rules",
           "alert icmp $EXTERNAL_NET any -> any any (msg:\"c\"; itype:8; sid:4;)\n"
           "alert udp any any -> any $SSH_PORTS (msg:\"d\"; content:\"x\"; sid:5;)\n"},
          {"classification.config", "config classification: misc,Something else,2\n"},
          {"disable.conf", "5\n"},
          {"enable.conf", "1:2\n"},
          {"modify.conf", "3 \"bad\" \"worse\"\n"},
          {"drop.conf", "re:msg:.a\n"}}};
}

}  // namespace xdpgpu::tests
