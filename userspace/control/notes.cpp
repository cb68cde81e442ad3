// SPDX-License-Identifier: MIT
#include "userspace/control/notes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>

#include <fstream>
#include <set>

#include "maps/packet.h"
#include "userspace/host/interface.hpp"
#include "userspace/policy/notes.hpp"

namespace xdpgpu::control {
namespace {

constexpr u64 kHugePage = u64{2} << 20;

// Pages of 2 MiB that nobody has taken yet; none where the kernel does not tell.
u64 free_huge_pages() {
  std::ifstream file("/proc/meminfo");
  u64 pages = 0;
  for (std::string word; file >> word;)
    if (word == "HugePages_Free:") file >> pages;
  return pages;
}

}  // namespace

AtAttach taken_at_attach(const policy::Policy& policy) {
  policy::Policy only;
  only.io = policy.io;
  only.compute = policy.compute;
  const Json all = Json::parse(policy::to_json(only));
  return {all.at("io"), all.at("compute")};
}

std::optional<std::string> ignored_by_apply(const AtAttach& taken, const policy::Policy& applied) {
  const AtAttach wanted = taken_at_attach(applied);
  std::vector<std::string> differ;
  const auto compare = [&](const char* part, const Json& before, const Json& now) {
    std::set<std::string> keys;
    for (const Json* json : {&before, &now})
      for (const auto& [key, value] : json->items()) keys.insert(key);
    for (const auto& key : keys)
      if (!before.is_object() || before.value(key, Json()) != now.value(key, Json()))
        differ.push_back(fmt::format("{}.{}", part, key));
  };
  compare("io", taken.io, wanted.io);
  compare("compute", taken.compute, wanted.compute);
  if (differ.empty()) return std::nullopt;
  const bool one = differ.size() == 1;
  return fmt::format(
      "{} {} what {} when the interface was attached, whatever an applied policy says; detach and attach "
      "again to change {}",
      fmt::join(differ, ", "), one ? "stays" : "stay", one ? "it was" : "they were", one ? "it" : "them");
}

std::optional<std::string> huge_page_note(const policy::Policy& policy, u64 queues, u64 free_pages) {
  const policy::Io& io = policy.io;
  if (!io.huge_pages) return std::nullopt;
  // With io.burst it is more, by the link.
  const u64 frames = io.burst_ns == 0 ? io.frames_per_queue : io.ring_size + policy.compute.batch;
  const u64 pages = (frames * queues * XG_CHUNK_SIZE + kHugePage - 1) / kHugePage;
  if (pages <= free_pages) return std::nullopt;
  return fmt::format(
      "io.huge_pages: the frames of {} queue{} take {} huge pages of 2 MiB, and {} {} free on this host, so "
      "that attach would take ordinary pages; reserve them before (sysctl vm.nr_hugepages={})",
      queues, queues == 1 ? "" : "s", pages, free_pages, free_pages == 1 ? "is" : "are", pages);
}

std::optional<std::string> huge_page_note(const policy::Policy& policy,
                                          const std::vector<std::string>& interfaces) {
  if (!policy.io.huge_pages) return std::nullopt;
  u64 queues = 0;
  for (const auto& name : interfaces)
    if (const auto facts = host::read_interface(name)) queues += facts->rx_queues;
  return huge_page_note(policy, std::max<u64>(queues, 1), free_huge_pages());
}

std::optional<std::string> missing_interfaces_note(const std::vector<std::string>& interfaces) {
  std::vector<std::string> missing;
  for (const auto& name : interfaces)
    if (if_nametoindex(name.c_str()) == 0) missing.push_back(name);
  if (missing.empty()) return std::nullopt;
  const bool one = missing.size() == 1;
  return fmt::format(
      "there {} no interface{} {} in this network namespace (see \"ip link\"): \"xdpgpu attach\" would "
      "refuse "
      "{}, and what the policy needs of {} was not looked at",
      one ? "is" : "are", one ? "" : "s", fmt::join(missing, ", "), one ? "it" : "them", one ? "it" : "them");
}

std::vector<std::string> notes_here(const policy::Policy& policy,
                                    const std::vector<std::string>& interfaces) {
  auto notes = policy::notes(policy);
  if (auto pages = huge_page_note(policy, interfaces)) notes.push_back(std::move(*pages));
  return notes;
}

}  // namespace xdpgpu::control
