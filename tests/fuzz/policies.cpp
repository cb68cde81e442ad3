// SPDX-License-Identifier: MIT
//
// Any text as a policy, and, behind a line "%%", as every file that it names. What is refused is refused with
// sentences; what is accepted says the same when it is written out and read again, and its tables find the
// rules that its rules, asked one after the other, find. What only compiling it for kernel and devices
// refuses has its place in the text, too.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>

#include "tests/fuzz/target.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/policy/classify.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::fuzz {
namespace {

constexpr std::string_view kFiles = "\n%%\n";
// match_linear takes its time.
constexpr std::size_t kMostPackets = 24;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// An address of the prefix: its first one, or its last one.
void put_address(const policy::Prefix& prefix, bool last, u8 (&into)[16]) {
  std::copy_n(prefix.address, 16, into);
  for (u32 bit = prefix.length; last && bit < (prefix.family == 4 ? 32u : 128u); ++bit)
    into[bit / 8] = static_cast<u8>(into[bit / 8] | 0x80u >> (bit % 8));
}

// Packets at the edges of the rule.
void add_packets(const policy::Match& match, std::vector<policy::PacketFacts>& packets) {
  for (const bool last : {false, true}) {
    policy::PacketFacts facts;
    facts.family = match.family.value_or(4);
    if (!match.dst.empty()) facts.family = match.dst.front().family;
    if (!match.src.empty()) facts.family = match.src.front().family;
    if (!match.src.empty()) put_address(match.src.front(), last, facts.src);
    if (!match.dst.empty() && match.dst.front().family == facts.family)
      put_address(match.dst.front(), last, facts.dst);
    const u8 protocol = match.protocols.empty() ? 6 : match.protocols.front();
    if (!match.src_ports.empty())
      facts.src_port = last ? match.src_ports.front().last : match.src_ports.front().first;
    if (!match.dst_ports.empty())
      facts.dst_port = last ? match.dst_ports.front().last : match.dst_ports.front().first;
    if (!match.vlans.empty() && match.vlans.front().first != 0)
      facts.vlan = last ? match.vlans.front().last : match.vlans.front().first;
    facts.l4 = policy::l4_of(facts.family, protocol, false, match.tcp_flags_value, XG_CONTROL_NONE, 0);
    packets.push_back(facts);
  }
}

void same_rules(Input input, const policy::Policy& policy, const policy::Tables& tables) {
  std::vector<policy::PacketFacts> packets;
  for (const auto& rule : policy.rules) {
    if (packets.size() >= kMostPackets) break;
    add_packets(rule.match, packets);
  }
  for (const auto& match : policy.management) {
    if (packets.size() >= 2 * kMostPackets) break;
    add_packets(match, packets);
  }
  for (const auto& packet : packets)
    if (policy::classify(tables, packet) != policy::match_linear(policy, packet))
      fail(input, "the tables find other rules than the rules themselves");
}

// With its pipelines, as `policy check` compiles it.
void compiles_or_says_where(Input input, compiler::PolicySource source) {
  const std::string file = source.file + ":";
  const auto compiled = compiler::compile_policy_anywhere(std::move(source), "(ingress)");
  if (compiled) return;
  if (compiled.error().diagnostics.empty()) fail(input, "compiling refuses it without a reason");
  for (const std::string& sentence : compiled.error().diagnostics)
    if (!sentence.starts_with(file) || sentence.find(": /") == std::string::npos ||
        std::isdigit(static_cast<u8>(sentence[file.size()])) == 0)
      fail(input, fmt::format("compiling refuses it and does not say where: {}", sentence));
}

}  // namespace

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add = [&](const std::string& text) { all.emplace_back(text.begin(), text.end()); };
  const std::string lists =
      "\n%%\n192.0.2.0/24\n2001:db8::/32 # a comment\n198.51.100.7\n"
      "alert ip [192.0.2.0/24,198.51.100.7] any -> $HOME_NET any (msg:\"x\"; sid:1;)\n";
  const std::string routes = "\n%%\n192.0.2.0/24 a\n2001:db8::/32 pass\n";
  for (const auto& entry : std::filesystem::directory_iterator(XDPGPU_SOURCE_DIR "/config/examples"))
    if (entry.path().extension() == ".json") {
      add(read(entry.path()) + lists);
      add(read(entry.path()) + routes);
    }
  return all;
}

}  // namespace xdpgpu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
  using namespace xdpgpu;
  using namespace xdpgpu::fuzz;
  const Input input(data, size);
  std::string_view text(reinterpret_cast<const char*>(data), size), files;
  if (const auto at = text.find(kFiles); at != std::string_view::npos) {
    files = text.substr(at + kFiles.size());
    text = text.substr(0, at);
  }
  const auto content = std::make_shared<const std::string>(files);
  compiler::PolicySource source{"policy.json", std::string(text), {}};
  const policy::FileReader reader(
      [&](const std::string& path) {
        source.files[path] = *content;
        return policy::FileText(content);
      },
      [](const std::string& pattern) {
        return std::vector<std::string>{pattern.substr(0, pattern.rfind('/') + 1) + "of-a-pattern"};
      });

  const auto policy = policy::parse(text, source.file, reader);
  if (!policy) {
    if (policy.error().empty()) fail(input, "it is refused without a reason");
    for (const auto& d : policy.error())
      if (d.message.empty() || d.sentence().empty()) fail(input, "a reason is empty");
    return 0;
  }
  const std::string written = policy::to_json(*policy);
  const auto again = policy::parse(written, "written.json", reader);
  if (!again)
    fail(input, fmt::format("what it is written out as is refused: {}\n{}", again.error().at(0).sentence(),
                            written));
  if (const std::string twice = policy::to_json(*again); twice != written)
    fail(input, fmt::format("written out and read again it says something else:\n{}\n{}", written, twice));
  const auto tables = policy::compile(*policy);
  if (tables) same_rules(input, *policy, *tables);
  if (!tables && tables.error().empty()) fail(input, "its tables are refused without a reason");
  compiles_or_says_where(input, std::move(source));
  return 0;
}
