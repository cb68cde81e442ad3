// SPDX-License-Identifier: MIT
#include "userspace/policy/map_file.hpp"

#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <set>

#include "userspace/compiler/programs/check.hpp"
#include "userspace/policy/document.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

using gpu::programs::Map;
using Bytes = std::vector<u8>;

bool is_per_cpu(const Map& map) {
  return map.type == BPF_MAP_TYPE_PERCPU_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_HASH;
}
bool is_of_maps(const Map& map) { return map.type == BPF_MAP_TYPE_ARRAY_OF_MAPS; }
bool is_of_devices(const Map& map) {
  return map.type == BPF_MAP_TYPE_DEVMAP || map.type == BPF_MAP_TYPE_DEVMAP_HASH;
}
bool is_array(const Map& map) {
  return map.type == BPF_MAP_TYPE_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_ARRAY ||
         map.type == BPF_MAP_TYPE_DEVMAP || map.type == BPF_MAP_TYPE_CPUMAP || is_of_maps(map);
}
bool is_trie(const Map& map) { return map.type == BPF_MAP_TYPE_LPM_TRIE; }

u32 number_in(const Bytes& bytes) {
  u32 number = 0;
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof(number)));
  return number;
}

std::string counted_bytes(u64 count) { return fmt::format("{} byte{}", count, count == 1 ? "" : "s"); }

const Node* find(const Object& object, std::string_view key) {
  for (const Member& one : object)
    if (one.key == key) return &one.value;
  return nullptr;
}

