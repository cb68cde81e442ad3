// SPDX-License-Identifier: MIT
//
// Logs of real traffic, through the real commands: what reaches which output, what a slow or absent reader
// misses, and that no packet ever waits for it.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/netns/logged.hpp"

namespace xdpgpu::lab {
namespace {

std::string query(const std::string& name) {
  std::string dns("\0\1\1\0\0\1\0\0\0\0\0\0", 12);
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    dns += static_cast<char>(end - at) + name.substr(at, end - at);
    at = end + 1;
  }
  return dns + std::string("\0\0\1\0\1", 5);
}

// A Unix socket that somebody listens at, or the end of a FIFO that somebody reads.
class Reader {
 public:
  Reader(const std::string& path, int type)
      : listener_(type == SOCK_STREAM), datagrams_(type == SOCK_DGRAM), fd_(socket(AF_UNIX, type | kHow, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        (listener_ && listen(fd_, 4) != 0))
      throw Error("cannot listen at " + path);
  }
  explicit Reader(const std::string& fifo) : fd_(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (fd_ < 0) throw Error("cannot read " + fifo);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    close(fd_);
    if (taken_ >= 0) close(taken_);
  }

  // What has come in since it was last asked; of datagrams with a newline each.
  std::string take() {
    if (listener_ && taken_ < 0) taken_ = accept4(fd_, nullptr, nullptr, kHow);
    std::string all;
    char some[65536];
    for (ssize_t bytes; (bytes = read(listener_ ? taken_ : fd_, some, sizeof(some))) > 0;) {
      all.append(some, static_cast<std::size_t>(bytes));
      if (datagrams_) all += '\n';
    }
    return all;
  }

 private:
  static constexpr int kHow = SOCK_CLOEXEC | SOCK_NONBLOCK;
  bool listener_ = false, datagrams_ = false;
  int fd_, taken_ = -1;
};

class LogOnTheWire : public LoggedOnTheWire {
 protected:
  std::string file(const std::string& name) const { return fmt::format(R"({{"file": "{}"}})", path(name)); }
  std::string socket_at(const std::string& name) const {
    return fmt::format(R"({{"socket": "{}"}})", path(name));
  }
  // DNS by its names, what goes to port 7000 dropped, and a log as it stands there; empty: none.
  static std::string logged(const std::string& outputs, const std::string& more = "") {
    const std::string log =
        outputs.empty() ? "" : fmt::format(R"(, "log": {{"outputs": [{}]{}}})", outputs, more);
    return policy(R"("lists": {"bad": {"type": "domain", "names": [".bad.example"]}},
      "rules": [{"match": {"proto": "udp", "dst_port": 53}, "action": {"inspect": "names"}},
                {"match": {"proto": "udp", "dst_port": [7000, 7001]}, "action": {"inspect": "few"}}],
      "pipelines": {"names": [{"stage": "domains", "lists": [{"list": "@bad", "action": "drop"}]}],
        "few": [{"stage": "acl", "rules": [{"name": "none", "match": {"dst_port": 7000}, "action": "drop"}],
                 "default": "pass"}]})" +
                  log);
  }
  // In the policy file that attach is given, as that is whose outputs are opened.
  void attach_logged(const std::string& text) {
    write(text);
    attach_by_file();
  }
  void write(const std::string& text) const { LoggedOnTheWire::write("policy.json", text); }
  Outcome apply(const std::string& text) const {
    write(text);
    return product(*host_, {"policy", "apply", host_port().ifname(), path("policy.json")});
  }

