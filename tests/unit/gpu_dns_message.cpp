// SPDX-License-Identifier: MIT
//
// What is read of DNS messages, at its edges. tests/unit/compiler_signatures.cpp compares it with Suricata's.
#include "gpu/reference/dns_message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "gpu/signatures.hpp"

namespace xdpgpu::gpu::reference {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kQuery = 0x0100, kAnswer = 0x8180, kBody = 12;
const std::string kTypeAndClass = "\0\1\0\1"s;

std::string number(std::size_t value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }
std::string header(std::size_t flags, std::size_t questions, std::size_t answers = 0) {
  return number(7) + number(flags) + number(questions) + number(answers) + number(0) + number(0);
}
std::string label(std::size_t bytes, char letter = 'a') {
  return static_cast<char>(bytes) + std::string(bytes, letter);
}
std::string pointer(std::size_t to) { return number(0xc000 + to); }

DnsMessage read(const std::string& message) {
  // Of its own size, so that what is read beyond it is seen.
  const std::vector<u8> bytes(message.begin(), message.end());
  return DnsMessage(bytes);
}
std::vector<std::string> names_of(const std::string& name, const std::string& behind = {}) {
  return read(header(kQuery, 1) + name + kTypeAndClass + behind).names;
}

TEST(DnsMessages, HaveNames) {
  EXPECT_THAT(names_of("\3www\7Example\3com\0"s), ElementsAre("www.Example.com"));
  EXPECT_THAT(names_of("\3a.b\1\0\0"s), ElementsAre("a.b.\0"s));
  EXPECT_THAT(names_of("\0"s), IsEmpty());
  const std::string one = "\3one\0"s + kTypeAndClass, two = "\3two\0"s + kTypeAndClass;
  EXPECT_THAT(read(header(kQuery, 2) + one + two).names, ElementsAre("one", "two"));
  EXPECT_THAT(read(header(kQuery, 3) + one + "\0"s + kTypeAndClass + two).names, ElementsAre("one"));
  EXPECT_THAT(read(header(kAnswer, 1) + one).names, IsEmpty());
  EXPECT_TRUE(read(header(kAnswer, 1) + one).is_read);
}

TEST(DnsMessages, HaveNamesThatPointToOthers) {
  const std::size_t behind = kBody + 2 + 4;
  EXPECT_THAT(names_of(pointer(behind), "\1a\1b\0"s), ElementsAre("a.b"));
  EXPECT_THAT(names_of("\1x"s + pointer(behind + 4), "\1a\1b\0"s), ElementsAre("x.b"));
  EXPECT_THAT(names_of(pointer(behind), pointer(behind + 2) + "\1b\0"s), ElementsAre("b"));
  EXPECT_THAT(names_of(pointer(behind), pointer(behind)), IsEmpty());  // to itself, behind another
  EXPECT_FALSE(read(header(kQuery, 1) + pointer(kBody) + kTypeAndClass).is_dns);
  EXPECT_FALSE(read(header(kQuery, 1) + pointer(behind + 1) + kTypeAndClass).is_dns);  // behind the end
  EXPECT_TRUE(read(header(kQuery, 1) + pointer(behind) + kTypeAndClass).is_read);      // the end
  // In a circle, until so many are followed.
  const auto names = names_of("\1a"s + pointer(kBody));
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names.front().size(), 2u * (signatures::kMostLabels / 2 + 1) - 1);
}

TEST(DnsMessages, HaveNamesOfAtMostSoManyBytes) {
  const auto most = signatures::kMostName;
  std::string name;
  for (std::size_t i = 0; i < most / 50; i++) name += label(49);
  EXPECT_EQ(names_of(name + label(most % 50) + "\0"s).front().size(), most);
  EXPECT_EQ(names_of(name + label(most % 50 + 1) + "\0"s).front().size(), most);
  EXPECT_EQ(names_of(name + label(63) + label(63, 'b') + "\0"s).front().find('b'), std::string::npos);
  std::string labels;
  for (u32 i = 0; i < signatures::kMostLabels; i++) labels += label(1);
  EXPECT_EQ(names_of(labels + "\0"s).front().size(), 2 * signatures::kMostLabels - 1);
  EXPECT_FALSE(read(header(kQuery, 1) + labels + label(1) + "\0"s + kTypeAndClass).is_dns);
}

