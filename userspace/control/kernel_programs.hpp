// SPDX-License-Identifier: MIT
//
// userspace/control/kernel_programs.hpp: programs of policies that run in XDP itself ("where": "kernel"). The
// data plane, which has the policy, orders them as bytes; the broker has them loaded in a process of their
// own, puts them where its XDP programs go on with them, and pins their maps. Old and new policy have each a
// slot of them, as they have of tables.
//
// What a data plane that has been taken over can do with that: have the kernel run programs of its choice on
// the packets of the interfaces that it has anyway, and drop, change, pass or send them out of these
// interfaces. They are the kernel's verifier's to accept, call no other helpers than a device has
// (userspace/kernel/ user_program.hpp), keep maps of kMostUserMapBytes a policy, and go with the attach.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/program_source.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/broker_calls.hpp"
#include "userspace/kernel/user_program.hpp"

namespace xdpgpu::control {

// Of the kernel's memory, for the maps of one policy's programs; there are two policies' at most.
inline constexpr u64 kMostUserMapBytes = u64{1} << 30;

// What is ordered.
struct ProgramOrder {
  std::string_view program;  // as userspace/compiler/programs/exchange.hpp has it
  std::vector<gpu::ProgramMapContents> contents{};
  // What the policy calls attached interfaces, by port index.
  struct Number {
    u32 port, ifindex;
  };
  std::vector<Number> interfaces{};
};
// The error is a sentence.
Result<std::string> to_bytes(const ProgramOrder& order);
// Whatever the bytes are. The order's program is theirs.
Result<ProgramOrder> order_from(std::string_view bytes);

// The data plane's: orders all of the policy's that run in the kernel into the slot, by their numbers
// (policy::kernel_pipelines()). The error is a sentence that names the program.
Result<void> order_programs(BrokerCalls& broker, const compiler::CompiledPolicy& policy, u32 slot);

// The broker's.
class KernelPrograms {
 public:
  // An attached interface.
  struct Port {
    std::string ifname;
    u32 ifindex = 0;
    bool several_buffers = false;  // packets may be of
    bool in_dispatcher = false;    // libxdp's runs its program
    int programs = -1;             // its map `user_programs`, borrowed
  };

  // Has the order in `memory`, which others may go on writing, loaded as program `number` of the slot, by
  // which no packet goes. One that is the same as the other slot's of that pipeline is that one, with its
  // maps and what is in them. The error is a sentence.
  Result<void> load(u32 slot, u32 number, const std::string& pipeline, const kernel::Fd& memory,
                    const std::vector<Port>& ports);
  // Packets go by the slot from now on: its maps' pins take the place of the other one's.
  void put_in_force(u32 slot, const std::vector<Port>& ports) noexcept;
  // No packet goes by the slot any more, or none ever did.
  void retire(u32 slot, const std::vector<Port>& ports) noexcept;

 private:
  struct Entry {
    std::string pipeline;
    std::string order;  // its bytes
    std::shared_ptr<const kernel::UserProgram> program;
  };
  using Slot = std::map<u32, Entry>;  // by number
  const Entry* same_in(const Slot& slot, const std::string& pipeline, const std::string& order) const;

  std::array<Slot, 2> slots_;
};

}  // namespace xdpgpu::control
