// SPDX-License-Identifier: MIT
#include "userspace/control/program_verifier.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "gpu/stages/stages.hpp"
#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/control/forked.hpp"
#include "userspace/control/program_memory.hpp"
#include "userspace/policy/kernel_programs.hpp"
#include "userspace/policy/program_files.hpp"

namespace xdpgpu::control {
namespace {

using Clock = std::chrono::steady_clock;
using kernel::Verdict;

constexpr std::chrono::seconds kLongestVerified{15};
// Whoever asks waits longer than it may take.
constexpr std::chrono::seconds kLongestCall{30};

std::string judged(const Verdict& verdict) {
  switch (verdict.said) {
    case Verdict::Said::takes:
      return {};
    case Verdict::Said::refuses:
      return "the kernel's verifier refuses it: " + verdict.why;
    case Verdict::Said::not_asked:
    case Verdict::Said::unaskable:
      break;
  }
  return "the kernel's verifier is not asked of it: " + verdict.why;
}

// Empty: the kernel takes it.
std::string judge(const kernel::Fd& memory) {
  // Who wrote it may go on writing: a copy is looked at.
  const auto bytes = copy_of(memory, programs::kMostExchanged);
  if (!bytes) return bytes.error();
  const auto object = programs::from_bytes(*bytes);
  return object ? judged(kernel::verify(object->program, object->fragments)) : object.error();
}

// Nothing of the broker's is destroyed here: the process ends by _exit.
[[noreturn]] void judge_and_exit(const kernel::Fd& memory, const kernel::Fd& answer, pid_t parent) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  prctl(PR_SET_NAME, "xdpgpu-verifier");
  close_others({memory.get(), answer.get()});
  try {
    const std::string why = for_message(judge(memory));
    const bool told = write(answer.get(), why.data(), why.size()) == static_cast<ssize_t>(why.size());
    _exit(told ? 0 : 1);
  } catch (const std::exception&) {
    _exit(1);
  }
}

}  // namespace

std::vector<NamedProgram> programs_of(const policy::Policy& policy, const compiler::PolicySource& source) {
  std::vector<NamedProgram> all;
  for (const auto& pipeline : policy.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); s++) {
      const auto named = gpu::program_of(pipeline.stages[s]);
      if (!named) continue;
      const auto at = source.files.find(
          policy::program_key(named->object, policy::choice_of(named->section, named->maps)));
      if (at == source.files.end()) continue;
      const bool known = std::any_of(all.begin(), all.end(), [&](const NamedProgram& one) {
        return one.bytes.data() == at->second.data();
      });
      if (known) continue;
      all.push_back({at->second,
                     fmt::format("{} of pipeline \"{}\", stage {}", named->object, pipeline.name, s + 1),
                     policy::stage_pointer(pipeline, s) + "/object"});
    }
  return all;
}

Result<void> verify_programs(BrokerCalls& broker, const compiler::CompiledPolicy& policy,
                             const compiler::CompiledPolicy* before) {
  std::vector<NamedProgram> known;
  if (before != nullptr) known = programs_of(before->policy, before->source);
  for (const NamedProgram& one : programs_of(policy.policy, policy.source)) {
    if (std::any_of(known.begin(), known.end(), [&](const auto& other) { return other.bytes == one.bytes; }))
      continue;
    const auto failed = [&](const std::string& why) { return Error(fmt::format("{}: {}", one.where, why)); };
    if (auto handed = hand_over(broker, one.bytes); !handed) return failed(handed.error());
    const auto verified = broker.call(Message::make(MessageType::verify_program), kLongestCall);
    if (!verified) return failed(verified.error());
    if (verified->message.type != MessageType::done) return failed(verified->message.text);
  }
  return {};
}

Result<void> verify_apart(const kernel::Fd& memory) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return Error(fmt::format("the kernel's verifier cannot be asked: {}", std::strerror(errno)));
  const kernel::Fd from(fds[0]);
  kernel::Fd to(fds[1]);
  std::fflush(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return Error(fmt::format("the kernel's verifier cannot be asked: {}", std::strerror(errno)));
  if (child == 0) judge_and_exit(memory, to, parent);
  to = kernel::Fd();
  const auto end = Clock::now() + kLongestVerified;
  std::string why;
  bool in_time = true;
  while (true) {
    pollfd ready{from.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    in_time = left > 0;
    if (!in_time) break;
    if (poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    char some[sizeof(Message::text)];
    const ssize_t got = read(from.get(), some, sizeof(some));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    why.append(some, static_cast<std::size_t>(got));
  }
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!in_time)
    return Error(
        fmt::format("the kernel's verifier was not through with it within {} s", kLongestVerified.count()));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Error(
        std::string("whoever asks the kernel's verifier of it ended: there may not be enough memory"));
  if (!why.empty()) return Error(std::move(why));
  return {};
}

namespace {

// Where a program that is to run in the kernel calls an interface that is here by another number than the
// host.
void check_numbers(const compiler::CompiledPolicy& policy, policy::Diagnostics& refused) {
  for (const u16 place : policy::kernel_pipelines(policy.policy)) {
    const policy::Pipeline& pipeline = policy.policy.pipelines[place];
    const auto program = gpu::program_of(pipeline.stages.front());
    for (std::size_t i = 0; i < program->interfaces.size(); i++) {
      const auto& [interface, ifindex] = program->interfaces[i];
      const u32 number = if_nametoindex(std::string(interface).c_str());
      if (number == 0 || number == ifindex) continue;
      refused.push_back(
          {.file = policy.source.file,
           .pointer = fmt::format("{}/interfaces/{}/ifindex", policy::stage_pointer(pipeline, 0), i),
           .message = fmt::format("in the kernel an interface has the host's number: {} is {} here",
                                  interface, number)});
    }
  }
}

}  // namespace

Verified verify_here(const compiler::CompiledPolicy& policy) {
  Verified verified;
  check_numbers(policy, verified.refused);
  for (const NamedProgram& one : programs_of(policy.policy, policy.source)) {
    const auto object = programs::from_bytes(one.bytes);
    if (!object) continue;  // compiling it has said so
    for (const std::string& note : object->notes)
      verified.notes.push_back(fmt::format("{}: {}", one.where, note));
    const auto verdict = kernel::verify(object->program, object->fragments);
    if (verdict.said == Verdict::Said::not_asked)
      verified.notes.push_back(
          fmt::format("the kernel's verifier was not asked of {}: {}", one.where, verdict.why));
    else if (verdict.said != Verdict::Said::takes)
      verified.refused.push_back(
          {.file = policy.source.file, .pointer = one.pointer, .message = judged(verdict)});
  }
  return verified;
}

}  // namespace xdpgpu::control
