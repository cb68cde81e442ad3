// SPDX-License-Identifier: MIT
//
// tests/netns/takeover_test.cpp: what a client, a stranger with a shell, or a data plane that has been taken
// over tries at the doors between it and root.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "maps/tables.h"
#include "tests/netns/control_socket.hpp"
#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;

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
    if (std::string_view(argument) == "from" || std::string_view(request) == "flows.count")
      arguments["interface"] = name();
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
    refused("flows.count", "entries", value);
    refused("flows.count", "since_ns", value);
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

  // Some of them, by their indices; what is beyond the table is none.
  const Json some = ask(name(), "flows.list",
                        {{"interface", name()}, {"indices", {5U, kFlows - 1, kFlows, 4'000'000'000U}}})
                        .at("result");
  ASSERT_EQ(some.at("flows").size(), 2U) << some;
  EXPECT_EQ(some.at("flows").at(0).at("index"), 5);
  EXPECT_EQ(some.at("flows").at(1).at("index"), kFlows - 1);
  // Counted part by part, and no further than that.
  const Json part =
      ask(name(), "flows.count", {{"interface", name()}, {"from", 8'000U}, {"entries", 1'000U}}).at("result");
  EXPECT_EQ(part.at("current"), 1'000);
  EXPECT_EQ(part.at("next"), 9'000);
  EXPECT_TRUE(part.at("index").empty()) << "none has had a packet";
  const Json much =
      ask(name(), "flows.count", {{"interface", name()}, {"entries", 4'000'000'000U}}).at("result");
  EXPECT_EQ(much.at("current"), kFlows);
  EXPECT_LE(much.value("next", 0U), 32'768U) << "however many are asked for";
  const Json beyond =
      ask(name(), "flows.count", {{"interface", name()}, {"from", 4'000'000'000U}}).at("result");
  EXPECT_EQ(beyond.at("current"), 0);
  EXPECT_FALSE(beyond.contains("next"));
  EXPECT_EQ(ask(name(), "flows.count", {{"interface", "nobodys"}}).at("result").at("table"), 0);

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

// ---- what others put where root looks ------------------------------------------------------------------

// On a BPF filesystem (mode 1777) and a /run of its own, after `before`, with $PINS and $RUN, the folders
// that hold pins and sockets, and $IN, where this interface's pins would stand below the former.
Outcome run_where(const Namespace& host, const std::string& ifname, const std::string& before,
                  const std::string& then) {
  const std::string root = XG_PIN_ROOT, run = XG_RUN_ROOT;
  const std::string in = Pins::directory(host, ifname).substr(root.size() + 1);
  const std::string script = fmt::format(
      "PINS={} RUN={} IN={} IF={} XG={}; victim=$(mktemp -d) && mount -t bpf bpf /sys/fs/bpf && "
      "mount -t tmpfs -o mode=1777 tmpfs /run && {} && {{ {}; status=$?; ls -R $victim $PINS 2> /dev/null; "
      "rm -rf $victim; exit $status; }}",
      root, run, in, ifname, product_path(), before, then);
  return run_program(host, {"/usr/bin/unshare", "--mount", "/bin/bash", "-c", script});
}

TEST_F(Takeover, PinsThatOthersHadAHandInAreNeitherOpenedNorRemoved) {
  const struct {
    const char *before, *said;
  } kinds[] = {
      {"mkdir -p $victim/$IN && touch $victim/$IN/kept && ln -s $victim $PINS", "is a symbolic link"},
      {"mkdir -p $PINS/$IN/kept && chown -R 65534 $PINS", "is not root's"},
      {"mkdir -p $PINS/$IN/kept && chmod 777 $PINS", "can be written by others"},
      {"mkdir -p -m 700 $PINS/$IN/kept && chown 65534 $PINS/$IN", "is not root's"},
  };
  for (const auto& kind : kinds)
    for (const char* then : {"$XG detach $IF", "$XG attach $IF --pass-all --daemon"}) {
      SCOPED_TRACE(fmt::format("{}; {}", kind.before, then));
      const Outcome outcome = run_where(*host_, name(), kind.before, then);
      EXPECT_EQ(outcome.status, 1) << outcome.out;
      EXPECT_NE(outcome.err.find(kind.said), std::string::npos) << outcome.err;
      EXPECT_NE(outcome.out.find("kept"), std::string::npos) << "it was removed: " << outcome.out;
    }
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
}

TEST_F(Takeover, ARunFolderThatOthersHadAHandInIsNotUsed) {
  const struct {
    const char *before, *said;
  } kinds[] = {
      {"ln -s $victim $RUN", "is a symbolic link"},
      {"mkdir $RUN && chown 65534 $RUN", "is not root's"},
      {"mkdir -m 777 $RUN", "can be written by others"},
  };
  for (const auto& kind : kinds)
    for (const char* then : {"$XG status $IF", "$XG attach $IF --pass-all --daemon", "$XG detach $IF"}) {
      SCOPED_TRACE(fmt::format("{}; {}", kind.before, then));
      const Outcome outcome = run_where(*host_, name(), kind.before, then);
      EXPECT_EQ(outcome.status, 1) << outcome.out;
      EXPECT_NE(outcome.err.find(kind.said), std::string::npos) << outcome.err;
    }
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
}

// ---- a data plane that has been taken over ---------------------------------------------------------

std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> numbers;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    numbers.push_back(std::stoi(entry.path().filename().string()));
  return numbers;
}

// Copies of a process's descriptors, as whoever has taken it over holds them.
std::vector<Fd> descriptors_of(pid_t process) {
  const Fd handle(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  std::vector<Fd> all;
  for (const int number : numbers_in(fmt::format("/proc/{}/fd", process)))
    if (Fd fd(static_cast<int>(syscall(SYS_pidfd_getfd, handle.get(), number, 0))); fd)
      all.push_back(std::move(fd));
  return all;
}

std::optional<bpf_map_info> as_map(const Fd& fd) {
  const auto target = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd.get()));
  if (target.string().find("bpf-map") == std::string::npos) return std::nullopt;
  bpf_map_info info{};
  __u32 size = sizeof(info);
  if (bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0) return std::nullopt;
  return info;
}

TEST_F(Takeover, ADataPlaneHoldsNoDescriptorThatChangesAMap) {
  attach_both(inspect_udp(7000, R"({"stage": "l2fwd", "cache": true})"));
  std::set<std::string> held;
  for (const Fd& fd : descriptors_of(attached_->data_plane())) {
    const auto info = as_map(fd);
    if (!info) continue;
    held.insert(info->name);
    SCOPED_TRACE(info->name);
    std::vector<char> value(std::size_t{info->value_size} * 4096);
    std::uint32_t key = 0, one = 1;
    EXPECT_EQ(bpf_map_lookup_elem(fd.get(), &key, value.data()), 0);
    EXPECT_NE(bpf_map_update_elem(fd.get(), &key, value.data(), BPF_ANY), 0);
    EXPECT_NE(bpf_map_update_batch(fd.get(), &key, value.data(), &one, nullptr), 0);
    EXPECT_NE(bpf_map_delete_elem(fd.get(), &key), 0);
    void* const at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    EXPECT_EQ(at, MAP_FAILED);
    if (at != MAP_FAILED) munmap(at, 4096);
  }
  const std::set<std::string> expected{"counters", "exempt_counters", "rule_counters", "rule_shed"};
  EXPECT_EQ(held, expected);
}

// What it has mapped, by bytes and by whether it can be written.
TEST_F(Takeover, ADataPlaneWritesTheMemoryThatIsItsToWrite) {
  attach(inspect_udp(7000, R"({"stage": "l2fwd", "cache": true})"));
  using Sizes = std::map<std::string, std::multiset<std::uint64_t>>;  // by permissions
  Sizes mapped, expected;
  std::ifstream file(fmt::format("/proc/{}/maps", attached_->data_plane()));
  for (std::string line; std::getline(file, line);) {
    if (line.find("bpf-map") == std::string::npos) continue;
    std::uint64_t begin = 0, end = 0;
    char permissions[5] = {};
    ASSERT_EQ(sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, permissions), 3) << line;
    mapped[permissions].insert(end - begin);
  }
  const auto expect = [&](const char* permissions, const std::vector<const char*>& names) {
    for (const char* map : names) {
      const auto info = as_map(pinned(name(), map));
      ASSERT_TRUE(info) << map;
      const std::uint64_t bytes = std::uint64_t{info->max_entries} * info->value_size;
      expected[permissions].insert((bytes + 4095) / 4096 * 4096);
    }
  };
  expect("rw-s", {"queue_state", "flow_verdicts", "flow_stats", "mirror_rings", "mirror_state", "rewrites",
                  "worker_counters", "queue_metrics"});
  // Workers and the control thread each.
  expect("r--s",
         {"config", "config", "egress_records", "egress_heads", "flow_verdicts", "flow_stats", "rewrites"});
  // The constants of the XDP program and of the reinjection's, which no process can change any more.
  expected["r--s"].insert({4096, 4096});
  EXPECT_EQ(mapped, expected);
}

// The broker's messages, spoken in the data plane's place while it is held.
class Taken {
 public:
  struct Message {
    std::uint32_t magic = 0x78677067, type = 0, a = 0, b = 0;
    char text[496] = {};
  };
  enum Type : std::uint32_t {
    create_maps = 1,
    install_maps = 2,
    stopped = 4,
    renamed = 6,
    activate = 7,
    set_state = 8,
    ending = 9
  };
  enum Answer : std::uint32_t { maps_created = 64, done, refused, stop, gone };

  explicit Taken(pid_t data_plane) : data_plane_(data_plane) {
    kill(data_plane_, SIGSTOP);
    for (Fd& fd : descriptors_of(data_plane)) {
      int type = 0;
      socklen_t length = sizeof(type);
      sockaddr_storage peer{};
      socklen_t peer_length = sizeof(peer);
      if (getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET &&
          getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0)
        channel_ = std::move(fd);
    }
    if (!channel_) throw Error("no channel found");
  }
  ~Taken() { kill(data_plane_, SIGCONT); }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  // The answer's type; its text and descriptors are kept.
  std::uint32_t ask(const Message& message) {
    tell(message);
    return hear();
  }
  void tell(const Message& message) const {
    if (send(channel_.get(), &message, sizeof(message), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(sizeof(message)))
      throw Error("the broker does not listen");
  }
  std::uint32_t hear() {
    Message answer;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
    iovec data{&answer, sizeof(answer)};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    pollfd there{channel_.get(), POLLIN, 0};  // whose owner made it one that never waits
    poll(&there, 1, 10'000);
    if (const ssize_t length = recvmsg(channel_.get(), &header, MSG_CMSG_CLOEXEC);
        length != static_cast<ssize_t>(sizeof(answer)))
      throw Error(fmt::format("the broker does not answer ({}, {}), which said before: {}", length,
                              length < 0 ? std::strerror(errno) : "", said));
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c))
      for (std::size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
        given.emplace_back(fd);
      }
    said = answer.text;
    number = answer.a;
    return answer.type;
  }
  static Message message(std::uint32_t type, std::uint32_t a, std::uint32_t b) {
    Message message;
    message.type = type;
    message.a = a;
    message.b = b;
    return message;
  }
  std::uint32_t ask(std::uint32_t type, std::uint32_t a, std::uint32_t b = 0) {
    return ask(message(type, a, b));
  }
  // As a policy's first half is.
  std::uint32_t install(std::uint32_t slot, const xg_policy& policy) {
    Message message;
    message.type = install_maps;
    message.a = slot;
    std::memcpy(message.text, &policy, sizeof(policy));
    return ask(message);
  }

  std::vector<Fd> given;
  std::string said;
  std::uint32_t number = 0;  // the answer's first

 private:
  pid_t data_plane_;
  Fd channel_;
};

TEST_F(Takeover, NoMorePolicyTablesAreMadeThanHaveAUse) {
  attach(inspect_all(kPass));
  {
    Taken taken(attached_->data_plane());
    // One policy's are in force.
    EXPECT_EQ(taken.ask(Taken::create_maps, 1000, 10), Taken::maps_created);
    EXPECT_EQ(taken.ask(Taken::create_maps, 1000, 10), Taken::maps_created);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(taken.ask(Taken::create_maps, 1u << 23, 1u << 17), Taken::refused);
    EXPECT_NE(taken.said.find("has not let go"), std::string::npos) << taken.said;
    taken.given.clear();
    EXPECT_EQ(taken.ask(Taken::create_maps, 1000, 10), Taken::maps_created)
        << "they are not counted for ever";
    EXPECT_EQ(taken.ask(Taken::create_maps, 1000, 10), Taken::maps_created);
    // A mapping holds one as a descriptor does.
    void* const at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, taken.given.front().get(), 0);
    ASSERT_NE(at, MAP_FAILED);
    taken.given.clear();
    EXPECT_EQ(taken.ask(Taken::create_maps, 1000, 10), Taken::maps_created);
    EXPECT_EQ(taken.ask(Taken::create_maps, 1000, 10), Taken::refused);
    munmap(at, 4096);
  }
  // And the one that lives goes on.
  for (int i = 0; i < 5; ++i) EXPECT_EQ(attached_->apply(inspect_all(kPass)).status, 0);
  EXPECT_EQ(attached_->detach().status, 0);
}

TEST_F(Takeover, WhatSteersTheProgramTheBrokerChangesAndChecks) {
  attach(inspect_all(kPass));
  const xg_config before = attached_->pins().config();
  const std::uint32_t slot = XG_ACTIVE_SLOT(before.active), generation = XG_ACTIVE_GENERATION(before.active);
  {
    Taken taken(attached_->data_plane());
    xg_policy policy{};
    const auto install = [&](std::uint32_t into, std::uint32_t as) {
      taken.given.clear();
      EXPECT_EQ(taken.ask(Taken::create_maps, 1, 1), Taken::maps_created);
      policy.generation = as;
      return taken.install(into, policy);
    };
    EXPECT_EQ(install(slot, generation + 1), Taken::refused) << "packets go by it";
    for (const std::uint32_t wrong : {0u, generation - 1, generation + 1000, 0xffffffffu})
      EXPECT_EQ(install(slot ^ 1U, wrong), Taken::refused) << wrong;
    policy.rule_count = XG_MAX_RULES + 1;
    EXPECT_EQ(install(slot ^ 1U, generation + 1), Taken::refused) << "too many rules";
    policy.rule_count = 0;
    EXPECT_EQ(install(slot ^ 1U, generation + 1), Taken::done);
    EXPECT_EQ(taken.ask(Taken::activate, slot ^ 1U, generation + 2), Taken::refused)
        << "of that none is installed";
    EXPECT_EQ(attached_->pins().config().active, before.active);
    EXPECT_EQ(taken.ask(Taken::activate, slot ^ 1U, generation + 1), Taken::done);
    EXPECT_EQ(XG_ACTIVE_GENERATION(attached_->pins().config().active), generation + 1);
    EXPECT_EQ(taken.ask(Taken::set_state, XG_STATE_DRAINING, 0), Taken::done);
    EXPECT_EQ(attached_->pins().config().state, XG_STATE_DRAINING);
    EXPECT_EQ(taken.ask(Taken::set_state, XG_STATE_RUNNING, 0), Taken::done);
  }
  // Its targets are the interfaces of this attach, and no other.
  const Fd targets = pinned(name(), "tx_ports");
  for (std::uint32_t port = 0; port < XG_MAX_PORTS; ++port) {
    std::uint32_t ifindex = 0;
    if (bpf_map_lookup_elem(targets.get(), &port, &ifindex) != 0) ifindex = 0;
    EXPECT_EQ(ifindex, port == 0 ? host_port().ifindex() : 0) << port;
  }
}

// A data plane that was to detach everything may ask for its policy to stay, as for "detach --keep".
TEST_F(Takeover, WhatIsToBeDetachedStaysForNoDataPlane) {
  for (const bool answers : {true, false}) {
    SCOPED_TRACE(answers ? "says that it stopped" : "dies before");
    attach(inspect_all(kPass));
    {
      Taken taken(attached_->data_plane());
      attached_->process().signal(SIGTERM);
      EXPECT_EQ(taken.hear(), Taken::stop);
      taken.tell(Taken::message(Taken::ending, 1, 0));
      if (answers) {
        EXPECT_EQ(taken.ask(Taken::stopped, 1, 1), Taken::gone);
        EXPECT_EQ(taken.number, 0U) << "what decides was left";
      }
      kill(attached_->data_plane(), SIGKILL);
    }
    attached_->process().wait(20s);
    EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
    attached_.reset();
  }
}

TEST_F(Takeover, TheBrokerAloneKilledLeavesNoPacketInHand) {
  attach(inspect_udp(7000, R"({"stage": "l2fwd"})", R"("on_failure": "drop")"));
  std::atomic<bool> stop{false};
  std::thread load([&] {
    Sender sender(left_port());
    const auto frames = many_flows(7000, 16, 10);
    while (!stop) sender.send_paced(frames, 10000);
  });
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("transmitted") > 100; }));
  const Pins& pins = attached_->pins();
  const pid_t data_plane = attached_->data_plane();
  attached_->process().signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return pins.kernel("drop_failure") > 100; }, 5s)) << pins.summary();
  EXPECT_TRUE(eventually([&] { return kill(data_plane, 0) != 0; }, 10s)) << "it lives on";
  stop = true;
  load.join();
  const auto handed_over = pins.kernel("inspected");
  EXPECT_EQ(handed_over, pins.worker("received") + pins.worker("lost_in_kernel"))
      << "it drains though nobody tells the program: " << pins.summary();
  EXPECT_EQ(pins.worker("received"), pins.worker("transmitted")) << pins.summary();
}

}  // namespace
}  // namespace xdpgpu::lab
