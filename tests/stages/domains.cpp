// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::Action;
using gpu::DomainsSettings;
using gpu::PipelineSettings;
using Bytes = std::vector<u8>;

constexpr std::array<std::string_view, 14> kLabels{"com",    "org", "example", "ads",     "www",
                                                   "cdn",    "a",   "b",       "tracker", "_dmarc",
                                                   "xn--p1", "x-1", "0",       "mail"};
constexpr std::string_view kLongLabel =
    "abcdefghijklmnopqrstuvwxyz0123456789-_abcdefghijklmnopqrstuvwxy";  // 63

std::string random_name(Random& random) {
  std::string name(random.pick(kLabels));
  for (u32 labels = random.below(4); labels != 0; labels--)
    name = fmt::format("{}.{}", random.one_in(30) ? kLongLabel : random.pick(kLabels), name);
  return name;
}

gpu::DomainNames names_of(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) text += entry + "\n";
  return {std::make_shared<const std::string>(text), entries.size()};
}

DomainsSettings random_domains(Random& random, u32 names) {
  DomainsSettings settings;
  settings.lists.resize(random.between(1, 6));
  std::vector<std::vector<std::string>> entries(settings.lists.size());
  for (u32 i = 0; i < names; i++)
    entries[random.below(static_cast<u32>(entries.size()))].push_back(
        random.pick(std::array{"", "", ".", "*."}) + random_name(random));
  for (std::size_t i = 0; i < entries.size(); i++) {
    gpu::DomainList& list = settings.lists[i];
    list.name = std::to_string(i);
    list.names = names_of(entries[i]);
    list.action = random.pick(
        std::array{Action::next, Action::drop, Action::pass, Action::tx, Action::redirect, Action::refuse});
    list.target = random.below(XG_MAX_PORTS);
  }
  for (Action* const action : {&settings.otherwise, &settings.malformed, &settings.tcp})
    *action = random.pick(std::array{Action::next, Action::drop, Action::pass});
  return settings;
}

DomainsSettings simple(const std::vector<std::string>& entries) {
  DomainsSettings settings;
  settings.lists.push_back({"all", names_of(entries), Action::drop, 0});
  settings.otherwise = Action::pass;
  return settings;
}

std::vector<PipelineSettings> domains(Random& random) {
  // Labels at each count, and the longest name there is.
  std::string deep = "a";
  while (deep.size() + 2 <= 253) deep += ".a";
  DomainsSettings ports = simple({".com"});
  ports.ports = {{5353, 5353}, {0, 52}, {50, 60}};
  std::vector<PipelineSettings> pipelines{
      {"no name", {simple({})}},
      {"beneath, and the name itself", {simple({"*.com", "org", ".example.org"})}},
      {"the deepest", {simple({deep, "*." + deep.substr(4)})}},
      {"long labels", {simple({fmt::format("{0}.{0}.com", kLongLabel), fmt::format(".{}", kLongLabel)})}},
      {"other ports", {ports}},
      {"behind an acl", {mostly_next(random), random_domains(random, 20)}}};
  for (u32 names : {1u, 3u, 30u, 400u})
    pipelines.push_back({fmt::format("{} names", names), {random_domains(random, names)}});
  return pipelines;
}

void put(Bytes& to, std::initializer_list<u32> bytes) {
  for (const u32 byte : bytes) to.push_back(static_cast<u8>(byte));
}
void put16(Bytes& to, u32 value) { put(to, {value >> 8, value}); }

void put_label(Random& random, Bytes& to, std::string_view label) {
  put(to, {static_cast<u32>(label.size())});
  const bool upper = random.one_in(3);
  for (const char c : label)
    put(to, {static_cast<u32>(upper && c >= 'a' && c <= 'z' && random.one_in(2) ? c - 32 : c)});
}

// Most of them a name of the pool's; also the longest there are, one more, and what is none.
void put_name(Random& random, Bytes& to) {
  const u32 kind = random.below(24);
  if (kind == 0) {
    for (u32 labels = random.pick(std::array<u32, 4>{1, 126, 127, 128}); labels != 0; labels--)
      put_label(random, to, "a");
  } else if (kind == 1) {
    // 254, 255 or 256 bytes with the zero.
    for (u32 i = 0; i < 3; i++) put_label(random, to, kLongLabel);
    put_label(random, to, kLongLabel.substr(0, random.between(60, 62)));
  } else if (kind == 2) {
    put_label(random, to,
              random.pick(std::array<std::string_view, 3>{"example.org", "\xc4\xd6", "a\x7f@[`{"}));
    put_label(random, to, "com");
  } else if (kind == 3) {
    put(to, {random.between(64, 255), random.below(256)});  // compressed, or of no kind that there is
  } else if (kind != 4) {
    std::string name = random_name(random);
    for (std::size_t at = 0; at <= name.size();) {
      const std::size_t end = std::min(name.find('.', at), name.size());
      put_label(random, to, std::string_view(name).substr(at, end - at));
      at = end + 1;
    }
  }
  put(to, {0});
}