  void ask(const std::string& name) {
    Sender(left_port()).send(build(from_left(next_port_++, 53, query(name))));
  }
  void send_dropped(std::size_t count, const std::string& payload = "drop me") {
    std::vector<Frame> frames;
    for (std::size_t i = 0; i < count; i++)
      frames.push_back(build(from_left(static_cast<std::uint16_t>(1024 + i % 60000), 7000, payload)));
    Sender sender(left_port());
    for (const Frame& frame : frames) sender.send(frame);
  }
  void wait_for_drops(std::uint64_t count) const {
    EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") >= count; }, 10s))
        << attached_->pins().summary();
  }
  // A packet that is inspected and passes does so, whatever becomes of the log.
  void expect_passes() {
    UdpSocket server(*host_, "10.9.0.1", 7001);
    Sender(left_port()).send(build(from_left(next_port_++, 7001, "let me in")));
    EXPECT_EQ(server.receive(5000ms), "let me in");
  }

  std::vector<Json> lines(const std::string& name) const { return lines_of(content(name)); }
  static std::size_t count(const std::vector<Json>& lines, const std::string& type) {
    return static_cast<std::size_t>(std::count_if(
        lines.begin(), lines.end(), [&](const Json& line) { return line.value("event_type", "") == type; }));
  }
  bool has(const std::string& name, const std::string& type, std::size_t least) const {
    return eventually([&] { return count(lines_of(whole(content(name))), type) >= least; }, 10s);
  }

  Json log() const { return attached_->status().at("log"); }
  Json output(std::size_t place = 0) const { return log().at("outputs").at(place); }
  bool says(const std::string& words) {
    return eventually([&] { return attached_->process().err().find(words) != std::string::npos; }, 5s);
  }

  std::uint16_t next_port_ = 20000;
};
INSTANTIATE_TEST_SUITE_P(Netns, LogOnTheWire, kNativeAndGeneric, config_name);

TEST_P(LogOnTheWire, WhatHappensReachesEveryOutput) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  Reader fifo(path("fifo")), stream(path("stream"), SOCK_STREAM), datagrams(path("datagrams"), SOCK_DGRAM);
  attach_logged(logged(fmt::format("{}, {}, {}, {}", file("eve.json"), file("fifo"), socket_at("stream"),
                                   socket_at("datagrams")),
                       R"(, "stats_every": "1s", "payload": 7)"));
  ask("www.good.example");
  ask("www.bad.example");
  send_dropped(1);
  wait_for_drops(2);
  ASSERT_TRUE(has("eve.json", "stats", 1));
  ASSERT_TRUE(has("eve.json", "drop", 2));
  const auto all = lines("eve.json");
  const auto find = [&](const std::string& type, const std::string& rrname) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Json& line) {
      return line.at("event_type") == type &&
             (rrname.empty() || line.value(Json::json_pointer("/dns/rrname"), "") == rrname);
    });
    return found == all.end() ? Json() : *found;
  };
  const Json good = find("dns", "www.good.example"), bad = find("dns", "www.bad.example");
  ASSERT_TRUE(good.is_object() && bad.is_object()) << content("eve.json");
  EXPECT_EQ(good.at("in_iface"), host_port().ifname());
  EXPECT_EQ(good.at("src_ip"), "10.9.0.2");
  EXPECT_EQ(good.at("dest_ip"), "10.9.0.1");
  EXPECT_EQ(good.at("dest_port"), 53);
  EXPECT_EQ(good.at("proto"), "UDP");
  EXPECT_EQ(good.at("dns").at("type"), "query");
  EXPECT_EQ(good.at("xdpgpu").at("action"), "pass");
  EXPECT_EQ(bad.at("xdpgpu").at("action"), "drop");
  EXPECT_EQ(bad.at("xdpgpu").at("pipeline"), "names");
  const auto dropped = std::find_if(all.begin(), all.end(), [](const Json& line) {
    return line.at("event_type") == "drop" && line.at("dest_port") == 7000;
  });
  ASSERT_NE(dropped, all.end());
  EXPECT_EQ(dropped->at("drop").at("reason"), "rules");
  EXPECT_EQ(dropped->at("drop").at("udplen"), 15);
  EXPECT_EQ(dropped->at("payload"), "ZHJvcCBtZQ==");
  EXPECT_NE(dropped->at("xdpgpu").at("decided_by").get<std::string>().find("none"), std::string::npos);
  const Json stats = find("stats", "").at("stats");
  EXPECT_TRUE(stats.at("packets").contains("in"));
  EXPECT_TRUE(stats.at("interfaces").at(host_port().ifname()).at("workers").contains("dropped"));
  EXPECT_TRUE(stats.at("log").contains("outputs"));

  const std::size_t events = count(all, "drop") + count(all, "dns");
  for (Reader* reader : {&fifo, &stream, &datagrams}) {
    std::string text;
    EXPECT_TRUE(eventually([&] {
      text += reader->take();
      const auto there = lines_of(whole(text));
      return count(there, "drop") + count(there, "dns") == events && count(there, "stats") > 0;
    })) << text;
  }
  const Outcome text = product(*host_, {"status", host_port().ifname()});
  EXPECT_NE(text.out.find("log: drop 2 told; dns 2 told"), std::string::npos) << text.out;
  expect_conserved(attached_->pins());
}

