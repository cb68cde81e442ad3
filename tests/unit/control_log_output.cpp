// SPDX-License-Identifier: MIT
//
// The outputs of logs: which places are opened, and that lines come out whole, or are counted.
#include "userspace/control/log_output.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "userspace/control/log_places.hpp"

namespace xdpgpu::control {
namespace {

using Kind = policy::LogOutput::Kind;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr auto kNow = control::LogOutput::Clock::time_point{} + 1h;

class LogOutputs : public testing::Test {
 protected:
  LogOutputs() {
    signal(SIGPIPE, SIG_IGN);
    std::string name = "/tmp/xdpgpu-log-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~LogOutputs() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "eve.json") const { return folder_ + "/" + name; }
  std::string content(const std::string& name = "eve.json") const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static Result<kernel::Fd> open_file(const std::string& path) { return open_log({Kind::file, path}); }
  static Result<kernel::Fd> open_socket(const std::string& path) { return open_log({Kind::socket, path}); }
  // Why it is refused.
  static std::string refused(const std::string& path, Kind kind = Kind::file) {
    const auto opened = open_log({kind, path});
    return opened ? "it is opened" : opened.error();
  }
  LogOutput file_output(const std::string& name = "eve.json") const {
    LogOutput output({Kind::file, path(name)});
    EXPECT_TRUE(output.wants_opening(kNow));
    auto fd = open_file(path(name));
    EXPECT_TRUE(fd) << fd.error();
    if (fd) output.opened(std::move(*fd));
    return output;
  }
  // One end of a pair, as if it were what is behind the path; and the other one.
  static std::pair<LogOutput, kernel::Fd> pair_output(int type, Kind kind = Kind::socket) {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    std::pair<LogOutput, kernel::Fd> made(LogOutput({kind, kind == Kind::socket ? "/x" : ""}),
                                          kernel::Fd(fds[1]));
    EXPECT_TRUE(made.first.wants_opening(kNow));
    made.first.opened(kernel::Fd(fds[0]));
    return made;
  }
  static std::string received(const kernel::Fd& from) {
    std::string text(65536, '\0');
    const auto bytes = read(from.get(), text.data(), text.size());
    text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return text;
  }
  kernel::Fd bound(const std::string& name, int type) const {
    kernel::Fd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strcpy(address.sun_path, path(name).c_str());
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_TRUE(type == SOCK_DGRAM || listen(fd.get(), 1) == 0);
    return fd;
  }

  std::string folder_;
};

// ---- which are opened ---------------------------------------------------------------------------------

TEST_F(LogOutputs, AFileIsMadeForItsOwnerAndGroup) {
  const mode_t before = umask(0);
  const auto fd = open_file(path());
  umask(before);
  ASSERT_TRUE(fd) << fd.error();
  struct stat info {};
  ASSERT_EQ(fstat(fd->get(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
  const int flags = fcntl(fd->get(), F_GETFL);
  EXPECT_NE(flags & O_APPEND, 0) << "what is there is not written over";
  EXPECT_NE(flags & O_NONBLOCK, 0);
  EXPECT_EQ(flags & O_ACCMODE, O_WRONLY);
}

TEST_F(LogOutputs, WhatSomebodyElseMayHavePutThereIsRefused) {
  std::ofstream(path("other")) << "precious\n";
  symlink(path("other").c_str(), path("link").c_str());
  EXPECT_THAT(refused(path("link")), HasSubstr("it is a symbolic link"));
  symlink(path("nowhere").c_str(), path("dangling").c_str());
  EXPECT_THAT(refused(path("dangling")), HasSubstr("it is a symbolic link"));
  EXPECT_FALSE(std::filesystem::exists(path("nowhere"))) << "and not made through it";
  symlink(folder_.c_str(), path("folder").c_str());
  EXPECT_THAT(refused(path("folder/eve.json")), HasSubstr(path("folder") + " is a symbolic link"));
  link(path("other").c_str(), path("hard").c_str());
  EXPECT_THAT(refused(path("hard")), HasSubstr("a hard link"));
  std::filesystem::remove(path("hard"));
  chmod(path("other").c_str(), 0666);
  EXPECT_THAT(refused(path("other")), HasSubstr("everybody may write to it"));
  EXPECT_EQ(content("other"), "precious\n");
}

TEST_F(LogOutputs, AFolderThatOthersMayWriteToIsRefused) {
  mkdir(path("open").c_str(), 0755);
  chmod(path("open").c_str(), 0777);
  EXPECT_THAT(refused(path("open/eve.json")), HasSubstr("everybody may write to " + path("open")));
  mkdir(path("open/in").c_str(), 0755);
  EXPECT_THAT(refused(path("open/in/eve.json")), HasSubstr("everybody may write to " + path("open")))
      << "or one above it";
  chmod(path("open").c_str(), 01777);
  EXPECT_EQ(refused(path("open/eve.json")), "it is opened") << "as /tmp is";
  chmod(path("open").c_str(), 0755);
  EXPECT_EQ(refused(path("open/in/eve.json")), "it is opened");
  if (geteuid() != 0) return;
  EXPECT_EQ(chown(path("open/in/eve.json").c_str(), 65534, 65534), 0);
  EXPECT_THAT(refused(path("open/in/eve.json")), HasSubstr("user 65534's"));
  EXPECT_EQ(chown(path("open/in").c_str(), 65534, 0), 0);
  EXPECT_THAT(refused(path("open/in/new.json")), HasSubstr("its folder is user 65534's"));
  EXPECT_EQ(chown(path("open/in").c_str(), 0, 65534), 0);
  chmod(path("open/in").c_str(), 0775);
  EXPECT_THAT(refused(path("open/in/new.json")), HasSubstr("group 65534 may write"));
  chmod(path("open").c_str(), 01777);
  EXPECT_EQ(chown(path("open/in").c_str(), 65534, 0), 0);
  EXPECT_THAT(refused(path("open/in/new.json")), HasSubstr("in a folder that everybody may write to"));
}

TEST_F(LogOutputs, WhatIsNoFileIsRefused) {
  mkdir(path("folder").c_str(), 0755);
  EXPECT_THAT(refused(path("folder")), HasSubstr("Is a directory"));
  EXPECT_THAT(refused(path("gone/eve.json")), HasSubstr("there is no folder " + path("gone") + "; make it"));
  EXPECT_THAT(refused("/dev/null"), HasSubstr("neither a file nor a FIFO"));
  const auto socket = bound("sock", SOCK_STREAM);
  EXPECT_THAT(refused(path("sock")), HasSubstr("nobody reads this FIFO, or it is a socket"));
  std::ofstream(path("plain")) << "";
  EXPECT_THAT(refused(path("plain"), Kind::socket), HasSubstr("it is no socket"));
  EXPECT_THAT(refused(path("plain/eve.json")), HasSubstr("is no folder"));
}

TEST_F(LogOutputs, AFifoIsOpenedOnceItIsRead) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(refused(path("fifo")), HasSubstr("nobody reads this FIFO"));
  const kernel::Fd reader(open(path("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_EQ(refused(path("fifo")), "it is opened");
}

TEST_F(LogOutputs, ASocketIsAStreamsOrOfDatagrams) {
  {
    const auto stream = bound("stream", SOCK_STREAM), datagrams = bound("datagrams", SOCK_DGRAM),
               packets = bound("packets", SOCK_SEQPACKET);
    for (const char* name : {"stream", "datagrams"})
      EXPECT_EQ(refused(path(name), Kind::socket), "it is opened");
    EXPECT_THAT(refused(path("packets"), Kind::socket), HasSubstr("SOCK_SEQPACKET"));
  }
  EXPECT_THAT(refused(path("stream"), Kind::socket), HasSubstr("nobody listens"));
  const auto real = bound("real", SOCK_DGRAM);
  symlink(path("real").c_str(), path("link").c_str());
  EXPECT_THAT(refused(path("link"), Kind::socket), HasSubstr("it is a symbolic link"));
  EXPECT_THAT(refused(path("none"), Kind::socket), HasSubstr("No such file"));
  if (geteuid() != 0) return;
  EXPECT_EQ(chown(path("real").c_str(), 65534, 0), 0);
  EXPECT_THAT(refused(path("real"), Kind::socket), HasSubstr("a folder that is not that user's alone"));
  EXPECT_EQ(chown(folder_.c_str(), 65534, 0), 0);
  EXPECT_THAT(refused(path("real"), Kind::socket), HasSubstr("in a folder that everybody may write to"))
      << "that folder stands in /tmp";
}

// A longer one than a socket's address has room for.
TEST_F(LogOutputs, ASocketsPathMayBeLong) {
  const std::string deep = path(std::string(90, 'd'));
  mkdir(deep.c_str(), 0755);
  const auto socket = bound("s", SOCK_DGRAM);
  std::filesystem::rename(path("s"), deep + "/s");
  EXPECT_EQ(refused(deep + "/s", Kind::socket), "it is opened");
}

// ---- by the two halves of an attach -------------------------------------------------------------------

class Places : public LogOutputs {
 protected:
  std::string policy_naming(const std::string& name) const {
    return R"({"version": 1, "log": {"outputs": [{"file": ")" + path(name) + R"("}]}})";
  }
  std::string place(const std::string& name) const { return "file:" + path(name); }
};

TEST_F(Places, NothingIsOpenedThatRootHasNotNamed) {
  LogPlaces places({{Kind::file, path("a")}}, "");
  EXPECT_TRUE(places.open(place("a")));
  for (const std::string& asked : {place("b"), std::string("journald"), "socket:" + path("a"), std::string(),
                                   std::string("file:"), place("a/../b"), path("a"), place("a") + " "}) {
    const auto opened = places.open(asked);
    ASSERT_FALSE(opened) << asked;
    EXPECT_THAT(opened.error(), HasSubstr("without a policy file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path("b")));
}

TEST_F(Places, ThePolicyFileIsAskedAgain) {
  if (geteuid() != 0) GTEST_SKIP() << "the policy file has to be root's";
  std::ofstream(path("policy.json")) << policy_naming("b");
  LogPlaces places({{Kind::file, path("a")}}, path("policy.json"));
  EXPECT_TRUE(places.open(place("b")));
  EXPECT_TRUE(places.open(place("a"))) << "a policy that is taken back has its outputs";
  auto opened = places.open(place("c"));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error(), HasSubstr("has no such output; write it there and apply that"));
  std::ofstream(path("policy.json")) << policy_naming("c");
  chmod(path("policy.json").c_str(), 0666);
  opened = places.open(place("c"));
  ASSERT_FALSE(opened) << "anybody may have written that";
  EXPECT_THAT(opened.error(), HasSubstr("can be written by others"));
  chmod(path("policy.json").c_str(), 0644);
  EXPECT_TRUE(places.open(place("c")));
  std::ofstream(path("policy.json")) << "{ broken";
  EXPECT_FALSE(places.open(place("d")));
}

// ---- lines --------------------------------------------------------------------------------------------

TEST_F(LogOutputs, LinesComeOutInTheirOrder) {
  LogOutput output = file_output();
  for (int i = 0; i < 3; i++) output.add(std::to_string(i) + "\n");
  EXPECT_EQ(content(), "") << "not yet";
  output.flush(kNow);
  EXPECT_EQ(content(), "0\n1\n2\n");
  const LogOutputReport report = output.report();
  EXPECT_TRUE(report.open);
  EXPECT_EQ(report.lines, 3U);
  EXPECT_EQ(report.bytes, 6U);
  EXPECT_EQ(report.missed + report.failures, 0U);
  EXPECT_EQ(report.output, "file:" + path());
  EXPECT_EQ(output.news(), "");
}

TEST_F(LogOutputs, WhatComesBeforeItIsOpenWaits) {
  LogOutput output({Kind::file, path()});
  output.add("first\n");
  output.flush(kNow);
  EXPECT_TRUE(output.wants_opening(kNow));
  EXPECT_FALSE(output.wants_opening(kNow)) << "asked once";
  output.opened(std::move(*open_file(path())));
  output.flush(kNow);
  EXPECT_EQ(content(), "first\n");
}

TEST_F(LogOutputs, WhatCannotBeOpenedIsSaidOnceAndTriedAgain) {
  LogOutput output({Kind::file, path("fifo")});
  output.add("early\n");
  ASSERT_TRUE(output.wants_opening(kNow));
  output.not_opened("nobody reads it", kNow);
  EXPECT_THAT(output.news(), HasSubstr("nobody reads it; it is tried again"));
  output.add("late\n");
  EXPECT_EQ(output.report().missed, 2U);
  EXPECT_EQ(output.report().problem, "nobody reads it");
  EXPECT_FALSE(output.wants_opening(kNow + 500ms));
  ASSERT_TRUE(output.wants_opening(kNow + 1s));
  output.not_opened("nobody reads it", kNow + 1s);
  EXPECT_EQ(output.news(), "") << "said already";
  EXPECT_EQ(output.report().failures, 2U);
  ASSERT_TRUE(output.wants_opening(kNow + 2s));
  output.opened(std::move(*open_file(path())));
  EXPECT_THAT(output.news(), HasSubstr("is written again; it has missed 2 lines"));
  output.add("now\n");
  output.flush(kNow);
  EXPECT_EQ(content(), "now\n");
  EXPECT_FALSE(output.report().problem);
}

// Who reads gets whole lines of those that there was room for.
TEST_F(LogOutputs, ASlowReaderMissesWholeLines) {
  for (const bool fifo : {true, false}) {
    int fds[2];
    ASSERT_EQ(fifo ? pipe2(fds, O_CLOEXEC | O_NONBLOCK)
                   : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
              0);
    const kernel::Fd reader(fifo ? fds[0] : fds[1]);
    LogOutput output({fifo ? Kind::file : Kind::socket, "/x"});
    output.opened(kernel::Fd(fifo ? fds[1] : fds[0]));
    constexpr u64 kLines = 20'000;
    for (u64 i = 0; i < kLines; i++) {
      output.add(std::to_string(i) + " " + std::string(i % 300, 'x') + "\n");
      output.flush(kNow);
    }
    EXPECT_GT(output.report().missed, 0U);
    EXPECT_EQ(output.report().failures, 0U) << "it is there";
    std::string all;
    for (int i = 0; i < 100; i++) {
      for (std::string some; !(some = received(reader)).empty();) all += some;
      output.flush(kNow);
    }
    u64 lines = 0, last = 0;
    for (std::size_t at = 0; at < all.size(); lines++) {
      const std::size_t end = all.find('\n', at);
      ASSERT_NE(end, std::string::npos) << "a line without its end";
      std::size_t digits = 0;
      const u64 number = std::stoull(all.substr(at, end - at), &digits);
      ASSERT_EQ(end - at, digits + 1 + number % 300) << "a line that is not whole";
      ASSERT_TRUE(lines == 0 || number > last);
      last = number;
      at = end + 1;
    }
    const LogOutputReport report = output.report();
    EXPECT_EQ(report.lines, lines);
    EXPECT_EQ(report.lines + report.missed, kLines);
  }
}

TEST_F(LogOutputs, ADatagramIsALine) {
  auto [output, reader] = pair_output(SOCK_DGRAM);
  output.add("one\n");
  output.add("two\n");
  output.add(std::string(control::LogOutput::kMostWaiting / 2 + 100'000, 'x') + "\n");
  output.add("three\n");
  output.flush(kNow);
  EXPECT_EQ(received(reader), "one");
  EXPECT_EQ(received(reader), "two");
  for (int i = 0; i < 5; i++) output.flush(kNow);
  std::string next = received(reader);
  if (next.starts_with("xxx")) next = received(reader);  // some hosts' sockets take one of that size
  EXPECT_EQ(next, "three");
  const LogOutputReport report = output.report();
  EXPECT_EQ(report.lines + report.missed, 4U);
}

TEST_F(LogOutputs, JournaldGetsItsFields) {
  auto [output, reader] = pair_output(SOCK_DGRAM, Kind::journald);
  output.add("{\"a\":1}\n");
  output.flush(kNow);
  EXPECT_EQ(received(reader), "SYSLOG_IDENTIFIER=xdpgpu\nPRIORITY=6\nMESSAGE={\"a\":1}\n");
  EXPECT_EQ(output.report().output, "journald");
}

TEST_F(LogOutputs, AReaderThatGoesIsSaidOnce) {
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
    auto [output, reader] = pair_output(type);
    reader = kernel::Fd();
    output.add("lost\n");
    output.flush(kNow);
    EXPECT_THAT(output.news(), HasSubstr("the log /x cannot be written"));
    const LogOutputReport report = output.report();
    EXPECT_FALSE(report.open);
    EXPECT_EQ(report.failures, 1U);
    EXPECT_FALSE(output.wants_opening(kNow));
    EXPECT_TRUE(output.wants_opening(kNow + 1s));
  }
}

// A write that the file's largest size cuts off stands for a disk that is full: the same partial write.
TEST_F(LogOutputs, ALineThatADiskCutOffIsEndedOrClosed) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto limit = [&](rlim_t bytes) {
    const rlimit now{bytes, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &now), 0);
  };
  LogOutput output = file_output();
  output.add("0123456789\n");
  output.add("second\n");
  limit(15);
  output.flush(kNow);
  EXPECT_EQ(content(), "0123456789\nseco");
  EXPECT_THAT(output.news(), HasSubstr("File too large"));
  EXPECT_TRUE(output.report().open) << "the file has its place";
  output.flush(kNow + 500ms);
  EXPECT_EQ(output.report().failures, 1U) << "not tried before its time";
  limit(before.rlim_cur);
  output.flush(kNow + 1s);
  EXPECT_EQ(content(), "0123456789\nsecond\n");
  EXPECT_THAT(output.news(), HasSubstr("is written again"));
  EXPECT_EQ(output.report().lines, 2U);

  // Opened anew before there is room again: the rest is missed, and the next line begins on its own.
  output.add("third\n");
  output.add("fourth\n");
  limit(20);
  output.flush(kNow + 2s);
  EXPECT_EQ(content(), "0123456789\nsecond\nth");
  output.opened(std::move(*open_file(path())));
  limit(before.rlim_cur);
  output.flush(kNow + 3s);
  EXPECT_EQ(content(), "0123456789\nsecond\nth\nfourth\n");
  EXPECT_EQ(output.report().missed, 1U);
  EXPECT_EQ(output.report().lines, 3U);
}

// logrotate's way.
TEST_F(LogOutputs, AFileThatWasRenamedIsLeftForANewOne) {
  LogOutput output = file_output();
  output.add("old\n");
  output.flush(kNow);
  std::filesystem::rename(path(), path("eve.json.1"));
  output.add("still old\n");
  output.flush(kNow);
  output.opened(std::move(*open_file(path())));
  output.add("new\n");
  output.flush(kNow);
  EXPECT_EQ(content("eve.json.1"), "old\nstill old\n");
  EXPECT_EQ(content(), "new\n");
  EXPECT_EQ(output.report().missed, 0U);
  // One that cannot be opened leaves the one that it has.
  output.not_opened("no room for it", kNow);
  output.add("kept\n");
  output.flush(kNow);
  EXPECT_EQ(content(), "new\nkept\n");
  EXPECT_TRUE(output.wants_opening(kNow + 1s)) << "and is tried again";
}

}  // namespace
}  // namespace xdpgpu::control
