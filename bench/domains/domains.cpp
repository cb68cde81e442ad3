// SPDX-License-Identifier: MIT
//
// bench/domains: how long a list of millions of names takes from its file's text to the device, and DNS
// queries a second that a device decides by it, from frames that lie as a NIC lays them to verdicts in host
// memory. One query in `--hits` asks for a name of the list, or one beneath it. Held against the same frames
// in a pipeline that reads their headers alone, and against one CPU that has the names in a
// std::unordered_set and looks a name's labels up from strings that are there already. All verdicts are
// checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <random>
#include <string_view>
#include <unordered_set>

#include "bench/pages.hpp"
#include "bench/rows.hpp"
#include "bench/umem/queue.hpp"
#include "maps/parse.h"
#include "userspace/compiler/pipelines.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kPlain = "names looked up in a hash set";
constexpr const char* kHeaders = "headers alone";
constexpr const char* kPolicy =
    R"({"version": 1, "lists": {"names": {"type": "domain", "file": "names", "subdomains": true}},
  "pipelines": {"dns": [{"stage": "domains", "lists": [{"list": "@names", "action": "drop"}], "default": "pass"}]}})";
constexpr double kBarSeconds = 10;  // "in seconds"
constexpr double kBarRate = 50e6;

struct Settings {
  std::vector<std::string> devices{"cpu"};
  u32 names = 10'000'000;
  u32 hits = 10;
  u32 batch = 4096, depth = 16;
  double seconds = 1;
  int repeats = 5;
  std::string json;
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The i-th of as many names as one likes, none beneath another: 17 to 24 bytes.
std::string name_of(u32 i) {
  static constexpr std::string_view kTop[] = {"com", "net", "org", "info", "example", "co.uk"};
  return fmt::format("{:08x}-{}.{}", i * 2654435761u, i % 100000, kTop[i % std::size(kTop)]);
}

void put16(std::vector<u8>& to, u32 value) {
  to.push_back(static_cast<u8>(value >> 8));
  to.push_back(static_cast<u8>(value));
}

std::vector<u8> query(std::string_view name, u32 id) {
  std::vector<u8> dns;
  put16(dns, id);
  for (const u32 word : {0x0100u, 1u, 0u, 0u, 0u}) put16(dns, word);
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    dns.push_back(static_cast<u8>(end - at));
    for (; at < end; ++at) dns.push_back(static_cast<u8>(name[at]));
    ++at;
  }
  dns.push_back(0);
  put16(dns, 1);
  put16(dns, 1);
  std::vector<u8> frame(12, 2);
  put16(frame, 0x0800);
  put16(frame, 0x4500);
  put16(frame, static_cast<u32>(28 + dns.size()));
  for (const u32 word : {0u, 0u, 0x4011u, 0u, 0x0a00u, id & 0xffffu, 0xc000u, 0x0201u}) put16(frame, word);
  put16(frame, 1024 + id % 60000);
  put16(frame, 53);
  put16(frame, static_cast<u32>(8 + dns.size()));
  put16(frame, 0);
  frame.insert(frame.end(), dns.begin(), dns.end());
  return frame;
}

class Bench {
 public:
  Bench(const Settings& settings, Rows& rows)
      : settings_(settings),
        rows_(rows),
        frames_(settings.batch * settings.depth),
        pages_(u64{frames_} * XG_CHUNK_SIZE, false),
        descriptors_(frames_) {
    for (u32 i = 0; i < settings.names; ++i) text_ += name_of(i) + "\n";
    write_frames();
    for (const std::string& name : settings.devices) {
      auto queue = DeviceQueue::open(name, {pages_.base(), pages_.bytes(), descriptors_},
                                     gpu::Frames::automatic, settings.batch, settings.depth);
      if (queue)
        devices_.push_back({name, *std::move(queue), &step(fmt::format("load"), name)});
      else
        rows.leave_out(fmt::format("{}: {}", name, queue.error()));
    }
  }

