// SPDX-License-Identifier: MIT
//
// userspace/control/log_places.hpp: where logs go, as places that the broker opens. Which ones there are is
// root's word: the outputs of the policy file that attach was given, as it was then and as it is now. The
// data plane, and who may have taken it over, can only ask for one of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "userspace/control/result.hpp"
#include "userspace/kernel/kernel.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::control {

// An output in one word, by which the two halves of an attach know it: "file:/var/log/xdpgpu/eve.json",
// "socket:/run/x.sock", "journald".
std::string log_place(const policy::LogOutput& output);

// Opens the output for writing; never waits. A file is made with mode 0640 where there is none, and written
// to at its end; it may be a FIFO that somebody reads. It and its folder have to be root's, or this user's,
// and no part of the path may be a symbolic link, nor a folder that everybody may write to and that is not
// sticky. A socket is a Unix one, a stream's or of datagrams; it and its folder may be another user's. The
// error says what was refused, and why.
Result<kernel::Fd> open_log(const policy::LogOutput& output);

class LogPlaces {
 public:
  // policy_file: absolute; empty: there is none, and `first` is all there is.
  LogPlaces(const std::vector<policy::LogOutput>& first, std::string policy_file);
  // A place that is not known is looked for in the policy file as it is now, if nobody but root can write it.
  Result<kernel::Fd> open(std::string_view place);

 private:
  void add(const std::vector<policy::LogOutput>& outputs);
  // Adds those that the policy file has now; says why the one that is looked for is not among them, if it is
  // not.
  std::string look_again();
  std::vector<policy::LogOutput> outputs_;
  std::string policy_file_;
};

}  // namespace xdpgpu::control
