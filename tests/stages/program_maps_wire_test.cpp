// SPDX-License-Identifier: MIT
//
// The maps of programs that a device runs, by their pins in the kernel: counts come there, what an operator
// writes there goes to the device, and both are kept when the policy is applied again, or the data plane
// dies.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "tests/netns/on_the_wire.hpp"
#include "tests/stages/program_object.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kBpftool = "/usr/sbin/bpftool";

class ProgramMapsOnTheWire : public OnTheWire {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kBpftool)) GTEST_SKIP() << "no bpftool";
    OnTheWire::SetUp();
  }

  // section: "counting", "noting" or "knowing".
  std::string text(const std::string& section, const std::string& members = "") const {
    return inspect_all(fmt::format(R"({{"stage": "program", "object": "{}", "section": "xdp/{}"}})",
                                   object_.path(), section),
                       members);
  }
  std::string pin(const std::string& map) const {
    return Pins::directory(*host_, host_port().ifname()) + "/programs/p/1/" + map;
  }
  Outcome bpftool(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), kBpftool);
    return run_program(*host_, std::move(arguments));
  }
  // Keys and values: as bytes.
  void update(const std::string& map, const std::vector<int>& key, const std::vector<int>& value) const {
    const auto words = [](const std::vector<int>& bytes) { return fmt::format("{}", fmt::join(bytes, " ")); };
    const Outcome updated = run_program(*host_, {"/bin/sh", "-c",
                                                 fmt::format("{} map update pinned {} key {} value {}",
                                                             kBpftool, pin(map), words(key), words(value))});
    EXPECT_EQ(updated.status, 0) << updated.out << updated.err;
  }
  void set_mode(int drops) const { update("mode", {0, 0, 0, 0}, {drops, 0, 0, 0, 0, 0, 0, 0}); }
  Json dump(const std::string& map) const {
    const Outcome dumped = bpftool({"-j", "map", "dump", "pinned", pin(map)});
    EXPECT_EQ(dumped.status, 0) << dumped.out << dumped.err;
    return Json::parse(dumped.out, nullptr, false);
  }
  static std::uint64_t number_of(const Json& bytes, std::size_t first = 0) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(bytes.size() - first, 8); i++)
      number |= std::uint64_t{std::stoul(bytes[first + i].get<std::string>(), nullptr, 16)} << 8 * i;
    return number;
  }
  // Of all CPUs, by the port's lowest bits.
  std::uint64_t counted(unsigned index) const {
    std::uint64_t sum = 0;
    for (const Json& entry : dump("counts"))
      if (number_of(entry.at("key")) == index)
        for (const Json& cpu : entry.at("values")) sum += number_of(cpu.at("value"));
    return sum;
  }
  // Of the prefix that is the whole port.
  std::optional<std::uint64_t> sized(std::uint16_t port, std::size_t at = 0) const {
    for (const Json& entry : dump("sizes"))
      if (number_of(entry.at("key"), 4) == (port >> 8 | (port & 0xff) << 8))
        return number_of(entry.at("value"), at);
    return std::nullopt;
  }
  void prefix(std::uint16_t port, int packets, int name) const {
    update("sizes", {16, 0, 0, 0, port >> 8, port & 0xff, 0, 0},
           {packets, 0, 0, 0, 0, 0, 0, 0, name, 0, 0, 0, 0, 0, 0, 0});
  }
  void send(std::uint16_t port, int packets, std::size_t bytes = 10) const {
    const UdpSocket client(*left_, "10.9.0.2", 0);
    for (int i = 0; i < packets; i++) {
      client.send_to("10.9.0.1", port, std::string(bytes, 'x'));
      if (i % 32 == 31) std::this_thread::sleep_for(1ms);
    }
  }
  std::optional<std::uint64_t> longest(std::uint16_t port) const {
    for (const Json& entry : dump("last"))
      if (number_of(entry.at("key")) == port) return number_of(entry.at("value"));
    return std::nullopt;
  }
  bool passes(std::uint16_t port) const {
    const UdpSocket server(*host_, "10.9.0.1", port), client(*left_, "10.9.0.2", 0);
    client.send_to("10.9.0.1", port, "hello");
    return server.receive(300ms) == "hello";
  }
  Json maps() const { return attached_->status().at("programs").at(0).at("maps"); }

  const TemporaryFile object_{tests::kept_object(), ".o"};
};
INSTANTIATE_TEST_SUITE_P(Netns, ProgramMapsOnTheWire, kNativeAndGeneric, config_name);