  u64 list_bytes() const { return text_.size(); }

  void loads() {
    Row &parse = step("parse", ""), &compile = step("compile", ""), &whole = step("parse and compile", "");
    const policy::FileReader files(
        [&](const std::string&) { return policy::FileText(policy::FileText(), &text_); },
        [](const std::string& pattern) { return std::vector<std::string>{pattern}; });
    for (int i = 0; i < std::min(settings_.repeats, 3); ++i) {
      auto start = Clock::now();
      const auto policy = policy::parse(kPolicy, "policy.json", files);
      if (!policy) throw std::runtime_error(policy.error().front().sentence());
      parse.runs.push_back(since(start));
      start = Clock::now();
      auto settings = compiler::pipeline_settings(*policy, {"eth0"});
      if (!settings) throw std::runtime_error(settings.error().sentence());
      auto compiled = gpu::Pipelines::compile(*std::move(settings), {{1, 2}});
      if (!compiled) throw std::runtime_error(compiled.error());
      compile.runs.push_back(since(start));
      whole.runs.push_back(parse.runs.back() + compile.runs.back());
      pipelines_ = *std::move(compiled);
      rows_["image_bytes"] = pipelines_->image().size() * sizeof(u32);
      for (Device& device : devices_) {
        start = Clock::now();
        if (const auto loaded = device.queue->load(pipelines_); !loaded)
          throw std::runtime_error(loaded.error());
        device.load->runs.push_back(since(start));
      }
    }
    const bool met = whole.median() <= kBarSeconds;
    whole.note = fmt::format("at most {:.0f} s: {}", kBarSeconds, met ? "met" : "MISSED");
  }

  void lookups() {
    plain();
    for (Device& device : devices_) {
      Row& headers = rate(kHeaders, device.name);
      if (const auto loaded = device.queue->load(headers_alone()); !loaded)
        throw std::runtime_error(loaded.error());
      device.queue->expect(std::vector<u32>(frames_, XG_VERDICT(XG_PASS, 0u, 1u, 0u)));
      run(device, headers);
      if (const auto loaded = device.queue->load(pipelines_); !loaded)
        throw std::runtime_error(loaded.error());
      device.queue->expect(verdicts_);
      Row& decided = rate("queries decided", device.name);
      decided.against = kPlain;
      run(device, decided);
      decided.note = fmt::format("{:.2f} of headers alone", decided.median() / headers.median());
      if (device.name.starts_with("cuda"))
        decided.note += fmt::format("; at least {:.0f} M/s: {}", kBarRate * 1e-6,
                                    decided.median() >= kBarRate ? "met" : "MISSED");
    }
  }

 private:
  struct Device {
    std::string name;
    std::unique_ptr<DeviceQueue> queue;
    Row* load;
  };

