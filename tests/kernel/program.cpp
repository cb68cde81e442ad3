// SPDX-License-Identifier: MIT
#include "tests/kernel/program.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <stdexcept>

#include "maps/hash.h"
#include "maps/parse.h"
#include "userspace/dataplane/counters.hpp"
#include "xdpgpu.skel.h"

namespace xdpgpu::test {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

template <class T>
class View {
 public:
  View(const bpf_map* map, u32 entries) : bytes_(entries * ((sizeof(T) + 7) / 8 * 8)) {
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
    if (at == MAP_FAILED) fail(fmt::format("mmap of map {}", bpf_map__name(map)));
    data_ = static_cast<T*>(at);
  }
  ~View() { munmap(data_, bytes_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  T& operator[](u32 i) const { return data_[i]; }

 private:
  std::size_t bytes_;
  T* data_ = nullptr;
};

int quiet(libbpf_print_level level, const char* format, va_list arguments) {
  return level == LIBBPF_WARN ? vfprintf(stderr, format, arguments) : 0;
}

xdpgpu_bpf* load(const ProgramOptions& options) {
  libbpf_set_print(quiet);
  xdpgpu_bpf* skeleton = xdpgpu_bpf__open();
  if (skeleton == nullptr) fail("opening the program's object");
  const u32 entries = 2 * options.queues * options.flow_entries_per_queue;
  const u32 cpus = static_cast<u32>(libbpf_num_possible_cpus());
  bpf_map__set_max_entries(skeleton->maps.queue_state, options.queues);
  bpf_map__set_max_entries(skeleton->maps.order_slots, options.queues * XG_ORDER_SLOTS);
  bpf_map__set_max_entries(skeleton->maps.worker_counters, options.queues);
  bpf_map__set_max_entries(skeleton->maps.queue_metrics, options.queues);
  bpf_map__set_max_entries(skeleton->maps.xsks, options.queues);
  bpf_map__set_max_entries(skeleton->maps.flow_verdicts, entries);
  bpf_map__set_max_entries(skeleton->maps.flow_stats, entries);
  bpf_map__set_max_entries(skeleton->maps.mirror_rings, cpus * options.mirror_slots);
  bpf_map__set_max_entries(skeleton->maps.mirror_state, cpus);
  bpf_map__set_max_entries(skeleton->maps.limits, options.limits);
  skeleton->rodata->multi_buffer = options.multi_buffer ? 1 : 0;
  if (options.multi_buffer) bpf_program__set_flags(skeleton->progs.xdpgpu, BPF_F_XDP_HAS_FRAGS);
  if (int error = xdpgpu_bpf__load(skeleton); error != 0) {
    xdpgpu_bpf__destroy(skeleton);
    errno = -error;
    fail("loading the program");
  }
  return skeleton;
}

// A table map of `values`, installed in the slot of an outer map, which then keeps it. V: what the map has of
// them in one entry, `each` of them.
template <class V, class T>
void install_table(const char* name, int outer, u32 slot, const std::vector<T>& values, u32 each) {
  LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = XG_TABLE_FLAGS);
  const u32 entries = static_cast<u32>(std::max<std::size_t>((values.size() + each - 1) / each, 1));
  const int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(u32), sizeof(V), entries, &options);
  if (fd < 0) fail(fmt::format("creating {}", name));
  void* at = mmap(nullptr, entries * sizeof(V), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) fail(fmt::format("mmap of {}", name));
  if (!values.empty()) std::memcpy(at, values.data(), values.size() * sizeof(T));
  munmap(at, entries * sizeof(V));
  const int error = bpf_map_update_elem(outer, &slot, &fd, BPF_ANY);
  close(fd);
  if (error != 0) fail(fmt::format("installing {}", name));
}

// Of a per-CPU map's value, which is nothing but u64 counts.
template <class T = xg_counter>
T sum_of(const bpf_map* map, u32 index) {
  std::vector<T> cpus(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  if (bpf_map_lookup_elem(bpf_map__fd(map), &index, cpus.data()) != 0) fail("reading a counter");
  T sum{};
  for (const T& one : cpus)
    for (std::size_t word = 0; word < sizeof(T) / sizeof(u64); ++word)
      reinterpret_cast<u64*>(&sum)[word] += reinterpret_cast<const u64*>(&one)[word];
  return sum;
}

using Counts = std::array<xg_counter, XG_KERNEL_REASON_COUNT>;

// The one end that the packet came to between two readings, or what is wrong. What stands for no end
// (XG_OUTCOME_none) may have been counted besides.
std::string reason_between(const Counts& before, const Counts& after, std::size_t bytes) {
  std::string reason;
  for (u32 i = 0; i < XG_KERNEL_REASON_COUNT; ++i) {
    const dataplane::Counter& counter = dataplane::kKernelCounters[i];
    const bool comes_in = counter.outcome == XG_OUTCOME_in;
    const u64 packets = after[i].packets - before[i].packets;
    if (counter.outcome == XG_OUTCOME_none || (packets == 0 && !comes_in)) continue;
    if (packets != 1 || after[i].bytes - before[i].bytes != bytes)
      return fmt::format("{} counted {} packets and {} bytes", counter.name, packets,
                         after[i].bytes - before[i].bytes);
    if (!comes_in) reason += (reason.empty() ? "" : " and ") + std::string(counter.name);
  }
  return reason.empty() ? "no outcome" : reason;
}

}  // namespace

struct Program::Maps {
  xdpgpu_bpf* skeleton;
  View<xg_config> config;
  View<xg_policy> policy;
  View<xg_queue_state> queues;
  View<xg_flow_verdict> verdicts;
  View<xg_flow_stats> stats;
  View<xg_rewrite> rewrites;
  View<xg_mirror_state> mirror_states;
  View<xg_mirror_record> mirror_rings;
  std::vector<int> sockets;

