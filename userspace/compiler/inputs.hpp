// SPDX-License-Identifier: MIT
//
// userspace/compiler/inputs.hpp: the hashes by which artifacts are found: of all that they are made of, and
// of the version of this program's compiler.
#pragma once

#include <sodium.h>

#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "userspace/compiler/artifacts.hpp"

namespace xdpgpu::compiler {

// To be counted up where the same inputs come to be compiled into something else.
inline constexpr u32 kCompilerVersion = 2;

class InputHash {
 public:
  // kind: of the artifact.
  explicit InputHash(std::string_view kind);
  // With its length, so that moving bytes from one text to the next changes the hash.
  void add(std::string_view text);
  void add(const ArtifactId& id) { bytes(id.data(), id.size()); }
  template <class T>
  void value(const T& value) {
    static_assert(std::has_unique_object_representations_v<T>, "a value with bytes that say nothing");
    bytes(&value, sizeof(value));
  }
  template <class T>
  void array(const std::vector<T>& values) {
    static_assert(std::has_unique_object_representations_v<T>, "a value with bytes that say nothing");
    value(u64{values.size()});
    bytes(values.data(), values.size() * sizeof(T));
  }
  ArtifactId id();

 private:
  void bytes(const void* data, std::size_t size);
  crypto_generichash_state state_;
};

ArtifactId id_of(const std::vector<policy::Prefix>& prefixes);
ArtifactId id_of(const gpu::DomainNames& names);
ArtifactId id_of(const RouteTable& routes);
// Its lists and routes count by their ids: lists by name, routes in the order in which the stage has them.
// inner: of a pipeline that goes by what is inside of tunnels.
ArtifactId id_of(const gpu::StageSettings& stage, const Target& target,
                 const std::map<std::string, ArtifactId>& lists, std::span<const ArtifactId> routes,
                 bool inner);
// Of the XDP program's tables.
ArtifactId id_of_tables(const policy::Policy& policy, const std::map<std::string, ArtifactId>& lists,
                        std::span<const std::string> ports);

}  // namespace xdpgpu::compiler
