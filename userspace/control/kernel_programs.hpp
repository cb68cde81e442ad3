// SPDX-License-Identifier: MIT
//
// userspace/control/kernel_programs.hpp: programs of policies that run in XDP itself ("where": "kernel"), and
// the maps of those that devices run, as the kernel has them (map_twins.hpp). The data plane, which has the
// policy, orders them as bytes; the broker has them loaded in a process of their own, puts programs where its
// XDP programs go on with them, and pins their maps. Old and new policy have each a slot of them, as they
// have of tables.
//
// What a data plane that has been taken over can do with that: have the kernel run programs of its choice on
// the packets of the interfaces that it has anyway, and drop, change, pass or send them out of these
// interfaces. They are the kernel's verifier's to accept, call no other helpers than a device has
// (userspace/kernel/user_program.hpp), keep maps of kMostUserMapBytes a policy, and go with the attach. To
// the maps of those that devices run it writes as it likes; no program in the kernel knows them.
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
// And so many, but for the last program's.
inline constexpr u64 kMostUserMaps = 512;

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

// One of a program's maps in the kernel.
struct OrderedMap {
  u32 number = 0;  // of the program's maps
  kernel::Fd map;  // to be written, too
};
// The data plane's: orders those of the program's maps that are kept in step with a device's. pipeline,
// stage: from 0; number: below kMaxMapOrders, each once a slot. The error is a sentence that names the
// program.
struct OrderedMaps {
  std::vector<OrderedMap> maps{};
  bool kept = false;  // they are those of the policy before, with what is in them
};
Result<OrderedMaps> order_maps(BrokerCalls& broker, const compiler::CompiledPolicy& policy, u32 pipeline,
                               u32 stage, u32 slot, u32 number);

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
  // Likewise of its maps alone; place: stage, from 1, and pipeline, "1 web".
  struct Made {
    u32 count = 0;
    bool kept = false;  // they are the other slot's
  };
  Result<Made> make_maps(u32 slot, u32 number, const std::string& place, const kernel::Fd& memory,
                         const std::vector<Port>& ports);
  // Of those, one and its number among the program's; nullptr: there is none.
  const kernel::UserMap* map(u32 slot, u32 number, u32 which) const noexcept;
  // Packets go by the slot from now on: its maps' pins take the place of the other one's.
  void put_in_force(u32 slot, const std::vector<Port>& ports) noexcept;
  // No packet goes by the slot any more, or none ever did.
  void retire(u32 slot, const std::vector<Port>& ports) noexcept;

 private:
  struct Entry {
    std::string pipeline;  // of maps alone: and stage, as ordered
    std::string order;     // its bytes
    std::shared_ptr<const kernel::UserProgram> program;
    bool kept = false;
  };
  using Entries = std::map<u32, Entry>;  // by number
  struct Slot {
    Entries programs, maps;
  };
  // What is ordered for `to`, one of the slot's, with what it has already.
  Result<Entry> entry_of(u32 slot, Entries Slot::*to, const std::string& pipeline, const kernel::Fd& memory,
                         const std::vector<Port>& ports) const;

  std::array<Slot, 2> slots_;
};

}  // namespace xdpgpu::control
