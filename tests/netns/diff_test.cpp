// SPDX-License-Identifier: MIT
//
// tests/netns/diff_test.cpp: what applying a file would change on an attach ("policy diff --in-force").
#include <fmt/format.h>

#include <filesystem>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;

std::string beside(const TemporaryFile& file) {
  return std::filesystem::path(file.path()).filename().string();
}

std::string with_lists(const std::string& prefixes, const std::string& names, const std::string& more = "") {
  return policy(
      fmt::format(R"("lists": {{"bad": {{"file": "{}"}}, "ads": {{"type": "domain", "file": "{}"}}}},
    "rules": [{{"name": "bad", "match": {{"src": "@bad"}}, "action": "drop"}},
              {{"name": "dns", "match": {{"proto": "udp", "dst_port": 53}}, "action": {{"inspect": "dns"}}}}],
    "pipelines": {{"dns": [{{"stage": "domains", "lists": [{{"list": "@ads", "action": "drop"}}]}}]}}{})",
                  prefixes, names, more));
}

class DiffInForce : public OnOneWire {
 protected:
  Outcome diff(const std::string& file, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"policy", "diff", "--in-force", host_port().ifname(), file});
    return product(*host_, more);
  }
  Json differences(const std::string& file) {
    const Outcome outcome = diff(file, {"-o", "json"});
    EXPECT_LE(outcome.status, 1) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }
};

TEST_F(DiffInForce, SaysWhatApplyingWouldChange) {
  const TemporaryFile prefixes("192.0.2.0/24\n198.51.100.7\n", ".txt"),
      names("a.example\nb.example\n", ".txt");
  const TemporaryFile file(with_lists(beside(prefixes), beside(names)));
  attached_ = std::make_unique<Attached>(
      *host_, AttachSpec{.interfaces = {host_port().ifname()}, .policy_file = file.path()});
  const Outcome same = diff(file.path());
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_NE(same.out.find("are the same policy"), std::string::npos) << same.out;

  // By what was read then, and not by what the files have in them now.
  prefixes.write("192.0.2.0/24\n198.51.100.8\n");
  names.write("a.example\n");
  const Json lists = differences(file.path());
  EXPECT_FALSE(lists.at("same").get<bool>());
  ASSERT_EQ(lists.at("differences").size(), 2U) << lists;
  for (const auto& one : lists.at("differences")) {
    const bool of_names = one.at("at") == "list \"ads\"";
    EXPECT_EQ(one.at("entries").at("first_removed"), of_names ? Json({"b.example"}) : Json({"198.51.100.7"}));
    EXPECT_EQ(one.at("entries").at("first_added"), of_names ? Json::array() : Json({"198.51.100.8"}));
  }
  ASSERT_EQ(product(*host_, {"policy", "apply", host_port().ifname(), file.path()}).status, 0);
  EXPECT_EQ(diff(file.path()).status, 0);

  // What takes another attach is marked; what is in force by other means is noted.
  const TemporaryFile other(
      with_lists(beside(prefixes), beside(names), R"(, "default": "drop", "io": {"ring_size": 4096})"));
  const Outcome changed = diff(other.path());
  EXPECT_EQ(changed.status, 1) << changed.err;
  for (const char* said : {"~ default: pass -> drop", "~ io: ring_size: 2048 -> 4096",
                           "(taken at attach alone)", "detach and attach again for that"})
    EXPECT_NE(changed.out.find(said), std::string::npos) << said << "\n" << changed.out;
  ASSERT_EQ(product(*host_, {"policy", "apply", host_port().ifname(), other.path(), "--audit"}).status, 0);
  ASSERT_EQ(product(*host_, {"list", "add", host_port().ifname(), "ads", "c.example"}).status, 0);
  const Outcome after = diff(other.path());
  EXPECT_EQ(after.status, 1) << "io stays as it was attached: " << after.out;
  for (const char* said : {"ring_size", "drops nothing (--audit)", "has added 1 name to list \"ads\""})
    EXPECT_NE(after.out.find(said), std::string::npos) << said << "\n" << after.out;
  EXPECT_EQ(after.out.find("default"), std::string::npos) << after.out;

  const TemporaryFile wrong("{}");
  EXPECT_EQ(diff(wrong.path()).status, 2);
  EXPECT_EQ(attached_->detach().status, 0);
  EXPECT_EQ(diff(file.path()).status, 2) << "nothing is attached";
}

// In more than one answer of the control socket, and by a policy that comes from standard input.
TEST_F(DiffInForce, LongListsAreReadInParts) {
  std::string list;
  for (unsigned i = 0; i < 400'000; i++)
    list += fmt::format("10.{}.{}.{}\n", i >> 16, i >> 8 & 0xff, i & 0xff);
  ASSERT_GT(list.size(), std::size_t{4} << 20);
  const TemporaryFile prefixes(list, ".txt"), names("a.example\n", ".txt");
  const TemporaryFile file(with_lists(beside(prefixes), beside(names)));
  attached_ = std::make_unique<Attached>(
      *host_, AttachSpec{.interfaces = {host_port().ifname()}, .policy_file = file.path()});
  EXPECT_EQ(diff(file.path()).status, 0);
  prefixes.write(list + "192.0.2.1\n");
  const Json more = differences(file.path());
  ASSERT_EQ(more.at("differences").size(), 1U);
  EXPECT_EQ(more.at("differences").at(0).at("entries").at("first_added"), Json({"192.0.2.1"}));
  EXPECT_EQ(more.at("differences").at(0).at("entries").at("removed"), 0);
}

}  // namespace
}  // namespace xdpgpu::lab
