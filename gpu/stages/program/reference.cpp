// SPDX-License-Identifier: MIT
#include <linux/bpf.h>

#include <cstring>
#include <type_traits>

#include "gpu/program_counts.hpp"
#include "gpu/reference/program.hpp"
#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

class XdpProgram final : public StageWith<ProgramSettings> {
 public:
  XdpProgram(const ProgramSettings& settings, const std::array<u64, 2>& secret)
      : StageWith(settings), secret_(secret) {
    begin();
  }
  void change(const StageSettings& changed) override {
    const auto& later = std::get<ProgramSettings>(changed);
    const bool goes_on =
        later.program->maps == program_->maps && same_contents(later) && is_by_key(*later.program) == by_key_;
    StageWith::change(changed);
    if (!goes_on) return begin();
    program_ = later.program;
    load();
  }
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    ProgramEnd end = ProgramEnd::too_long;
    if (packet.later.empty()) {
      const xg_metadata& metadata = packet.outer;
      std::vector<u8> chosen_by;
      const auto add = [&](u64 number, u32 bytes) {
        for (u32 i = 0; i < bytes; i++) chosen_by.push_back(static_cast<u8>(number >> 8 * i));
      };
      add(metadata.rx_time_ns, 8);
      add(metadata.sequence, 4);
      add(metadata.flow_hash, 4);
      const ProgramAnswer answer = set_->run(0, {.bytes = {packet.frame.begin(), packet.frame.end()},
                                                 .ingress_ifindex = number_of(metadata.port),
                                                 .time_ns = metadata.rx_time_ns,
                                                 .random = static_cast<u32>(siphash13(chosen_by, secret_)),
                                                 .most_steps = settings().steps,
                                                 .routes = has_routes_ ? &routes_ : nullptr,
                                                 .most_lines = place.is_last ? XG_PATCH_LINES : 0});
      if (answer.event) {
        result.flags |= XG_RES_EVENT;
        *place.event = *answer.event;
      }
      const bool ended = answer.fault != ProgramFault::none;
      if (!ended && answer.action == XDP_DROP) {
        result.verdict = XG_VERDICT(XG_DROP, 0, place.position, 1);
        return true;
      }
      const u32* const port = ended ? nullptr : redirected_to(answer);
      const bool passes = !ended && (answer.action == XDP_PASS || to_processor(answer));
      const bool goes_on = passes || (!ended && (answer.action == XDP_TX || port != nullptr));
      const bool fits = !answer.is_changed || answer.packet.size() <= packet.frame.size() ||
                        answer.change.end <= XG_PATCH_BEFORE + XG_FRAME_MAX;
      if (goes_on && fits) {
        if (answer.is_changed) {
          result.flags |= XG_RES_PATCH;
          *place.patch = answer.change;
        } else if (passes) {
          return false;
        }
        result.verdict = port != nullptr ? XG_VERDICT(XG_REDIRECT, *port, place.position, 0)
                                         : XG_VERDICT(passes ? XG_PASS : XG_TX, 0, place.position, 0);
        return true;
      }
      end = goes_on ? ProgramEnd::too_large : end_of(answer);
    }
    result.verdict = XG_VERDICT(XG_DROP, 0, place.position, 2 + static_cast<u32>(end));
    return true;
  }
  void look_up_in(const StageSettings* stage) override {
    routes_ = {};
    has_routes_ = stage != nullptr;
    if (stage == nullptr) return;
    for (const ProgramInterface& one : settings().interfaces) routes_.interfaces.push_back(one.ifindex);
    std::visit(
        [&](const auto& what) {
          if constexpr (StageInfo<std::remove_cvref_t<decltype(what)>>::kTraits.routes)
            for (const Route& route : what.routes) add_route(route, what.next_hops);
        },
        *stage);
  }
  bool may_send() const override { return true; }
  bool remembers() const override { return gpu::remembers(StageSettings(settings())); }

 private:
  template <class NextHops>
  void add_route(const Route& route, const NextHops& next_hops) {
    ProgramRoutes::Route& made = routes_.routes.emplace_back();
    made.family = route.prefix.family;
    made.address = route.prefix.address;
    made.length = route.prefix.length;
    if (route.next_hop == kRoutePass) made.leads = ProgramRoutes::Leads::to_host;
    if (route.next_hop == kRouteDrop) made.leads = ProgramRoutes::Leads::nowhere;
    if (made.leads != ProgramRoutes::Leads::to_next_hop) return;
    const auto& hop = next_hops[route.next_hop];
    made.hop.mac = hop.mac;
    if (hop.own_source) made.hop.source = hop.source;
    made.hop.by_asked = !hop.to_port;
    if (hop.to_port) made.hop.ifindex = number_of(hop.target);
    made.hop.mtu = hop.mtu;
  }
  // The interface's.
  u32 number_of(u32 port) const {
    for (const ProgramInterface& one : settings().interfaces)
      if (one.port == port) return one.ifindex;
    return 0;
  }
  // A packet for another processor of the kernel's is here.
  bool to_processor(const ProgramAnswer& answer) const {
    return answer.action == XDP_REDIRECT && answer.redirect && answer.redirect->map &&
           program_->maps[*answer.redirect->map].type == BPF_MAP_TYPE_CPUMAP;
  }
  // nullptr: it redirects nowhere, to several interfaces, or to one that has no such number.
  const u32* redirected_to(const ProgramAnswer& answer) const {
    if (answer.action != XDP_REDIRECT || !answer.redirect || answer.redirect->flags != 0 ||
        to_processor(answer))
      return nullptr;
    for (const ProgramInterface& one : settings().interfaces)
      if (one.ifindex == answer.redirect->ifindex) return &one.port;
    return nullptr;
  }
  static ProgramEnd end_of(const ProgramAnswer& answer) {
    switch (answer.fault) {
      case ProgramFault::none:
        if (answer.action == XDP_ABORTED) return ProgramEnd::aborted;
        return answer.action == XDP_REDIRECT ? ProgramEnd::redirect : ProgramEnd::unknown_action;
      case ProgramFault::out_of_bounds:
        return ProgramEnd::out_of_bounds;
      case ProgramFault::read_only:
        return ProgramEnd::read_only;
      case ProgramFault::wrong_map:
        return ProgramEnd::wrong_map;
      case ProgramFault::outside_program:
        return ProgramEnd::outside;
      case ProgramFault::too_many_instructions:
        return ProgramEnd::too_many_steps;
      case ProgramFault::too_many_calls:
        return ProgramEnd::too_many_calls;
      case ProgramFault::writes_packet:
        return ProgramEnd::writes_packet;
      case ProgramFault::too_much_written:
        return ProgramEnd::too_much_written;
      case ProgramFault::unknown_instruction:
      case ProgramFault::unknown_helper:
        break;
    }
    return ProgramEnd::unknown_instruction;
  }

  static bool is_by_key(const programs::Program& program) {
    return programs::how_taken(program).how == programs::Taking::by_key;
  }
  static u32 number_in(const std::vector<u8>& bytes) {
    u32 number = 0;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number;
  }
  bool same_contents(const ProgramSettings& later) const {
    const auto of = [](const auto& contents) {
      return contents ? *contents : std::vector<ProgramMapContents>{};
    };
    return of(later.contents) == of(contents_);
  }
  void load() {
    set_.emplace(*maps_);
    for (const programs::Program& part : programs::parts_of(*program_)) set_->add(part);
  }
  void fill(const ProgramMapContents& one) {
    const bool of_maps = program_->maps[one.map].type == BPF_MAP_TYPE_ARRAY_OF_MAPS;
    for (const auto& [key, value] : one.entries) {
      if (of_maps)
        maps_->put(one.map, number_in(key), number_in(value));
      else
        (*maps_)[one.map].update(key, value, 0, 0);
    }
  }
  void begin() {
    program_ = settings().program;
    contents_ = settings().contents;
    by_key_ = is_by_key(*program_);
    maps_ = std::make_unique<ProgramMaps>(program_->maps, by_key_ ? &secret_ : nullptr);
    if (contents_)
      for (const ProgramMapContents& one : *contents_) fill(one);
    load();
  }

  std::array<u64, 2> secret_;
  std::shared_ptr<const programs::Program> program_;
  std::shared_ptr<const std::vector<ProgramMapContents>> contents_;
  bool by_key_ = false;
  std::unique_ptr<ProgramMaps> maps_;
  std::optional<ProgramSet> set_;
  ProgramRoutes routes_;
  bool has_routes_ = false;
};

}  // namespace

std::unique_ptr<Stage> reference_of(const ProgramSettings& settings, const std::array<u64, 2>& secret) {
  return std::make_unique<XdpProgram>(settings, secret);
}

}  // namespace xdpgpu::gpu::reference
