// SPDX-License-Identifier: MIT
//
// userspace/expressions/expressions.hpp: regular expressions that no automaton decides, compiled and looked
// for by PCRE2 (https://www.pcre.org/current/doc/html/), within limits: who writes rules or sends packets may
// be anybody. No machine code is made of them: the data plane's processes may not execute what they write.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "gpu/reference/signature.hpp"

struct pcre2_real_code_8;

namespace xdpgpu::expressions {

template <class T>
using Result = tl::expected<T, std::string>;

// Bytes of memory that one may take once it is compiled, and levels of brackets that it may have; and bytes
// of all expressions of one stage's rules.
inline constexpr std::size_t kLargest = 1u << 20;
inline constexpr u32 kDeepest = 100;
inline constexpr u64 kMostBytes = u64{256} << 20;

// Suricata's, of which PCRE2 counts those from one first byte: steps, and how many of them may have to be
// gone back to.
inline constexpr u32 kMostSteps = 3500, kMostDepth = 1500;
// Of memory for steps to go back to, KiB.
inline constexpr u32 kMostMemory = 4096;
// Of one packet, bytes at which expressions may begin, again where they are looked for again; and the
// thread's own time, after which none is looked for any more. It is looked at in front of each kTogether
// bytes at which one may begin, or of each by itself where these take more than kQuickSteps steps from one.
inline constexpr u64 kMostSearched = u64{256} << 10;
inline constexpr u64 kMostTimeNs = 20'000'000;
inline constexpr u32 kTogether = 32, kQuickSteps = 350;

using Code = std::shared_ptr<pcre2_real_code_8>;
// The error is what PCRE2 says, a sentence. options: PCRE2's.
Result<Code> compile(std::string_view pattern, u32 options);
std::size_t bytes_of(const pcre2_real_code_8& code);

// Of a part that is within bounds, what is not compiled yet, as Suricata does: groups keep nothing unless the
// expression asks for what they keep. Adds its bytes to `bytes`, which may not become more than kMostBytes.
// The error is a sentence.
Result<void> compile(gpu::signatures::HostPart& part, u64& bytes);

// Looks for compiled expressions. Of one thread. All the memory that it takes is its own from the start.
class Finder final : public gpu::reference::ExpressionFinder {
 public:
  Finder();  // throws std::bad_alloc
  ~Finder();
  Finder(const Finder&) = delete;
  Finder& operator=(const Finder&) = delete;

  // Before each packet: so much may be searched again.
  void begin() noexcept;
  Found find(const gpu::signatures::Expression& expression, std::span<const u8> subject, u32 from,
             gpu::signatures::Range<u32>& at) noexcept override;
  void give_up() noexcept override;
  // Whether the packet has taken all that it may.
  bool is_spent() const noexcept;
  // Packets of which an expression has reached a limit.
  u64 limits_reached() const noexcept { return limits_reached_; }

 private:
  Found reached_limit() noexcept;
  // PCRE2's own word, of matches that begin from `from` to `last`.
  int match(const gpu::signatures::Expression& expression, std::span<const u8> subject, std::size_t from,
            std::size_t last, u32 steps) noexcept;

  struct Memory;
  std::unique_ptr<Memory> memory_;
  u64 searched_ = 0, begun_ns_ = 0, limits_reached_ = 0;
  bool has_reached_one_ = false;  // in this packet
};

}  // namespace xdpgpu::expressions
