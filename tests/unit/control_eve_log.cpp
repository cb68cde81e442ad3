// SPDX-License-Identifier: MIT
//
// The writer of logs, with events as a worker tells them: what is written, for which policy, and where.
#include "userspace/control/eve_log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/bpf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "maps/parse.h"
#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/control/log_places.hpp"
#include "userspace/dataplane/clock.hpp"

namespace xdpgpu::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

constexpr const char* kPipelines =
    R"("rules": [{"action": {"inspect": "web"}}, {"action": {"inspect": "names"}}],
  "lists": {"bad": {"type": "domain", "names": ["bad.example"]}},
  "pipelines": {"web": [{"stage": "acl", "rules": [{"name": "no", "action": "drop"}]}],
                "names": [{"stage": "domains", "ports": [53, 5353], "lists": [{"list": "@bad", "action": "drop"}]}]})";

class EveLogs : public testing::Test {
 protected:
  EveLogs() {
    std::string name = "/tmp/xdpgpu-eve-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
    slot_.descriptors = &descriptor_;
    slot_.results = &result_;
    batch_.slot = &slot_;
    batch_.count = 1;
    batch_.ports = {0};
    EXPECT_TRUE(log_.start());
  }
  ~EveLogs() override {
    log_.stop();
    std::filesystem::remove_all(folder_);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string outputs(const std::vector<std::string>& names) const {
    std::string text = R"("outputs": [)";
    for (const auto& name : names)
      text += (text.back() == '[' ? "" : ", ") + (R"({"file": ")" + path(name) + R"("})");
    return text + "]";
  }
  // In force from now on, its log as it is written there; empty: none.
  void use(const std::string& log, u32 generation, const std::string& pipelines = kPipelines,
           bool settled = true, policy::FileContents files = {}) {
    auto made = compiler::compile_policy(
        {"p.json", R"({"version": 1, )" + pipelines + (log.empty() ? "" : R"(, "log": {)" + log + "}") + "}",
         std::move(files)},
        {"eth0"});
    ASSERT_TRUE(made) << made.error().sentence;
    const auto policy = std::make_shared<const compiler::CompiledPolicy>(std::move(*made));
    log_.coming(policy, generation);
    log_.in_force(policy->policy);
    if (settled) log_.settled(policy->policy);
  }
  // As the control thread does, for so long.
  void serve(std::chrono::milliseconds time = 120ms) {
    for (auto left = time; left > 0ms; left -= 10ms) {
      for (const auto& output : log_.to_open()) log_.opened(output, open_log(output));
      for (const auto& news : log_.news()) news_.push_back(news);
      std::this_thread::sleep_for(10ms);
    }
  }
  // A worker's: a DNS query for bad.example, of pipeline `names`, that was dropped.
  void drop(u32 generation = 1, u16 pipeline = 1) {
    const u8 frame[] = {2, 0,   0,   0,   0,  1,   2,   0,   0,   0,   0,   2,   8,  0, 0x45, 0, 0,    57,
                        0, 0,   0,   0,   64, 17,  0,   0,   10,  0,   0,   1,   10, 0, 0,    2, 0x4e, 0x20,
                        0, 53,  0,   37,  0,  0,   0,   7,   1,   0,   0,   1,   0,  0, 0,    0, 0,    0,
                        3, 'b', 'a', 'd', 7,  'e', 'x', 'a', 'm', 'p', 'l', 'e', 0,  0, 1,    0, 1};
    u8* const at = region_.data() + XG_FRAME_DATA;
    std::memcpy(at, frame, sizeof(frame));
    xg_packet parsed;
    xg_parse(at, at + sizeof(frame), 0, &parsed);
    xg_metadata metadata{};
    xg_metadata_from(&metadata, &parsed, 0);
    metadata.rx_time_ns = dataplane::monotonic_ns();
    metadata.generation = generation;
    metadata.pipeline = pipeline;
    std::memcpy(at - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    descriptor_ = {XG_FRAME_DATA, sizeof(frame), 0};
    result_ = {XG_VERDICT(u32{XG_DROP}, 0u, 1u, 1u), slot_.events != nullptr ? XG_RES_EVENT : 0, 0, 0};
    worker_.tell(batch_, region_.data(), dataplane::monotonic_ns());
  }
  std::vector<Json> lines(const std::string& name) const {
    std::ifstream file(path(name));
    std::vector<Json> all;
    for (std::string line; std::getline(file, line);) all.push_back(Json::parse(line));
    return all;
  }
  std::vector<std::string> types(const std::string& name) const {
    std::vector<std::string> all;
    for (const Json& line : lines(name)) all.push_back(line.at("event_type"));
    return all;
  }

  std::string folder_;
  std::vector<std::string> news_;
  xg_descriptor descriptor_{};
  xg_result result_{};
  std::vector<u8> region_ = std::vector<u8>(XG_CHUNK_SIZE);
  gpu::Slot slot_{};
  dataplane::Batch batch_;
  dataplane::EventSelection selection_;
  dataplane::EventLog worker_{selection_};
  EveLog log_{selection_, {&worker_}, {"eth0"}};
};

TEST_F(EveLogs, WithoutALogNothingIsTold) {
  use("", 1);
  drop();
  serve(40ms);
  EXPECT_FALSE(selection_.anything());
  EXPECT_FALSE(log_.report());
  EXPECT_FALSE(log_.wants_stats());
}

TEST_F(EveLogs, EventsSayWhoDecidedAndWhen) {
  use(outputs({"eve.json"}) + R"(, "payload": 2)", 1);
  drop();  // before the file is open
  serve();
  drop();
  serve();
  ASSERT_THAT(types("eve.json"), ElementsAre("dns", "drop", "dns", "drop"));
  const Json drop = lines("eve.json")[1];
  EXPECT_EQ(drop.at("in_iface"), "eth0");
  EXPECT_EQ(drop.at("xdpgpu").at("pipeline"), "names");
  EXPECT_THAT(drop.at("xdpgpu").at("decided_by"), HasSubstr("stage 1 (domains)"));
  EXPECT_EQ(drop.at("payload"), "AAc=");
  EXPECT_EQ(lines("eve.json")[0].at("dns").at("rrname"), "bad.example");
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm told{};
  std::istringstream(drop.at("timestamp").get<std::string>()) >> std::get_time(&told, "%Y-%m-%dT%H:%M:%S");
  EXPECT_NEAR(static_cast<double>(timegm(&told)), static_cast<double>(now), 5);
  const auto report = log_.report();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->drop.told, 2U);
  EXPECT_EQ(report->dns.told, 2U);
  ASSERT_EQ(report->outputs.size(), 1U);
  EXPECT_EQ(report->outputs[0].lines, 4U);
  EXPECT_TRUE(report->outputs[0].open);
  EXPECT_THAT(log_text(*report), HasSubstr("eve.json: 4 lines, 0 missed\n"));
  EXPECT_THAT(news_, IsEmpty());
}

TEST_F(EveLogs, OnlyTheEventsThatThePolicyNamesAreTold) {
  use(outputs({"eve.json"}) + R"(, "events": ["dns"])", 1);
  drop();
  serve();
  EXPECT_THAT(types("eve.json"), ElementsAre("dns"));
  use(outputs({"eve.json"}) + R"(, "events": ["stats"], "stats_every": "1s")", 2);
  drop(2);
  serve();
  EXPECT_THAT(types("eve.json"), ElementsAre("dns"));
  EXPECT_FALSE(log_.wants_stats()) << "not yet";
  serve(1000ms);
  EXPECT_TRUE(log_.wants_stats());
  EXPECT_FALSE(log_.wants_stats());
  log_.stats({{"uptime", 3}});
  serve();
  EXPECT_THAT(types("eve.json"), ElementsAre("dns", "stats"));
}

// A program that puts out eight bytes for its first map.
std::string putting_out() {
  programs::ObjectProgram object;
  object.section = "xdp";
  object.program.name = "reports";
  object.program.license = "GPL";
  gpu::programs::Map& map = object.program.maps.emplace_back();
  map.name = "reported";
  map.type = BPF_MAP_TYPE_PERF_EVENT_ARRAY;
  map.key_bytes = map.value_bytes = 4;
  map.entries = 1;
  object.program.instructions = {
      // NOLINTNEXTLINE(misc-redundant-expression): parts of the opcode are 0
      {.opcode = BPF_LD | BPF_IMM | BPF_DW, .destination = 2, .source = BPF_PSEUDO_MAP_IDX},
      {},
      {.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .destination = 3},
      {.opcode = BPF_ALU64 | BPF_MOV | BPF_X, .destination = 4, .source = 10},
      // NOLINTNEXTLINE(misc-redundant-expression): likewise
      {.opcode = BPF_ALU64 | BPF_ADD | BPF_K, .destination = 4, .immediate = -8},
      {.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .destination = 5, .immediate = 8},
      {.opcode = BPF_JMP | BPF_CALL, .immediate = BPF_FUNC_perf_event_output},
      {.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .immediate = 2},
      {.opcode = BPF_JMP | BPF_EXIT}};
  return programs::to_bytes(object).value();
}
TEST_F(EveLogs, WhatAProgramPutOutNamesAMapThatItHas) {
  use(outputs({"eve.json"}) + R"(, "events": ["program"])", 1,
      R"("rules": [{"action": {"inspect": "own"}}],
         "pipelines": {"own": [{"stage": "program", "object": "p.o"}]})",
      true, {{policy::program_key("p.o", {}), putting_out()}});
  xg_event put{.map = 0, .length = 2, .asked = 0, .reserved = {}, .bytes = {'h', 'i'}};
  slot_.events = &put;
  drop(1, 0);
  put.map = 1;  // a device's word
  drop(1, 0);
  put.map = 0xffff;
  drop(1, 0);
  serve();
  ASSERT_THAT(types("eve.json"), ElementsAre("program"));
  const Json program = lines("eve.json")[0].at("program");
  EXPECT_EQ(program.at("name"), "reports");
  EXPECT_EQ(program.at("map"), "reported");
  EXPECT_EQ(program.at("data"), "aGk=");
  const auto report = log_.report();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->program.told, 1U);
  EXPECT_EQ(report->program.wrong, 2U);
}

