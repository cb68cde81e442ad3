// SPDX-License-Identifier: MIT
//
// gpu/vulkan/vk.hpp: vulkan.hpp as this device uses it: no exceptions, no link to the loader, functions
// from a dispatcher of one's own (nothing global), results as Result<T>.
#pragma once

#define VK_NO_PROTOTYPES
#define VULKAN_HPP_DISPATCH_LOADER_DYNAMIC 1
#define VULKAN_HPP_NO_EXCEPTIONS
// Errors are looked at by the caller; the default would abort.
#define VULKAN_HPP_ASSERT_ON_RESULT(condition) static_cast<void>(condition)
#include <fmt/format.h>

#include <vulkan/vulkan.hpp>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu::vulkan {

using Dispatch = vk::DispatchLoaderDynamic;
template <class Handle>
using Unique = vk::UniqueHandle<Handle, Dispatch>;

inline tl::unexpected<std::string> failure(const char* what, vk::Result result) {
  return tl::unexpected(fmt::format("Vulkan: {} failed: {}", what, vk::to_string(result)));
}

// `what` says what was tried: "creating the device".
template <class T>
Result<T> checked(const char* what, vk::ResultValue<T> value) {
  if (value.result != vk::Result::eSuccess) return failure(what, value.result);
  return std::move(value.value);
}
inline Result<void> checked(const char* what, vk::Result result) {
  if (result != vk::Result::eSuccess) return failure(what, result);
  return {};
}

}  // namespace xdpgpu::gpu::vulkan
