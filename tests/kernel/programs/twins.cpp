// SPDX-License-Identifier: MIT
#include "tests/kernel/programs/twins.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

namespace xdpgpu::test {
namespace {

using gpu::reference::ProgramEntry;
using gpu::reference::ProgramMap;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  operator int() const { return fd_; }

 private:
  int fd_;
};

// Each processor's event is there for programs to put something out. What they put there nobody reads: an
// event that is mapped to be read alone begins anew when it is full.
class PerfEvents {
 public:
  PerfEvents(int map, u32 entries) {
    for (u32 cpu = 0; cpu < entries; ++cpu) {
      perf_event_attr what{};
      what.size = sizeof(what);
      what.type = PERF_TYPE_SOFTWARE;
      what.config = PERF_COUNT_SW_BPF_OUTPUT;
      what.sample_type = PERF_SAMPLE_RAW;
      what.sample_period = 1;
      const long fd =
          syscall(SYS_perf_event_open, &what, -1, static_cast<int>(cpu), -1, PERF_FLAG_FD_CLOEXEC);
      if (fd < 0) fail(fmt::format("opening an event of processor {}", cpu));
      events_.emplace_back(static_cast<int>(fd));
      const std::size_t bytes = 9 * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
      void* const pages = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, events_.back(), 0);
      if (pages == MAP_FAILED) fail("mapping an event");
      pages_.emplace_back(pages, bytes);
      const int number = events_.back();
      if (bpf_map_update_elem(map, &cpu, &number, BPF_ANY) != 0 ||
          ioctl(number, PERF_EVENT_IOC_ENABLE, 0) != 0)
        fail("giving an event to a map");
    }
  }
  PerfEvents(const PerfEvents&) = delete;
  PerfEvents& operator=(const PerfEvents&) = delete;
  ~PerfEvents() {
    for (const auto& [pages, bytes] : pages_) munmap(pages, bytes);
  }

 private:
  std::vector<Descriptor> events_;
  std::vector<std::pair<void*, std::size_t>> pages_;
};

Descriptor create(const Map& map, int inner = 0) {
  LIBBPF_OPTS(bpf_map_create_opts, options, .inner_map_fd = static_cast<u32>(inner), .map_flags = map.flags);
  const auto type = static_cast<bpf_map_type>(map.type);
  const int fd =
      bpf_map_create(type, map.name.c_str(), map.key_bytes, map.value_bytes, map.entries, &options);
  if (fd < 0) fail(fmt::format("creating the map {}", map.name));
  return Descriptor(fd);
}

bool per_cpu(const Map& map) {
  return map.type == BPF_MAP_TYPE_PERCPU_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_HASH;
}

u32 cpus() {
  static const int number = libbpf_num_possible_cpus();
  return static_cast<u32>(number);
}

bool holds_values(const Map& map) {
  return map.type != BPF_MAP_TYPE_PROG_ARRAY && map.type != BPF_MAP_TYPE_ARRAY_OF_MAPS &&
         map.type != BPF_MAP_TYPE_DEVMAP && map.type != BPF_MAP_TYPE_DEVMAP_HASH &&
         map.type != BPF_MAP_TYPE_CPUMAP && map.type != BPF_MAP_TYPE_XSKMAP &&
         map.type != BPF_MAP_TYPE_PERF_EVENT_ARRAY && map.type != BPF_MAP_TYPE_RINGBUF;
}

bool is_array(const Map& map) {
  return map.type == BPF_MAP_TYPE_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_ARRAY;
}

using Contents = std::map<Bytes, std::map<u32, Bytes>>;

// An array has all its entries. One is not told from another by those that are 0.
void put(Contents& contents, const Map& map, const Bytes& key, u32 queue, Bytes value) {
  const bool zero = std::ranges::all_of(value, [](u8 byte) { return byte == 0; });
  if (!is_array(map) && !contents.contains(key)) contents[key] = {};
  if (!zero) contents[key][queue] = std::move(value);
}

Contents contents_of(int fd, const Map& map) {
  Contents contents;
  const std::size_t each = per_cpu(map) ? (map.value_bytes + 7) / 8 * 8 : map.value_bytes;
  Bytes key, next(map.key_bytes), values(each * (per_cpu(map) ? cpus() : 1));
  while (bpf_map_get_next_key(fd, key.empty() ? nullptr : key.data(), next.data()) == 0) {
    key = next;
    if (bpf_map_lookup_elem(fd, key.data(), values.data()) != 0) fail("reading a map");
    for (u32 cpu = 0; cpu * each < values.size(); ++cpu) {
      const u8* first = values.data() + cpu * each;
      put(contents, map, key, cpu, Bytes(first, first + map.value_bytes));
    }
  }
  return contents;
}