// A policy takes another one's place: outputs that both have go on, others come and go.
TEST_F(EveLogs, AnotherPolicyHasOtherOutputs) {
  use(outputs({"a", "b"}), 1);
  serve();
  drop();
  serve();
  use(outputs({"b", "c"}), 2);
  serve();
  drop(2);
  serve();
  EXPECT_THAT(types("a"), ElementsAre("dns", "drop"));
  EXPECT_THAT(types("b"), ElementsAre("dns", "drop", "dns", "drop"));
  EXPECT_THAT(types("c"), ElementsAre("dns", "drop"));
  EXPECT_EQ(log_.report()->outputs[0].lines, 4U) << "b's count goes on";
  use("", 3);
  drop(3);
  serve();
  EXPECT_THAT(types("b"), ElementsAre("dns", "drop", "dns", "drop"));
  EXPECT_FALSE(log_.report());
}

// While a policy takes another one's place, each packet is told by its own one's names; of a policy that has
// gone, or that nobody knows, by none.
TEST_F(EveLogs, APacketIsToldByItsOwnPolicy) {
  use(outputs({"eve.json"}), 1);
  use(outputs({"eve.json"}), 2,
      R"("rules": [{"action": {"inspect": "x"}}], "pipelines": {"x": [{"stage": "acl", "rules": []}]})",
      false);
  serve();
  drop(1, 0);
  drop(2, 0);
  drop(9, 0);
  drop(2, 700);
  serve();
  const auto told = lines("eve.json");
  ASSERT_EQ(told.size(), 4U);
  EXPECT_EQ(told[0].at("xdpgpu").at("pipeline"), "web");
  EXPECT_EQ(told[1].at("xdpgpu").at("pipeline"), "x");
  for (const int i : {2, 3}) {
    EXPECT_FALSE(told[i].at("xdpgpu").contains("pipeline"));
    EXPECT_EQ(told[i].at("xdpgpu").at("decided_by"), "stage 1 rule 1");
  }
  use(outputs({"eve.json"}), 3);
  drop(1, 0);
  serve();
  EXPECT_FALSE(lines("eve.json").back().at("xdpgpu").contains("pipeline"));
}

