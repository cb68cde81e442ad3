// SPDX-License-Identifier: MIT
//
// gpu/standby.hpp: a device that another one stands in for once it has failed, at the next batch, and that is
// then tried again.
//
// Batches that the failed device had are decided again, by the standby, from the same descriptors and frames:
// a decision changes no frame. They come back in their order, none of them failed, with Slot::standby set.
// What the failed one may still write goes to memory that nobody reads any more; flow verdicts that it may
// still publish are of generations that the caller is to replace (Device::degraded).
//
// What the failed device remembered is lost. The standby knows none of the connections that were open, and so
// its conntrack stages are all loose: they take connections up in the middle. So are those of the device when
// it is back, which knows nothing of what the standby saw.
//
// It is tried again by opening it anew, beside the failed one, which stays as it is: in a thread of its own,
// as a driver may take its time, or for ever. It decides again when it has every generation, and no batch
// that the standby decided is in the worker's hands: so a receive queue's flow verdicts have one writer at
// any time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu {

struct StandbyOptions {
  // A batch that the device has had for so long will not come back: longer than any that it is given takes.
  u64 hung_ns = 1'000'000'000;
  // Opens the device once more. Without one it has failed for good. Called in another thread.
  std::function<Result<std::unique_ptr<Device>>()> reopen{};
  // Until it is tried again; twice as long after each time that it could not be opened, or failed within
  // kStandbyPatience, up to that.
  std::chrono::nanoseconds retry{std::chrono::seconds(1)};
};
inline constexpr std::chrono::minutes kStandbyPatience{1};
// A device that has failed so often is not tried again.
inline constexpr u32 kStandbyLives = 5;

// Both without frame region, generations and queues yet; `standby` decides in the thread that submits, as the
// CPU device does. The result is called as `device` is (info(), frames(), drives), and decides as it does.
std::unique_ptr<Device> with_standby(std::unique_ptr<Device> device, std::unique_ptr<Device> standby,
                                     const StandbyOptions& options = {});

}  // namespace xdpgpu::gpu
