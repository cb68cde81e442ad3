// SPDX-License-Identifier: MIT
//
// tests/netns/policy_input_test.cpp: a policy that comes from standard input, as operators send one ("-").
#include <fmt/format.h>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;

class PolicyFromInput : public OnOneWire {
 protected:
  // By a shell, as an operator would.
  Outcome shell(const std::string& line) { return run_program(*host_, {"/bin/sh", "-c", line}); }
};

TEST_F(PolicyFromInput, IsAppliedAndAttached) {
  const TemporaryFile closed(policy(R"("default": "drop")")), open(policy(R"("default": "pass")"));
  const std::string name = host_port().ifname(), program = product_path();
  const Outcome attach =
      shell(fmt::format("{} attach {} --policy - --mode copy --device cpu --quiet --daemon < {}", program,
                        name, closed.path()));
  ASSERT_EQ(attach.status, 0) << attach.out << attach.err;
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received, 0U);
  const Outcome apply = shell(fmt::format("{} policy apply {} - < {}", program, name, open.path()));
  EXPECT_EQ(apply.status, 0) << apply.err;
  EXPECT_NE(apply.out.find("(standard input) is in force on " + name), std::string::npos) << apply.out;
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1}).received, 1U);
  EXPECT_EQ(shell(fmt::format("{} policy diff --in-force {} - < {}", program, name, open.path())).status, 0);
  EXPECT_EQ(shell(fmt::format("{} policy diff --in-force {} - < {}", program, name, closed.path())).status,
            1);
  // What is wrong changes nothing.
  const Outcome wrong = shell(fmt::format("echo '{{' | {} policy apply {} -", program, name));
  EXPECT_EQ(wrong.status, 2) << wrong.out;
  EXPECT_NE(wrong.err.find("(standard input):"), std::string::npos) << wrong.err;
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1}).received, 1U);
  EXPECT_EQ(product(*host_, {"detach", name}).status, 0);
}

}  // namespace
}  // namespace xdpgpu::lab