TEST_P(ProgramMapsOnTheWire, CountsComeToTheKernelAndOperatorsToTheDevice) {
  attach(text("counting"));
  send(5001, 100);
  EXPECT_TRUE(eventually([&] { return counted(9) == 100; }, 10s)) << counted(9);
  // What an operator takes away is gone, and what packets add is added to that.
  update("counts", {9, 0, 0, 0}, {7, 0, 0, 0, 0, 0, 0, 0});
  const auto others = counted(9) - 7;  // bpftool writes to all CPUs
  send(5001, 20);
  EXPECT_TRUE(eventually([&] { return counted(9) == 27 + others; }, 10s)) << counted(9);
  // Packets are counted by what the device has: an entry that is new is there soon.
  prefix(5002, 40, 3);
  EXPECT_TRUE(eventually(
      [&] {
        send(5002, 1);
        return sized(5002).value_or(0) > 40;
      },
      10s));
  std::this_thread::sleep_for(500ms);
  const auto counts = dump("counts");
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(dump("counts"), counts) << "nothing changes by itself";
  EXPECT_EQ(sized(5002, 8), 3u) << "what the program adds nothing to is the operator's";
  const Json sizes = dump("sizes");
  EXPECT_EQ(sizes.at(0).at("formatted").at("value").at("name"), 3) << "the map's types are the object's";
  expect_conserved(attached_->pins());
}

TEST_P(ProgramMapsOnTheWire, WhatIsOnlyReadIsTheKernels) {
  for (const char* section : {"counting", "noting"}) {
    SCOPED_TRACE(section);
    attach(text(section));
    EXPECT_TRUE(passes(5003));
    set_mode(1);
    EXPECT_TRUE(eventually([&] { return !passes(5003); }, 10s));
    // Applied again it is as the operator has it, and from the first packet on.
    for (int i = 0; i < 3; i++) {
      ASSERT_EQ(attached_->apply(text(section, fmt::format(R"("description": "{}")", i))).status, 0);
      EXPECT_FALSE(passes(5003));
    }
    set_mode(0);
    EXPECT_TRUE(eventually([&] { return passes(5003); }, 10s));
    attached_.reset();
  }
}

// A program that changes no map has them where no packet writes.
TEST_P(ProgramMapsOnTheWire, MapsOfAProgramThatOnlyReadsThemAreFollowed) {
  const TemporaryFile object(tests::udp_ports_object(), ".o"), ports(R"([{"key": 5001, "value": 1}])");
  const auto reads = [&](const std::string& members = "") {
    return inspect_all(
        fmt::format(R"({{"stage": "program", "object": "{}", "maps": {{"ports": {{"file": "{}"}}}}}})",
                    object.path(), ports.path()),
        members);
  };
  attach(reads());
  EXPECT_FALSE(passes(5001));
  EXPECT_TRUE(passes(5003));
  const auto before = attached_->pins().config().active;
  update("ports", {0x8b, 0x13}, {1});
  EXPECT_EQ(bpftool({"map", "delete", "pinned", pin("ports"), "key", "0x89", "0x13"}).status, 0);
  EXPECT_TRUE(eventually([&] { return !passes(5003); }, 10s));
  EXPECT_TRUE(passes(5001));
  EXPECT_NE(attached_->pins().config().active, before) << "the policy is in force anew";
  const auto after = attached_->pins().config().active;
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(attached_->pins().config().active, after) << "once";
  ASSERT_EQ(attached_->apply(reads(R"("description": "again")")).status, 0);
  EXPECT_FALSE(passes(5003));
  EXPECT_TRUE(passes(5001));
  // Other first contents are another map.
  ports.write(R"([{"key": 5001, "value": 1 } ])");
  ASSERT_EQ(attached_->apply(reads()).status, 0);
  EXPECT_FALSE(passes(5003)) << "they are the same";
  ports.write(R"([{"key": 5002, "value": 1}])");
  ASSERT_EQ(attached_->apply(reads()).status, 0);
  EXPECT_FALSE(passes(5002));
  EXPECT_TRUE(passes(5003));
}

