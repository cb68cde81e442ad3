// SPDX-License-Identifier: MIT
#define PCRE2_CODE_UNIT_WIDTH 8
#include "userspace/expressions/expressions.hpp"

#include <fmt/format.h>
#include <pcre2.h>

#include <time.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

namespace xdpgpu::expressions {
namespace {

namespace sig = gpu::signatures;

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

struct Compiled {
  Code code;
  int error = 0;
  std::string why{};
};
Compiled try_to_compile(std::string_view pattern, u32 options) {
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (context == nullptr) return {{}, 0, "there is not enough memory for a regular expression"};
  pcre2_set_parens_nest_limit(context.get(), kDeepest);
  Compiled made;
  PCRE2_SIZE at = 0;
  made.code = Code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                                 &made.error, &at, context.get()),
                   pcre2_code_free);
  if (made.code == nullptr) {
    PCRE2_UCHAR said[200];
    if (pcre2_get_error_message(made.error, said, sizeof(said)) < 0) said[0] = '\0';
    made.why = fmt::format("pcre /{}/: {}, at byte {}", pattern, reinterpret_cast<const char*>(said), at);
  } else if (const std::size_t size = bytes_of(*made.code); size > kLargest) {
    made.why = fmt::format("pcre /{:.40}/ takes {} bytes once it is compiled, more than {}", pattern, size,
                           kLargest);
    made.code.reset();
  }
  return made;
}

}  // namespace

std::size_t bytes_of(const pcre2_real_code_8& code) {
  std::size_t size = 0;
  // The one way in which it fails is that there is no code.
  (void)pcre2_pattern_info(&code, PCRE2_INFO_SIZE, &size);
  return size;
}

Result<Code> compile(std::string_view pattern, u32 options) {
  auto made = try_to_compile(pattern, options);
  if (made.code == nullptr) return wrong(std::move(made.why));
  return std::move(made.code);
}

namespace {

// Whether it says itself where it may begin, or whether it is looked for any further: it is looked for in
// parts.
bool says_where(std::string_view pattern) {
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); i++) {
    const std::string_view here = pattern.substr(i);
    if (here.starts_with("\\G") || (!in_class && here.starts_with("(*"))) return true;
    if (here[0] == '\\')
      i++;
    else if (in_class)
      in_class = here[0] != ']';
    else
      in_class = here[0] == '[';
  }
  return false;
}

Result<Code> compile_as_suricata(std::string_view pattern, u32 options) {
  if (says_where(pattern))
    return wrong(fmt::format("pcre /{:.40}/ says by \\G or (*...) where it is looked for", pattern));
  options |= PCRE2_USE_OFFSET_LIMIT;
  auto made = try_to_compile(pattern, options | PCRE2_NO_AUTO_CAPTURE);
  if (made.code == nullptr && made.error == PCRE2_ERROR_BAD_SUBPATTERN_REFERENCE)
    made = try_to_compile(pattern, options);
  if (made.code == nullptr) return wrong(std::move(made.why));
  return std::move(made.code);
}

Result<void> compile(std::vector<sig::Step>& steps, u64& bytes) {
  constexpr u32 kOptions = PCRE2_CASELESS | PCRE2_MULTILINE | PCRE2_DOTALL | PCRE2_EXTENDED | PCRE2_ANCHORED |
                           PCRE2_DOLLAR_ENDONLY | PCRE2_UNGREEDY;
  for (sig::Step& step : steps) {
    auto* const expression = std::get_if<sig::Expression>(&step);
    if (expression == nullptr) continue;
    if ((expression->options & ~kOptions) != 0)
      return wrong(fmt::format("pcre /{:.40}/ has an option that no rule has", expression->pattern));
    if (!expression->code) {
      auto code = compile_as_suricata(expression->pattern, expression->options);
      if (!code) return wrong(std::move(code.error()));
      expression->code = *std::move(code);
    }
    bytes += bytes_of(*static_cast<const pcre2_code*>(expression->code.get()));
    if (bytes > kMostBytes)
      return wrong(fmt::format("the regular expressions of its rules take more than {} MiB: use fewer",
                               kMostBytes >> 20));
  }
  return {};
}

}  // namespace

Result<void> compile(sig::HostPart& part, u64& bytes) {
  auto done = compile(part.payload, bytes);
  for (sig::NameIs& name : part.names)
    if (done) done = compile(name.steps, bytes);
  return done;
}

// ---- looking for them ----------------------------------------------------------------------------------

