// SPDX-License-Identifier: MIT
//
// `program` on the wire: an XDP program of a policy's, which the kernel verifies and never runs, drops UDP to
// the ports that its map has. Objects and files that are edited hold from `policy apply` on; what is wrong
// with them, or is refused by the kernel, leaves the policy as it was.
#include <fmt/format.h>

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
    const Outcome listed = run_program(*host_, {"bpftool", "prog", "show", "name", "drop_udp_ports"});
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

}  // namespace
}  // namespace xdpgpu::lab
