// SPDX-License-Identifier: MIT
//
// bench/reputation/attached.hpp: a policy of millions of prefixes applied to an attach that is asked for its
// status all the while, in a namespace of its own.
#pragma once

#include <optional>
#include <string>

#include "tests/netns/product.hpp"

namespace xdpgpu::bench {

class AttachedApply {
 public:
  // Throws lab::Error where it cannot be: without root, say.
  AttachedApply();

  struct Outcome {
    double seconds = 0;         // from the command's start to its end
    double longest_status = 0;  // seconds that one of the answers took meanwhile
    unsigned answers = 0;
    std::string problem;  // empty: it was applied, and each question was answered
  };
  Outcome apply(const std::string& policy_file);

 private:
  lab::Namespace host_, peer_;
  lab::Veth wire_;
  std::optional<lab::Attached> attached_;
};

}  // namespace xdpgpu::bench
