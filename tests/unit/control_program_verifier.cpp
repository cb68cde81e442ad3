// SPDX-License-Identifier: MIT
//
// What the broker answers of memory that the data plane has written a program to: whatever stands there, it
// is asked of the kernel, or refused in a sentence that fits into a message.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/control/program_verifier.hpp"

namespace xdpgpu::control {
namespace {

using testing::HasSubstr;

std::string program(const std::string& name) {
  std::ifstream file(XDPGPU_OBJECTS "/" + name + ".bpf.o", std::ios::binary);
  const std::string object{std::istreambuf_iterator<char>(file), {}};
  const auto read = programs::read_program(std::as_bytes(std::span(object)), {});
  EXPECT_TRUE(read) << read.error();
  return read ? programs::to_bytes(*read).value_or("") : "";
}
kernel::Fd memory_of(const std::string& bytes) {
  kernel::Fd memory(memfd_create("program", MFD_CLOEXEC));
  EXPECT_EQ(write(memory.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return memory;
}
// Empty: the kernel takes it.
std::string why_not(const std::string& bytes) {
  const auto verified = verify_apart(memory_of(bytes));
  return verified ? "" : verified.error();
}

TEST(ProgramVerifier, RefusesWhatIsNoProgram) {
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(4096, '\0')})
    EXPECT_THAT(why_not(bytes), HasSubstr("is not whole"));
  const std::string whole = program("everything");
  EXPECT_THAT(why_not(whole.substr(0, whole.size() - 1)), HasSubstr("is not whole"));
  EXPECT_THAT(why_not(whole + "x"), HasSubstr("is not whole"));
  const kernel::Fd pipe_like(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(verify_apart(pipe_like));
}

TEST(ProgramVerifier, SaysWhatTheKernelSays) {
  if (geteuid() != 0) GTEST_SKIP() << "the kernel is asked as root: run it with sudo";
  EXPECT_EQ(why_not(program("everything")), "");
  const std::string why = why_not(program("refused"));
  EXPECT_THAT(why, HasSubstr("the kernel's verifier refuses it: "));
  EXPECT_THAT(why, HasSubstr("invalid access to packet"));
  EXPECT_LT(why.size(), sizeof(Message::text));
}

TEST(ProgramVerifier, AnswersWhateverWasDamaged) {
  const std::string whole = program("refused");
  for (std::size_t at = 0; at < whole.size(); at += whole.size() / 20 + 1) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    (void)why_not(damaged);
  }
}

}  // namespace
}  // namespace xdpgpu::control
