// SPDX-License-Identifier: MIT
#include "userspace/compiler/programs/layouts.hpp"

#include <bpf/btf.h>
#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace xdpgpu::programs {
namespace {

using Error = tl::unexpected<std::string>;
using Types = std::unique_ptr<btf, void (*)(btf*)>;

// What an object says of its code: <linux/btf.h>, and libbpf's struct btf_ext_header.
constexpr u16 kMagic = 0xeb9f;
struct Header {
  u16 magic;
  u8 version, flags;
  u32 header_bytes, function_offset, function_bytes, line_offset, line_bytes, layout_offset, layout_bytes;
};
struct SectionHeader {
  u32 name, count;
};
// struct bpf_core_relo, whose kind may be any number in a stranger's object.
struct Relocation {
  u32 instruction, type, path, kind;
};
static_assert(sizeof(Relocation) == sizeof(bpf_core_relo));

// Types within types, typedefs of typedefs: of any object that means something there are fewer.
constexpr int kDeepest = 32;

const btf_type* without_names(const btf* types, u32 id) {
  for (int depth = 0; depth < kDeepest; depth++) {
    const btf_type* const type = btf__type_by_id(types, id);
    if (type == nullptr || !(btf_is_mod(type) || btf_is_typedef(type))) return type;
    id = type->type;
  }
  return nullptr;
}

// Where a member is, in bits, how many bytes its type has, and how many bits it has itself, if that says so.
struct Place {
  u64 bits = 0;
  std::int64_t bytes = 0;
  u32 bitfield = 0;
  bool operator==(const Place&) const = default;
};

// Whether the kernel's structure has a member of the name, also in one without a name; then goes there.
bool go_to_member(const btf* types, const btf_type* of, std::string_view name, Place& place, u32& type,
                  int depth = 0) {
  if (depth > kDeepest || of == nullptr || !btf_is_composite(of)) return false;
  const btf_member* const members = btf_members(of);
  for (u32 i = 0; i < btf_vlen(of); i++) {
    const char* const its = btf__name_by_offset(types, members[i].name_off);
    Place there = place;
    there.bits += btf_member_bit_offset(of, i);
    there.bitfield = btf_member_bitfield_size(of, i);
    if (its != nullptr && *its != '\0') {
      if (its != name) continue;
      place = there;
      type = members[i].type;
      return true;
    }
    if (go_to_member(types, without_names(types, members[i].type), name, there, type, depth + 1)) {
      place = there;
      return true;
    }
  }
  return false;
}

// A path such as "0:1:2": the place of what it leads to in the object's type, and in the kernel's by the
// members' names. Nothing: it leads nowhere.
struct Found {
  std::optional<Place> ours, kernels;
  std::string name;  // of what it leads to
};
Found follow(const btf* ours, u32 id, std::string_view path, const btf* kernels, std::string_view name) {
  std::vector<u32> steps;
  const char* at = path.data();
  const char* const end = path.data() + path.size();
  while (at < end && steps.size() < kDeepest) {
    u32 step = 0;
    const auto [rest, error] = std::from_chars(at, end, step);
    if (error != std::errc()) return {};
    steps.push_back(step);
    at = rest < end && *rest == ':' ? rest + 1 : rest == end ? end : nullptr;
    if (at == nullptr) return {};
  }
  if (at < end || steps.empty() || steps[0] != 0) return {};
  const std::int32_t kernel_id = btf__find_by_name_kind(kernels, std::string(name).c_str(), BTF_KIND_STRUCT);
  u32 our_type = id, kernel_type = kernel_id > 0 ? static_cast<u32>(kernel_id) : 0;
  bool in_kernel = kernel_id > 0;
  Place our, kernel;
  Found found;
  for (std::size_t i = 1; i < steps.size(); i++) {
    const btf_type* const type = without_names(ours, our_type);
    if (type == nullptr) return {};
    if (btf_is_array(type)) {
      const btf_type* const other = in_kernel ? without_names(kernels, kernel_type) : nullptr;
      in_kernel = other != nullptr && btf_is_array(other) && steps[i] < btf_array(other)->nelems;
      our_type = btf_array(type)->type;
      our.bits +=
          u64{steps[i]} * 8 * static_cast<u64>(std::max<std::int64_t>(btf__resolve_size(ours, our_type), 0));
      if (!in_kernel) continue;
      kernel_type = btf_array(other)->type;
      kernel.bits += u64{steps[i]} * 8 *
                     static_cast<u64>(std::max<std::int64_t>(btf__resolve_size(kernels, kernel_type), 0));
      continue;
    }
    if (!btf_is_composite(type) || steps[i] >= btf_vlen(type)) return {};
    const btf_member& member = btf_members(type)[steps[i]];
    our.bits += btf_member_bit_offset(type, steps[i]);
    our.bitfield = btf_member_bitfield_size(type, steps[i]);
    our_type = member.type;
    const char* const called = btf__name_by_offset(ours, member.name_off);
    // One without a name is looked through by the next name.
    if (called == nullptr || *called == '\0') continue;
    found.name = called;
    // From here on, what has been added for ones without names is counted in `our` alone: the sum is
    // compared.
    in_kernel =
        in_kernel && go_to_member(kernels, without_names(kernels, kernel_type), called, kernel, kernel_type);
  }
  our.bytes = btf__resolve_size(ours, our_type);
  found.ours = our;
  if (!in_kernel) return found;
  kernel.bytes = btf__resolve_size(kernels, kernel_type);
  found.kernels = kernel;
  return found;
}

// "iphdr" of "iphdr___mine".
std::string_view in_the_kernel(std::string_view name) { return name.substr(0, name.find("___")); }

class Layouts {
 public:
  Layouts(const ElfObject& object, const btf* types, const ElfObject::Function& function,
          const KernelTypes& kernel_types)
      : object_(object), types_(types), function_(function), kernel_types_(kernel_types) {}

