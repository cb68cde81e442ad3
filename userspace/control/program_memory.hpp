// SPDX-License-Identifier: MIT
//
// userspace/control/program_memory.hpp: programs on their way from the data plane to the broker, which has
// them verified (program_verifier.hpp) or loaded (kernel_programs.hpp): in memory of the broker's that the
// data plane writes to, and may go on writing to.
#pragma once

#include <string>
#include <string_view>

#include "userspace/control/broker_calls.hpp"

namespace xdpgpu::control {

// The data plane's: into memory that the broker gives for it, which the next message is about. Bytes as the
// broker gives at most; the error says where it gives none.
Result<void> hand_over(BrokerCalls& broker, std::string_view bytes);

// The broker's: what stands in the memory now, of `most` bytes at most.
Result<std::string> copy_of(const kernel::Fd& memory, u64 most);

// The end of a sentence that is too long for a message's text says why.
std::string for_message(const std::string& why);

}  // namespace xdpgpu::control