// What is cut is DNS all the same, what contradicts itself is none.
TEST(DnsMessages, AreWholeOrNotRead) {
  const std::string whole = header(kQuery, 1) + "\3www\0"s + kTypeAndClass;
  for (std::size_t bytes = 0; bytes < whole.size(); bytes++) {
    const auto cut = read(whole.substr(0, bytes));
    EXPECT_EQ(cut.is_dns, bytes >= kBody + 2) << bytes;
    EXPECT_FALSE(cut.is_read) << bytes;
  }
  EXPECT_TRUE(read(whole).is_read);
  EXPECT_FALSE(read(header(kQuery, 1) + "\x40www\0"s + kTypeAndClass).is_dns);
  EXPECT_FALSE(read(header(kQuery, 1, 5) + "\1a\0"s + kTypeAndClass).is_dns);  // more than it has room for
  EXPECT_EQ(read(header(0x2000, 0)).operation, 4);
}

TEST(DnsMessages, AreReadWithTheirRecords) {
  const auto is_read = [](u16 type, const std::string& data) {
    return read(header(kAnswer, 0, 1) + "\0"s + number(type) + "\0\1\0\0\0\0"s + number(data.size()) + data)
        .is_read;
  };
  constexpr u16 kA = 1, kCname = 5, kSoa = 6, kMx = 15, kTxt = 16, kSrv = 33, kSshfp = 44;
  EXPECT_TRUE(is_read(kA, "any"));
  EXPECT_FALSE(is_read(kA, ""));
  EXPECT_TRUE(is_read(kCname, "\1a\0more"s));
  EXPECT_TRUE(is_read(kCname, "\1a"));
  EXPECT_FALSE(is_read(kCname, "\2a"));
  EXPECT_FALSE(is_read(kCname, ""));
  EXPECT_TRUE(is_read(kSoa, "\0\0"s + std::string(20, '.')));
  EXPECT_FALSE(is_read(kSoa, "\0\0"s + std::string(19, '.')));
  EXPECT_TRUE(is_read(kMx, "\0\1"s));
  EXPECT_FALSE(is_read(kMx, "\0"s));
  EXPECT_TRUE(is_read(kTxt, "\1a\11"));
  EXPECT_FALSE(is_read(kTxt, "\2a"));
  EXPECT_TRUE(is_read(kSrv, "123456"));
  EXPECT_FALSE(is_read(kSrv, "12345"));
  EXPECT_TRUE(is_read(kSshfp, "12"));
  EXPECT_FALSE(is_read(kSshfp, "1"));
}

TEST(DnsMessages, OfAnyBytesAreBounded) {
  std::mt19937 random(3);
  u32 all_read = 0;
  for (u32 i = 0; i < 20000; i++) {
    std::string message(random() % 200, '\0');
    for (char& byte : message) {
      constexpr char kSome[] = {0, 1, 2, 3, 12, 14, 20, '\xc0', '\x40', 5, 16, 6};
      byte = random() % 8 == 0 ? static_cast<char>(random()) : kSome[random() % std::size(kSome)];
    }
    if (message.size() >= kBody)
      message.replace(0, kBody, header(random() % 2 ? kQuery : kAnswer, random() % 3, random() % 3));
    const auto seen = read(message);
    all_read += seen.is_read;
    for (const auto& name : seen.names) EXPECT_LE(name.size(), signatures::kMostName);
    EXPECT_LE(seen.names.size(), signatures::kMostQuestions);
  }
  EXPECT_GT(all_read, 1000u);
}

}  // namespace
}  // namespace xdpgpu::gpu::reference
