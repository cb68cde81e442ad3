// SPDX-License-Identifier: MIT
//
// The control socket with clients that behave and clients that do not.
#include "userspace/control/server.hpp"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

namespace xdpgpu::control {
namespace {

using namespace std::chrono_literals;

const ControlGroup kGroup{"operators", 54321};
constexpr uid_t kExcluded = 54322;

class ControlServer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may ask the control socket";
    char name[] = "/tmp/xdpgpu-server-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    path_ = directory_ + "/if.sock";
    auto listener = listen_at(path_, kGroup);
    ASSERT_TRUE(listener) << listener.error();
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0007, 0u) << "others may not even connect";
    server_ = std::make_unique<Server>(
        context_, std::move(*listener),
        [this](const Request& request, const Server::Reply& reply) {
          handled_++;
          if (request.name == "hold") return held_.push_back(reply);
          Json said = {{"said", request.arguments.value("say", "")}, {"name", request.name}};
          for (const auto& [path, content] : request.files)
            said["files"][path] = {{"bytes", content.size()},
                                   {"sum", std::accumulate(content.begin(), content.end(), 0u)}};
          reply(Response::success(std::move(said)));
        },
        Server::Admission{.group = kGroup, .excluded = kExcluded},
        Server::Limits{.sessions = 4, .idle_s = 1, .files_bytes = 8'000'000});
    thread_ = std::thread([this] { context_.run(); });
  }
  void TearDown() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
    held_.clear();
    server_.reset();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  kernel::Fd connect_client() const {
    kernel::Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static void say(const kernel::Fd& fd, const std::string& text) {
    ASSERT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // One line, or what came until the connection or the patience ended.
  static std::string hear(const kernel::Fd& fd, std::chrono::milliseconds patience = 5s) {
    std::string line;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (line.empty() || line.back() != '\n') {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd ready{fd.get(), POLLIN, 0};
      if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0) break;
      char c = 0;
      if (read(fd.get(), &c, 1) != 1) break;
      line += c;
    }
    return line;
  }

  boost::asio::io_context context_;
  std::string directory_, path_;
  std::atomic<int> handled_ = 0;
  std::vector<Server::Reply> held_;  // the server's thread's
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

TEST_F(ControlServer, AnswersInOrderOnOneConnection) {
  const auto client = connect_client();
  say(client, encode(Request{"status", {{"say", "one"}}}) + encode(Request{"status", {{"say", "two"}}}));
  const auto first = decode_response(hear(client));
  const auto second = decode_response(hear(client));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->result.at("said"), "one");
  EXPECT_EQ(second->result.at("said"), "two");
}

TEST_F(ControlServer, ARequestThatItsHandlerTripsOverIsAnsweredAndHurtsNobody) {
  const auto client = connect_client();
  say(client, "{\"request\": \"status\", \"say\": 1}\n");  // the handler takes it for a text
  const auto refused = decode_response(hear(client));
  ASSERT_TRUE(refused) << refused.error();
  EXPECT_NE(refused->error.find("could not be handled"), std::string::npos) << refused->error;
  const auto next = connect_client();
  say(next, encode(Request{"status", {{"say", "still"}}}));
  const auto answer = decode_response(hear(next));
  ASSERT_TRUE(answer) << answer.error();
  EXPECT_EQ(answer->result.at("said"), "still");
}

TEST_F(ControlServer, TakesFilesBehindTheLineAndWhatComesBehindThem) {
  const Request request{
      "apply",
      {{"say", "files"}},
      {{"a", "line\n{\"request\": \"no\"}\n"}, {"b", ""}, {"c", std::string(3'000'000, 'c')}}};
  std::string message = encode(request);
  for (const auto& [name, content] : request.files) message += content;
  message += encode(Request{"status", {{"say", "behind"}}});
  const auto client = connect_client();
  for (const std::size_t cut : {std::size_t{0}, std::size_t{20}, std::size_t{100}, std::size_t{1'000'000}}) {
    // What is cut off comes later.
    std::thread sender([&] {
      say(client, message.substr(0, cut));
      std::this_thread::sleep_for(20ms);
      for (std::size_t at = cut; at < message.size(); at += 100'000) say(client, message.substr(at, 100'000));
    });
    const auto files = decode_response(hear(client));
    const auto behind = decode_response(hear(client));
    sender.join();
    ASSERT_TRUE(files && behind) << cut;
    EXPECT_EQ(files->result.at("said"), "files");
    for (const auto& [name, content] : request.files) {
      const Json& heard = files->result.at("files").at(name);
      EXPECT_EQ(heard.at("bytes"), content.size()) << name;
      EXPECT_EQ(heard.at("sum"), std::accumulate(content.begin(), content.end(), 0u)) << name;
    }
    EXPECT_EQ(behind->result.at("said"), "behind");
  }
  EXPECT_EQ(handled_, 8);
}

TEST_F(ControlServer, AFileThatNeverComesIsNotWaitedForLong) {
  const auto client = connect_client();
  say(client, encode(Request{"apply", {}, {{"a", "0123456789"}}}) + "01234");
  EXPECT_EQ(hear(client, 5s), "");
  EXPECT_EQ(handled_, 0);
}

