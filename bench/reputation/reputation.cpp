// SPDX-License-Identifier: MIT
//
// bench/reputation: how long it takes from an edited list of two million prefixes to the image that a device
// decides by, step by step as `policy apply` takes them, and in an attach, which is asked for its status all
// the while; and how many addresses a second a device then looks up, whole packets at that, against one CPU
// that does nothing but look up. After each edit all verdicts are checked, the edited one among them.
#include <fmt/format.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "bench/reputation/attached.hpp"
#include "bench/reputation/workload.hpp"
#include "bench/rows.hpp"
#include "gpu/reference/reference.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/compiler/pipelines.hpp"
#include "userspace/control/protocol.hpp"
#include "userspace/control/request/policy_apply.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kBarSeconds = 0.5;         // "well under a second"
constexpr double kStatusBarSeconds = 0.05;  // that an answer may take while a policy is applied
constexpr u32 kReferenceFrames = 48;
constexpr const char* kPlain = "lookups, a hash table a length";

struct Settings {
  WorkloadSettings workload;
  std::vector<std::string> devices{"cpu"};
  u32 batch = 4096, depth = 8;
  int repeats = 5;
  double seconds = 0.3;
  bool attached = true;
  std::string json;
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_all(int fd, std::string& into) {
  return into.empty() || recv(fd, into.data(), into.size(), MSG_WAITALL) == static_cast<ssize_t>(into.size());
}

struct Device {
  std::string name;
  std::unique_ptr<DeviceQueue> queue;
  Row *load, *whole;
};

class Bench {
 public:
  Bench(const Settings& settings, Workload& workload, Rows& rows)
      : settings_(settings), workload_(workload), rows_(rows) {
    for (const char* step :
         {"read the files", "send them to the process", "parse", "kernel tables", "compile"})
      steps_.push_back(&step_row(step, ""));
    for (const std::string& name : settings.devices) {
      auto queue =
          DeviceQueue::open(name, workload.region(), gpu::Frames::automatic, settings.batch, settings.depth);
      if (!queue) {
        rows.leave_out(fmt::format("{}: {}", name, queue.error()));
        continue;
      }
      devices_.push_back({name, *std::move(queue), &step_row("load", name), &step_row("all of it", name)});
    }
  }

  void applies() {
    for (int i = -1; i < settings_.repeats; ++i) {
      workload_.edit();
      if (const std::string problem = apply(i >= 0); !problem.empty()) {
        steps_.front()->problem = problem;
        return;
      }
    }
    for (Device& device : devices_) {
      const bool met = device.whole->median() <= kBarSeconds;
      device.whole->note = fmt::format("at most {:.0f} ms: {}", kBarSeconds * 1e3, met ? "met" : "MISSED");
      rows_["apply"][device.name] = {
          {"seconds", device.whole->median()}, {"bar_seconds", kBarSeconds}, {"met", met}};
    }
  }

  // In an attach, on veth.
  void attached() {
    Row& whole = rows_.add({.name = "policy apply", .device = "attached", .unit = "ms", .scale = 1e3});
    Row& status =
        rows_.add({.name = "longest status meanwhile", .device = "attached", .unit = "ms", .scale = 1e3});
    std::optional<AttachedApply> there;
    try {
      there.emplace();
    } catch (const lab::Error& error) {
      return rows_.leave_out(fmt::format("policy apply, status meanwhile: {}", error.what()));
    }
    unsigned answers = 0;
    for (int i = -1; i < settings_.repeats; ++i) {
      workload_.edit();
      const auto applied = there->apply(workload_.policy_file());
      whole.problem = applied.problem;
      if (!applied.problem.empty()) return;
      if (i < 0) continue;
      whole.runs.push_back(applied.seconds);
      status.runs.push_back(applied.longest_status);
      answers += applied.answers;
    }
    const double longest = *std::max_element(status.runs.begin(), status.runs.end());
    status.note = fmt::format("at most {:.0f} ms: {}, {:.1f} ms the longest of {}", kStatusBarSeconds * 1e3,
                              longest <= kStatusBarSeconds ? "met" : "MISSED", longest * 1e3, answers);
    rows_["status_meanwhile"] = {{"longest_seconds", longest},
                                 {"bar_seconds", kStatusBarSeconds},
                                 {"answers", answers},
                                 {"met", longest <= kStatusBarSeconds}};
  }

