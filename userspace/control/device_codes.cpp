// SPDX-License-Identifier: MIT
#include "userspace/control/device_codes.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <sstream>

#include "gpu/device_code.hpp"
#include "userspace/compiler/compiler.hpp"
#include "userspace/compiler/disk_cache.hpp"
#include "userspace/compiler/inputs.hpp"
#include "userspace/compiler/ptx.hpp"
#include "userspace/control/compiler_process.hpp"
#include "userspace/control/privileges.hpp"

namespace xdpgpu::control {
namespace {

// The driver takes as long.
constexpr std::chrono::minutes kLongestCompile{5};

// What a function says in a process of its own that has no privileges. The error is a sentence.
Result<std::string> said_by(const std::string& what, const std::function<std::string()>& function) {
  int fds[2];
  if (pipe(fds) != 0) return Error(fmt::format("cannot make a pipe to try {}", what));
  kernel::Fd reader(fds[0]);
  kernel::Fd writer(fds[1]);
  const pid_t child = fork();
  if (child < 0) return Error(fmt::format("cannot fork to try {}", what));
  if (child == 0) {
    const auto dropped = become_nobody();
    const std::string text = dropped ? function() : dropped.error();
    if (!text.empty() && write(writer.get(), text.data(), text.size()) < 0) _exit(2);
    _exit(dropped ? 0 : 1);
  }
  writer = kernel::Fd();
  std::string said;
  char buffer[512];
  for (ssize_t n; (n = read(reader.get(), buffer, sizeof(buffer))) > 0;)
    said.append(buffer, static_cast<std::size_t>(n));
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return said;
  return Error(said.empty() ? fmt::format("trying {} crashed its driver", what) : said);
}

struct Wanted {
  std::set<u32> architectures;
  std::string linker;   // the linker's version; empty: there is none
  std::string why_not;  // then
};

Wanted wanted_by(const std::vector<std::string>& devices) {
  const auto takes = [](const std::string& device, const gpu::DeviceInfo& info) {
    return device == "auto" || device == info.name || info.name.starts_with(device + ":");
  };
  const auto said = said_by("the devices", [&] {
    std::string text;
    for (const auto& info : gpu::list_devices(gpu::Kind::cuda))
      if (info.wants_code != 0 && std::any_of(devices.begin(), devices.end(),
                                              [&](const auto& device) { return takes(device, info); }))
        text += fmt::format("{} ", info.wants_code);
    if (text.empty()) return text;
    const auto loaded = compiler::load_ptx_compiler();
    return text + "\n" + compiler::ptx_compiler_version() + "\n" + (loaded ? "" : loaded.error());
  });
  Wanted wanted;
  if (!said) return wanted;  // try_device says it of the device that it is
  std::istringstream lines(*said);
  std::string line;
  std::getline(lines, line);
  std::istringstream numbers(line);
  for (u32 number = 0; numbers >> number;) wanted.architectures.insert(number);
  std::getline(lines, wanted.linker);
  std::getline(lines, wanted.why_not);
  return wanted;
}

compiler::ArtifactId id_of(const gpu::DeviceCode& ptx, u32 architecture, const std::string& linker) {
  compiler::InputHash hash("device code");
  hash.value(architecture);
  hash.add(linker);
  hash.add(ptx.id);
  for (const auto& module : ptx.modules) hash.add(std::string_view(module.data(), module.size()));
  return hash.id();
}

// Of whoever answers, or has answered once: for that GPU, and with every module.
Result<std::shared_ptr<const gpu::DeviceCode>> taken(std::span<const std::byte> bytes, u32 architecture,
                                                     std::size_t modules) {
  auto read = compiler::read_code_answer(bytes);
  if (!read) return Error("the compiler: " + read.error());
  if (!*read) return Error((*read).error().sentence);
  gpu::DeviceCode& code = **read;
  if (code.architecture != architecture || code.modules.size() != modules)
    return Error(std::string("the compiler: what it handed over is other code than was ordered"));
  return std::make_shared<const gpu::DeviceCode>(std::move(code));
}

Result<compiler::SealedMemory> compiled(u32 architecture, bool filter) {
  CompilerProcess process(
      filter, [] {}, [](const std::string&) {}, CompilerProcess::Makes::device_code);
  auto socket = process.start();
  if (!socket) return Error(socket.error());
  const auto order = compiler::write_code_order(architecture);
  if (!order) return Error(order.error());
  const auto answer = compiler::Orders(std::move(*socket))
                          .order(*order, -1, std::chrono::steady_clock::now() + kLongestCompile);
  if (!answer)
    return Error(fmt::format("the compiler {}",
                             answer.error() == compiler::NoAnswer::too_long
                                 ? fmt::format("was not through within {} minutes", kLongestCompile.count())
                                 : std::string("ended: nvJitLink does not know this GPU (a newer CUDA "
                                               "toolkit does), or there was not enough "
                                               "memory (dmesg says so)")));
  auto memory = compiler::SealedMemory::map(*answer, compiler::kMostAnswer);
  if (!memory) return Error("the compiler: " + memory.error());
  return std::move(*memory);
}

}  // namespace

Result<gpu::DeviceCodes> device_codes(const std::vector<std::string>& devices, bool filter) {
  gpu::DeviceCodes codes;
  // Of the others, none wants code: their drivers are not asked.
  if (std::none_of(devices.begin(), devices.end(),
                   [](const auto& device) { return device == "auto" || device.starts_with("cuda"); }))
    return codes;
  const Wanted wanted = wanted_by(devices);
  if (wanted.architectures.empty()) return codes;
  const auto driver_does = [](const std::string& why) {
    return Error(fmt::format(
        "the GPU's driver compiles the stages in the data plane, at this start and at each next one: "
        "{}",
        why));
  };
  if (wanted.linker.empty()) return driver_does(wanted.why_not);
  auto cache = compiler::DiskCache::open(kCodeFolder);
  std::string not_kept = cache ? "" : cache.error();
  for (const u32 architecture : wanted.architectures) {
    const auto ptx = gpu::built_in_code(architecture);
    if (!ptx) return driver_does(ptx.error());
    const auto id = id_of(**ptx, architecture, wanted.linker);
    if (const auto kept = cache ? cache->find(id) : std::nullopt)
      if (auto code = taken(*kept, architecture, (*ptx)->modules.size())) {
        codes.emplace(architecture, *std::move(code));
        continue;
      }
    std::fprintf(stderr, "xdpgpu: machine code for compute capability %u.%u is made%s; it takes a while\n",
                 architecture / 10, architecture % 10, cache ? ", once" : "");
    auto memory = compiled(architecture, filter);
    if (!memory) return driver_does(memory.error());
    auto code = taken(memory->bytes(), architecture, (*ptx)->modules.size());
    if (!code) return driver_does(code.error());
    codes.emplace(architecture, *std::move(code));
    if (cache)
      if (const auto kept = cache->keep(id, memory->bytes()); !kept) not_kept = kept.error();
  }
  if (!not_kept.empty())
    std::fprintf(stderr, "xdpgpu: the code is made again at the next start: %s\n", not_kept.c_str());
  return codes;
}

Result<void> try_device(const std::string& name, const gpu::DeviceCodes& codes) {
  const auto problem = said_by(fmt::format("the device {}", name), [&] {
    auto device = gpu::open_device(name, codes);
    return device ? std::string() : device.error();
  });
  if (!problem) return Error(problem.error());
  if (!problem->empty()) return Error(*problem);
  return {};
}

}  // namespace xdpgpu::control
