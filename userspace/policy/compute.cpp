// SPDX-License-Identifier: MIT
#include "userspace/policy/compute.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/policy/table_stages.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u64 kMaxWaitNs = 100'000'000;
constexpr u64 kMinRetryNs = 100'000'000, kMaxRetryNs = 3'600'000'000'000;

// "cuda:0", "vulkan:12"
bool is_numbered_device(std::string_view name) {
  for (std::string_view kind : {"cuda:", "vulkan:"})
    if (name.starts_with(kind)) {
      auto number = name.substr(kind.size());
      return !number.empty() && number.size() <= 3 && number.find_first_not_of("0123456789") == number.npos;
    }
  return false;
}

bool is_device(std::string_view name) {
  return name == "auto" || name == "cpu" || name == "cuda" || name == "vulkan" || is_numbered_device(name);
}

void read_device(Report& report, const Place& place, Compute& compute) {
  auto name = read_string(report, place, 4096);
  if (!name) return;
  if (!is_device(*name))
    report.at(place, fmt::format("\"{}\" is no device; it must be \"auto\", \"cpu\", \"cuda\", \"cuda:0\", "
                                 "\"vulkan\" or \"vulkan:0\" (see xdpgpu devices)",
                                 name->substr(0, 80)));
  compute.device = *name;
}

void read_devices(Report& report, const Place& place, Compute& compute) {
  const auto* items = place.node->as<Array>();
  if (items != nullptr && items->size() > kMaxDevices)
    return report.at(
        place, fmt::format("names {} devices, and a process drives at most {}", items->size(), kMaxDevices));
  each_element(report, place, [&](const Place& one) {
    auto name = read_string(report, one, 4096);
    if (!name) return;
    const auto& devices = compute.devices;
    // A kind or "auto" could mean a device that the list has already.
    if (*name != "cpu" && !is_numbered_device(*name))
      report.at(one, fmt::format("\"{}\" names no device of its own; it must be \"cpu\", \"cuda:0\" or "
                                 "\"vulkan:0\", as xdpgpu devices lists them",
                                 name->substr(0, 80)));
    else if (*name != "cpu" && std::find(devices.begin(), devices.end(), *name) != devices.end())
      report.at(one, fmt::format("device \"{}\" stands here twice, which would not make it faster; name "
                                 "each once",
                                 *name));
    compute.devices.push_back(*name);
  });
  if (items != nullptr && items->empty())
    report.at(place, "names no device; name one or more, or leave it out and let \"device\" say");
}

void read_max_wait(Report& report, const Place& place, Compute& compute) {
  const auto ns = read_time(report, place, "50us");
  if (!ns) return;
  if (*ns > kMaxWaitNs)
    report.at(place, fmt::format("{} is too long to hold packets back; at most {}",
                                 *place.node->as<std::string>(), write_duration(kMaxWaitNs)));
  else
    compute.max_wait_ns = *ns;
}

// A time, or false for never.
void read_retry(Report& report, const Place& place, Compute& compute) {
  if (const bool* retry = place.node->as<bool>()) {
    if (*retry) return report.at(place, "is false, or the time after which it is tried, such as \"1s\"");
    compute.retry_ns = 0;
    return;
  }
  const auto ns = read_time(report, place, "1s");
  if (!ns) return;
  if (*ns < kMinRetryNs || *ns > kMaxRetryNs)
    report.at(place, fmt::format("must be {} to {}, or false; is {}", write_duration(kMinRetryNs),
                                 write_duration(kMaxRetryNs), *place.node->as<std::string>()));
  else
    compute.retry_ns = *ns;
}

// A pipeline's state has one home (DESIGN 4.5).
void check_homes(Report& report, const Place& place, const Compute& compute,
                 const std::vector<Pipeline>& pipelines) {
  if (compute.devices.size() < 2) return;
  for (const auto& pipeline : pipelines)
    if (const auto table = table_in(pipeline))
      return report.at(place,
                       fmt::format("pipeline \"{}\" remembers packets ({}), and each of {} devices would "
                                   "remember only its own queues'; name one device, or take the stage out",
                                   pipeline.name, *table, compute.devices.size()));
}

}  // namespace

Compute read_compute(Report& report, const Place& place, const std::vector<Pipeline>& pipelines) {
  Compute compute;
  Fields fields(report, place, keys::kCompute, "\"compute\"");
  const auto device = fields.get("device");
  if (device) read_device(report, *device, compute);
  const auto devices = fields.get("devices");
  if (devices) read_devices(report, *devices, compute);
  if (devices) check_homes(report, *devices, compute, pipelines);
  if (device && devices)
    report.at(*devices, "\"devices\" and \"device\" both say what runs the pipelines; leave one of them out");
  if (auto mode = fields.get("mode"))
    if (auto word = read_word(report, *mode, words::kComputeMode)) compute.mode = words::kComputeMode[*word];
  if (auto frames = fields.get("frames"))
    if (auto word = read_word(report, *frames, words::kComputeFrames))
      compute.frames = words::kComputeFrames[*word];
  if (auto standby = fields.get("standby"))
    if (auto word = read_word(report, *standby, words::kStandby)) compute.standby = words::kStandby[*word];
  if (auto retry = fields.get("retry")) read_retry(report, *retry, compute);
  if (auto batch = fields.get("batch"))
    if (auto value = read_integer(report, *batch, 1, 16384)) compute.batch = static_cast<u32>(*value);
  if (auto wait = fields.get("max_wait")) read_max_wait(report, *wait, compute);
  return compute;
}

}  // namespace xdpgpu::policy
