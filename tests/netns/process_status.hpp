// SPDX-License-Identifier: MIT
//
// tests/netns/process_status.hpp: what the kernel says of a process or thread, by its folder under /proc.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace xdpgpu::lab {

// The fields of its `status`.
inline std::map<std::string, std::string> status_of(const std::filesystem::path& process) {
  std::map<std::string, std::string> fields;
  std::ifstream file(process / "status");
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(":\t"); colon != std::string::npos)
      fields[line.substr(0, colon)] = line.substr(colon + 2);
  return fields;
}

// It has no capability and can get none, is filtered, and is not root's in any way.
inline void expect_no_privileges(const std::map<std::string, std::string>& status) {
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    EXPECT_EQ(status.at(set), "0000000000000000") << set;
  EXPECT_EQ(status.at("NoNewPrivs"), "1");
  EXPECT_EQ(status.at("Seccomp"), "2");
  for (const char* ids : {"Uid", "Gid", "Groups"}) {
    std::istringstream in(status.at(ids));
    for (unsigned id = 0; in >> id;) EXPECT_NE(id, 0U) << ids;
  }
}

}  // namespace xdpgpu::lab
