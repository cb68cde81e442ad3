// SPDX-License-Identifier: MIT
#include "userspace/kernel/pins.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "userspace/kernel/names.hpp"
#include "userspace/kernel/trusted.hpp"

namespace xdpgpu::kernel {
namespace {

namespace fs = std::filesystem;

// Far above any heartbeat's time-out, so that a worker held up for a moment is not taken for dead.
constexpr u64 kDeadAfterNs = 2'000'000'000;
constexpr const char* kLink = "xdp_link";

// What stays one folder under the root.
bool is_folder_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

fs::path folder_of(const std::string& ifname, const names::Scope& scope = names::own_scope()) {
  return names::pin_folder(ifname, scope);
}

// What root pinned there. Empty: nothing, or what others had a hand in.
Fd pin_at(const std::string& path) {
  const auto stands = stands_by_root(path);
  return stands && *stands ? Fd(bpf_obj_get(path.c_str())) : Fd();
}

// What the folders of a network namespace's interfaces stand in, from the top.
std::vector<std::string> roots(const names::Scope& scope = names::own_scope()) {
  if (scope.empty()) return {XG_PIN_ROOT};
  return {XG_PIN_ROOT, names::pin_root(scope)};
}

bool make(const std::string& folder) { return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST; }

// Whoever removes the last pins removes the roots, too, maybe between these steps.
Result<void> make_folder(const fs::path& folder) {
  for (int tries = 0; tries < 100; tries++) {
    const auto above = roots();
    if (std::all_of(above.begin(), above.end(), make) && make(folder)) return {};
    if (errno != ENOENT) break;
  }
  return tl::unexpected(fmt::format("cannot make {}: {}", folder.string(), std::strerror(errno)));
}

// Where anybody may make folders on the BPF filesystem, the root could be somebody else's, who could then
// exchange what is below; and others need not look.
Result<void> check_root(const std::string& path) {
  struct stat root {};
  if (lstat(path.c_str(), &root) != 0)
    return tl::unexpected(fmt::format("cannot look at {}: {}", path, std::strerror(errno)));
  if (!S_ISDIR(root.st_mode) || root.st_uid != 0)
    return tl::unexpected(fmt::format(
        "{} is not root's: its owner, user {}, could exchange the pins below it; find out whose it "
        "is, and remove it",
        path, root.st_uid));
  if ((root.st_mode & 077) == 0 || chmod(path.c_str(), 0700) == 0) return {};
  return tl::unexpected(fmt::format("cannot close {} to others: {}", path, std::strerror(errno)));
}
Result<void> check_roots() {
  for (const auto& root : roots())
    if (auto ok = check_root(root); !ok) return ok;
  return {};
}

Result<void> check_bpffs() {
  const std::string mount = fs::path(XG_PIN_ROOT).parent_path();
  struct statfs facts {};
  if (statfs(mount.c_str(), &facts) == 0 && facts.f_type == BPF_FS_MAGIC) return {};
  return tl::unexpected(fmt::format(
      "{} is not a BPF filesystem, so maps cannot be pinned; run: mount -t bpf bpf {}", mount, mount));
}

Result<void> pin_map(const fs::path& folder, const char* name, const Fd& map) {
  const fs::path path = folder / name;
  if (bpf_obj_pin(map.get(), path.c_str()) == 0) return {};
  return tl::unexpected(fmt::format("cannot pin map {}: {}", path.string(), std::strerror(errno)));
}

}  // namespace

namespace {

// When queue 0's worker beat last; 0: none lives, or the map is of another kind, whose values the kernel
// would write beyond the end.
u64 last_beat(int queue_state_fd) noexcept {
  bpf_map_info info{};
  u32 size = sizeof(info);
  xg_queue_state state{};
  if (bpf_obj_get_info_by_fd(queue_state_fd, &info, &size) != 0 || info.type != BPF_MAP_TYPE_ARRAY ||
      info.value_size != sizeof(state))
    return 0;
  const u32 zero = 0;
  return bpf_map_lookup_elem(queue_state_fd, &zero, &state) == 0 ? state.beat_ns : 0;
}

u32 map_id(int map) noexcept {
  bpf_map_info info{};
  u32 size = sizeof(info);
  return map >= 0 && bpf_obj_get_info_by_fd(map, &info, &size) == 0 ? info.id : 0;
}

}  // namespace

bool has_live_worker(int queue_state_fd) noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const u64 now_ns = static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
  const u64 beat_ns = last_beat(queue_state_fd);
  return beat_ns && now_ns - beat_ns < kDeadAfterNs;
}

