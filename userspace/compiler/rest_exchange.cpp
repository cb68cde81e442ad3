// SPDX-License-Identifier: MIT
#include "userspace/compiler/rest_exchange.hpp"

#include <algorithm>
#include <array>

#include "userspace/expressions/expressions.hpp"

namespace xdpgpu::compiler {
namespace {

namespace sig = gpu::signatures;

// Values stand in the order in which gpu/signatures.hpp has them; in front of a step, its place in its
// variant.

void write(MemoryWriter& to, const sig::Amount& amount) {
  to.value(amount.constant);
  to.value(u32{amount.variable ? 1u + *amount.variable : 0});
}
void write(MemoryWriter& to, const std::optional<sig::Amount>& amount) {
  to.value(u32{amount.has_value()});
  if (amount) write(to, *amount);
}
void write(MemoryWriter& to, const sig::Number& number) {
  to.value(u32{number.bytes});
  write(to, number.offset);
  to.value(u32{number.relative});
  to.value(u32{number.little_endian});
  to.value(u32{number.base ? 1u + *number.base : 0});
}
void write(MemoryWriter& to, const sig::Mask& mask) { to.value(mask.value_or(0)); }
void write(MemoryWriter& to, const sig::Content& content) {
  to.text(content.bytes);
  for (const bool is : {content.negated, content.nocase, content.ends, content.tried_again})
    to.value(u32{is});
  write(to, content.offset);
  for (const auto* const limit : {&content.depth, &content.distance, &content.within}) write(to, *limit);
}
void write(MemoryWriter& to, const sig::ByteTest& test) {
  to.value(static_cast<u32>(test.op));
  to.value(u32{test.negated});
  write(to, test.number);
  write(to, test.mask);
  write(to, test.value);
}
void write(MemoryWriter& to, const sig::ByteJump& jump) {
  to.value(static_cast<u32>(jump.from));
  write(to, jump.number);
  to.value(jump.multiplier);
  to.value(u32{jump.align});
  to.value(jump.post_offset);
}
void write(MemoryWriter& to, const sig::ByteExtract& extract) {
  write(to, extract.number);
  for (const u32 number : {extract.multiplier, extract.align, u32{extract.variable}}) to.value(number);
}
void write(MemoryWriter& to, const sig::ByteMath& math) {
  to.value(static_cast<u32>(math.op));
  write(to, math.number);
  write(to, math.mask);
  write(to, math.right);
  to.value(u32{math.variable});
}
void write(MemoryWriter& to, const sig::DataAt& at) {
  write(to, at.offset);
  to.value(u32{at.relative});
  to.value(u32{at.negated});
}
void write(MemoryWriter&, const sig::Regex&) {}  // hosts have none
void write(MemoryWriter& to, const sig::Expression& expression) {
  to.text(expression.pattern);
  to.value(expression.options);
  for (const bool is : {expression.negated, expression.relative, expression.tried_again}) to.value(u32{is});
}
void write(MemoryWriter& to, const std::vector<sig::Step>& steps) {
  to.value(u64{steps.size()});
  for (const sig::Step& step : steps) {
    to.value(static_cast<u32>(step.index()));
    std::visit([&](const auto& one) { write(to, one); }, step);
  }
}

// A number that is too large for its place is beyond the bounds there.
u8 small(u32 number) { return static_cast<u8>(std::min<u32>(number, 255)); }
bool flag(MemoryReader& from) { return from.value<u32>() != 0; }

void read(MemoryReader& from, sig::Amount& amount) {
  amount.constant = from.value<std::int64_t>();
  if (const u32 variable = from.value<u32>(); variable != 0) amount.variable = small(variable - 1);
}
void read(MemoryReader& from, std::optional<sig::Amount>& amount) {
  if (flag(from)) read(from, amount.emplace());
}
void read(MemoryReader& from, sig::Number& number) {
  number.bytes = small(from.value<u32>());
  read(from, number.offset);
  number.relative = flag(from);
  number.little_endian = flag(from);
  if (const u32 base = from.value<u32>(); base != 0) number.base = small(base - 1);
}
void read(MemoryReader& from, sig::Mask& mask) {
  if (const u32 bits = from.value<u32>(); bits != 0) mask = bits;
}
void read(MemoryReader& from, sig::Content& content) {
  content.bytes = from.text();
  for (bool* const is : {&content.negated, &content.nocase, &content.ends, &content.tried_again})
    *is = flag(from);
  read(from, content.offset);
  for (auto* const limit : {&content.depth, &content.distance, &content.within}) read(from, *limit);
}
void read(MemoryReader& from, sig::ByteTest& test) {
  test.op = one_of(from, sig::ByteTest::Op::differs);
  test.negated = flag(from);
  read(from, test.number);
  read(from, test.mask);
  read(from, test.value);
}
void read(MemoryReader& from, sig::ByteJump& jump) {
  jump.from = one_of(from, sig::ByteJump::From::end);
  read(from, jump.number);
  jump.multiplier = from.value<u32>();
  jump.align = flag(from);
  jump.post_offset = from.value<std::int32_t>();
}
void read(MemoryReader& from, sig::ByteExtract& extract) {
  read(from, extract.number);
  extract.multiplier = from.value<u32>();
  extract.align = from.value<u32>();
  extract.variable = small(from.value<u32>());
}
void read(MemoryReader& from, sig::ByteMath& math) {
  math.op = one_of(from, sig::ByteMath::Op::shift_right);
  read(from, math.number);
  read(from, math.mask);
  read(from, math.right);
  math.variable = small(from.value<u32>());
}
void read(MemoryReader& from, sig::DataAt& at) {
  read(from, at.offset);
  at.relative = flag(from);
  at.negated = flag(from);
}
void read(MemoryReader& from, sig::Expression& expression) {
  expression.pattern = from.text();
  expression.options = from.value<u32>();
  for (bool* const is : {&expression.negated, &expression.relative, &expression.tried_again})
    *is = flag(from);
}

template <std::size_t kKind = 0>
sig::Step read_step(MemoryReader& from, u32 kind) {
  if constexpr (kKind < std::variant_size_v<sig::Step>) {
    using One = std::variant_alternative_t<kKind, sig::Step>;
    if constexpr (!std::is_same_v<One, sig::Regex>)
      if (kind == kKind) {
        One step;
        read(from, step);
        return step;
      }
    return read_step<kKind + 1>(from, kind);
  } else {
    return sig::Regex{};  // beyond the bounds of hosts
  }
}
// No more of any than makes it too many: that is refused.
std::vector<sig::Step> read_steps(MemoryReader& from) {
  std::vector<sig::Step> steps;
  each(from, [&] {
    if (steps.size() > sig::kMostSteps) return;
    const u32 kind = from.value<u32>();
    steps.push_back(read_step(from, kind));
  });
  return steps;
}

}  // namespace

void write_rest(MemoryWriter& to, const Rest& rest) {
  to.value(u32{rest != nullptr});
  if (rest == nullptr) return;
  write(to, rest->payload);
  to.value(u64{rest->names.size()});
  for (const sig::NameIs& name : rest->names) {
    to.value(u32{name.dot_prefix});
    to.value(u64{name.sizes.size()});
    for (const sig::SizeIs& size : name.sizes)
      for (const u32 number : {size.bytes.first, size.bytes.last, u32{size.negated}}) to.value(number);
    write(to, name.steps);
  }
}

Result<Rest> read_rest(MemoryReader& from, u64& bytes) {
  if (!flag(from)) return Rest();
  sig::HostPart rest;
  rest.payload = read_steps(from);
  each(from, [&] {
    if (rest.names.size() > sig::kMostNames) return;
    sig::NameIs& name = rest.names.emplace_back();
    name.dot_prefix = flag(from);
    each(from, [&] {
      if (name.sizes.size() > sig::kMostNames) return;
      sig::SizeIs& size = name.sizes.emplace_back();
      for (u32* const number : {&size.bytes.first, &size.bytes.last}) *number = from.value<u32>();
      size.negated = flag(from);
    });
    name.steps = read_steps(from);
  });
  if (!from.ok()) return tl::unexpected(std::string("what it handed over is not whole"));
  if (const auto why = sig::beyond_bounds(rest)) return tl::unexpected("a rule that it handed over " + *why);
  if (auto compiled = expressions::compile(rest, bytes); !compiled)
    return tl::unexpected(std::move(compiled.error()));
  return std::make_shared<const sig::HostPart>(std::move(rest));
}

}  // namespace xdpgpu::compiler
