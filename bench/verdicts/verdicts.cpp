// SPDX-License-Identifier: MIT
//
// bench/verdicts: how many verdicts on new flows a second reach the table that the XDP program reads: full
// inserts, with IPv6 keys, the search of the bucket, eviction and the publication protocol, by the writer
// that a worker uses and by devices that write themselves, which also read the packets and decide them. The
// table holds half of the flows, so that from the second pass on nearly every insert takes another flow's
// place. After each pass the XDP program is run on a packet of every flow: it must find exactly the
// verdicts that stand, each on its own flow. Held against system calls that write entries as long.
#include <bpf/bpf.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "bench/device_name.hpp"
#include "bench/rows.hpp"
#include "bench/verdicts/flows.hpp"
#include "bench/verdicts/updates.hpp"
#include "tests/kernel/program.hpp"

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(5);
constexpr double kBar = 50;
constexpr const char* kAgainst = "hash, update_batch";

struct Settings {
  std::vector<std::string> devices{"cpu"};
  u32 flows = 1u << 18;
  u32 batch = 1u << 16;         // packets a batch of a device
  u32 depth = 8;                // batches in flight
  u32 update_batch = 1u << 16;  // entries a bpf_map_update_batch
  int repeats = 3;
  std::string json;
};

struct Pass {
  u64 published = 0, evicted = 0;
  double seconds = 0;
  std::string problem;
};

class Table {
 public:
  explicit Table(const Settings& settings)
      : program_({.queues = 1, .flow_entries_per_queue = settings.flows / 2}),
        entries_(&program_.verdict(0), settings.flows / 2),
        stats_(&program_.stats(0), settings.flows / 2) {
    program_.install(R"({"version": 1, "default": "drop"})");
    flows_ = std::make_unique<Flows>(settings.flows, program_.config(), program_.generation());
  }

  Flows& flows() { return *flows_; }
  std::span<xg_flow_verdict> entries() const { return entries_; }
  std::span<xg_flow_stats> stats() const { return stats_; }
  u32 generation() const { return program_.generation(); }
  u32 port() { return program_.config().port; }

  void clear() {
    std::memset(entries_.data(), 0, entries_.size_bytes());
    std::memset(stats_.data(), 0, stats_.size_bytes());
  }
  void write_rewrites(const gpu::Pipelines& pipelines) {
    u32 index = XG_REWRITE_INDEX(XG_REWRITE_FIRST, generation());
    for (const xg_rewrite& rewrite : pipelines.rewrites()) {
      program_.rewrite(index) = rewrite;
      program_.rewrite(index++).generation = generation();
    }
  }

  // Runs the XDP program on a packet of each flow: what it found wrong, or nothing.
  std::string read_back() {
    const u32 threads = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
    std::vector<std::string> wrong(threads);
    std::vector<u64> hits(threads);
    std::vector<std::thread> readers;
    const u32 share = (flows_->count() + threads - 1) / threads;
    for (u32 t = 0; t < threads; ++t)
      readers.emplace_back([&, t] {
        for (u32 flow = t * share; flow < std::min((t + 1) * share, flows_->count()) && wrong[t].empty();
             ++flow)
          look_up(flow, hits[t], wrong[t]);
      });
    for (std::thread& reader : readers) reader.join();
    for (const std::string& one : wrong)
      if (!one.empty()) return one;
    const u64 found = std::accumulate(hits.begin(), hits.end(), u64{0});
    const auto stand = std::count_if(entries_.begin(), entries_.end(), [&](const xg_flow_verdict& entry) {
      return entry.generation == generation();
    });
    return found == static_cast<u64>(stand)
               ? ""
               : fmt::format("{} verdicts stand, the XDP program acts by {}", stand, found);
  }

 private:
  void look_up(u32 flow, u64& hits, std::string& wrong) {
    Packet in = flows_->packet(flow), out(in.size() + 256);
    LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = in.data(), .data_out = out.data(),
                .data_size_in = static_cast<u32>(in.size()), .data_size_out = static_cast<u32>(out.size()));
    if (bpf_prog_test_run_opts(program_.fd(), &run) != 0) {
      wrong = fmt::format("BPF_PROG_TEST_RUN failed: {}", std::strerror(errno));
      return;
    }
    out.resize(in.size());
    if (run.retval == XG_TX) {
      ++hits;
      const gpu::Mac mac = Flows::mac_of(flows_->backend(flow));
      std::copy_n(in.begin(), 6, in.begin() + 6);
      std::copy(mac.begin(), mac.end(), in.begin());
    } else if (run.retval != XG_DROP) {
      wrong = fmt::format("flow {} got action {}", flow, run.retval);
    }
    if (out != in) wrong = fmt::format("flow {} was sent to another flow's backend", flow);
  }

  test::Program program_;
  std::span<xg_flow_verdict> entries_;
  std::span<xg_flow_stats> stats_;
  std::unique_ptr<Flows> flows_;
};