  explicit Maps(const ProgramOptions& o)
      : skeleton(load(o)),
        config(skeleton->maps.config, 1),
        policy(skeleton->maps.policy, 2),
        queues(skeleton->maps.queue_state, o.queues),
        verdicts(skeleton->maps.flow_verdicts, 2 * o.queues * o.flow_entries_per_queue),
        stats(skeleton->maps.flow_stats, 2 * o.queues * o.flow_entries_per_queue),
        rewrites(skeleton->maps.rewrites, XG_REWRITE_ENTRIES),
        mirror_states(skeleton->maps.mirror_state, static_cast<u32>(libbpf_num_possible_cpus())),
        mirror_rings(skeleton->maps.mirror_rings,
                     static_cast<u32>(libbpf_num_possible_cpus()) * o.mirror_slots) {}
  ~Maps() {
    for (int fd : sockets) close(fd);
    xdpgpu_bpf__destroy(skeleton);
  }
  Maps(const Maps&) = delete;
  Maps& operator=(const Maps&) = delete;

  Counts counts() const {
    Counts all;
    for (u32 i = 0; i < all.size(); ++i) all[i] = sum_of(skeleton->maps.counters, i);
    return all;
  }
};

std::string why_unavailable() {
  if (geteuid() != 0) return "the kernel program is loaded by root alone: run this test with sudo";
  const int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "xg_probe", 4, 4, 1, nullptr);
  if (fd < 0) return fmt::format("the kernel refuses BPF maps here: {}", std::strerror(errno));
  close(fd);
  return {};
}

void install_tables(int policy_lines, int policy_rows, u32 slot, const policy::Tables& tables) {
  install_table<xg_chunk>("lines", policy_lines, slot, tables.lines, XG_CHUNK_LINES);
  install_table<xg_class_row>("rows", policy_rows, slot, tables.rows, 1);
}

Program::Program(const ProgramOptions& options) : maps_(std::make_unique<Maps>(options)), options_(options) {
  xg_config& c = config();
  c.hash_key[0] = 0x0706050403020100;
  c.hash_key[1] = 0x0f0e0d0c0b0a0908;
  c.flow_keys = xg_hash_keys_from(c.hash_key[0], c.hash_key[1]);
  c.beat_timeout_ns = 100'000'000;
  c.queues = options.queues;
  c.flow_entries_per_queue = options.flow_entries_per_queue;
  c.mirror_slots = static_cast<u16>(options.mirror_slots);
  c.mirror_bytes = static_cast<u16>(options.mirror_bytes);
  c.port = 3;
  c.state = XG_STATE_STARTING;
}
Program::~Program() = default;

