// SPDX-License-Identifier: MIT
//
// `program` on the wire: an XDP program of a policy's, which the kernel verifies and never runs, drops UDP to
// the ports that its map has; others change packets and send them elsewhere. Objects and files that are
// edited hold from `policy apply` on; what is wrong with them, or is refused by the kernel, leaves the policy
// as it was.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tests/netns/on_the_wire.hpp"
#include "tests/stages/program_object.hpp"

namespace xdpgpu::lab {
namespace {

class ProgramOnTheWire : public OnTheWire {
 protected:
  std::string text(const std::string& object, const std::string& maps) const {
    return inspect_all(fmt::format(
        R"({{"stage": "program", "object": "{}", "section": "xdp", "maps": {{"ports": {{"file": "{}"}}}}}})",
        object, maps));
  }
  std::string text() const { return text(object_.path(), ports_.path()); }
  // Whether UDP to the port comes through.
  bool passes(std::uint16_t port, bool six = false) {
    UdpSocket server(*host_, six ? "fd09::1" : "10.9.0.1", port);
    UdpSocket client(*left_, six ? "fd09::2" : "10.9.0.2", 0);
    const auto before = attached_->pins().worker("dropped");
    const auto end = std::chrono::steady_clock::now() + 10s;
    client.send_to(six ? "fd09::1" : "10.9.0.1", port, "hello");
    while (std::chrono::steady_clock::now() < end) {
      if (server.receive(20ms) == "hello") return true;
      if (attached_->pins().worker("dropped") > before) return false;
    }
    ADD_FAILURE() << "UDP to port " << port
                  << " was neither passed nor dropped: " << attached_->pins().summary();
    return false;
  }
  // A program of its own that nobody attached, or is left.
  std::string programs_of_its_name() const {
    if (!std::filesystem::exists("/usr/sbin/bpftool")) return "";  // nobody can be asked
    const Outcome listed =
        run_program(*host_, {"/usr/sbin/bpftool", "prog", "show", "name", "drop_udp_ports"});
    EXPECT_NE(listed.status, 127) << listed.err;
    return listed.out;
  }

  const TemporaryFile object_{tests::udp_ports_object(), ".o"};
  const TemporaryFile ports_{R"([{"key": 5001, "value": 1}, {"key": ["0x8a", "0x13"], "value": ["0x01"]}])"};
};
INSTANTIATE_TEST_SUITE_P(Netns, ProgramOnTheWire, kNativeAndGeneric, config_name);

TEST_P(ProgramOnTheWire, DropsByWhatItsMapHasAndLetsAllElseGoOn) {
  attach(text());
  EXPECT_FALSE(passes(5001));
  EXPECT_FALSE(passes(5001, true));
  EXPECT_FALSE(passes(5002)) << "as bytes";
  EXPECT_TRUE(passes(5003));
  EXPECT_TRUE(passes(5003, true));
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 5001));
  const TransferResult transfer = tcp_transfer(*left_, *host_, "10.9.0.1", {.bytes = 1 << 20});
  EXPECT_TRUE(transfer.intact) << transfer.problem;
  EXPECT_EQ(ping(*left_, "10.9.0.1").received, 3u);
  const Json settings =
      Json::parse(product(*host_, {"policy", "show", attached_->ifname(), "-o", "json"}).out);
  EXPECT_NE(settings.dump().find("\"program\""), std::string::npos);
  expect_conserved(attached_->pins());
}

// Of a GPU it is said whether it has code for the program; of any other device nothing.
TEST_P(ProgramOnTheWire, IsTranslatedOrSaidNotToBe) {
  attach(text());
  const bool takes_code = device_under_test().starts_with("cuda");
  const Outcome applied = attached_->apply(text()), told = product(*host_, {"status", attached_->ifname()});
  EXPECT_EQ(applied.status, 0) << applied.err;
  EXPECT_EQ(told.status, 0) << told.err;
  bool interpreted = false;
  const Json status = attached_->status();
  for (const Json& device : status.at("devices")) {
    ASSERT_EQ(device.contains("programs"), takes_code) << device;
    if (!takes_code) continue;
    const auto programs = device.at("programs").get<std::string>();
    interpreted = programs.starts_with("interpreted: ");
    EXPECT_TRUE(interpreted || programs == "translated") << programs;
  }
  EXPECT_EQ((applied.out + applied.err).find("interpreted") != std::string::npos, interpreted)
      << applied.out << applied.err;
  EXPECT_EQ(told.out.find("interpreted") != std::string::npos, interpreted) << told.out;
  EXPECT_FALSE(passes(5001));
  EXPECT_TRUE(passes(5003));
}

