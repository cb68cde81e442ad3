// SPDX-License-Identifier: MIT
//
// userspace/control/policy_reload.hpp: what SIGHUP asks for: the policy file that attach was given is applied
// again, with the lists that it names as they are now. A process of its own does that, with the broker's
// rights and as "xdpgpu policy apply" does: it reads the files and sends them to the data plane. So neither
// the broker nor what it has to watch ever waits for a file, or for a data plane that does not answer. Which
// file that is comes from whoever attached, and never from the data plane.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace xdpgpu::control {

class PolicyReload {
 public:
  // Says what came of it, in that process.
  using Say = std::function<void(const std::string& sentence)>;
  // file: empty where there is none.
  PolicyReload(std::string file, Say say) : file_(std::move(file)), say_(std::move(say)) {}
  ~PolicyReload() { end(); }
  PolicyReload(const PolicyReload&) = delete;
  PolicyReload& operator=(const PolicyReload&) = delete;

  void ask() noexcept { asked_ = true; }
  // Begins what was asked for, unless one is under way: then it begins behind that. ifname: one of the
  // attach's.
  void begin(const std::string& ifname);
  // Whoever it asks has died: what is under way is given up, and begins anew at the next `begin`.
  void interrupt() noexcept;
  // Takes the end of that process, if it has come.
  void reap() noexcept;

 private:
  void end() noexcept;
  std::string file_;
  Say say_;
  pid_t child_ = -1;
  bool asked_ = false;
};

}  // namespace xdpgpu::control
