// SPDX-License-Identifier: MIT
#include "userspace/compiler/programs/elf.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <gelf.h>
#include <libelf.h>

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace xdpgpu::programs {
namespace {

using Error = tl::unexpected<std::string>;

// Of an object with functions; hostile ones have more.
constexpr std::size_t kMostSections = 65'536;

struct Section {
  std::string name;
  Elf64_Shdr header{};
  std::span<const std::byte> bytes;
};

template <class T>
T at(std::span<const std::byte> bytes, std::size_t place) {
  T value{};
  std::memcpy(&value, bytes.data() + place * sizeof(T), sizeof(T));
  return value;
}

// A string of the table; empty where there is none that ends within it.
std::string text(std::span<const std::byte> table, u64 place) {
  if (place >= table.size()) return {};
  const auto* const begin = reinterpret_cast<const char*>(table.data()) + place;
  const std::size_t length = strnlen(begin, table.size() - place);
  return length == table.size() - place ? std::string() : std::string(begin, length);
}

Result<std::vector<Section>> read_sections(Elf* elf, std::span<const std::byte> object) {
  std::size_t names = 0, count = 0;
  if (elf_getshdrstrndx(elf, &names) != 0 || elf_getshdrnum(elf, &count) != 0)
    return Error("has no table of sections");
  if (count > kMostSections) return Error(fmt::format("has {} sections", count));
  std::vector<Section> sections(count);
  u64 zeros = 0, bytes = 0;
  for (std::size_t i = 0; i < count; i++) {
    // By value: what libelf points to may stand anywhere in an object.
    Elf64_Shdr& header = sections[i].header;
    if (gelf_getshdr(elf_getscn(elf, i), &header) == nullptr) return Error("has a section that is not in it");
    if (header.sh_type == SHT_NULL) continue;
    if (header.sh_type == SHT_NOBITS) {
      if (header.sh_size > kMostZeroBytes - zeros)
        return Error(
            fmt::format("has more than {} MiB of zeros (.bss): make them a map", kMostZeroBytes >> 20));
      zeros += header.sh_size;
      continue;
    }
    if (header.sh_offset > object.size() || header.sh_size > object.size() - header.sh_offset)
      return Error("has a section that is not in it");
    // Else each of many could be of all its bytes, and libbpf copies them.
    if (header.sh_size > object.size() - bytes) return Error("has sections that lie in one another");
    bytes += header.sh_size;
    sections[i].bytes = object.subspan(header.sh_offset, header.sh_size);
  }
  if (names >= count) return Error("has sections without names");
  for (Section& section : sections) section.name = text(sections[names].bytes, section.header.sh_name);
  return sections;
}

}  // namespace

Result<ElfObject> read_elf(std::span<const std::byte> object) {
  if (elf_version(EV_CURRENT) == EV_NONE) return Error("cannot be read: libelf is of another version");
  ElfObject read;
  read.bytes.assign(object.begin(), object.end());
  const std::unique_ptr<Elf, int (*)(Elf*)> elf(
      elf_memory(reinterpret_cast<char*>(read.bytes.data()), read.bytes.size()), elf_end);
  Elf64_Ehdr header{};
  if (!elf || elf_kind(elf.get()) != ELF_K_ELF || gelf_getclass(elf.get()) != ELFCLASS64 ||
      gelf_getehdr(elf.get(), &header) == nullptr)
    return Error("is no ELF object of 64 bits");
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) return Error("is for processors of the other byte order");
  if (header.e_machine != EM_BPF)
    return Error(
        fmt::format("is for another machine (number {}), not for BPF: compile it by clang -target bpf",
                    header.e_machine));
  if (header.e_type != ET_REL) return Error("is no object as compilers make them (ET_REL)");
  auto sections = read_sections(elf.get(), object);
  if (!sections) return Error(std::move(sections.error()));

  std::optional<std::size_t> symbols, maps;
  for (std::size_t i = 0; i < sections->size(); i++) {
    const Section& section = (*sections)[i];
    if (section.header.sh_type == SHT_SYMTAB) symbols = i;
    if (section.name == ".maps") maps = i;
    if (section.name == "license") read.license = text(section.bytes, 0);
    if (section.name == ".BTF.ext") read.types_of_code.assign(section.bytes.begin(), section.bytes.end());
  }
  if (!symbols) return Error("has no symbols");
  const Section& table = (*sections)[*symbols];
  if (table.header.sh_link >= sections->size()) return Error("has symbols without names");
  const auto strings = (*sections)[table.header.sh_link].bytes;
  const std::size_t count = table.bytes.size() / sizeof(Elf64_Sym);
  for (std::size_t i = 0; i < count; i++) {
    const auto symbol = at<Elf64_Sym>(table.bytes, i);
    if (symbol.st_shndx == SHN_UNDEF)
      if (std::string name = text(strings, symbol.st_name); !name.empty())
        read.undefined.push_back(std::move(name));
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx >= sections->size()) continue;
    if (symbol.st_size > object.size() || symbol.st_value > object.size())
      return Error("has a function that is not in it");
    read.functions.push_back({text(strings, symbol.st_name), (*sections)[symbol.st_shndx].name,
                              symbol.st_value, symbol.st_value + symbol.st_size});
  }
  for (std::size_t i = 0; maps && i < sections->size(); i++) {
    const Section& section = (*sections)[i];
    if (section.header.sh_type != SHT_REL || section.header.sh_info != *maps) continue;
    for (std::size_t k = 0; k < section.bytes.size() / sizeof(Elf64_Rel); k++) {
      const auto relocation = at<Elf64_Rel>(section.bytes, k);
      const u64 number = ELF64_R_SYM(relocation.r_info);
      if (number >= count) return Error("has a map that begins with a symbol that there is not");
      read.pointers.push_back(
          {relocation.r_offset, text(strings, at<Elf64_Sym>(table.bytes, number).st_name)});
    }
    // A type that libbpf passes over; the table of headers is in the object, as libelf has read it.
    const u64 place = header.e_shoff + i * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_type);
    const Elf64_Word passed_over = SHT_NOTE;
    if (place > read.bytes.size() - sizeof(passed_over)) return Error("has a section that is not in it");
    std::memcpy(read.bytes.data() + place, &passed_over, sizeof(passed_over));
  }
  return read;
}

}  // namespace xdpgpu::programs
