// SPDX-License-Identifier: MIT
#include "userspace/control/requests.hpp"

#include <utility>

namespace xdpgpu::control {
namespace {

Message done_or_refused(const Result<void>& done) {
  return done ? Message::make(MessageType::done) : Message::make(MessageType::refused, 0, 0, done.error());
}

}  // namespace

Result<Requests::Served> Requests::serve(Channel& channel) {
  const auto received = channel.receive(std::chrono::milliseconds(0));
  if (!received) {
    if (channel.closed()) return Served::gone;
    return Error(received.error());
  }
  if (state_ == State::undone) return Error(std::string("it asked for something after its end"));
  const Message& message = received->message;
  if (message.type == MessageType::ready) {
    if (std::exchange(state_, State::running) == State::running)
      return Error(std::string("it said twice that it was ready"));
    duties_.ready();
    return Served::answered;
  }
  if (message.type == MessageType::ending) {
    if (state_ != State::running) return Error(std::string("it ended before it was ready"));
    duties_.ending(message.a == 1, message.text);
    return Served::answered;
  }
  std::vector<int> descriptors;
  const auto answered = answer(message, descriptors);
  if (!answered) return Error(answered.error());
  const auto sent = channel.send(*answered, descriptors);
  handed_over_ = kernel::Fd();
  if (!sent) {
    if (channel.closed()) return Served::gone;
    return Error(sent.error());
  }
  return Served::answered;
}

Result<Message> Requests::answer(const Message& message, std::vector<int>& descriptors) {
  switch (message.type) {
    case MessageType::create_maps: {
      pending_.reset();  // what was made before and never installed
      auto maps = duties_.create_maps(message.a, message.b);
      if (!maps) return Message::make(MessageType::refused, 0, 0, maps.error());
      pending_ = std::move(*maps);
      descriptors = {pending_->lines.get(), pending_->rows.get()};
      return Message::make(MessageType::maps_created);
    }
    case MessageType::install_maps: {
      if (!pending_) return Error(std::string("it had maps installed that were not made"));
      const auto installed = duties_.install_maps(message.a, *pending_, message.record<xg_policy>());
      pending_.reset();
      installed_ = installed ? std::optional(message.a) : std::nullopt;
      return done_or_refused(installed);
    }
    case MessageType::activate: {
      if (installed_ != message.a)
        return Error(std::string("it had a policy put in force that was not installed"));
      const auto activated = duties_.activate(message.a, message.b, message.record<u64>());
      if (activated) installed_.reset();
      return done_or_refused(activated);
    }
    case MessageType::set_state:
      return done_or_refused(duties_.set_state(message.a, message.b == 1));
    case MessageType::set_bypass:
      return done_or_refused(duties_.set_bypass(message.a == 1, std::chrono::seconds(message.b)));
    case MessageType::bypass_left:
      return Message::with(MessageType::done, 0, 0, static_cast<u64>(duties_.bypass_left().count()));
    case MessageType::watch_egress:
      return done_or_refused(duties_.watch_egress(message.a == 1));
    case MessageType::renamed: {
      const auto name = duties_.rename(message.a);
      return name ? Message::make(MessageType::done, 0, 0, *name)
                  : Message::make(MessageType::refused, 0, 0, name.error());
    }
    case MessageType::keep_policy: {
      auto memory = duties_.keep_policy(message.a);
      if (!memory) return Message::make(MessageType::refused, 0, 0, memory.error());
      memory_ = std::move(*memory);
      descriptors = {memory_.get()};
      return Message::make(MessageType::memory);
    }
    case MessageType::policy_kept:
      if (!memory_) return Error(std::string("it kept a policy in memory that was not given"));
      duties_.policy_kept(std::move(memory_), message.record<u64>());
      return Message::make(MessageType::done);
    case MessageType::program_memory: {
      auto memory = duties_.program_memory(message.a);
      if (!memory) return Message::make(MessageType::refused, 0, 0, memory.error());
      program_ = std::move(*memory);
      descriptors = {program_.get()};
      return Message::make(MessageType::memory);
    }
    case MessageType::verify_program: {
      if (!program_) return Error(std::string("it had a program verified in memory that was not given"));
      const kernel::Fd memory = std::move(program_);
      program_ = kernel::Fd();
      return done_or_refused(duties_.verify_program(memory));
    }
    case MessageType::load_program: {
      if (!program_) return Error(std::string("it had a program loaded from memory that was not given"));
      const kernel::Fd memory = std::move(program_);
      program_ = kernel::Fd();
      return done_or_refused(duties_.load_program(message.a, message.b, message.text, memory));
    }
    case MessageType::make_program_maps: {
      if (!program_) return Error(std::string("it had maps made for memory that was not given"));
      const kernel::Fd memory = std::move(program_);
      program_ = kernel::Fd();
      const auto made = duties_.make_program_maps(message.a, message.b, message.text, memory);
      if (!made) return Message::make(MessageType::refused, 0, 0, made.error());
      return Message::make(MessageType::made, made->count, made->kept ? 1 : 0);
    }
    case MessageType::program_map: {
      auto one = duties_.program_map(message.a, message.b >> 8, message.b & 0xff);
      if (!one) return Message::make(MessageType::refused, 0, 0, one.error());
      handed_over_ = std::move(one->map);
      descriptors = {handed_over_.get()};
      return Message::make(MessageType::map, one->number);
    }
    case MessageType::retire_programs:
      return done_or_refused(duties_.retire_programs(message.a));
    case MessageType::start_compiler: {
      auto socket = duties_.start_compiler(static_cast<CompilerFor>(message.a));
      if (!socket) return Message::make(MessageType::refused, 0, 0, socket.error());
      handed_over_ = std::move(*socket);
      descriptors = {handed_over_.get()};
      return Message::make(MessageType::compiler);
    }
    case MessageType::open_log: {
      auto log = duties_.open_log(message.text);
      if (!log) return Message::make(MessageType::refused, 0, 0, log.error());
      handed_over_ = std::move(*log);
      descriptors = {handed_over_.get()};
      return Message::make(MessageType::log);
    }
    case MessageType::stopped:
      if (state_ != State::running) return Error(std::string("it stopped before it was ready"));
      state_ = State::undone;
      pending_.reset();
      memory_ = kernel::Fd();
      program_ = kernel::Fd();
      return Message::make(MessageType::gone, duties_.undo(message.b == 1) ? 1 : 0);
    case MessageType::ready:
    case MessageType::ending:
    case MessageType::memory:
    case MessageType::compiler:
    case MessageType::log:
    case MessageType::made:
    case MessageType::map:
    case MessageType::reopen_logs:
    case MessageType::maps_created:
    case MessageType::done:
    case MessageType::refused:
    case MessageType::stop:
    case MessageType::gone:
      break;
  }
  return Error(std::string("it said what only the broker says"));
}

}  // namespace xdpgpu::control