Bytes message(Random& random) {
  Bytes bytes{0, 1, 1, 0};
  if (random.one_in(2))
    for (u8& byte : bytes) byte = static_cast<u8>(random.bits());
  put16(bytes, random.one_in(12) ? random.pick(std::array<u32, 4>{0, 2, 256, 65535}) : 1);
  for (u32 i = 0; i < 3; i++) put16(bytes, random.below(3));
  put_name(random, bytes);
  put16(bytes, 1);
  put16(bytes, 1);
  for (u32 rest = random.one_in(2) ? 0 : random.below(60); rest != 0; rest--) put(bytes, {random.below(256)});
  if (random.one_in(12)) bytes.resize(random.below(static_cast<u32>(bytes.size()) + 1));
  if (random.one_in(12) && !bytes.empty())
    bytes[random.below(static_cast<u32>(bytes.size()))] = static_cast<u8>(random.bits());
  return bytes;
}

Bytes frame_of(Random& random) {
  const Bytes dns = message(random);
  const bool tcp = random.one_in(12), v4 = random.one_in(2), vlan = random.one_in(4);
  const u32 l4 = tcp ? 20 : 8, bytes = l4 + static_cast<u32>(dns.size());
  Bytes frame(12, 2);
  if (vlan) put(frame, {0x81, 0, 0, random.below(256)});
  if (v4) {
    put(frame, {8, 0, 0x45, 0});
    put16(frame, 20 + bytes);
    put(frame,
        {0, 1, random.one_in(16) ? 0x20u : 0u, 0, 64, tcp ? 6u : 17u, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2});
  } else {
    put(frame, {0x86, 0xdd, 0x60, 0, 0, 0});
    put16(frame, bytes);
    put(frame, {tcp ? 6u : 17u, 64});
    for (u32 i = 0; i < 32; i++) put(frame, {i < 2 ? 0xfdu : i % 16});
  }
  const u32 server = random.one_in(8) ? random.pick(std::array<u32, 5>{52, 54, 5353, 60, 0}) : 53;
  const u32 client = random.between(1024, 65535);
  const bool answer = random.one_in(2);
  put16(frame, answer ? server : client);
  put16(frame, answer ? client : server);
  if (tcp)
    put(frame, {0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0});
  else
    put16(frame, bytes), put16(frame, 0);
  frame.insert(frame.end(), dns.begin(), dns.end());
  return frame;
}

Traffic dns(Random& random, u32 packets, u32 pipelines) {
  return with_frames(random, packets, pipelines, frame_of);
}

SettingsCase settings() {
  return {
      "Domains",
      R"({"version": 1, "lists": {"file": {"type": "domain", "file": "names.txt", "subdomains": true, "description": "whose"},
            "here": {"type": "domain", "names": ["Example.COM", ".example.net", "*.example.org"], "description": "whose"},
            "addresses": ["192.0.2.0/24"]},
            "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "domains", "description": "what", "ports": [53, "5353-5355"], "default": "next",
             "malformed": "drop", "tcp": "drop",
             "lists": [{"list": "@file", "action": "drop"}, {"list": "@here", "action": "pass"}]}]}})",
      together({each("/pipelines/p/0/ports", {"53", R"("5353-5355")", R"([53, 853])"}),
                each("/pipelines/p/0/default", kStageDefaults),
                each("/pipelines/p/0/malformed", kStageDefaults), each("/pipelines/p/0/tcp", kStageDefaults),
                each("/lists/file/subdomains", {"true", "false"}),
                each("/pipelines/p/0/lists/0/action", {R"("next")", R"("drop")", R"("pass")", R"("tx")",
                                                       R"("refuse")", R"({"redirect": "IF1"})"})})};
}

}  // namespace

StageTests domains_tests() {
  return {.conformance = {{"domains", domains, {.verdicts = 10}, 10'000, dns}},
          .settings = {settings()},
          .files = {{"names.txt", "# whose\nads.example\n0.0.0.0 tracker.example\n.cdn.example ; all\n"}}};
}

}  // namespace xdpgpu::tests
