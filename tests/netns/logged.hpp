// SPDX-License-Identifier: MIT
//
// tests/netns/logged.hpp: tests of what a policy's log says, with a folder for the policy's file and its
// outputs: those are opened of the file that attach is given.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {

class LoggedOnTheWire : public OnTheWire {
 protected:
  void SetUp() override {
    OnTheWire::SetUp();
    std::string name = "/tmp/xdpgpu-logged-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    OnTheWire::TearDown();
    std::filesystem::remove_all(folder_);
  }

  const std::string& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string content(const std::string& name) const {
    std::ifstream stream(path(name));
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // By policy.json.
  void attach_by_file() {
    attached_ = std::make_unique<Attached>(*host_, AttachSpec{.interfaces = {host_port().ifname()},
                                                              .generic = generic(),
                                                              .queues = queues(),
                                                              .policy_file = path("policy.json")});
  }

  // But for a line that is being written.
  static std::string whole(const std::string& text) { return text.substr(0, text.rfind('\n') + 1); }
  // Of text that ends with a line's end.
  static std::vector<Json> lines_of(const std::string& text) {
    std::vector<Json> all;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      EXPECT_NE(end, std::string::npos) << "a line that is not whole: " << text.substr(at);
      if (end == std::string::npos) break;
      Json line = Json::parse(text.substr(at, end - at), nullptr, false);
      EXPECT_TRUE(line.is_object()) << text.substr(at, end - at);
      all.push_back(std::move(line));
      at = end + 1;
    }
    return all;
  }
  // Of eve.json, those of that type that are whole.
  std::vector<Json> told(const std::string& type) const {
    std::vector<Json> all = lines_of(whole(content("eve.json")));
    std::erase_if(all, [&](const Json& line) { return line.value("event_type", "") != type; });
    return all;
  }

 private:
  std::string folder_;
};

}  // namespace xdpgpu::lab
