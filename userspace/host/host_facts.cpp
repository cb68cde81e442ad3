// SPDX-License-Identifier: MIT
#include <cap-ng.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdio>
#include <limits>

#include "maps/control.h"
#include "userspace/host/doctor.hpp"

namespace xdpgpu::host {

KernelVersion parse_kernel_release(const std::string& release) {
  KernelVersion version;
  version.release = release;
  if (std::sscanf(release.c_str(), "%u.%u", &version.major, &version.minor) != 2)
    version.major = version.minor = 0;
  return version;
}

KernelVersion kernel_version() {
  utsname name{};
  uname(&name);
  return parse_kernel_release(name.release);
}

HostFacts read_host(bool with_features) {
  HostFacts facts;
  facts.root = geteuid() == 0;
  capng_get_caps_process();
  auto has = [](unsigned capability) { return capng_have_capability(CAPNG_EFFECTIVE, capability) != 0; };
  facts.cap_net_admin = has(CAP_NET_ADMIN);
  facts.cap_net_raw = has(CAP_NET_RAW);
  facts.cap_bpf = has(CAP_SYS_ADMIN) || (has(CAP_BPF) && facts.cap_net_admin);
  facts.cap_ipc_lock = has(CAP_IPC_LOCK);
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
    facts.memlock_limit =
        limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<u64>::max() : u64{limit.rlim_cur};
  facts.kernel = kernel_version();
  struct statfs root {};
  facts.bpffs = statfs("/sys/fs/bpf", &root) == 0 && static_cast<u64>(root.f_type) == BPF_FS_MAGIC;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
      if (CPU_ISSET(cpu, &cpus)) facts.cpus.push_back(cpu);
  if (with_features) facts.features = probe_features();
  return facts;
}

}  // namespace xdpgpu::host
