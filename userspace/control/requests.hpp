// SPDX-License-Identifier: MIT
//
// userspace/control/requests.hpp: what the data plane may ask of the broker, and when. A data plane that
// has been taken over can say anything here: what it may not ask, or not now, is done nothing about and ends
// it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "userspace/control/channel.hpp"
#include "userspace/control/kernel_programs.hpp"

namespace xdpgpu::control {

class Requests {
 public:
  // What the broker does on request. A duty that fails is answered by `refused`, with its sentence.
  struct Duties {
    std::function<Result<kernel::PolicyMaps>(u32 lines, u32 rows)> create_maps;
    std::function<Result<void>(u32 slot, const kernel::PolicyMaps& maps, const xg_policy& header)>
        install_maps;
    // Of the slot that was installed last.
    std::function<Result<void>(u32 slot, u32 generation, u64 policy_hash)> activate;
    // bypassed_too: also of ports that an operator has bypassed.
    std::function<Result<void>(u32 state, bool bypassed_too)> set_state;
    std::function<Result<void>(bool on, std::chrono::seconds ends_after)> set_bypass;  // 0: never
    std::function<std::chrono::milliseconds()> bypass_left;  // until it ends; 0: it does not by itself
    std::function<Result<void>(bool on)> watch_egress;
    std::function<Result<std::string>(u32 port)> rename;       // returns the name that the interface has now
    std::function<Result<kernel::Fd>(u32 bytes)> keep_policy;  // returns memory for a policy
    // The policy in that memory is what a next data plane is to begin with.
    std::function<void(kernel::Fd memory, u64 hash)> policy_kept;
    std::function<Result<kernel::Fd>(u32 bytes)> program_memory;  // returns memory for a program
    // Whether the kernel takes the program in that memory.
    std::function<Result<void>(const kernel::Fd& memory)> verify_program;
    // Has what stands in that memory be a slot's program (kernel_programs.hpp), and lets go of a slot's. No
    // packet goes by the slot.
    std::function<Result<void>(u32 slot, u32 number, const std::string& pipeline, const kernel::Fd& memory)>
        load_program;
    // Likewise, of its maps alone. One of them, which is the data plane's to write.
    std::function<Result<KernelPrograms::Made>(u32 slot, u32 number, const std::string& place,
                                               const kernel::Fd& memory)>
        make_program_maps;
    struct ProgramMap {
      kernel::Fd map;
      u32 number = 0;  // of the program's
    };
    std::function<Result<ProgramMap>(u32 slot, u32 number, u32 which)> program_map;
    std::function<Result<void>(u32 slot)> retire_programs;
    // Returns what a compiler of its own takes orders through; one that there was for the same has ended.
    std::function<Result<kernel::Fd>(CompilerFor what)> start_compiler;
    // Returns where the lines of an output are to be written, if it is one that root has named.
    std::function<Result<kernel::Fd>(const std::string& place)> open_log;
    std::function<void()> ready;  // once
    // After `ready`: it was told to detach, and dies or not, that is to be done. keep: as of `undo`. why:
    // what ends it, as it says; empty: the broker knows.
    std::function<void(bool keep, const std::string& why)> ending;
    // Once, after `ready`; nothing is done any more from then on. keep: what decides is to stay for a later
    // attach; returns whether it does.
    std::function<bool(bool keep)> undo;
  };
  enum class Served { answered, gone };

  explicit Requests(Duties duties) : duties_(std::move(duties)) {}

  // Takes one message that is there, and never waits: `gone` when the other side has closed its end. The
  // error is what is wrong with the data plane.
  Result<Served> serve(Channel& channel);
  bool undone() const noexcept { return state_ == State::undone; }

 private:
  enum class State { starting, running, undone };
  Result<Message> answer(const Message& message, std::vector<int>& descriptors);

  Duties duties_;
  State state_ = State::starting;
  std::optional<kernel::PolicyMaps> pending_;  // made, and not installed yet
  kernel::Fd memory_;                          // given, and nothing said of it yet
  kernel::Fd program_;                         // memory that was given for one, not verified yet
  kernel::Fd handed_over_;                     // while it is sent
  std::optional<u32> installed_;               // slot, not activated yet
};

}  // namespace xdpgpu::control
