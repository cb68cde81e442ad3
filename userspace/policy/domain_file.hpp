// SPDX-License-Identifier: MIT
//
// userspace/policy/domain_file.hpp: names of domains, from a policy or from a file: one name a line, as
// gpu/domain_names.hpp has them but in letters of either case and with or without a dot at the end, or a line
// of a hosts file, an address and names; '#' or ';' begins a comment, also behind a name; blank lines count
// for nothing. A name that is not ASCII is UTF-8, and is taken in the ASCII form that IDNA 2008 has for it
// (RFC 5891), mapped as Unicode's TR46 says, non-transitional: "Bücher.example" is "xn--bcher-kva.example".
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

class DomainReader {
 public:
  // subdomains: a plain name stands for all beneath it, too. most: names; it reads no more than one behind.
  DomainReader(Report& report, bool subdomains, u64 most)
      : report_(report), subdomains_(subdomains), most_(most) {}

  // A name in the policy.
  void read(const Place& place);
  // Reports bad lines under `file`. named_at is the place in the policy that names the file.
  void read_file(std::string_view text, const std::string& file, const Place& named_at);

  gpu::DomainNames take();

  // One name, by itself: its line. The error is half a sentence.
  static tl::expected<std::string, std::string> line_of(std::string_view name, bool subdomains);

 private:
  // Appends it; else half a sentence says what is wrong with it, or "" where that is not wanted.
  std::optional<std::string> add(std::string_view entry);
  // name: in ASCII; entry: as it is written.
  std::optional<std::string> add_ascii(std::string_view name, std::string_view before,
                                       std::string_view entry);
  std::optional<std::string> add_line(std::string_view line);

  Report& report_;
  const bool subdomains_;
  const u64 most_;
  std::string text_;
  u64 count_ = 0;
};

}  // namespace xdpgpu::policy
