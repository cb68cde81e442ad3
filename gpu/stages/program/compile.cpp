// SPDX-License-Identifier: MIT
#include <linux/bpf.h>

#include <algorithm>
#include <cstring>

#include "gpu/program_code.hpp"
#include "gpu/program_counts.hpp"
#include "gpu/program_packets.hpp"
#include "gpu/program_shards.hpp"
#include "gpu/program_state.hpp"
#include "gpu/program_translation.hpp"
#include "gpu/stages/compilers.hpp"
#include "gpu/stages/program/device.h"

namespace xdpgpu::gpu {
namespace {

using programs::Instruction;
using programs::Map;
using programs::Program;

static_assert(XG_PROGRAM_TOO_LONG == XG_PROGRAM_ENDED + static_cast<u32>(ProgramEnd::too_long));
static_assert(XG_PROGRAM_TOO_LARGE == XG_PROGRAM_ENDED + static_cast<u32>(ProgramEnd::too_large));
static_assert(XG_PROGRAM_OUTCOMES <= 1u << XG_PROGRAM_OUTCOME_BITS);
static_assert(XG_PATCH_LINES == XG_PROGRAM_LINES && XG_PATCH_LINE_BYTES == XG_PROGRAM_LINE_WORDS * 4);
static_assert(XG_PATCH_BEFORE == XG_PROGRAM_HEADROOM && XG_PATCH_QUADS * sizeof(xg_quad) == sizeof(xg_patch));
static_assert(XG_EVENT_QUADS * sizeof(xg_quad) == sizeof(xg_event) && XG_PROGRAM_OUTCOME_BITS + 5 == 10);
static_assert(XG_TABLE_OWN + XG_PROGRAM_OUTCOMES <= XG_TABLE_HEAD / 2);

// Of all maps, in the image, which devices copy it from.
constexpr u64 kMostStateWords = kImageMaxWords / 2;

bool calls_helper(const Instruction& i) { return i.opcode == (BPF_JMP | BPF_CALL) && i.source == 0; }

// Of what is to be the same where what is in the maps goes on.
class Hash {
 public:
  explicit Hash(const std::array<u64, 2>& key) : key_(key) {}
  void add(u64 word) { words_.push_back(word); }
  void add(std::span<const u8> bytes) {
    add(bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
      u64 word = 0;
      for (std::size_t i = at; i < std::min(at + 8, bytes.size()); i++) word |= u64{bytes[i]} << (i - at) * 8;
      add(word);
    }
  }
  std::array<u64, 2> value() const { return {half(key_[0], key_[1]), half(key_[1], ~key_[0])}; }

 private:
  u64 half(u64 k0, u64 k1) const {
    XG_SIP_BEGIN(k0, k1);
    for (const u64 word : words_) {
      XG_SIP_WORD(word);
    }
    XG_SIP_END();
    return v0 ^ v1 ^ v2 ^ v3;
  }

