// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/throughput/forwarders.hpp"

namespace xdpgpu::throughput {
namespace {

std::string policy(const Site& site, bool cached) {
  return fmt::format(
      R"({{
    "version": 1, "default": "drop", "on_failure": "drop", "on_overload": "drop", "fragments": "inspect",
    "rules": [{{ "name": "test traffic", "match": {{ "dst": "198.19.0.0/24" }}, "action": {{ "inspect": "route" }} }}],
    "pipelines": {{ "route": [{{ "stage": "forward",
      "next_hops": {{ "out": {{ "mac": "{}", "src_mac": "{}", "to": "{}" }} }},
      "routes": [{{ "prefix": "198.19.0.0/24", "next_hop": "out" }}],
      "cache": {} }}] }}{} }})",
      lab::to_string(site.next_hop()), lab::to_string(site.out().mac()), site.out().ifname(), cached,
      site.heartbeat().empty() ? "" : fmt::format(R"(, "io": {{ "heartbeat": "{}" }})", site.heartbeat()));
}

class Product : public Dut {
 public:
  Product(const Site& site, const std::string& device, bool cached) : cached_(cached) {
    site.let_stack_take(true, false);
    run_on(site.cpu());  // and so what is started now
    lab::AttachSpec spec{.interfaces = {site.in().ifname(), site.out().ifname()},
                         .policy = policy(site, cached),
                         .more = {"--device", device},
                         .device_by_policy = true};
    if (site.on_nics()) {
      constexpr unsigned kPatienceS = 240;
      spec.more.insert(spec.more.end(), {"--mode", "zero-copy"});
      spec.mode_by_policy = true;
      spec.patience_s = kPatienceS;
    }
    attached_.emplace(site.ns(), spec);
  }
  std::string account(u64 frames) override {
    const lab::Pins& pins = attached_->pins(0);
    const u64 worker = pins.worker("redirected"), kernel = pins.kernel("redirect_flow");
    if (worker + kernel < frames)
      return fmt::format("{} frames arrived, {} were sent by user space and {} by the kernel", frames, worker,
                         kernel);
    if (!cached_ && kernel != 0)
      return fmt::format("the kernel sent {} frames on by itself, though nothing is cached", kernel);
    if (cached_ && kernel < worker)
      return fmt::format("user space sent {} frames and the kernel {}, though verdicts are cached", worker,
                         kernel);
    return {};
  }

 private:
  bool cached_;
  std::optional<lab::Attached> attached_;
};

}  // namespace

std::unique_ptr<Dut> xdpgpu_attached(const Site& site, const std::string& device, bool cached) {
  return std::make_unique<Product>(site, device, cached);
}

}  // namespace xdpgpu::throughput