  void lookups() {
    Row& plain = rows_.add({.name = kPlain, .device = "one CPU", .unit = "M/s", .scale = 1e-6});
    const u64 right = workload_.look_up_all();
    for (int i = 0; i < settings_.repeats; ++i) {
      const auto start = Clock::now();
      u64 done = 0;
      while (since(start) < settings_.seconds) {
        if (workload_.look_up_all() != right) plain.problem = "lookups differ from run to run";
        done += settings_.workload.frames;
      }
      plain.runs.push_back(static_cast<double>(done) / since(start));
    }
    reference(plain);
    for (Device& device : devices_) {
      Row& row = rows_.add({.name = "packets decided",
                            .device = device.name,
                            .unit = "M/s",
                            .scale = 1e-6,
                            .against = kPlain});
      for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
        const Rate rate = device.queue->run(settings_.seconds);
        row.problem = rate.problem;
        if (i >= 0) row.runs.push_back(rate.packets_per_second);
      }
    }
  }

 private:
  Row& step_row(const std::string& name, const std::string& device) {
    return rows_.add({.name = name, .device = device, .unit = "ms", .scale = 1e3});
  }

  // One edited list's way. Returns what went wrong.
  std::string apply(bool count) {
    std::vector<double> seconds;
    auto start = Clock::now();
    const auto lap = [&] {
      seconds.push_back(since(start));
      start = Clock::now();
    };
    auto read = compiler::read_policy(workload_.policy_file());
    if (!read) return read.error().sentence;
    lap();
    auto source = sent(*std::move(read));
    if (!source) return source.error();
    lap();
    const auto policy = policy::parse(source->text, source->file, policy::read_files_in(source->files));
    if (!policy) return policy.error().front().sentence();
    lap();
    const auto tables = policy::compile(*policy);
    if (!tables) return tables.error().front().sentence();
    lap();
    auto settings = compiler::pipeline_settings(*policy, {"eth0"});
    if (!settings) return settings.error().sentence();
    auto pipelines = gpu::Pipelines::compile(*std::move(settings));
    if (!pipelines) return pipelines.error();
    lap();
    double before = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      before += seconds[i];
      if (count) steps_[i]->runs.push_back(seconds[i]);
    }
    rows_["image_bytes"] = (*pipelines)->image().size() * sizeof(u32);
    for (Device& device : devices_) {
      start = Clock::now();
      if (auto loaded = device.queue->load(*pipelines); !loaded) return loaded.error();
      const double load = since(start);
      if (count) device.load->runs.push_back(load);
      if (count) device.whole->runs.push_back(before + load);
      std::string problem;
      device.queue->expect(workload_.verdicts());
      device.queue->check(problem);
      if (!problem.empty()) return fmt::format("{}: {}", device.name, problem);
    }
    pipelines_ = *std::move(pipelines);
    return {};
  }

  // What the process has of what the command read, over a socket.
  static gpu::Result<compiler::PolicySource> sent(compiler::PolicySource read) {
    using control::PolicyApply;
    const PolicyApply::Arguments arguments{.text = std::move(read.text), .file = std::move(read.file)};
    const control::Request request{std::string(PolicyApply::kName), control::as_json(arguments),
                                   std::move(read.files)};
    const std::string line = control::encode(request);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return tl::unexpected(std::string("no pair of sockets can be had"));
    const kernel::Fd to(ends[0]), from(ends[1]);
    std::thread command([&] {
      bool good = send_all(to.get(), line);
      for (const auto& [path, content] : request.files) good = good && send_all(to.get(), content);
      shutdown(to.get(), SHUT_WR);
    });
    std::string heard(line.size(), '\0');
    bool good = receive_all(from.get(), heard);
    auto decoded = control::decode_request(heard);
    if (decoded)
      for (const auto& [path, bytes] : decoded->announced)
        good = good && receive_all(from.get(), decoded->files[path] = std::string(bytes, '\0'));
    shutdown(from.get(), SHUT_RDWR);  // whatever was not read: the command's thread ends
    command.join();
    if (!decoded) return tl::unexpected(decoded.error());
    if (!good) return tl::unexpected(std::string("the request did not come through the socket"));
    return compiler::PolicySource{decoded->arguments.at("file"), decoded->arguments.at("text"),
                                  std::move(decoded->files)};
  }

  // The sequential reference looks at every prefix for every packet: some frames must do to hold the tables
  // against it.
  void reference(Row& plain) {
    if (pipelines_ == nullptr) return;
    const FrameRegion region = workload_.region();
    const auto frames =
        region.descriptors.first(std::min<std::size_t>(kReferenceFrames, region.descriptors.size()));
    std::vector<xg_result> results(frames.size());
    const auto start = Clock::now();
    gpu::reference::decide({region.base, region.bytes}, frames, DeviceQueue::kGeneration,
                           pipelines_->settings(), results);
    rows_["sequential_reference_per_second"] = static_cast<double>(frames.size()) / since(start);
    const auto verdicts = workload_.verdicts();
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i].verdict != verdicts[i])
        plain.problem = fmt::format("frame {}: the sequential reference says {:#x}, the tables {:#x}", i,
                                    results[i].verdict, verdicts[i]);
  }

  const Settings& settings_;
  Workload& workload_;
  Rows& rows_;
  std::vector<Row*> steps_;
  std::vector<Device> devices_;
  std::shared_ptr<const gpu::Pipelines> pipelines_;
};

