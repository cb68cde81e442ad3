// SPDX-License-Identifier: MIT
#include "userspace/control/privileges.hpp"

#include <cap-ng.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace xdpgpu::control {
namespace {

struct User {
  uid_t uid = 65534;
  gid_t gid = 65534;
};

User data_plane_user() {
  for (const char* name : {"xdpgpu", "nobody"})
    if (const passwd* entry = getpwnam(name)) return {entry->pw_uid, entry->pw_gid};
  return {};
}

// GPUs' device nodes belong to these groups where they are not open to all.
std::vector<gid_t> device_groups() {
  std::vector<gid_t> groups;
  for (const char* name : {"render", "video"})
    if (const group* entry = getgrnam(name)) groups.push_back(entry->gr_gid);
  return groups;
}

Result<void> failed(const char* what) {
  return Error(fmt::format("the data plane cannot give up its privileges: {}: {}", what,
                           errno ? std::strerror(errno) : "refused"));
}

Result<void> apply(bool keep_for_sockets, bool for_busy_poll, const std::vector<gid_t>& groups) {
  errno = 0;
  const User user = data_plane_user();
  if (setgroups(groups.size(), groups.data()) != 0) return failed("setgroups");
  capng_clear(CAPNG_SELECT_BOTH);
  if (keep_for_sockets &&
      capng_updatev(CAPNG_ADD, static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED), CAP_NET_RAW,
                    CAP_IPC_LOCK, -1) != 0)
    return failed("capng_updatev");
  if (for_busy_poll && capng_update(CAPNG_ADD, static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED),
                                    CAP_NET_ADMIN) != 0)
    return failed("capng_update");
  if (const int error =
          capng_change_id(static_cast<int>(user.uid), static_cast<int>(user.gid),
                          static_cast<capng_flags_t>(CAPNG_CLEAR_BOUNDING | CAPNG_CLEAR_AMBIENT));
      error != 0)
    return failed(fmt::format("capng_change_id ({})", error).c_str());
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs");
  return {};
}

}  // namespace

uid_t data_plane_user_id() { return data_plane_user().uid; }

Result<void> keep_socket_privileges(bool for_busy_poll) {
  return apply(true, for_busy_poll, device_groups());
}

Result<void> drop_all_privileges() {
  errno = 0;
  capng_clear(CAPNG_SELECT_CAPS);
  if (capng_apply(CAPNG_SELECT_CAPS) != 0) return failed("capng_apply");
  capng_get_caps_process();
  if (capng_have_capabilities(CAPNG_SELECT_CAPS) != CAPNG_NONE) return failed("capabilities are left");
  return {};
}

Result<void> become_nobody(Groups groups) {
  return apply(false, false, groups == Groups::devices ? device_groups() : std::vector<gid_t>());
}

}  // namespace xdpgpu::control