// The writer that a worker uses, on one thread.
class Writer {
 public:
  explicit Writer(Table& table) : table_(table), writer_(table.entries(), table.stats()) {
    for (u32 i = 0; i < table.flows().count(); ++i) verdicts_.push_back(table.flows().verdict(i));
  }

  Pass pass() {
    Pass pass;
    u64 now = test::monotonic_ns();
    const auto start = Clock::now();
    for (const gpu::FlowVerdict& verdict : verdicts_) {
      const gpu::Published outcome = writer_.publish(verdict, now++);
      pass.published += outcome != gpu::Published::unchanged;
      pass.evicted += outcome == gpu::Published::evicted;
    }
    pass.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return pass;
  }

 private:
  Table& table_;
  gpu::FlowTable writer_;
  std::vector<gpu::FlowVerdict> verdicts_;
};

// A device that writes by itself.
class Deciding {
 public:
  static gpu::Result<std::unique_ptr<Deciding>> open(const std::string& name, Table& table,
                                                     const Settings& settings) {
    const auto named = device_name(name);
    if (!named) return tl::unexpected(named.error());
    auto device = gpu::open_device(named->device);
    if (!device) return tl::unexpected(device.error());
    auto deciding = std::make_unique<Deciding>(*std::move(device), table, settings);
    auto ready = deciding->prepare(named->drive);
    if (!ready) return tl::unexpected(ready.error());
    return deciding;
  }
  Deciding(std::unique_ptr<gpu::Device> device, Table& table, const Settings& settings)
      : table_(table), settings_(settings), device_(std::move(device)) {
    for (u32 i = 0; i < table.flows().count(); ++i) descriptors_.push_back(table.flows().descriptor(i));
  }

  Pass pass() {
    table_.flows().receive_again();
    Pass pass;
    const u32 count = table_.flows().count();
    u32 submitted = 0, done = 0;
    const auto start = Clock::now();
    auto moved = start;
    while (done < count && pass.problem.empty()) {
      while (gpu::Slot* slot = queue_->poll()) {
        take(*slot, firsts_[slot->index], pass);
        done += slot->count;
        queue_->release(slot);
        moved = Clock::now();
      }
      gpu::Slot* slot = submitted < count ? queue_->acquire() : nullptr;
      if (slot == nullptr) {
        if (Clock::now() - moved > kPatience) pass.problem = "the device has answered nothing for 5 s";
        continue;
      }
      const u32 packets = std::min(settings_.batch, count - submitted);
      std::copy_n(descriptors_.begin() + submitted, packets, slot->descriptors);
      firsts_[slot->index] = submitted;
      if (queue_->submit(slot, packets, table_.generation()) != gpu::Submit::ok)
        pass.problem = "the device takes no batch: it is lost";
      submitted += packets;
    }
    pass.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return pass;
  }

 private:
  gpu::Result<void> prepare(gpu::Drive drive) {
    Flows& flows = table_.flows();
    if (auto ok = device_->register_frames(flows.base(), flows.bytes(), gpu::Frames::automatic); !ok)
      return ok;
    std::vector<gpu::FlowTables> tables(table_.port() + 1);
    tables.back() = {.entries = table_.entries(),
                     .stats = table_.stats(),
                     .entries_per_queue = static_cast<u32>(table_.entries().size()),
                     .caches_transmit = true};
    const auto publishes = device_->publish_flows(tables);
    if (!publishes) return tl::unexpected(publishes.error());
    if (!*publishes)
      return tl::unexpected(
          fmt::format("{} leaves the writing to the worker: see the row cpu", device_->info().name));
    auto pipelines = gpu::Pipelines::compile(Flows::pipelines());
    if (!pipelines) return tl::unexpected(pipelines.error());
    if (auto ok = device_->load(table_.generation(), *pipelines); !ok) return ok;
    auto queue = device_->open_queue(
        {.batch_capacity = settings_.batch, .depth = settings_.depth, .drive = drive, .receive_queue = 0});
    if (!queue) return tl::unexpected(queue.error());
    queue_ = *std::move(queue);
    firsts_.resize(settings_.depth);
    return {};
  }

  void take(const gpu::Slot& slot, u32 first, Pass& pass) const {
    if (slot.failed) {
      pass.problem = "the device failed under a batch";
      return;
    }
    for (u32 i = 0; i < slot.count; ++i) {
      const xg_result& result = slot.results[i];
      pass.published += (result.flags & XG_RES_PUBLISHED) != 0;
      pass.evicted += (result.flags & XG_RES_EVICTED) != 0;
      if (result.verdict != table_.flows().result(first + i).verdict)
        pass.problem = fmt::format("flow {} was decided other than by the reference", first + i);
    }
  }

  Table& table_;
  const Settings& settings_;
  std::unique_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Queue> queue_;
  std::vector<xg_descriptor> descriptors_;
  std::vector<u32> firsts_;  // by slot: the first flow of its batch
};

