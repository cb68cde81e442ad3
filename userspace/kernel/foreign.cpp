// SPDX-License-Identifier: MIT
#include "userspace/kernel/foreign.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "userspace/kernel/names.hpp"
#include "userspace/kernel/pins.hpp"
#include "userspace/kernel/xdp_link.hpp"

namespace xdpgpu::kernel {
namespace {

constexpr std::string_view kOurs = "xdpgpu";
constexpr std::string_view kDispatcher = "xdp_dispatcher";

struct Found {
  Fd fd;
  std::string name;
};

Found look_at(u32 id) {
  Found found;
  found.fd = Fd(bpf_prog_get_fd_by_id(id));
  if (!found.fd) return found;
  bpf_prog_info info{};
  u32 size = sizeof(info);
  if (bpf_obj_get_info_by_fd(found.fd.get(), &info, &size) == 0) found.name = info.name;
  return found;
}

bool lives(const Found& program) {
  const Fd state = queue_state_of(program.fd.get());
  return state && has_live_worker(state.get());
}

// libxdp's dispatcher calls its components through freplace programs, which not every kernel allows.
bool can_be_joined(const Found& found) {
  return found.name == kDispatcher && libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, nullptr) == 1;
}

std::string how_to_take_off(const std::string& ifname, int ifindex, u32 id, u32 mode_flag) {
  if (find_xdp_link(ifindex, id)) return "";  // ip cannot, where a link has it
  return fmt::format(", take it off with: ip link set dev {} {} off", ifname,
                     mode_flag == XDP_FLAGS_SKB_MODE ? "xdpgeneric" : "xdp");
}

Result<void> make_room_in(const std::string& ifname, int ifindex, u32 id, u32 mode_flag, bool replace,
                          bool join, Room& room) {
  if (!id) return {};
  Found found = look_at(id);
  if (join && can_be_joined(found)) {
    room.dispatcher = true;
    return {};
  }
  if (found.name == kOurs) {
    if (lives(found))
      return tl::unexpected(
          fmt::format("{} is attached already; run: xdpgpu detach {}", ifname, names::operand(ifname)));
    if (take_off(ifindex, found.fd.get(), id, mode_flag) == 0) return {};
  }
  const std::string program =
      fmt::format("XDP program \"{}\" (id {})", found.name.empty() ? "unknown" : found.name, id);
  if (!replace)
    return tl::unexpected(
        fmt::format("{} has the {}, which is not xdpgpu's and is left alone; stop the program that attached "
                    "it{}, or attach "
                    "with --replace, which takes it off for good",
                    ifname, program, how_to_take_off(ifname, ifindex, id, mode_flag)));
  if (const int error = take_off(ifindex, found.fd.get(), id, mode_flag); error)
    return tl::unexpected(fmt::format("{}: cannot take off the {}: {}; stop the program that attached it",
                                      ifname, program, std::strerror(-error)));
  room.replaced = program;
  room.program = std::move(found.fd);
  room.mode_flag = mode_flag;
  return {};
}

}  // namespace

Result<Room> make_room(const std::string& ifname, int ifindex, bool replace, bool join) {
  bpf_xdp_query_opts query{};
  query.sz = sizeof(query);
  if (const int error = bpf_xdp_query(ifindex, 0, &query); error)
    return tl::unexpected(
        fmt::format("{}: cannot ask for its XDP program: {}", ifname, std::strerror(-error)));
  Room room;
  for (const auto& [id, mode_flag] :
       {std::pair{query.hw_prog_id, XDP_FLAGS_HW_MODE}, std::pair{query.drv_prog_id, XDP_FLAGS_DRV_MODE},
        std::pair{query.skb_prog_id, XDP_FLAGS_SKB_MODE}})
    if (auto ok = make_room_in(ifname, ifindex, id, mode_flag, replace, join, room); !ok) {
      put_back(room, ifindex);
      return tl::unexpected(ok.error());
    }
  return room;
}

void put_back(Room& room, int ifindex) noexcept {
  if (room.program)
    bpf_xdp_attach(ifindex, room.program.get(), room.mode_flag | XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr);
  room.program = Fd();
}

}  // namespace xdpgpu::kernel