Contents contents_of(const ProgramMap& map) {
  Contents contents;
  for (const ProgramEntry& entry : map.entries()) {
    if (!is_array(map.settings())) contents[entry.key] = {};
    for (const auto& [queue, value] : entry.values) put(contents, map.settings(), entry.key, queue, value);
  }
  return contents;
}

std::string text_of(const Contents& contents) {
  std::string text;
  for (const auto& [key, values] : contents) {
    text += fmt::format("\n  {:02x}:", fmt::join(key, ""));
    for (const auto& [queue, value] : values)
      text += fmt::format(" [{}] {:02x}", queue, fmt::join(value, ""));
  }
  return text;
}

// Where the functions of a program begin.
std::set<u32> functions_of(const Code& code) {
  std::set<u32> functions{0};
  for (u32 at = 0; at < code.size(); ++at) {
    const Instruction& i = code[at];
    const bool calls = i.opcode == (BPF_JMP | BPF_CALL) && i.source == BPF_PSEUDO_CALL;
    const bool points = i.opcode == (BPF_LD | BPF_IMM | BPF_DW) && i.source == BPF_PSEUDO_FUNC;
    if (calls || points) functions.insert(at + 1 + static_cast<u32>(i.immediate));
  }
  return functions;
}

// Whether the verifier asks for its functions' types: where they are pointed to, or have tails.
bool needs_types(const Code& code) {
  const bool points = std::ranges::any_of(code, [](const Instruction& i) {
    return i.opcode == (BPF_LD | BPF_IMM | BPF_DW) && i.source == BPF_PSEUDO_FUNC;
  });
  return points || (functions_of(code).size() > 1 && std::ranges::any_of(code, [](const Instruction& i) {
                      return i == call(BPF_FUNC_tail_call);
                    }));
}

// Types with one static function: the verifier wants to know that those which are pointed to are such.
struct Types {
  btf* types = btf__new_empty();
  int function = 0;
  Types() {
    const int number = btf__add_int(types, "long", 8, BTF_INT_SIGNED);
    const int prototype = btf__add_func_proto(types, number);
    function = btf__add_func(types, "function", BTF_FUNC_STATIC, prototype);
    if (btf__load_into_kernel(types) != 0) fail("loading types");
  }
  ~Types() { btf__free(types); }
};

// The values that a packet gives, in the map of that number: at which byte each helper finds its own.
constexpr std::array<std::pair<int, u32>, 3> kGiven{
    {{BPF_FUNC_ktime_get_ns, 0}, {BPF_FUNC_get_prandom_u32, 8}, {BPF_FUNC_get_smp_processor_id, 16}}};

Code with_given_values(Code code, u32 given) {
  for (const auto& [helper, at] : kGiven) {
    const std::size_t end = code.size();
    bool used = false;
    for (std::size_t place = 0; place < end; ++place) {
      Instruction& i = code[place];
      if (i.opcode != (BPF_JMP | BPF_CALL) || i.source != 0 || i.immediate != helper) continue;
      i.source = BPF_PSEUDO_CALL;
      i.immediate = static_cast<std::int32_t>(end - place) - 1;
      used = true;
    }
    if (!used) continue;
    const Code value = map_value(r0, given, at);
    code.insert(code.end(), value.begin(), value.end());
    code.push_back(load(BPF_DW, r0, r0, 0));
    code.push_back(leave());
  }
  return code;
}

void pin_to(u32 cpu) {
  thread_local u32 pinned = ~0u;
  if (cpu == pinned) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) fail(fmt::format("running on CPU {}", cpu));
  pinned = cpu;
}

std::string last_lines(const std::string& log) {
  std::size_t at = log.find_last_not_of('\n');
  for (int line = 0; line < 12 && at != std::string::npos && at != 0; ++line) at = log.rfind('\n', at - 1);
  return at == std::string::npos ? log : log.substr(at);
}

std::string difference(const char* what, const Bytes& kernel, const Bytes& reference) {
  if (kernel == reference) return {};
  return fmt::format("{}: kernel {} bytes {:02x}, reference {} bytes {:02x}\n", what, kernel.size(),
                     fmt::join(kernel, ""), reference.size(), fmt::join(reference, ""));
}

}  // namespace

struct Twins::Kernel {
  std::vector<Map> settings;  // of maps, and behind them of those that are in others
  std::vector<Descriptor> maps, inner, programs;
  std::vector<Map> inner_settings;
  std::vector<std::unique_ptr<PerfEvents>> events;
  std::optional<Descriptor> given;
};

