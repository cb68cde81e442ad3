// SPDX-License-Identifier: MIT
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <sys/random.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "maps/hash.h"
#include "userspace/kernel/foreign.hpp"
#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/logging.hpp"
#include "userspace/kernel/pins.hpp"
#include "userspace/kernel/remains.hpp"
#include "userspace/kernel/skeleton.hpp"
#include "userspace/kernel/xdp_link.hpp"

namespace xdpgpu::kernel {
namespace {

struct XdpProgramCloser {
  void operator()(xdp_program* program) const noexcept { xdp_program__close(program); }
};
using XdpProgram = std::unique_ptr<xdp_program, XdpProgramCloser>;

constexpr const char* kSection = "xdp";
// libxdp makes this folder for its dispatchers.
constexpr const char* kLibxdpFolder = "/sys/fs/bpf/xdp";

Result<void> check(const PortOptions& options) {
  if (options.queues == 0 || options.port_index >= XG_MAX_PORTS)
    return tl::unexpected(fmt::format("{}: {} queues as port {} cannot be", options.ifname, options.queues,
                                      options.port_index));
  if (!std::has_single_bit(options.flow_entries_per_queue) || options.flow_entries_per_queue < XG_FLOW_WAYS)
    return tl::unexpected(fmt::format("{}: {} flow entries a queue are not a power of two of at least {}",
                                      options.ifname, options.flow_entries_per_queue, XG_FLOW_WAYS));
  if (!std::has_single_bit(options.mirror_slots) || options.mirror_slots > 32768)
    return tl::unexpected(fmt::format("{}: {} mirror slots are not a power of two of at most 32768",
                                      options.ifname, options.mirror_slots));
  if (options.mirror_bytes == 0 || options.mirror_bytes > XG_MIRROR_BYTES)
    return tl::unexpected(fmt::format("{}: {} bytes of a packet cannot be mirrored, 1 to {} can",
                                      options.ifname, options.mirror_bytes, XG_MIRROR_BYTES));
  if (libbpf_num_possible_cpus() <= 0)
    return tl::unexpected(fmt::format("{}: cannot tell how many CPUs the host may have", options.ifname));
  return {};
}

xdp_attach_mode libxdp_mode(XdpMode mode) { return mode == XdpMode::native ? XDP_MODE_NATIVE : XDP_MODE_SKB; }

u32 mode_flag(XdpMode mode) { return mode == XdpMode::native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE; }

std::string load_cause(int error) {
  if (error == -EPERM || error == -EACCES)
    return "the kernel refused it; run as root, or with CAP_BPF and CAP_NET_ADMIN";
  const std::string said = last_library_message();
  return said.empty() ? std::string(std::strerror(-error))
                      : fmt::format("{} ({})", std::strerror(-error), said);
}

}  // namespace

Skeleton open_sized(const PortOptions& options) {
  Skeleton skeleton(xdpgpu_bpf__open());
  if (!skeleton) return skeleton;
  // A shard a queue for its worker, and one for the mirror's consumer.
  const u32 flows = 2 * options.queues * options.flow_entries_per_queue;
  const u32 cpus = static_cast<u32>(libbpf_num_possible_cpus());
  bpf_map__set_max_entries(skeleton->maps.queue_state, options.queues);
  bpf_map__set_max_entries(skeleton->maps.worker_counters, options.queues);
  bpf_map__set_max_entries(skeleton->maps.queue_metrics, options.queues);
  bpf_map__set_max_entries(skeleton->maps.order_slots, options.queues * XG_ORDER_SLOTS);
  bpf_map__set_max_entries(skeleton->maps.flow_verdicts, flows);
  bpf_map__set_max_entries(skeleton->maps.flow_stats, flows);
  bpf_map__set_max_entries(skeleton->maps.mirror_rings, cpus * options.mirror_slots);
  bpf_map__set_max_entries(skeleton->maps.mirror_state, cpus);
  bpf_map__set_max_entries(skeleton->maps.egress_records, cpus * XG_EGRESS_SLOTS);
  bpf_map__set_max_entries(skeleton->maps.egress_heads, cpus);
  bpf_map__set_max_entries(skeleton->maps.limits, options.max_prefix_limits);
  bpf_map__set_max_entries(skeleton->maps.xsks, options.queues);
  if (options.management_flows >= 0)
    bpf_map__reuse_fd(skeleton->maps.management_flows, options.management_flows);
  skeleton->rodata->multi_buffer = options.multi_buffer ? 1 : 0;
  if (options.multi_buffer) bpf_program__set_flags(skeleton->progs.xdpgpu, BPF_F_XDP_HAS_FRAGS);
  return skeleton;
}

struct PortProgram::Impl {
  PortOptions options;
  Skeleton skeleton;  // the maps and the program, as it is attached where it is alone
  // For libxdp's dispatcher: a second object over the same maps, which it loads as a component.
  Skeleton component_skeleton;
  XdpProgram component;
  enum class By { nobody, dispatcher, itself } attached = By::nobody;
  Room room;
  Fd link;  // by itself: it has the program on the interface
  XdpMode mode = XdpMode::native;
  bool pinned = false;
  std::optional<XdpMode> took_over;  // the mode of the program whose place this one is to take
  bool had_libxdp_folder = false;

