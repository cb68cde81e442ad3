// SPDX-License-Identifier: MIT
//
// userspace/manual/completion.hpp: what bash and zsh complete behind "xdpgpu". What they ask is the file
// system, and ip(8) behind --netns: xdpgpu itself does not run because somebody, root perhaps, presses the
// tab key. So a build writes scripts, and there is no command that does.
#pragma once

#include <string>

#include "userspace/manual/command_tree.hpp"

namespace xdpgpu::manual {

// frame: completion.bash and completion.zsh, in which the commands' part takes the place of a line that has
// @COMMANDS@.
std::string bash_completion(const Command& program, std::string frame);
std::string zsh_completion(const Command& program, std::string frame);

}  // namespace xdpgpu::manual
