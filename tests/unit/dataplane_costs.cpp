// SPDX-License-Identifier: MIT
//
// What a worker asks of the system while packets flow through it, on real interfaces and sockets: no
// memory, no lock, and system calls by the batch, not by the packet.
//
// Allocations and locks are counted where glibc is entered, by functions of this program that stand before
// its own. System calls are counted by the kernel's own tracepoint on the worker's thread alone: that sees
// also those which no library function makes, and costs the thread some nanoseconds a call; ptrace would
// stop it twice a call, and a seccomp listener once.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include "bench/path/bare.hpp"
#include "bench/path/bed.hpp"
#include "bench/path/threads.hpp"
#include "tests/netns/lab.hpp"
#include "userspace/dataplane/event_log.hpp"

// The sanitizers bring an allocator and locks of their own.
#if defined(XDPGPU_SANITIZED)
constexpr bool kCounts = false;
#else
constexpr bool kCounts = true;
#define XG_COUNTS
#endif

namespace {

std::atomic<int> watched{0};  // a thread, by the kernel's number
std::atomic<std::uint64_t> allocations{0}, locks{0};

#ifdef XG_COUNTS
void count(std::atomic<std::uint64_t>& counter) {
  thread_local int self = 0;
  if (watched.load(std::memory_order_relaxed) == 0) return;
  if (self == 0) self = static_cast<int>(syscall(SYS_gettid));
  if (self == watched.load(std::memory_order_relaxed)) counter.fetch_add(1, std::memory_order_relaxed);
}

template <class Lock>
using LockFunction = std::atomic<int (*)(Lock*)>;

template <class Lock>
int counted(LockFunction<Lock>& known, const char* name, Lock* lock) {
  count(locks);
  if (known.load(std::memory_order_relaxed) == nullptr)
    known = reinterpret_cast<int (*)(Lock*)>(dlsym(RTLD_NEXT, name));
  return known.load(std::memory_order_relaxed)(lock);
}

LockFunction<pthread_mutex_t> mutex_lock, mutex_trylock;
LockFunction<pthread_rwlock_t> rwlock_rdlock, rwlock_wrlock;
LockFunction<pthread_spinlock_t> spin_lock;
#endif

}  // namespace