TEST_P(LogOnTheWire, JournaldGetsLines) {
  const std::string folder = "/run/systemd/journal";
  if (std::filesystem::exists(folder + "/socket")) GTEST_SKIP() << "the host has a journal of its own";
  const bool made = std::filesystem::create_directories(folder);
  {
    Reader journal(folder + "/socket", SOCK_DGRAM);
    attach_logged(logged(R"({"journald": true})", R"(, "events": ["drop"])"));
    send_dropped(1);
    std::string text;
    EXPECT_TRUE(eventually([&] { return !(text += journal.take()).empty(); }, 10s));
    EXPECT_EQ(text.find("SYSLOG_IDENTIFIER=xdpgpu\nPRIORITY=6\nMESSAGE={\"timestamp\":"), 0U) << text;
    EXPECT_EQ(attached_->detach().status, 0);
    attached_.reset();
  }
  std::filesystem::remove(folder + "/socket");
  if (made) std::filesystem::remove_all("/run/systemd");
}

// Nobody reads, then somebody who stops, then somebody who goes on.
TEST_P(LogOnTheWire, AReaderThatIsSlowOrAbsentMissesAndHoldsNobodyUp) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  attach_logged(logged(file("fifo") + ", " + file("eve.json"), R"(, "events": ["drop"], "rate": 1000000)"));
  EXPECT_TRUE(says("nobody reads this FIFO"));
  send_dropped(10);
  wait_for_drops(10);
  EXPECT_TRUE(eventually([&] { return output(0).at("missed") == 10; }));
  EXPECT_EQ(output(0).at("open"), false);
  EXPECT_TRUE(has("eve.json", "drop", 10)) << "the other one has them";
  Reader reader(path("fifo"));
  EXPECT_TRUE(says("is written again; it has missed 10 lines"));
  constexpr std::size_t kMany = 3000;
  for (std::size_t sent = 0; sent < kMany; sent += 250) {
    send_dropped(250);
    wait_for_drops(10 + sent + 250);
  }
  expect_passes();
  EXPECT_EQ(attached_->pins().worker("dropped"), 10 + kMany);
  std::string text;
  const auto number = [](const Json& json, const char* key) { return json.at(key).get<std::size_t>(); };
  EXPECT_TRUE(eventually(
      [&] {
        const Json all = log();
        const Json &drop = all.at("drop"), &slow = all.at("outputs").at(0), &quick = all.at("outputs").at(1);
        const std::size_t told = number(drop, "told");
        return told + number(drop, "ring_full") == 10 + kMany && number(quick, "lines") == told &&
               number(slow, "missed") > 10;
      },
      10s))
      << log();
  EXPECT_TRUE(eventually(
      [&] {
        text += reader.take();
        const Json all = log();
        const Json& slow = all.at("outputs").at(0);
        return lines_of(whole(text)).size() == number(slow, "lines") &&
               number(slow, "lines") + number(slow, "missed") == number(all.at("drop"), "told");
      },
      10s))
      << log();
  EXPECT_EQ(text, whole(text)) << "it ends with a line's end";
  expect_conserved(attached_->pins());
}

