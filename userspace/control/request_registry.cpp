// SPDX-License-Identifier: MIT
#include "userspace/control/request_registry.hpp"

// Every file of request/, listed while CMake configures.
#include "userspace/control/request/all.hpp"

namespace xdpgpu::control {
namespace {

// The first one; in place before main begins.
AnyRequest*& first_request() {
  static AnyRequest* first = nullptr;
  return first;
}

}  // namespace

AnyRequest::AnyRequest(std::string_view name, RequestKind kind) noexcept : name_(name), kind_(kind) {
  AnyRequest** at = &first_request();
  while (*at != nullptr && (*at)->name_ < name) at = &(*at)->next_;
  next_ = *at;
  *at = this;
}

const AnyRequest* AnyRequest::find(std::string_view name) noexcept {
  for (const AnyRequest* one = first_request(); one != nullptr; one = one->next_)
    if (one->name_ == name) return one;
  return nullptr;
}

void AnyRequest::each(const std::function<void(const AnyRequest&)>& visit) {
  for (const AnyRequest* one = first_request(); one != nullptr; one = one->next_) visit(*one);
}

}  // namespace xdpgpu::control
