// SPDX-License-Identifier: MIT
//
// tests/netns/encapsulation_test.cpp: load balancing to a backend behind outer headers. The backend's own
// kernel takes them off as far as sockets go (it checks addresses, lengths, checksums and ports, and hands
// over what is inside); what was inside goes back to its stack by a TUN device, as a tunnel's would: this
// needs none of the tunnel drivers, which hosts may lack. Its stack answers the client by itself.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kService = 7000, kGue = 6080;
constexpr const char *kVip4 = "203.0.113.80", *kVip6 = "2001:db8:80::80";

[[noreturn]] void fail(const std::string& what) {
  throw Error(fmt::format("cannot {}: {}", what, std::strerror(errno)));
}

// What takes outer headers off in a backend.
class Decapsulator {
 public:
  explicit Decapsulator(const Namespace& ns) {
    ns.run([&] {
      tun_ = Fd(open("/dev/net/tun", O_RDWR | O_CLOEXEC));
      ifreq request{};
      request.ifr_flags = IFF_TUN | IFF_NO_PI;
      if (!tun_ || ioctl(tun_.get(), TUNSETIFF, &request) != 0) fail("make a TUN device");
      const Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      request.ifr_flags = IFF_UP;
      if (ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) fail("set the TUN device up");
      for (const int protocol : {IPPROTO_IPIP, IPPROTO_IPV6}) {
        sockets_.push_back({Fd(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, protocol)), 20});
        sockets_.push_back({Fd(socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, protocol)), 0});
      }
      sockets_.push_back({gue(AF_INET), 0});
      sockets_.push_back({gue(AF_INET6), 0});
      const int room = 8 << 20;
      for (const auto& one : sockets_)
        if (!one.fd || setsockopt(one.fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) != 0)
          fail("open a socket for outer headers");
    });
    thread_ = std::thread([this] { run(); });
  }
  ~Decapsulator() {
    stop_ = true;
    thread_.join();
  }
  Decapsulator(const Decapsulator&) = delete;
  Decapsulator& operator=(const Decapsulator&) = delete;

 private:
  struct Socket {
    Fd fd;
    std::size_t header;  // bytes that it shows in front of what is inside
  };

  static Fd gue(int family) {
    Fd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    sockaddr_in6 any{};
    any.sin6_family = static_cast<sa_family_t>(family);
    any.sin6_port = htons(kGue);  // where IPv4 has its own
    if (family == AF_INET6) {
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
      // A checksum of 0 says "none" (RFC 6935), which a receiver has to ask for; `ip fou` does, too.
      setsockopt(fd.get(), IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on));
    }
    const auto bytes =
        static_cast<socklen_t>(family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), bytes) != 0) fail("bind to GUE's port");
    return fd;
  }

  void run() {
    std::vector<pollfd> polled;
    for (const auto& one : sockets_) polled.push_back({one.fd.get(), POLLIN, 0});
    std::array<char, 65536> buffer;
    while (!stop_) {
      if (poll(polled.data(), polled.size(), 20) <= 0) continue;
      for (const auto& one : sockets_)
        for (ssize_t got = 0; (got = recv(one.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0;)
          if (static_cast<std::size_t>(got) > one.header)
            (void)!write(tun_.get(), buffer.data() + one.header, static_cast<std::size_t>(got) - one.header);
    }
  }

  Fd tun_;
  std::vector<Socket> sockets_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct Tunnel {
  const char* type;
  bool six;  // the outer headers
};
constexpr std::array<Tunnel, 4> kTunnels{{{"ipip", false}, {"ipip", true}, {"gue", false}, {"gue", true}}};
std::string name_of(const Tunnel& tunnel) {
  return fmt::format("{} over IPv{}", tunnel.type, tunnel.six ? 6 : 4);
}

class Encapsulation : public OnTheWire {
 protected:
  void SetUp() override {
    OnTheWire::SetUp();
    if (IsSkipped()) return;
    // The service's addresses are the backend's; the client finds them by way of the balancer. What the
    // backend answers is routed by the balancer's stack, and by no pipeline.
    const Interface lo(*right_, "lo");
    lo.add_address(fmt::format("{}/32", kVip4));
    lo.add_address(fmt::format("{}/128", kVip6));
    left_port().add_route(fmt::format("{}/32", kVip4), "10.9.0.1");
    left_port().add_route(fmt::format("{}/128", kVip6), "fd09::1");
    right_port().add_route("10.9.0.0/24", "10.9.1.1");
    right_port().add_route("fd09::/64", "fd09:1::1");
    host_->sysctl("ipv4/ip_forward", "1");
    host_->sysctl("ipv6/conf/all/forwarding", "1");
    for (const Namespace* ns : {&*host_, &*left_, &*right_})
      for (const char* which : {"all", "default"})
        ns->sysctl(fmt::format("ipv4/conf/{}/rp_filter", which), "0");
    for (const Interface* one : {&host_port(), &left_port(), &host_second(), &right_port()})
      one->ns().sysctl(fmt::format("ipv4/conf/{}/rp_filter", one->ifname()), "0");
  }

  std::string balance(const Tunnel& tunnel, const std::string& more = "",
                      const std::string& source = R"("ipv4": "10.9.1.1", "ipv6": "fd09:1::1")") const {
    return policy(fmt::format(
        R"("lists": {{"service": ["{}", "{}"]}},
           "rules": [{{"name": "service", "match": {{"dst": "@service"}}, "action": {{"inspect": "p"}}}}],
           "pipelines": {{"p": [{{"stage": "load_balance",
               "encapsulation": {{"type": "{}", "source": {{{}}}}},
               "backends": [{{"name": "one", "mac": "{}", "address": "{}", "to": "{}"}}]{}}}]}})",
        kVip4, kVip6, tunnel.type, source, to_string(right_port().mac()),
        tunnel.six ? "fd09:1::2" : "10.9.1.2", host_second().ifname(), more));
  }
  // A client asks the service, over and over, by IPv4 and IPv6.
  void talk(const Tunnel& tunnel) {
    SCOPED_TRACE(name_of(tunnel));
    attach_both(balance(tunnel, R"(, "cache": true)"));
    const Pins& pins = attached_->pins();
    for (const bool six : {false, true}) {
      const UdpSocket service(*right_, six ? kVip6 : kVip4, kService);
      const UdpSocket client(*left_, six ? "fd09::2" : "10.9.0.2", 0);
      for (int i = 0; i < 20; ++i) {
        const std::string question = fmt::format("question {}", i), answer = fmt::format("answer {}", i);
        client.send_to(six ? kVip6 : kVip4, kService, question);
        ASSERT_EQ(service.receive(2000ms), question) << "IPv" << (six ? 6 : 4) << " inside";
        service.send_to(six ? "fd09::2" : "10.9.0.2", client.port(), answer);
        ASSERT_EQ(client.receive(2000ms), answer);
        std::this_thread::sleep_for(2ms);  // so that a cached verdict may act
      }
    }
    EXPECT_EQ(pins.worker("encapsulated"), pins.worker("redirected"));
    EXPECT_GE(pins.worker("encapsulated"), 2U) << "the first of each flow";
    EXPECT_EQ(pins.worker("encapsulated") + pins.kernel("redirect_flow"), 40U);
    if (kernel_transmits()) {
      EXPECT_GT(pins.kernel("redirect_flow"), 20U);
    }
    expect_conserved(pins);
    const Outcome end = attached_->detach();
    EXPECT_EQ(end.status, 0) << end.out << end.err;  // frames and packets balanced
    attached_.reset();
  }

  bool kernel_transmits() const { return generic() || kernel_at_least(6, 3); }
};
INSTANTIATE_TEST_SUITE_P(Netns, Encapsulation, kNativeAndGeneric, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Encapsulation, kSplit, config_name);

TEST_P(Encapsulation, TheBackendGetsWhatTheClientSentAndAnswersItself) {
  const Decapsulator decapsulator(*right_);
  for (const Tunnel& tunnel : kTunnels) talk(tunnel);
}

// As config/README.md says.
TEST_P(Encapsulation, LinuxTunnelsTakeTheHeadersOff) {
  const auto in_backend = [&](const std::string& command) {
    return run_program(*right_, {"/bin/sh", "-c", command});
  };
  const Outcome up = in_backend(
      "ip link set tunl0 up && ip link set sit0 up && ip -6 tunnel change ip6tnl0 mode any && ip link set "
      "ip6tnl0 up && "
      "ip fou add port 6080 gue && ip -6 fou add port 6080 gue");
  if (up.status != 0) GTEST_SKIP() << "this kernel lacks ipip, sit, ip6_tunnel or fou: " << up.err;
  right_->sysctl("ipv4/conf/tunl0/rp_filter", "0");
  // First what is counted to the packet: TCP may send one of a connection again after it has ended.
  for (const Tunnel& tunnel : kTunnels) talk(tunnel);
  for (const Tunnel& tunnel : kTunnels) {
    attach_both(balance(tunnel, R"(, "cache": true)"));
    for (const char* service : {kVip4, kVip6}) {
      const TransferResult sent = tcp_transfer(*left_, *right_, service, {.bytes = 256 << 10});
      EXPECT_TRUE(sent.intact) << name_of(tunnel) << ", " << service << ": " << sent.problem;
    }
    attached_.reset();
  }
}

// The kernel makes the headers that user space makes, and so does another process with the same policy.
TEST_P(Encapsulation, AFlowLooksTheSameFromItsFirstPacketToItsLast) {
  constexpr std::size_t kFlows = 24, kEach = 6;
  for (const Tunnel& tunnel : kTunnels) {
    SCOPED_TRACE(name_of(tunnel));
    std::map<std::uint16_t, Frame> seen;  // by the source port inside
    std::set<std::string> outer;
    for (const bool again : {false, true}) {
      attach_both(balance(tunnel, R"(, "cache": true)", R"("ipv4": "10.77.0.0/24", "ipv6": "fd77::/64")"));
      Sniffer right(right_port());
      for (std::size_t i = 0; i < kEach; ++i) {
        std::vector<Frame> frames;
        for (std::size_t flow = 0; flow < kFlows; ++flow) {
          PacketSpec spec = from_left(static_cast<std::uint16_t>(20000 + flow), kService, "always the same");
          spec.dst_ip = kVip4;
          if (flow % 3 == 1) spec.vlans = {{10}};
          frames.push_back(build(spec));
        }
        Sender(left_port()).send_paced(frames, 5000);
        // On a busy machine a worker comes late; what is remembered then is of no use to packets that are
        // past.
        const Pins& pins = attached_->pins();
        EXPECT_TRUE(eventually([&] {
          return pins.worker("encapsulated") + pins.kernel("redirect_flow") >= kFlows * (i + 1);
        })) << pins.summary();
      }
      const std::size_t header = (tunnel.six ? 40 : 20) + (std::string_view(tunnel.type) == "gue" ? 8 : 0);
      const auto captured = right.take(kFlows * kEach, 4000ms, [&](const Captured& one) {
        const auto parsed = parse(one.frame);
        return parsed && parsed->dst_ip == (tunnel.six ? "fd09:1::2" : "10.9.1.2");
      });
      ASSERT_EQ(captured.size(), kFlows * kEach);
      for (const Captured& one : captured) {
        const auto parsed = parse(one.frame);
        ASSERT_TRUE(parsed->checksums_right);
        EXPECT_EQ(parsed->dst, right_port().mac());
        EXPECT_EQ(parsed->src, host_port().mac()) << "the frame's former destination";
        const std::size_t inner = 14 + parsed->vlans.size() * 4 + header;
        ASSERT_GT(one.frame.size(), inner + 28);
        const auto port = static_cast<std::uint16_t>(one.frame[inner + 20] << 8 | one.frame[inner + 21]);
        const auto [at, first] = seen.try_emplace(port, one.frame);
        EXPECT_EQ(at->second, one.frame) << "source port " << port << (again ? ", of another process" : "");
        outer.insert(fmt::format("{} {}", parsed->src_ip, parsed->src_port));
      }
      EXPECT_EQ(seen.size(), kFlows);
      if (kernel_transmits()) {
        EXPECT_GT(attached_->pins().kernel("redirect_flow"), kFlows);
      }
      EXPECT_GE(attached_->pins().worker("encapsulated"), kFlows);
      expect_conserved(attached_->pins());
      attached_.reset();
    }
    EXPECT_GT(outer.size(), kFlows * 3 / 4) << "the backend's NIC can tell most of them apart";
  }
}

// Path MTU discovery: the client's stack is told, and goes on with shorter segments.
TEST_P(Encapsulation, TellsTheClientHowLongItsPacketsMayBe) {
  const Decapsulator decapsulator(*right_);
  // Not IP in IP: GRO joins what is inside of it, which a tunnel takes and a raw socket gets with checksums
  // that are only begun.
  for (const Tunnel& tunnel : {kTunnels[2], kTunnels[3]}) {
    SCOPED_TRACE(name_of(tunnel));
    attach_both(balance(tunnel, R"(, "cache": true)"));
    const Pins& pins = attached_->pins();
    for (const char* service : {kVip4, kVip6}) {
      const auto before = pins.worker("too_long_answered");
      const TransferResult sent = tcp_transfer(*left_, *right_, service, {.bytes = 256 << 10});
      EXPECT_TRUE(sent.intact) << service << ": " << sent.problem;
      EXPECT_GT(pins.worker("too_long_answered"), before) << service;
    }
    EXPECT_EQ(pins.worker("dropped"), pins.worker("too_long"));
    expect_conserved(pins);
    const Outcome end = attached_->detach();
    EXPECT_EQ(end.status, 0) << end.out << end.err;
    attached_.reset();
    // What the stack has learnt stands for ten minutes: the next round begins anew.
    left_->sysctl("ipv4/route/flush", "1");
    left_->sysctl("ipv6/route/flush", "1");
  }
}

TEST_P(Encapsulation, SaysSoWhereTheInterfaceTakesLess) {
  host_second().set_mtu(1400);
  attach_both(balance(kTunnels[0]));
  EXPECT_TRUE(eventually(
      [&] {
        return attached_->process().err().find(
                   fmt::format("the MTU of {} is 1400, and the policy sends packets of up to 1500 bytes",
                               host_second().ifname())) != std::string::npos;
      },
      5s))
      << attached_->process().err();
}

TEST_P(Encapsulation, ListedFlowsSayWhereTheyGo) {
  if (!kernel_transmits()) GTEST_SKIP() << "this kernel does not say that veth transmits for XDP";
  const auto policy = balance(kTunnels[2], R"(, "cache": true)");
  attach_both(policy);
  for (const bool again : {false, true}) {  // generations' rewrites stand in different halves of their table
    if (again) {
      ASSERT_EQ(attached_->apply(policy).status, 0);
    }
    PacketSpec spec = from_left(1000, kService, "listed");
    spec.dst_ip = kVip4;
    Sender(left_port()).send(build(spec));
    ASSERT_TRUE(eventually([&] { return attached_->pins().flows().size() == 1; }));
    const Outcome list = product(*host_, {"flows", "list", host_port().ifname(), "-o", "json"});
    ASSERT_EQ(list.status, 0) << list.err;
    const Json flow = Json::parse(list.out).at("flows").at(0);
    EXPECT_EQ(flow.at("backend"), "one");
    EXPECT_EQ(flow.at("encapsulation").at("type"), "gue");
    EXPECT_EQ(flow.at("encapsulation").at("to"), "10.9.1.2");
    const Outcome text = product(*host_, {"flows", "list", host_port().ifname()});
    EXPECT_NE(text.out.find("backend one by gue to 10.9.1.2"), std::string::npos) << text.out;
  }
}

// The IP packet of a frame without tags.
std::string ip_packet(const Frame& frame) { return {frame.begin() + 14, frame.end()}; }

// `inner` behind an IPv4 header alone, as IP in IP has it: of a UDP packet with it the UDP header is taken
// out.
Frame in_ipv4(PacketSpec outer, const std::string& inner, std::uint8_t protocol) {
  outer.payload = inner;
  Frame frame = build(outer);
  frame.erase(frame.begin() + 14 + 20, frame.begin() + 14 + 28);
  const std::size_t length = frame.size() - 14;
  frame[16] = static_cast<std::uint8_t>(length >> 8);
  frame[17] = static_cast<std::uint8_t>(length);
  frame[23] = protocol;
  frame[24] = frame[25] = 0;
  std::uint32_t sum = 0;
  for (std::size_t at = 14; at < 34; at += 2)
    sum += static_cast<std::uint32_t>(frame[at] << 8 | frame[at + 1]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  frame[24] = static_cast<std::uint8_t>(~sum >> 8);
  frame[25] = static_cast<std::uint8_t>(~sum);
  return frame;
}

using Decapsulation = Encapsulation;
INSTANTIATE_TEST_SUITE_P(Netns, Decapsulation, kNativeAndGeneric, config_name);

// The far end of a tunnel: a service of the host's gets what was inside, and what comes from elsewhere than
// the tunnel's other end meets the default.
TEST_P(Decapsulation, TheHostsStackGetsWhatWasInside) {
  const Interface lo(*host_, "lo");
  lo.add_address(fmt::format("{}/32", kVip4));
  lo.add_address(fmt::format("{}/128", kVip6));
  attach(policy(R"("default": "drop",
      "rules": [{"name": "tunnel", "match": {"src": ["10.9.0.2", "fd09::2"], "dst": ["10.9.0.1", "fd09::1"]},
                 "action": {"inspect": "p"}}],
      "pipelines": {"p": [{"stage": "decapsulate", "addresses": ["10.9.0.1", "fd09::1"]},
                          {"stage": "acl", "rules": [], "default": "drop"}]})"));
  const UdpSocket four(*host_, kVip4, kService), six(*host_, kVip6, kService);
  std::vector<Frame> frames;
  std::size_t number = 0;
  std::multiset<std::string> to_four, to_six;
  for (const bool six_inside : {false, true}) {
    const auto inner = [&] {
      PacketSpec spec = from_left(4000, kService, fmt::format("inside {}", number++));
      spec.src_ip = six_inside ? "fd09::2" : "10.9.0.2";
      spec.dst_ip = six_inside ? kVip6 : kVip4;
      (six_inside ? to_six : to_four).insert(spec.payload);
      return ip_packet(build(spec));
    };
    PacketSpec outer = from_left(40000, kGue, "");
    frames.push_back(in_ipv4(outer, inner(), six_inside ? IPPROTO_IPV6 : IPPROTO_IPIP));
    outer.payload = inner();
    frames.push_back(build(outer));
    outer.src_ip = "fd09::2";
    outer.dst_ip = "fd09::1";
    outer.payload = inner();
    frames.push_back(build(outer));
  }
  // A stranger's: the rule does not let it to the pipeline. And one that is cut off inside.
  PacketSpec stranger = from_left(40000, kGue, "");
  stranger.src_ip = "10.9.0.77";
  stranger.payload = ip_packet(build(from_left(4000, kService, "from a stranger")));
  frames.push_back(build(stranger));
  PacketSpec cut = from_left(40000, kGue, "");
  cut.payload = ip_packet(build(from_left(4000, kService, "cut off"))).substr(0, 24);
  frames.push_back(build(cut));
  Sender(left_port()).send_paced(frames, 1000);

  const auto got = [](const UdpSocket& socket) {
    const auto all = socket.drain(500ms);
    return std::multiset<std::string>(all.begin(), all.end());
  };
  EXPECT_EQ(got(four), to_four);
  EXPECT_EQ(got(six), to_six);
  const Pins& pins = attached_->pins();
  EXPECT_EQ(pins.worker("decapsulated"), 6U);
  EXPECT_EQ(pins.worker("dropped"), 1U) << "what was cut off";
  expect_conserved(pins);
  const Outcome end = attached_->detach();
  EXPECT_EQ(end.status, 0) << end.out << end.err;
  attached_.reset();
}

}  // namespace
}  // namespace xdpgpu::lab
