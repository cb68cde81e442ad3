// SPDX-License-Identifier: MIT
#include "userspace/compiler/compiler.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <span>
#include <utility>

#include "userspace/compiler/inputs.hpp"
#include "userspace/compiler/ptx.hpp"
#include "userspace/compiler/refusals.hpp"
#include "userspace/kernel/descriptors.hpp"

namespace xdpgpu::compiler {
namespace {

constexpr u32 kMagic = 0x63706778;  // "xgpc"

bool send(int socket, const kernel::Fd& memory) {
  const int fd = memory.get();
  return kernel::send_with(socket, std::as_bytes(std::span(&kMagic, 1)), std::span(&fd, 1), 0);
}

// Nothing in it: the other side is gone, or sent something else.
kernel::Fd receive(int socket) {
  u32 magic = 0;
  auto arrived = kernel::receive_with(socket, std::as_writable_bytes(std::span(&magic, 1)));
  if (arrived.length != sizeof(magic) || !arrived.whole || magic != kMagic || arrived.descriptors.size() != 1)
    return {};
  return std::move(arrived.descriptors.front());
}

ArtifactId id_of(const PolicySource& source) {
  InputHash hash("source");
  hash.add(source.file);
  hash.add(source.text);
  for (const auto& [name, content] : source.files) {
    hash.add(name);
    hash.add(content);
  }
  return hash.id();
}

Refusal no_memory() {
  return refusal(
      "there is not enough memory to compile the policy: free some, or use fewer rules and shorter lists");
}

}  // namespace

Result<kernel::Fd> Compiler::answer(const kernel::Fd& order) {
  try {
    auto memory = SealedMemory::map(order, kMostOrder);
    if (!memory) return tl::unexpected(memory.error());
    if (const auto architecture = read_code_order(*memory)) return make_code(*architecture);
    if (const auto translation = read_translation_order(*memory)) return translate(*translation);
    if (takes_ == Takes::orders_for_code)
      return tl::unexpected(std::string("it was given something else than an order for code"));
    auto read = read_order(*memory);
    if (!read) return tl::unexpected(read.error());
    return make(*read);
  } catch (const std::bad_alloc&) {
    source_.reset();
    policy_.reset();
    artifacts_.clear();
    return write_answer(no_memory());
  } catch (const std::exception& error) {
    return tl::unexpected(std::string(error.what()));
  }
}

Result<kernel::Fd> Compiler::make(const Order& order) {
  const ArtifactId source = id_of(order.source);
  if (source_ != source) {
    source_.reset();
    auto policy =
        policy::parse(order.source.text, order.source.file, policy::read_files_in(order.source.files));
    if (!policy) return write_answer(refusal(policy.error()));
    policy_ = std::move(*policy);
  }
  auto made = make_artifacts(order.source, *policy_, order.target, artifacts_);
  if (!made) return write_answer(made.error());
  source_ = source;
  auto answer = write_answer(*made, order.has);
  artifacts_ = std::move(made->artifacts);
  return answer;
}

Result<kernel::Fd> Compiler::make_code(u32 architecture) {
  const auto ptx = gpu::built_in_code(architecture);
  if (!ptx) return write_answer(refusal(ptx.error()));
  if (gpu::has_machine_code(architecture))
    return write_answer(refusal("there is machine code for it in this build"));
  auto code = compile_ptx(**ptx, architecture);
  return code ? write_code_answer(*code) : write_answer(refusal(code.error()));
}

Result<kernel::Fd> Compiler::translate(const TranslationOrder& order) {
  auto code = translations_.translate(order.programs, order.architecture);
  return code ? write_code_answer(*code) : write_answer(refusal(code.error()));
}

int serve(int socket, Takes takes, KeptCode kept) noexcept try {
  Compiler compiler(takes, std::move(kept));
  while (true) {
    const kernel::Fd order = receive(socket);
    if (!order) return 0;
    const auto answer = compiler.answer(order);
    if (!answer) {
      // An order that is none, or no memory to answer in. Whoever waits finds that it has ended.
      std::fprintf(stderr, "xdpgpu: the compiler: %s\n", answer.error().c_str());
      return 1;
    }
    if (!send(socket, *answer)) return 1;
    malloc_trim(0);  // what compiling took is not needed until the next order
  }
} catch (const std::bad_alloc&) {
  return 1;
}

tl::expected<kernel::Fd, NoAnswer> Orders::order(const kernel::Fd& order, int cancelled,
                                                 std::chrono::steady_clock::time_point end) {
  // Whatever it goes on with, it finds its socket closed afterwards.
  const auto none = [&](NoAnswer why) {
    socket_ = kernel::Fd();
    return tl::unexpected(why);
  };
  if (!socket_ || !send(socket_.get(), order)) return none(NoAnswer::ended);
  std::array<pollfd, 2> ready{{{socket_.get(), POLLIN, 0}, {cancelled, POLLIN, 0}}};
  int count = 0;
  do {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0) return none(NoAnswer::too_long);
    count = poll(ready.data(), ready.size(), static_cast<int>(left));
  } while (count == 0 || (count < 0 && errno == EINTR));
  if (count < 0) return none(NoAnswer::died);
  if ((ready[1].revents & POLLIN) != 0) return none(NoAnswer::cancelled);
  kernel::Fd memory = receive(socket_.get());
  if (!memory) return none(NoAnswer::died);
  return memory;
}

}  // namespace xdpgpu::compiler
