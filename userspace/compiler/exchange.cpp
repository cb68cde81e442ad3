// SPDX-License-Identifier: MIT
#include "userspace/compiler/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "userspace/compiler/rest_exchange.hpp"

namespace xdpgpu::compiler {
namespace {

// What memory begins with.
constexpr u64 kOrder = 0x7867'7063'0000'0001, kMade = 0x7867'7063'0000'0002, kRefused = 0x7867'7063'0000'0003;
constexpr u64 kCodeOrder = 0x7867'7063'0000'0004, kCode = 0x7867'7063'0000'0005;
constexpr u64 kTranslationOrder = 0x7867'7063'0000'0006;

tl::unexpected<std::string> damaged() {
  return tl::unexpected(std::string("what it handed over is not whole"));
}

void write_texts(MemoryWriter& to, const std::vector<std::string>& texts) {
  to.value(u64{texts.size()});
  for (const auto& text : texts) to.text(text);
}
std::vector<std::string> read_texts(MemoryReader& from) {
  std::vector<std::string> texts;
  each(from, [&] { texts.emplace_back(from.text()); });
  return texts;
}

void write_ids(MemoryWriter& to, const std::vector<std::vector<ArtifactId>>& ids) {
  to.value(u64{ids.size()});
  for (const auto& some : ids) to.array(some);
}
std::vector<std::vector<ArtifactId>> read_ids(MemoryReader& from) {
  std::vector<std::vector<ArtifactId>> ids;
  each(from, [&] { ids.push_back(from.array<ArtifactId>()); });
  return ids;
}

bool can_be_ordered(const gpu::programs::Decoded& program) {
  return program.code.size() <= 4 * kMostTranslatedInstructions &&
         program.tables.size() <= kMostTranslatedTableWords;
}

// ---- artifacts ---------------------------------------------------------------------------------------

void write(MemoryWriter& to, const std::vector<policy::Prefix>& prefixes) { to.array(prefixes); }
void write(MemoryWriter& to, const RouteTable& table) {
  to.array(table.routes);
  to.value(u64{table.sources.size()});
  for (const auto& source : table.sources) {
    to.text(source.file);
    to.value(source.count);
  }
}
void write(MemoryWriter& to, const policy::Tables& tables) {
  to.value(tables.header);
  to.array(tables.lines);
  to.array(tables.rows);
  write_texts(to, tables.rule_names);
}
void write(MemoryWriter& to, const gpu::StageCode& code) {
  to.value(code.placed);
  to.value(code.payload);
  to.value(u32{code.needs_rewrites});
  to.array(code.words);
  to.array(code.pointers);
  to.array(code.rewrite_words);
  to.array(code.rewrites);
  write_texts(to, code.backends);
  to.value(u64{code.heads.size()});
  for (const gpu::RuleHead& head : code.heads) {
    for (const u32 number : {head.gid, head.sid, head.rev, head.priority}) to.value(number);
    to.text(head.msg);
    to.text(head.category);
    for (const u32 number : {static_cast<u32>(head.limit.type), static_cast<u32>(head.limit.track),
                             head.limit.count, head.limit.seconds})
      to.value(number);
    to.value(head.cost);
    for (const u32 number : {u32{head.noalert}, static_cast<u32>(head.action), u32{head.late}})
      to.value(number);
    to.value(u64{head.bits.size()});
    for (const gpu::RuleBits& bits : head.bits) {
      for (const u32 number : {static_cast<u32>(bits.what), static_cast<u32>(bits.on), bits.seconds})
        to.value(number);
      to.array(bits.names);
    }
    write_rest(to, head.rest);
  }
  to.value(u64{code.suppressed.size()});
  for (const gpu::Suppression& one : code.suppressed) {
    for (const u32 number : {one.gid, one.sid, static_cast<u32>(one.whose)}) to.value(number);
    to.array(one.addresses.v4);
    to.array(one.addresses.v6);
  }
  write_texts(to, code.notes);
}

// A prefix that is one: no device or table is made of it, but it is compared and shown.
bool is_prefix(const policy::Prefix& prefix) {
  return (prefix.family == 4 && prefix.length <= 32) || (prefix.family == 6 && prefix.length <= 128);
}

// What is said of rules can be looked up. What the rest leads to is looked up with care (policy::classify).
bool is_whole(const policy::Tables& tables) {
  const xg_policy& header = tables.header;
  return header.rule_count <= XG_MAX_RULES && header.management_count <= header.rule_count &&
         tables.rule_names.size() == header.rule_count &&
         (header.rule_count == 0 ||
          u64{header.rules_line} + (header.rule_count + 1) / 2 <= tables.lines.size());
}

Result<Artifact> read_prefixes(MemoryReader& from) {
  auto prefixes = from.array<policy::Prefix>();
  for (const auto& prefix : prefixes)
    if (!is_prefix(prefix)) return damaged();
  return Artifact(std::make_shared<const std::vector<policy::Prefix>>(std::move(prefixes)));
}
Result<Artifact> read_routes(MemoryReader& from) {
  RouteTable table;
  table.routes = from.array<gpu::Route>();
  each(from, [&] {
    auto& source = table.sources.emplace_back();
    source.file = from.text();
    source.count = from.value<u32>();
  });
  return Artifact(std::make_shared<const RouteTable>(std::move(table)));
}
Result<Artifact> read_tables(MemoryReader& from) {
  policy::Tables tables;
  tables.header = from.value<xg_policy>();
  tables.lines = from.array<xg_line>();
  tables.rows = from.array<xg_class_row>();
  tables.rule_names = read_texts(from);
  if (!is_whole(tables)) return damaged();
  return Artifact(std::make_shared<const policy::Tables>(std::move(tables)));
}
Result<Artifact> read_code(MemoryReader& from) {
  gpu::StageCode code;
  std::optional<std::string> wrong;
  u64 expression_bytes = 0;
  code.placed = from.value<gpu::Placed>();
  code.payload = from.value<u32>();
  code.needs_rewrites = from.value<u32>() != 0;
  code.words = from.array<u32>();
  code.pointers = from.array<gpu::CodeRange>();
  code.rewrite_words = from.array<gpu::RewriteWord>();
  code.rewrites = from.array<xg_rewrite>();
  code.backends = read_texts(from);
  each(from, [&] {
    if (wrong) return;
    gpu::RuleHead& head = code.heads.emplace_back();
    for (u32* const number : {&head.gid, &head.sid, &head.rev, &head.priority}) *number = from.value<u32>();
    head.msg = from.text();
    head.category = from.text();
    gpu::AlertLimit& limit = head.limit;
    limit.type = one_of(from, gpu::AlertLimit::Type::detection_filter);
    limit.track = one_of(from, gpu::AlertLimit::Track::by_rule);
    for (u32* const number : {&limit.count, &limit.seconds}) *number = from.value<u32>();
    head.cost = from.value<double>();
    head.noalert = from.value<u32>() != 0;
    head.action = one_of(from, gpu::signatures::Action::reject_both);
    head.late = from.value<u32>() != 0;
    each(from, [&] {
      gpu::RuleBits& bits = head.bits.emplace_back();
      bits.what = one_of(from, gpu::RuleBits::What::toggle);
      bits.on = one_of(from, gpu::RuleBits::On::pair);
      bits.seconds = from.value<u32>();
      bits.names = from.array<u64>();
    });
    if (auto rest = read_rest(from, expression_bytes))
      head.rest = *std::move(rest);
    else
      wrong = std::move(rest.error());
  });
  if (wrong) return tl::unexpected(*std::move(wrong));
  each(from, [&] {
    gpu::Suppression& one = code.suppressed.emplace_back();
    for (u32* const number : {&one.gid, &one.sid}) *number = from.value<u32>();
    one.whose = one_of(from, gpu::Suppression::Whose::either);
    using Ranges = gpu::signatures::Ranges<gpu::signatures::Address>;
    for (Ranges* const ranges : {&one.addresses.v4, &one.addresses.v6})
      *ranges = from.array<Ranges::value_type>();
  });
  code.notes = read_texts(from);
  return Artifact(std::make_shared<const gpu::StageCode>(std::move(code)));
}

Result<Artifact> read_artifact(MemoryReader& from) {
  switch (from.value<u32>()) {
    case 0:
      return read_prefixes(from);
    case 1:
      return read_routes(from);
    case 2:
      return read_tables(from);
    case 3:
      return read_code(from);
    default:
      return damaged();
  }
}

}  // namespace

// ---- orders ------------------------------------------------------------------------------------------

Result<kernel::Fd> write_order(const PolicySource& source, const Target& target, const Artifacts& has) {
  MemoryWriter to("xdpgpu-order");
  to.value(kOrder);
  to.text(source.file);
  to.text(source.text);
  to.value(u64{source.files.size()});
  for (const auto& [name, content] : source.files) {
    to.text(name);
    to.text(content);
  }
  write_texts(to, target.ports);
  to.value(u64{target.down.size()});
  for (const auto& one : target.down) {
    to.value(one.address);
    to.value(one.health);
  }
  to.value(target.hash_key);
  to.value(u64{has.size()});
  for (const auto& [id, artifact] : has) to.value(id);
  return to.seal();
}

Result<Order> read_order(const SealedMemory& memory) {
  MemoryReader from(memory.bytes());
  if (from.value<u64>() != kOrder) return damaged();
  Order order;
  order.source.file = from.text();
  order.source.text = from.text();
  each(from, [&] {
    std::string name(from.text());
    order.source.files.emplace(std::move(name), from.text());
  });
  order.target.ports = read_texts(from);
  each(from, [&] {
    HealthTarget one;
    one.address = from.value<gpu::Prefix>();
    one.health = from.value<gpu::HealthSettings>();
    order.target.down.insert(one);
  });
  order.target.hash_key = from.value<std::array<u64, 2>>();
  each(from, [&] { order.has.insert(from.value<ArtifactId>()); });
  if (!from.ok() || !from.at_end()) return damaged();
  return order;
}

// ---- answers -----------------------------------------------------------------------------------------

Result<kernel::Fd> write_answer(const Made& made, const std::set<ArtifactId>& had) {
  MemoryWriter to("xdpgpu-artifacts");
  to.value(kMade);
  const Recipe& recipe = made.recipe;
  to.value(recipe.tables);
  to.value(u64{recipe.lists.size()});
  for (const auto& [name, id] : recipe.lists) {
    to.text(name);
    to.value(id);
  }
  write_ids(to, recipe.routes);
  write_ids(to, recipe.codes);
  u64 count = 0;
  for (const auto& [id, artifact] : made.artifacts) count += had.contains(id) ? 0 : 1;
  to.value(count);
  for (const auto& [id, artifact] : made.artifacts) {
    if (had.contains(id)) continue;
    to.value(id);
    to.value(static_cast<u32>(artifact.index()));
    std::visit([&](const auto& value) { write(to, *value); }, artifact);
  }
  return to.seal();
}

Result<kernel::Fd> write_answer(const Refusal& refusal) {
  MemoryWriter to("xdpgpu-refusal");
  to.value(kRefused);
  to.text(refusal.sentence);
  write_texts(to, refusal.diagnostics);
  to.value(u64{refusal.problems.size()});
  for (const auto& problem : refusal.problems) {
    to.text(problem.message);
    to.text(problem.file.value_or(""));
    to.text(problem.pointer.value_or(""));
    to.value(problem.line.value_or(0));
    to.value(problem.column.value_or(0));
  }
  return to.seal();
}

namespace {

Result<Refusal> read_refusal(MemoryReader& from) {
  Refusal refusal;
  refusal.sentence = from.text();
  refusal.diagnostics = read_texts(from);
  each(from, [&] {
    Problem& problem = refusal.problems.emplace_back();
    problem.message = from.text();
    if (const auto file = from.text(); !file.empty()) problem.file = file;
    if (const auto pointer = from.text(); !pointer.empty()) problem.pointer = pointer;
    if (const u64 line = from.value<u64>(); line != 0) problem.line = line;
    if (const u64 column = from.value<u64>(); column != 0) problem.column = column;
  });
  if (!from.ok() || !from.at_end() || refusal.sentence.empty()) return damaged();
  return refusal;
}

}  // namespace

Result<tl::expected<Answer, Refusal>> read_answer(const SealedMemory& memory) {
  MemoryReader from(memory.bytes());
  const u64 kind = from.value<u64>();
  if (kind == kRefused) {
    auto refusal = read_refusal(from);
    if (!refusal) return tl::unexpected(refusal.error());
    return tl::expected<Answer, Refusal>(tl::unexpected(*std::move(refusal)));
  }
  if (kind != kMade) return damaged();
  Answer answer;
  answer.recipe.tables = from.value<ArtifactId>();
  each(from, [&] {
    std::string name(from.text());
    answer.recipe.lists.emplace(std::move(name), from.value<ArtifactId>());
  });
  answer.recipe.routes = read_ids(from);
  answer.recipe.codes = read_ids(from);
  Result<void> right;
  each(from, [&] {
    if (!right) return;
    const auto id = from.value<ArtifactId>();
    auto artifact = read_artifact(from);
    if (!artifact)
      right = tl::unexpected(std::move(artifact.error()));
    else if (!answer.artifacts.emplace(id, std::move(*artifact)).second)
      right = damaged();
  });
  if (!right) return tl::unexpected(std::move(right.error()));
  if (!from.ok() || !from.at_end()) return damaged();
  return tl::expected<Answer, Refusal>(std::move(answer));
}

// ---- machine code ------------------------------------------------------------------------------------

Result<kernel::Fd> write_code_order(u32 architecture) {
  MemoryWriter to("xdpgpu-order");
  to.value(kCodeOrder);
  to.value(architecture);
  return to.seal();
}

std::optional<u32> read_code_order(const SealedMemory& memory) {
  MemoryReader from(memory.bytes());
  const u64 kind = from.value<u64>();
  const u32 architecture = from.value<u32>();
  if (kind != kCodeOrder || !from.ok() || !from.at_end()) return {};
  return architecture;
}

Result<kernel::Fd> write_translation_order(std::span<const gpu::programs::Decoded> programs,
                                           u32 architecture) {
  if (programs.size() > kMostTranslated)
    return tl::unexpected(fmt::format("there are {} of them, and at most {} are translated together",
                                      programs.size(), kMostTranslated));
  if (!std::all_of(programs.begin(), programs.end(), can_be_ordered))
    return tl::unexpected(fmt::format("one has more than {} instructions, or {} words of maps' records",
                                      kMostTranslatedInstructions, kMostTranslatedTableWords));
  MemoryWriter to("xdpgpu-order");
  to.value(kTranslationOrder);
  to.value(architecture);
  to.value(u64{programs.size()});
  for (const auto& program : programs) {
    to.array(program.code);
    to.array(program.tables);
  }
  return to.seal();
}

std::optional<TranslationOrder> read_translation_order(const SealedMemory& memory) {
  MemoryReader from(memory.bytes());
  if (from.value<u64>() != kTranslationOrder) return {};
  TranslationOrder order;
  order.architecture = from.value<u32>();
  const u64 count = from.value<u64>();
  if (count > kMostTranslated) return {};
  for (u64 i = 0; i < count && from.ok(); i++) {
    auto& program = order.programs.emplace_back();
    program.code = from.array<u32>();
    program.tables = from.array<u32>();
    if (!can_be_ordered(program)) return {};
  }
  if (!from.ok() || !from.at_end()) return {};
  return order;
}

Result<kernel::Fd> write_code_answer(const gpu::DeviceCode& code) {
  MemoryWriter to("xdpgpu-code");
  to.value(kCode);
  to.text(code.id);
  to.value(code.architecture);
  to.value(u64{code.modules.size()});
  for (const auto& module : code.modules) to.array(module);
  return to.seal();
}

Result<tl::expected<gpu::DeviceCode, Refusal>> read_code_answer(std::span<const std::byte> bytes) {
  MemoryReader from(bytes);
  const u64 kind = from.value<u64>();
  if (kind == kRefused) {
    auto refusal = read_refusal(from);
    if (!refusal) return tl::unexpected(refusal.error());
    return tl::expected<gpu::DeviceCode, Refusal>(tl::unexpected(*std::move(refusal)));
  }
  if (kind != kCode) return damaged();
  gpu::DeviceCode code;
  code.id = from.text();
  code.architecture = from.value<u32>();
  each(from, [&] { code.modules.push_back(from.array<char>()); });
  if (!from.ok() || !from.at_end() || code.modules.empty()) return damaged();
  return tl::expected<gpu::DeviceCode, Refusal>(std::move(code));
}

}  // namespace xdpgpu::compiler