TEST_P(ProgramMapsOnTheWire, WhatIsChangedIsTheDevices) {
  attach(text("noting"));
  send(5001, 1, 10);
  send(5002, 1, 20);
  EXPECT_TRUE(eventually([&] { return longest(5001) == 18 && longest(5002) == 28; }, 10s)) << dump("last");
  send(5001, 1, 30);
  EXPECT_TRUE(eventually([&] { return longest(5001) == 38; }, 10s)) << dump("last");
  // The device's overwrites what somebody else writes.
  update("last", {0x89, 0x13}, {1, 1, 0, 0});
  update("last", {1, 2}, {1, 0, 0, 0});
  EXPECT_TRUE(eventually([&] { return longest(5001) == 38 && !longest(0x201); }, 10s)) << dump("last");
  EXPECT_EQ(dump("last").size(), 2u);
  // It goes on into the next policy.
  ASSERT_EQ(attached_->apply(text("noting", R"("description": "another one")")).status, 0);
  send(5001, 1, 12);
  send(5003, 1, 12);
  EXPECT_TRUE(eventually([&] { return longest(5001) == 38 && longest(5003) == 20; }, 10s)) << dump("last");
}

// The kernel's copy has what the device's has, and loses nothing else by itself.
TEST_P(ProgramMapsOnTheWire, AnLruHashLosesWhatTheDevicesLoses) {
  attach(text("noting"));
  std::set<std::uint64_t> sent;
  for (std::uint16_t port = 7000; port < 7030; port++) {
    send(port, 1);
    sent.insert(port);
  }
  EXPECT_TRUE(eventually([&] { return dump("recent").size() == 8; }, 10s)) << dump("recent");
  std::this_thread::sleep_for(500ms);
  const Json recent = dump("recent");
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(dump("recent"), recent);
  ASSERT_EQ(recent.size(), 8u);
  for (const Json& entry : recent) EXPECT_TRUE(sent.contains(number_of(entry.at("key")))) << entry;
}

// Packets are ordered by the key of an LRU hash, which is sharded on the device; other maps are counted in.
TEST_P(ProgramMapsOnTheWire, WhatIsOrderedByKeyIsTheDevices) {
  attach(text("knowing"));
  const auto of = [&](std::uint16_t port, std::size_t at) -> std::uint64_t {
    for (const Json& entry : dump("known"))
      if (number_of(entry.at("key")) == port) return number_of(entry.at("value"), at) & 0xffffffff;
    return 0;
  };
  send(9001, 100, 10);
  send(9001, 1, 90);
  EXPECT_TRUE(eventually([&] { return of(9001, 0) == 101 && of(9001, 4) == 98; }, 10s)) << dump("known");
  EXPECT_TRUE(eventually([&] { return counted(9001 & 15) == 101; }, 10s)) << counted(9001 & 15);
  // It is full with two shards of 224, whichever keys there are, and has those of late.
  for (std::uint16_t port = 20000; port < 20900; port++) send(port, 1);
  EXPECT_TRUE(eventually([&] { return dump("known").size() == 448; }, 10s)) << dump("known").size();
  EXPECT_TRUE(eventually([&] { return of(20899, 0) == 1; }, 10s));
  EXPECT_EQ(of(9001, 0), 0u);
  EXPECT_EQ(maps().at(0).at("problem").get<std::string>(), "") << maps();
  expect_conserved(attached_->pins());
}

// The policy says that who writes by the pin wins.
TEST_P(ProgramMapsOnTheWire, WhereTheKernelWinsOperatorsEntriesStand) {
  const auto wins = [&](const char* who) {
    return inspect_all(fmt::format(
        R"({{"stage": "program", "object": "{}", "section": "xdp/noting", "maps": {{"last": {{"wins": "{}"}}}}}})",
        object_.path(), who));
  };
  attach(wins("kernel"));
  send(5001, 1, 10);
  send(5002, 1, 10);
  EXPECT_TRUE(eventually([&] { return longest(5001) == 18 && longest(5002) == 18; }, 10s)) << dump("last");
  update("last", {0x89, 0x13}, {200, 0, 0, 0});
  EXPECT_EQ(bpftool({"map", "delete", "pinned", pin("last"), "key", "0x8a", "0x13"}).status, 0);
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(longest(5001), 200u) << dump("last");
  EXPECT_EQ(longest(5002), std::nullopt) << dump("last");
  // The program goes by it: what is shorter is not noted.
  send(5001, 1, 30);
  send(5002, 1, 2);
  EXPECT_TRUE(eventually([&] { return longest(5002) == 10; }, 10s)) << dump("last");
  EXPECT_EQ(longest(5001), 200u) << dump("last");
  ASSERT_EQ(attached_->apply(wins("device")).status, 0);
  update("last", {0x89, 0x13}, {201, 0, 0, 0});
  EXPECT_TRUE(eventually([&] { return longest(5001) != 201; }, 10s)) << dump("last");
}

