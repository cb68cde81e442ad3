// SPDX-License-Identifier: MIT
//
// List files as operators have them: plain ones, and rules of intrusion detection systems. The fast way of
// reading prefixes is held against inet_pton.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "userspace/policy/prefix_scan.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kPolicy = R"({"version": 1, "lists": {"l": {"file": "l"}}})";

Result<Policy> read(const std::string& list) { return parse(kPolicy, "p", read_files_of({{"l", list}})); }

std::vector<std::string> texts(const std::string& list) {
  const auto policy = read(list);
  std::vector<std::string> texts;
  if (!policy) return {policy.error().front().sentence()};
  for (const Prefix& prefix : policy->lists.at("l").prefixes) texts.push_back(write_prefix(prefix));
  return texts;
}

std::string problem(const std::string& list) {
  const auto policy = read(list);
  return policy ? "none" : policy.error().front().sentence();
}

TEST(ListFile, TakesPlainListsAsTheyAre) {
  EXPECT_THAT(texts("# a comment\r\n192.0.2.1\r\n\t10.0.0.0/8 ; SBL1\n;\n\n 2001:db8::/32# and\n::1"),
              ElementsAre("192.0.2.1", "10.0.0.0/8", "2001:db8::/32", "::1"));
  EXPECT_THAT(texts("\xef\xbb\xbf::ffff:192.0.2.1\n0.0.0.0/0\n::/0\n"),
              ElementsAre("::ffff:192.0.2.1", "0.0.0.0/0", "::/0"));
  EXPECT_THAT(texts(""), ElementsAre());
}

TEST(ListFile, TakesTheAddressesOfRules) {
  EXPECT_THAT(
      texts(
          "#alert ip [203.0.113.9] any -> $HOME_NET any (msg:\"disabled\";)\n"
          "alert ip [192.0.2.0/24,2001:db8::/48, 198.51.100.7] any -> $HOME_NET any (msg:\"a # b\"; sid:1;)\n"
          "  drop tcp $HOME_NET any -> 198.51.100.8 [80,443] (sid:2;)\n"
          "203.0.113.1\n"),
      ElementsAre("192.0.2.0/24", "2001:db8::/48", "198.51.100.7", "198.51.100.8", "203.0.113.1"));
}

TEST(ListFile, RefusesRulesThatAreNoLists) {
  EXPECT_THAT(problem("192.0.2.1\n alert tcp any any -> $HOME_NET 22 (sid:1;)\n"),
              HasSubstr("l:2:2: /lists/l/file: the rule names no addresses"));
  EXPECT_THAT(problem("alert ip [192.0.2.0/24,!192.0.2.7] any -> any any"),
              HasSubstr("\"!192.0.2.7\" in a rule"));
  EXPECT_THAT(problem("alert ip ![192.0.2.0/24] any -> any any"), HasSubstr("\"![192.0.2.0/24]\" in a rule"));
  EXPECT_THAT(problem("alert ip [192.0.2.0/24,$OTHERS] any -> any any"), HasSubstr("\"$OTHERS\" in a rule"));
  EXPECT_THAT(problem("alert ip [192.0.2.1/24] any -> any any"),
              HasSubstr("bits set behind its prefix length"));
  EXPECT_THAT(problem("alert ip [192.0.2.0/24 any -> any any"), HasSubstr("is no rule like"));
  EXPECT_THAT(problem("alert ip [192.0.2.0/24]"), HasSubstr("is no rule like"));
  EXPECT_THAT(problem("alert"), HasSubstr("is no address or prefix"));
  EXPECT_THAT(problem("alert ip [] any -> any any"), HasSubstr("is no address or prefix"));
}

// What inet_pton and a decimal length say.
bool right(const std::string& text, Prefix& prefix) {
  const auto slash = text.find('/');
  const std::string address = text.substr(0, slash);
  prefix = {};
  prefix.family = address.find(':') == std::string::npos ? 4 : 6;
  if (inet_pton(prefix.family == 4 ? AF_INET : AF_INET6, address.c_str(), prefix.address) != 1) return false;
  const u32 most = prefix.family == 4 ? 32 : 128;
  u32 length = most;
  if (slash != std::string::npos) {
    const std::string digits = text.substr(slash + 1);
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
      return false;
    length = static_cast<u32>(std::stoul(digits));
    if (length > most) return false;
  }
  prefix.length = static_cast<u8>(length);
  for (u32 bit = length; bit < most; ++bit)
    if ((prefix.address[bit / 8] >> (7 - bit % 8) & 1) != 0) return false;
  return true;
}