TEST_F(ControlServer, NonsenseGetsASentenceAndTheConnectionEnds) {
  const auto client = connect_client();
  say(client, "hello\n");
  const auto answer = decode_response(hear(client));
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->ok());
  EXPECT_EQ(hear(client, 2s), "");
  EXPECT_EQ(handled_, 0);
}

TEST_F(ControlServer, ASilentClientHurtsNobodyAndIsLeft) {
  const auto silent = connect_client();
  say(silent, "{\"request\": \"sta");  // and never the rest
  const auto other = connect_client();
  say(other, encode(Request{"status", {}}));
  EXPECT_TRUE(decode_response(hear(other)));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(hear(silent, 5s), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s) << "it was not let go";
}

TEST_F(ControlServer, AClientThatGoesAwayHurtsNobody) {
  for (int i = 0; i < 20; i++) {
    auto client = connect_client();
    say(client, encode(Request{"status", {}}));
    client = kernel::Fd();
  }
  std::this_thread::sleep_for(100ms);
  const auto client = connect_client();
  say(client, encode(Request{"status", {{"say", "still here"}}}));
  const auto answer = decode_response(hear(client));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->result.at("said"), "still here");
}

// While the process was stopped, say; whoever shuts down its writing end alone waits for the answer.
TEST_F(ControlServer, WhatAClientHasLeftIsDropped) {
  std::promise<void> goes_on;
  boost::asio::post(context_, [stopped = goes_on.get_future().share()] { stopped.wait(); });
  auto gone = connect_client();
  say(gone, encode(Request{"status", {}}));
  gone = kernel::Fd();
  const auto there = connect_client();
  say(there, encode(Request{"status", {{"say", "there"}}}));
  ASSERT_EQ(shutdown(there.get(), SHUT_WR), 0);
  goes_on.set_value();
  const auto answer = decode_response(hear(there));
  ASSERT_TRUE(answer) << answer.error();
  EXPECT_EQ(answer->result.at("said"), "there");
  EXPECT_EQ(handled_, 1);
}

TEST_F(ControlServer, WhoIsSilentForLongestGivesWay) {
  std::vector<kernel::Fd> silent;
  silent.reserve(4);
  for (int i = 0; i < 4; i++) silent.push_back(connect_client());
  say(silent[0], "{\"request\": \"sta");
  const auto fifth = connect_client();
  say(fifth, encode(Request{"status", {}}));
  EXPECT_TRUE(decode_response(hear(fifth, 500ms)));
  EXPECT_NE(hear(silent[0], 500ms).find("place"), std::string::npos) << "it is told why";
  say(silent[1], encode(Request{"status", {}}));
  EXPECT_TRUE(decode_response(hear(silent[1], 500ms))) << "the others stay";
}

TEST_F(ControlServer, TooManyBusyClientsAreToldSo) {
  std::vector<kernel::Fd> clients;
  for (int i = 0; i < 4; i++) {
    clients.push_back(connect_client());
    say(clients.back(), encode(Request{"hold", {}}));
  }
  for (int i = 0; i < 500 && handled_ < 4; i++) std::this_thread::sleep_for(2ms);
  const auto fifth = connect_client();
  const auto answer = decode_response(hear(fifth));
  ASSERT_TRUE(answer);
  EXPECT_NE(answer->error.find("connected already"), std::string::npos) << answer->error;
}