TEST_P(ProgramOnTheWire, AnEditedFileHoldsFromItsApplicationOn) {
  attach(text());
  EXPECT_FALSE(passes(5001));
  ports_.write(R"([{"key": 5003, "value": 1}])");
  EXPECT_FALSE(passes(5001)) << "the file alone changes nothing";
  EXPECT_EQ(attached_->apply(text()).status, 0);
  EXPECT_TRUE(passes(5001));
  EXPECT_FALSE(passes(5003));
  ports_.write("[{\"key\": 5003, \"value\": 1},\n {\"key\": 65536, \"value\": 1}]");
  const Outcome refused = attached_->apply(text());
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find(":2:10: /pipelines/"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("this number does not fit"), std::string::npos) << refused.err;
  EXPECT_FALSE(passes(5003)) << "a refused file changes nothing";
}

TEST_P(ProgramOnTheWire, WhatIsWrongWithAnObjectLeavesThePolicyAsItWas) {
  attach(text());
  const auto before = attached_->pins().config().active;
  const std::string whole = tests::udp_ports_object();
  const auto expect_refused = [&](const std::string& object, const std::string& why) {
    object_.write(object);
    const Outcome refused = attached_->apply(text());
    EXPECT_NE(refused.status, 0);
    EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
    EXPECT_EQ(attached_->pins().config().active, before);
    EXPECT_FALSE(passes(5001));
    EXPECT_TRUE(passes(5003));
  };
  expect_refused("no object", "no ELF object");
  expect_refused(whole.substr(0, whole.size() / 2), object_.path() + ": it ");
  // It has no map of that name, and no policy for it.
  expect_refused(tests::refused_object(), "has no map ports");
  object_.write(tests::refused_object());
  const std::string bare =
      inspect_all(fmt::format(R"({{"stage": "program", "object": "{}"}})", object_.path()));
  const Outcome refused = attached_->apply(bare);
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("the kernel's verifier refuses it: "), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("invalid access to packet"), std::string::npos) << refused.err;
  EXPECT_EQ(attached_->pins().config().active, before);
  EXPECT_FALSE(passes(5001));
  // Whole again, it is taken.
  object_.write(whole);
  EXPECT_EQ(attached_->apply(text()).status, 0);
  EXPECT_NE(attached_->pins().config().active, before);
  EXPECT_FALSE(passes(5001));
  EXPECT_EQ(programs_of_its_name(), "") << "the kernel has verified it, and has it no more";
}

TEST_P(ProgramOnTheWire, ThatTheKernelRefusesIsNotAttached) {
  object_.write(tests::refused_object());
  const TemporaryFile file(
      inspect_all(fmt::format(R"({{"stage": "program", "object": "{}"}})", object_.path())));
  const Outcome checked = product(*host_, {"policy", "check", file.path()});
  EXPECT_EQ(checked.status, 2);
  EXPECT_NE(checked.err.find("/0/object: the kernel's verifier refuses it: "), std::string::npos)
      << checked.err;
  const Outcome attached =
      product(*host_, {"attach", host_port().ifname(), "--policy", file.path(), "--device", "cpu"});
  EXPECT_NE(attached.status, 0);
  EXPECT_NE(attached.err.find("invalid access to packet"), std::string::npos) << attached.err;
}

// Whatever is read again then: the file, by the process itself.
TEST_P(ProgramOnTheWire, SighupReadsTheObjectAgain) {
  const TemporaryFile file(text());
  AttachSpec spec{.interfaces = {host_port().ifname()}, .generic = generic(), .policy_file = file.path()};
  attached_ = std::make_unique<Attached>(*host_, spec);
  EXPECT_FALSE(passes(5001));
  ports_.write(R"([{"key": 5003, "value": 1}])");
  const auto before = attached_->pins().config().active;
  attached_->process().signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return attached_->pins().config().active != before; }, 20s))
      << attached_->process().err();
  EXPECT_TRUE(passes(5001));
  EXPECT_FALSE(passes(5003));
}