// An IPv4 address inside of an IPv6 one; a length of more than three digits.
bool unusual(const std::string& text) {
  const auto slash = text.find('/');
  return (text.find(':') != std::string::npos && text.find('.') != std::string::npos) ||
         (slash != std::string::npos && text.size() - slash > 4);
}

void expect_right(const std::string& text) {
  Prefix wanted, found;
  const bool good = right(text, wanted);
  const char* const end = text.data() + text.size();
  const bool taken = scan_prefix(text.data(), end, found) == end;
  ASSERT_EQ(taken, good && !unusual(text)) << text;
  if (taken) {
    ASSERT_EQ(found, wanted) << text;
  }
  ASSERT_EQ(try_prefix(text).has_value(), good) << text;
}

TEST(ScanPrefix, AgreesWithInetPtonAtTheEdges) {
  for (const char* text : {"0.0.0.0",
                           "255.255.255.255",
                           "256.0.0.0",
                           "01.2.3.4",
                           "1.2.3",
                           "1.2.3.4.5",
                           "1.2.3.4.",
                           ".1.2.3.4",
                           "1..2.3",
                           "1.2.3.0000",
                           "1.2.3.4/32",
                           "1.2.3.4/33",
                           "1.2.3.4/",
                           "1.2.3.4/a",
                           "0.0.0.0/0",
                           "1.2.3.4/31",
                           "1.2.3.4/30",
                           "::",
                           "::/0",
                           "::1",
                           "1::",
                           ":1",
                           "1:",
                           ":",
                           ":::",
                           "1:::2",
                           "1::2::3",
                           "1:2:3:4:5:6:7:8",
                           "1:2:3:4:5:6:7",
                           "1:2:3:4:5:6:7:8:9",
                           "1:2:3:4:5:6:7::",
                           "::2:3:4:5:6:7:8",
                           "1:2:3:4:5:6:7:8::",
                           "::1:2:3:4:5:6:7:8",
                           "1:2:3:4::5:6:7:8",
                           "12345::",
                           "ABCD:ef01::/32",
                           "abcd::/15",
                           "abcd::/16",
                           "::ffff:1.2.3.4",
                           "1:2:3:4:5:6:7:8/128",
                           "1:2:3:4:5:6:7:8/129",
                           "g::",
                           "00001::",
                           "fe80::1%eth0",
                           "",
                           "/",
                           "1",
                           "-1.2.3.4"})
    expect_right(text);
}

TEST(ScanPrefix, AgreesWithInetPtonOnMutatedTexts) {
  std::mt19937 random(20261122);
  const auto below = [&](u32 count) { return std::uniform_int_distribution<u32>(0, count - 1)(random); };
  u32 good = 0;
  for (u32 i = 0; i < 200'000; ++i) {
    Prefix prefix;
    prefix.family = below(2) != 0 ? 4 : 6;
    prefix.length = static_cast<u8>(below(prefix.family == 4 ? 33 : 129));
    for (u32 bit = 0; bit < prefix.length; ++bit)
      if (below(3) == 0)
        prefix.address[bit / 8] = static_cast<u8>(prefix.address[bit / 8] | 0x80u >> bit % 8);
    std::string text = write_prefix(prefix);
    for (u32 change = below(3); change != 0 && !text.empty(); --change) {
      constexpr std::string_view kLetters = "0123456789abcdefABCDEF.:/ ";
      const u32 at = below(static_cast<u32>(text.size()));
      const char letter = kLetters[below(static_cast<u32>(kLetters.size()))];
      if (below(2) != 0)
        text[at] = letter;
      else if (below(2) != 0)
        text.insert(at, 1, letter);
      else
        text.erase(at, 1);
    }
    ASSERT_NO_FATAL_FAILURE(expect_right(text));
    good += right(text, prefix) ? 1 : 0;
  }
  EXPECT_GT(good, 60'000u);
  EXPECT_LT(good, 150'000u);
}

TEST(ScanPrefix, StopsWhereThePrefixEnds) {
  const std::string text = "10.0.0.0/8,2001:db8::/32]";
  const char* const end = text.data() + text.size();
  Prefix prefix;
  const char* const comma = scan_prefix(text.data(), end, prefix);
  ASSERT_EQ(comma, text.data() + 10);
  ASSERT_EQ(scan_prefix(comma + 1, end, prefix), end - 1);
  EXPECT_EQ(write_prefix(prefix), "2001:db8::/32");
  for (std::size_t length = 0; length < text.size(); ++length) {
    const std::string cut = text.substr(0, length);  // reads nothing behind it (sanitizers)
    scan_prefix(cut.data(), cut.data() + cut.size(), prefix);
  }
}

}  // namespace
}  // namespace xdpgpu::policy
