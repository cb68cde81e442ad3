// SPDX-License-Identifier: MIT
#include "tests/kernel/captures.hpp"

#include <pcap/pcap.h>

#include <cstdlib>
#include <stdexcept>

namespace xdpgpu::test {

std::filesystem::path capture_directory() {
  const char* directory = std::getenv("XDPGPU_TEST_CAPTURES");
  return directory != nullptr ? directory : XDPGPU_SOURCE_DIR "/tests/data/pcap";
}

std::vector<Frame> read_capture(const std::filesystem::path& path) {
  char error[PCAP_ERRBUF_SIZE];
  pcap_t* capture = pcap_open_offline(path.c_str(), error);
  if (capture == nullptr) throw std::runtime_error(error);
  std::vector<Frame> frames;
  const u8* data = nullptr;
  pcap_pkthdr* header = nullptr;
  while (pcap_datalink(capture) == DLT_EN10MB && pcap_next_ex(capture, &header, &data) == 1)
    frames.emplace_back(data, data + header->caplen);
  pcap_close(capture);
  return frames;
}

}  // namespace xdpgpu::test
