// SPDX-License-Identifier: MIT
//
// tests/netns/takeover_test.cpp: what a client, a stranger with a shell, or a data plane that has been taken
// over tries at the doors between it and root.
#include <bpf/bpf.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <set>

#include "tests/netns/control_socket.hpp"
#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class Takeover : public OnOneWire {
 protected:
  Takeover() { config_ = {.queues = 1, .mode = "split"}; }
  std::string name() const { return host_port().ifname(); }
};

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";

Fd pinned(const std::string& ifname, const char* map) {
  Fd fd(bpf_obj_get(fmt::format("{}/{}", Pins::directory(ifname), map).c_str()));
  if (!fd) throw Error(fmt::format("no pinned map {}: {}", map, std::strerror(errno)));
  return fd;
}

// ---- requests --------------------------------------------------------------------------------------

TEST_F(Takeover, RequestsOfWrongTypesAreAnsweredAndEndNothing) {
  attach(inspect_all(kPass));
  const auto refused = [&](const char* request, const char* argument, const Json& value) {
    Json arguments = {{"text", "{}"}, {"file", "f"}, {argument, value}};
    if (std::string_view(argument) == "from") arguments["interface"] = name();
    const Json answer = ask(name(), request, arguments);
    EXPECT_FALSE(answer.at("ok").get<bool>()) << request << " " << argument << ": " << value;
    EXPECT_FALSE(answer.at("error").get<std::string>().empty());
  };
  for (const Json& value :
       {Json(1), Json("true"), Json(nullptr), Json(Json::array()), Json(Json::object())}) {
    refused("detach", "keep", value);
    refused("bypass", "on", value);
    refused("policy.apply", "audit", value);
  }
  for (const Json& value : {Json(-1), Json(1.5), Json("1"), Json(nullptr), Json(Json::array()), Json(true)}) {
    refused("flows.list", "limit", value);
    refused("flows.list", "from", value);
    refused("policy.apply", "confirm_s", value);
  }
  for (const Json& value : {Json(1), Json(nullptr), Json(Json::array()), Json(true)}) {
    refused("flows.list", "interface", value);
    refused("policy.apply", "text", value);
    refused("policy.apply", "file", value);
  }
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1}).received, 1U);
  EXPECT_FALSE(attached_->status().empty());
  EXPECT_EQ(attached_->detach().status, 0);
}

// So many entries of the generation in force as a data plane would publish them.
void remember_flows(const std::string& ifname, std::uint32_t generation, std::uint32_t count) {
  const Fd map = pinned(ifname, "flow_verdicts");
  std::vector<std::uint32_t> keys(count);
  std::iota(keys.begin(), keys.end(), 0U);
  std::vector<xg_flow_verdict> entries(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    entries[i].generation = generation;
    entries[i].action = XG_DROP;
    entries[i].key.family = 4;
    entries[i].key.protocol = 17;
    entries[i].key.src[0] = i;
  }
  std::uint32_t done = count;
  if (bpf_map_update_batch(map.get(), keys.data(), entries.data(), &done, nullptr) != 0 || done != count)
    throw Error(fmt::format("cannot fill the flow verdicts: {}", std::strerror(errno)));
}

TEST_F(Takeover, ALongListOfFlowsComesInParts) {
  constexpr std::uint32_t kFlows = 12'000, kPart = 10'000;
  attach(policy(R"("default": "pass")"));
  remember_flows(name(), XG_ACTIVE_GENERATION(attached_->pins().config().active), kFlows);
  const Json all = ask(name(), "flows.list", {{"limit", 1'000'000}, {"interface", name()}}).at("result");
  EXPECT_EQ(all.at("current"), kFlows);
  EXPECT_EQ(all.at("flows").size(), kPart) << "however many are asked for";
  EXPECT_EQ(all.at("left_out"), kFlows - kPart);
  const Json rest =
      ask(name(), "flows.list", {{"limit", 1'000'000}, {"interface", name()}, {"from", all.at("next")}})
          .at("result");
  EXPECT_EQ(rest.at("flows").size(), kFlows - kPart);
  EXPECT_EQ(rest.at("left_out"), 0);
  EXPECT_FALSE(rest.contains("next"));
  std::set<std::uint32_t> indexes;
  for (const Json* part : {&all, &rest})
    for (const Json& flow : part->at("flows")) indexes.insert(flow.at("index").get<std::uint32_t>());
  EXPECT_EQ(indexes.size(), kFlows) << "each once";

  const Outcome few = product(*host_, {"flows", "list", name(), "--limit", "10"});
  EXPECT_EQ(few.status, 0) << few.err;
  EXPECT_NE(few.out.find("11990 more are left out"), std::string::npos) << few.out.substr(0, 300);
  const Outcome many = product(*host_, {"flows", "list", name(), "--limit", "11000", "-o", "json"});
  EXPECT_EQ(many.status, 0) << many.err;
  const Json listed = Json::parse(many.out);
  EXPECT_EQ(listed.at("flows").size(), 11'000U);
  EXPECT_EQ(listed.at("listed"), 11'000);
  EXPECT_EQ(listed.at("left_out"), 1'000);
}

// ---- what a dead attach left -------------------------------------------------------------------------

TEST_F(Takeover, AGenerationNearItsEndIsNotGoneOnWith) {
  constexpr std::uint32_t kNearTheEnd = 0xfffffffe;
  const std::string open = policy(R"("default": "pass")");
  attach(open);
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  {
    const Fd map = pinned(name(), "config");
    const std::uint32_t zero = 0;
    xg_config config = dead->pins().config();
    config.active = std::uint64_t{kNearTheEnd} << 32 | XG_ACTIVE_SLOT(config.active);
    ASSERT_EQ(bpf_map_update_elem(map.get(), &zero, &config, BPF_ANY), 0);
  }
  attach(open);
  EXPECT_LT(XG_ACTIVE_GENERATION(attached_->pins().config().active), 100U) << "it starts anew";
  EXPECT_NE(attached_->process().err().find("policy generation 4294967294"), std::string::npos)
      << attached_->process().err();
  EXPECT_EQ(attached_->apply(policy(R"("default": "pass", "fragments": "drop")")).status, 0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1}).received, 1U);
}

}  // namespace
}  // namespace xdpgpu::lab