// logrotate: the file is renamed, and the process told, in each of the two ways.
TEST_P(LogOnTheWire, FilesThatAreRenamedAreReopened) {
  attach_logged(logged(file("eve.json"), R"(, "events": ["drop"])"));
  const std::string name = host_port().ifname();
  std::size_t dropped = 0;
  const auto drop_one = [&](const std::string& into, std::size_t lines) {
    send_dropped(1);
    wait_for_drops(++dropped);
    EXPECT_TRUE(has(into, "drop", lines)) << into;
  };
  drop_one("eve.json", 1);
  std::filesystem::rename(path("eve.json"), path("eve.json.1"));
  drop_one("eve.json.1", 2);
  attached_->process().signal(SIGUSR1);
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(path("eve.json")); }));
  drop_one("eve.json", 1);
  for (const bool named : {true, false}) {
    const std::string old = named ? "eve.json.2" : "eve.json.3";
    std::filesystem::rename(path("eve.json"), path(old));
    std::vector<std::string> command{"log", "reopen"};
    if (named) command.push_back(name);
    const Outcome reopened = product(*host_, command);
    EXPECT_EQ(reopened.status, 0) << reopened.err;
    EXPECT_EQ(reopened.out, name + ": 1 of 1 file opened anew\n");
    drop_one("eve.json", 1);
  }
  EXPECT_EQ(lines("eve.json.1").size() + lines("eve.json.2").size() + lines("eve.json.3").size() +
                lines("eve.json").size(),
            dropped);
  // Somebody else has put something in its place.
  std::filesystem::remove(path("eve.json"));
  symlink(path("policy.json").c_str(), path("eve.json").c_str());
  const Outcome refused = product(*host_, {"log", "reopen", name, "-o", "json"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("is a symbolic link"), std::string::npos) << refused.err;
  EXPECT_EQ(Json::parse(refused.out).at(0).at("problems").size(), 1U) << refused.out;
  EXPECT_TRUE(says("is a symbolic link"));
  EXPECT_EQ(content("policy.json").find("timestamp"), std::string::npos);
  expect_passes();
}

TEST_P(LogOnTheWire, ADiskThatIsFullIsSaidAndWrittenToAgain) {
  mkdir(path("small").c_str(), 0755);
  if (mount("tmpfs", path("small").c_str(), "tmpfs", 0, "size=256k,mode=0755") != 0)
    GTEST_SKIP() << "no tmpfs can be mounted here";
  struct Unmount {
    std::string path;
    ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
  } unmount{path("small")};
  attach_logged(logged(file("small/eve.json"), R"(, "events": ["drop"], "rate": 1000000)"));
  for (std::uint64_t sent = 0; sent < 1200; sent += 200) {
    send_dropped(200);
    wait_for_drops(sent + 200);
  }
  EXPECT_TRUE(says("cannot be written: No space left on device"));
  expect_passes();
  EXPECT_EQ(truncate(path("small/eve.json").c_str(), 0), 0);
  EXPECT_TRUE(says("is written again"));
  send_dropped(1);
  wait_for_drops(1201);
  EXPECT_TRUE(eventually(
      [&] {
        const Json all = log();
        const Json& report = all.at("outputs").at(0);
        return report.at("lines").get<std::size_t>() + report.at("missed").get<std::size_t>() ==
               all.at("drop").at("told").get<std::size_t>();
      },
      10s))
      << log();
  // The line that was cut off lost its beginning with the file's content.
  const std::string text = content("small/eve.json");
  (void)lines_of(text.substr(text.find('\n') + 1));
  expect_conserved(attached_->pins());
  attached_.reset();
}

