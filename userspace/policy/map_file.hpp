// SPDX-License-Identifier: MIT
//
// userspace/policy/map_file.hpp: what a map of a program has at first, as a file of JSON: an array of entries
// as "bpftool map dump -j" prints them,
//
//   [{"key": ["0x35","0x00","0x00","0x00"], "value": ["0x01"]}, ...]
//
// A key or value is an array of its bytes, each "0x" and its digits or a number; or, of 1, 2, 4 or 8 bytes, a
// number as this host's programs have it; or, of a key, an address ("192.0.2.1" of 4 bytes, "2001:db8::1" of
// 16) and of a trie a prefix ("192.0.2.0/24" of 8 bytes, IPv6 of 20). Of a map of each CPU, which is one
// here, an entry may have "values" in the place of "value", [{"cpu": 0, "value": ...}, ...], which are all
// the same. "formatted", which bpftool adds, is not looked at.
//
// Of a devmap a value is an interface's number, as the policy's stage gives it ("interfaces"). Of an array of
// maps it is the name of one of the program's maps, or an array of entries: a map of its own, which has these
// at first.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/program_source.hpp"
#include "gpu/programs.hpp"
#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

using MapEntries = std::vector<std::pair<std::vector<u8>, std::vector<u8>>>;

// Why no file says what it has at first, behind its name; empty: one may. Of maps within their bounds
// (userspace/compiler/programs/check.hpp).
std::string why_no_contents(const gpu::programs::Map& map);

// What a map of the program has at first is put behind `contents`. A map that is only in another one becomes
// one of the program's, behind all others, as does what it has. Reports what is wrong under `file`; named_at
// is the place in the policy that names it. No key is there twice, and there are no more entries than the map
// has room for.
void read_map_file(Report& report, std::string_view text, const std::string& file, const Place& named_at,
                   u32 map, gpu::programs::Program& program, std::vector<gpu::ProgramMapContents>& contents);

}  // namespace xdpgpu::policy