TEST_P(ProgramMapsOnTheWire, CountsGoOnIntoTheNextPolicy) {
  attach(text("counting"));
  int sent = 0;
  for (int i = 0; i < 5; i++) {
    send(5001, 50);
    sent += 50;
    ASSERT_EQ(attached_->apply(text("counting", fmt::format(R"("description": "{}")", i))).status, 0);
  }
  EXPECT_TRUE(eventually([&] { return counted(9) == static_cast<std::uint64_t>(sent); }, 10s)) << counted(9);
  // A data plane that dies takes with it what had not come to the kernel yet.
  std::this_thread::sleep_for(500ms);
  const pid_t before = attached_->data_plane();
  kill(before, SIGKILL);
  ASSERT_TRUE(eventually(
      [&] {
        const auto now = but_for_the_compiler(attached_->process().pid());
        return now.size() == 1 && now.front() != before &&
               product(*host_, {"status", attached_->ifname()}).status == 0;
      },
      30s));
  send(5001, 30);
  EXPECT_TRUE(eventually([&] { return counted(9) == static_cast<std::uint64_t>(sent) + 30; }, 10s))
      << counted(9);
}

// The device's table goes on with what is in it where maps are the same, and the kernel's do where the whole
// program is: what the device has counted comes to the new ones, and they say what it is told.
TEST_P(ProgramMapsOnTheWire, NewMapsInTheKernelAreInStepWithWhatTheDeviceHas) {
  attach(text("counting"));
  send(5001, 40);
  set_mode(1);
  EXPECT_TRUE(eventually([&] { return counted(9) == 40 && !passes(5003); }, 10s)) << counted(9);
  const auto other = inspect_all(fmt::format(
      R"({{"stage": "program", "object": "{}", "section": "xdp/counting",
          "interfaces": [{{"interface": "{}", "ifindex": 7}}]}})",
      object_.path(), attached_->ifname()));
  ASSERT_EQ(attached_->apply(other).status, 0);
  EXPECT_TRUE(eventually([&] { return passes(5003); }, 10s)) << "the new map says nothing";
  send(5001, 5);
  EXPECT_TRUE(eventually([&] { return counted(9) == 45; }, 10s)) << counted(9);
  set_mode(1);
  EXPECT_TRUE(eventually([&] { return !passes(5003); }, 10s));
}

TEST_P(ProgramMapsOnTheWire, AreToldOf) {
  attach(text("counting"));
  EXPECT_TRUE(eventually([&] { return maps().at(0).at("lag_ms") > 0; }, 10s));
  std::set<std::string> told;
  for (const Json& map : maps()) {
    EXPECT_EQ(map.value("problem", ""), "") << map;
    told.insert(map.at("map").get<std::string>() + " " + map.at("direction").get<std::string>());
  }
  EXPECT_EQ(told, (std::set<std::string>{"counts both ways", "sizes both ways", "mode to the device"}))
      << "of the program's, not of the object's";
  const Outcome shown = product(*host_, {"status", attached_->ifname()});
  EXPECT_NE(shown.out.find("map counts: both ways, "), std::string::npos) << shown.out;
  // None are left behind.
  ASSERT_EQ(attached_->apply(inspect_all(R"({"stage": "conntrack"})")).status, 0);
  EXPECT_FALSE(std::filesystem::exists(pin("counts")));
  attached_->detach();
  EXPECT_FALSE(std::filesystem::exists(Pins::directory(*host_, host_port().ifname())));
}

// Operators write while packets are counted: neither loses anything.
TEST_P(ProgramMapsOnTheWire, ManyWritersAddUp) {
  attach(text("counting"));
  prefix(5001, 0, 1);
  std::this_thread::sleep_for(500ms);
  std::thread operators([&] {
    for (int i = 0; i < 20; i++) {
      prefix(static_cast<std::uint16_t>(6000 + i), 5, i);
      std::this_thread::sleep_for(20ms);
    }
  });
  send(5001, 2000);
  operators.join();
  EXPECT_TRUE(eventually([&] { return sized(5001) == 2000u; }, 10s)) << sized(5001).value_or(0);
  for (int i = 0; i < 20; i++) {
    EXPECT_EQ(sized(static_cast<std::uint16_t>(6000 + i)), 5u);
    EXPECT_EQ(sized(static_cast<std::uint16_t>(6000 + i), 8), static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(counted(9), 2000u);
}

}  // namespace
}  // namespace xdpgpu::lab