bool has_beating_worker(int queue_state_fd) noexcept {
  if (!has_live_worker(queue_state_fd)) return false;
  const u64 before = last_beat(queue_state_fd);
  for (int step = 0; step < 25; step++) {
    usleep(20'000);
    if (last_beat(queue_state_fd) != before) return true;
  }
  return false;
}

bool has_beating_pins(const std::string& ifname, const names::Scope& scope) noexcept {
  const Fd state = pin_at(folder_of(ifname, scope) / "queue_state");
  return state && has_beating_worker(state.get());
}

Fd queue_state_of(int program) noexcept {
  std::array<u32, 64> ids{};
  bpf_prog_info info{};
  info.map_ids = reinterpret_cast<u64>(ids.data());
  info.nr_map_ids = ids.size();
  u32 size = sizeof(info);
  if (program < 0 || bpf_obj_get_info_by_fd(program, &info, &size) != 0) return Fd();
  for (u32 i = 0; i < std::min<u32>(info.nr_map_ids, ids.size()); i++) {
    Fd map(bpf_map_get_fd_by_id(ids[i]));
    bpf_map_info its{};
    u32 its_size = sizeof(its);
    if (map && bpf_obj_get_info_by_fd(map.get(), &its, &its_size) == 0 &&
        std::string_view(its.name) == "queue_state")
      return map;
  }
  return Fd();
}

Result<void> check_pins(const std::string& ifname, const names::Scope& scope) {
  const auto stands = stands_by_root(folder_of(ifname, scope));
  if (!stands) return tl::unexpected(stands.error());
  return {};
}

std::string pinned_as(int queue_state_fd, const names::Scope& scope) {
  const u32 wanted = map_id(queue_state_fd);
  for (auto& ifname : names::interfaces_with_pins(scope)) {
    const Fd pinned = pin_at(folder_of(ifname, scope) / "queue_state");
    if (wanted && map_id(pinned.get()) == wanted) return ifname;
  }
  return {};
}

namespace {

Result<void> remove_dead_pins(const std::string& ifname) {
  if (auto ok = check_pins(ifname); !ok) return ok;
  const Fd stale = pin_at(folder_of(ifname) / "queue_state");
  if (stale && has_live_worker(stale.get()))
    return tl::unexpected(
        fmt::format("{} is attached already; run: xdpgpu detach {}", ifname, names::operand(ifname)));
  remove_pins(ifname);
  return {};
}

}  // namespace

Result<void> pin_maps(const std::string& ifname, const PortMaps& maps) {
  if (auto ok = check_bpffs(); !ok) return ok;
  const fs::path folder = folder_of(ifname);
  if (auto ok = remove_dead_pins(ifname); !ok) return ok;
  if (auto ok = make_folder(folder); !ok) return ok;
  Result<void> ok = check_roots();
#define XG_X(name) \
  if (ok) ok = pin_map(folder, #name, maps.name);
  XG_PORT_MAPS(XG_X)
#undef XG_X
  if (!ok) remove_pins(ifname);
  return ok;
}

std::optional<PortMaps> pinned_maps(const std::string& ifname) {
  if (!is_folder_name(ifname)) return std::nullopt;
  PortMaps maps;
  bool all = true;
#define XG_X(name)                               \
  maps.name = pin_at(folder_of(ifname) / #name); \
  all = all && maps.name;
  XG_PORT_MAPS(XG_X)
#undef XG_X
  if (!all) return std::nullopt;
  return maps;
}

int pin_link(const std::string& ifname, const Fd& link) noexcept {
  return bpf_obj_pin(link.get(), (folder_of(ifname) / kLink).c_str());
}

Fd pinned_link(const std::string& ifname, const names::Scope& scope) noexcept {
  if (!is_folder_name(ifname)) return Fd();
  return pin_at(folder_of(ifname, scope) / kLink);
}

Result<void> rename_pins(const std::string& from, const std::string& to) {
  if (!is_folder_name(from) || !is_folder_name(to))
    return tl::unexpected(fmt::format("\"{}\" or \"{}\" cannot be an interface's name", from, to));
  if (auto ok = check_pins(from); !ok) return ok;
  if (auto ok = remove_dead_pins(to); !ok) return ok;
  std::error_code error;
  fs::rename(folder_of(from), folder_of(to), error);
  if (error)
    return tl::unexpected(fmt::format("cannot rename {}: {}", folder_of(from).string(), error.message()));
  return {};
}

void remove_pins(const std::string& ifname, const names::Scope& scope) noexcept {
  if (!is_folder_name(ifname)) return;
  if (!check_pins(ifname, scope)) return;
  std::error_code ignored;
  fs::remove_all(folder_of(ifname, scope), ignored);
  const auto above = roots(scope);
  for (auto root = above.rbegin(); root != above.rend(); ++root)
    rmdir(root->c_str());  // only if no other interface has pins
}

}  // namespace xdpgpu::kernel
