// SPDX-License-Identifier: MIT
#include "userspace/control/file_access.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>

#include "maps/types.h"
#include "userspace/control/every_thread.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {
namespace {

// Later than Debian 12's linux/landlock.h.
constexpr u64 kTruncate = 1u << 14, kDeviceRequests = 1u << 15;
constexpr u64 kScopeAbstractSockets = 1u << 0;
struct RulesetAttributes {
  u64 files = 0, ports = 0, scoped = 0;
};

constexpr u64 kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr u64 kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr u64 kDevice = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | kDeviceRequests;
// Running programs, and making and removing anything, is among them and given to nothing.
constexpr u64 kAll = LANDLOCK_ACCESS_FS_EXECUTE | kRead | kWrite | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM | kDeviceRequests;
constexpr u64 kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | kWrite | kDeviceRequests;

struct Given {
  const char* pattern;  // as glob(3)'s; what is not there is passed over
  u64 access;
};

// What glibc, the heap and the CPU device look at.
constexpr std::array kOwn{Given{"/proc/self", kRead}, Given{"/proc/cpuinfo", kRead},
                          Given{"/proc/meminfo", kRead}, Given{"/proc/sys/vm", kRead},
                          Given{"/sys/devices/system", kRead}};

constexpr std::array kOfDrivers{
    // NVIDIA's control, device, memory and mode-setting nodes, not its tools'; DRM's
    Given{"/dev/nvidia[0-9]*", kDevice}, Given{"/dev/nvidiactl", kDevice}, Given{"/dev/nvidia-uvm", kDevice},
    Given{"/dev/nvidia-modeset", kDevice}, Given{"/dev/nvidia-caps*", kDevice}, Given{"/dev/dri", kDevice},
    Given{"/dev/null", kRead | kWrite}, Given{"/dev/zero", kRead | kWrite}, Given{"/dev/urandom", kRead},
    Given{"/dev/random", kRead},
    // the drivers' parts, and which of them there are
    Given{"/usr", kRead}, Given{"/lib*", kRead}, Given{"/opt", kRead}, Given{"/etc/ld.so*", kRead},
    Given{"/etc/vulkan", kRead}, Given{"/etc/nvidia*", kRead}, Given{"/etc/glvnd", kRead},
    Given{"/etc/drirc", kRead}, Given{"/etc/localtime", kRead}, Given{"/run/nvidia*", kRead},
    // what is in the machine
    Given{"/sys/devices", kRead}, Given{"/sys/class", kRead}, Given{"/sys/bus", kRead},
    Given{"/sys/dev", kRead}, Given{"/sys/module", kRead}, Given{"/sys/kernel/mm", kRead},
    Given{"/proc/driver", kRead}, Given{"/proc/devices", kRead}, Given{"/proc/modules", kRead},
    Given{"/proc/filesystems", kRead}, Given{"/proc/stat", kRead}, Given{"/proc/version", kRead},
    Given{"/proc/sys", kRead}};

// Files and folders of drivers that somebody has put elsewhere, and caches that were filled by somebody else.
constexpr std::array kVariables{"LD_LIBRARY_PATH",       "VK_DRIVER_FILES", "VK_ICD_FILENAMES",
                                "VK_ADD_DRIVER_FILES",   "VK_LAYER_PATH",   "CUDA_CACHE_PATH",
                                "MESA_SHADER_CACHE_DIR", "XDG_CACHE_HOME"};
constexpr std::array kUnderHome{"/.nv", "/.cache/mesa_shader_cache", "/.cache/nvidia"};

Error failed(const char* what) {
  return Error(fmt::format(
      "what files the data plane may open cannot be limited: {}: {}; set XDPGPU_SECCOMP=off to go without",
      what, std::strerror(errno)));
}

class Ruleset {
 public:
  Ruleset(const host::Landlock& landlock, bool scoped) {
    RulesetAttributes attributes;
    attributes.files = kAll;
    if (landlock.version >= 2) attributes.files |= LANDLOCK_ACCESS_FS_REFER;
    if (!landlock.limits_truncating()) attributes.files &= ~kTruncate;
    if (!landlock.limits_device_requests()) attributes.files &= ~kDeviceRequests;
    if (scoped && landlock.limits_abstract_sockets()) attributes.scoped = kScopeAbstractSockets;
    handled_ = attributes.files;
    fd_ = kernel::Fd(
        static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0u)));
  }
  explicit operator bool() const { return static_cast<bool>(fd_); }

  // False on an error; a path that is not there, or may not be looked at, is none.
  bool give(const char* path, u64 access) {
    const kernel::Fd file(open(path, O_PATH | O_CLOEXEC));
    if (!file) return true;
    struct stat info {};
    if (fstat(file.get(), &info) != 0) return false;
    landlock_path_beneath_attr rule{};
    rule.allowed_access = access & handled_ & (S_ISDIR(info.st_mode) ? ~u64{0} : kOfFiles);
    rule.parent_fd = file.get();
    return syscall(SYS_landlock_add_rule, fd_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0u) == 0;
  }
  bool give(const Given& given) {
    glob_t found{};
    bool ok = true;
    if (glob(given.pattern, GLOB_NOSORT, nullptr, &found) == 0)
      for (std::size_t i = 0; ok && i < found.gl_pathc; i++) ok = give(found.gl_pathv[i], given.access);
    globfree(&found);
    return ok;
  }
  int fd() const { return fd_.get(); }
  // For the calling thread.
  bool put_in_force() { return syscall(SYS_landlock_restrict_self, fd_.get(), 0u) == 0; }

 private:
  u64 handled_ = 0;
  kernel::Fd fd_;
};

bool give_what_is_elsewhere(Ruleset& rules) {
  for (const char* variable : kVariables) {
    const char* value = std::getenv(variable);
    for (std::string_view rest = value != nullptr ? value : ""; !rest.empty();) {
      const std::string path(rest.substr(0, rest.find(':')));
      rest.remove_prefix(std::min(rest.size(), path.size() + 1));
      // A description of a driver names the driver's file, often beside it.
      const bool description = path.ends_with(".json");
      const std::string folder = description ? std::filesystem::path(path).parent_path().string() : path;
      if (folder.size() > 1 && folder[0] == '/' && !rules.give(folder.c_str(), kRead)) return false;
    }
  }
  // Of a program that brings its libraries along, the loader of Vulkan's drivers among them.
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error && !rules.give((program.parent_path().parent_path() / "lib").c_str(), kRead)) return false;
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    for (const char* folder : kUnderHome)
      if (!rules.give((std::string(home) + folder).c_str(), kRead)) return false;
  return true;
}

}  // namespace

Result<FileLimits> limit_files(bool drivers) {
  tzset();  // the system log looks at the time, and for where the host is only once
  const host::Landlock landlock = host::landlock();
  if (!landlock.limits_files()) return FileLimits{landlock};
  // A driver's parts may speak to each other by sockets without a file.
  Ruleset rules(landlock, !drivers);
  if (!rules) return failed("landlock_create_ruleset");
  bool ok = true;
  for (const auto& given : kOwn) ok = ok && rules.give(given);
  if (drivers) {
    for (const auto& given : kOfDrivers) ok = ok && rules.give(given);
    ok = ok && give_what_is_elsewhere(rules);
  }
  if (!ok) return failed("landlock_add_rule");
  if (!rules.put_in_force()) return failed("landlock_restrict_self");
  return FileLimits{landlock, call_in_other_threads(SYS_landlock_restrict_self, rules.fd(), 0)};
}

}  // namespace xdpgpu::control