  std::array<u64, 2> key_;
  std::vector<u64> words_;
};

std::span<const u8> bytes_of(const std::string& text) {
  return {reinterpret_cast<const u8*>(text.data()), text.size()};
}

std::array<u64, 2> layout_of(const ProgramSettings& stage, bool by_key, const std::array<u64, 2>& key) {
  Hash hash(key);
  hash.add(XG_PROGRAM_STATE_LAYOUT);
  hash.add(u64{by_key});
  for (const Map& map : stage.program->maps) {
    hash.add(bytes_of(map.name));
    for (const u32 number :
         {map.type, map.key_bytes, map.value_bytes, map.entries, map.flags, static_cast<u32>(map.inner)})
      hash.add(number);
    hash.add(map.contents);
  }
  if (stage.contents)
    for (const ProgramMapContents& one : *stage.contents) {
      hash.add(one.map);
      hash.add(one.entries.size());
      for (const auto& [key_bytes, value] : one.entries) {
        hash.add(key_bytes);
        hash.add(value);
      }
    }
  return hash.value();
}

// Into a map of maps another one of the program's maps.
Check put_map(const std::vector<Map>& maps, u32 outer, const std::vector<u8>& key,
              const std::vector<u8>& value, programs::DeviceState& state) {
  u32 index = 0, number = 0;
  std::memcpy(&index, key.data(), sizeof(index));
  std::memcpy(&number, value.data(), sizeof(number));
  const Map& of = maps[outer];
  const Map* const like = of.inner < 0 ? nullptr : &maps[static_cast<u32>(of.inner)];
  if (number >= maps.size() || like == nullptr)
    return refuse("entry {} of the map {} is to be a map that it does not have", index, of.name);
  // As the kernel has it (bpf_map_meta_equal(), array_map_meta_equal()).
  const Map& map = maps[number];
  const bool is_array = map.type == BPF_MAP_TYPE_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_ARRAY;
  if (map.type != like->type || map.key_bytes != like->key_bytes || map.value_bytes != like->value_bytes ||
      map.flags != like->flags || (is_array && map.entries != like->entries))
    return refuse("entry {} of the map {} is to be the map {}, which is not like those that it has", index,
                  of.name, map.name);
  if (!state.put_map(outer, index, number))
    return refuse("the map {} has the indexes 0 to {}, and not {}", of.name, of.entries - 1, index);
  return {};
}

// What user space would have put in before the first packet.
Check fill(const ProgramSettings& stage, programs::Image& image) {
  if (!stage.contents) return {};
  programs::DeviceState state(image.tables, image.state);
  for (const ProgramMapContents& one : *stage.contents) {
    if (one.map >= stage.program->maps.size())
      return refuse("it has contents for a map {}, and its program has {}", one.map,
                    stage.program->maps.size());
    const Map& map = stage.program->maps[one.map];
    for (std::size_t i = 0; i < one.entries.size(); i++) {
      const auto& [key, value] = one.entries[i];
      if (key.size() != map.key_bytes || value.size() != map.value_bytes)
        return refuse(
            "entry {} of what the map {} has at first has {} bytes of key and {} of value: the map has "
            "{} and {}",
            i + 1, map.name, key.size(), value.size(), map.key_bytes, map.value_bytes);
      if (map.type == BPF_MAP_TYPE_ARRAY_OF_MAPS) {
        if (auto put = put_map(stage.program->maps, one.map, key, value, state); !put) return put;
        continue;
      }
      if (const int error = state.update(one.map, key, value); error != 0)
        return refuse(
            "entry {} of what the map {} has at first finds no place there (error {}): the map has {} "
            "entries at most",
            i + 1, map.name, -error, map.entries);
    }
  }
  return {};
}

constexpr std::string_view kEnds[] = {
    "aborted",   "unknown_action", "redirect",       "out_of_bounds",  "read_only",     "unknown_instruction",
    "wrong_map", "outside",        "too_many_steps", "too_many_calls", "writes_packet", "too_much_written",
    "too_large", "too_long"};

}  // namespace

Check check(const ProgramSettings& stage) {
  if (!stage.program)
    return refuse("its object \"{}\" has not been read: name a file that is there", stage.object);
  const Program& program = *stage.program;
  for (const ProgramInterface& one : stage.interfaces)
    if (std::ranges::count(stage.interfaces, one.ifindex, &ProgramInterface::ifindex) > 1)
      return refuse("two of its interfaces have the number {}: give each its own", one.ifindex);
  if (const auto broadcast = programs::broadcast_of(program);
      broadcast && stage.where == ProgramSettings::Where::device)
    return refuse(
        "its program \"{}\" {}, at instruction {}, and a device sends a packet out of one interface: "
        "let it choose one, or run it in the kernel (\"where\")",
        program.name, broadcast->what, broadcast->instruction);
  for (const Program& part : programs::parts_of(program)) {
    const auto redirects = std::ranges::find_if(part.instructions, [](const Instruction& i) {
      return calls_helper(i) && (i.immediate == BPF_FUNC_redirect || i.immediate == BPF_FUNC_redirect_map);
    });
    if (redirects != part.instructions.end() && stage.interfaces.empty() &&
        programs::redirects_to_interfaces(program))
      return refuse(
          "its program \"{}\" redirects packets, at instruction {}, and no interface has a number that it "
          "could redirect to: give \"interfaces\"",
          part.name, redirects - part.instructions.begin());
    if (const auto looks = programs::looks_up_routes(part); looks && stage.interfaces.empty())
      return refuse(
          "its program \"{}\" looks up routes, at instruction {}, and no interface has a number that a route "
          "could lead to: give \"interfaces\"",
          part.name, *looks);
  }
  return {};
}

bool remembers(const ProgramSettings& stage) {
  return stage.program && programs::changes_maps(*stage.program);
}
bool drops(const ProgramSettings&) { return true; }
std::optional<std::string> sends(const ProgramSettings&) { return std::string(); }
// The longest buffer there is.
u32 payload_bytes(const ProgramSettings&) { return XG_CHUNK_SIZE; }

Result<Placed> emit(const ProgramSettings& stage, Compiled& to) {
  const programs::Taken taken = programs::how_taken(*stage.program);
  const bool has_table = taken.how != programs::Taking::side_by_side;
  const bool counts = taken.how == programs::Taking::counting;
  const bool by_key = taken.how == programs::Taking::by_key;
  auto made = programs::image_of(programs::parts_of(*stage.program),
                                 {.queues = 1,
                                  .key = to.hash_key,
                                  .counts = counts || by_key ? &taken.counts : nullptr,
                                  .by_key = by_key});
  if (!made) return refuse("{}", made.error());
  if (made->stack_bytes > XG_PROGRAM_STACK_BYTES)
    return refuse("its functions need {} bytes of stack together: {} are possible", made->stack_bytes,
                  XG_PROGRAM_STACK_BYTES);
  if (made->state.size() > kMostStateWords)
    return refuse("its maps need {} MiB, {} are possible: make them smaller", made->state.size() >> 18,
                  kMostStateWords >> 18);
  if (auto filled = fill(stage, *made); !filled) return tl::unexpected(filled.error());

  std::vector<u32>& image = to.image;
  image.reserve(made->state.size() + made->tables.size() + made->code.size() + XG_PROGRAM_BODY_WORDS);
  const u32 state = to.here();
  image.insert(image.end(), made->state.begin(), made->state.end());
  const u32 tables = to.here();
  image.insert(image.end(), made->tables.begin(), made->tables.end());
  const u32 code = to.here();
  image.insert(image.end(), made->code.begin(), made->code.end());

  const u32 at =
      append_stateful({.entries = XG_WAYS, .evict = TableSettings::Evict::refuse}, to.hash_key, image);
  for (const u64 half : layout_of(stage, by_key, to.hash_key)) append64(image, half);
  image.insert(image.end(), {state, has_table ? static_cast<u32>(made->state.size()) : 0, code, tables, state,
                             stage.steps, counts ? XG_PROGRAM_COUNTS_AHEAD : 0u});
  append64(image, programs::name_of(made->code, made->tables));
  image.push_back(0);  // XG_PROGRAM_BODY_LINES: the pipeline's to say
  image.push_back(0);
  image.push_back(programs::output_of(*stage.program) ? 1 : 0);
  image.push_back(0);  // XG_PROGRAM_BODY_ROUTES: the policy's to say
  u32 bits = by_key ? 32 : 0;
  for (const u32 map : taken.keyed) bits = std::min(bits, programs::shards_of(stage.program->maps[map]).bits);
  image.push_back(bits);
  to.point_here(at + XG_PROGRAM_BODY_INTERFACES);
  image.push_back(static_cast<u32>(stage.interfaces.size()));
  for (const ProgramInterface& one : stage.interfaces) image.insert(image.end(), {one.ifindex, one.port});
  to.points(at + XG_BODY_FIRST);
  to.points(at + XG_PROGRAM_BODY_CODE, 3);
  return Placed{.body = at, .entries = has_table ? XG_WAYS : 0, .own = at + XG_BODY_FIRST};
}

std::span<const Outcome> outcomes(const ProgramSettings&) {
  static const std::vector<Outcome> all = [] {
    std::vector<Outcome> made{{"passed", XG_PROGRAM_PASSED},
                              {"dropped", XG_PROGRAM_DROPPED},
                              {"sent", XG_PROGRAM_SENT},
                              {"redirected", XG_PROGRAM_FORWARDED},
                              {"changed_passed", XG_PROGRAM_CHANGED_PASSED},
                              {"changed_sent", XG_PROGRAM_CHANGED_SENT},
                              {"changed_redirected", XG_PROGRAM_CHANGED_FORWARDED}};
    for (u32 i = 0; i < std::size(kEnds); i++) made.push_back({kEnds[i], XG_PROGRAM_ENDED + i});
    return made;
  }();
  return all;
}

std::string describe(const ProgramSettings&, u32 rule, const xg_result*) {
  if (rule < XG_PROGRAM_ENDED || rule - XG_PROGRAM_ENDED >= std::size(kEnds)) return {};
  return fmt::format(" {}", kEnds[rule - XG_PROGRAM_ENDED]);
}

std::vector<std::string> notes(const ProgramSettings& stage, const StagePlace& place) {
  std::vector<std::string> all;
  if (!stage.program) return all;
  if (const auto output = programs::too_long_output_of(*stage.program))
    all.push_back(
        fmt::format("program{} {}, at instruction {}, and a packet's event has {} at most: it is answered as "
                    "if there were no room",
                    place.where(), output->what, output->instruction, XG_EVENT_BYTES));
  if (!remembers(stage)) return all;
  const programs::Taken taken = programs::how_taken(*stage.program);
  if (taken.how == programs::Taking::in_order)
    all.push_back(
        fmt::format("program{} changes its maps, so that its packets are taken one after the other, of all "
                    "interfaces and queues ({}): let only rules lead to the pipeline that need it",
                    place.where(), taken.why));
  return all;
}

}  // namespace xdpgpu::gpu
