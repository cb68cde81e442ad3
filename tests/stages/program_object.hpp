// SPDX-License-Identifier: MIT
//
// tests/stages/program_object.hpp: objects as the build has compiled them, so that tests of policies that
// name one have it wherever they run.
#pragma once

#include <string>

namespace xdpgpu::tests {

std::string udp_ports_object();  // of config/examples/program/udp_ports.bpf.c
std::string balancer_object();   // of config/examples/balancer/balancer.bpf.c
std::string ports_object();      // of tests/unit/objects/ports.bpf.c: it redirects
std::string refused_object();    // of tests/unit/objects/refused.bpf.c: the kernel does not take it
std::string slots_object();      // of tests/unit/objects/slots.bpf.c: it goes on with others
std::string syns_object();       // of tests/unit/objects/syns.bpf.c: it puts events out
std::string router_object();     // of tests/unit/objects/router.bpf.c: it looks up routes
std::string kept_object();       // of tests/unit/objects/kept.bpf.c: maps of each kind that is kept in step

}  // namespace xdpgpu::tests