// PCRE2 keeps what it may go back to in one piece of memory, and takes another one when that is full.
struct Finder::Memory {
  static constexpr std::size_t kPiece = std::size_t{kMostMemory} << 10, kSmall = 1024;
  struct Piece {
    std::unique_ptr<std::byte[]> bytes = std::make_unique_for_overwrite<std::byte[]>(kPiece);
    bool taken = false;
  };
  std::array<Piece, 2> pieces;
  std::unique_ptr<pcre2_general_context, void (*)(pcre2_general_context*)> general{
      pcre2_general_context_create(take, give, this), pcre2_general_context_free};
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context{
      pcre2_match_context_create(general.get()), pcre2_match_context_free};
  // The whole match's place; what groups match is not asked for.
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data{
      pcre2_match_data_create(1, general.get()), pcre2_match_data_free};

  Memory() {
    if (general == nullptr || context == nullptr || data == nullptr) throw std::bad_alloc();
    pcre2_set_depth_limit(context.get(), kMostDepth);
    pcre2_set_heap_limit(context.get(), kMostMemory);
  }

  static void* take(std::size_t size, void* memory) {
    if (size <= kSmall) return std::malloc(size);  // the contexts, once
    for (Piece& piece : static_cast<Memory*>(memory)->pieces) {
      if (piece.taken || size > kPiece) continue;
      piece.taken = true;
      return piece.bytes.get();
    }
    return nullptr;
  }
  static void give(void* bytes, void* memory) {
    for (Piece& piece : static_cast<Memory*>(memory)->pieces) {
      if (piece.bytes.get() != bytes) continue;
      piece.taken = false;
      return;
    }
    std::free(bytes);
  }
};

namespace {

// By its options, or by how it begins.
bool is_anchored(const pcre2_code& code) noexcept {
  u32 options = 0;
  (void)pcre2_pattern_info(&code, PCRE2_INFO_ALLOPTIONS, &options);
  return (options & PCRE2_ANCHORED) != 0;
}

u64 thread_time_ns() noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

}  // namespace

Finder::Finder() : memory_(std::make_unique<Memory>()) {}
Finder::~Finder() = default;

void Finder::begin() noexcept {
  searched_ = 0;
  has_reached_one_ = false;
  begun_ns_ = thread_time_ns();
}

bool Finder::is_spent() const noexcept {
  return searched_ >= kMostSearched || (searched_ != 0 && thread_time_ns() - begun_ns_ > kMostTimeNs);
}

int Finder::match(const sig::Expression& expression, std::span<const u8> subject, std::size_t from,
                  std::size_t last, u32 steps) noexcept {
  static constexpr u8 kNothing = 0;
  pcre2_set_match_limit(memory_->context.get(), steps);
  pcre2_set_offset_limit(memory_->context.get(), last);
  return pcre2_match(static_cast<const pcre2_code*>(expression.code.get()),
                     subject.empty() ? &kNothing : subject.data(), subject.size(), from, 0,
                     memory_->data.get(), memory_->context.get());
}

Finder::Found Finder::reached_limit() noexcept {
  limits_reached_ += !has_reached_one_;
  has_reached_one_ = true;
  return Found::limit;
}

void Finder::give_up() noexcept {
  searched_ = kMostSearched;
  reached_limit();
}

Finder::Found Finder::find(const sig::Expression& expression, std::span<const u8> subject, u32 from,
                           sig::Range<u32>& at) noexcept {
  const std::size_t size = subject.size();
  if (from > size) return Found::no;
  const bool anchored = is_anchored(*static_cast<const pcre2_code*>(expression.code.get()));
  const std::size_t end = anchored ? from : size;
  int said = PCRE2_ERROR_NOMATCH;
  for (std::size_t begin = from; begin <= end && said == PCRE2_ERROR_NOMATCH;) {
    const std::size_t last = std::min<std::size_t>(begin + kTogether - 1, end);
    said = is_spent() ? PCRE2_ERROR_MATCHLIMIT : match(expression, subject, begin, last, kQuickSteps);
    if (said == PCRE2_ERROR_MATCHLIMIT) {
      said = PCRE2_ERROR_NOMATCH;
      for (std::size_t one = begin; one <= last && said == PCRE2_ERROR_NOMATCH; one++)
        said = is_spent() ? PCRE2_ERROR_MATCHLIMIT : match(expression, subject, one, one, kMostSteps);
    }
    searched_ += last - begin + 1;
    begin = last + 1;
  }
  if (said == PCRE2_ERROR_NOMATCH) return Found::no;
  if (said < 0) return reached_limit();
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(memory_->data.get());
  at = {static_cast<u32>(std::min(ends[0], size)), static_cast<u32>(std::min(ends[1], size))};
  return Found::yes;
}

}  // namespace xdpgpu::expressions
