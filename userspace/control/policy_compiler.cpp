// SPDX-License-Identifier: MIT
#include "userspace/control/policy_compiler.hpp"

#include <fmt/format.h>
#include <utility>

namespace xdpgpu::control {
namespace {

// As long as a command waits for its answer: a compiler that is stopped, or turns in circles, holds up what
// comes behind it no longer.
constexpr std::chrono::seconds kLongestCompile{60};

tl::unexpected<Refusal> refused(std::string why) {
  return tl::unexpected(Refusal{.sentence = std::move(why)});
}

}  // namespace

compiler::DownBackends PolicyCompiler::of_policy(const compiler::DownBackends& down,
                                                 const policy::Policy& policy) {
  compiler::DownBackends own;
  for (const auto& pipeline : policy.pipelines)
    for (const auto& stage : pipeline.stages)
      for (const auto& check : gpu::health_checks(stage))
        if (const compiler::HealthTarget one{check.address, check.health}; down.contains(one))
          own.insert(one);
  return own;
}

PolicyCompiler::Start PolicyCompiler::by(BrokerCalls& broker, CompilerFor what) {
  return [&broker, what]() -> Result<kernel::Fd> {
    auto given = broker.call(Message::make(MessageType::start_compiler, static_cast<u32>(what)));
    if (!given) return Error(given.error());
    if (given->message.type != MessageType::compiler) return Error(std::string(given->message.text));
    return std::move(given->descriptors[0]);
  };
}

Result<void> PolicyCompiler::start() {
  if (orders_) return {};
  auto socket = start_();
  if (!socket) return Error(socket.error());
  orders_ = compiler::Orders(std::move(*socket));
  // What the one before has made is forgotten with it, as it may have been somebody else's by then.
  artifacts_.clear();
  return {};
}

tl::expected<kernel::Fd, std::string> PolicyCompiler::ask(const compiler::PolicySource& source,
                                                          const compiler::Target& target, int given_up) {
  const auto end = std::chrono::steady_clock::now() + kLongestCompile;
  // One that has ended meanwhile, as for want of memory, has no part in this.
  for (bool again = static_cast<bool>(orders_);; again = false) {
    if (auto started = start(); !started) return tl::unexpected(started.error());
    const auto written = compiler::write_order(source, target, artifacts_);
    if (!written) return tl::unexpected(written.error());
    auto answered = orders_.order(*written, given_up, end);
    if (answered) return *std::move(answered);
    switch (answered.error()) {
      case compiler::NoAnswer::ended:
        if (again) continue;
        [[fallthrough]];
      case compiler::NoAnswer::died:
        return tl::unexpected(std::string(
            "the compiler ended while it compiled the policy: it was killed, or there was not enough memory "
            "(dmesg says which); the next policy gets another one"));
      case compiler::NoAnswer::cancelled:
        return tl::unexpected(std::string("it was given up"));
      case compiler::NoAnswer::too_long:
        return tl::unexpected(
            fmt::format("the compiler was not through with the policy within {} s: see what else the machine "
                        "does, or use shorter lists and fewer rules",
                        kLongestCompile.count()));
    }
  }
}

tl::expected<compiler::Answer, Refusal> PolicyCompiler::order(const compiler::PolicySource& source,
                                                              const compiler::Target& target, int given_up) {
  const auto answered = ask(source, target, given_up);
  if (!answered) return refused(answered.error());
  auto memory = compiler::SealedMemory::map(*answered, compiler::kMostAnswer);
  if (!memory) return refused("the compiler: " + memory.error());
  auto read = compiler::read_answer(*memory);
  if (!read) return refused("the compiler: " + read.error());
  auto answer = std::move(*read);
  if (!answer) return tl::unexpected(std::move(answer.error()));
  // What it has not sent is there; what no policy needs goes.
  for (auto& [id, artifact] : artifacts_) answer->artifacts.emplace(id, std::move(artifact));
  artifacts_ = compiler::named_by(answer->recipe, std::move(answer->artifacts));
  return answer;
}

tl::expected<PolicyCompiler::Compiled, Refusal> PolicyCompiler::compile(compiler::PolicySource source,
                                                                        std::vector<std::string> ports,
                                                                        const compiler::DownBackends& down,
                                                                        bool audit, int given_up) {
  const auto key = compiler::table_key();
  if (!key) return refused(key.error());
  compiler::Target target{std::move(ports), down, *key};
  const auto answer = order(source, target, given_up);
  if (!answer) return tl::unexpected(answer.error());
  auto outline = compiler::outline(source);
  if (!outline) return tl::unexpected(std::move(outline.error()));
  target.down = of_policy(down, *outline);
  auto whole = compiler::assemble(std::move(source), std::move(*outline), target, answer->recipe, artifacts_);
  if (!whole) return refused("the compiler: " + whole.error());
  whole->set_audit(audit);
  return std::make_shared<compiler::CompiledPolicy>(std::move(*whole));
}

tl::expected<PolicyCompiler::Compiled, Refusal> PolicyCompiler::compile_with_down(
    const compiler::CompiledPolicy& policy, const compiler::DownBackends& down, int given_up) {
  const auto key = compiler::table_key();
  if (!key) return refused(key.error());
  const compiler::Target target{policy.ports, down, *key};
  const auto answer = order(policy.source, target, given_up);
  if (!answer) return tl::unexpected(answer.error());
  auto whole = compiler::assemble(policy.source, policy.policy, target, answer->recipe, artifacts_);
  if (!whole) return refused("the compiler: " + whole.error());
  whole->set_audit(policy.audits());
  // Its programs are the same.
  whole->why_interpreted = policy.why_interpreted;
  if (const auto& code = policy.pipelines->code())
    whole->pipelines = gpu::Pipelines::with_code(whole->pipelines, code);
  return std::make_shared<compiler::CompiledPolicy>(std::move(*whole));
}

}  // namespace xdpgpu::control
