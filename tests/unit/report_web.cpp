// SPDX-License-Identifier: MIT
//
// Who may read metrics, and where: places, passwords, names.
#include <crypt.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "userspace/report/http_server.hpp"
#include "userspace/report/listeners.hpp"
#include "userspace/report/passwords.hpp"
#include "userspace/report/web_config.hpp"

namespace xdpgpu::report {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

// Of "secret": bcrypt with the least work.
std::string hash_of(const char* password) {
  crypt_data data{};
  return crypt_r(password, "$2b$04$abcdefghijklmnopqrstuu", &data);
}
std::string basic(const char* encoded) { return std::string("Basic ") + encoded; }
constexpr const char* kRight = "cHJvbTpzZWNyZXQ=";  // prom:secret
constexpr const char* kWrong = "cHJvbTp3cm9uZw==";  // prom:wrong
constexpr const char* kOther = "b3RoZXI6c2VjcmV0";  // other:secret

TEST(ReportPlaces, AreAddressesAndPaths) {
  const auto local = parse_place("127.0.0.1:9478");
  ASSERT_TRUE(local);
  EXPECT_EQ(std::tuple(local->address, local->port, local->loopback), std::tuple("127.0.0.1", 9478, true));
  EXPECT_TRUE(parse_place("[::1]:80")->loopback);
  EXPECT_FALSE(parse_place("0.0.0.0:80")->loopback);
  EXPECT_FALSE(parse_place("[::]:80")->loopback);
  EXPECT_EQ(parse_place("unix:/run/x.sock")->path, "/run/x.sock");
  for (const char* wrong :
       {"", ":", "80", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:80x", "::1:80",
        "[127.0.0.1]:80", "localhost:80", "unix:", "unix:x.sock", "[]:80", "[:80"})
    EXPECT_FALSE(parse_place(wrong)) << wrong;
}

TEST(ReportNames, OfThisHostAreAddressesAndLocalhost) {
  for (const char* own :
       {"localhost", "LOCALHOST:9478", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80", "192.0.2.1:1"})
    EXPECT_TRUE(is_own_name(own)) << own;
  for (const char* other :
       {"", "evil.test", "localhost.evil.test:80", "127.0.0.1.evil.test", "[::1", "127.0.0.1evil"})
    EXPECT_FALSE(is_own_name(other)) << other;
}

TEST(ReportPasswords, AreAsked) {
  Passwords passwords({{"prom", hash_of("secret")}});
  const auto now = Passwords::Clock::now();
  using Answer = Passwords::Answer;
  for (const std::string& none : {std::string(), std::string("Bearer x"), basic(""), basic("!"),
                                  basic("cHJvbQ=="), std::string("Basic")})
    EXPECT_EQ(passwords.ask(none, now), Answer::refused) << none;
  EXPECT_EQ(passwords.ask(basic(kWrong), now), Answer::refused);
  EXPECT_EQ(passwords.ask(basic(kOther), now), Answer::refused);
  EXPECT_EQ(passwords.ask(std::string("bAsIc ") + kRight, now), Answer::admitted);
}

TEST(ReportPasswords, GuessesAreFewAndWhoIsKnownComesIn) {
  Passwords passwords({{"prom", hash_of("secret")}});
  const auto now = Passwords::Clock::now();
  using Answer = Passwords::Answer;
  EXPECT_EQ(passwords.ask(basic(kRight), now), Answer::admitted);
  for (int i = 1; i < Passwords::kLooksASecond; ++i)
    EXPECT_EQ(passwords.ask(basic(kWrong), now), Answer::refused);
  EXPECT_EQ(passwords.ask(basic(kWrong), now), Answer::ask_later);
  EXPECT_EQ(passwords.ask(basic(kRight), now), Answer::admitted);
  EXPECT_EQ(passwords.ask(basic(kWrong), now + 1s), Answer::refused);
}

class ReportWebConfig : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("xdpgpu-web-{}", getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const auto path = folder_ / name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  std::string error_of(const std::string& text, mode_t mode = 0600) const {
    const auto config = read_web_config(write("web.json", text, mode));
    return config ? "" : config.error();
  }
  std::filesystem::path folder_;
};

TEST_F(ReportWebConfig, IsRead) {
  write("a.crt", "CERTIFICATE", 0644);
  write("a.key", "KEY");
  const auto config = read_web_config(
      write("web.json",
            fmt::format(R"({{"tls": {{"certificate": "a.crt", "key": "a.key"}}, "users": {{"prom": "{}"}}}})",
                        hash_of("secret"))));
  ASSERT_TRUE(config) << config.error();
  EXPECT_EQ(config->tls->certificate, "CERTIFICATE");
  EXPECT_EQ(config->tls->key, "KEY");
  EXPECT_EQ(config->users.at("prom"), hash_of("secret"));
}

TEST_F(ReportWebConfig, WhatIsWrongIsSaidWithoutWhatStandsThere) {
  EXPECT_THAT(error_of("{}", 0644), HasSubstr("can be read by every user"));
  EXPECT_THAT(error_of(R"({"user": {}})"), HasSubstr("no key \"user\""));
  EXPECT_THAT(error_of(R"({"users": {"a": "plain secret"}})"), HasSubstr("/users/a"));
  EXPECT_THAT(error_of(R"({"users": {"a": "plain secret"}})"), Not(HasSubstr("secret")));
  EXPECT_THAT(error_of(R"({"users": {"a:b": "x"}})"), HasSubstr("is no user's name"));
  EXPECT_THAT(error_of(R"({"users": {"a": 5}})"), HasSubstr("no web configuration"));
  EXPECT_THAT(error_of(R"({"users": {"a": "$2b)"), Not(HasSubstr("$2b")));
  EXPECT_THAT(error_of(R"({"tls": {"certificate": "x"}})"), HasSubstr("cannot read"));
  EXPECT_THAT(error_of(R"({"tls": {"cert": "x"}})"), HasSubstr("no key \"cert\""));
  EXPECT_THAT(error_of("[]"), HasSubstr("has to be an object"));
  write("a.crt", "x");
  write("open.key", "x", 0644);
  EXPECT_THAT(error_of(R"({"tls": {"certificate": "a.crt", "key": "open.key"}})"),
              HasSubstr("can be read by every user"));
  EXPECT_FALSE(read_web_config(folder_ / "none.json"));
  EXPECT_FALSE(read_web_config(folder_));
}

}  // namespace
}  // namespace xdpgpu::report