// As a file of first contents has them.
std::string bytes_of(const Frame& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{}{}", text.empty() ? "" : ", ", byte);
  return "[" + text + "]";
}
Frame joined(std::initializer_list<Frame> parts) {
  Frame all;
  for (const Frame& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}
Frame host_order(std::initializer_list<std::uint8_t> numbers) {
  Frame all;
  for (const std::uint8_t number : numbers) all.insert(all.end(), {number, 0, 0, 0});
  return all;
}

// The load balancer of config/examples/balancer, whose servers are behind left.
class BalancerOnTheWire : public OnTheWire {
 protected:
  static constexpr const char* kService = "203.0.113.80";
  static constexpr std::uint16_t kPort = 7000;
  static inline const Frame kAddress{203, 0, 113, 80}, kServer{198, 51, 100, 21};

  std::string text() const {
    return inspect_udp(
        kPort, fmt::format(R"({{"stage": "program", "object": "{}", "maps": {{
                   "services": {{"file": "{}"}}, "ring": {{"file": "{}"}}, "servers": {{"file": "{}"}},
                   "way": {{"file": "{}"}}}}}})",
                           object_.path(), services_.path(), ring_.path(), servers_.path(), way_->path()));
  }
  void attach_balancer() {
    const Mac mac = left_port().mac();
    const Frame gateway(mac.begin(), mac.end());
    way_.emplace(fmt::format(R"([{{"key": 0, "value": {}}}])",
                             bytes_of(joined({gateway, Frame(2), kAddress, Frame(12), Frame(16)}))));
    left_port().add_route(fmt::format("{}/32", kService), "10.9.0.1");
    attach(text());
  }
  // What a server takes out of the packet: the frame that it would have been.
  Frame inside(const Frame& outer) const {
    EXPECT_EQ(outer.at(23), 4) << "IP in IP";
    EXPECT_EQ(Frame(outer.begin() + 26, outer.begin() + 30), kAddress);
    EXPECT_EQ(Frame(outer.begin() + 30, outer.begin() + 34), kServer);
    EXPECT_EQ(outer.at(16) * 256u + outer.at(17), outer.size() - 14);
    Frame frame(outer.begin(), outer.begin() + 14);
    frame.insert(frame.end(), outer.begin() + 34, outer.end());
    return frame;
  }
  std::vector<Captured> sent_inside(Sniffer& sniffer, std::size_t count) const {
    return sniffer.take(count, 10s, [](const Captured& one) {
      return one.frame.size() > 34 && one.frame[12] == 8 && one.frame[13] == 0 && one.frame[23] == 4;
    });
  }

  const TemporaryFile object_{tests::balancer_object(), ".o"};
  const TemporaryFile services_{
      fmt::format(R"([{{"key": {}, "value": {}}}])",
                  bytes_of(joined({kAddress, Frame(12), Frame{kPort >> 8, kPort & 255, 17, 4}})),
                  bytes_of(host_order({0, 2, 0})))};
  const TemporaryFile ring_{R"([{"key": 0, "value": 1}, {"key": 1, "value": 1}])"};
  const TemporaryFile servers_{
      fmt::format(R"([{{"key": 1, "value": {}}}])", bytes_of(joined({kServer, Frame(12)})))};
  std::optional<TemporaryFile> way_;
};
INSTANTIATE_TEST_SUITE_P(Netns, BalancerOnTheWire, kNativeAndGeneric, config_name);