TEST_P(LogOnTheWire, EachKindHasItsRate) {
  attach_logged(logged(file("eve.json"), R"(, "events": ["drop", "dns"], "rate": 5)"));
  send_dropped(100);
  for (int i = 0; i < 20; i++) ask("good.example");
  wait_for_drops(100);
  const auto left_out = [&](const char* kind) { return log().at(kind).at("over_rate").get<std::size_t>(); };
  EXPECT_TRUE(eventually([&] { return left_out("drop") >= 70 && left_out("dns") >= 1; }, 10s)) << log();
  const Json kinds = log();
  EXPECT_EQ(kinds.at("drop").at("told").get<std::size_t>() + left_out("drop"), 100U);
  EXPECT_GE(kinds.at("dns").at("told").get<std::size_t>(), 5U) << "drops do not use it up";
  EXPECT_TRUE(has("eve.json", "drop", 5));
  expect_conserved(attached_->pins());
}

TEST_P(LogOnTheWire, AppliedPoliciesChangeTheOutputs) {
  attach_logged(logged(""));
  EXPECT_FALSE(attached_->status().contains("log"));
  send_dropped(1);
  wait_for_drops(1);
  ASSERT_EQ(apply(logged(file("a"), R"(, "events": ["drop"])")).status, 0);
  send_dropped(1);
  EXPECT_TRUE(has("a", "drop", 1));
  ASSERT_EQ(apply(logged(file("a") + ", " + file("b"), R"(, "events": ["drop"])")).status, 0);
  send_dropped(1);
  EXPECT_TRUE(has("b", "drop", 1));
  EXPECT_TRUE(has("a", "drop", 2));
  write(logged(file("b"), R"(, "events": ["dns"])"));
  attached_->process().signal(SIGHUP);
  EXPECT_TRUE(says("SIGHUP: "));
  ask("bad.example");
  EXPECT_TRUE(has("b", "dns", 1));
  EXPECT_EQ(lines("a").size(), 2U);
  EXPECT_EQ(count(lines("b"), "drop"), 1U);
  // Of another file than attach was given no output is opened: whoever may apply a policy is not root.
  const Outcome applied = attached_->apply(logged(file("c")));
  EXPECT_EQ(applied.status, 0) << applied.err;
  EXPECT_TRUE(says("has no such output; write it there and apply that"));
  EXPECT_FALSE(std::filesystem::exists(path("c")));
  expect_passes();
  ASSERT_EQ(apply(logged("")).status, 0);
  EXPECT_FALSE(attached_->status().contains("log"));
}

TEST_P(LogOnTheWire, WhatSomebodyElseMayHavePutThereIsRefused) {
  symlink("/dev/null", path("link").c_str());
  mkdir(path("open").c_str(), 0755);
  chmod(path("open").c_str(), 0777);
  attach_logged(logged(file("link") + ", " + file("open/eve.json") + ", " + file("eve.json")));
  EXPECT_TRUE(says(path("link") + " is not opened: it is a symbolic link"));
  EXPECT_TRUE(says("everybody may write to " + path("open")));
  send_dropped(1);
  EXPECT_TRUE(has("eve.json", "drop", 1));
  EXPECT_FALSE(std::filesystem::exists(path("open/eve.json")));
  EXPECT_TRUE(eventually([&] { return output(0).at("missed") == 1 && output(1).at("missed") == 1; }))
      << log();
}

// A data plane that was killed has another one behind it, which gets its files from the broker.
TEST_P(LogOnTheWire, TheNextDataPlaneLogsOn) {
  attach_logged(logged(file("eve.json"), R"(, "events": ["drop"])"));
  send_dropped(1);
  ASSERT_TRUE(has("eve.json", "drop", 1));
  kill(attached_->data_plane(), SIGKILL);
  EXPECT_TRUE(says("is back"));
  send_dropped(1);
  EXPECT_TRUE(has("eve.json", "drop", 2));
}

}  // namespace
}  // namespace xdpgpu::lab