int run(Settings settings) {
  settings.workload.frames = settings.batch * settings.depth;
  Rows rows("reputation");
  rows["prefixes"] = settings.workload.prefixes;
  rows["percent_ipv6"] = settings.workload.percent6;
  rows["sorted"] = settings.workload.sorted;
  rows["frames"] = settings.workload.frames;
  rows["batch"] = settings.batch;
  rows["repeats"] = settings.repeats;
  Workload workload(settings.workload);
  rows["feed_bytes"] = workload.feed_bytes();
  Bench bench(settings, workload, rows);
  bench.applies();
  bench.lookups();
  if (settings.attached) bench.attached();
  fmt::print("{} prefixes, {} % of them IPv6, {}, in a file of {:.1f} MiB; median of {} edits\n\n",
             settings.workload.prefixes, settings.workload.percent6,
             settings.workload.sorted ? "sorted" : "in no order",
             static_cast<double>(workload.feed_bytes()) / (1 << 20), settings.repeats);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  CLI::App app("From an edited list of prefixes to the device that decides by it, and lookups a second");
  app.add_option("--device", settings.devices,
                 "compute devices, as `xdpgpu devices` names them; with /persistent behind, driven by a "
                 "resident kernel")
      ->delimiter(',');
  app.add_option("--prefixes", settings.workload.prefixes, "prefixes in the edited list")
      ->check(CLI::Range(100, 3'900'000));
  app.add_option("--ipv6", settings.workload.percent6, "per cent of them that are IPv6")
      ->check(CLI::Range(0, 100));
  app.add_flag("--sorted", settings.workload.sorted, "the list's file is sorted by address");
  app.add_option("--batch", settings.batch, "packets a batch")->check(CLI::Range(64, 65536));
  app.add_option("--depth", settings.depth, "batches in flight")->check(CLI::Range(1, 64));
  app.add_option("--seconds", settings.seconds, "length of a run of lookups")->check(CLI::Range(0.01, 60.0));
  app.add_option("--repeats", settings.repeats, "edits, and runs of lookups")->check(CLI::Range(1, 100));
  app.add_flag("!--not-attached", settings.attached, "leave out the attach, which takes root");
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bench::run(std::move(settings));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-reputation: {}\n", error.what());
    return 1;
  }
}
