// SPDX-License-Identifier: MIT
#include "tests/netns/on_the_wire.hpp"

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>

#include <charconv>

namespace xdpgpu::lab {

void PrintTo(const Config& config, std::ostream* out) {
  *out << (config.generic ? "generic XDP, " : "native XDP, ") << config.queues << " queues";
  if (!config.mode.empty()) *out << ", mode " << config.mode;
}

std::string config_name(const testing::TestParamInfo<Config>& info) {
  return fmt::format("{}_{}queue{}{}{}", info.param.generic ? "generic" : "native", info.param.queues,
                     info.param.queues == 1 ? "" : "s", info.param.mode.empty() ? "" : "_", info.param.mode);
}

namespace {

std::string with_mode(const std::string& policy, const std::string& mode) {
  if (mode.empty()) return policy;
  Json json = Json::parse(policy);
  json["compute"]["mode"] = mode;
  return json.dump();
}

}  // namespace

void OnOneWire::SetUp() {
  if (const std::string reason = why_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  // What is looked at is what xdpgpu does with its packets, and not how long it has to wait for a core while
  // compilers run: this thread, and all that it starts, go first. Where that may not be, it goes without.
  setpriority(PRIO_PROCESS, 0, -15);
  const std::string device = device_under_test();
  if ((config_.mode == "graph" && !device.starts_with("cuda")) ||
      (config_.mode == "persistent" && device.starts_with("vulkan")))
    GTEST_SKIP() << device << " cannot be driven so: " << config_.mode;
  host_.emplace("host");
  left_.emplace("left");
  right_.emplace("right");
  // Pins and sockets go by the interface's name and are shared by all namespaces: unique to this process.
  const std::string prefix = fmt::format("xg{:x}", getpid());
  const VethOptions options{.queues = config_.queues};
  left_wire_.emplace(*host_, prefix + "a", *left_, prefix + "l", options);
  right_wire_.emplace(*host_, prefix + "b", *right_, prefix + "r", options);
  left_wire_->address("10.9.0.1/24", "10.9.0.2/24");
  left_wire_->address("fd09:0::1/64", "fd09:0::2/64");
  right_wire_->address("10.9.1.1/24", "10.9.1.2/24");
  right_wire_->address("fd09:1::1/64", "fd09:1::2/64");
  left_wire_->up();
  right_wire_->up();
  left_wire_->checksums_in_software();
  right_wire_->checksums_in_software();
}

void OnOneWire::TearDown() {
  if (!host_) return;
  const bool failed = HasFailure();
  if (failed && attached_)
    ADD_FAILURE() << "counted: " << attached_->pins().summary()
                  << "\nxdpgpu attach said: " << attached_->process().err();
  attached_.reset();
  if (failed) return;
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
}

void OnOneWire::attach(const std::string& policy, std::vector<std::string> more) {
  attached_ = std::make_unique<Attached>(*host_, AttachSpec{{host_port().ifname()},
                                                            with_mode(policy, config_.mode),
                                                            config_.generic,
                                                            config_.queues,
                                                            std::move(more)});
}

void OnOneWire::attach_both(const std::string& policy, std::vector<std::string> more) {
  attached_ = std::make_unique<Attached>(*host_, AttachSpec{{host_port().ifname(), host_second().ifname()},
                                                            with_mode(policy, config_.mode),
                                                            config_.generic,
                                                            config_.queues,
                                                            std::move(more)});
}

PacketSpec OnOneWire::from_left(std::uint16_t src_port, std::uint16_t dst_port, std::string payload) const {
  return {.src = left_port().mac(),
          .dst = host_port().mac(),
          .src_ip = "10.9.0.2",
          .dst_ip = "10.9.0.1",
          .src_port = src_port,
          .dst_port = dst_port,
          .payload = std::move(payload)};
}

std::vector<Frame> OnOneWire::numbered(std::uint16_t src_port, std::uint16_t dst_port,
                                       std::size_t count) const {
  PacketSpec spec = from_left(src_port, dst_port, "");
  std::vector<Frame> frames;
  frames.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    spec.payload = fmt::format("seq {}", i);
    frames.push_back(build(spec));
  }
  return frames;
}

std::vector<Frame> OnOneWire::many_flows(std::uint16_t dst_port, std::size_t flows, std::size_t each) const {
  PacketSpec spec = from_left(0, dst_port, "");
  std::vector<Frame> frames;
  frames.reserve(flows * each);
  for (std::size_t i = 0; i < each; ++i)
    for (std::size_t flow = 0; flow < flows; ++flow) {
      spec.src_port = static_cast<std::uint16_t>(20000 + flow);
      spec.payload = fmt::format("seq {}", i);
      frames.push_back(build(spec));
    }
  return frames;
}

void OnOneWire::expect_conserved(const Pins& pins) const {
  // Packets may still be in a ring or a batch; a count that never comes right is the failure. What is judged
  // is what was read last: a host that asks for its neighbour sends one more at any time.
  Pins::Counts kernel, worker;
  eventually([&] {
    kernel = pins.kernel_counts();
    worker = pins.worker_counts();
    return kernel.at("received") == Pins::outcomes(kernel) &&
           kernel.at("inspected") == worker.at("received") + worker.at("lost_in_kernel") &&
           worker.at("received") == Pins::ends(worker);
  });
  EXPECT_EQ(kernel.at("received"), Pins::outcomes(kernel));
  EXPECT_EQ(kernel.at("inspected"), worker.at("received") + worker.at("lost_in_kernel"));
  EXPECT_EQ(worker.at("received"), Pins::ends(worker));
}

std::string policy(const std::string& members) {
  return fmt::format(R"({{"version": 1{}{}}})", members.empty() ? "" : ", ", members);
}

std::string inspect_udp(std::uint16_t port, const std::string& stages, const std::string& members) {
  return policy(fmt::format(
      R"("rules": [{{"name": "probe", "match": {{"proto": "udp", "dst_port": {}}}, "action": {{"inspect": "p"}}}}],
         "pipelines": {{"p": [{}]}}{}{})",
      port, stages, members.empty() ? "" : ", ", members));
}

std::string inspect_all(const std::string& stages, const std::string& members) {
  return policy(fmt::format(R"("rules": [{{"name": "all", "match": {{}}, "action": {{"inspect": "p"}}}}],
                               "pipelines": {{"p": [{}]}}{}{})",
                            stages, members.empty() ? "" : ", ", members));
}

std::optional<std::uint64_t> sequence_of(std::string_view payload) {
  if (!payload.starts_with("seq ")) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(payload.data() + 4, payload.data() + payload.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

std::vector<Frame> sorted_frames(const std::vector<Captured>& captured) {
  std::vector<Frame> frames;
  frames.reserve(captured.size());
  for (const Captured& c : captured) frames.push_back(c.frame);
  std::sort(frames.begin(), frames.end());
  return frames;
}

std::vector<std::uint64_t> sequences(const std::vector<Captured>& frames, std::uint16_t src_port) {
  std::vector<std::uint64_t> result;
  for (const Captured& captured : frames) {
    const auto packet = parse(captured.frame);
    if (!packet || packet->src_port != src_port) continue;
    if (const auto number = sequence_of(packet->payload)) result.push_back(*number);
  }
  return result;
}

}  // namespace xdpgpu::lab