policy::Policy Program::install(std::string_view json) {
  auto parsed = policy::parse(json, "test.json", policy::read_files_of({}));
  if (!parsed) throw std::runtime_error(parsed.error().at(0).sentence());
  auto tables = policy::compile(*parsed);
  if (!tables) throw std::runtime_error(tables.error().at(0).sentence());
  install(*tables);
  return *parsed;
}

void Program::install(const policy::Tables& tables) {
  const u32 slot = ++generation_ & 1;
  install_tables(bpf_map__fd(maps_->skeleton->maps.policy_lines),
                 bpf_map__fd(maps_->skeleton->maps.policy_rows), slot, tables);
  policy(slot) = tables.header;
  policy(slot).generation = generation_;
  config().active = u64{generation_} << 32 | slot;
  config().state = XG_STATE_RUNNING;
}

Outcome Program::run(const Frame& frame, u32 queue, u32 ingress_ifindex) {
  const Counts before = maps_->counts();
  Outcome outcome = run_uncounted(frame, queue, ingress_ifindex);
  outcome.reason = reason_between(before, maps_->counts(), frame.size());
  return outcome;
}

Outcome Program::run_uncounted(const Frame& frame, u32 queue, u32 ingress_ifindex) {
  Frame out(frame.size() + 256);
  xdp_md in{}, after{};
  in.data_end = static_cast<u32>(frame.size());
  in.rx_queue_index = queue;
  in.ingress_ifindex = ingress_ifindex;
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out.data(),
              .data_size_in = static_cast<u32>(frame.size()), .data_size_out = static_cast<u32>(out.size()),
              .ctx_in = &in, .ctx_out = &after, .ctx_size_in = sizeof(in), .ctx_size_out = sizeof(after));
  if (bpf_prog_test_run_opts(fd(), &options) != 0) fail("BPF_PROG_TEST_RUN");
  Outcome outcome;
  outcome.action = static_cast<int>(options.retval);
  const u32 metadata = after.data - after.data_meta;
  if (metadata >= sizeof(xg_metadata)) {
    outcome.metadata.emplace();
    std::memcpy(&*outcome.metadata, out.data() + metadata - sizeof(xg_metadata), sizeof(xg_metadata));
  }
  outcome.frame.assign(out.begin() + metadata, out.begin() + options.data_size_out);
  return outcome;
}

u32 Program::nanoseconds(const Frame& frame, u32 repeat) {
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(),
              .data_size_in = static_cast<u32>(frame.size()), .repeat = static_cast<int>(repeat));
  if (bpf_prog_test_run_opts(fd(), &options) != 0) fail("BPF_PROG_TEST_RUN");
  return options.duration;
}

xg_config& Program::config() { return maps_->config[0]; }
xg_policy& Program::policy(u32 slot) { return maps_->policy[slot]; }
xg_queue_state& Program::queue(u32 index) { return maps_->queues[index]; }
xg_flow_verdict& Program::verdict(u32 index) { return maps_->verdicts[index]; }
xg_flow_stats& Program::stats(u32 index) { return maps_->stats[index]; }
xg_rewrite& Program::rewrite(u32 index) { return maps_->rewrites[index]; }
u32 Program::mirror_rings() const { return static_cast<u32>(libbpf_num_possible_cpus()); }
xg_mirror_state& Program::mirror_state(u32 cpu) { return maps_->mirror_states[cpu]; }
xg_mirror_record& Program::mirrored(u32 cpu, u64 n) {
  return maps_->mirror_rings[cpu * options_.mirror_slots + static_cast<u32>(n % options_.mirror_slots)];
}
int Program::fd() const { return bpf_program__fd(maps_->skeleton->progs.xdpgpu); }

