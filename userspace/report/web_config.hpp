// SPDX-License-Identifier: MIT
//
// userspace/report/web_config.hpp: who may read metrics over a network, and by which certificate:
//
//   { "tls": { "certificate": "metrics.crt", "key": "metrics.key" },
//     "users": { "prometheus": "$2b$10$..." } }
//
// Users' passwords stand as crypt(5) hashes them: mkpasswd, htpasswd -B. Files are beside this one, or
// absolute.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "userspace/control/result.hpp"

namespace xdpgpu::report {

struct WebConfig {
  struct Tls {
    std::string certificate, key;  // PEM, the files' contents
  };
  std::optional<Tls> tls;
  std::map<std::string, std::string> users;  // hashes by name
};

// The error is a sentence: the file cannot be read, others than its owner and group can read it, a key is
// unknown, a hash is none of crypt(5)'s, a file is missing.
control::Result<WebConfig> read_web_config(const std::string& path);

}  // namespace xdpgpu::report
