// SPDX-License-Identifier: MIT
//
// The control socket with clients that behave and clients that do not.
#include "userspace/control/server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <thread>

namespace xdpgpu::control {
namespace {

using namespace std::chrono_literals;

class ControlServer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may ask the control socket";
    char name[] = "/tmp/xdpgpu-server-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    path_ = directory_ + "/if.sock";
    auto listener = listen_at(path_);
    ASSERT_TRUE(listener) << listener.error();
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0007, 0u) << "others may not even connect";
    server_ = std::make_unique<Server>(
        context_, std::move(*listener),
        [this](const Request& request, const Server::Reply& reply) {
          handled_++;
          Json said = {{"said", request.arguments.value("say", "")}, {"name", request.name}};
          for (const auto& [path, content] : request.files)
            said["files"][path] = {{"bytes", content.size()},
                                   {"sum", std::accumulate(content.begin(), content.end(), 0u)}};
          reply(Response::success(std::move(said)));
        },
        Server::Limits{.sessions = 4, .idle_s = 1});
    thread_ = std::thread([this] { context_.run(); });
  }
  void TearDown() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
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

TEST_F(ControlServer, TooManyClientsAreToldSo) {
  std::vector<kernel::Fd> clients;
  for (int i = 0; i < 4; i++) clients.push_back(connect_client());
  for (const auto& client : clients) {
    say(client, encode(Request{"status", {}}));
    EXPECT_TRUE(decode_response(hear(client)));
  }
  const auto fifth = connect_client();
  const auto answer = decode_response(hear(fifth));
  ASSERT_TRUE(answer);
  EXPECT_NE(answer->error.find("connected already"), std::string::npos) << answer->error;
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

TEST_F(ControlServer, StrangersAreRefused) {
  // Group and others may not open the file; one who got a connection all the same is told to go.
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(3);
    const auto client = connect_client();
    say(client, encode(Request{"status", {}}));
    const auto answer = decode_response(hear(client));
    _exit(answer && !answer->ok() && answer->error.find("root") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(handled_, 0);
}

}  // namespace
}  // namespace xdpgpu::control
