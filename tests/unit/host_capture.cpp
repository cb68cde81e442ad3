// SPDX-License-Identifier: MIT
//
// Captures: the samples, made-up link types, and files that are damaged or no captures at all.
#include "userspace/host/capture.hpp"

#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace xdpgpu::host {
namespace {

namespace fs = std::filesystem;

const std::string kData = XDPGPU_SOURCE_DIR "/tests/data/pcap/";

struct Packet {
  u64 time_ns = 0;
  std::vector<u8> bytes;
  u32 original = 0;  // 0: as long as bytes
};

// A capture file of its own, removed with the test.
class HostCapture : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::temp_directory_path() / ("xdpgpu-capture-" + std::to_string(getpid()) + ".pcap");
  }
  void TearDown() override { fs::remove(path_); }

  void write(int link_type, const std::vector<Packet>& packets) const {
    pcap_t* pcap = pcap_open_dead_with_tstamp_precision(link_type, 65535, PCAP_TSTAMP_PRECISION_NANO);
    pcap_dumper_t* dumper = pcap_dump_open(pcap, path_.c_str());
    ASSERT_NE(dumper, nullptr);
    for (const auto& packet : packets) {
      pcap_pkthdr header{};
      header.ts.tv_sec = static_cast<time_t>(packet.time_ns / 1'000'000'000);
      header.ts.tv_usec = static_cast<suseconds_t>(packet.time_ns % 1'000'000'000);
      header.caplen = static_cast<u32>(packet.bytes.size());
      header.len = packet.original ? packet.original : header.caplen;
      pcap_dump(reinterpret_cast<u_char*>(dumper), &header, packet.bytes.data());
    }
    pcap_dump_close(dumper);
    pcap_close(pcap);
  }
  void write_bytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string refusal() const {
    const auto capture = Capture::open(path_);
    EXPECT_FALSE(capture);
    return capture ? "" : capture.error();
  }

  std::string path_;
};

std::vector<u8> with_header(std::vector<u8> header, std::vector<u8> rest) {
  header.insert(header.end(), rest.begin(), rest.end());
  return header;
}
const std::vector<u8> kIpv4{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
const std::vector<u8> kIpv6{0x60, 0, 0, 0, 0, 0, 59, 64};

TEST_F(HostCapture, SamplesAreReadToTheEnd) {
  const std::pair<const char*, u64> samples[] = {{"geneve.pcap", 10}, {"http.pcap", 14}, {"vlan.pcap", 2}};
  for (const auto& [file, expected] : samples) {
    const auto capture = Capture::open(kData + file);
    ASSERT_TRUE(capture) << capture.error();
    u64 packets = 0;
    u64 last = 0;
    while (const auto packet = (*capture)->next()) {
      packets++;
      EXPECT_GE(packet->time_ns, last);
      EXPECT_GE(packet->frame.size(), 14u);
      last = packet->time_ns;
    }
    EXPECT_EQ((*capture)->problem(), "");
    EXPECT_EQ(packets, expected) << file;
  }
}

// Seconds have 32 bits, which libpcap takes for signed ones.
TEST_F(HostCapture, TimesGoOnUntilTheYear2106) {
  const auto packet = with_header(std::vector<u8>(14), kIpv4);
  const std::vector<u64> times{1'700'000'000'000'000'000, 2'147'483'647'000'000'000,
                               2'147'483'648'000'000'001, 4'294'967'295'999'999'999};
  std::vector<Packet> packets;
  packets.reserve(times.size());
  for (const u64 time : times) packets.push_back({time, packet});
  write(DLT_EN10MB, packets);
  const auto capture = Capture::open(path_);
  ASSERT_TRUE(capture) << capture.error();
  for (const u64 time : times) {
    const auto read = (*capture)->next();
    ASSERT_TRUE(read) << (*capture)->problem();
    EXPECT_EQ(read->time_ns, time);
  }
  EXPECT_EQ((*capture)->clamped(), 0u);
}

// A pcapng says its times as it likes: what is later than that counts as the latest.
TEST_F(HostCapture, LaterTimesThanAnyAreTheLatest) {
  const auto word = [](u32 value) {
    return std::string{static_cast<char>(value), static_cast<char>(value >> 8),
                       static_cast<char>(value >> 16), static_cast<char>(value >> 24)};
  };
  std::string file =
      word(0x0a0d0d0a) + word(28) + word(0x1a2b3c4d) + word(1) + word(~0u) + word(~0u) + word(28);
  // Link type Ethernet; times in seconds (if_tsresol 0).
  file += word(1) + word(32) + word(1) + word(65535) + word(0x00010009) + word(0) + word(0) + word(32);
  const std::string frame(60, '\0');
  for (const u32 high : {0u, 0x7fffffffu, 0xffffffffu})
    file += word(6) + word(92) + word(0) + word(high) + word(1000) + word(60) + word(60) + frame + word(92);
  write_bytes(file);
  const auto capture = Capture::open(path_);
  ASSERT_TRUE(capture) << capture.error();
  u64 last = 0;
  for (u32 i = 0; i < 3; ++i) {
    const auto read = (*capture)->next();
    ASSERT_TRUE(read) << (*capture)->problem();
    EXPECT_EQ(read->time_ns / 1'000'000'000, i == 0 ? 1000u : 4'294'967'295u) << i;
    EXPECT_GE(read->time_ns, last);
    last = read->time_ns;
  }
}

TEST_F(HostCapture, OtherLinkTypesGetEthernetHeaders) {
  struct Case {
    int link_type;
    std::vector<u8> packet;
    u16 ethertype;
    std::size_t payload;
  };
  std::vector<u8> sll(16), sll2(20);
  sll[14] = 0x08;
  sll2[0] = 0x86;
  sll2[1] = 0xdd;
  const Case cases[] = {{DLT_RAW, kIpv4, 0x0800, kIpv4.size()},
                        {DLT_RAW, kIpv6, 0x86dd, kIpv6.size()},
                        {DLT_LINUX_SLL, with_header(sll, kIpv4), 0x0800, kIpv4.size()},
                        {DLT_LINUX_SLL2, with_header(sll2, kIpv6), 0x86dd, kIpv6.size()},
                        {DLT_NULL, with_header({2, 0, 0, 0}, kIpv4), 0x0800, kIpv4.size()},
                        {DLT_NULL, with_header({30, 0, 0, 0}, kIpv6), 0x86dd, kIpv6.size()},
                        {DLT_LOOP, with_header({0, 0, 0, 2}, kIpv4), 0x0800, kIpv4.size()},
                        // Cut short, or no IP: a header of its own and nothing read that is not there.
                        {DLT_RAW, {}, 0, 0},
                        {DLT_LINUX_SLL, {1, 2, 3}, 0, 0},
                        {DLT_NULL, {2, 0, 0, 0, 0xff}, 0, 1}};
  for (const auto& c : cases) {
    write(c.link_type, {{1, c.packet}});
    const auto capture = Capture::open(path_);
    ASSERT_TRUE(capture) << capture.error();
    const auto packet = (*capture)->next();
    ASSERT_TRUE(packet);
    ASSERT_EQ(packet->frame.size(), 14 + c.payload) << c.link_type;
    EXPECT_EQ(packet->frame[12] << 8 | packet->frame[13], c.ethertype) << c.link_type;
    EXPECT_NE((*capture)->link_type(), "Ethernet");
  }
}

TEST_F(HostCapture, UnknownLinkTypesAreRefusedByName) {
  write(DLT_IEEE802_11, {});
  const auto sentence = refusal();
  EXPECT_NE(sentence.find("IEEE802_11"), std::string::npos) << sentence;
}

TEST_F(HostCapture, TimeNeverRunsBackwards) {
  const std::vector<u8> frame(60);
  write(DLT_EN10MB,
        {{5'000'000'001, frame}, {4'000'000'000, frame}, {4'999'999'999, frame}, {6'000'000'000, frame}});
  const auto capture = Capture::open(path_);
  ASSERT_TRUE(capture);
  std::vector<u64> times;
  while (const auto packet = (*capture)->next()) times.push_back(packet->time_ns);
  EXPECT_EQ(times, (std::vector<u64>{5'000'000'001, 5'000'000'001, 5'000'000'001, 6'000'000'000}));
  EXPECT_EQ((*capture)->clamped(), 2u);
}

TEST_F(HostCapture, CutPacketsSaySo) {
  write(DLT_EN10MB, {{1, std::vector<u8>(60), 1500}, {2, std::vector<u8>(60)}});
  const auto capture = Capture::open(path_);
  ASSERT_TRUE(capture);
  const auto cut = (*capture)->next();
  ASSERT_TRUE(cut);
  EXPECT_TRUE(cut->cut);
  EXPECT_EQ(cut->original_length, 1500u);
  EXPECT_FALSE((*capture)->next()->cut);
}

TEST_F(HostCapture, ATruncatedFileGivesWhatIsThereAndSaysSo) {
  write(DLT_EN10MB, {{1, std::vector<u8>(60)}, {2, std::vector<u8>(60)}});
  const auto whole = fs::file_size(path_);
  for (const u64 missing : {1, 59, 61, 75}) {
    write(DLT_EN10MB, {{1, std::vector<u8>(60)}, {2, std::vector<u8>(60)}});
    fs::resize_file(path_, whole - missing);
    const auto capture = Capture::open(path_);
    ASSERT_TRUE(capture);
    EXPECT_TRUE((*capture)->next());
    EXPECT_FALSE((*capture)->next());
    EXPECT_NE((*capture)->problem().find("packet 1"), std::string::npos) << (*capture)->problem();
  }
}

TEST_F(HostCapture, WhatIsNoCaptureIsRefused) {
  write_bytes("");
  EXPECT_NE(refusal().find("empty"), std::string::npos);
  write_bytes("this is a text file and no capture at all, whatever its name says\n");
  EXPECT_NE(refusal().find("pcap"), std::string::npos);
  write_bytes("\xd4\xc3\xb2\xa1");  // the magic and no more
  EXPECT_FALSE(refusal().empty());
  fs::remove(path_);
  EXPECT_NE(refusal().find("No such file"), std::string::npos);
  EXPECT_FALSE(Capture::open("/dev/null"));
  EXPECT_FALSE(Capture::open("/tmp"));
}

}  // namespace
}  // namespace xdpgpu::host
