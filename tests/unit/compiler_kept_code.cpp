// SPDX-License-Identifier: MIT
//
// Code of programs that is kept: what a compiler sends is there for the next one, and nothing else.
#include "userspace/compiler/kept_code.hpp"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "userspace/compiler/sealed_memory.hpp"
#include "userspace/kernel/descriptors.hpp"

namespace xdpgpu::compiler {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Pointee;

class CompilerKeptCode : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "xdpgpu-kept-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    home_ = name;
    new_sockets();
  }
  void TearDown() override { fs::remove_all(home_); }

  void new_sockets() {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    broker_ = kernel::Fd(fds[0]);
    compiler_ = kernel::Fd(fds[1]);
  }
  DiskCache folder(u64 most = KeptCode::kMost) { return DiskCache::open(home_ / "cache", most).value(); }
  // A compiler that starts now.
  KeptCode kept() { return {folder(), kernel::Fd(dup(compiler_.get()))}; }
  tl::expected<void, std::string> came() { return keep_what_came(broker_.get(), folder()); }
  void send(std::span<const std::byte> bytes, std::vector<int> descriptors = {}) const {
    ASSERT_TRUE(kernel::send_with(compiler_.get(), bytes, descriptors, 0));
  }
  // A note as compilers send it.
  static std::vector<std::byte> note(u8 number) {
    std::vector<std::byte> bytes(36);
    const u32 magic = 0x6b706778;
    std::memcpy(bytes.data(), &magic, sizeof(magic));
    bytes[4] = static_cast<std::byte>(number);
    return bytes;
  }
  static ArtifactId id(u8 number) { return {number}; }

  fs::path home_;
  kernel::Fd broker_, compiler_;
};

const std::vector<char> kCode{'c', 'u', 'b', 'i', 'n', 0, 1};

TEST_F(CompilerKeptCode, IsThereForTheNextCompiler) {
  KeptCode first = kept();
  EXPECT_EQ(first.find(id(1)), nullptr);
  first.keep(id(1), kCode);
  first.keep(id(2), {});
  EXPECT_EQ(kept().find(id(1)), nullptr) << "nobody has written it";
  EXPECT_TRUE(came());
  const KeptCode next = kept();
  EXPECT_THAT(next.find(id(1)), Pointee(kCode));
  EXPECT_THAT(next.find(id(2)), Pointee(std::vector<char>()));
  EXPECT_EQ(next.find(id(3)), nullptr);
  EXPECT_TRUE(came());
}

TEST_F(CompilerKeptCode, NobodyIsWaitedFor) {
  KeptCode one = kept();
  for (int i = 0; i < 5000; i++) one.keep(id(1), kCode);
  SUCCEED() << "the socket is full, and it goes on";
  for (int i = 0; i < 100 && came(); i++) continue;
  EXPECT_TRUE(came()) << "nothing is left to come, and that is all right";
  broker_ = kernel::Fd();
  one.keep(id(2), kCode);
  (void)one.find(id(1));
  KeptCode().keep(id(1), kCode);
  EXPECT_EQ(KeptCode().find(id(1)), nullptr);
}

TEST_F(CompilerKeptCode, StaysLongerWhereItIsUsed) {
  const auto entry = std::vector<char>(3000, 'x');
  const auto come = [&] { EXPECT_TRUE(keep_what_came(broker_.get(), folder(7000))); };
  const auto later = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  KeptCode one = kept();
  for (const u8 number : {u8{1}, u8{2}}) {
    one.keep(id(number), entry);
    come();
    later();
  }
  EXPECT_NE(kept().find(id(1)), nullptr);
  come();
  later();
  one.keep(id(3), entry);
  come();
  EXPECT_NE(kept().find(id(1)), nullptr) << "it was used behind the other one";
  EXPECT_EQ(kept().find(id(2)), nullptr);
  EXPECT_NE(kept().find(id(3)), nullptr);
}

TEST_F(CompilerKeptCode, WhatIsNoneIsNotWritten) {
  const auto refused = [&](const std::string& why) {
    const auto kept = came();
    EXPECT_THAT(kept ? std::string() : kept.error(), HasSubstr(why));
    new_sockets();
  };
  MemoryWriter to("code");
  to.write(std::as_bytes(std::span(kCode)));
  const auto memory = to.seal().value();
  send(std::as_bytes(std::span("something", 9)));
  refused("something else than code");
  auto other = note(1);
  other[0] = std::byte{1};
  send(other, {memory.get()});
  refused("something else than code");
  send(note(1), {memory.get(), memory.get()});
  refused("something else than code");
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const kernel::Fd out(pipes[0]), in(pipes[1]);
  send(note(1), {out.get()});
  refused("is not kept");
  EXPECT_EQ(kept().find(id(1)), nullptr);
  send(note(1), {memory.get()});
  EXPECT_TRUE(came());
  EXPECT_THAT(kept().find(id(1)), Pointee(kCode));
}

TEST_F(CompilerKeptCode, FilesOfOthersAreNone) {
  KeptCode one = kept();
  one.keep(id(1), kCode);
  EXPECT_TRUE(came());
  const auto file = fs::directory_iterator(home_ / "cache")->path();
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  EXPECT_EQ(kept().find(id(1)), nullptr) << "others can write to it";
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  EXPECT_NE(kept().find(id(1)), nullptr);
  fs::rename(file, home_ / "cache" / ("AB" + file.filename().string().substr(2)));
  EXPECT_EQ(kept().find(id(1)), nullptr);
}

}  // namespace
}  // namespace xdpgpu::compiler