Twins::Twins(std::vector<Map> maps) : kernel_(std::make_unique<Kernel>()), maps_(maps), set_(maps_) {
  kernel_->settings = std::move(maps);
  for (u32 i = 0; i < kernel_->settings.size(); ++i) {
    const Map& map = kernel_->settings[i];
    std::optional<Descriptor> inner;
    if (map.inner >= 0) inner.emplace(create(kernel_->settings.at(static_cast<std::size_t>(map.inner))));
    kernel_->maps.push_back(create(map, inner ? static_cast<int>(*inner) : 0));
    if (map.type == BPF_MAP_TYPE_PERF_EVENT_ARRAY)
      kernel_->events.push_back(std::make_unique<PerfEvents>(kernel_->maps.back(), map.entries));
    if (maps_.find(i) == nullptr) throw std::runtime_error("the reference has no map like " + map.name);
    const u32 zero = 0;
    if (!map.contents.empty() &&
        bpf_map_update_elem(kernel_->maps.back(), &zero, map.contents.data(), 0) != 0)
      fail("filling " + map.name);
  }
  kernel_->given.emplace(create(map_of("given", BPF_MAP_TYPE_ARRAY, 4, 24, 1)));
}
Twins::~Twins() = default;

u32 Twins::processors() { return cpus(); }

std::optional<u32> Twins::add(const Code& code) {
  const Code replaced = with_given_values(code, static_cast<u32>(kernel_->maps.size()));
  std::vector<bpf_insn> instructions;
  for (const Instruction& i : replaced) {
    bpf_insn one{};
    one.code = i.opcode;
    one.dst_reg = i.destination & 15;
    one.src_reg = i.source & 15;
    one.off = i.offset;
    one.imm = i.immediate;
    instructions.push_back(one);
  }
  std::vector<int> descriptors(kernel_->maps.begin(), kernel_->maps.end());
  descriptors.push_back(*kernel_->given);
  LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_XDP, .fd_array = descriptors.data());
  std::vector<bpf_func_info> functions;
  if (needs_types(replaced)) {
    static const Types types;
    for (u32 at : functions_of(replaced)) functions.push_back({at, static_cast<u32>(types.function)});
    options.prog_btf_fd = static_cast<u32>(btf__fd(types.types));
    options.func_info = functions.data();
    options.func_info_cnt = static_cast<u32>(functions.size());
    options.func_info_rec_size = sizeof(bpf_func_info);
  }
  int fd =
      bpf_prog_load(BPF_PROG_TYPE_XDP, "test", "GPL", instructions.data(), instructions.size(), &options);
  if (fd < 0) {
    std::string log(1 << 20, '\0');
    options.log_buf = log.data();
    options.log_size = static_cast<u32>(log.size());
    options.log_level = 1;
    errno = 0;
    fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "test", "GPL", instructions.data(), instructions.size(), &options);
    const int error = errno;
    log.resize(std::strlen(log.c_str()));
    refusal_ = fmt::format("{}: {}", std::strerror(error), last_lines(log));
    if (fd < 0) return std::nullopt;
  }
  kernel_->programs.emplace_back(fd);
  return set_.add(code);
}

bool Twins::update(u32 map, const Bytes& key, const Bytes& value, u64 flags, u32 queue) {
  const Map& settings = kernel_->settings.at(map);
  const auto value_of = [&](u32 cpu) {
    return queue == kEveryQueue || queue == cpu ? value : Bytes(value.size());
  };
  if (!per_cpu(settings))
    return bpf_map_update_elem(kernel_->maps.at(map), key.data(), value.data(), flags) ==
           maps_[map].update(key, value, flags, 0);
  Bytes values;
  for (u32 cpu = 0; cpu < cpus(); ++cpu) {
    const Bytes one = value_of(cpu);
    values.insert(values.end(), one.begin(), one.end());
    values.resize((values.size() + 7) / 8 * 8);
  }
  const int kernel = bpf_map_update_elem(kernel_->maps.at(map), key.data(), values.data(), flags);
  int reference = maps_[map].update(key, value_of(0), flags, 0);
  for (u32 cpu = 1; cpu < cpus() && reference == 0; ++cpu)
    reference = maps_[map].update(key, value_of(cpu), BPF_ANY, cpu);
  return kernel == reference;
}

bool Twins::erase(u32 map, const Bytes& key) {
  return bpf_map_delete_elem(kernel_->maps.at(map), key.data()) == maps_[map].erase(key);
}

void Twins::put_program(u32 map, u32 index, u32 program) {
  const int fd = kernel_->programs.at(program);
  if (bpf_map_update_elem(kernel_->maps.at(map), &index, &fd, 0) != 0) fail("naming a program");
  maps_[map].update(bytes_of(index), bytes_of(program), 0, 0);
}

