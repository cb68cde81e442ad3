// SPDX-License-Identifier: MIT
#include "tests/kernel/programs/object.hpp"

#include <bpf/libbpf.h>

#include <memory>
#include <stdexcept>

namespace xdpgpu::test {

Object read_object(const std::string& path) {
  const std::unique_ptr<bpf_object, void (*)(bpf_object*)> object(bpf_object__open(path.c_str()),
                                                                  bpf_object__close);
  if (object == nullptr) throw std::runtime_error(path + " cannot be read");
  Object made;
  std::vector<int> descriptors;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object.get()) bpf_map__set_pin_path(map, nullptr);
  if (bpf_object__load(object.get()) != 0) throw std::runtime_error(path + " cannot be loaded");
  bpf_object__for_each_map(map, object.get()) {
    if (bpf_map__fd(map) < 0) continue;
    descriptors.push_back(bpf_map__fd(map));
    made.maps.push_back(map_of(bpf_map__name(map), bpf_map__type(map), bpf_map__key_size(map),
                               bpf_map__value_size(map), bpf_map__max_entries(map), bpf_map__map_flags(map)));
    std::size_t bytes = 0;
    const auto* contents = static_cast<const u8*>(bpf_map__initial_value(map, &bytes));
    if (contents != nullptr) {
      made.maps.back().contents.assign(contents, contents + bytes);
      made.maps.back().flags &= ~u32{BPF_F_MMAPABLE};
    }
  }
  const bpf_program* program = bpf_object__next_program(object.get(), nullptr);
  const bpf_insn* instructions = bpf_program__insns(program);
  for (std::size_t at = 0; at < bpf_program__insn_cnt(program); ++at) {
    const bpf_insn& one = instructions[at];
    Instruction i = test::made(one.code, one.dst_reg, one.src_reg, one.off, one.imm);
    if (i.opcode == (BPF_LD | BPF_IMM | BPF_DW) &&
        (i.source == BPF_PSEUDO_MAP_FD || i.source == BPF_PSEUDO_MAP_VALUE)) {
      const auto found = std::ranges::find(descriptors, i.immediate);
      if (found == descriptors.end()) throw std::runtime_error(path + " names a map that it has not");
      i.source = i.source == BPF_PSEUDO_MAP_FD ? BPF_PSEUDO_MAP_IDX : BPF_PSEUDO_MAP_IDX_VALUE;
      i.immediate = static_cast<std::int32_t>(found - descriptors.begin());
    }
    made.code.push_back(i);
  }
  return made;
}

}  // namespace xdpgpu::test
