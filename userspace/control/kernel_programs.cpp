// SPDX-License-Identifier: MIT
#include "userspace/control/kernel_programs.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <span>

#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/compiler/programs/needs.hpp"
#include "userspace/compiler/sealed_memory.hpp"
#include "userspace/control/forked.hpp"
#include "userspace/control/program_memory.hpp"
#include "userspace/kernel/descriptors.hpp"
#include "userspace/policy/kernel_programs.hpp"
#include "userspace/policy/program_files.hpp"
#include "userspace/policy/reader.hpp"

namespace xdpgpu::control {
namespace {

using Clock = std::chrono::steady_clock;
using compiler::MemoryReader;
using compiler::MemoryWriter;
using gpu::ProgramMapContents;
using Port = KernelPrograms::Port;

constexpr std::chrono::seconds kLongestLoaded{15};
// Whoever asks waits longer than it may take.
constexpr std::chrono::seconds kLongestCall{30};
// What an order begins with.
constexpr u64 kOrder = 0x7867'7063'0000'000a;

// Entries one behind the other, each a key and a value.
std::vector<u8> packed(const ProgramMapContents& contents) {
  std::vector<u8> bytes;
  for (const auto& [key, value] : contents.entries) {
    bytes.insert(bytes.end(), key.begin(), key.end());
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  return bytes;
}
ProgramMapContents unpacked(u32 map, u32 key_bytes, u32 value_bytes, const std::vector<u8>& bytes) {
  ProgramMapContents contents{.map = map};
  const u64 each = u64{key_bytes} + value_bytes;
  for (u64 at = 0; each != 0 && at + each <= bytes.size(); at += each) {
    const auto key = bytes.begin() + static_cast<std::ptrdiff_t>(at), value = key + key_bytes;
    contents.entries.emplace_back(std::vector<u8>(key, value), std::vector<u8>(value, value + value_bytes));
  }
  return contents;
}

// What the process that loads sends, with a descriptor beside it where it is a map or the program.
struct Part {
  enum class Kind : u32 { map, program, maps_alone, refused };  // the last two: no more comes
  Kind kind = Kind::refused;
  u32 number = 0;  // a map's, among the program's
  u64 bytes = 0;   // of the program's maps
  char text[sizeof(Message::text)] = {};

  void say(std::string_view what) { std::memcpy(text, what.data(), std::min(what.size(), sizeof(text) - 1)); }
};

bool send_part(int socket, const Part& part, int descriptor) {
  const std::span<const int> beside(&descriptor, descriptor < 0 ? 0 : 1);
  return kernel::send_with(socket, std::as_bytes(std::span(&part, 1)), beside, 0);
}

std::string number_problem(const ProgramOrder& order, const std::vector<Port>& ports) {
  for (const auto& [port, ifindex] : order.interfaces) {
    if (port >= ports.size()) return "it numbers an interface that is not attached";
    if (ports[port].ifindex != ifindex)
      return fmt::format(
          "its \"interfaces\" call {} {}, and in the kernel an interface has the host's number: write {}",
          ports[port].ifname, ifindex, ports[port].ifindex);
  }
  return {};
}

// What an order is for.
enum class Wanted { program, maps_alone };

Result<kernel::UserProgram> load_here(const std::string& bytes, Wanted wanted, const std::vector<Port>& ports,
                                      u64 most_bytes) {
  const auto order = order_from(bytes);
  if (!order) return Error(order.error());
  const auto object = programs::from_bytes(order->program);
  if (!object) return Error(object.error());
  if (wanted == Wanted::maps_alone)
    return kernel::make_user_maps(object->program, order->contents, {.most_bytes = most_bytes},
                                  object->types);
  if (auto why = programs::why_not_in_kernel(object->program); !why.empty()) return Error(std::move(why));
  if (auto problem = number_problem(*order, ports); !problem.empty()) return Error(std::move(problem));
  kernel::UserBounds bounds{.fragments = ports.front().several_buffers, .most_bytes = most_bytes};
  if (bounds.fragments && !object->fragments)
    return Error(
        fmt::format("its section takes packets of one buffer, and the MTU of {} makes packets of several: "
                    "name it xdp.frags",
                    ports.front().ifname));
  for (const Port& port : ports) bounds.interfaces.push_back(port.ifindex);
  return kernel::load_user_program(object->program, order->contents, bounds, object->types);
}

// Nothing of the broker's is destroyed here: the process ends by _exit.
[[noreturn]] void load_and_exit(const std::string& bytes, Wanted wanted, const std::vector<Port>& ports,
                                u64 most_bytes, int socket, pid_t parent) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  prctl(PR_SET_NAME, "xdpgpu-loader");
  close_others({socket});
  try {
    auto loaded = load_here(bytes, wanted, ports, most_bytes);
    Part part;
    if (!loaded) {
      part.say(for_message(loaded.error()));
      _exit(send_part(socket, part, -1) ? 0 : 1);
    }
    for (const auto& map : loaded->maps) {
      Part one{.kind = Part::Kind::map, .number = map.number};
      one.say(map.name);
      if (!send_part(socket, one, map.map.get())) _exit(1);
    }
    part.kind = wanted == Wanted::program ? Part::Kind::program : Part::Kind::maps_alone;
    part.bytes = loaded->bytes;
    _exit(send_part(socket, part, loaded->program.get()) ? 0 : 1);
  } catch (const std::exception&) {
    _exit(1);
  }
}

// Until all has come, or why there is none. Nothing: the process ended, or was not through in time.
std::optional<Result<kernel::UserProgram>> take_parts(int socket, Clock::time_point end) {
  kernel::UserProgram program;
  while (true) {
    pollfd ready{socket, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    if (poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    Part part;
    auto arrived = kernel::receive_with(socket, std::as_writable_bytes(std::span(&part, 1)));
    if (arrived.length != sizeof(part) || !arrived.whole) return std::nullopt;
    part.text[sizeof(part.text) - 1] = 0;
    if (part.kind == Part::Kind::refused) return Result<kernel::UserProgram>(Error(std::string(part.text)));
    program.bytes = part.bytes;
    if (part.kind == Part::Kind::maps_alone) return program;
    if (arrived.descriptors.size() != 1 || program.maps.size() > programs::kMostMaps) return std::nullopt;
    if (part.kind == Part::Kind::program) {
      program.program = std::move(arrived.descriptors.front());
      return program;
    }
    program.maps.push_back({part.text, std::move(arrived.descriptors.front()), part.number});
  }
}

Result<kernel::UserProgram> load_apart(const std::string& bytes, Wanted wanted,
                                       const std::vector<Port>& ports, u64 most_bytes) {
  const auto failed = [wanted](const char* why) {
    return Error(fmt::format("{} cannot be {}: {}", wanted == Wanted::program ? "it" : "its maps",
                             wanted == Wanted::program ? "loaded into the kernel" : "made in the kernel",
                             why));
  };
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return failed(std::strerror(errno));
  const kernel::Fd from(fds[0]);
  kernel::Fd to(fds[1]);
  std::fflush(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return failed(std::strerror(errno));
  if (child == 0) load_and_exit(bytes, wanted, ports, most_bytes, to.get(), parent);
  to = kernel::Fd();
  const auto end = Clock::now() + kLongestLoaded;
  auto loaded = take_parts(from.get(), end);
  const bool in_time = Clock::now() < end;
  if (!loaded) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (loaded) return std::move(*loaded);
  return failed(in_time ? "whoever loads it ended: there may not be enough memory"
                        : "the kernel was not through with it within 15 s");
}
static_assert(kLongestLoaded.count() == 15);

Result<void> check_ports(const std::vector<Port>& ports) {
  for (const Port& port : ports) {
    if (port.in_dispatcher)
      return Error(
          fmt::format("{} runs several XDP programs by libxdp's dispatcher, where none can go on with "
                      "another one: attach alone, or let a device run it",
                      port.ifname));
    if (port.several_buffers != ports.front().several_buffers)
      return Error(
          fmt::format("{} and {} differ in whether their MTU makes packets of several buffers, and a "
                      "program in the kernel takes the one or the other: give them alike MTUs",
                      ports.front().ifname, port.ifname));
  }
  return {};
}

u32 index_of(u32 slot, u32 number) { return slot * XG_MAX_PROGRAMS + number; }

// Another one's place may be taken: nothing goes by the slot.
Result<void> put(const kernel::UserProgram& program, u32 slot, u32 number, const std::vector<Port>& ports) {
  const u32 index = index_of(slot, number);
  const int fd = program.program.get();
  for (const Port& port : ports)
    if (bpf_map_update_elem(port.programs, &index, &fd, BPF_ANY) != 0)
      return Error(
          fmt::format("the XDP program of {} cannot go on with it: {}", port.ifname, std::strerror(errno)));
  return {};
}

// Answers a message about what was handed over.
Result<Received> order(BrokerCalls& broker, const std::string& bytes, const Message& message) {
  if (bytes.size() > kMaxProgramBytes)
    return Error(fmt::format("it and what its maps have at first take {} MiB, and {} MiB can be handed over",
                             bytes.size() >> 20, kMaxProgramBytes >> 20));
  if (auto handed = hand_over(broker, bytes); !handed) return Error(handed.error());
  return broker.call(message, kLongestCall);
}

std::string named(const compiler::CompiledPolicy& policy, u32 pipeline, u32 stage, const std::string& why) {
  const policy::Pipeline& in = policy.policy.pipelines[pipeline];
  return fmt::format("{} of pipeline \"{}\": {}", gpu::program_of(in.stages[stage])->object, in.name, why);
}

// The bytes of an order; the error is half a sentence.
Result<std::string> order_of(const compiler::CompiledPolicy& policy, u32 pipeline, u32 stage) {
  const auto program = gpu::program_of(policy.policy.pipelines[pipeline].stages[stage]);
  const auto at = policy.source.files.find(
      policy::program_key(program->object, policy::choice_of(program->section, program->maps)));
  if (at == policy.source.files.end()) return Error(std::string("its object was not read"));
  // With those maps that are only in the policy's files (userspace/policy/map_file.hpp).
  auto object = programs::from_bytes(at->second);
  if (!object) return Error(object.error());
  object->program = *program->program;
  auto whole = programs::to_bytes(*object);
  if (!whole) return Error(whole.error());
  ProgramOrder wanted{.program = *whole};
  if (program->contents) wanted.contents = *program->contents;
  for (const auto& [interface, ifindex] : program->interfaces) {
    const auto port = std::find(policy.ports.begin(), policy.ports.end(), interface);
    wanted.interfaces.push_back({static_cast<u32>(port - policy.ports.begin()), ifindex});
  }
  return to_bytes(wanted);
}

}  // namespace

Result<std::string> to_bytes(const ProgramOrder& order) {
  MemoryWriter to("xdpgpu-order");
  to.value(kOrder);
  to.text(order.program);
  to.array(order.interfaces);
  to.value(u64{order.contents.size()});
  for (const auto& one : order.contents) {
    const bool some = !one.entries.empty();
    to.value(one.map);
    to.value(some ? static_cast<u32>(one.entries.front().first.size()) : 0);
    to.value(some ? static_cast<u32>(one.entries.front().second.size()) : 0);
    to.array(packed(one));
  }
  const auto sealed = to.seal();
  if (!sealed) return Error(sealed.error());
  const auto memory = compiler::SealedMemory::map(*sealed, ~u64{0});
  if (!memory) return Error(memory.error());
  const auto bytes = memory->bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<ProgramOrder> order_from(std::string_view bytes) {
  MemoryReader from(std::as_bytes(std::span(bytes)));
  const bool is_order = from.value<u64>() == kOrder;
  ProgramOrder order{.program = from.text()};
  order.interfaces = from.array<ProgramOrder::Number>();
  compiler::each(from, [&] {
    const u32 map = from.value<u32>(), key_bytes = from.value<u32>(), value_bytes = from.value<u32>();
    order.contents.push_back(unpacked(map, key_bytes, value_bytes, from.array<u8>()));
  });
  if (!is_order || !from.ok() || !from.at_end())
    return Error(std::string("what was handed over is not whole"));
  return order;
}

Result<void> order_programs(BrokerCalls& broker, const compiler::CompiledPolicy& policy, u32 slot) {
  u32 number = 0;
  for (const u16 place : policy::kernel_pipelines(policy.policy)) {
    const auto failed = [&](const std::string& why) { return Error(named(policy, place, 0, why)); };
    const auto bytes = order_of(policy, place, 0);
    if (!bytes) return failed(bytes.error());
    const auto loaded =
        order(broker, *bytes,
              Message::make(MessageType::load_program, slot, number++, policy.policy.pipelines[place].name));
    if (!loaded) return failed(loaded.error());
    if (loaded->message.type != MessageType::done) return failed(loaded->message.text);
  }
  return {};
}

Result<OrderedMaps> order_maps(BrokerCalls& broker, const compiler::CompiledPolicy& policy, u32 pipeline,
                               u32 stage, u32 slot, u32 number) {
  const auto failed = [&](const std::string& why) { return Error(named(policy, pipeline, stage, why)); };
  const auto bytes = order_of(policy, pipeline, stage);
  if (!bytes) return failed(bytes.error());
  const auto made =
      order(broker, *bytes,
            Message::make(MessageType::make_program_maps, slot, number,
                          fmt::format("{} {}", stage + 1, policy.policy.pipelines[pipeline].name)));
  if (!made) return failed(made.error());
  if (made->message.type != MessageType::made) return failed(made->message.text);
  OrderedMaps maps{.kept = made->message.b == 1};
  for (u32 which = 0; which < made->message.a; which++) {
    auto one = broker.call(Message::make(MessageType::program_map, slot, number << 8 | which));
    if (!one) return failed(one.error());
    if (one->message.type != MessageType::map) return failed(one->message.text);
    maps.maps.push_back({one->message.a, std::move(one->descriptors.front())});
  }
  return maps;
}

Result<KernelPrograms::Entry> KernelPrograms::entry_of(u32 slot, Entries Slot::*to,
                                                       const std::string& pipeline, const kernel::Fd& memory,
                                                       const std::vector<Port>& ports) const {
  auto bytes = copy_of(memory, kMaxProgramBytes);
  if (!bytes) return Error(bytes.error());
  u64 order_bytes = bytes->size(), map_bytes = 0, maps = 0;
  for (const Entries& entries : {std::cref(slots_[slot].programs), std::cref(slots_[slot].maps)})
    for (const auto& [number, entry] : entries) {
      order_bytes += entry.order.size();
      map_bytes += entry.program->bytes;
      maps += entry.program->maps.size();
    }
  for (const auto& [number, entry] : slots_[slot].*to)
    if (entry.pipeline == pipeline) return Error(std::string("its pipeline has a program already"));
  // Each map is a descriptor of the broker's, and a file.
  if (order_bytes > kMaxProgramBytes || map_bytes > kMostUserMapBytes || maps > kMostUserMaps)
    return Error(
        std::string("the maps of the policy's programs are too large for the kernel: take some out"));
  Entry entry{.pipeline = pipeline, .order = std::move(*bytes), .program = nullptr};
  for (const auto& [number, same] : slots_[slot ^ 1u].*to)
    if (same.pipeline == pipeline && same.order == entry.order) entry.program = same.program;
  entry.kept = entry.program != nullptr;
  if (entry.kept) return entry;
  auto loaded = load_apart(entry.order, to == &Slot::programs ? Wanted::program : Wanted::maps_alone, ports,
                           kMostUserMapBytes - map_bytes);
  if (!loaded) return Error(loaded.error());
  entry.program = std::make_shared<const kernel::UserProgram>(std::move(*loaded));
  return entry;
}

Result<void> KernelPrograms::load(u32 slot, u32 number, const std::string& pipeline, const kernel::Fd& memory,
                                  const std::vector<Port>& ports) {
  if (slot >= slots_.size() || number >= XG_MAX_PROGRAMS || !policy::is_identifier(pipeline) || ports.empty())
    return Error(std::string("no policy has such a program"));
  if (auto right = check_ports(ports); !right) return right;
  Entries& to = slots_[slot].programs;
  if (to.contains(number)) return Error(std::string("the slot has a program of that number already"));
  auto entry = entry_of(slot, &Slot::programs, pipeline, memory, ports);
  if (!entry) return Error(entry.error());
  // Whatever is done of what follows counts until the slot is retired.
  const auto& program = *to.emplace(number, std::move(*entry)).first->second.program;
  if (auto there = put(program, slot, number, ports); !there) return there;
  for (const Port& port : ports)
    if (auto pinned = kernel::pin_user_maps(port.ifname, pipeline, 1, program.maps); !pinned)
      return Error(pinned.error());
  return {};
}

Result<KernelPrograms::Made> KernelPrograms::make_maps(u32 slot, u32 number, const std::string& place,
                                                       const kernel::Fd& memory,
                                                       const std::vector<Port>& ports) {
  u32 stage = 0;
  const auto [end, error] = std::from_chars(place.data(), place.data() + place.size(), stage);
  const auto behind = static_cast<std::size_t>(end - place.data()) + 1;
  const std::string pipeline = behind < place.size() && *end == ' ' ? place.substr(behind) : "";
  if (slot >= slots_.size() || number >= kMaxMapOrders || error != std::errc() || stage == 0 ||
      stage > XG_MAX_STAGES || !policy::is_identifier(pipeline))
    return Error(std::string("no policy has such a program"));
  Entries& to = slots_[slot].maps;
  if (to.contains(number)) return Error(std::string("the slot has maps of that number already"));
  auto entry = entry_of(slot, &Slot::maps, place, memory, ports);
  if (!entry) return Error(entry.error());
  const Made made{static_cast<u32>(entry->program->maps.size()), entry->kept};
  const auto& maps = to.emplace(number, std::move(*entry)).first->second.program->maps;
  for (const Port& port : ports)
    if (auto pinned = kernel::pin_user_maps(port.ifname, pipeline, stage, maps); !pinned)
      return Error(pinned.error());
  return made;
}

const kernel::UserMap* KernelPrograms::map(u32 slot, u32 number, u32 which) const noexcept {
  if (slot >= slots_.size()) return nullptr;
  const auto found = slots_[slot].maps.find(number);
  if (found == slots_[slot].maps.end() || which >= found->second.program->maps.size()) return nullptr;
  return &found->second.program->maps[which];
}

void KernelPrograms::put_in_force(u32 slot, const std::vector<Port>& ports) noexcept {
  for (const Port& port : ports)
    if (!kernel::pins_in_force(port.ifname))
      std::fprintf(stderr,
                   "xdpgpu: %s: the pins of the maps of programs in slot %u are not all in their place\n",
                   port.ifname.c_str(), slot);
}

void KernelPrograms::retire(u32 slot, const std::vector<Port>& ports) noexcept {
  for (const Port& port : ports) {
    for (u32 number = 0; number < XG_MAX_PROGRAMS; number++) {
      const u32 index = index_of(slot, number);
      (void)bpf_map_delete_elem(port.programs, &index);
    }
    kernel::forget_next_pins(port.ifname);
  }
  slots_[slot] = {};
}

}  // namespace xdpgpu::control
