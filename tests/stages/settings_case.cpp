// SPDX-License-Identifier: MIT
#include "tests/stages/settings_case.hpp"

namespace xdpgpu::tests {

SettingsValues each(const std::string& pointer, const std::vector<std::string>& values) {
  SettingsValues all;
  all.reserve(values.size());
  for (const auto& value : values) all.push_back({pointer, value});
  return all;
}

SettingsValues together(std::initializer_list<SettingsValues> parts) {
  SettingsValues all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const std::vector<std::string> kDecisions{R"("pass")", R"("drop")"};
const std::vector<std::string> kStageDefaults{R"("next")", R"("drop")", R"("pass")"};
const std::vector<std::string> kEvict{R"("fifo")", R"("lru")", R"("lfu")", R"("random")", R"("refuse")"};
const std::vector<std::string> kCache{"true", "false", R"("1ms")", R"("60s")"};

SettingsValues address_values(const std::string& at) {
  return together(
      {each(at + "/src", {R"("192.0.2.1")", R"("192.0.2.0/24")", R"(["192.0.2.1", "2001:db8::/32"])"}),
       each(at + "/dst", {R"("198.51.100.0/24")", R"(["198.51.100.1", "198.51.100.2"])"})});
}
SettingsValues protocol_values(const std::string& at) {
  return together(
      {each(at + "/proto", {R"("icmp")", R"("igmp")", R"("gre")", R"("esp")", R"("ah")", R"("icmpv6")",
                            R"("ospf")", "103", R"(["tcp", "udp", "sctp"])", R"(["udp", 103])"}),
       SettingsValues{{at + "/proto", "6", R"("tcp")"}}});
}
SettingsValues port_values(const std::string& at) {
  SettingsValues all;
  for (const char* key : {"/src_port", "/dst_port"})
    all = together({all, each(at + key, {"53", R"("8000-8099")", R"([80, "8000-8099"])"}),
                    SettingsValues{{at + key, R"("443")", "443"}}});
  return all;
}
SettingsValues vlan_values(const std::string& at) {
  return together({each(at + "/vlan", {"7", R"("none")", R"("priority")", R"([7, 8])", R"(["none", 7])",
                                       R"("100-199")", R"(["priority", 7, "100-199", "300-4094"])"}),
                   SettingsValues{{at + "/vlan", R"("7")", "7"}}});
}
SettingsValues flag_values(const std::string& at) {
  return each(at + "/tcp_flags", {R"("syn,!ack")", R"("fin,psh,urg")", R"("!rst,ece,cwr")"});
}

}  // namespace xdpgpu::tests
