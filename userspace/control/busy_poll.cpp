// SPDX-License-Identifier: MIT
#include "userspace/control/busy_poll.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <utility>

#include "userspace/host/sysfs.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::control {
namespace {

// As Documentation/networking/napi.rst has them: two empty polls before interrupts are on again, and a
// look at the queue after 200 us in which nobody polled.
struct Setting {
  const char* name;
  u64 value;
};
constexpr Setting kSettings[] = {{"napi_defer_hard_irqs", 2}, {"gro_flush_timeout", 200'000}};

std::string note_path(const std::string& ifname) { return kernel::names::note(ifname, "busy-poll"); }

}  // namespace

Result<BusyPollGuard> BusyPollGuard::set(const std::string& ifname) {
  BusyPollGuard guard;
  const auto sysfs = host::NetSysfs::open();
  if (!sysfs) return Error(sysfs.error() + ", or set io.busy_poll to \"auto\" or false");
  std::vector<Setting> changes;
  for (const Setting& setting : kSettings) {
    const auto now = sysfs->read(ifname, setting.name);
    if (!now) return Error(now.error() + "; set io.busy_poll to \"auto\" or false");
    if (*now == 0) changes.push_back(setting);
  }
  if (!changes.empty() || std::ifstream(note_path(ifname))) guard.ifname_ = ifname;
  if (changes.empty()) return guard;
  std::ofstream note(note_path(ifname), std::ios::app);
  for (const Setting& setting : changes) note << setting.name << '\n';
  if (!note.flush()) return Error(fmt::format("cannot write {}; is /run writable?", note_path(ifname)));
  for (const Setting& setting : changes)
    if (auto done = sysfs->write(ifname, setting.name, setting.value); !done)
      return Error(done.error() + "; set io.busy_poll to \"auto\" or false");
  return guard;
}

BusyPollGuard::BusyPollGuard(BusyPollGuard&& other) noexcept : ifname_(std::exchange(other.ifname_, {})) {}

BusyPollGuard& BusyPollGuard::operator=(BusyPollGuard&& other) noexcept {
  std::swap(ifname_, other.ifname_);
  return *this;
}

BusyPollGuard::~BusyPollGuard() { restore(); }

void BusyPollGuard::rename(const std::string& ifname) {
  if (ifname_.empty()) return;
  (void)std::rename(note_path(ifname_).c_str(), note_path(ifname).c_str());
  ifname_ = ifname;
}

void BusyPollGuard::restore() noexcept {
  if (!ifname_.empty()) restore_busy_poll(std::exchange(ifname_, {}));
}

bool is_set_up_for_busy_poll(const std::string& ifname) {
  const auto sysfs = host::NetSysfs::open();
  if (!sysfs) return false;
  for (const Setting& setting : kSettings)
    if (sysfs->read(ifname, setting.name).value_or(0) == 0) return false;
  return true;
}

std::vector<std::string> restore_busy_poll(const std::string& ifname) {
  std::vector<std::string> restored;
  std::ifstream note(note_path(ifname));
  if (!note) return restored;
  const auto sysfs = host::NetSysfs::open();
  for (std::string name; sysfs && std::getline(note, name);)
    for (const Setting& setting : kSettings)
      if (name == setting.name && sysfs->read(ifname, name).value_or(0) == setting.value &&
          sysfs->write(ifname, name, 0))
        restored.push_back(name);
  unlink(note_path(ifname).c_str());
  return restored;
}

}  // namespace xdpgpu::control