// As this host's programs have it.
template <class T>
Bytes native(T number) {
  Bytes bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

std::optional<Bytes> number_bytes(u64 number, u64 count) {
  if (count < 8 && number >> count * 8 != 0) return std::nullopt;
  switch (count) {
    case 1:
      return native(static_cast<u8>(number));
    case 2:
      return native(static_cast<u16>(number));
    case 4:
      return native(static_cast<u32>(number));
    case 8:
      return native(number);
    default:
      return std::nullopt;
  }
}

std::optional<u8> byte_of(const Node& node) {
  if (const auto* const number = node.as<u64>())
    return *number <= 255 ? std::optional(static_cast<u8>(*number)) : std::nullopt;
  const auto* const text = node.as<std::string>();
  if (text == nullptr || text->size() < 3 || text->size() > 4 || !text->starts_with("0x"))
    return std::nullopt;
  u8 byte = 0;
  const auto [end, error] = std::from_chars(text->data() + 2, text->data() + text->size(), byte, 16);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return byte;
}

class MapFileReader {
 public:
  MapFileReader(Report& report, std::string_view text, const std::string& file, const Place& named_at,
                const Map& map)
      : report_(report), text_(text), file_(file), named_at_(named_at), map_(map) {}

  // inner: of the node of a map of maps' value, which map's number it is.
  using Inner = std::function<std::optional<u32>(u32 index, const Node& node)>;
  MapEntries read(const Node& node, const Inner& inner) {
    inner_ = &inner;
    const auto* const items = node.as<Array>();
    if (items == nullptr) {
      at(node, fmt::format("must be an array of entries, as \"bpftool map dump -j\" prints them, is {}",
                           node.type_name()));
      return {};
    }
    // Nobody would look at each of them.
    if (items->size() > map_.entries) {
      at(node, fmt::format("the map {} has room for {} entr{}, here are {}", map_.name, map_.entries,
                           map_.entries == 1 ? "y" : "ies", items->size()));
      return {};
    }
    MapEntries entries;
    entries.reserve(items->size());
    for (const Node& one : *items) {
      if (report_.exhausted()) break;
      if (auto read = entry(one)) entries.push_back(std::move(*read));
    }
    return entries;
  }
  void at(u64 offset, std::string message) {
    if (report_.full()) return report_.skip();
    const auto [line, column] = locate(text_, offset);
    report_.in_list(file_, named_at_, line, column, std::move(message));
  }
  void at(const Node& node, std::string message) { at(node.offset, std::move(message)); }

 private:
  std::optional<std::pair<Bytes, Bytes>> entry(const Node& node) {
    const auto* const members = node.as<Object>();
    if (members == nullptr) {
      at(node, fmt::format("an entry must be {{\"key\": ..., \"value\": ...}}, is {}", node.type_name()));
      return std::nullopt;
    }
    for (const Member& one : *members)
      if (one.key != "key" && one.key != "value" && one.key != "formatted" &&
          (one.key != "values" || !is_per_cpu(map_))) {
        at(one.key_offset,
           fmt::format("an entry has no \"{}\": it has \"key\" and \"value\"{}", one.key.substr(0, 80),
                       one.key == "values" ? ", for the map is not one of each CPU" : ""));
        return std::nullopt;
      }
    const Node* const key = find(*members, "key");
    const Node* const value = find(*members, "value");
    const Node* const values = find(*members, "values");
    if (key == nullptr || (value == nullptr) == (values == nullptr)) {
      at(node, "an entry needs \"key\" and one \"value\"");
      return std::nullopt;
    }
    auto key_bytes = this->key(*key);
    auto value_bytes = values != nullptr ? same(*values) : this->value(*value, key_bytes);
    if (!key_bytes || !value_bytes) return std::nullopt;
    if (!keys_.insert(told_apart_by(*key_bytes)).second) {
      at(*key, "this key is in the file twice");
      return std::nullopt;
    }
    return std::pair(std::move(*key_bytes), std::move(*value_bytes));
  }

  std::optional<Bytes> value(const Node& node, const std::optional<Bytes>& key) {
    if (is_of_maps(map_)) {
      const auto number = key ? (*inner_)(number_in(*key), node) : std::nullopt;
      return number ? std::optional(native(*number)) : std::nullopt;
    }
    auto bytes = this->bytes(node, "a value", map_.value_bytes);
    // Four bytes more would be a program's, which the kernel runs there.
    const bool is_interface = bytes && number_in(*bytes) != 0 &&
                              (bytes->size() < 8 || number_in({bytes->begin() + 4, bytes->end()}) == 0);
    if (bytes && is_of_devices(map_) && !is_interface) {
      at(node, fmt::format("a value of the map {} is an interface's number, from 1 on, and nothing more",
                           map_.name));
      return std::nullopt;
    }
    return bytes;
  }

  // What of a prefix counts.
  Bytes told_apart_by(Bytes key) const {
    if (!is_trie(map_)) return key;
    const u32 length = number_in(key);
    for (std::size_t i = 4; i < key.size(); i++) {
      const std::size_t before = (i - 4) * 8;
      if (before >= length)
        key[i] = 0;
      else if (length - before < 8)
        key[i] &= static_cast<u8>(0xff00u >> (length - before));
    }
    return key;
  }

  std::optional<Bytes> key(const Node& node) {
    std::optional<Bytes> key;
    if (const auto* const text = node.as<std::string>())
      key = address(node, *text);
    else
      key = bytes(node, "a key", map_.key_bytes);
    if (!key) return std::nullopt;
    if (is_array(map_) && number_in(*key) >= map_.entries) {
      at(node, fmt::format("the map {} has the indexes 0 to {}, and not {}", map_.name, map_.entries - 1,
                           number_in(*key)));
      return std::nullopt;
    }
    if (const u32 most = is_trie(map_) ? (map_.key_bytes - 4) * 8 : ~u32{0};
        is_trie(map_) && number_in(*key) > most) {
      at(node,
         fmt::format(
             "a prefix of the map {} has {} bits at most, and not {}: its first four bytes are how many",
             map_.name, most, number_in(*key)));
      return std::nullopt;
    }
    return key;
  }

  std::optional<Bytes> address(const Node& node, const std::string& text) {
    const u32 of_length = is_trie(map_) ? 4 : 0;
    const u32 bytes = map_.key_bytes - of_length;
    const auto prefix = text.size() <= 64 ? read_prefix(text) : tl::unexpected(std::string("it is too long"));
    const auto refuse = [&](const std::string& why) {
      at(node, why);
      return std::nullopt;
    };
    if (!prefix)
      return refuse(fmt::format("a key as text is an address{}: {}; or write its {}",
                                is_trie(map_) ? " or a prefix" : "", prefix.error(),
                                counted_bytes(map_.key_bytes)));
    if (bytes != (prefix->family == 4 ? 4u : 16u))
      return refuse(fmt::format("keys of the map {} are of {}, which no IPv{} {} is", map_.name,
                                counted_bytes(map_.key_bytes), prefix->family,
                                is_trie(map_) ? "prefix" : "address"));
    if (!is_trie(map_) && prefix->length != bytes * 8)
      return refuse(fmt::format("keys of the map {} are single addresses, and this is a prefix", map_.name));
    Bytes key = is_trie(map_) ? native(u32{prefix->length}) : Bytes();
    key.insert(key.end(), prefix->address, prefix->address + bytes);
    return key;
  }

  // what: with its article.
  std::optional<Bytes> bytes(const Node& node, const char* what, u64 count) {
    const bool has_numbers = count == 1 || count == 2 || count == 4 || count == 8;
    if (const auto* const items = node.as<Array>()) {
      if (items->size() != count) {
        at(node, fmt::format("{} of the map {} is of {}, here are {}", what, map_.name, counted_bytes(count),
                             items->size()));
        return std::nullopt;
      }
      Bytes bytes;
      bytes.reserve(count);
      for (const Node& one : *items) {
        const auto byte = byte_of(one);
        if (!byte) {
          at(one, "a byte is \"0x00\" to \"0xff\", or a number from 0 to 255");
          return std::nullopt;
        }
        bytes.push_back(*byte);
      }
      return bytes;
    }
    std::optional<Bytes> bytes;
    const auto* const number = node.as<u64>();
    const auto* const below_zero = node.as<i64>();
    if (has_numbers && number != nullptr) bytes = number_bytes(*number, count);
    if (has_numbers && below_zero != nullptr && (count == 8 || *below_zero >= -(i64{1} << (count * 8 - 1))))
      bytes = number_bytes(static_cast<u64>(*below_zero) & (~u64{0} >> (64 - count * 8)), count);
    if (bytes) return bytes;
    if (number != nullptr || below_zero != nullptr)
      at(node, has_numbers
                   ? fmt::format("{} of the map {} is of {}: this number does not fit", what, map_.name,
                                 counted_bytes(count))
                   : fmt::format("{} of the map {} is of {}, which no number has: write an array of them",
                                 what, map_.name, counted_bytes(count)));
    else
      at(node, fmt::format("{} of the map {} is an array of {}{}, not {}", what, map_.name,
                           counted_bytes(count), has_numbers ? ", or a number" : "", node.type_name()));
    return std::nullopt;
  }

  // Of each CPU.
  std::optional<Bytes> same(const Node& node) {
    const auto* const items = node.as<Array>();
    std::optional<Bytes> first;
    for (std::size_t i = 0; items != nullptr && i < items->size(); i++) {
      const auto* const members = (*items)[i].as<Object>();
      const Node* const value = members != nullptr ? find(*members, "value") : nullptr;
      if (value == nullptr) {
        at((*items)[i], "a value of a CPU is {\"cpu\": 0, \"value\": ...}");
        return std::nullopt;
      }
      auto bytes = this->bytes(*value, "a value", map_.value_bytes);
      if (!bytes) return std::nullopt;
      if (first && *first != *bytes) {
        at(*value, fmt::format("the values of each CPU are not the same, and the map {} has one for all "
                               "here: write \"value\"",
                               map_.name));
        return std::nullopt;
      }
      first = std::move(bytes);
    }
    if (!first) at(node, "\"values\" is an array of one {\"cpu\": 0, \"value\": ...} of each CPU");
    return first;
  }

  Report& report_;
  const std::string_view text_;
  const std::string& file_;
  const Place& named_at_;
  const Map& map_;
  std::set<Bytes> keys_;
  const Inner* inner_ = nullptr;
};

// A file's entries, and the maps that are only in it.
class ProgramMapReader {
 public:
  ProgramMapReader(Report& report, std::string_view text, const std::string& file, const Place& named_at,
                   gpu::programs::Program& program, std::vector<gpu::ProgramMapContents>& contents)
      : report_(report),
        text_(text),
        file_(file),
        named_at_(named_at),
        program_(program),
        contents_(contents) {}

  void read(u32 number) {
    const auto document = read_document(text_);
    if (document) return read(number, *document);
    for (const SyntaxError& error : document.error()) {
      const auto [line, column] = locate(text_, error.offset);
      report_.in_list(file_, named_at_, line, column, error.message);
    }
  }

 private:
  void read(u32 number, const Node& node) {
    const Map map = program_.maps[number];
    MapFileReader reader(report_, text_, file_, named_at_, map);
    auto entries = reader.read(node, [&](u32 index, const Node& value) -> std::optional<u32> {
      if (const auto* const name = value.as<std::string>()) return named(map, *name, value, reader);
      if (value.as<Array>() != nullptr) return made(map, index, value, reader);
      reader.at(value, fmt::format("a value of the map {} is the name of a map of the program's, or an array "
                                   "of entries that a map of its own has, not {}",
                                   map.name, value.type_name()));
      return std::nullopt;
    });
    contents_.push_back({number, std::move(entries)});
  }
  std::optional<u32> named(const Map& outer, const std::string& name, const Node& node,
                           MapFileReader& reader) {
    const auto found = std::ranges::find(program_.maps, name, &Map::name);
    if (found != program_.maps.end()) return static_cast<u32>(found - program_.maps.begin());
    reader.at(node, fmt::format("the program {} names no map {}: entries of {} are maps that it names, or "
                                "arrays of what maps of their own have",
                                program_.name, name.substr(0, 80), outer.name));
    return std::nullopt;
  }
  std::optional<u32> made(const Map& outer, u32 index, const Node& node, MapFileReader& reader) {
    if (outer.inner < 0 || program_.maps.size() >= programs::kMostMaps) {
      reader.at(node, fmt::format("the program {} has {} maps with those in others, as many as there may be",
                                  program_.name, program_.maps.size()));
      return std::nullopt;
    }
    Map map = program_.maps[static_cast<u32>(outer.inner)];
    map.name = fmt::format("{}[{}]", outer.name, index);
    const u32 number = static_cast<u32>(program_.maps.size());
    program_.maps.push_back(std::move(map));
    read(number, node);
    return number;
  }

  Report& report_;
  const std::string_view text_;
  const std::string& file_;
  const Place& named_at_;
  gpu::programs::Program& program_;
  std::vector<gpu::ProgramMapContents>& contents_;
};

}  // namespace

