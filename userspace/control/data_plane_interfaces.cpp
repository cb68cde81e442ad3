// SPDX-License-Identifier: MIT
//
// userspace/control/data_plane_interfaces.cpp: what becomes of the interfaces while they are attached: they
// go, are renamed, get other queues and MTUs, and somebody takes the program off.
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "userspace/control/data_plane.hpp"
#include "userspace/control/data_plane_state.hpp"
#include "userspace/host/doctor.hpp"
#include "userspace/kernel/xdp_link.hpp"
#include "userspace/policy/stage_names.hpp"

namespace xdpgpu::control {

namespace asio = boost::asio;

void DataPlane::watch_links() {
  if (!link_events_.is_open()) link_events_.assign(dup(links_.fd()));
  link_events_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const error_code& error) {
    if (error || shutting_down_) return;
    const auto gone = links_.gone();
    for (const auto& port : setup_.plan.ports)
      if (std::find(gone.begin(), gone.end(), port.facts.ifindex) != gone.end())
        return end_without(port.facts.name);
    for (std::size_t i = 0; i < pairs_.size(); i++)
      if (std::find(gone.begin(), gone.end(), pairs_[i]) != gone.end())
        return end_for_another(setup_.plan.ports[i].facts.name);
    if (check_interfaces()) watch_links();
  });
}

// That one interface ends the attach of all is no order to open the others.
const char* DataPlane::what_the_others_do() const {
  return ports_.size() > 1
             ? ", and its other interfaces keep the program, which goes by what it knows and by "
               "on_failure (\"xdpgpu detach\" takes it off)"
             : "";
}

// Its sockets are unbound for good, also if it comes back.
void DataPlane::end_without(const std::string& ifname) {
  fail_with(fmt::format(
      "{} is gone: it was deleted or moved to another network namespace, so this attach ends{}; attach "
      "again where the interface is",
      ifname, what_the_others_do()));
  interface_gone_ = true;
  shut_down({}, ports_.size() > 1);
}

bool DataPlane::check_interfaces() {
  for (u32 i = 0; i < ports_.size(); i++) {
    const auto& facts = setup_.plan.ports[i].facts;
    char now[IF_NAMESIZE] = {};
    errno = 0;
    if (if_indextoname(facts.ifindex, now)) {
      if (facts.name != now) rename(i, now);
    } else if (errno == ENXIO) {
      end_without(facts.name);
      return false;
    }  // else it cannot be told
  }
  return true;
}

bool DataPlane::check_programs() {
  for (std::size_t i = 0; i < setup_.links.size(); i++) {
    const int link = setup_.links[i].get();
    if (link < 0 || kernel::look_at_link(link)) continue;
    if (!check_interfaces()) return false;  // it went with its interface
    fail_with(
        fmt::format("the XDP program of {} was taken off by somebody else, so that no packet comes here any "
                    "more and this attach ends{}; attach again",
                    setup_.plan.ports[i].facts.name, what_the_others_do()));
    shut_down({}, ports_.size() > 1);
    return false;
  }
  return true;
}

void DataPlane::rename(u32 port, const std::string& now) {
  std::string& name = setup_.plan.ports[port].facts.name;
  const auto answer = broker_.call(Message::make(MessageType::renamed, port));
  if (!answer) return;  // whoever watches the broker says so
  if (answer->message.type == MessageType::done) {
    const std::string is = answer->message.text;
    output_.problem(fmt::format(
        "{} was renamed: it is {} from now on, for every command, in policies and in the path of its pins",
        name, is));
    name = is;
    ports_[port].rename(is);
    log_->rename(port, is);
    return;
  }
  auto problem =
      fmt::format("{} was renamed to {}, and goes on under its old name for status, detach and pins: {}",
                  name, now, answer->message.text);
  if (told_.insert(problem).second) output_.problem(problem);
}

void DataPlane::watch_queues() {
  queues_.resize(setup_.plan.ports.size());
  for (std::size_t i = 0; i < queues_.size(); i++) {
    const auto& planned = setup_.plan.ports[i];
    const auto& name = planned.facts.name;
    const u32 before = queues_[i] ? queues_[i] : planned.facts.rx_queues;
    queues_[i] = host::receive_queues(name).value_or(before);
    if (queues_[i] == before) continue;
    // A veth gives its program to the queues that it has when that is attached.
    if (queues_[i] > planned.queues)
      output_.problem(fmt::format(
          "{} has {} receive queues now, and {} of them a worker: what comes in on the others and is to be "
          "inspected goes by on_failure{}; ethtool -L {} to {}, or attach again",
          name, queues_[i], planned.queues,
          planned.facts.driver == "veth" ? ", or past the XDP program, which a veth may not run on them" : "",
          name, planned.queues));
    else
      output_.problem(fmt::format("{} has {} receive queues now, each with a worker", name, queues_[i]));
  }
}

bool DataPlane::driver_fills_one_chunk(u32 port) const {
  for (const auto& queue : engine_->status().queues)
    if (queue.port == port)
      return queue.mode == dataplane::PortMode::zero_copy && queue.chunks_per_frame == 1;
  return false;
}

void DataPlane::watch_mtus() {
  mtus_.resize(setup_.plan.ports.size());
  for (std::size_t i = 0; i < mtus_.size(); i++) {
    const auto& facts = setup_.plan.ports[i].facts;
    const u32 mtu = host::interface_mtu(facts.name).value_or(0);
    if (std::exchange(mtus_[i], mtu) == mtu || mtu == 0) continue;
    const u32 buffers = host::packet_buffers(facts.mtu);
    const bool filled = driver_fills_one_chunk(static_cast<u32>(i));
    const u32 most = filled ? host::kMostZeroCopyFrame : buffers * XG_FRAME_MAX;
    if (mtu + host::kFrameOverhead <= most) continue;
    output_.problem(fmt::format(
        "the MTU of {} was raised to {}: frames of more than {} bytes fit no {}, and "
        "those that are to be inspected are lost; ip link set {} mtu {} or less, or attach again",
        facts.name, mtu, most,
        buffers == 1 ? fmt::format("{}-byte chunk{}", XG_CHUNK_SIZE, filled ? " in zero-copy" : "")
                     : fmt::format("{} chunks, for which this attach is laid out", buffers),
        facts.name, most - host::kFrameOverhead));
  }
  for (const auto& [to, outer] : policy::outer_mtus(swap_->current()->policy))
    for (std::size_t i = 0; i < mtus_.size(); i++) {
      const auto& name = setup_.plan.ports[i].facts.name;
      if ((!to.empty() && to != name) || mtus_[i] == 0 || mtus_[i] >= outer) continue;
      auto problem = fmt::format(
          "the MTU of {} is {}, and the policy sends packets of up to {} bytes out of it, outer headers "
          "included: those that are longer are lost; ip link set {} mtu {}, or give \"encapsulation\" "
          "\"mtu\": {}",
          name, mtus_[i], outer, name, outer, mtus_[i]);
      if (told_.insert(problem).second) output_.problem(problem);
    }
}

}  // namespace xdpgpu::control
