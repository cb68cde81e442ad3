// SPDX-License-Identifier: MIT
//
// Not every device runs programs: what they answer is program_test.cpp's to see.
#include "tests/stages/list.hpp"
#include "tests/stages/program_object.hpp"

namespace xdpgpu::tests {
namespace {

SettingsCase settings() {
  return {"Program",
          R"({"version": 1, "rules": [{"match": {"dst_port": 7}, "action": {"inspect": "k"}},
                                      {"action": {"inspect": "p"}}], "pipelines": {
                "k": [{"stage": "program", "object": "udp_ports.o", "section": "xdp", "where": "kernel"}], "p": [
                {"stage": "program", "description": "what", "object": "udp_ports.o", "section": "xdp",
                 "maps": {"ports": {"file": "ports.json"}}, "steps": 512,
                 "interfaces": [{"interface": "IF1", "ifindex": 3}]}],
                "others": [{"stage": "program", "object": "slots.o", "section": "first",
                            "maps": {"next": {"programs": [{"index": 2, "program": "table"}]}}}]}})",
          together({each("/pipelines/p/0/section", {"\"drop_udp_ports\""}),
                    each("/pipelines/p/0/maps", {R"({"ports": {"file": "dumped.json"}})",
                                                 R"({"ports": {"file": "ports.json", "wins": "kernel"}})"}),
                    {{"/pipelines/p/0/maps", R"({"ports": {"file": "ports.json", "wins": "device"}})",
                      R"({"ports": {"file": "ports.json"}})"}},
                    each("/pipelines/p/0/interfaces", {R"([{"interface": "IF1", "ifindex": 2147483647}])"}),
                    each("/pipelines/k/0/where", {"\"device\""}),
                    each("/pipelines/p/0/steps", {"64", "65536"}),
                    each("/pipelines/others/0/maps/next/programs",
                         {R"([{"index": 3, "program": "last"}, {"index": 0, "program": "first"}])"})})};
}

}  // namespace

StageTests program_tests() {
  return {.settings = {settings()},
          .files = {{"udp_ports.o", udp_ports_object()},
                    {"slots.o", slots_object()},
                    {"ports.json", R"([{"key": 53, "value": 1}])"},
                    {"dumped.json", R"([{"key":["0x35","0x00"],"value":["0x01"]}])"}}};
}

}  // namespace xdpgpu::tests
