// SPDX-License-Identifier: MIT
#include "userspace/control/offloads.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <utility>

#include "userspace/kernel/names.hpp"

namespace xdpgpu::control {
namespace {

std::string note_path(const std::string& ifname) { return kernel::names::note(ifname, "offloads"); }

std::vector<std::string> in_the_way(const host::InterfaceFacts& facts) {
  std::vector<std::string> names;
  for (const char* name : {host::kRxVlan, host::kLro, host::kHwGro}) {
    // A veth has no hardware: its rxvlan takes no tag off.
    if (facts.driver == "veth" && name == host::kRxVlan) continue;
    const auto offload = facts.offloads.find(name);
    if (offload != facts.offloads.end() && offload->second.active && offload->second.changeable)
      names.emplace_back(name);
  }
  return names;
}

// What is said to be off.
std::vector<std::string> noted(const std::string& ifname) {
  std::vector<std::string> names;
  std::ifstream note(note_path(ifname));
  for (std::string name; std::getline(note, name);)
    if (name == host::kRxVlan || name == host::kLro || name == host::kHwGro) names.push_back(name);
  return names;
}

}  // namespace

Result<OffloadGuard> OffloadGuard::switch_off(const host::InterfaceFacts& facts) {
  OffloadGuard guard;
  guard.ifname_ = facts.name;
  const auto names = in_the_way(facts);
  const auto taken_over = noted(facts.name);
  guard.switched_ = taken_over;
  if (names.empty()) return guard;
  std::ofstream note(note_path(facts.name), std::ios::app);
  for (const auto& name : names) note << name << '\n';
  if (!note.flush()) return Error(fmt::format("cannot write {}; is /run writable?", note_path(facts.name)));
  for (const auto& name : names) {
    if (auto done = host::set_offload(facts.name, name, false); done) guard.switched_.push_back(name);
    // virtio_net takes no change while somebody's program is on, and merges nothing then.
    else if (facts.xdp_program_id == 0 || name == host::kRxVlan) {
      if (!taken_over.empty()) {  // by a program that stays
        for (std::size_t i = taken_over.size(); i < guard.switched_.size(); i++)
          (void)host::set_offload(facts.name, guard.switched_[i], true);
        guard.leave();
      }
      return Error(done.error());
    }
  }
  return guard;
}

OffloadGuard::OffloadGuard(OffloadGuard&& other) noexcept
    : ifname_(std::exchange(other.ifname_, {})), switched_(std::exchange(other.switched_, {})) {}

OffloadGuard& OffloadGuard::operator=(OffloadGuard&& other) noexcept {
  std::swap(ifname_, other.ifname_);
  std::swap(switched_, other.switched_);
  return *this;
}

OffloadGuard::~OffloadGuard() { restore(); }

void OffloadGuard::rename(const std::string& ifname) {
  if (ifname_.empty()) return;
  (void)std::rename(note_path(ifname_).c_str(), note_path(ifname).c_str());  // there may be none
  ifname_ = ifname;
}

void OffloadGuard::restore() noexcept {
  if (ifname_.empty()) return;
  for (const auto& name : std::exchange(switched_, {})) (void)host::set_offload(ifname_, name, true);
  unlink(note_path(std::exchange(ifname_, {})).c_str());
}

std::vector<std::string> restore_offloads(const std::string& ifname) {
  std::vector<std::string> restored;
  for (auto& name : noted(ifname))
    if (host::set_offload(ifname, name, true)) restored.push_back(std::move(name));
  unlink(note_path(ifname).c_str());
  return restored;
}

}  // namespace xdpgpu::control