TEST_F(EveLogs, WhatCannotBeOpenedIsSaidAndTheOthersGoOn) {
  symlink("/dev/null", path("link").c_str());
  use(outputs({"link", "eve.json"}), 1);
  serve();
  drop();
  serve();
  EXPECT_THAT(news_, ElementsAre(HasSubstr(path("link") + " is not opened: it is a symbolic link")));
  EXPECT_THAT(types("eve.json"), ElementsAre("dns", "drop"));
  const auto report = log_.report();
  EXPECT_EQ(report->outputs[0].missed, 2U);
  EXPECT_FALSE(report->outputs[0].open);
  EXPECT_THAT(log_text(*report), HasSubstr("2 missed; the log " + path("link")));
  std::filesystem::remove(path("link"));
  serve(1200ms);
  drop();
  serve();
  EXPECT_THAT(types("link"), ElementsAre("dns", "drop"));
  EXPECT_EQ(news_.size(), 2U);
}

TEST_F(EveLogs, AnInterfaceIsToldByTheNameThatItHas) {
  use(outputs({"eve.json"}) + R"(, "events": ["drop"])", 1);
  serve();
  drop();
  serve();
  log_.rename(0, "wan0");
  drop();
  serve();
  ASSERT_EQ(lines("eve.json").size(), 2U);
  EXPECT_EQ(lines("eve.json")[0].at("in_iface"), "eth0");
  EXPECT_EQ(lines("eve.json")[1].at("in_iface"), "wan0");
}

TEST_F(EveLogs, WhatWasToldBeforeTheEndIsWritten) {
  use(outputs({"eve.json"}) + R"(, "events": ["drop"], "rate": 1000000)", 1);
  serve();
  for (int i = 0; i < 1000; i++) drop();
  log_.stop();
  EXPECT_EQ(lines("eve.json").size() + log_.report()->drop.ring_full, 1000U);
  EXPECT_GT(lines("eve.json").size(), 0U);
}

}  // namespace
}  // namespace xdpgpu::control
