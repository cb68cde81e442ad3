// SPDX-License-Identifier: MIT
//
// What the broker says, and does, for clients that ask it while there is no data plane.
#include "userspace/control/stand_in.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <future>

#include "userspace/control/deaths.hpp"

namespace xdpgpu::control {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class ControlStandIn : public ::testing::Test {
 protected:
  ControlStandIn()
      : path_("/tmp/xdpgpu-stand-in-" + std::to_string(getpid()) + ".sock"),
        listener_(listen_at(path_, std::nullopt).value()),
        stand_in_(listener_.get(), {},
                  {.status = [this] { return done("status"); },
                   .detach = [this](bool keep) { return done(keep ? "leave" : "detach"); },
                   .bypass =
                       [this](bool on, std::optional<u64> for_s) {
                         return done(on ? for_s ? fmt::format("open for {}", *for_s) : "open" : "close");
                       },
                   .other = [] { return Response::failure("there is no data plane"); },
                   .interfaces = [] { return "eth0, eth0.1"; }}) {}
  ~ControlStandIn() override { unlink(path_.c_str()); }

  kernel::Fd connect() {
    kernel::Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static void say(const kernel::Fd& client, const std::string& text) {
    ASSERT_EQ(send(client.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  static std::string heard(const kernel::Fd& client) {
    std::string text(65536, 0);
    const ssize_t length = recv(client.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    return text;
  }
  std::string ask(const std::string& line) {
    const kernel::Fd client = connect();
    say(client, line);
    stand_in_.serve(true);
    return heard(client);
  }

  std::string path_;
  kernel::Fd listener_;
  std::string done_;
  StandIn stand_in_;

 private:
  Response done(const std::string& what) {
    done_ += what + "; ";
    return Response::success({{"did", what}});
  }
};

TEST_F(ControlStandIn, DoesWhatItIsAskedFor) {
  EXPECT_THAT(ask(encode(Request{"status", Json::object(), {}, {}, "eth0"})),
              HasSubstr("\"did\":\"status\""));
  (void)ask(encode(Request{"detach", {{"keep", true}}, {}, {}, "eth0"}));
  (void)ask(encode(Request{"detach", Json::object(), {}, {}, "eth0"}));
  (void)ask("{ \"request\" : \"bypass\", \"on\":  true }\n");
  (void)ask("{\"on\":false,\"request\":\"bypass\"}\n");
  EXPECT_EQ(done_, "status; leave; detach; open; close; ");
}

// As the data plane would.
TEST_F(ControlStandIn, RefusesWhatIsNeitherTrueNorFalse) {
  for (const char* value : {"1", "\"true\"", "null", "[true]", "{}", "tru"}) {
    EXPECT_THAT(ask(fmt::format("{{\"keep\": {}, \"request\": \"detach\"}}\n", value)),
                HasSubstr("\\\"keep\\\" is not true or false"));
    EXPECT_THAT(ask(fmt::format("{{\"on\": {}, \"request\": \"bypass\"}}\n", value)),
                HasSubstr("bypass needs \\\"on\\\": true or false"));
  }
  EXPECT_THAT(ask("{\"request\":\"bypass\"}\n"), HasSubstr("bypass needs"));
  EXPECT_EQ(done_, "");
}

TEST_F(ControlStandIn, ABypassHasATimeOrNone) {
  (void)ask(encode(Request{"bypass", Json({{"on", true}, {"for_s", 300}}), {}, {}, "eth0"}));
  EXPECT_EQ(std::exchange(done_, ""), "open for 300; ");
  (void)ask("{\"request\":\"bypass\", \"for_s\" : 3 , \"on\":true}\n");
  EXPECT_EQ(std::exchange(done_, ""), "open for 3; ");
  (void)ask("{\"request\":\"bypass\",\"on\":true,\"for_s\":604800}\n");
  EXPECT_EQ(std::exchange(done_, ""), "open for 604800; ");
  for (const char* wrong :
       {"0", "-1", "604801", "1.5", "1e3", "\"5\"", "null", "true", "99999999999999999999", "5x", "[5]"})
    EXPECT_THAT(ask(fmt::format("{{\"on\": true, \"for_s\": {}, \"request\": \"bypass\"}}\n", wrong)),
                HasSubstr("is not a number of seconds"))
        << wrong;
  EXPECT_THAT(ask("{\"request\":\"bypass\",\"on\":false,\"for_s\":5}\n"), HasSubstr("has no time"));
  EXPECT_EQ(done_, "");
}

TEST_F(ControlStandIn, DoesNothingThatIsMeantForAnother) {
  for (const char* meant : {"eth1", "eth", "eth0.", "eth0, eth0.1", ""})
    for (const char* request : {"status", "detach", "bypass"})
      EXPECT_THAT(
          ask(fmt::format("{{\"for\": \"{}\", \"on\": true, \"request\": \"{}\"}}\n", meant, request)),
          HasSubstr("attached eth0, eth0.1 and not"))
          << meant;
  EXPECT_EQ(done_, "");
  (void)ask(encode(Request{"status", Json::object(), {}, {}, "eth0.1"}));
  EXPECT_EQ(done_, "status; ");
}

TEST_F(ControlStandIn, RefusesTheRest) {
  for (const std::string line :
       {"{\"request\":\"policy.show\"}\n", "nonsense\n", "\n", "{\"request\":\"detached\"}\n",
        // A name inside of a string is none.
        "{\"request\":\"policy.apply\",\"text\":\"{\\\"request\\\":\\\"detach\\\"}\"}\n"})
    EXPECT_THAT(ask(line), HasSubstr("there is no data plane")) << line;
  EXPECT_EQ(done_, "");
}

// A client that sends a policy of any length has its answer, and is read to its end.
TEST_F(ControlStandIn, ALongRequestIsAnsweredByItsBeginning) {
  const kernel::Fd client = connect();
  say(client, "{\"file\":\"" + std::string(5000, 'x'));
  stand_in_.serve(true);
  EXPECT_THAT(heard(client), HasSubstr("there is no data plane"));
  const std::string part(50'000, 'y');
  for (int i = 0; i < 20; i++) {
    say(client, part);
    stand_in_.serve(true);
    stand_in_.serve(true);
  }
  EXPECT_EQ(heard(client), "") << "one answer";
  EXPECT_TRUE(stand_in_.has_clients());
}

TEST_F(ControlStandIn, WhoIsSilentGivesWay) {
  std::vector<kernel::Fd> silent;
  for (int i = 0; i < 40; i++) {
    silent.push_back(connect());
    say(silent.back(), "{\"req");
    stand_in_.serve(true);
  }
  EXPECT_THAT(ask("{\"request\":\"status\"}\n"), HasSubstr("did"));
  std::this_thread::sleep_for(2100ms);
  stand_in_.serve(false);
  EXPECT_FALSE(stand_in_.has_clients());
}

// However fast more comes in: the broker has signals to take, and a data plane to start.
TEST_F(ControlStandIn, ReadsNoMoreAtOnceThanItHasTimeFor) {
  const kernel::Fd client = connect();
  const int most = 1 << 20;
  (void)setsockopt(client.get(), SOL_SOCKET, SO_SNDBUF, &most, sizeof(most));
  say(client, "nonsense\n");
  stand_in_.serve(true);
  EXPECT_THAT(heard(client), HasSubstr("there is no data plane"));
  const auto unread = [&] {
    int bytes = 0;
    EXPECT_EQ(ioctl(client.get(), SIOCOUTQ, &bytes), 0);
    return bytes;
  };
  const std::string part(16384, 'x');
  while (send(client.get(), part.data(), part.size(), MSG_NOSIGNAL) > 0) continue;
  ASSERT_GT(unread(), 200'000);
  stand_in_.serve(true);
  EXPECT_GT(unread(), 0);
  for (int before = unread(), now = 0; before > 0; before = now) {
    stand_in_.serve(true);
    ASSERT_LT(now = unread(), before) << "it goes on";
  }
}

// The listener is the data plane's as well, which may have it wait before it dies.
TEST_F(ControlStandIn, WaitsForNoClientWhateverTheListenerDoes) {
  const int flags = fcntl(listener_.get(), F_GETFL);
  ASSERT_EQ(fcntl(listener_.get(), F_SETFL, flags & ~O_NONBLOCK), 0);
  const kernel::Fd client = connect();
  say(client, "{\"request\":\"status\"}\n");
  auto served = std::async(std::launch::async, [this] { stand_in_.serve(true); });
  const bool waits = served.wait_for(5s) != std::future_status::ready;
  EXPECT_FALSE(waits);
  if (waits) {
    ASSERT_EQ(fcntl(listener_.get(), F_SETFL, flags), 0);
    const kernel::Fd another = connect();
    served.wait();
  }
  EXPECT_THAT(heard(client), HasSubstr("\"did\":\"status\""));
}

TEST(ControlDeaths, PausesGrowUntilThereAreNoMore) {
  Deaths deaths;
  const auto at = Deaths::Clock::time_point() + 1000s;
  EXPECT_EQ(deaths.add(at), 0ms);
  EXPECT_EQ(deaths.add(at + 1s), 100ms);
  EXPECT_EQ(deaths.add(at + 2s), 200ms);
  EXPECT_EQ(deaths.add(at + 3s), 500ms);
  EXPECT_EQ(deaths.add(at + 59s), std::nullopt);
  EXPECT_EQ(deaths.count(), 5u);
}

TEST(ControlDeaths, OfLongAgoCountNoMore) {
  Deaths deaths;
  const auto at = Deaths::Clock::time_point() + 1000s;
  for (int i = 0; i < 100; i++) EXPECT_EQ(deaths.add(at + i * 61s), 0ms) << i;
  EXPECT_EQ(deaths.add(at + 99 * 61s + 30s), 100ms);
  EXPECT_EQ(deaths.count(), 101u);
}

}  // namespace
}  // namespace xdpgpu::control
