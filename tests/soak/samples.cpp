// SPDX-License-Identifier: MIT
#include "tests/soak/samples.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/netns/control_socket.hpp"
#include "tests/netns/product.hpp"

namespace xdpgpu::soak {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kColumns = std::to_array<std::array<const char*, 2>>({
    {"time", "s"},
    {"life", ""},
    {"broker_memory", "KiB"},
    {"data_plane_memory", "KiB"},
    {"kernel_maps_memory", "KiB"},
    {"sent", "packets"},       // by the far ends, since the life began
    {"accounted", "packets"},  // passed, dropped, sent on, or an error
    {"balance", "packets"},    // sent less accounted
    {"frames_free", "frames"},
    {"frames_fill", "frames"},
    {"frames_batch", "frames"},
    {"frames_tx", "frames"},
    {"rx_rings", "descriptors"},
    {"tx_rings", "descriptors"},
    {"in_user_space", "packets"},
});

// Of all maps that these processes hold, each once; null where the kernel does not say.
json kernel_maps_kib(const std::vector<pid_t>& pids) {
  std::map<std::uint64_t, std::uint64_t> bytes_by_map;
  for (const pid_t pid : pids) {
    std::error_code gone;
    for (auto entry = std::filesystem::directory_iterator(fmt::format("/proc/{}/fdinfo", pid), gone);
         !gone && entry != std::filesystem::directory_iterator(); entry.increment(gone)) {
      std::ifstream file(entry->path());
      std::uint64_t bytes = 0, map = 0, value = 0;
      for (std::string word; file >> word;) {
        if (word == "memlock:" && file >> value) bytes = value;
        if (word == "map_id:" && file >> value) map = value;
      }
      if (map != 0) bytes_by_map[map] = bytes;
    }
  }
  std::uint64_t sum = 0;
  for (const auto& [map, bytes] : bytes_by_map) sum += bytes;
  return sum == 0 ? json() : json(sum >> 10);
}

json memory_or_null(pid_t pid) {
  const std::int64_t kib = own_memory_kib(pid);
  return kib == 0 ? json() : json(kib);
}

std::uint64_t accounted_in(const json& report) {
  std::uint64_t sum = 0;
  for (const char* end : {"pass", "drop", "tx", "redirect", "error"})
    sum += report.at("packets").at(end).get<std::uint64_t>();
  return sum;
}

void add_queue_levels(json& sample, const json& report) {
  std::uint64_t rx = 0, tx = 0, inside = 0;
  for (const json& port : report.at("ports"))
    for (const json& queue : port.at("queues")) {
      const json& rings = queue.at("metrics").at("rings");
      rx += rings.at("rx").at("now").get<std::uint64_t>();
      tx += rings.at("tx").at("now").get<std::uint64_t>();
      inside += queue.at("in_user_space").get<std::uint64_t>();
    }
  sample["rx_rings"] = rx;
  sample["tx_rings"] = tx;
  sample["in_user_space"] = inside;
}

}  // namespace

std::int64_t own_memory_kib(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string word; file >> word;)
    if (word == "RssAnon:") {
      std::int64_t kib = 0;
      file >> kib;
      return kib;
    }
  return 0;
}

Sampler::Sampler(std::chrono::milliseconds every) : every_(every), thread_([this] { loop(); }) {}

Sampler::~Sampler() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::size_t Sampler::taken() const {
  const std::lock_guard lock(mutex_);
  return rows_.size();
}

json Sampler::json() const {
  const std::lock_guard lock(mutex_);
  nlohmann::json columns = nlohmann::json::array();
  for (const auto& [name, unit] : kColumns) columns.push_back({{"name", name}, {"unit", unit}});
  return {{"every_s", std::chrono::duration<double>(every_).count()},
          {"columns", std::move(columns)},
          {"rows", rows_}};
}

void Sampler::loop() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (pid_ != 0) take();
    changed_.wait_for(lock, every_, [&] { return ended_; });
  }
}

void Sampler::take() {
  nlohmann::json sample{
      {"time", std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()},
      {"life", life_}};
  try {
    std::vector<pid_t> pids = lab::but_for_the_compiler(pid_);
    sample["broker_memory"] = memory_or_null(pid_);
    if (!pids.empty()) sample["data_plane_memory"] = memory_or_null(pids.back());
    pids.push_back(pid_);
    sample["kernel_maps_memory"] = kernel_maps_kib(pids);
    const nlohmann::json answer = lab::ask(wires_.front()->a().ifname(), "status", {}, {}, 2s);
    // After the answer: what was sent before it is in it, so the balance is what is under way, and never less
    // than 0.
    std::uint64_t sent = 0;
    for (std::size_t i = 0; i < wires_.size(); ++i)
      sent += wires_[i]->b().counters().tx_packets - sent_before_[i];
    const nlohmann::json& report = answer.at("result");
    const std::uint64_t accounted = accounted_in(report) - accounted_before_;
    sample["sent"] = sent;
    sample["accounted"] = accounted;
    sample["balance"] = static_cast<std::int64_t>(sent - accounted);
    for (const char* owner : {"free", "fill", "batch", "tx"})
      sample[std::string("frames_") + owner] = report.at("frames").at(owner);
    add_queue_levels(sample, report);
  } catch (const std::exception&) {
    // A data plane that stands still, or dies, answers nothing: the rest of the row is null.
  }
  nlohmann::json row = nlohmann::json::array();
  for (const auto& [name, unit] : kColumns) row.push_back(sample.value(name, nlohmann::json()));
  rows_.push_back(std::move(row));
}

Watch::Watch(Sampler& sampler, pid_t pid, std::vector<const lab::Veth*> wires) : sampler_(sampler) {
  const std::lock_guard lock(sampler.mutex_);
  sampler.sent_before_.clear();
  for (const auto* wire : wires) sampler.sent_before_.push_back(wire->b().counters().tx_packets);
  // An attach that takes over from a killed one counts on.
  sampler.accounted_before_ =
      accounted_in(lab::ask(wires.front()->a().ifname(), "status", {}, {}, 10s).at("result"));
  sampler.wires_ = std::move(wires);
  sampler.pid_ = pid;
  ++sampler.life_;
}

Watch::~Watch() {
  const std::lock_guard lock(sampler_.mutex_);
  sampler_.pid_ = 0;
}

}  // namespace xdpgpu::soak
