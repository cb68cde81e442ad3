// SPDX-License-Identifier: MIT
#include "userspace/report/web_config.hpp"

#include <crypt.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::report {

using control::Error;
using control::Result;

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytes = 64 * 1024;
constexpr std::size_t kMostUsers = 64;

// secret: nobody but the owner and the group may read it.
Result<std::string> content_of(const std::string& path, bool secret) {
  const auto failed = [&](const char* why) { return Error(fmt::format("cannot read {}: {}", path, why)); };
  const kernel::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) return failed(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return failed("it is no file");
  if (secret && (status.st_mode & S_IRWXO))
    return Error(
        fmt::format("{} can be read by every user of this host; take that away (chmod o= {})", path, path));
  std::string content(kMostBytes + 1, 0);
  std::size_t bytes = 0;
  while (bytes < content.size()) {
    const auto read = ::read(fd.get(), content.data() + bytes, content.size() - bytes);
    if (read < 0) return failed(std::strerror(errno));
    if (read == 0) break;
    bytes += static_cast<std::size_t>(read);
  }
  if (bytes > kMostBytes) return failed("it is longer than 64 KiB");
  content.resize(bytes);
  return content;
}

// By what it becomes as a setting: "*0" and "*1" are crypt's own failures.
bool is_hash(const std::string& text) {
  crypt_data data{};
  const char* const hashed = crypt_r("", text.c_str(), &data);
  return text.size() > 12 && text.front() == '$' && hashed != nullptr && hashed[0] != '*';
}

Result<WebConfig::Tls> read_tls(const Json& json, const std::filesystem::path& folder) {
  WebConfig::Tls tls;
  auto certificate = content_of(folder / json.at("certificate").get<std::string>(), false);
  if (!certificate) return Error(certificate.error());
  auto key = content_of(folder / json.at("key").get<std::string>(), true);
  if (!key) return Error(key.error());
  return WebConfig::Tls{std::move(*certificate), std::move(*key)};
}

}  // namespace

Result<WebConfig> read_web_config(const std::string& path) try {
  const auto text = content_of(path, true);
  if (!text) return Error(text.error());
  const auto wrong = [&](const std::string& what) { return Error(fmt::format("{}: {}", path, what)); };
  const Json json = Json::parse(*text);
  if (!json.is_object()) return wrong("it has to be an object");
  WebConfig config;
  for (const auto& [key, value] : json.items()) {
    if (key == "tls") {
      for (const auto& [name, file] : value.items())
        if (name != "certificate" && name != "key")
          return wrong(fmt::format("/tls has no key \"{}\"; it has \"certificate\" and \"key\"", name));
      auto tls = read_tls(value, std::filesystem::path(path).parent_path());
      if (!tls) return Error(tls.error());
      config.tls = std::move(*tls);
    } else if (key == "users") {
      for (const auto& [name, hash] : value.items()) {
        if (name.empty() || name.find(':') != std::string::npos || config.users.size() == kMostUsers)
          return wrong(fmt::format("/users: \"{}\" is no user's name, or one too many (at most {})", name,
                                   kMostUsers));
        if (!is_hash(hash.get<std::string>()))
          return wrong(fmt::format(
              "/users/{}: it has to be a password's hash as mkpasswd or htpasswd -B makes it", name));
        config.users[name] = hash.get<std::string>();
      }
    } else {
      return wrong(fmt::format("there is no key \"{}\"; there are \"tls\" and \"users\"", key));
    }
  }
  return config;
} catch (const Json::exception& error) {
  // Of what stands there nothing is said: it may be a secret.
  return Error(fmt::format("{}: it is no web configuration (JSON error {}); see \"xdpgpu metrics --help\"",
                           path, error.id));
}

}  // namespace xdpgpu::report