void Twins::put_map(u32 outer, u32 index, const Map& like) {
  kernel_->inner.push_back(create(like));
  kernel_->inner_settings.push_back(like);
  const int fd = kernel_->inner.back();
  if (bpf_map_update_elem(kernel_->maps.at(outer), &index, &fd, 0) != 0) fail("naming a map");
  inner_.push_back(ProgramMap::of(like));
  maps_[outer].put_inner(index, inner_.back());
}

std::string Twins::difference_of_maps() const {
  std::string text;
  const auto compare = [&](int fd, const ProgramMap& reference) {
    if (!holds_values(reference.settings())) return;
    const Contents a = contents_of(fd, reference.settings()), b = contents_of(reference);
    if (a != b)
      text +=
          fmt::format("map {}: kernel{}\nreference{}\n", reference.settings().name, text_of(a), text_of(b));
  };
  for (u32 i = 0; i < kernel_->maps.size(); ++i) compare(kernel_->maps[i], maps_[i]);
  for (u32 i = 0; i < inner_.size(); ++i) compare(kernel_->inner[i], *inner_[i]);
  return text;
}

std::string Twins::run(u32 program, const ProgramPacket& packet, bool maps) {
  const u32 zero = 0;
  const std::array<u64, 3> given{packet.time_ns, packet.random, packet.queue};
  if (bpf_map_update_elem(*kernel_->given, &zero, given.data(), 0) != 0) fail("what the packet says");
  pin_to(packet.queue);

  Bytes in = packet.metadata, out(8192);
  in.insert(in.end(), packet.bytes.begin(), packet.bytes.end());
  xdp_md before{}, after{};
  before.data = static_cast<u32>(packet.metadata.size());
  before.data_end = static_cast<u32>(in.size());
  before.ingress_ifindex = packet.ingress_ifindex;
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in.data(), .data_out = out.data(),
              .data_size_in = static_cast<u32>(in.size()), .data_size_out = static_cast<u32>(out.size()),
              .ctx_in = &before, .ctx_out = &after, .ctx_size_in = sizeof(before),
              .ctx_size_out = sizeof(after));
  if (bpf_prog_test_run_opts(kernel_->programs.at(program), &options) != 0) fail("BPF_PROG_TEST_RUN");
  const auto metadata = static_cast<std::ptrdiff_t>(after.data - after.data_meta);

  ProgramPacket told = packet;
  if (told.ingress_ifindex == 0)
    told.ingress_ifindex = 1;  // the loopback interface, which the kernel takes then
  answer_ = set_.run(program, told);
  std::string text;
  if (answer_.fault != ProgramFault::none)
    text += fmt::format("reference: {} at {}\n", name_of(answer_.fault), answer_.at);
  if (answer_.action != options.retval)
    text += fmt::format("action: kernel {}, reference {}\n", options.retval, answer_.action);
  text += difference("metadata", Bytes(out.begin(), out.begin() + metadata), answer_.metadata);
  text += difference("packet", Bytes(out.begin() + metadata, out.begin() + options.data_size_out),
                     answer_.packet);
  return maps ? text + difference_of_maps() : text;
}

std::vector<Bytes> Twins::put_out(u32 map) {
  std::vector<Bytes> records;
  const auto take = [](void* to, void* data, std::size_t bytes) {
    const auto* first = static_cast<const u8*>(data);
    static_cast<std::vector<Bytes>*>(to)->emplace_back(first, first + bytes);
    return 0;
  };
  const std::unique_ptr<ring_buffer, decltype(&ring_buffer__free)> ring(
      ring_buffer__new(kernel_->maps.at(map), take, &records, nullptr), ring_buffer__free);
  if (ring == nullptr || ring_buffer__consume(ring.get()) < 0) fail("reading a ring");
  return records;
}

u32 queues() { return std::min(cpus(), 2u); }

void Twins::send(u32 program, const ProgramPacket& packet) {
  xdp_md before{};
  before.data_end = static_cast<u32>(packet.bytes.size());
  before.ingress_ifindex = packet.ingress_ifindex;
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet.bytes.data(),
              .data_size_in = static_cast<u32>(packet.bytes.size()), .ctx_in = &before,
              .ctx_size_in = sizeof(before), .repeat = 1, .flags = BPF_F_TEST_XDP_LIVE_FRAMES);
  if (bpf_prog_test_run_opts(kernel_->programs.at(program), &options) != 0)
    fail("BPF_PROG_TEST_RUN of a live packet");
  answer_ = set_.run(program, packet);
}

void ProgramTest::SetUp() {
  if (geteuid() != 0) GTEST_SKIP() << "programs are loaded by root alone: run this test with sudo";
  const int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "xg_probe", 4, 4, 1, nullptr);
  if (fd < 0) GTEST_SKIP() << "the kernel refuses BPF maps here: " << std::strerror(errno);
  close(fd);
  libbpf_set_print(nullptr);
}

}  // namespace xdpgpu::test