u64 Program::counter(xg_kernel_reason reason) const {
  return sum_of(maps_->skeleton->maps.counters, reason).packets;
}
xg_counter Program::malformed(u32 kind) const {
  return sum_of(maps_->skeleton->maps.counters, XG_MALFORMED_COUNTER(kind));
}
xg_counter Program::rule_counter(u32 index) const {
  return sum_of(maps_->skeleton->maps.rule_counters, (generation_ & 1) * XG_MAX_RULES + index);
}
xg_rule_shed Program::rule_shed(u32 index) const {
  return sum_of<xg_rule_shed>(maps_->skeleton->maps.rule_shed, (generation_ & 1) * XG_MAX_RULES + index);
}
u32 Program::order_slot(u32 index) const {
  u32 value = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(maps_->skeleton->maps.order_slots), &index, &value) != 0)
    fail("reading an order slot");
  return value;
}
void Program::set_order_slot(u32 index, u32 value) {
  if (bpf_map_update_elem(bpf_map__fd(maps_->skeleton->maps.order_slots), &index, &value, BPF_ANY) != 0)
    fail("writing an order slot");
}
void Program::set_tx_port(u32 port, u32 ifindex) {
  if (bpf_map_update_elem(bpf_map__fd(maps_->skeleton->maps.tx_ports), &port, &ifindex, BPF_ANY) != 0)
    fail("naming a port's interface");
}

bool Program::put_program(u32 number, int fd) {
  const u32 index = (generation_ & 1) * XG_MAX_PROGRAMS + number;
  return bpf_map_update_elem(bpf_map__fd(maps_->skeleton->maps.user_programs), &index, &fd, BPF_ANY) == 0;
}

void Program::connect(u32 queue_index, u32 credits) {
  const int socket_fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) fail("an AF_XDP socket");
  maps_->sockets.push_back(socket_fd);
  if (bpf_map_update_elem(bpf_map__fd(maps_->skeleton->maps.xsks), &queue_index, &socket_fd, BPF_ANY) != 0)
    fail("naming a queue's socket");
  config().beat_timeout_ns = 60'000'000'000;  // a test that wants it stale says so
  renew(queue_index, credits);
}
void Program::renew(u32 queue_index, u32 credits) {
  queue(queue_index).granted = queue(queue_index).admitted + credits;
  queue(queue_index).beat_ns = queue(queue_index).device_beat_ns = monotonic_ns();
}

u32 Program::publish(const Frame& frame, u8 action, const VerdictDetails& details, u32 queue_index,
                     u8 mirror) {
  xg_packet packet;
  xg_parse(frame.data(), frame.data() + frame.size(), static_cast<u8>(config().port), &packet);
  const u32 hash = xg_flow_hash(&packet.key, &config().flow_keys);
  const u32 buckets = options_.flow_entries_per_queue / XG_FLOW_WAYS;
  const u32 shard = mirror == 0 ? queue_index : options_.queues + queue_index;
  const u32 first = shard * options_.flow_entries_per_queue + (hash & (buckets - 1)) * XG_FLOW_WAYS;
  packet.key.mirror = mirror;
  u32 index = first;
  for (u32 way = 0; way < XG_FLOW_WAYS; ++way)
    if (verdict(first + way).generation == 0) index = first + way;  // the last free one: all ways are used
  const xg_flow_verdict entry{.generation = generation_,
                              .incarnation = 1,
                              .action = action,
                              .target = details.target,
                              .key = packet.key,
                              .verdict = 0,
                              .expires_ms = details.expires_ms,
                              .rewrite = details.rewrite,
                              .idle_s = details.idle_s,
                              .flags = details.flags};
  u64 word;
  std::memcpy(&word, &entry, sizeof(word));
  auto* at = reinterpret_cast<u64*>(&verdict(index));
  __atomic_store_n(at, 0, __ATOMIC_SEQ_CST);
  std::memcpy(at + 1, reinterpret_cast<const u8*>(&entry) + 8, sizeof(entry) - 8);
  if (details.idle_s != 0) stats(index).last_seen_ns = monotonic_ns();
  stats(index).published_ns = monotonic_ns();
  __atomic_store_n(at, word, __ATOMIC_SEQ_CST);
  return index;
}

u64 monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

}  // namespace xdpgpu::test