  static Result<std::unique_ptr<Impl>> open(const PortOptions& options);
  Result<void> load();
  Result<void> write_config();
  Result<void> renew_config();
  int ifindex() const noexcept { return static_cast<int>(options.ifindex); }
  Result<XdpMode> take_over();
  int try_attach(XdpMode wanted, bool dispatcher);
  // Native where it can be and is not ruled out, else generic. native_error: why it is not.
  int attach_in(std::optional<XdpMode> required, int& native_error);
  int attach_by_dispatcher(XdpMode wanted);
  int attach_by_itself(XdpMode wanted);
};

PortProgram::PortProgram(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

PortProgram::~PortProgram() {
  detach();
  unpin();
  put_back(impl_->room, impl_->ifindex());
}

const std::string& PortProgram::replaced() const noexcept { return impl_->room.replaced; }

void PortProgram::stay() noexcept { impl_->room.program = Fd(); }

const PortOptions& PortProgram::options() const noexcept { return impl_->options; }

int PortProgram::program_fd() const noexcept { return bpf_program__fd(impl_->skeleton->progs.xdpgpu); }

Result<std::unique_ptr<PortProgram>> PortProgram::load(const PortOptions& options) {
  auto impl = Impl::open(options);
  if (!impl) return tl::unexpected(impl.error());
  if (auto ok = (*impl)->load(); !ok) return tl::unexpected(ok.error());
  if (auto ok = (*impl)->write_config(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<PortProgram>(new PortProgram(std::move(*impl)));
}

Result<std::unique_ptr<PortProgram>> PortProgram::load_over(const PortOptions& options, Remains remains) {
  auto impl = Impl::open(options);
  if (!impl) return tl::unexpected(impl.error());
#define XG_X(name) bpf_map__reuse_fd((*impl)->skeleton->maps.name, remains.maps.name.get());
  XG_PORT_MAPS(XG_X)
#undef XG_X
  (*impl)->link = std::move(remains.link);
  (*impl)->took_over = remains.mode;
  if (auto ok = (*impl)->load(); !ok) return tl::unexpected(ok.error());
  if (auto ok = (*impl)->renew_config(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<PortProgram>(new PortProgram(std::move(*impl)));
}

Result<std::unique_ptr<PortProgram::Impl>> PortProgram::Impl::open(const PortOptions& options) {
  quiet_libraries();
  if (auto ok = check(options); !ok) return tl::unexpected(ok.error());
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->skeleton = open_sized(options);
  if (!impl->skeleton)
    return tl::unexpected(
        fmt::format("{}: cannot open the XDP program: {}", options.ifname, std::strerror(errno)));
  return impl;
}

Result<void> PortProgram::Impl::load() {
  if (const int error = xdpgpu_bpf__load(skeleton.get()); error)
    return tl::unexpected(
        fmt::format("{}: cannot load the XDP program: {}", options.ifname, load_cause(error)));
  return {};
}

Result<void> PortProgram::Impl::write_config() {
  xg_config config{};
  if (getrandom(config.hash_key, sizeof(config.hash_key), 0) != sizeof(config.hash_key))
    return tl::unexpected(fmt::format("cannot draw a hash key: {}", std::strerror(errno)));
  config.flow_keys = xg_hash_keys_from(config.hash_key[0], config.hash_key[1]);
  config.beat_timeout_ns = options.beat_timeout_ns;
  config.state = XG_STATE_STARTING;
  config.port = options.port_index;
  config.queues = options.queues;
  config.flow_entries_per_queue = options.flow_entries_per_queue;
  config.tx_by_redirect = options.tx_by_redirect ? 1 : 0;
  config.mirror_slots = static_cast<u16>(options.mirror_slots);
  config.mirror_bytes = static_cast<u16>(options.mirror_bytes);
  const u32 zero = 0;
  if (bpf_map_update_elem(bpf_map__fd(skeleton->maps.config), &zero, &config, BPF_ANY) != 0)
    return tl::unexpected(
        fmt::format("{}: cannot configure the XDP program: {}", options.ifname, std::strerror(errno)));
  return {};
}

// What may differ from before; the program that is on reads it at once.
Result<void> PortProgram::Impl::renew_config() {
  auto view = MapView<xg_config>::open(bpf_map__fd(skeleton->maps.config), 1);
  if (!view) return tl::unexpected(fmt::format("{}: {}", options.ifname, view.error()));
  xg_config& config = (*view)[0];
  __atomic_store_n(&config.beat_timeout_ns, options.beat_timeout_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&config.tx_by_redirect, options.tx_by_redirect ? 1 : 0, __ATOMIC_RELAXED);
  __atomic_store_n(&config.mirror_bytes, static_cast<u16>(options.mirror_bytes), __ATOMIC_RELAXED);
  return {};
}

Result<PortMaps> PortProgram::maps() const {
  const int fds[] = {
#define XG_X(name) bpf_map__fd(impl_->skeleton->maps.name),
      XG_PORT_MAPS(XG_X)
#undef XG_X
  };
  // Borrowed for the duplication only.
  auto borrowed = PortMaps::adopt(fds);
  if (!borrowed) return borrowed;
  auto copies = borrowed->duplicate();
#define XG_X(name) borrowed->name.release();
  XG_PORT_MAPS(XG_X)
#undef XG_X
  return copies;
}

Result<void> PortProgram::pin() {
  if (impl_->took_over) return {};
  auto copies = maps();
  if (!copies) return tl::unexpected(copies.error());
  auto ok = pin_maps(impl_->options.ifname, *copies);
  impl_->pinned = static_cast<bool>(ok);
  return ok;
}

void PortProgram::unpin() noexcept {
  if (std::exchange(impl_->pinned, false)) remove_pins(impl_->options.ifname);
}

Result<void> PortProgram::rename(const std::string& ifname) {
  if (impl_->pinned)
    if (auto ok = rename_pins(impl_->options.ifname, ifname); !ok) return ok;
  impl_->options.ifname = ifname;
  return {};
}

int PortProgram::Impl::attach_by_dispatcher(XdpMode wanted) {
  had_libxdp_folder = access(kLibxdpFolder, F_OK) == 0;
  component.reset();
  component_skeleton = open_sized(options);
  if (!component_skeleton) return -errno;
// An array of programs is one for programs of one type: a component has one of its own, in which nothing is.
#define XG_X(name)                                \
  if (std::string_view(#name) != "user_programs") \
    bpf_map__reuse_fd(component_skeleton->maps.name, bpf_map__fd(skeleton->maps.name));
  XG_PORT_MAPS(XG_X)
#undef XG_X
  xdp_program* program = xdp_program__from_bpf_obj(component_skeleton->obj, kSection);
  if (const long error = libxdp_get_error(program); error) return static_cast<int>(error);
  component.reset(program);
  if (const int error = xdp_program__set_xdp_frags_support(program, options.multi_buffer); error)
    return error;
  const int error = xdp_program__attach(program, ifindex(), libxdp_mode(wanted), 0);
  if (error == 0) attached = By::dispatcher;
  return error;
}

int PortProgram::Impl::attach_by_itself(XdpMode wanted) {
  int error = create_xdp_link(ifindex(), bpf_program__fd(skeleton->progs.xdpgpu), wanted, link);
  if (error == 0 && pinned) error = pin_link(options.ifname, link);
  if (error == 0)
    attached = By::itself;
  else
    link = Fd();
  return error;
}

int PortProgram::Impl::try_attach(XdpMode wanted, bool dispatcher) {
  const int error = dispatcher ? attach_by_dispatcher(wanted) : attach_by_itself(wanted);
  if (error == 0) mode = wanted;
  return error;
}

int PortProgram::Impl::attach_in(std::optional<XdpMode> required, int& native_error) {
  int error = 0;
  for (const XdpMode wanted : {XdpMode::native, XdpMode::generic}) {
    if (required && *required != wanted) continue;
    error = try_attach(wanted, room.dispatcher);
    if (error == 0) return 0;
    if (wanted == XdpMode::native) native_error = error;
    if (error == -EEXIST || error == -EBUSY || error == -EPERM) break;
  }
  return error;
}

// One step: each packet meets the one program or the other.
Result<XdpMode> PortProgram::Impl::take_over() {
  if (const int error = bpf_link_update(link.get(), bpf_program__fd(skeleton->progs.xdpgpu), nullptr); error)
    return tl::unexpected(fmt::format("{}: cannot put the XDP program in its predecessor's place: {}",
                                      options.ifname, load_cause(error)));
  attached = By::itself;
  pinned = true;
  mode = *took_over;
  return mode;
}

Result<XdpMode> PortProgram::attach(std::optional<XdpMode> required) {
  if (impl_->took_over) return impl_->take_over();
  const PortOptions& options = impl_->options;
  auto room = make_room(options.ifname, impl_->ifindex(), options.replace);
  if (!room) return tl::unexpected(room.error());
  impl_->room = std::move(*room);
  int native_error = 0;
  int error = impl_->attach_in(required, native_error);
  // Since Linux 6.13 none that changes packets is taken into a dispatcher of a libxdp that does not know of
  // it.
  if (error != 0 && error != -EPERM && impl_->room.dispatcher) {
    const std::string why = load_cause(error);
    room = make_room(options.ifname, impl_->ifindex(), options.replace, false);
    if (!room)
      return tl::unexpected(fmt::format("{}; libxdp's dispatcher does not take xdpgpu in on this kernel: {}",
                                        room.error(), why));
    impl_->room = std::move(*room);
    error = impl_->attach_in(required, native_error);
  }
  if (error == 0) return impl_->mode;
  if (error == -EPERM)
    return tl::unexpected(
        fmt::format("{}: attaching XDP was refused; run as root, or with CAP_NET_ADMIN", options.ifname));
  if (required == XdpMode::native)
    return tl::unexpected(fmt::format(
        "{}: its driver does not take native XDP now ({}); an MTU above one page, LRO or too few queues can "
        "be the cause (`xdpgpu doctor {}` says), or use --mode generic",
        options.ifname, load_cause(native_error), names::operand(options.ifname)));
  return tl::unexpected(fmt::format("{}: cannot attach XDP: {}", options.ifname, load_cause(error)));
}

int PortProgram::link_fd() const noexcept {
  return impl_->attached == Impl::By::itself ? impl_->link.get() : -1;
}

// Somebody may have removed the pins, and without them nothing holds the program once this process has ended.
bool PortProgram::can_stay() const noexcept {
  if (impl_->attached != Impl::By::itself || !impl_->pinned) return false;
  const std::string& ifname = impl_->options.ifname;
  if (pinned_link(ifname) && pinned_maps(ifname)) return true;
  remove_pins(ifname);
  const auto copies = maps();
  return copies && pin_maps(ifname, *copies) && pin_link(ifname, impl_->link) == 0;
}

void PortProgram::leave() noexcept {
  if (!can_stay()) return;
  impl_->attached = Impl::By::nobody;
  impl_->pinned = false;
}

void PortProgram::detach() noexcept {
  const Impl::By by = std::exchange(impl_->attached, Impl::By::nobody);
  if (by == Impl::By::nobody) return;
  if (by == Impl::By::itself) {
    bpf_link_detach(impl_->link.get());  // wherever the interface is by now; the pin may outlive this
    impl_->link = Fd();
    return;
  }
  const int ifindex = impl_->ifindex();
  if (xdp_program__detach(impl_->component.get(), ifindex, libxdp_mode(impl_->mode), 0) != 0) {
    // By its descriptor, which touches nobody else's program.
    bpf_xdp_attach_opts only_mine{};
    only_mine.sz = sizeof(only_mine);
    only_mine.old_prog_fd = xdp_program__fd(impl_->component.get());
    bpf_xdp_detach(ifindex, mode_flag(impl_->mode), &only_mine);
  }
  impl_->component.reset();
  impl_->component_skeleton.reset();
  if (!impl_->had_libxdp_folder) rmdir(kLibxdpFolder);  // unless somebody uses it by now
}

}  // namespace xdpgpu::kernel