  Result<void> check() {
    const auto damaged = [] { return Error("has types of its code (.BTF.ext) that are not whole"); };
    std::span<const std::byte> bytes = object_.types_of_code;
    Header header{};
    if (bytes.size() < 24) return bytes.empty() ? Result<void>() : damaged();
    std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof(header)));
    if (header.magic != kMagic || header.version != 1) return damaged();
    if (header.header_bytes < sizeof(header)) return {};  // as compilers had it that knew of none
    if (header.header_bytes > bytes.size()) return damaged();
    bytes = bytes.subspan(header.header_bytes);
    if (header.layout_offset > bytes.size() || header.layout_bytes > bytes.size() - header.layout_offset)
      return damaged();
    bytes = bytes.subspan(header.layout_offset, header.layout_bytes);
    if (bytes.empty()) return {};
    u32 record = 0;
    if (bytes.size() < sizeof(record)) return damaged();
    std::memcpy(&record, bytes.data(), sizeof(record));
    bytes = bytes.subspan(sizeof(record));
    if (record < sizeof(Relocation) || record > 4096) return damaged();
    while (!bytes.empty()) {
      SectionHeader section{};
      if (bytes.size() < sizeof(section)) return damaged();
      std::memcpy(&section, bytes.data(), sizeof(section));
      bytes = bytes.subspan(sizeof(section));
      if (section.count > bytes.size() / record) return damaged();
      const char* const name = types_ != nullptr ? btf__name_by_offset(types_, section.name) : nullptr;
      for (u32 i = 0; i < section.count; i++) {
        Relocation one{};
        std::memcpy(&one, bytes.data() + std::size_t{i} * record, sizeof(one));
        if (auto right = check(one, name != nullptr ? name : ""); !right) return right;
      }
      bytes = bytes.subspan(std::size_t{section.count} * record);
    }
    return {};
  }

 private:
  Result<void> check(const Relocation& one, std::string_view section) {
    const bool own =
        section == function_.section && one.instruction >= function_.begin && one.instruction < function_.end;
    if (!own && section != ".text") return {};
    const btf_type* const type = types_ != nullptr ? btf__type_by_id(types_, one.type) : nullptr;
    const char* const name = type != nullptr ? btf__name_by_offset(types_, type->name_off) : nullptr;
    const char* const path = types_ != nullptr ? btf__name_by_offset(types_, one.path) : nullptr;
    if (name == nullptr || path == nullptr)
      return Error("has types of its code (.BTF.ext) that are not whole");
    if (one.kind != BPF_CORE_FIELD_BYTE_OFFSET && one.kind != BPF_CORE_FIELD_BYTE_SIZE)
      return Error(
          fmt::format("asks what {} is like in the running kernel (CO-RE, kind {}), which only a kernel that "
                      "it is loaded "
                      "into can say: compile it for what it is to run on",
                      name, one.kind));
    if (!kernel_) {
      const auto bytes = kernel_types_ ? kernel_types_() : std::vector<std::byte>();
      kernel_ =
          Types(bytes.empty() ? nullptr : btf__new(bytes.data(), static_cast<u32>(bytes.size())), btf__free);
    }
    if (*kernel_ == nullptr)
      return Error(fmt::format(
          "wants to be fitted to the running kernel's {} (CO-RE), and this kernel does not tell its "
          "types (/sys/kernel/btf/vmlinux): compile it without preserve_access_index",
          name));
    const Found found = follow(types_, one.type, path, kernel_->get(), in_the_kernel(name));
    if (!found.ours || !found.kernels || *found.ours != *found.kernels)
      return Error(fmt::format(
          "wants to be fitted to the running kernel's {} (CO-RE), which has its member {} elsewhere "
          "or not at all: compile it for this kernel",
          name, found.name.empty() ? path : found.name));
    return {};
  }

  const ElfObject& object_;
  const btf* types_;
  const ElfObject::Function& function_;
  const KernelTypes& kernel_types_;
  std::optional<Types> kernel_;
};

}  // namespace

Result<void> check_layouts(const ElfObject& object, const btf* types, const std::string& section,
                           const std::string& function, const KernelTypes& kernel_types) {
  // Another section may have a function of the same name (static ones do).
  const auto found = std::find_if(object.functions.begin(), object.functions.end(), [&](const auto& one) {
    return one.name == function && one.section == section;
  });
  if (found == object.functions.end()) return Error("has no symbol for its program");
  return Layouts(object, types, *found, kernel_types).check();
}

}  // namespace xdpgpu::programs
