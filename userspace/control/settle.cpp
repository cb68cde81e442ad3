// SPDX-License-Identifier: MIT
#include "userspace/control/settle.hpp"

#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "userspace/control/client.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/pins.hpp"
#include "userspace/kernel/xdp_link.hpp"

namespace xdpgpu::control {
namespace {

namespace fs = std::filesystem;
namespace names = kernel::names;

bool lives(const std::string& ifname, const names::Scope& scope) {
  const Presence found = look_for_process(ifname, scope);
  // One in another mount namespace may have its socket elsewhere.
  return found == Presence::running || found == Presence::ending || kernel::has_beating_pins(ifname, scope);
}

bool is_on(u32 ifindex, u32 program_id) {
  bpf_xdp_query_opts query{};
  query.sz = sizeof(query);
  return bpf_xdp_query(static_cast<int>(ifindex), 0, &query) == 0 &&
         (query.drv_prog_id == program_id || query.skb_prog_id == program_id);
}

// The name of the interface that what is pinned as `ifname` belongs to; empty: of none of this namespace. By
// the number alone it could be another namespace's.
std::string owner_of_pins(const std::string& ifname) {
  const auto link = kernel::look_at_link(kernel::pinned_link(ifname).get());
  char now[IF_NAMESIZE] = {};
  if (!link || link->ifindex == 0 || !if_indextoname(link->ifindex, now)) return {};
  return is_on(link->ifindex, link->program_id) ? now : std::string();
}

void move(const std::string& from, const std::string& to) {
  if (!kernel::rename_pins(from, to)) return;
  for (const char* kind : {"offloads", "busy-poll"})  // there may be none
    (void)std::rename(names::note(from, kind).c_str(), names::note(to, kind).c_str());
}

}  // namespace

// By way of names that no interface has, as two may have changed theirs for each other's.
void settle_names(const RunLock& lock) {
  std::vector<std::pair<std::string, std::string>> moving;
  for (const auto& ifname : names::interfaces_with_pins()) {
    const std::string now = owner_of_pins(ifname);
    if (now.empty() || now == ifname || lives(ifname, names::own_scope())) continue;
    const std::string between = fmt::format("renamed-interface-{}", if_nametoindex(now.c_str()));
    if (ifname != between) move(ifname, between);
    unlink(names::socket(ifname).c_str());
    orphan_links(ifname, lock);
    moving.emplace_back(between, now);
  }
  for (const auto& [between, now] : moving) move(between, now);
}

namespace {

bool is_gone(const names::Scope& scope, const std::set<std::string>& interfaces) {
  return std::none_of(interfaces.begin(), interfaces.end(), [&](const std::string& ifname) {
    const auto link = kernel::look_at_link(kernel::pinned_link(ifname, scope).get());
    return lives(ifname, scope) || (link && link->ifindex != 0);
  });
}

}  // namespace

void remove_gone_namespaces() {
  for (const auto& scope : names::other_scopes()) {
    if (scope.empty()) continue;  // the host's is not gone
    const auto lock = RunLock::take(std::chrono::milliseconds(0), scope);
    if (!lock) continue;  // somebody is there
    std::set<std::string> interfaces;
    for (auto& ifname : names::interfaces_with_socket(scope)) interfaces.insert(std::move(ifname));
    for (auto& ifname : names::interfaces_with_pins(scope)) interfaces.insert(std::move(ifname));
    if (!is_gone(scope, interfaces)) continue;
    for (const auto& ifname : interfaces) kernel::remove_pins(ifname, scope);
    std::error_code error;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(names::run_root(scope), error))
      if (entry.path() != names::lock(scope)) files.push_back(entry.path());
    for (const auto& file : files) fs::remove(file, error);
  }
}

}  // namespace xdpgpu::control
