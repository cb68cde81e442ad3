// SPDX-License-Identifier: MIT
//
// A data plane that dies, and the next one: what the broker takes for lost, and when.
#include "userspace/control/data_plane_life.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "userspace/control/channel.hpp"

namespace xdpgpu::control {
namespace {

using namespace std::chrono_literals;

// Its data planes are processes that do nothing but say, if they are to, that they handle packets.
class Keeper : public DataPlaneKeeper {
 public:
  std::atomic<pid_t> child{-1};
  std::atomic<int> started{0}, buried{0};
  std::atomic<int> of_the_dead{-1};  // what report() was last asked for
  int that_serve = 1;                // the first so many

  Result<Started> start(const DeathRecord&, bool&) override {
    auto ends = Channel::make_pair();
    if (!ends) return tl::unexpected(ends.error());
    const bool serves = started < that_serve;
    const pid_t process = fork();
    if (process == 0) {
      if (serves) (void)ends->second.send(Message::make(MessageType::ready));
      for (;;) pause();
    }
    child = process;
    ++started;
    return Started{process, std::move(ends->first)};
  }
  Requests::Duties duties() override {
    Requests::Duties duties;
    duties.ready = [] {};
    return duties;
  }
  std::string bury(u64, bool) override {
    ++buried;
    return {};
  }
  bool finish(bool) override { return false; }
  void never_began() override {}
  Result<StatusReport> report(bool dead) override {
    of_the_dead = dead ? 1 : 0;
    return StatusReport{};
  }
  Result<void> bypass(bool, std::chrono::seconds) override { return {}; }
  std::vector<std::string> keep_house() override { return {}; }
  bool is_on_trial() const override { return false; }
  void note_end(const std::string&, bool) noexcept override {}
  std::string interfaces() const override { return "eth0"; }
  std::string on_failure() const override { return "is dropped (on_failure)"; }
};

class ControlDataPlaneLife : public testing::Test {
 protected:
  ControlDataPlaneLife()
      : path_("/tmp/xdpgpu-life-" + std::to_string(getpid()) + ".sock"),
        listener_(listen_at(path_, std::nullopt).value()) {
    sigset_t none;
    sigemptyset(&none);
    signals_ = kernel::Fd(signalfd(-1, &none, SFD_NONBLOCK | SFD_CLOEXEC));
  }
  ~ControlDataPlaneLife() override { unlink(path_.c_str()); }

  static bool eventually(const std::function<bool()>& so) {
    for (int i = 0; i < 2000 && !so(); ++i) std::this_thread::sleep_for(5ms);
    return so();
  }
  // The answer, or nothing for five seconds.
  std::string ask(const char* what) const {
    const kernel::Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const timeval limit{5, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return {};
    const std::string line = encode(Request{what, Json::object(), {}, {}, "eth0"});
    if (send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) return {};
    std::string text(65536, 0);
    const ssize_t length = recv(fd.get(), text.data(), text.size(), 0);
    text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    return text;
  }

  std::string path_;
  kernel::Fd listener_, signals_;
  Keeper keeper_;
};

// What the next one has in hand, which says that it handles packets a moment after it does, is not lost.
TEST_F(ControlDataPlaneLife, OnlyWhatTheDeadHadIsLost) {
  std::atomic<bool> ready{false};
  DataPlaneLife life(keeper_,
                     {.json = true,
                      .listener = listener_.get(),
                      .signals = signals_.get(),
                      .admission = {},
                      .policy_file = {}},
                     [&] { ready = true; });
  std::thread broker([&] { life.run(); });
  ASSERT_TRUE(eventually([&] { return ready.load(); }));
  kill(keeper_.child, SIGKILL);
  ASSERT_TRUE(eventually([&] { return keeper_.started == 2; }));
  EXPECT_EQ(keeper_.buried, 1);

  EXPECT_THAT(ask("status"), testing::HasSubstr("\"state\":\"starting\""));
  EXPECT_EQ(keeper_.of_the_dead, 0);

  EXPECT_THAT(ask("detach"), testing::HasSubstr("\"event\":\"end\""));
  EXPECT_EQ(keeper_.of_the_dead, 1);
  broker.join();
}

}  // namespace
}  // namespace xdpgpu::control