// The first pass finds an empty table and is not counted.
template <class Source>
void measure(Source& source, Table& table, int repeats, Row& row) {
  u64 evicted = 0, published = 0;
  for (int i = -1; i < repeats && row.problem.empty(); ++i) {
    Pass pass = source.pass();
    if (pass.problem.empty()) pass.problem = table.read_back();
    if (pass.problem.empty() && pass.published < table.flows().count() / 2)
      pass.problem = fmt::format("only {} verdicts were published", pass.published);
    row.problem = pass.problem;
    if (i < 0) continue;
    row.runs.push_back(static_cast<double>(pass.published) / pass.seconds);
    evicted += pass.evicted;
    published += pass.published;
  }
  if (published != 0)
    row.note = fmt::format("{:.0f} % evicted another flow's",
                           100 * static_cast<double>(evicted) / static_cast<double>(published));
}

void measure_updates(Rows& rows, Table& table, const Settings& settings) {
  std::vector<xg_flow_verdict> entries;
  for (u32 i = 0; i < table.flows().count(); ++i) {
    const gpu::FlowVerdict flow = table.flows().verdict(i);
    xg_flow_verdict entry{};
    entry.generation = flow.generation;
    entry.action = static_cast<u8>(XG_VERDICT_ACTION(flow.verdict));
    entry.key = flow.key;
    entry.verdict = flow.verdict;
    entry.rewrite = flow.rewrite;
    entries.push_back(entry);
  }
  struct Way {
    const char* name;
    MapKind kind;
    u32 batch;
  };
  for (const Way& way :
       {Way{"hash, update_elem", MapKind::hash, 1}, Way{kAgainst, MapKind::hash, settings.update_batch},
        Way{"array, update_elem", MapKind::array, 1},
        Way{"array, update_batch", MapKind::array, settings.update_batch}}) {
    Row& row = rows.add({.name = way.name, .unit = "M/s", .scale = 1e-6});
    for (int i = 0; i < settings.repeats && row.problem.empty(); ++i)
      row.runs.push_back(update_rate(way.kind, entries, way.batch, row.problem));
  }
}

int run(const Settings& settings) {
  if (const std::string reason = test::why_unavailable(); !reason.empty()) {
    fmt::print(stderr, "bench-verdicts: {}\n", reason);
    return 1;
  }
  Table table(settings);
  const auto pipelines = gpu::Pipelines::compile(Flows::pipelines());
  if (!pipelines) {
    fmt::print(stderr, "bench-verdicts: {}\n", pipelines.error());
    return 1;
  }
  table.write_rewrites(**pipelines);
  Rows rows("verdicts");
  rows["flows"] = settings.flows;
  rows["entries"] = settings.flows / 2;
  rows["batch"] = settings.batch;
  rows["update_batch"] = settings.update_batch;
  rows["repeats"] = settings.repeats;
  measure_updates(rows, table, settings);
  for (const std::string& device : settings.devices) {
    table.clear();
    if (device == "cpu") {
      Row& row = rows.add({.name = "flow verdicts, the worker's writer",
                           .device = device,
                           .unit = "M/s",
                           .scale = 1e-6,
                           .against = kAgainst,
                           .bar = kBar});
      Writer writer(table);
      measure(writer, table, settings.repeats, row);
      continue;
    }
    auto deciding = Deciding::open(device, table, settings);
    if (!deciding) {
      rows.leave_out(fmt::format("{}: {}", device, deciding.error()));
      continue;
    }
    Row& row = rows.add({.name = "flow verdicts, by the device",
                         .device = device,
                         .unit = "M/s",
                         .scale = 1e-6,
                         .against = kAgainst,
                         .bar = kBar});
    measure(**deciding, table, settings.repeats, row);
  }
  fmt::print(
      "{} new IPv6 flows a run, {} bytes an entry, a table of {} entries; median of {} runs. Devices read "
      "and decide a packet of each flow, batches of {}\n\n",
      settings.flows, sizeof(xg_flow_verdict), settings.flows / 2, settings.repeats, settings.batch);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  u32 log2_flows = 18;
  CLI::App app("Flow verdicts a second into the kernel's memory, against map updates by system call");
  app.add_option("--device", settings.devices,
                 "cpu: the writer that a worker uses; a device that writes by itself, as `xdpgpu devices` "
                 "names it, with /persistent behind driven by a resident kernel")
      ->delimiter(',');
  app.add_option("--flows-log2", log2_flows, "2 to the power of this: flows; the table holds half of them")
      ->check(CLI::Range(10, 22));
  app.add_option("--batch", settings.batch, "packets a batch of a device")->check(CLI::Range(1, 65536));
  app.add_option("--depth", settings.depth, "batches in flight")->check(CLI::Range(1, 64));
  app.add_option("--update-batch", settings.update_batch, "entries a bpf_map_update_batch")
      ->check(CLI::Range(2, 1 << 22));
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  settings.flows = 1u << log2_flows;
  try {
    return xdpgpu::bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-verdicts: {}\n", error.what());
    return 1;
  }
}
