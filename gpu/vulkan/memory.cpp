// SPDX-License-Identifier: MIT
#include "gpu/vulkan/memory.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "gpu/changed_words.hpp"

namespace xdpgpu::gpu::vulkan {
namespace {

using Property = vk::MemoryPropertyFlagBits;

constexpr u64 kTimeoutNs = 10'000'000'000;
// A software device's threads are this process's own, and finish what they were given before, however busy
// the machine is.
constexpr u64 kSoftwareTimeoutNs = 600'000'000'000;

// The first memory type of `allowed` with all of `wanted`.
std::optional<u32> memory_type(const Context& context, u32 allowed, vk::MemoryPropertyFlags wanted) {
  const auto memory = context.physical().getMemoryProperties(context.dispatch());
  for (u32 i = 0; i < memory.memoryTypeCount; i++)
    if ((allowed >> i & 1) != 0 && (memory.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  return std::nullopt;
}

// Its buffer alone; memory comes after.
Result<Buffer> bare_buffer(const Context& context, u64 bytes, vk::BufferUsageFlags more, const void* next) {
  if (bytes > context.candidate().largest_allocation)
    return tl::unexpected(fmt::format("Vulkan: {} takes at most {} MiB in one piece, {} are needed",
                                      context.candidate().info.description,
                                      context.candidate().largest_allocation >> 20, (bytes >> 20) + 1));
  vk::BufferCreateInfo info(
      {}, bytes,
      vk::BufferUsageFlagBits::eStorageBuffer | vk::BufferUsageFlagBits::eShaderDeviceAddress | more);
  info.pNext = next;
  auto buffer =
      checked("creating a buffer", context.device().createBufferUnique(info, nullptr, context.dispatch()));
  if (!buffer) return tl::unexpected(buffer.error());
  Buffer made;
  made.buffer = *std::move(buffer);
  return made;
}

Result<void> give_memory(const Context& context, Buffer& buffer, u64 bytes, u32 type, const void* next) {
  const Dispatch& d = context.dispatch();
  const vk::MemoryAllocateFlagsInfo flags(vk::MemoryAllocateFlagBits::eDeviceAddress, 0, next);
  auto memory = checked("allocating memory", context.device().allocateMemoryUnique(
                                                 vk::MemoryAllocateInfo(bytes, type, &flags), nullptr, d));
  if (!memory) return tl::unexpected(memory.error());
  buffer.memory = *std::move(memory);
  auto bound =
      checked("binding memory", context.device().bindBufferMemory(*buffer.buffer, *buffer.memory, 0, d));
  if (!bound) return bound;
  buffer.address = context.device().getBufferAddress(vk::BufferDeviceAddressInfo(*buffer.buffer), d);
  if (buffer.address == 0) return tl::unexpected(std::string("Vulkan: the device gave a buffer no address"));
  return {};
}

Result<Buffer> allocate(const Context& context, u64 bytes, vk::BufferUsageFlags usage,
                        std::initializer_list<vk::MemoryPropertyFlags> preferences) {
  auto buffer = bare_buffer(context, bytes, usage, nullptr);
  if (!buffer) return buffer;
  const auto needs = context.device().getBufferMemoryRequirements(*buffer->buffer, context.dispatch());
  for (const auto wanted : preferences) {
    const auto type = memory_type(context, needs.memoryTypeBits, wanted);
    if (!type) continue;
    auto given = give_memory(context, *buffer, needs.size, *type, nullptr);
    if (!given) return tl::unexpected(given.error());
    return buffer;
  }
  return tl::unexpected(std::string("Vulkan: the device has no memory of the kind that is needed"));
}

// Has the device do what `record` writes into a command buffer, behind all that the queue was given before,
// and waits until it is done. what: "uploading". held: the queue's lock is the caller's, all along.
Result<void> run_on(HardwareQueue& queue, bool held, Context& context, const char* what,
                    const std::function<void(vk::CommandBuffer)>& record) {
  const Dispatch& d = context.dispatch();
  const vk::Device device = context.device();
  auto pool = checked("creating a command pool",
                      device.createCommandPoolUnique({{}, context.candidate().queue_family}, nullptr, d));
  if (!pool) return tl::unexpected(pool.error());
  auto commands = checked("creating a command buffer",
                          device.allocateCommandBuffers({**pool, vk::CommandBufferLevel::ePrimary, 1}, d));
  if (!commands) return tl::unexpected(commands.error());
  auto fence = checked("creating a fence", device.createFenceUnique({}, nullptr, d));
  if (!fence) return tl::unexpected(fence.error());
  const vk::CommandBuffer command = commands->front();
  auto recorded = checked("recording", command.begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit}, d));
  if (!recorded) return recorded;
  const vk::MemoryBarrier before(vk::AccessFlagBits::eMemoryWrite,
                                 vk::AccessFlagBits::eTransferRead | vk::AccessFlagBits::eTransferWrite);
  command.pipelineBarrier(vk::PipelineStageFlagBits::eAllCommands, vk::PipelineStageFlagBits::eTransfer, {},
                          before, {}, {}, d);
  record(command);
  // Later submissions of other queues start after the host has seen the fence.
  const vk::MemoryBarrier barrier(vk::AccessFlagBits::eTransferWrite, vk::AccessFlagBits::eMemoryRead |
                                                                          vk::AccessFlagBits::eMemoryWrite |
                                                                          vk::AccessFlagBits::eHostRead);
  command.pipelineBarrier(vk::PipelineStageFlagBits::eTransfer,
                          vk::PipelineStageFlagBits::eAllCommands | vk::PipelineStageFlagBits::eHost, {},
                          barrier, {}, {}, d);
  recorded = checked("recording", command.end(d));
  if (!recorded) return recorded;
  {
    std::unique_lock lock(queue.mutex, std::defer_lock);
    if (!held) lock.lock();
    const vk::Result result = queue.queue.submit(vk::SubmitInfo({}, {}, command), **fence, d);
    if (result == vk::Result::eErrorDeviceLost) context.fail();
    if (auto submitted = checked(what, result); !submitted) return submitted;
  }
  const vk::Result done = device.waitForFences(
      **fence, VK_TRUE, context.candidate().info.software ? kSoftwareTimeoutNs : kTimeoutNs, d);
  if (done == vk::Result::eSuccess) return {};
  // The device may still be at it: its memory stays.
  context.fail();
  context.abandon();
  (void)fence->release();
  (void)pool->release();
  return failure(what, done);
}

Result<void> run_once(Context& context, const char* what,
                      const std::function<void(vk::CommandBuffer)>& record) {
  return run_on(context.next_queue(), false, context, what, record);
}

Result<Buffer> own_buffer(const Context& context, u64 bytes, vk::BufferUsageFlags more = {}) {
  return allocate(context, bytes,
                  vk::BufferUsageFlagBits::eTransferDst | vk::BufferUsageFlagBits::eTransferSrc | more,
                  {vk::MemoryPropertyFlags(Property::eDeviceLocal), vk::MemoryPropertyFlags()});
}

}  // namespace

void Buffer::abandon() noexcept {
  (void)buffer.release();
  (void)memory.release();
}

Result<Buffer> host_buffer(const Context& context, u64 bytes) {
  constexpr auto shared = Property::eHostVisible | Property::eHostCoherent;
  auto buffer =
      allocate(context, bytes, vk::BufferUsageFlagBits::eTransferSrc | vk::BufferUsageFlagBits::eTransferDst,
               {shared | Property::eHostCached, shared});
  if (!buffer) return buffer;
  auto mapped = checked("mapping memory", context.device().mapMemory(*buffer->memory, 0, VK_WHOLE_SIZE, {},
                                                                     context.dispatch()));
  if (!mapped) return tl::unexpected(mapped.error());
  buffer->mapped = *mapped;
  return buffer;
}

Result<Buffer> device_buffer(Context& context, std::span<const u32> words, std::span<const u64> behind) {
  const u64 bytes = words.size_bytes() + behind.size_bytes();
  auto from = host_buffer(context, bytes);
  if (!from) return from;
  std::memcpy(from->mapped, words.data(), words.size_bytes());
  if (!behind.empty())
    std::memcpy(static_cast<u8*>(from->mapped) + words.size_bytes(), behind.data(), behind.size_bytes());
  auto to = own_buffer(context, bytes);
  if (!to) return to;
  auto copied = run_once(context, "uploading", [&](vk::CommandBuffer command) {
    command.copyBuffer(*from->buffer, *to->buffer, vk::BufferCopy(0, 0, bytes), context.dispatch());
  });
  if (copied) return to;
  if (context.abandoned()) {
    from->abandon();
    to->abandon();
  }
  return tl::unexpected(copied.error());
}

Result<Buffer> zeroed_buffer(Context& context, u64 bytes, std::span<const u32> end) {
  auto buffer = own_buffer(context, bytes);
  if (!buffer) return buffer;
  Buffer from;
  if (!end.empty()) {
    auto made = host_buffer(context, end.size_bytes());
    if (!made) return made;
    from = *std::move(made);
    std::memcpy(from.mapped, end.data(), end.size_bytes());
  }
  const u64 zeros = bytes - end.size_bytes();
  auto filled = run_once(context, "clearing memory", [&](vk::CommandBuffer command) {
    // No byte twice: nothing says which comes last.
    if (zeros != 0) command.fillBuffer(*buffer->buffer, 0, zeros, 0, context.dispatch());
    if (!end.empty())
      command.copyBuffer(*from.buffer, *buffer->buffer, vk::BufferCopy(0, zeros, end.size_bytes()),
                         context.dispatch());
  });
  if (filled) return buffer;
  if (context.abandoned()) {
    buffer->abandon();
    from.abandon();
  }
  return tl::unexpected(filled.error());
}

Result<Buffer> dispatch_buffer(const Context& context) {
  return own_buffer(context, kDispatchWords * sizeof(u32), vk::BufferUsageFlagBits::eIndirectBuffer);
}

Result<void> read_buffer(Context& context, const Buffer& from, u64 first, std::span<u32> words) {
  if (words.empty()) return {};
  auto to = host_buffer(context, words.size_bytes());
  if (!to) return tl::unexpected(to.error());
  auto copied = run_once(context, "reading memory", [&](vk::CommandBuffer command) {
    command.copyBuffer(*from.buffer, *to->buffer, vk::BufferCopy(first * sizeof(u32), 0, words.size_bytes()),
                       context.dispatch());
  });
  if (copied) {
    std::memcpy(words.data(), to->mapped, words.size_bytes());
  } else if (context.abandoned()) {
    to->abandon();
  }
  return copied;
}

Result<void> edit_buffer(Context& context, const Buffer& at, u64 words, HardwareQueue& queue,
                         const Device::Edit& edit) {
  const Dispatch& d = context.dispatch();
  const u64 bytes = words * sizeof(u32);
  auto through = host_buffer(context, bytes);
  if (!through) return tl::unexpected(through.error());
  std::vector<u32> edited(words);
  const std::span there(static_cast<u32*>(through->mapped), words);
  const std::lock_guard lock(queue.mutex);
  auto done = run_on(queue, true, context, "reading memory", [&](vk::CommandBuffer command) {
    command.copyBuffer(*at.buffer, *through->buffer, vk::BufferCopy(0, 0, bytes), d);
  });
  if (done) {
    std::copy(there.begin(), there.end(), edited.begin());
    edit(edited);
    std::vector<vk::BufferCopy> copies;
    each_change(there, edited, [&](u64 first, u64 count) {
      std::copy_n(&edited[first], count, &there[first]);
      copies.emplace_back(first * sizeof(u32), first * sizeof(u32), count * sizeof(u32));
    });
    if (copies.empty()) return {};
    done = run_on(queue, true, context, "changing memory", [&](vk::CommandBuffer command) {
      command.copyBuffer(*through->buffer, *at.buffer, copies, d);
    });
  }
  if (!done && context.abandoned()) through->abandon();
  return done;
}

Result<void> change_buffer(Context& context, const Buffer& at, u64 begin,
                           std::span<const ChangedWords> changes) {
  const Dispatch& d = context.dispatch();
  std::vector<u32> words;
  std::vector<vk::BufferCopy> copies;
  for (const ChangedWords& one : changes) {
    if (one.words.empty()) continue;
    copies.emplace_back(words.size() * sizeof(u32), (begin + one.first) * sizeof(u32),
                        one.words.size() * sizeof(u32));
    words.insert(words.end(), one.words.begin(), one.words.end());
  }
  if (copies.empty()) return {};
  auto through = host_buffer(context, words.size() * sizeof(u32));
  if (!through) return tl::unexpected(through.error());
  std::memcpy(through->mapped, words.data(), words.size() * sizeof(u32));
  const auto& queues = context.queues();
  std::vector<std::unique_lock<std::mutex>> locks;
  locks.reserve(queues.size());
  for (const auto& queue : queues) locks.emplace_back(queue->mutex);
  Result<void> done;
  for (const auto& queue : queues)
    if (done) done = run_on(*queue, true, context, "ending batches", [](vk::CommandBuffer) {});
  // By each of them: what is submitted behind a copy sees it.
  for (const auto& queue : queues)
    if (done)
      done = run_on(*queue, true, context, "changing memory", [&](vk::CommandBuffer command) {
        command.copyBuffer(*through->buffer, *at.buffer, copies, d);
      });
  if (!done && context.abandoned()) through->abandon();
  return done;
}

Result<Buffer> import_buffer(const Context& context, void* base, u64 bytes) {
  const auto& candidate = context.candidate();
  if (candidate.import_alignment == 0)
    return tl::unexpected(fmt::format("Vulkan: {} cannot import host memory (no {}): use staged frames",
                                      candidate.info.description,
                                      VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME));
  if (reinterpret_cast<std::uintptr_t>(base) % candidate.import_alignment != 0 ||
      bytes % candidate.import_alignment != 0)
    return tl::unexpected(
        fmt::format("Vulkan: {} imports host memory in pieces of {} bytes: use staged frames",
                    candidate.info.description, candidate.import_alignment));
  constexpr auto handle = vk::ExternalMemoryHandleTypeFlagBits::eHostAllocationEXT;
  const vk::ExternalMemoryBufferCreateInfo external(handle);
  auto buffer = bare_buffer(context, bytes, {}, &external);
  if (!buffer) return buffer;
  const auto properties =
      checked("asking how to import host memory",
              context.device().getMemoryHostPointerPropertiesEXT(handle, base, context.dispatch()));
  if (!properties) return tl::unexpected(properties.error());
  const auto needs = context.device().getBufferMemoryRequirements(*buffer->buffer, context.dispatch());
  const auto type = memory_type(context, needs.memoryTypeBits & properties->memoryTypeBits,
                                vk::MemoryPropertyFlags(Property::eHostCoherent));
  if (!type || needs.size > bytes)
    return tl::unexpected(fmt::format("Vulkan: {} has no memory type for this host memory: use staged frames",
                                      candidate.info.description));
  const vk::ImportMemoryHostPointerInfoEXT import(handle, base);
  auto given = give_memory(context, *buffer, bytes, *type, &import);
  if (!given) return tl::unexpected(given.error());
  return buffer;
}

}  // namespace xdpgpu::gpu::vulkan
