// SPDX-License-Identifier: MIT
//
// userspace/control/program_reader.hpp: reads the program of a stranger's ELF object in a process of its own,
// which has no privileges, no files, no network and no children, and may take so much time and memory. What
// kills that process is a reason to refuse the object.
#pragma once

#include <string_view>

#include "userspace/compiler/programs/object.hpp"
#include "userspace/control/result.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::control {

// As programs::read_program does; what comes back has been checked on this side, too. filter: the process's
// system calls are filtered. Forks: for a process of one thread.
Result<programs::ObjectProgram> read_program_apart(std::string_view object, const programs::Choice& which,
                                                   bool filter);

// As policies' files have it (userspace/policy/policy.hpp): each object by itself. System calls are filtered
// unless XDPGPU_SECCOMP says otherwise.
policy::ObjectReader object_reader();

}  // namespace xdpgpu::control
