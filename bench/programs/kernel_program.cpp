// SPDX-License-Identifier: MIT
#include "bench/programs/kernel_program.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "userspace/kernel/logging.hpp"

namespace xdpgpu::bench {
namespace {

using gpu::Result;

bool is_per_cpu(const bpf_map* map) {
  const auto type = bpf_map__type(map);
  return type == BPF_MAP_TYPE_PERCPU_ARRAY || type == BPF_MAP_TYPE_PERCPU_HASH;
}

Result<void> fill(bpf_object* object, const FilledMap& with) {
  const bpf_map* const map = bpf_object__find_map_by_name(object, with.name.c_str());
  if (map == nullptr) return tl::unexpected(fmt::format("it has no map {}", with.name));
  const int cpus = is_per_cpu(map) ? libbpf_num_possible_cpus() : 1;
  const std::size_t each =
      is_per_cpu(map) ? (bpf_map__value_size(map) + 7) / 8 * 8 : bpf_map__value_size(map);
  std::vector<u8> values(each * static_cast<std::size_t>(std::max(cpus, 1)));
  for (const auto& [key, value] : with.entries) {
    if (key.size() != bpf_map__key_size(map) || value.size() != bpf_map__value_size(map))
      return tl::unexpected(fmt::format("its map {} has keys or values of another size", with.name));
    for (std::size_t at = 0; at < values.size(); at += each)
      std::memcpy(values.data() + at, value.data(), value.size());
    if (bpf_map_update_elem(bpf_map__fd(map), key.data(), values.data(), BPF_ANY) != 0)
      return tl::unexpected(fmt::format("its map {} takes no entry: {}", with.name, std::strerror(errno)));
  }
  return {};
}

class Loaded final : public KernelProgram {
 public:
  explicit Loaded(bpf_object* object) : object_(object, bpf_object__close) {}

  Result<void> prepare(const Filter& filter) {
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, object_.get()) bpf_map__set_pin_path(map, nullptr);
    if (bpf_map* const flows = bpf_object__find_map_by_name(object_.get(), "flows");
        flows != nullptr && filter.flows != 0)
      bpf_map__set_max_entries(flows, filter.flows);
    bpf_program* program = bpf_object__next_program(object_.get(), nullptr);
    while (program != nullptr && !filter.again.empty() &&
           filter.again_section != bpf_program__section_name(program))
      program = bpf_object__next_program(object_.get(), program);
    if (program == nullptr) return tl::unexpected(std::string("it has no such program"));
    bpf_program* one = nullptr;
    bpf_object__for_each_program(one, object_.get()) bpf_program__set_type(one, BPF_PROG_TYPE_XDP);
    if (const int error = bpf_object__load(object_.get()); error != 0) {
      const std::string said = kernel::first_library_message();
      return tl::unexpected(fmt::format("the kernel does not load it: {}{}{}", std::strerror(-error),
                                        said.empty() ? "" : ": ", said));
    }
    program_ = bpf_program__fd(program);
    bpf_prog_info info{};
    u32 bytes = sizeof(info);
    compiled_ = bpf_obj_get_info_by_fd(program_, &info, &bytes) == 0 && info.jited_prog_len != 0;
    for (const FilledMap& filled : filter.maps)
      if (auto done = fill(object_.get(), filled); !done) return done;
    return {};
  }

  bool is_compiled() const override { return compiled_; }

  Result<u32> answer(std::span<const u8> packet) const override {
    return run(packet, 1).map([](const Run& one) { return one.answer; });
  }

  Result<double> packets_per_second(std::span<const Sample> samples, u32 repeat, u32 cpus,
                                    double seconds) const override {
    const std::vector<int> usable = usable_cpus();
    std::vector<Result<double>> rates(cpus, 0.0);
    std::vector<std::thread> threads;
    for (u32 i = 0; i < cpus; ++i)
      threads.emplace_back(
          [&, i] { rates[i] = on_one(samples, repeat, usable[i % usable.size()], i, seconds); });
    for (std::thread& thread : threads) thread.join();
    double sum = 0;
    for (const auto& rate : rates) {
      if (!rate) return rate;
      sum += *rate;
    }
    return sum;
  }

 private:
  struct Run {
    u32 answer = 0;
    u32 nanoseconds = 0;  // of one, the mean, rounded down
  };
  Result<Run> run(std::span<const u8> packet, u32 repeat) const {
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet.data(),
                .data_size_in = static_cast<u32>(packet.size()), .repeat = static_cast<int>(repeat));
    if (bpf_prog_test_run_opts(program_, &options) != 0)
      return tl::unexpected(fmt::format("BPF_PROG_TEST_RUN: {}", std::strerror(errno)));
    return Run{options.retval, options.duration};
  }

  // Threads begin with different packets.
  Result<double> on_one(std::span<const Sample> samples, u32 repeat, int cpu, u32 number,
                        double seconds) const {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
      return tl::unexpected(fmt::format("a thread cannot stay on CPU {}: {}", cpu, std::strerror(errno)));
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    double packets = 0, nanoseconds = 0;
    do {
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const Sample& one = samples[(i + number * 31) % samples.size()];
        const auto ran = run(one.packet, repeat);
        if (!ran) return tl::unexpected(ran.error());
        if (ran->answer != one.answer)
          return tl::unexpected(
              fmt::format("the kernel answers {}, and answered {} before", ran->answer, one.answer));
        packets += 1;
        nanoseconds += ran->nanoseconds + 0.5;
      }
    } while (std::chrono::steady_clock::now() < end);
    return packets / nanoseconds * 1e9;
  }

  std::unique_ptr<bpf_object, void (*)(bpf_object*)> object_;
  int program_ = -1;
  bool compiled_ = false;
};

}  // namespace

Result<std::unique_ptr<KernelProgram>> KernelProgram::load(const Filter& filter) {
  if (geteuid() != 0)
    return tl::unexpected(std::string("programs are loaded by root alone: run this with sudo"));
  kernel::quiet_libraries();
  LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "bench_programs");
  const std::string& bytes = filter.again.empty() ? filter.object : filter.again;
  bpf_object* const object = bpf_object__open_mem(bytes.data(), bytes.size(), &options);
  if (object == nullptr)
    return tl::unexpected(fmt::format("libbpf does not read it: {}", std::strerror(errno)));
  auto made = std::make_unique<Loaded>(object);
  if (auto ready = made->prepare(filter); !ready) return tl::unexpected(ready.error());
  return made;
}

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

}  // namespace xdpgpu::bench
