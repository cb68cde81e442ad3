// SPDX-License-Identifier: MIT
//
// userspace/compiler/compiler.hpp: the compiler, a process of its own, and whoever orders from it. One order
// at a time, over a SOCK_SEQPACKET pair: a message is a piece of sealed memory (exchange.hpp). The compiler
// remembers what it made last, so that an order for nearly the same costs nearly nothing.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "userspace/compiler/exchange.hpp"
#include "userspace/compiler/translations.hpp"

namespace xdpgpu::compiler {

// What it is there for. Who makes what a device jumps into reads no policy, and no list.
enum class Takes { everything, orders_for_code };

class Compiler {
 public:
  explicit Compiler(Takes takes = Takes::everything, KeptCode kept = {})
      : takes_(takes), translations_(std::move(kept)) {}
  // Throws nothing but std::bad_alloc, where there is not even memory to say that there is none.
  Result<kernel::Fd> answer(const kernel::Fd& order);

 private:
  Result<kernel::Fd> make(const Order& order);
  // Of what this build has PTX for. Where load_ptx_compiler() could load nothing, that is the answer.
  static Result<kernel::Fd> make_code(u32 architecture);
  // Likewise load_translator().
  Result<kernel::Fd> translate(const TranslationOrder& order);

  Takes takes_;
  Translations translations_;
  // Of the last policy that could be compiled.
  std::optional<ArtifactId> source_;  // all that was read
  std::optional<policy::Policy> policy_;
  Artifacts artifacts_;
};

// The compiler's life: answers until the other side of the socket is closed. Returns the exit status.
int serve(int socket, Takes takes, KeptCode kept = {}) noexcept;

// Why there is no answer. The compiler is not there any more then.
enum class NoAnswer {
  ended,      // it was gone before the order
  died,       // while it worked at it
  cancelled,  // whoever ordered wants it no more
  too_long,   // it was not through in time
};

// Whoever orders. One thread.
class Orders {
 public:
  Orders() = default;
  explicit Orders(kernel::Fd socket) : socket_(std::move(socket)) {}

  // The compiler is there, as far as is known.
  explicit operator bool() const noexcept { return static_cast<bool>(socket_); }
  // Sends an order, and waits for the answer: until `cancelled` (an eventfd; -1: none) can be read, and until
  // `end` at most.
  tl::expected<kernel::Fd, NoAnswer> order(const kernel::Fd& order, int cancelled,
                                           std::chrono::steady_clock::time_point end);

 private:
  kernel::Fd socket_;
};

}  // namespace xdpgpu::compiler