TEST_P(BalancerOnTheWire, SendsPacketsInsideOfOthers) {
  attach_balancer();
  Sniffer sniffer(left_port());
  std::vector<Frame> frames;
  for (std::uint16_t flow = 0; flow < 40; ++flow) {
    PacketSpec spec =
        from_left(static_cast<std::uint16_t>(2'000 + flow), kPort, std::string(20 + flow * 30u, 'x'));
    spec.dst_ip = kService;
    frames.push_back(build(spec));
  }
  Sender(left_port()).send(frames);
  std::vector<Frame> came;
  for (const Captured& one : sent_inside(sniffer, frames.size())) came.push_back(inside(one.frame));
  for (Frame& frame : frames) {
    std::copy_n(frame.begin(), 6, frame.begin() + 6);
    const Mac to = left_port().mac();
    std::copy(to.begin(), to.end(), frame.begin());
  }
  std::sort(frames.begin(), frames.end());
  std::sort(came.begin(), came.end());
  EXPECT_EQ(came, frames);
  EXPECT_EQ(attached_->pins().worker("patched"), frames.size());
  expect_conserved(attached_->pins());
}

// A local stack leaves checksums to the device: a veth has none that would complete them.
TEST_P(BalancerOnTheWire, CompletesChecksumsOfWhatIsInside) {
  attach_balancer();
  Sniffer sniffer(left_port());
  const UdpSocket client(*left_, "10.9.0.2", 0);
  client.send_to(kService, kPort, "is it whole?");
  const auto came = sent_inside(sniffer, 1);
  ASSERT_EQ(came.size(), 1u) << attached_->pins().summary();
  const auto packet = parse(inside(came[0].frame));
  ASSERT_TRUE(packet);
  EXPECT_TRUE(packet->checksums_right);
  EXPECT_EQ(packet->payload, "is it whole?");
}

// To the interface that the second MAC address's last byte is the number of in a devmap; what is not there
// passes; and all are changed.
class RedirectOnTheWire : public OnTheWire {
 protected:
  std::string text(const std::string& interfaces) const {
    return inspect_udp(7000, fmt::format(R"({{"stage": "program", "object": "{}",
                                              "maps": {{"ports": {{"file": "{}"}}}}, "interfaces": [{}]}})",
                                         object_.path(), ports_.path(), interfaces));
  }
  Frame from(std::uint8_t number) const {
    PacketSpec spec = from_left(1000, 7000, fmt::format("from {}", number));
    spec.src = {2, 0, 0, 0, 0, number};
    return build(spec);
  }

  const TemporaryFile object_{tests::ports_object(), ".o"};
  const TemporaryFile ports_{
      R"([{"key": 2, "value": 70}, {"key": 3, "value": 71}, {"key": 4, "value": 72}])"};
};
INSTANTIATE_TEST_SUITE_P(Netns, RedirectOnTheWire, kNativeAndGeneric, config_name);

TEST_P(RedirectOnTheWire, SendsToTheInterfacesThatItsPolicyNumbers) {
  attach_both(
      text(fmt::format(R"({{"interface": "{}", "ifindex": 70}}, {{"interface": "{}", "ifindex": 71}})",
                       host_second().ifname(), host_port().ifname())));
  Sniffer left(left_port()), right(right_port());
  const auto one_at = [&](Sniffer& sniffer, std::uint8_t number) {
    Sender(left_port()).send(from(number));
    const auto came = sniffer.take(1, 10s, with_payload(fmt::format("from {}", number)));
    ASSERT_EQ(came.size(), 1u) << attached_->pins().summary();
    Frame expected = from(number);
    expected[5] = number;
    EXPECT_EQ(came[0].frame, expected);
  };
  ASSERT_NO_FATAL_FAILURE(one_at(right, 2));
  ASSERT_NO_FATAL_FAILURE(one_at(left, 3));
  const auto before = attached_->pins().worker("dropped");
  Sender(left_port()).send(from(4));
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == before + 1; }, 10s))
      << "72 is nobody's";
  // The action for what a devmap does not have.
  Sender(left_port()).send(from(5));
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("passed") != 0; }, 10s));
  EXPECT_EQ(attached_->pins().worker("patched"), 3u);
  expect_conserved(attached_->pins());
}

TEST_P(RedirectOnTheWire, WithoutNumbersOrWithOneTwiceItIsRefused) {
  const TemporaryFile none(text("")),
      twice(
          text(fmt::format(R"({{"interface": "{0}", "ifindex": 70}}, {{"interface": "{0}", "ifindex": 70}})",
                           host_port().ifname())));
  const Outcome without = product(*host_, {"policy", "check", none.path()});
  EXPECT_EQ(without.status, 2);
  EXPECT_NE(without.err.find("give \"interfaces\""), std::string::npos) << without.err;
  const Outcome doubled = product(*host_, {"policy", "check", twice.path()});
  EXPECT_EQ(doubled.status, 2);
  EXPECT_NE(doubled.err.find("two of its interfaces have the number 70"), std::string::npos) << doubled.err;
}