std::string why_no_contents(const Map& map) {
  if (map.constant)
    return "is one of constants: they are the object's, as the kernel has verified it with them";
  switch (map.type) {
    case BPF_MAP_TYPE_ARRAY:
    case BPF_MAP_TYPE_PERCPU_ARRAY:
    case BPF_MAP_TYPE_HASH:
    case BPF_MAP_TYPE_PERCPU_HASH:
    case BPF_MAP_TYPE_LRU_HASH:
    case BPF_MAP_TYPE_DEVMAP:
    case BPF_MAP_TYPE_DEVMAP_HASH:
    case BPF_MAP_TYPE_CPUMAP:
    case BPF_MAP_TYPE_ARRAY_OF_MAPS:
      break;
    case BPF_MAP_TYPE_PROG_ARRAY:
      return "is an array of programs, and has no file: give \"programs\"";
    case BPF_MAP_TYPE_XSKMAP:
      return "is one of AF_XDP sockets, which a program has none of here: it stays empty";
    case BPF_MAP_TYPE_LPM_TRIE:
      if (map.key_bytes > 4) break;
      [[fallthrough]];
    default:
      return "is none that begins with what is in a file: arrays, hashes, tries, devmaps, cpumaps and arrays "
             "of maps "
             "do";
  }
  return map.key_bytes == 0 || map.value_bytes == 0 || (is_array(map) && map.key_bytes != 4)
             ? "has keys and values as maps of its type do not have them"
             : "";
}

void read_map_file(Report& report, std::string_view text, const std::string& file, const Place& named_at,
                   u32 map, gpu::programs::Program& program, std::vector<gpu::ProgramMapContents>& contents) {
  ProgramMapReader(report, text, file, named_at, program, contents).read(map);
}

}  // namespace xdpgpu::policy
