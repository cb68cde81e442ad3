// SPDX-License-Identifier: MIT
//
// userspace/report/passwords.hpp: HTTP's basic authentication (RFC 7617) by crypt(5)'s hashes.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace xdpgpu::report {

// One thread. A hash takes long by intent, so what was right is remembered (as a keyed digest), and of what
// is not known only so much is looked at.
class Passwords {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Passwords(std::map<std::string, std::string> hashes);

  enum class Answer { admitted, refused, ask_later };
  // authorization: the header's value; empty: there is none.
  Answer ask(std::string_view authorization, Clock::time_point now);

  static constexpr int kLooksASecond = 4;

 private:
  using Digest = std::array<unsigned char, 32>;
  Digest digest(std::string_view text) const;
  bool is_right(const std::string& user, const std::string& password) const;
  std::map<std::string, std::string> hashes_;
  std::string nobody_;  // what an unknown user's password is compared with, so that it takes as long
  std::array<unsigned char, 32> key_{};
  std::set<Digest> right_;
  Clock::time_point second_{};
  int looks_ = 0;
};

}  // namespace xdpgpu::report