TEST_F(ControlServer, ByteByByteIsNoFaster) {
  const auto slow = connect_client();
  const auto begin = std::chrono::steady_clock::now();
  ssize_t sent = 1;
  while (sent == 1 && std::chrono::steady_clock::now() - begin < 4s) {
    sent = send(slow.get(), "x", 1, MSG_NOSIGNAL);
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_NE(sent, 1) << "it was not let go";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
}

TEST_F(ControlServer, FilesOneAfterAnotherHaveTheTimeOfOne) {
  Request request{"apply", {}};
  for (int i = 0; i < 50; i++) request.files[std::to_string(i)] = "x";
  const auto slow = connect_client();
  const auto begin = std::chrono::steady_clock::now();
  say(slow, encode(request));
  ssize_t sent = 1;
  for (int i = 0; i < 49 && sent == 1; i++) {
    std::this_thread::sleep_for(100ms);
    sent = send(slow.get(), "x", 1, MSG_NOSIGNAL);
  }
  EXPECT_NE(sent, 1) << "it was not let go";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
}

TEST_F(ControlServer, AnAnswerThatIsNotTakenIsNotKeptForLong) {
  const auto slow = connect_client();
  say(slow, encode(Request{"status", {{"say", std::string(1'000'000, 'x')}}}));
  // The sanitizers take their time over a million letters.
  for (int i = 0; i < 15'000 && handled_ == 0; i++) std::this_thread::sleep_for(2ms);
  std::this_thread::sleep_for(1500ms);
  const std::string got = hear(slow, 2s);
  EXPECT_FALSE(got.empty());
  EXPECT_NE(got.back(), '\n') << "all of it was still there";
}

TEST_F(ControlServer, FilesOfAllClientsTogetherAreBounded) {
  const auto first = connect_client(), second = connect_client();
  say(first, encode(Request{"apply", {}, {{"a", std::string(5'000'000, 'a')}}}) + "aaa");  // and no more
  std::this_thread::sleep_for(50ms);
  say(second, encode(Request{"apply", {}, {{"a", std::string(5'000'000, 'a')}}}));
  const auto refused = decode_response(hear(second));
  ASSERT_TRUE(refused);
  EXPECT_NE(refused->error.find("of all together"), std::string::npos) << refused->error;
  EXPECT_EQ(hear(first, 20s), "");
  char none = 0;
  EXPECT_EQ(recv(first.get(), &none, 1, MSG_DONTWAIT), 0) << "its time is over";
  // What it had announced is free again. A machine that stands still for a second ends a session by its idle
  // time.
  const std::string content(5'000'000, 'a');
  bool admitted = false;
  for (int i = 0; i < 5 && !admitted; i++) {
    const auto third = connect_client();
    say(third, encode(Request{"apply", {}, {{"a", content}}}));
    if (send(third.get(), content.data(), content.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(content.size()))
      continue;
    const auto answer = decode_response(hear(third));
    admitted = answer && answer->error.empty();
  }
  EXPECT_TRUE(admitted);
}

TEST_F(ControlServer, ARequestWithoutEndIsCutAtTheBound) {
  const auto client = connect_client();
  const std::string chunk(1 << 20, 'x');
  std::size_t sent = 0;
  while (sent <= kMaxMessage + (4u << 20)) {
    const ssize_t n = send(client.get(), chunk.data(), chunk.size(), MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<std::size_t>(n);
  }
  EXPECT_LE(sent, kMaxMessage + (8u << 20)) << "it took more than it said it would";
  const auto other = connect_client();
  say(other, encode(Request{"status", {}}));
  EXPECT_TRUE(decode_response(hear(other)));
}

TEST_F(ControlServer, MembersOfTheGroupAreAdmittedAndStrangersRefused) {
  // Group and others may not open the file; one who got a connection all the same is told to go.
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_gid, kGroup.gid);
  EXPECT_EQ(status.st_mode & 0777, 0660u);
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  // 0: answered, 1: refused with the reason, others: something else.
  const auto ask_as = [&](uid_t uid, gid_t gid, std::vector<gid_t> groups) {
    const pid_t child = fork();
    if (child == 0) {
      if (setgroups(groups.size(), groups.data()) != 0 || setgid(gid) != 0 || setuid(uid) != 0) _exit(3);
      const auto client = connect_client();
      const std::string line = encode(Request{"status", {}});
      // Who is refused may be so before this is sent.
      (void)send(client.get(), line.data(), line.size(), MSG_NOSIGNAL);
      const auto answer = decode_response(hear(client));
      if (!answer) _exit(4);
      if (answer->ok()) _exit(0);
      _exit(answer->error.find("root and members of the group operators") != std::string::npos ? 1 : 5);
    }
    int exit = 0;
    EXPECT_EQ(waitpid(child, &exit, 0), child);
    return WIFEXITED(exit) ? WEXITSTATUS(exit) : 6;
  };
  EXPECT_EQ(ask_as(65534, 65534, {}), 1);
  EXPECT_EQ(ask_as(65534, 65534, {7, 8}), 1) << "other groups";
  EXPECT_EQ(handled_, 0);
  EXPECT_EQ(ask_as(65534, kGroup.gid, {}), 0) << "by its first group";
  std::vector<gid_t> many(100);
  std::iota(many.begin(), many.end(), 1000);
  many.back() = kGroup.gid;
  EXPECT_EQ(ask_as(65534, 65534, many), 0) << "by one of many others";
  EXPECT_EQ(ask_as(kExcluded, kGroup.gid, {kGroup.gid}), 1) << "not the data planes' own user";
  EXPECT_EQ(handled_, 2);
}

TEST_F(ControlServer, RootGivesWayToNobodyElse) {
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  std::vector<kernel::Fd> roots;
  roots.reserve(4);
  for (int i = 0; i < 4; i++) roots.push_back(connect_client());
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(kGroup.gid) != 0 || setuid(65534) != 0) _exit(3);
    const auto client = connect_client();
    const auto answer = decode_response(hear(client, 500ms));
    _exit(answer && answer->error.find("connected already") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  say(roots[0], encode(Request{"status", {}}));
  EXPECT_TRUE(decode_response(hear(roots[0])));
}

TEST(ControlGroups, AreFoundByName) {
  const auto root = find_control_group("root");
  ASSERT_TRUE(root && *root);
  EXPECT_EQ((*root)->gid, 0u);
  const auto none = find_control_group("no-such-group");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().find("groupadd"), std::string::npos) << none.error();
  EXPECT_TRUE(find_control_group("")) << "a default that is not there is no error";
}

}  // namespace
}  // namespace xdpgpu::control
