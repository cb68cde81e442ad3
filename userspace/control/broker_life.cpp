// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "userspace/control/broker_port.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/kept_policy.hpp"
#include "userspace/control/last_end.hpp"
#include "userspace/control/privileges.hpp"
#include "userspace/control/program_verifier.hpp"
#include "userspace/control/report.hpp"
#include "userspace/dataplane/counters.hpp"
#include "userspace/dataplane/rings.hpp"

namespace xdpgpu::control {

int Broker::run(const std::function<void()>& on_ready, ServiceManager& manager) {
  DataPlaneLife::Options options;
  options.json = options_.json;
  options.daemon = options_.daemon;
  options.listener = listener_.get();
  options.signals = signals_.get();
  options.admission = {.group = plan_.control_group, .excluded = data_plane_user_id()};
  options.policy_file = options_.policy_file;
  options.manager = &manager;
  try {
    return DataPlaneLife(*this, std::move(options), on_ready).run();
  } catch (const std::exception& error) {
    // What the broker dies of (no memory, say) is no order to detach, either.
    std::fprintf(
        stderr, "xdpgpu: the broker failed: %s; the XDP program stays where it can, and on_failure decides\n",
        error.what());
    if (ready_) leave();
    return 1;
  }
}

Requests::Duties Broker::duties() {
  return {.create_maps = [this](u32 lines, u32 rows) { return tables_.create(lines, rows); },
          .install_maps = [this](u32 slot, const kernel::PolicyMaps& maps,
                                 const xg_policy& header) { return install(slot, maps, header); },
          .activate = [this](u32 slot, u32 generation, u64 hash) { return activate(slot, generation, hash); },
          .set_state = [this](u32 state, bool bypassed_too) { return set_state(state, bypassed_too); },
          .set_bypass = [this](bool on, std::chrono::seconds ends_after) { return bypass(on, ends_after); },
          .bypass_left = [this] { return bypass_left(); },
          .watch_egress = [this](bool on) { return watch_egress(on); },
          .rename = [this](u32 port) { return rename(port); },
          .keep_policy = make_policy_memory,
          .policy_kept =
              [this](kernel::Fd memory, u64 hash) {
                kept_policy_ = std::move(memory);
                confirmed_hash_ = hash;  // another one may be in force by now
              },
          .program_memory = make_policy_memory,
          .verify_program = verify_apart,
          .load_program =
              [this](u32 slot, u32 number, const std::string& pipeline, const kernel::Fd& memory) {
                return load_program(slot, number, pipeline, memory);
              },
          .make_program_maps =
              [this](u32 slot, u32 number, const std::string& place, const kernel::Fd& memory) {
                return make_program_maps(slot, number, place, memory);
              },
          .program_map = [this](u32 slot, u32 number, u32 which) { return program_map(slot, number, which); },
          .retire_programs = [this](u32 slot) { return retire_programs(slot); },
          .start_compiler =
              [this](CompilerFor what) {
                return what == CompilerFor::programs ? translator_.start() : compiler_.start();
              },
          .open_log = [this](const std::string& place) { return logs_.open(place); },
          .ready =
              [this] {
                plan_.warnings.clear();
                note_confirmed();
                if (std::exchange(ready_, true)) return;
                for (const auto& port : ports_) port->program->stay();
              },
          .ending = [](bool, const std::string&) {},
          .undo = [this](bool keep) { return finish(keep); }};
}

Result<DataPlaneKeeper::Started> Broker::start(const DeathRecord& before, bool& gone) {
  if (ready_) {
    if (auto there = follow_interfaces(gone); !there) return Error(there.error());
    if (auto found = find_in_force(); !found) return Error(found.error());
    if (auto retired = retire_programs(controls_.front().active_slot() ^ 1u); !retired)
      return Error(retired.error());
    if (auto renewed = renew_pairs(); !renewed) return Error(renewed.error());
  }
  make_frame_files();
  return fork_data_plane(before);
}

// Their names are the data plane's to follow while it lives.
Result<void> Broker::follow_interfaces(bool& gone) {
  for (u32 i = 0; i < ports_.size(); i++) {
    const auto& facts = plan_.ports[i].facts;
    char now[IF_NAMESIZE] = {};
    errno = 0;
    if (!if_indextoname(facts.ifindex, now)) {
      if (errno != ENXIO)
        return Error(fmt::format("{} cannot be looked at: {}", facts.name, std::strerror(errno)));
      gone = true;
      return Error(fmt::format(
          "{} is gone: it was deleted or moved to another network namespace while its data plane was "
          "dead, so this attach ends; attach again where the interface is",
          facts.name));
    }
    if (facts.name == now) continue;
    if (auto renamed = rename(i); !renamed) return Error(renamed.error());
  }
  return {};
}

Result<void> Broker::renew_pairs() {
  for (u32 i = 0; i < ports_.size(); i++) {
    if (!ports_[i]->reinjection->gone()) continue;
    if (auto made = make_reinjection(i); !made) return made;
  }
  return {};
}

std::vector<std::string> Broker::guard_pairs() {
  std::vector<std::string> said;
  const auto now = std::chrono::steady_clock::now();
  const bool news = news_.drain();
  if (!ready_ || undone_ || (!news && now < next_guard_)) return said;
  next_guard_ = now + kTurn;
  for (u32 i = 0; i < ports_.size(); i++) guard(i, said);
  return said;
}

namespace {

void note_mended(const char* what, const std::string& ifname, const Result<std::string>& mended,
                 std::vector<std::string>& said) {
  if (mended && !mended->empty())
    said.push_back(fmt::format("{} of {} was changed by somebody, and is as it has to be again: {}", what,
                               ifname, *mended));
}

}  // namespace

// One that cannot be made anew is tried again at each turn; that is said once.
void Broker::guard_cutter(u32 index, std::vector<std::string>& said) {
  constexpr const char* kWhat = "the pair that cuts long frames";
  Port& port = *ports_[index];
  const auto& name = plan_.ports[index].facts.name;
  if (port.mode == kernel::XdpMode::native) return;
  if (port.cutter && !port.cutter->gone()) return note_mended(kWhat, name, port.cutter->mend(), said);
  const bool news = port.cutter != nullptr;
  if (const auto made = make_cutter(index); made)
    said.push_back(fmt::format("{} of {} was deleted by somebody, and is made anew", kWhat, name));
  else if (news)
    said.push_back(fmt::format(
        "{} of {} was deleted by somebody, and cannot be made anew ({}): what has to be cut {} until it can; "
        "take away what is in its place",
        kWhat, name, made.error(), on_failure()));
}

void Broker::guard(u32 index, std::vector<std::string>& said) {
  guard_cutter(index, said);
  Port& port = *ports_[index];
  const auto& name = plan_.ports[index].facts.name;
  PortControl& control = controls_[index];
  // Where it is gone, the data plane, whose sockets were on it, ends by itself, and the next one gets
  // another.
  const bool gone = port.reinjection->gone();
  const auto mended = gone ? Result<std::string>(std::string()) : port.reinjection->mend();
  note_mended("the way to the stack", name, mended, said);
  if (mended && !gone) {
    if (control.state() == XG_STATE_CUT_OFF) control.set_state(XG_STATE_RUNNING);
    return;
  }
  if (control.state() != XG_STATE_RUNNING) return;
  control.set_state(XG_STATE_CUT_OFF);
  if (!mended)
    said.push_back(
        fmt::format("what is to be inspected on {} {}, as its way to the stack cannot be mended: {}", name,
                    on_failure(), mended.error()));
}

Result<void> Broker::find_in_force() {
  const PortControl* newest = &controls_.front();
  for (const auto& port : controls_)
    if (static_cast<std::int32_t>(port.active_generation() - newest->active_generation()) > 0) newest = &port;
  const u32 generation = newest->active_generation(), slot = newest->active_slot();
  u64 hash = newest->policy_hash();
  for (auto& port : controls_) {
    if (port.active_generation() != generation) port.activate(generation, slot, hash);
    if (port.policy_hash() != hash) hash = 0;  // a policy that is none of those that are known
  }
  in_force_ = InForce{u64{generation} << 32 | slot, hash};
  return {};
}

// The memory is given back as soon as it can be: where memory is short, this one holds what the dead had.
std::string Broker::bury(u64 death, bool served) {
  FrameFiles frames = std::exchange(frames_, {});
  if (!served) frames = {};
  const auto packets = frames.ordinary ? last_packets(frames) : std::vector<dataplane::PacketInHand>{};
  frames = {};
  count_lost();
  return packets.empty() ? std::string() : keep_packets(packets, death);
}

void Broker::count_lost() {
  for (auto& port : controls_)
    for (u32 queue = 0; queue < port.queues(); queue++) port.count_lost(queue);
}

std::vector<dataplane::PacketInHand> Broker::last_packets(const FrameFiles& frames) const {
  constexpr std::size_t kMost = 8192;
  std::vector<dataplane::QueueAtDeath> queues;
  for (u32 p = 0; p < controls_.size(); p++) {
    const auto all = controls_[p].queue_counters();
    if (!all) return {};
    for (const auto& queue : *all) {
      // Counted as received only when the burst is through, in which a batch may have been closed.
      const u32 taken =
          static_cast<u32>(dataplane::packets_handed(queue.counters)) + dataplane::kReceiveBurst;
      const bool all_taken = static_cast<std::int32_t>(queue.state.admitted - taken) <= 0;
      queues.push_back({p, queue.queue, queue.state.retired, all_taken ? queue.state.admitted : taken});
    }
  }
  std::vector<dataplane::PortSpec> specs;
  for (u32 i = 0; i < ports_.size(); i++) specs.push_back(spec_of(i));
  struct stat info {};
  const bool huge = frames.huge && fstat(frames.huge.get(), &info) == 0 && info.st_size > 0;
  return dataplane::packets_in_hand(huge ? frames.huge.get() : frames.ordinary.get(),
                                    dataplane::frame_shares(specs, plan_.engine), queues, kMost);
}

// Beside the control socket; the last few of an attach's.
std::string Broker::keep_packets(const std::vector<dataplane::PacketInHand>& packets, u64 death) const {
  const auto path = std::filesystem::path(socket_files_.front())
                        .replace_extension(fmt::format("death-{}.pcap", (death - 1) % Deaths::kMost + 1));
  const auto written = dataplane::write_capture(path, packets);
  return written ? fmt::format("{} ({})", path.string(), counted(packets.size(), "packet")) : written.error();
}

// What the data plane's frames stand in, so that they outlive it.
void Broker::make_frame_files() {
  constexpr unsigned kHuge2Mib = 21u << 26;  // MFD_HUGE_2MB
  frames_ = {};
  // AMD's driver takes no memory of a file into its address space.
  const auto may_be_amd = [](const std::string& device) {
    return device.starts_with("vulkan") ||
           (device == "auto" && access("/dev/dri", F_OK) == 0 && access("/dev/nvidiactl", F_OK) != 0);
  };
  if (std::any_of(plan_.devices.begin(), plan_.devices.end(), may_be_amd)) return;
  frames_.ordinary = kernel::Fd(memfd_create("xdpgpu-frames", MFD_CLOEXEC));
  if (plan_.engine.huge_pages)
    frames_.huge = kernel::Fd(memfd_create("xdpgpu-frames", MFD_CLOEXEC | MFD_HUGETLB | kHuge2Mib));
}

void Broker::reap() {
  compiler_.reap();
  translator_.reap();
}

bool Broker::finish(bool keep) {
  compiler_.end();
  translator_.end();
  if (keep) return leave();
  undo();
  return false;
}

Result<StatusReport> Broker::report(bool of_the_dead) {
  if (of_the_dead) count_lost();
  for (std::size_t i = 0; i < controls_.size(); i++) controls_[i].rename(plan_.ports[i].facts.name);
  std::vector<std::string> modes;
  for (const auto& port : ports_)
    modes.emplace_back(port->mode == kernel::XdpMode::native ? "native" : "generic");
  auto made = report_without_data_plane(
      controls_, modes, std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count());
  if (made) made->bypass = bypass_report(bypass_left());
  return made;
}

void Broker::note_end(const std::string& why, bool left) noexcept {
  keep_last_end(plan_.interfaces(), why, left);
}

bool Broker::decides() const {
  for (u32 i = 0; i < ports_.size(); i++)
    if (!has_its_program(*ports_[i], plan_.ports[i].facts.ifindex)) return false;
  return true;
}

void Broker::note_confirmed() { confirmed_hash_ = controls_.front().policy_hash(); }

bool Broker::is_on_trial() const { return controls_.front().policy_hash() != confirmed_hash_; }

Result<void> Broker::bypass(bool on, std::chrono::seconds ends_after) {
  if (auto set = set_state(on ? XG_STATE_BYPASS : XG_STATE_RUNNING, true); !set) return set;
  bypass_ends_.reset();
  if (on && ends_after.count() > 0) bypass_ends_ = std::chrono::steady_clock::now() + ends_after;
  return {};
}

std::chrono::milliseconds Broker::bypass_left() const {
  if (!bypass_ends_) return std::chrono::milliseconds(0);
  const auto left = *bypass_ends_ - std::chrono::steady_clock::now();
  return std::max(std::chrono::milliseconds(1), std::chrono::ceil<std::chrono::milliseconds>(left));
}

std::chrono::milliseconds Broker::due_in() const {
  return bypass_ends_ ? std::min(kTurn, bypass_left()) : kTurn;
}

// Where it is still on: somebody may have ended it through a pinned map.
void Broker::end_bypass() noexcept {
  bypass_ends_.reset();
  for (auto& control : controls_)
    if (control.state() == XG_STATE_BYPASS) control.set_state(XG_STATE_RUNNING);
}

std::string Broker::interfaces() const { return fmt::format("{}", fmt::join(plan_.interfaces(), ", ")); }

std::string Broker::on_failure() const {
  if (controls_.front().state() == XG_STATE_BYPASS) return "passes, as does everything else: bypass is on";
  const u32 what = controls_.front().on_failure();
  return fmt::format("{}{} (on_failure)",
                     what & XG_DO_KNOWN ? "goes by its flow's verdict, and without one " : "",
                     what & XG_DO_DROP ? "is dropped" : "passes");
}

}  // namespace xdpgpu::control
