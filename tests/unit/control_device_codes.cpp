// SPDX-License-Identifier: MIT
//
// Machine code for a GPU that this build has none for, made where an attach makes it: in a process that has
// given up its privileges and its files. It needs the build to have PTX, and no GPU.
#include "userspace/control/device_codes.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "gpu/device_code.hpp"
#include "userspace/compiler/compiler.hpp"
#include "userspace/compiler/ptx.hpp"
#include "userspace/compiler/translations.hpp"
#include "userspace/control/privileges.hpp"
#include "userspace/control/seccomp.hpp"

namespace xdpgpu::control {
namespace {

using testing::HasSubstr;

constexpr u16 kCuda = 190;  // e_machine

// The last architecture that this build has PTX and no machine code for; 0: there is none.
u32 without_machine_code() {
  for (const u32 architecture : {120u, 100u, 90u, 89u, 86u, 80u})
    if (!gpu::has_machine_code(architecture) && gpu::built_in_code(architecture)) return architecture;
  return 0;
}

// The smallest of its modules, as all of them take their time.
gpu::DeviceCode smallest(const gpu::DeviceCode& ptx) {
  gpu::DeviceCode one = ptx;
  one.modules = {*std::min_element(ptx.modules.begin(), ptx.modules.end(),
                                   [](const auto& a, const auto& b) { return a.size() < b.size(); })};
  return one;
}

// What the function says in a child that can do what a compiler can, within so many seconds of processor
// time. The linker is loaded before.
std::string said_by_compiler(const std::function<std::string()>& function, rlim_t seconds = RLIM_INFINITY) {
  int fds[2];
  if (pipe(fds) != 0) return "no pipe";
  const kernel::Fd reader(fds[0]);
  kernel::Fd writer(fds[1]);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 ? !become_nobody() : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(1);
    (void)compiler::load_ptx_compiler();
    const rlimit time{seconds, seconds};
    (void)setrlimit(RLIMIT_CPU, &time);
#if !defined(XDPGPU_SANITIZED)
    if (!restrict_compiler()) _exit(1);
#endif
    const std::string said = function();
    _exit(write(writer.get(), said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  writer = kernel::Fd();
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = read(reader.get(), buffer, sizeof(buffer))) > 0;)
    said.append(buffer, static_cast<std::size_t>(n));
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? said : fmt::format("it ended with status {:#x}", status);
}

TEST(ControlDeviceCodes, AreMachineCodeForThatGpu) {
  const u32 architecture = without_machine_code();
  if (architecture == 0)
    GTEST_SKIP() << "this build has no PTX: it has machine code alone, or no CUDA device";
  if (const auto loaded = compiler::load_ptx_compiler(); !loaded) GTEST_SKIP() << loaded.error();
  const auto ptx = smallest(**gpu::built_in_code(architecture));
  const std::string said = said_by_compiler([&] {
    const auto code = compiler::compile_ptx(ptx, architecture);
    if (!code) return code.error();
    Elf64_Ehdr head{};
    if (code->modules.size() != 1 || code->modules[0].size() < sizeof(head)) return std::string("no module");
    std::memcpy(&head, code->modules[0].data(), sizeof(head));
    return fmt::format("{} {} {}", std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0, head.e_machine,
                       code->architecture);
  });
  EXPECT_EQ(said, fmt::format("true {} {}", kCuda, architecture));
}

// The compiler that writes PTX does not look whether the GPU has what it writes. What is for a later one is
// said as soon as it is read, which takes a second; what takes longer is compiled.
TEST(ControlDeviceCodes, EachModuleOfPtxIsTaken) {
  const u32 architecture = without_machine_code();
  if (architecture == 0)
    GTEST_SKIP() << "this build has no PTX: it has machine code alone, or no CUDA device";
  if (const auto loaded = compiler::load_ptx_compiler(); !loaded) GTEST_SKIP() << loaded.error();
  const auto built_in = gpu::built_in_code(architecture).value();
  for (const auto& module : built_in->modules) {
    gpu::DeviceCode one = *built_in;
    one.modules = {module};
    const std::string said = said_by_compiler(
        [&] {
          const auto code = compiler::compile_ptx(one, architecture);
          return code ? "compiled" : code.error();
        },
        5);
    const bool out_of_time = said == fmt::format("it ended with status {:#x}", SIGKILL) ||
                             said == fmt::format("it ended with status {:#x}", SIGXCPU);
    EXPECT_TRUE(said == "compiled" || out_of_time) << said;
  }
}

TEST(ControlDeviceCodes, OfWhatIsNoPtxAreASentence) {
  if (const auto loaded = compiler::load_ptx_compiler(); !loaded) GTEST_SKIP() << loaded.error();
  gpu::DeviceCode rubbish;
  rubbish.id = "rubbish";
  rubbish.modules = {std::vector<char>(1000, 'x')};
  EXPECT_THAT(said_by_compiler([&] { return compiler::compile_ptx(rubbish, 90).error(); }),
              HasSubstr("nvJitLink"));
  // Of a GPU that it does not know, nvJitLink ends the process: the compiler is there to be lost.
  EXPECT_THAT(said_by_compiler([&] { return compiler::compile_ptx(rubbish, 1).error(); }),
              HasSubstr("it ended with status"));
}

// Of a program's source, by the compiler that is there for it, which has every file that it needs by then.
TEST(ControlDeviceCodes, OfASourceAreMadeWithoutAFile) {
  if (const auto loaded = compiler::load_translator(); !loaded) GTEST_SKIP() << loaded.error();
  const auto said = [](const std::string& source) {
    return said_by_compiler([&] {
      const auto cubin = compiler::compile_translation(source, 90);
      return cubin ? fmt::format("{} bytes", cubin->size() > 1000 ? "many" : "few") : cubin.error();
    });
  };
  EXPECT_EQ(said("extern \"C\" __device__ int two() { return 2; }\n"), "many bytes");
  EXPECT_THAT(said("#include </etc/hostname>\n"), HasSubstr("NVRTC: program.cu(1)"));
}

// For one that this build has code for, or none at all: what a compiler answers is a sentence.
TEST(ControlDeviceCodes, ThatCannotBeMadeAreASentence) {
  for (const u32 architecture : {1u, 20u}) {
    compiler::Compiler compiler;
    const auto answer = compiler.answer(compiler::write_code_order(architecture).value());
    ASSERT_TRUE(answer) << answer.error();
    const auto memory = compiler::SealedMemory::map(*answer, compiler::kMostAnswer).value();
    EXPECT_THAT(compiler::read_code_answer(memory.bytes()).value().error().sentence,
                HasSubstr("this build has no"));
  }
}

// Nobody asks a driver for it.
TEST(ControlDeviceCodes, NothingIsMadeForDevicesThatWantNone) {
  for (const auto& devices : {std::vector<std::string>{"cpu"}, {"vulkan", "cpu"}, {"vulkan:0"}}) {
    const auto codes = device_codes(devices, true);
    ASSERT_TRUE(codes) << codes.error();
    EXPECT_TRUE(codes->empty());
  }
}

TEST(ControlDeviceCodes, ADeviceThatIsNotThereIsASentence) {
  EXPECT_TRUE(try_device("cpu", {}));
  EXPECT_THAT(try_device("abacus", {}).error(), HasSubstr("there is no usable device \"abacus\""));
}

}  // namespace
}  // namespace xdpgpu::control