class RouterOnTheWire : public OnTheWire {
 protected:
  static std::string hop(const Interface& to, const Interface& out) {
    return fmt::format(R"({{"mac": "{}", "src_mac": "{}", "to": "{}"}})", to_string(to.mac()),
                       to_string(out.mac()), out.ifname());
  }
  // Everything goes to the program; nothing goes to the routes.
  std::string text(bool with_routes = true) const {
    const std::string routes = fmt::format(
        R"(, "routes": [{{"stage": "forward", "next_hops": {{"right": {}, "left": {}}},
             "routes": [{{"prefix": ["10.9.1.2", "fd09:1::2"], "next_hop": "right"}},
                        {{"prefix": ["10.9.0.2", "fd09::2"], "next_hop": "left"}},
                        {{"prefix": "10.9.1.192/26", "next_hop": "drop"}}]}}])",
        hop(right_port(), host_second()), hop(left_port(), host_port()));
    return policy(fmt::format(
        R"("rules": [{{"name": "all", "match": {{}}, "action": {{"inspect": "p"}}}}],
           "pipelines": {{"p": [{{"stage": "program", "object": "{}", "interfaces": [
               {{"interface": "{}", "ifindex": 1}}, {{"interface": "{}", "ifindex": 2}}]}}]{}}})",
        object_.path(), host_port().ifname(), host_second().ifname(), with_routes ? routes : ""));
  }

  const TemporaryFile object_{tests::router_object(), ".o"};
};
INSTANTIATE_TEST_SUITE_P(Netns, RouterOnTheWire, kNativeAndGeneric, config_name);

TEST_P(RouterOnTheWire, SendsPacketsOnByThePolicysRoutes) {
  left_port().add_route("10.9.1.0/24", "10.9.0.1");
  left_port().add_route("fd09:1::/64", "fd09::1");
  right_port().add_route("10.9.0.0/24", "10.9.1.1");
  right_port().add_route("fd09::/64", "fd09:1::1");
  attach_both(text());
  const TransferResult transfer = tcp_transfer(*left_, *right_, "10.9.1.2", {.bytes = 1 << 20});
  EXPECT_TRUE(transfer.intact) << transfer.problem << attached_->pins().summary();
  EXPECT_TRUE(tcp_connects(*left_, *right_, "fd09:1::2", 7100)) << attached_->pins().summary();
  EXPECT_GT(attached_->pins().worker("patched"), 20u);
  EXPECT_EQ(ping(*left_, "10.9.0.1").received, 3u) << "the host itself has no route there";
  // A frame, to the byte.
  Sniffer right(right_port());
  PacketSpec spec = from_left(1000, 7000, "probe");
  spec.dst_ip = "10.9.1.2";
  Sender(left_port()).send(build(spec));
  const auto came = right.take(1, 10s, with_payload("probe"));
  ASSERT_EQ(came.size(), 1u) << attached_->pins().summary();
  const Mac to = right_port().mac(), by = host_second().mac();
  PacketSpec expected = spec;
  std::copy(to.begin(), to.end(), expected.dst.begin());
  std::copy(by.begin(), by.end(), expected.src.begin());
  expected.ttl--;
  EXPECT_EQ(came[0].frame, build(expected));
  const auto dropped = attached_->pins().worker("dropped");
  spec.dst_ip = "10.9.1.200";
  Sender(left_port()).send(build(spec));
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == dropped + 1; }, 10s));
  expect_conserved(attached_->pins());
}

TEST_P(RouterOnTheWire, WithoutRoutesItIsRefused) {
  const TemporaryFile none(text(false));
  const Outcome without = product(*host_, {"policy", "check", none.path()});
  EXPECT_EQ(without.status, 2);
  EXPECT_NE(without.err.find("its program \"router\" looks up routes"), std::string::npos) << without.err;
}

}  // namespace
}  // namespace xdpgpu::lab
