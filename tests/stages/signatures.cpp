// SPDX-License-Identifier: MIT
//
// Random rules in random packets: tests/unit/compiler_signatures.cpp holds the reference against Suricata's
// own answers.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"
#include "tests/stages/random_regex.hpp"
#include "tests/stages/stream_traffic.hpp"

namespace xdpgpu::tests {
namespace {

namespace sig = gpu::signatures;
using gpu::PipelineSettings;
using gpu::SignaturesSettings;
using Bytes = std::vector<u8>;

// Of few letters, so that contents stand in payloads, and near each other.
constexpr std::array kLetters{'a', 'b', 'A', 'B', '0', '1', ' ', '\0', '\xff'};
char letter(Random& random) { return random.pick(kLetters); }
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
  switch (random.below(10)) {
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
    case 5:
      return random_regex(random, {kLetters.data(), kLetters.size()});
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

// ---- rules for DNS ---------------------------------------------------------------------------------------

// Of few letters and with dots, so that they stand in names.
std::string name_letters(Random& random, u32 count) {
  std::string text;
  while (text.size() < count) text.push_back(random.pick(std::array{'a', 'b', 'A', 'B', '0', '.', '.'}));
  return text;
}

sig::Step random_name_step(Random& random, bool first) {
  for (;;) {
    u32 variables = 0;
    sig::Step step = random_step(random, first, variables);
    if (variables != 0) continue;  // a name has none
    if (auto* const content = std::get_if<sig::Content>(&step)) {
      content->bytes = name_letters(random, static_cast<u32>(content->bytes.size()));
      if (content->nocase)
        for (char& c : content->bytes)
          if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
      content->ends = random.one_in(4);
    }
    return step;
  }
}

// Names of one or two short labels, which messages often have: with a dot in front, if asked for, or with
// other letters.
sig::SharedStrings random_strings(Random& random, bool dot) {
  const auto made = std::make_shared<sig::StringSet>();
  made->name = "names";
  const u32 count = random.one_in(6) ? random.below(2) : random.below(120);
  for (u32 i = 0; i < count; i++) {
    std::string name = dot != random.one_in(8) ? "." : "";
    name += letters(random, random.between(1, 2));
    if (random.one_in(3)) name += "." + letters(random, random.one_in(16) ? 60 : random.between(1, 2));
    made->add(name);
  }
  return {made};
}

sig::NameIs random_name_is(Random& random) {
  sig::NameIs name;
  name.dot_prefix = random.one_in(2);
  for (u32 i = random.one_in(3) ? random.between(1, 2) : 0; i != 0; i--)
    name.sets.push_back({random_strings(random, name.dot_prefix), random.one_in(3)});
  for (u32 i = random.one_in(3) ? random.between(1, 2) : 0; i != 0; i--) {
    const u32 first = random.below(12);
    name.sizes.push_back({{first, first + random.below(20)}, random.one_in(4)});
  }
  for (u32 i = random.below(4); i != 0; i--)
    name.steps.push_back(random_name_step(random, name.steps.empty()));
  return name;
}

// Has the rule found by a content of these, as likely as not.
void find_by_names(Random& random, const std::vector<sig::NameIs>& names, sig::Signature& rule) {
  for (u32 n = 0; n < names.size(); n++)
    for (u32 i = 0; i < names[n].steps.size(); i++) {
      const auto* const content = std::get_if<sig::Content>(&names[n].steps[i]);
      if (content == nullptr || (content->negated && !random.one_in(4)) || random.one_in(3)) continue;
      const auto size = static_cast<u32>(content->bytes.size());
      const u32 first = random.one_in(4) ? random.below(size) : 0;
      rule.fast_pattern = sig::FastPattern{i, first, random.between(1, size - first), n + 1};
    }
}

sig::Signature random_dns_rule(Random& random, u32 sid) {
  sig::Signature rule = random_rule(random, sid);
  rule.header.protocols.set(17);
  rule.header.v4 = rule.header.v6 = true;
  rule.header.src_ports = rule.header.dst_ports = std::nullopt;
  if (!random.one_in(4)) rule.header.src = rule.header.dst = any_address();
  if (!random.one_in(8)) rule.conditions.clear();
  if (!random.one_in(4)) rule.payload.clear(), rule.fast_pattern.reset();
  sig::Dns dns;
  dns.queries = !random.one_in(4);
  dns.answers = !dns.queries || random.one_in(2);
  for (u32 i = random.one_in(3) ? random.between(1, 2) : 0; i != 0; i--)
    dns.operations.push_back({static_cast<u8>(random.below(4)), random.one_in(2)});
  for (u32 i = random.one_in(5) ? random.between(2, 3) : random.one_in(5) ? 0 : 1; i != 0; i--)
    dns.names.push_back(random_name_is(random));
  find_by_names(random, dns.names, rule);
  rule.dns = std::move(dns);
  return rule;
}

SignaturesSettings random_signatures(Random& random, u32 count,
                                     sig::Signature (*make)(Random&, u32) = random_rule) {
  std::vector<sig::Signature> rules;
  for (u32 i = 0; i < count; i++) rules.push_back(make(random, i + 1));
  std::stable_sort(rules.begin(), rules.end(),
                   [&](const auto& a, const auto& b) { return turn_of(a.action) < turn_of(b.action); });
  // A rule that alerts may stand in front of others, as one does of which a host has more to say.
  const auto behind_passes =
      std::find_if(rules.begin(), rules.end(), [](const auto& rule) { return turn_of(rule.action) != 0; });
  for (auto it = behind_passes; it != rules.end(); ++it)
    if (it->action == sig::Action::alert && random.one_in(4)) std::rotate(behind_passes, it, it + 1);
  SignaturesSettings settings;
  settings.rules.signatures = std::make_shared<const std::vector<sig::Signature>>(std::move(rules));
  settings.work = random.pick(std::array<u32, 3>{256, 384, gpu::kMostSoftwareWork});
  settings.limit = random.pick(std::array{gpu::Action::next, gpu::Action::drop, gpu::Action::pass});
  return settings;
}

void put(Bytes& to, std::initializer_list<u32> bytes) {
  for (const u32 byte : bytes) to.push_back(static_cast<u8>(byte));
}
void put16(Bytes& to, u32 value) { put(to, {value >> 8, value}); }

// ---- DNS messages ----------------------------------------------------------------------------------------

void put_labels(Random& random, u32 count, Bytes& to) {
  for (; count != 0; count--) {
    const u32 size = random.one_in(24) ? random.between(40, 63) : random.between(1, 4);
    put(to, {size});
    for (u32 i = 0; i < size; i++) put(to, {static_cast<u8>(letter(random))});
  }
}

// Ends as names do, or with a pointer to somewhere.
void put_name(Random& random, Bytes& to) {
  put_labels(random, random.one_in(10) ? 0 : random.between(1, random.one_in(12) ? 12 : 4), to);
  if (random.one_in(12)) return;
  if (!random.one_in(5)) return put(to, {0});
  put16(to, 0xc000 + (random.one_in(2) ? 12 : random.below(static_cast<u32>(to.size()) + 2)));
}

void put_record(Random& random, Bytes& to) {
  put_name(random, to);
  const u32 type = random.pick(std::array<u32, 10>{1, 2, 5, 6, 12, 15, 16, 28, 33, 44});
  put16(to, type);
  put(to, {0, 1, 0, 0, 0, 60});
  const std::size_t length = to.size();
  put16(to, 0);
  const std::size_t begin = to.size();
  for (u32 i = type == 15 ? 2 : type == 33 ? 6 : type == 1 ? 4 : random.below(3); i != 0; i--)
    put(to, {random.below(4)});
  if (type != 1 && type != 28)
    for (u32 i = type == 6 ? 2 : 1; i != 0; i--) put_name(random, to);
  if (type == 6) to.resize(to.size() + (random.one_in(8) ? 18 : 20));
  const auto bytes = static_cast<u32>(to.size() - begin);
  to[length + 1] = static_cast<u8>(random.one_in(20) ? bytes + 1 : bytes);
}

// Many questions or records, with names of a chain that is as long as one may be.
void put_chain(Random& random, Bytes& to, u32 names, bool are_records) {
  const auto behind = static_cast<u32>(to.size()) + names * (are_records ? 13u : 6u) + random.below(2);
  for (u32 i = 0; i < names; i++) {
    put16(to, 0xc000 + behind);
    put(to, {0, 1, 0, 1});
    if (are_records) put(to, {0, 0, 0, 0, 0, 1, 0});
  }
  for (u32 i = 0; i < 256; i++) put(to, {1, 'a'});
  put(to, {0});
}

Bytes dns_message(Random& random) {
  const bool is_answer = random.one_in(3);
  const u32 questions = random.one_in(6) ? random.below(7) : 1;
  const u32 answers = is_answer || random.one_in(10) ? random.below(4) : 0;
  const u32 authorities = is_answer ? random.below(2) : 0;
  Bytes bytes;
  put16(bytes, random.below(65536));
  put16(bytes, (is_answer ? 0x8000u : 0u) | (random.one_in(3) ? random.below(4) << 11 : 0u) | 0x100u);
  if (random.one_in(40)) {
    const u32 names = random.between(1, 12);
    // Behind the root's name none is kept.
    const u32 root = random.below(2);
    for (const u32 count : {root + (is_answer ? 0 : names), is_answer ? names : 0, 0u, 0u})
      put16(bytes, count);
    if (root != 0) put(bytes, {0, 0, 1, 0, 1});
    put_chain(random, bytes, names, is_answer);
    return bytes;
  }
  for (const u32 count : {questions, answers, authorities, 0u}) put16(bytes, count);
  for (u32 i = 0; i < questions; i++) {
    put_name(random, bytes);
    put(bytes, {0, random.between(1, 2), 0, 1});
  }
  for (u32 i = 0; i < answers + authorities; i++) put_record(random, bytes);
  if (random.one_in(12)) bytes.resize(random.below(static_cast<u32>(bytes.size())));
  if (random.one_in(4)) put_labels(random, random.below(4), bytes);
  for (u32 i = random.one_in(6) ? random.between(1, 3) : 0; i != 0 && !bytes.empty(); i--)
    bytes[random.below(static_cast<u32>(bytes.size()))] = static_cast<u8>(random.below(256));
  if (bytes.size() > 800) bytes.resize(800);
  return bytes;
}

Bytes dns_datagram(Random& random) {
  const Bytes message = dns_message(random);
  Bytes bytes;
  const u32 port = random.one_in(16) ? 54 : 53;
  const bool is_from = random.one_in(3);
  put16(bytes, is_from ? port : random.below(80)), put16(bytes, is_from ? random.below(80) : port);
  put16(bytes, 8 + static_cast<u32>(message.size()) - (random.one_in(16) && !message.empty() ? 1 : 0));
  put16(bytes, 0);
  bytes.insert(bytes.end(), message.begin(), message.end());
  return bytes;
}

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

// inside: what stands behind the IP header, of that protocol.
Bytes in_a_frame(Random& random, bool v4, u32 protocol, const Bytes& inside) {
  const auto bytes = static_cast<u32>(inside.size());
  Bytes frame(12, 2);
  if (random.one_in(6)) put(frame, {0x81, 0, 0, random.below(8)});
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

Bytes frame_of(Random& random) {
  const bool v4 = random.one_in(2);
  const u32 protocol = random.pick(std::array<u32, 7>{6, 6, 17, v4 ? 1u : 58u, 132, 50, 47});
  return in_a_frame(random, v4, protocol, transport(random, protocol));
}
Bytes dns_frame_of(Random& random) {
  if (random.one_in(8)) return frame_of(random);
  const bool v4 = random.one_in(2);
  return in_a_frame(random, v4, 17, dns_datagram(random));
}

Traffic dns_messages(Random& random, u32 packets, u32 pipelines) {
  return with_frames(random, packets, pipelines, dns_frame_of);
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

std::vector<PipelineSettings> dns_signatures(Random& random) {
  const auto either = [](Random& one, u32 sid) {
    return one.one_in(3) ? random_rule(one, sid) : random_dns_rule(one, sid);
  };
  std::vector<PipelineSettings> settings{
      {"inside of tunnels", {random_signatures(random, 20, random_dns_rule)}, true},
      {"beside others", {random_signatures(random, 40, either)}}};
  for (const u32 count : {1u, 2u, 3u, 10u, 40u, 200u})
    settings.push_back({fmt::format("{} rules", count), {random_signatures(random, count, random_dns_rule)}});
  return settings;
}

// ---- rules for streams -----------------------------------------------------------------------------------

// From one up to another one, of which the last is the body.
sig::HttpPart random_part(Random& random, u32 first, u32 end) {
  return sig::HttpPart(random.one_in(3) ? end - 1 : random.between(first, end - 1));
}

sig::Signature random_stream_rule(Random& random, u32 sid) {
  for (;;) {
    sig::Signature rule = random_rule(random, sid);
    if (rule.action != sig::Action::alert && !random.one_in(4)) rule.action = sig::Action::alert;
    rule.header.protocols = std::bitset<256>().set(6);
    rule.header.v4 = rule.header.v6 = true;
    if (!random.one_in(4)) rule.header.src = rule.header.dst = any_address();
    if (!random.one_in(6)) rule.conditions.clear();
    using Way = sig::ConnectionIs::Way;
    if (random.one_in(2))
      rule.conditions.push_back(
          sig::ConnectionIs{random.pick(std::array{Way::any, Way::to_server, Way::to_client}),
                            random.one_in(2) ? std::nullopt : std::optional(!random.one_in(4))});
    if (random.one_in(4)) return rule;
    rule.where = random.one_in(3) ? sig::Where::both : sig::Where::stream;
    if (random.one_in(4)) {
      rule.where = sig::Where::stream;
      rule.payload.clear();
      rule.fast_pattern.reset();
      rule.hello.emplace();
      for (u32 i = random.one_in(5) ? 2 : 1; i != 0; i--) rule.hello->names.push_back(random_name_is(random));
      find_by_names(random, rule.hello->names, rule);
    }
    if (!rule.hello && random.one_in(3)) {
      rule.where = sig::Where::stream;
      rule.payload.clear();
      rule.fast_pattern.reset();
      rule.http.emplace();
      const bool answers = random.one_in(2);
      for (u32 i = random.one_in(3) ? random.between(2, 4) : 1; i != 0; i--) {
        sig::NameIs part = random_name_is(random);
        part.part = answers ? random_part(random, sig::kRequestParts, sig::kHttpParts)
                            : random_part(random, 0, sig::kRequestParts);
        part.dot_prefix = part.dot_prefix && part.part == sig::HttpPart::host;
        rule.http->parts.push_back(std::move(part));
      }
      find_by_names(random, rule.http->parts, rule);
    }
    if (!sig::beyond_bounds(rule)) return rule;
  }
}

SignaturesSettings random_streams(Random& random, u32 count, u32 widest) {
  SignaturesSettings settings = random_signatures(random, count, random_stream_rule);
  settings.streams = random.pick(std::array<u32, 3>{8, 16, 64});
  settings.inspect.window = random.pick(std::array<u32, 3>{256, 320, widest});
  settings.inspect.depth = random.pick(std::array<u32, 4>{256, 3000, 1u << 20, 1u << 20});
  settings.inspect.midstream = random.one_in(3);
  settings.inspect.idle_ms = random.pick(std::array<u32, 2>{20'000, 3'600'000});
  settings.on_gap = random.pick(std::array{gpu::Action::next, gpu::Action::drop, gpu::Action::pass});
  settings.on_encoded = random.pick(std::array{gpu::Action::next, gpu::Action::drop, gpu::Action::pass});
  settings.evict = random.pick(std::array{gpu::TableSettings::Evict::lru, gpu::TableSettings::Evict::refuse,
                                          gpu::TableSettings::Evict::fifo});
  return settings;
}

// widest: bytes of a window; counts: of rules, for a pipeline each.
std::vector<PipelineSettings> pipelines_of_streams(u32 widest, const std::array<u32, 3>& counts) {
  using Evict = gpu::TableSettings::Evict;
  Random random(test_seed());
  std::vector<PipelineSettings> settings;
  const auto add = [&](std::string name, u32 streams, Evict evict, gpu::Action on_gap) {
    SignaturesSettings one = random_streams(random, 30, widest);
    one.streams = streams;
    one.evict = evict;
    one.on_gap = on_gap;
    // Ten connections at a time come to eight places, and none of them is idle for so long.
    one.inspect.idle_ms = 3'600'000;
    one.work = 256;
    settings.push_back({std::move(name), {one}});
  };
  add("few", 8, Evict::refuse, gpu::Action::next);
  add("some", 8, Evict::lru, gpu::Action::drop);
  gpu::ConntrackSettings connections;
  connections.loose = true;
  settings.push_back({"behind connections", {connections, random_streams(random, 20, widest)}});
  settings.push_back(
      {"between others", {mostly_next(random), random_streams(random, 10, widest), gpu::L2fwdSettings{}}});
  settings.push_back({"inside of tunnels", {random_streams(random, 20, widest)}, true});
  for (const u32 count : counts)
    settings.push_back({fmt::format("{} rules", count), {random_streams(random, count, widest)}});
  return settings;
}
std::vector<PipelineSettings> stream_signatures() { return pipelines_of_streams(512, {1, 40, 200}); }
// Of which software Vulkan inspects each packet to its end.
std::vector<PipelineSettings> fewer_stream_signatures() { return pipelines_of_streams(384, {1, 30, 60}); }

SettingsCase settings() {
  return {
      "Signatures",
      R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "signatures", "description": "what", "rules": ["ids-*.rules", "more.rules"],
             "vars": {"HOME_NET": ["10.0.0.0/8", "2001:db8::/32"], "HTTP_PORTS": [80, 8080],
                      "EXTERNAL_NET": "!$HOME_NET", "SSH_PORTS": 22, "SERVERS": "[192.0.2.1,192.0.2.2]"},
             "classification": "classification.config", "disable": "disable.conf", "enable": "enable.conf",
             "modify": "modify.conf", "drop": "drop.conf", "threshold": "threshold.config", "work": 1024, "limit": "drop", "streams": 64, "on_gap": "next", "on_encoded": "next",
             "on_unsupported": {"redirect": "IF1"}, "evict": "lru", "inspect": {"depth": "64KB", "window": 256, "midstream": false, "idle": "30s", "http": true, "answers": true}}]}})",
      together(
          {each("/pipelines/p/0/rules", {R"(["more.rules"])", R"(["*.rules"])", R"(["ids-[ab].rules"])"}),
           each("/pipelines/p/0/vars", {R"({"HTTP_PORTS": "1024:"})", R"({"HTTP_PORTS": [80, "8000:8080"]})",
                                        R"({"HOME_NET": "any", "EXTERNAL_NET": "any"})"}),
           SettingsValues{{"/pipelines/p/0/vars/SSH_PORTS", R"("22")", "22"},
                          {"/pipelines/p/0/vars/SSH_PORTS", "[22]", "22"}},
           each("/pipelines/p/0/work", {"256", "2048"}), each("/pipelines/p/0/limit", kStageDefaults),
           each("/pipelines/p/0/streams", {"0", "1"}), each("/pipelines/p/0/on_gap", kStageDefaults),
           each("/pipelines/p/0/on_encoded", kStageDefaults), each("/pipelines/p/0/evict", kEvict),
           each("/pipelines/p/0/on_unsupported", {R"("next")"}),
           each("/pipelines/p/0/inspect/midstream", {"true", "false"}),
           each("/pipelines/p/0/inspect/http", {"true", "false"}),
           each("/pipelines/p/0/inspect/answers", {"true", "false"}),
           SettingsValues{{"/pipelines/p/0/inspect/depth", "65536", R"("64KB")"},
                          {"/pipelines/p/0/inspect/depth", R"("1MiB")", R"("1MB")"},
                          {"/pipelines/p/0/inspect/window", R"("1024")", R"("1KB")"},
                          {"/pipelines/p/0/inspect/window", "320"}}})};
}

}  // namespace

StageTests signatures_tests() {
  return {
      .conformance = {{"signatures", signatures, {.verdicts = 6, .alerts = 100}, 3'000, payloads},
                      {"dns_signatures", dns_signatures, {.verdicts = 6, .alerts = 50}, 2'000, dns_messages}},
      .tables = {{"streams", stream_signatures, 5, true, 60, streams, true},
                 {"short_streams", fewer_stream_signatures, 5, true, 60, short_streams}},
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
          {"drop.conf", "re:msg:.a\n"},
          {"threshold.config",
           "threshold gen_id 1, sig_id 1, type limit, track by_src, count 1, seconds 60\n"
           "suppress gen_id 1, sig_id 4, track by_src, ip $HOME_NET\n"}}};
}

}  // namespace xdpgpu::tests
