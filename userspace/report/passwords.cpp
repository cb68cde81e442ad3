// SPDX-License-Identifier: MIT
#include "userspace/report/passwords.hpp"

#include <crypt.h>
#include <sodium.h>

#include <cctype>
#include <optional>
#include <stdexcept>

namespace xdpgpu::report {
namespace {

constexpr std::size_t kMostBytes = 512;      // of user and password, encoded
constexpr std::size_t kMostRemembered = 64;  // users times the passwords that were right once

std::optional<std::string> decoded(std::string_view text) {
  if (text.size() > kMostBytes) return std::nullopt;
  std::string out(text.size(), 0);
  std::size_t length = 0;
  const char* end = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), text.data(), text.size(),
                        "", &length, &end, sodium_base64_VARIANT_ORIGINAL) != 0 ||
      end != text.data() + text.size())
    return std::nullopt;
  out.resize(length);
  return out;
}

bool begins_with_basic(std::string_view text) {
  constexpr std::string_view kScheme = "basic ";
  if (text.size() < kScheme.size()) return false;
  for (std::size_t i = 0; i < kScheme.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(text[i])) != kScheme[i]) return false;
  return true;
}

}  // namespace

Passwords::Passwords(std::map<std::string, std::string> hashes) : hashes_(std::move(hashes)) {
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot be started");
  randombytes_buf(key_.data(), key_.size());
  if (!hashes_.empty()) nobody_ = hashes_.begin()->second;
}

Passwords::Digest Passwords::digest(std::string_view text) const {
  Digest out{};
  crypto_generichash(out.data(), out.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     key_.data(), key_.size());
  return out;
}

bool Passwords::is_right(const std::string& user, const std::string& password) const {
  const auto found = hashes_.find(user);
  const std::string& hash = found != hashes_.end() ? found->second : nobody_;
  crypt_data data{};
  const char* const hashed = crypt_r(password.c_str(), hash.c_str(), &data);
  // A password with a zero in it would be compared up to there.
  return found != hashes_.end() && hashed != nullptr && password.find('\0') == std::string::npos &&
         digest(hashed) == digest(hash);
}

Passwords::Answer Passwords::ask(std::string_view authorization, Clock::time_point now) {
  if (!begins_with_basic(authorization)) return Answer::refused;
  const auto given = decoded(authorization.substr(6));
  const auto colon = given ? given->find(':') : std::string::npos;
  if (colon == std::string::npos) return Answer::refused;
  const Digest known = digest(*given);
  if (right_.contains(known)) return Answer::admitted;
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    looks_ = 0;
  }
  if (looks_ == kLooksASecond) return Answer::ask_later;
  ++looks_;
  if (!is_right(given->substr(0, colon), given->substr(colon + 1))) return Answer::refused;
  if (right_.size() == kMostRemembered) right_.clear();
  right_.insert(known);
  return Answer::admitted;
}

}  // namespace xdpgpu::report