  Row& step(const std::string& name, const std::string& device) {
    return rows_.add({.name = name, .device = device, .unit = "ms", .scale = 1e3});
  }
  Row& rate(const std::string& name, const std::string& device) {
    return rows_.add({.name = name, .device = device, .unit = "M/s", .scale = 1e-6});
  }
  static std::shared_ptr<const gpu::Pipelines> headers_alone() {
    gpu::AclSettings all;
    all.otherwise = gpu::Action::pass;
    return gpu::Pipelines::compile({{"all", {all}}}).value();
  }
  void run(Device& device, Row& row) {
    for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
      const Rate measured = device.queue->run(settings_.seconds);
      row.problem = measured.problem;
      if (i >= 0) row.runs.push_back(measured.packets_per_second);
    }
  }

  void write_frames() {
    std::mt19937_64 random(7);
    for (u32 i = 0; i < frames_; ++i) {
      const bool hit = random() % settings_.hits == 0;
      std::string name = name_of(static_cast<u32>(random() % settings_.names) + (hit ? 0 : settings_.names));
      if (random() % 2 != 0) name.insert(0, "www.");
      const std::vector<u8> packet = query(name, i);
      const u64 at = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
      u8* const frame = pages_.base() + at;
      std::memcpy(frame, packet.data(), packet.size());
      const auto bytes = std::max(static_cast<u32>(packet.size()), 60u);
      xg_packet parsed;
      xg_parse(frame, frame + bytes, 0, &parsed);
      xg_metadata metadata{};
      metadata.rx_time_ns = i + 1;
      metadata.generation = DeviceQueue::kGeneration;
      metadata.sequence = i;
      xg_metadata_from(&metadata, &parsed, i);
      std::memcpy(frame - sizeof(metadata), &metadata, sizeof(metadata));
      descriptors_[i] = {at, bytes, 0};
      verdicts_.push_back(hit ? XG_VERDICT(XG_DROP, 0u, 1u, 1u) : XG_VERDICT(XG_PASS, 0u, 1u, 0u));
      asked_.push_back(std::move(name));
    }
  }

  // Each suffix of a name in a set of the list's names.
  void plain() {
    Row& row = rate(kPlain, "one CPU");
    std::unordered_set<std::string_view> set;
    set.reserve(settings_.names);
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = text_.find('\n', at);
      set.insert(std::string_view(text_).substr(at, end - at));
      at = end + 1;
    }
    for (int i = 0; i < settings_.repeats; ++i) {
      const auto start = Clock::now();
      u64 done = 0;
      while (since(start) < settings_.seconds) {
        for (u32 frame = 0; frame < frames_; ++frame) {
          bool found = false;
          for (std::string_view name = asked_[frame];;) {
            found |= set.contains(name);
            const auto dot = name.find('.');
            if (dot == std::string_view::npos) break;
            name.remove_prefix(dot + 1);
          }
          if (found != (XG_VERDICT_ACTION(verdicts_[frame]) == XG_DROP)) row.problem = "a name is not found";
        }
        done += frames_;
      }
      row.runs.push_back(static_cast<double>(done) / since(start));
    }
  }

  const Settings& settings_;
  Rows& rows_;
  const u32 frames_;
  Pages pages_;
  std::vector<xg_descriptor> descriptors_;
  std::string text_;  // of the list's file
  std::vector<std::string> asked_;
  std::vector<u32> verdicts_;
  std::vector<Device> devices_;
  std::shared_ptr<const gpu::Pipelines> pipelines_;
};

int run(const Settings& settings) {
  Rows rows("domains");
  rows["names"] = settings.names;
  rows["hits_one_in"] = settings.hits;
  rows["batch"] = settings.batch;
  rows["frames"] = settings.batch * settings.depth;
  rows["repeats"] = settings.repeats;
  Bench bench(settings, rows);
  rows["list_bytes"] = bench.list_bytes();
  bench.loads();
  bench.lookups();
  fmt::print("{} names in a list of {:.1f} MiB; one query in {} asks for one of them\n\n", settings.names,
             static_cast<double>(bench.list_bytes()) / (1 << 20), settings.hits);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  CLI::App app("From a list of names to the device that decides by it, and DNS queries a second");
  app.add_option("--device", settings.devices,
                 "compute devices, as `xdpgpu devices` names them; with /persistent behind, driven by a "
                 "resident kernel")
      ->delimiter(',');
  app.add_option("--names", settings.names, "names in the list")->check(CLI::Range(100, 15'000'000));
  app.add_option("--hits", settings.hits, "one query in so many asks for a name of the list")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--batch", settings.batch, "packets a batch")->check(CLI::Range(64, 65536));
  app.add_option("--depth", settings.depth, "batches in flight")->check(CLI::Range(1, 64));
  app.add_option("--seconds", settings.seconds, "length of a run of look-ups")->check(CLI::Range(0.01, 60.0));
  app.add_option("--repeats", settings.repeats, "runs of look-ups")->check(CLI::Range(1, 100));
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-domains: {}\n", error.what());
    return 1;
  }
}