#ifdef XG_COUNTS
extern "C" {
void* glibc_malloc(std::size_t) __asm__("__libc_malloc");
void* glibc_calloc(std::size_t, std::size_t) __asm__("__libc_calloc");
void* glibc_realloc(void*, std::size_t) __asm__("__libc_realloc");
void* glibc_memalign(std::size_t, std::size_t) __asm__("__libc_memalign");
void glibc_free(void*) __asm__("__libc_free");

void* malloc(std::size_t bytes) {
  count(allocations);
  return glibc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  count(allocations);
  return glibc_calloc(n, bytes);
}
void* realloc(void* at, std::size_t bytes) {
  count(allocations);
  return glibc_realloc(at, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count(allocations);
  return glibc_memalign(alignment, bytes);
}
void free(void* at) {
  if (at != nullptr) count(allocations);
  glibc_free(at);
}

int pthread_mutex_lock(pthread_mutex_t* lock) noexcept {
  return counted(mutex_lock, "pthread_mutex_lock", lock);
}
int pthread_mutex_trylock(pthread_mutex_t* lock) noexcept {
  return counted(mutex_trylock, "pthread_mutex_trylock", lock);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  return counted(rwlock_rdlock, "pthread_rwlock_rdlock", lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  return counted(rwlock_wrlock, "pthread_rwlock_wrlock", lock);
}
int pthread_spin_lock(pthread_spinlock_t* lock) noexcept {
  return counted(spin_lock, "pthread_spin_lock", lock);
}
}
#endif

namespace xdpgpu {
namespace {

using namespace std::chrono_literals;

constexpr u32 kBurst = 32;

// The number of the tracepoint raw_syscalls:sys_enter; 0 with a reason. Where tracefs is not mounted, it
// is for a moment, in a mount namespace of a thread's own.
u64 tracepoint(std::string& reason) {
  u64 id = 0;
  std::thread([&] {
    const char* const kFile = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";
    if (access(kFile, R_OK) != 0 &&
        (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
         mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, nullptr) != 0))
      reason = std::string("tracefs cannot be mounted: ") + std::strerror(errno);
    std::ifstream(kFile) >> id;
  }).join();
  if (id == 0 && reason.empty()) reason = "the kernel has no tracepoint raw_syscalls:sys_enter";
  return id;
}

// The system calls of one thread of this process, from now on.
class SystemCalls {
 public:
  SystemCalls(int thread, u64 tracepoint) {
    perf_event_attr what{};
    what.size = sizeof(what);
    what.type = PERF_TYPE_TRACEPOINT;
    what.config = tracepoint;
    fd_ =
        lab::Fd(static_cast<int>(syscall(SYS_perf_event_open, &what, thread, -1, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!fd_) reason_ = std::string("perf_event_open is refused: ") + std::strerror(errno);
  }
  const std::string& reason() const { return reason_; }
  u64 count() const {
    u64 value = 0;
    return read(fd_.get(), &value, sizeof(value)) == sizeof(value) ? value : ~u64{0};
  }

 private:
  lab::Fd fd_;
  std::string reason_;
};

TEST(Counting, SeesWhatAThreadDoes) {
  if (!kCounts) GTEST_SKIP() << "the sanitizers bring an allocator and locks of their own";
  std::string reason;
  const u64 id = tracepoint(reason);
  u64 calls = 0;
  std::thread([&] {
    std::mutex mutex;
    const SystemCalls counter(gettid(), id);
    allocations = locks = 0;
    watched = gettid();
    {
      auto* volatile kept = new int(1);
      const std::lock_guard lock(mutex);
      delete kept;
    }
    for (int i = 0; i < 10; ++i) syscall(SYS_getppid);
    watched = 0;
    reason += counter.reason();
    calls = counter.count();
  }).join();
  EXPECT_EQ(allocations, 2u);
  EXPECT_EQ(locks, 1u);
  if (!reason.empty()) GTEST_SKIP() << reason;
  EXPECT_GE(calls, 10u);
  EXPECT_LE(calls, 20u);
}

enum class Way { drop, forward, pass };

struct Path {
  Way way;
  dataplane::ComputeMode mode = dataplane::ComputeMode::inlined;
  bool told = false;  // each drop, for a log
};

class Costs : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    if (const std::string why = lab::why_unavailable(); !why.empty()) GTEST_SKIP() << why;
    near_.emplace("near");
    far_.emplace("far");
    wire_.emplace(*near_, "n0", *far_, "f0");
    wire_->address("10.9.0.1/24", "10.9.0.2/24");
    wire_->up();
    bed::Options options;
    options.overload_drops = true;
    gpu::AclSettings acl;
    acl.otherwise = GetParam().way == Way::drop ? gpu::AclRule::Action::drop : gpu::AclRule::Action::pass;
    options.engine.compute_mode = GetParam().mode;
    options.stages = {GetParam().way == Way::forward ? gpu::StageSettings{gpu::L2fwdSettings{}} : acl};
    bed_.emplace(std::vector<const lab::Interface*>{&wire_->a()}, options);
    if (!GetParam().told) return;
    constexpr dataplane::EventKind kDrops[] = {dataplane::EventKind::drop};
    bed_->engine().event_selection().tell(kDrops, 1'000'000, 1'000'000, 64);
    reader_ = std::jthread([this](const std::stop_token& stop) {
      for (; !stop.stop_requested(); std::this_thread::sleep_for(2ms))
        for (dataplane::EventLog* log : bed_->engine().event_logs())
          for (; log->oldest() != nullptr; log->take()) told_++;
    });
  }
  void TearDown() override {
    if (!reader_.joinable()) return;
    reader_ = {};
    EXPECT_GT(told_, kEnough);
  }

  std::vector<lab::Frame> frames() const {
    std::vector<lab::Frame> out;
    for (u16 i = 0; i < 64; ++i)
      out.push_back(lab::build({.src = wire_->b().mac(),
                                .dst = wire_->a().mac(),
                                .src_port = static_cast<u16>(1000 + i),
                                .dst_port = 4000,
                                .payload = std::string(18, 'x')}));
    return out;
  }
  // The worker's one or two, and the device's own; each names itself when it has begun.
  static std::vector<int> threads(std::size_t wanted) {
    std::vector<int> found;
    for (int i = 0; i < 500 && found.size() < wanted; ++i) {
      std::this_thread::sleep_for(10ms);
      found = bed::threads_named("xdpgpu-");
    }
    return found;
  }
  void measure(int thread);
  // What it asked for in a second or more, and what it may ask for at most.
  struct Asked {
    u64 packets = 0, batches = 0, made = 0, most = 0;
  };
  Asked watch(int thread, const SystemCalls* calls);

  std::optional<lab::Namespace> near_, far_;
  std::optional<lab::Veth> wire_;
  static constexpr u64 kEnough = 10'000;  // packets
  std::optional<bed::Bed> bed_;
  std::jthread reader_;  // of what is told
  u64 told_ = 0;
};

void Costs::measure(int thread) {
  std::string reason;
  const SystemCalls calls(thread, tracepoint(reason));
  reason += calls.reason();

  // Less than the stack can take: what it drops, the kernel reports by a system call a packet.
  bed::BareSender sender(wire_->b(), frames(), 0, 0, {.packets_per_second = 30'000, .burst = kBurst});
  const auto received = [&] { return bed_->worker_counts(0).received; };
  for (int i = 0; i < 500 && received() < 5'000; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_GE(received(), 5'000u) << "packets do not flow";

  // Where others use the processors, bursts come in pieces, and each wakes the worker: a worker that asks for
  // something a packet does so every time.
  constexpr int kTries = 3;
  for (int i = 1; i <= kTries && !HasFatalFailure(); ++i) {
    const Asked asked = watch(thread, reason.empty() ? &calls : nullptr);
    EXPECT_GT(asked.packets, kEnough);
    if (kCounts) {
      EXPECT_EQ(allocations, 0u) << asked.packets << " packets";
      EXPECT_EQ(locks, 0u) << asked.packets << " packets";
    }
    if (!reason.empty()) GTEST_SKIP() << "system calls are not counted: " << reason;
    // A sanitized worker is too slow for the pace: rings run full, and each packet that does not fit is asked
    // for again.
    if (!kCounts) return;
    if (asked.made <= asked.most) return;
    EXPECT_LT(i, kTries) << asked.made << " system calls, at most " << asked.most << ": " << asked.packets
                         << " packets in " << asked.batches << " batches";
  }
}

Costs::Asked Costs::watch(int thread, const SystemCalls* calls) {
  allocations = locks = 0;
  const auto before = bed_->engine().status();
  const u64 calls_before = calls != nullptr ? calls->count() : 0;
  const auto start = std::chrono::steady_clock::now();
  watched = thread;
  // A second; where the machine is slow, until enough has gone by to be told from what each second costs.
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(1s);
    if (bed_->engine().status().batch_packets - before.batch_packets > kEnough) break;
  }
  watched = 0;
  Asked asked;
  asked.made = calls != nullptr ? calls->count() - calls_before : 0;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto after = bed_->engine().status();
  asked.packets = after.batch_packets - before.batch_packets;
  asked.batches = after.batches - before.batches;
  RecordProperty("packets", std::to_string(asked.packets));
  RecordProperty("batches", std::to_string(asked.batches));
  RecordProperty("system_calls", std::to_string(asked.made));
  // To send a batch takes a call for each 32 packets of it; the pause behind it may be slept through, and
  // losses are asked for 100 times a second. Where nothing is sent there are the sleeps alone.
  const u64 idle = static_cast<u64>(500 * seconds), bursts = asked.packets / kBurst;
  asked.most =
      GetParam().way == Way::drop ? 4 * bursts + idle : 3 * asked.batches + asked.packets / kBurst + idle;
  return asked;
}

TEST_P(Costs, AWorkerAsksForNothingAPacket) {
  using dataplane::ComputeMode;
  const ComputeMode mode = GetParam().mode;
  // The last one is asked about packets by rules alone, and sleeps: it, too, does nothing a packet.
  const std::size_t wanted = mode == ComputeMode::split || mode == ComputeMode::persistent ? 3 : 2;
  const auto all = threads(wanted);
  ASSERT_EQ(all.size(), wanted);
  for (const int thread : all) {
    SCOPED_TRACE(thread);
    measure(thread);
    if (HasFatalFailure() || IsSkipped()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Costs,
                         testing::Values(Path{Way::drop}, Path{Way::forward}, Path{Way::pass},
                                         Path{Way::forward, dataplane::ComputeMode::split},
                                         Path{Way::forward, dataplane::ComputeMode::persistent},
                                         Path{Way::forward, dataplane::ComputeMode::automatic},
                                         Path{.way = Way::drop, .told = true}),
                         [](const auto& tested) {
                           const Path& path = tested.param;
                           std::string name = path.way == Way::drop      ? "Drop"
                                              : path.way == Way::forward ? "Forward"
                                                                         : "Pass";
                           if (path.mode != dataplane::ComputeMode::inlined)
                             name += "_" + std::string(dataplane::name_of(path.mode));
                           if (path.told) name += "_told";
                           return name;
                         });

}  // namespace
}  // namespace xdpgpu
