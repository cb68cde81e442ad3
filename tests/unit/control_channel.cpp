// SPDX-License-Identifier: MIT
//
// Broker and data plane: fixed messages, descriptors beside them, and no trust in the other side.
#include "userspace/control/channel.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace xdpgpu::control {
namespace {

using namespace std::chrono_literals;

std::pair<Channel, Channel> make_pair_or_die() {
  auto pair = Channel::make_pair();
  EXPECT_TRUE(pair) << pair.error();
  return std::move(*pair);
}

ino_t inode(int fd) {
  struct stat status {};
  EXPECT_EQ(fstat(fd, &status), 0);
  return status.st_ino;
}

TEST(ControlChannel, MessagesAndDescriptorsArrive) {
  auto [data_plane, broker] = make_pair_or_die();
  const kernel::Fd first(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const kernel::Fd second(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(broker.send(Message::make(MessageType::maps_created), {first.get(), second.get()}));
  const auto received = data_plane.receive(1s);
  ASSERT_TRUE(received) << received.error();
  EXPECT_EQ(received->message.type, MessageType::maps_created);
  ASSERT_EQ(received->descriptors.size(), 2u);
  EXPECT_EQ(inode(received->descriptors[0].get()), inode(first.get()));
  EXPECT_EQ(inode(received->descriptors[1].get()), inode(second.get()));
  EXPECT_NE(fcntl(received->descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ControlChannel, WhoeverWantsNoDescriptorsGetsNone) {
  auto [data_plane, broker] = make_pair_or_die();
  const kernel::Fd any(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int on = 0;
  socklen_t length = sizeof(on);
  if (getsockopt(broker.fd(), SOL_SOCKET, 83, &on, &length) != 0) GTEST_SKIP() << "a kernel before 6.16";
  broker.refuse_descriptors();
  EXPECT_FALSE(data_plane.send(Message::make(MessageType::maps_created), {any.get(), any.get()}));
  ASSERT_TRUE(data_plane.send(Message::make(MessageType::ready)));
  EXPECT_TRUE(broker.receive(1s)) << "messages without any still come";
  ASSERT_TRUE(broker.send(Message::make(MessageType::maps_created), {any.get(), any.get()}));
  EXPECT_TRUE(data_plane.receive(1s)) << "and the other way";
}

// As on kernels before 6.16. Closing one would have its file system look at that, for as long as it takes it,
// and gives up locks: by that it is told here.
TEST(ControlChannel, DescriptorsThatComeAllTheSameAreNeverClosedHere) {
  auto [data_plane, broker] = make_pair_or_die();
  broker.refuse_descriptors();
  const int on = 1;
  (void)setsockopt(broker.fd(), SOL_SOCKET, 83, &on, sizeof(on));
  const kernel::Fd file(memfd_create("locked", MFD_CLOEXEC));
  struct flock lock {};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(file.get(), F_SETLK, &lock), 0);
  ASSERT_TRUE(data_plane.send(Message::make(MessageType::ready), {file.get(), file.get()}));
  EXPECT_FALSE(broker.receive(1s));
  const pid_t other = fork();
  if (other == 0) _exit(fcntl(file.get(), F_SETLK, &lock) == 0 ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0) << "it was closed";
}

TEST(ControlChannel, StopDuringACallIsKeptForLater) {
  auto [data_plane, broker] = make_pair_or_die();
  ASSERT_TRUE(broker.send(Message::make(MessageType::stop)));
  ASSERT_TRUE(broker.send(Message::make(MessageType::refused, 0, 0, "no memory")));
  EXPECT_FALSE(data_plane.take_pending_stop());
  const auto answer = data_plane.call(Message::make(MessageType::create_maps, 1, 1), 1s);
  ASSERT_TRUE(answer) << answer.error();
  EXPECT_EQ(answer->message.type, MessageType::refused);
  EXPECT_STREQ(answer->message.text, "no memory");
  EXPECT_TRUE(data_plane.take_pending_stop());
  EXPECT_FALSE(data_plane.take_pending_stop());
}

TEST(ControlChannel, DeathAndSilenceAreErrors) {
  auto [data_plane, broker] = make_pair_or_die();
  EXPECT_FALSE(data_plane.receive(10ms)) << "silence";
  broker = Channel();
  const auto gone = data_plane.receive(1s);
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().find("gone"), std::string::npos);
  EXPECT_FALSE(data_plane.send(Message::make(MessageType::ready))) << "and no SIGPIPE";
}

TEST(ControlChannel, WhatIsAskedForIsBounded) {
  auto ok = [](MessageType type, u32 a, u32 b, std::size_t descriptors = 0) {
    return valid(Message::make(type, a, b), descriptors);
  };
  EXPECT_TRUE(ok(MessageType::create_maps, 1, 1));
  EXPECT_TRUE(ok(MessageType::create_maps, kMaxLines, kMaxRows));
  EXPECT_FALSE(ok(MessageType::create_maps, 0, 1));
  EXPECT_FALSE(ok(MessageType::create_maps, 1, 0));
  EXPECT_FALSE(ok(MessageType::create_maps, kMaxLines + 1, 1));
  EXPECT_FALSE(ok(MessageType::create_maps, 1, kMaxRows + 1));
  EXPECT_FALSE(ok(MessageType::create_maps, 1, 1, 1)) << "descriptors that nobody asked for";
  EXPECT_TRUE(ok(MessageType::install_maps, 1, 0));
  EXPECT_FALSE(ok(MessageType::install_maps, 2, 0));
  EXPECT_FALSE(ok(MessageType::stopped, 2, 0));
  EXPECT_TRUE(ok(MessageType::watch_egress, 1, 0));
  EXPECT_FALSE(ok(MessageType::watch_egress, 2, 0));
  EXPECT_FALSE(ok(MessageType::maps_created, 0, 0, 1));
  EXPECT_TRUE(ok(MessageType::maps_created, 0, 0, 2));
  EXPECT_TRUE(ok(MessageType::log, 0, 0, 1));
  EXPECT_FALSE(ok(MessageType::log, 0, 0));
  EXPECT_FALSE(ok(MessageType::open_log, 0, 0, 1));
  EXPECT_FALSE(ok(static_cast<MessageType>(0), 0, 0));
  EXPECT_FALSE(ok(static_cast<MessageType>(77), 0, 0));
}

TEST(ControlChannel, ForgedMessagesAreRefused) {
  auto [data_plane, broker] = make_pair_or_die();
  auto send_raw = [&, fd = data_plane.fd()](const void* data, std::size_t size) {
    ASSERT_EQ(send(fd, data, size, 0), static_cast<ssize_t>(size));
  };
  Message message = Message::make(MessageType::ready);
  send_raw(&message, sizeof(message) - 1);
  EXPECT_FALSE(broker.receive(1s)) << "too short";
  char long_message[sizeof(Message) + 1] = {};
  std::memcpy(long_message, &message, sizeof(message));
  send_raw(long_message, sizeof(long_message));
  EXPECT_FALSE(broker.receive(1s)) << "too long";
  message.magic++;
  send_raw(&message, sizeof(message));
  EXPECT_FALSE(broker.receive(1s)) << "wrong magic";
  message = Message::make(MessageType::refused);
  std::memset(message.text, 'x', sizeof(message.text));
  send_raw(&message, sizeof(message));
  EXPECT_FALSE(broker.receive(1s)) << "text without an end";
  message = Message::make(MessageType::ready);
  send_raw(&message, sizeof(message));
  EXPECT_TRUE(broker.receive(1s)) << "and a right one still gets through";
}

}  // namespace
}  // namespace xdpgpu::control
