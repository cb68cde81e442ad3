// SPDX-License-Identifier: MIT
#include "tests/stages/program_object.hpp"

asm(R"(
  .section .rodata
  .global xdpgpu_udp_ports_object
  .global xdpgpu_balancer_object
  .global xdpgpu_ports_object
  .global xdpgpu_refused_object
  .global xdpgpu_slots_object
  .global xdpgpu_syns_object
  .global xdpgpu_router_object
  .global xdpgpu_kept_object
  .global xdpgpu_objects_end
xdpgpu_udp_ports_object:
  .incbin ")" XDPGPU_UDP_PORTS R"("
xdpgpu_balancer_object:
  .incbin ")" XDPGPU_BALANCER R"("
xdpgpu_ports_object:
  .incbin ")" XDPGPU_PORTS R"("
xdpgpu_refused_object:
  .incbin ")" XDPGPU_REFUSED R"("
xdpgpu_slots_object:
  .incbin ")" XDPGPU_SLOTS R"("
xdpgpu_syns_object:
  .incbin ")" XDPGPU_SYNS R"("
xdpgpu_router_object:
  .incbin ")" XDPGPU_ROUTER R"("
xdpgpu_kept_object:
  .incbin ")" XDPGPU_KEPT R"("
xdpgpu_objects_end:
  .text
)");
extern "C" const char xdpgpu_udp_ports_object[], xdpgpu_balancer_object[], xdpgpu_ports_object[],
    xdpgpu_refused_object[], xdpgpu_slots_object[], xdpgpu_syns_object[], xdpgpu_router_object[],
    xdpgpu_kept_object[], xdpgpu_objects_end[];

namespace xdpgpu::tests {

std::string udp_ports_object() { return {xdpgpu_udp_ports_object, xdpgpu_balancer_object}; }
std::string balancer_object() { return {xdpgpu_balancer_object, xdpgpu_ports_object}; }
std::string ports_object() { return {xdpgpu_ports_object, xdpgpu_refused_object}; }
std::string refused_object() { return {xdpgpu_refused_object, xdpgpu_slots_object}; }
std::string slots_object() { return {xdpgpu_slots_object, xdpgpu_syns_object}; }
std::string syns_object() { return {xdpgpu_syns_object, xdpgpu_router_object}; }
std::string router_object() { return {xdpgpu_router_object, xdpgpu_kept_object}; }
std::string kept_object() { return {xdpgpu_kept_object, xdpgpu_objects_end}; }

}  // namespace xdpgpu::tests
