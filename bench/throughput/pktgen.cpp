// SPDX-License-Identifier: MIT
//
// bench/throughput/pktgen.cpp: the kernel's packet generator (Documentation/networking/pktgen.rst), by the
// files that its module has in each network namespace.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <thread>

#include "bench/throughput/sender.hpp"

namespace xdpgpu::throughput {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kFolder = "/proc/thread-self/net/pktgen/";
constexpr std::size_t kHeaders = 42, kNumberAt = kHeaders + 4;  // behind pktgen's magic number
constexpr double kSlack = 10;                                   // seconds that it may take to end

// From a thread in the namespace.
void tell(const std::string& file, const std::string& what) {
  const lab::Fd fd(open((kFolder + file).c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd)
    throw lab::Error(
        fmt::format("there is no pktgen for {}: {} (modprobe pktgen)", file, std::strerror(errno)));
  if (write(fd.get(), what.data(), what.size()) < 0)
    throw lab::Error(fmt::format("pktgen refuses \"{}\" of {}: {}", what, file, std::strerror(errno)));
}

// The first number behind `words` in the report on an interface.
double said(const std::string& report, const std::string& words) {
  const auto at = report.find(words);
  if (at == std::string::npos)
    throw lab::Error(fmt::format("pktgen's report has no \"{}\": {}", words, report));
  return std::strtod(report.c_str() + at + words.size(), nullptr);
}

class Generator final : public Sender {
 public:
  Generator(const lab::Interface& interface, const Stream& stream) : interface_(interface) {
    interface_.ns().run([&] {
      tell(kThread, "rem_device_all");
      tell(kThread, "add_device " + interface_.ifname());
      for (const std::string& one :
           {fmt::format("pkt_size {}", stream.bytes), std::string("clone_skb 0"),
            fmt::format("src_mac {}", lab::to_string(stream.source)),
            fmt::format("dst_mac {}", lab::to_string(stream.destination)),
            fmt::format("src_min {}", stream.from), fmt::format("src_max {}", stream.from),
            fmt::format("dst_min {}", stream.to), fmt::format("dst_max {}", stream.to),
            fmt::format("udp_src_min {}", stream.first_port),
            fmt::format("udp_src_max {}", stream.first_port + stream.ports),
            fmt::format("udp_dst_min {}", stream.to_port), fmt::format("udp_dst_max {}", stream.to_port)})
        tell(interface_.ifname(), one);
    });
  }
  ~Generator() override {
    try {
      interface_.ns().run([] { tell(kThread, "rem_device_all"); });
    } catch (const lab::Error& error) {
      fmt::print(stderr, "bench-throughput: {}\n", error.what());
    }
  }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // What goes to the driver directly is seen by no capture.
  Sent send(double rate, double seconds, bool seen, const Check& check) const override {
    interface_.ns().run([&] {
      tell(interface_.ifname(), seen ? "xmit_mode queue_xmit" : "xmit_mode start_xmit");
      tell(interface_.ifname(), rate > 0 ? fmt::format("ratep {:.0f}", rate) : "delay 0");
      tell(interface_.ifname(),
           rate > 0 ? fmt::format("count {:.0f}", std::max(1.0, rate * seconds)) : "count 0");
    });
    std::atomic<bool> over{false};
    std::exception_ptr failure;
    std::thread starting([&] {
      try {
        interface_.ns().run([] { tell("pgctrl", "start"); });
      } catch (...) {
        failure = std::current_exception();
      }
      over = true;
    });
    const auto stop = [&] { interface_.ns().run([] { tell("pgctrl", "stop"); }); };
    const auto start = Clock::now();
    // "start" waits an eighth of a second before it looks whether all is over.
    const double enough = rate > 0 ? 1.5 * seconds + 1 : seconds;
    std::exception_ptr ended;
    try {
      for (bool stopped = false; !over; std::this_thread::sleep_for(5ms)) {
        check();
        const double passed = std::chrono::duration<double>(Clock::now() - start).count();
        if (passed > enough + kSlack) throw lab::Error("pktgen does not end");
        if (passed > enough && !stopped) stop();
        stopped |= passed > enough;
      }
    } catch (...) {
      ended = std::current_exception();
      stop();
    }
    starting.join();
    if (ended) std::rethrow_exception(ended);
    if (failure) std::rethrow_exception(failure);
    return result();
  }

  u32 number_of(const lab::Frame& frame) const override {
    u32 number = ~0U;
    if (frame.size() >= kNumberAt + sizeof(number))
      std::memcpy(&number, frame.data() + kNumberAt, sizeof(number));
    return ntohl(number);
  }

 private:
  static constexpr const char* kThread = "kpktgend_0";

  Sent result() const {
    const std::string report = interface_.ns().run([&] {
      std::ifstream file(kFolder + interface_.ifname());
      std::ostringstream all;
      all << file.rdbuf();
      return all.str();
    });
    Sent sent;
    sent.refused = static_cast<u64>(said(report, "errors: "));
    sent.frames = static_cast<u64>(said(report, "pkts-sofar: ")) + sent.refused;
    // "Result: OK: 1000123(c999000+d1123) usec, 1000 (60byte,0frags)"
    sent.seconds = said(report, "Result: OK: ") * 1e-6;
    return sent;
  }

  const lab::Interface& interface_;
};

}  // namespace

std::unique_ptr<Sender> pktgen(const lab::Interface& interface, const Stream& stream) {
  return std::make_unique<Generator>(interface, stream);
}

}  // namespace xdpgpu::throughput
