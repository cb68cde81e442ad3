// SPDX-License-Identifier: MIT
//
// bench/signatures: payloads that a device searches for thousands of patterns, by the stage `signatures`:
// from frames that lie as a NIC lays them to verdicts and alerts in host memory. Each pattern is a rule of
// its own, for any packet. Held against a pipeline that reads the headers alone; on a GPU, against a plain
// kernel that reads the same frames and writes as many results; and against Vectorscan with the same patterns
// and bytes. All verdicts and alerts of all rows are checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "bench/cuda/ceilings.hpp"
#include "bench/rows.hpp"
#include "bench/signatures/frames.hpp"
#include "bench/signatures/traffic.hpp"
#include "bench/signatures/vectorscan.hpp"
#include "gpu/reference/read.hpp"
#include "gpu/reference/reference.hpp"
#include "gpu/reference/signature.hpp"

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPlainBar = 0.85, kMadeBar = 0.5;  // of the plain kernel
constexpr double kGpuBar = 100, kCpuBar = 0.8;      // times Vectorscan on one core
constexpr double kStreamsBar = 0.7;                 // of the plain kernel
constexpr double kElephantBar = 20;                 // Gb/s of one flow
constexpr u32 kGpuFrames = 131072, kMostDepth = 64;
constexpr u32 kPasses = 10;  // of the plain kernel, a run

struct Settings {
  std::vector<std::string> devices{"cpu"};
  std::vector<u32> batches{1024, 65536};
  std::vector<u32> patterns{5000, 20000, 40000};
  std::vector<u32> sizes{512, 1500};
  std::vector<std::string> rules;
  std::vector<std::string> only;
  std::vector<u32> flows{100000, 1, 1000000};
  u32 different = 2048;
  u32 reference = 4;
  int repeats = 3;
  double seconds = 0.2;
  bool searches_alone = false;
  std::string json;

  void be_quick() {
    batches = {256};
    patterns = {1000};
    sizes = {512};
    different = 128;
    flows = {64, 1};
    repeats = 1;
    seconds = 0.02;
  }
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What is right for each of the different packets.
struct Answers {
  std::vector<std::vector<u32>> patterns;  // that stand in the payload
  std::vector<u32> verdicts;
  std::vector<xg_alerts> alerts;
  u64 hits = 0, limits = 0;
};

// One number of patterns, compiled.
struct Rules {
  std::vector<SearchedPattern> patterns;
  std::unique_ptr<PlainSearch> search;
  std::shared_ptr<const gpu::Pipelines> pipelines;
  std::unique_ptr<Vectorscan> vectorscan;  // nullptr: there is none

  const gpu::SignaturesSettings& stage() const {
    return std::get<gpu::SignaturesSettings>(pipelines->settings().front().stages.front());
  }
};

class Bench {
 public:
  Bench(const Settings& settings, Rows& rows)
      : settings_(settings), rows_(rows), frames_(any_gpu(settings) ? kGpuFrames : settings.batches.front()) {
    std::vector<std::filesystem::path> files(settings.rules.begin(), settings.rules.end());
    if (files.empty()) files = usual_rule_files();
    const auto all = patterns_of_rules(files);
    real_ = without_the_usual(all);
    rows["rule_files"] = files.size();
    rows["patterns_of_rules"] = all.size();
    rows["patterns_in_every_request"] = all.size() - real_.size();
  }

  // What does not depend on patterns.
  void without_patterns(u32 size) {
    const PlainSearch none({});
    frames_.fill(make_payloads({Like::http, Hits::none}, {}, none, settings_.different,
                               PayloadFrames::payload_bytes(size, true)),
                 true, 80);
    std::set<int> gpus;
    for (const std::string& device : settings_.devices)
      if (gpu_number(device) >= 0 && gpus.insert(gpu_number(device)).second) plain(device);
    gpu::AclSettings all;
    all.otherwise = gpu::Action::pass;
    const auto pipelines = gpu::Pipelines::compile({{"main", {all}}}).value();
    const std::vector<u32> right(frames_.count(), XG_VERDICT(XG_PASS, 0u, 1u, 0u));
    for (const std::string& device : settings_.devices)
      for (const u32 batch : batches_of(device))
        decide(headers_name(size, batch), device, pipelines, batch, right, {}, {});
  }

  Rules rules(u32 count) {
    Rules made;
    Patterns chosen = choose_patterns(real_, count);
    made.patterns = std::move(chosen.all);
    made.search = std::make_unique<PlainSearch>(made.patterns);
    gpu::SignaturesSettings stage;
    stage.rules.signatures =
        std::make_shared<const std::vector<gpu::signatures::Signature>>(signatures_of(made.patterns));
    Row& row = rows_.add({.name = fmt::format("compile, {} patterns", count), .unit = "ms", .scale = 1e3});
    for (int i = 0; i < settings_.repeats; ++i) {
      const auto start = Clock::now();
      auto compiled = gpu::Pipelines::compile({{"main", {stage}}});
      if (!compiled) throw std::runtime_error(compiled.error());
      row.runs.push_back(since(start));
      made.pipelines = *std::move(compiled);
    }
    const u64 bytes = made.pipelines->image().size() * sizeof(u32);
    row.note = fmt::format("{} of rules, {} made up; an image of {:.1f} MiB", chosen.from_rules,
                           count - chosen.from_rules, static_cast<double>(bytes) / (1 << 20));
    const auto start = Clock::now();
    auto peer = Vectorscan::compile(made.patterns);
    if (!peer) {
      rows_.leave_out(peer.error());
      return made;
    }
    made.vectorscan = *std::move(peer);
    Row& theirs = rows_.add(
        {.name = fmt::format("compile in Vectorscan, {} patterns", count), .unit = "ms", .scale = 1e3});
    theirs.runs.push_back(since(start));
    theirs.note = fmt::format("{}; a database of {:.1f} MiB", made.vectorscan->version(),
                              static_cast<double>(made.vectorscan->bytes()) / (1 << 20));
    return made;
  }

  void measure(const Traffic& traffic, u32 size, const Rules& rules) {
    const bool tcp = traffic.like != Like::dns;
    const u16 port = tcp ? (traffic.like == Like::tls ? 443 : 80) : 53;
    frames_.fill(make_payloads(traffic, rules.patterns, *rules.search, different(),
                               PayloadFrames::payload_bytes(size, tcp)),
                 tcp, port);
    const Answers right = answers(rules);
    const std::string wrong = reference(rules, right);
    const std::string name =
        fmt::format("{}, {} B, {} patterns", traffic.name(), size, rules.patterns.size());
    std::string note = fmt::format("{:.1f} patterns a packet", static_cast<double>(right.hits) / different());
    if (right.limits != 0) note += fmt::format(", {} of {} packets: limit", right.limits, different());
    const bool real_text = traffic.like == Like::http && traffic.hits == Hits::real;
    const std::string one_core = rules.vectorscan ? vectorscan(name, right, rules, real_text) : std::string();
    const auto verdicts = repeated(right.verdicts);
    const auto alerts = repeated(right.alerts);
    for (const std::string& device : settings_.devices) {
      const auto batches = batches_of(device);
      const bool gpu = gpu_number(device) >= 0;
      for (const u32 batch : batches) {
        Row* const decided = decide(fmt::format("{}, batches of {}", name, batch), device, rules.pipelines,
                                    batch, verdicts, alerts, wrong);
        if (decided == nullptr) continue;
        Row& row = *decided;
        row.note = fmt::format("{:.2f} M/s, {:.2f} of headers alone; {}", row.median() * 1e-6,
                               ratio(row, headers_name(size, batch)), note);
        if (gpu) {
          row.against = plain_name(size);
          if (batch == batches.back()) row.bar = traffic.like == Like::made ? kMadeBar : kPlainBar;
          if (batch == batches.back()) hold(row, one_core, real_text ? kGpuBar : 0);
        } else if (!one_core.empty()) {
          row.against = one_core;
          row.bar = kCpuBar;
        }
      }
    }
  }

  // Where in what connections say: anywhere; in the headers of requests by HTTP; in the body of one.
  enum class Where { text, headers, body };
  // The same patterns in what connections say: `flows` of them, packets in turn.
  void measure_streams(const Traffic& traffic, u32 size, const Rules& rules, u32 flows, Where where) {
    const bool requests = where == Where::headers;
    auto payloads = make_payloads(traffic, rules.patterns, *rules.search, different(),
                                  PayloadFrames::payload_bytes(size, true));
    // A frame of 512 B is shorter than most requests. No head is to go on for ever.
    static constexpr std::string_view kEnd = "\r\n\r\n";
    for (auto& payload : payloads)
      if (requests && payload.find(kEnd) == std::string::npos)
        payload.replace(payload.size() - kEnd.size(), kEnd.size(), kEnd);
    // The head in a flow's first packet has a body without end; in the others it is some of that.
    static constexpr std::string_view kHead = "POST / HTTP/1.1\r\nContent-Length: 2147483647\r\n\r\n";
    for (auto& payload : payloads)
      if (where == Where::body) payload.replace(0, kHead.size(), kHead);
    frames_.fill(payloads, true, 80);
    const Answers right = answers(rules);
    gpu::SignaturesSettings stage = rules.stage();
    auto signatures = stage.rules.all();
    for (auto& one : signatures) {
      one.where = gpu::signatures::Where::stream;
      one.header.protocols = std::bitset<256>().set(6);
      if (where == Where::text) continue;
      using Part = gpu::signatures::HttpPart;
      one.http = gpu::signatures::Http{
          {{false, {}, {}, std::exchange(one.payload, {}), requests ? Part::header : Part::request_body}}};
      one.fast_pattern->buffer = 1;
    }
    stage.rules.signatures =
        std::make_shared<const std::vector<gpu::signatures::Signature>>(std::move(signatures));
    stage.inspect.midstream = true;
    stage.inspect.depth = gpu::kMostDepth;
    stage.inspect.http = where != Where::text;
    stage.inspect.answers = false;  // nobody answers
    for (const std::string& device : settings_.devices) {
      const u32 of_device = flows_of(device, flows);
      if (of_device == 0) continue;
      // As much room again as a third of them need. In two blocks of a text with hits stand fewer patterns
      // than may.
      stage.streams = of_device + of_device / 3;
      stage.inspect.window = requests ? 2048 : of_device > 500'000 ? 512 : 1024;
      const auto pipelines = gpu::Pipelines::compile({{"main", {stage}}});
      if (!pipelines) throw std::runtime_error(pipelines.error());
      // One flow's packets are one thread's.
      const auto batches = of_device == 1 ? std::vector<u32>{settings_.batches.front()} : batches_of(device);
      for (const u32 batch : batches)
        stream(fmt::format("{}{} in {}, {} B, {} patterns, batches of {}", traffic.name(),
                           requests               ? " in requests"
                           : where == Where::body ? " in bodies"
                                                  : "",
                           of_device == 1 ? "one stream" : fmt::format("{} streams", of_device), size,
                           rules.patterns.size(), batch),
               device, *pipelines, batch, of_device, where != Where::text ? nullptr : &right);
    }
  }

 private:
  // The CPU device is shown as many flows as it is shown frames.
  u32 flows_of(const std::string& device, u32 flows) const {
    if (gpu_number(device) >= 0 || flows == 1) return flows;
    return flows == settings_.flows.front() ? std::min(flows, frames_of(device)) : 0;
  }

  // Each flow's first segment has the alerts of its payload, `right`; nullptr: it has others. Behind it, a
  // rule that has held for a stream's text is not told again: of these the verdicts alone are checked.
  void stream(const std::string& name, const std::string& device,
              const std::shared_ptr<const gpu::Pipelines>& pipelines, u32 batch, u32 flows,
              const Answers* right) {
    const u32 depth = std::clamp(frames_of(device) / batch, 1u, kMostDepth);
    auto queue =
        DeviceQueue::open(device, frames_.region(batch * depth), gpu::Frames::automatic, batch, depth);
    auto loaded = queue ? (*queue)->load(pipelines) : gpu::Result<void>();
    if (!queue || !loaded) {
      rows_.leave_out(fmt::format("{}: {}", device, !queue ? queue.error() : loaded.error()));
      return;
    }
    Row& row = rate(name, device);
    bool begin = true;
    (*queue)->before_each([&](std::span<const xg_descriptor> frames) {
      frames_.say_on(frames, flows, begin);
      begin = false;
    });
    // What a flow's first packet is to say: in turn, the frames' own.
    const u32 frames = batch * depth;
    std::vector<u32> passes(frames, u32{XG_PASS});
    if (right != nullptr) {
      auto first = repeated(right->alerts);
      first.resize(std::min(frames, flows));
      (*queue)->expect(passes, first);
    }
    if (right != nullptr && right->limits == 0) (*queue)->check(row.problem);
    (*queue)->expect(passes);
    for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
      const Rate measured = (*queue)->run(settings_.seconds);
      row.problem = measured.problem;
      if (i >= 0) row.runs.push_back(measured.packets_per_second);
    }
    row.note =
        fmt::format("{:.2f} M/s; windows of {} B", row.median() * 1e-6,
                    std::get<gpu::SignaturesSettings>(pipelines->settings()[0].stages[0]).inspect.window);
    if (flows == 1) {
      row.note += fmt::format("; {:.0f} Gb/s are asked for", kElephantBar);
    } else if (gpu_number(device) >= 0) {
      row.against = plain_name(frames_.length());
      if (batch == settings_.batches.back()) row.bar = kStreamsBar;
    }
  }

  static bool any_gpu(const Settings& settings) {
    return std::any_of(settings.devices.begin(), settings.devices.end(),
                       [](const std::string& name) { return gpu_number(name) >= 0; });
  }
  // The CPU device decides one packet after the other, whatever the batch.
  std::vector<u32> batches_of(const std::string& device) const {
    if (gpu_number(device) < 0) return {settings_.batches.front()};
    return settings_.batches;
  }
  // The CPU device decides a batch as it is submitted: of those that wait none would be counted.
  u32 frames_of(const std::string& device) const {
    return gpu_number(device) < 0 ? settings_.batches.front() : frames_.count();
  }
  u32 different() const { return std::min(settings_.different, settings_.batches.front()); }

  static std::string plain_name(u32 size) { return fmt::format("{} B frames, read by a plain kernel", size); }
  static std::string headers_name(u32 size, u32 batch) {
    return fmt::format("{} B, headers alone, batches of {}", size, batch);
  }
  // Of frames of the length that they have now; the runs are packets a second.
  Row& rate(const std::string& name, const std::string& device) {
    return rows_.add({.name = name, .device = device, .unit = "Gb/s", .scale = frames_.length() * 8e-9});
  }
  double ratio(const Row& row, const std::string& other) const {
    const Row* const against = rows_.find(other, row.device);
    return against != nullptr && against->median() > 0 ? row.median() / against->median() : 0;
  }
  // The row once more, against another one, if that was measured.
  void hold(const Row& row, const std::string& against, double bar) {
    if (against.empty()) return;
    Row held = row;
    held.name = fmt::format("{}, against one core of Vectorscan", row.name);
    held.against = against;
    held.bar = bar;
    held.note.clear();
    rows_.add(std::move(held));
  }

  template <class T>
  std::vector<T> repeated(const std::vector<T>& of_packet) const {
    std::vector<T> all(frames_.count());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = of_packet[i % of_packet.size()];
    return all;
  }

  void plain(const std::string& device) {
    const FrameRegion region = frames_.region(frames_.count());
    auto reader = HostReader::open(static_cast<u32>(gpu_number(device)), region.base, region.bytes);
    if (!reader) {
      rows_.leave_out(fmt::format("{}: a plain kernel: {}", device, reader.error()));
      return;
    }
    const auto sums = frames_.sums();
    Row& row = rate(plain_name(frames_.length()), device);
    std::vector<xg_result> results(sums.size());
    for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
      const auto read = (*reader)->answered_frames(region.descriptors, results, kPasses);
      if (!read) row.problem = read.error();
      for (std::size_t f = 0; f < sums.size() && row.problem.empty(); ++f)
        if (results[f].verdict != sums[f]) row.problem = "a frame's sum is wrong";
      if (read && i >= 0) row.runs.push_back(static_cast<double>(sums.size()) / read->seconds);
    }
    row.note = fmt::format("{:.2f} M/s", row.median() * 1e-6);
  }

  // alerts: none: they are not asked for. wrong: why no run would count. -> nullptr: it is left out.
  Row* decide(const std::string& name, const std::string& device,
              const std::shared_ptr<const gpu::Pipelines>& pipelines, u32 batch,
              const std::vector<u32>& verdicts, const std::vector<xg_alerts>& alerts,
              const std::string& wrong) {
    const u32 depth = std::clamp(frames_of(device) / batch, 1u, kMostDepth);
    auto queue =
        DeviceQueue::open(device, frames_.region(batch * depth), gpu::Frames::automatic, batch, depth);
    auto loaded = queue ? (*queue)->load(pipelines) : gpu::Result<void>();
    if (!queue || !loaded) {
      rows_.leave_out(fmt::format("{}: {}", device, !queue ? queue.error() : loaded.error()));
      return nullptr;
    }
    Row& row = rate(name, device);
    row.problem = wrong;
    (*queue)->expect({verdicts.begin(), verdicts.begin() + batch * depth}, alerts);
    for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
      const Rate measured = (*queue)->run(settings_.seconds);
      row.problem = measured.problem;
      if (i >= 0) row.runs.push_back(measured.packets_per_second);
    }
    return &row;
  }

  // By the plain search; the work as the reference counts it.
  Answers answers(const Rules& rules) const {
    Answers right;
    const FrameRegion region = frames_.region(different());
    const auto& signatures = rules.stage().rules.all();
    const auto limit = static_cast<u32>(signatures.size()) + 1;
    for (u32 i = 0; i < different(); ++i) {
      const auto payload = frames_.payload(i);
      auto found = rules.search->all_in({reinterpret_cast<const char*>(payload.data()), payload.size()});
      const auto packet = gpu::reference::read_packet({region.base, region.bytes}, region.descriptors[i]);
      const gpu::reference::SignaturePacket seen(packet.value());
      u64 work = 0;
      for (const u32 pattern : found) (void)gpu::reference::matches(signatures[pattern], seen, work);
      const bool over = work > rules.stage().work || found.size() > gpu::signatures::kMostPatterns;
      xg_alerts told{};
      if (!over && !found.empty()) {
        const std::size_t count = std::min<std::size_t>(found.size(), XG_MAX_ALERTS);
        told.count = static_cast<u16>(count | (found.size() > count ? XG_ALERTS_MORE : 0));
        for (std::size_t r = 0; r < count; ++r) told.rules[r] = static_cast<u16>(found[r]);
      }
      right.alerts.push_back(told);
      right.verdicts.push_back(over ? XG_VERDICT(XG_DROP, 0u, 1u, limit) : u32{XG_PASS});
      right.hits += found.size();
      right.limits += over;
      right.patterns.push_back(std::move(found));
    }
    return right;
  }

  // What the sequential reference says otherwise of the first packets.
  std::string reference(const Rules& rules, const Answers& right) const {
    const FrameRegion region = frames_.region(std::min(settings_.reference, different()));
    std::vector<xg_result> results(region.descriptors.size());
    std::vector<xg_edit> edits(results.size());
    std::vector<xg_adjust> adjusts(results.size());
    std::vector<xg_alerts> alerts(results.size());
    gpu::reference::Judge judge(rules.pipelines->settings());
    judge.decide({region.base, region.bytes}, region.descriptors, DeviceQueue::kGeneration, results,
                 {edits, adjusts, alerts});
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i].verdict != right.verdicts[i] ||
          std::memcmp(&alerts[i], &right.alerts[i], sizeof(xg_alerts)) != 0)
        return fmt::format("frame {}: the sequential reference says something else than a plain search", i);
    return {};
  }

  // -> the name of the row of one core.
  std::string vectorscan(const std::string& name, const Answers& right, const Rules& rules, bool all_cores) {
    std::set<u32> cores{1};
    if (all_cores) cores.insert(std::max(1u, std::thread::hardware_concurrency()));
    const std::string whole = "Vectorscan, " + name;
    const auto on = [&](u32 number) {
      return fmt::format("{}, {}", whole, number == 1 ? "one core" : fmt::format("{} cores", number));
    };
    for (const u32 number : cores) {
      Row& row = rate(on(number), "CPU");
      std::vector<u64> counts;
      row.problem = unlike(right, rules, counts);
      for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
        const double packets = scan(rules, number, counts, row.problem);
        if (i >= 0) row.runs.push_back(packets);
      }
      row.note = fmt::format("{:.2f} M/s", row.median() * 1e-6);
    }
    return on(1);
  }

  // What Vectorscan finds otherwise; `counts`: how many patterns it finds, by payload. Vectorscan 5.4.9
  // misses patterns of one byte where there are few others, and where there are none: those are not held
  // against it.
  std::string unlike(const Answers& right, const Rules& rules, std::vector<u64>& counts) const {
    const auto searcher = rules.vectorscan->searcher();
    if (!searcher) return searcher.error();
    const auto longer = [&](std::vector<u32> numbers) {
      std::erase_if(numbers,
                    [&](u32 n) { return n < rules.patterns.size() && rules.patterns[n].bytes.size() == 1; });
      return numbers;
    };
    for (u32 i = 0; i < different(); ++i) {
      auto found = (*searcher)->all_in(frames_.payload(i));
      counts.push_back(found.size());
      if (longer(std::move(found)) != longer(right.patterns[i]))
        return fmt::format("frame {}: Vectorscan finds other patterns than a plain search", i);
    }
    return {};
  }

  // Packets a second of so many threads, each with its part of the frames.
  double scan(const Rules& rules, u32 cores, const std::vector<u64>& counts, std::string& problem) const {
    const u32 frames = settings_.batches.front();
    std::vector<double> rates(cores);
    std::vector<std::string> problems(cores);
    std::vector<std::thread> threads;
    for (u32 core = 0; core < cores; ++core)
      threads.emplace_back([&, core] {
        const auto searcher = rules.vectorscan->searcher();
        if (!searcher) {
          problems[core] = searcher.error();
          return;
        }
        const u32 first = frames * core / cores, end = frames * (core + 1) / cores;
        u64 packets = 0, wrong = 0;
        const auto start = Clock::now();
        do {
          for (u32 i = first; i < end; ++i)
            wrong += (*searcher)->count(frames_.payload(i)) != counts[i % counts.size()];
          packets += end - first;
        } while (since(start) < settings_.seconds);
        rates[core] = static_cast<double>(packets) / since(start);
        if (wrong != 0) problems[core] = "Vectorscan finds another number of patterns than before";
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& one : problems)
      if (problem.empty()) problem = one;
    return std::accumulate(rates.begin(), rates.end(), 0.0);
  }

  const Settings& settings_;
  Rows& rows_;
  PayloadFrames frames_;
  std::vector<SearchedPattern> real_;
};

bool wanted(const Settings& settings, const std::string& name) {
  return settings.only.empty() ||
         std::any_of(settings.only.begin(), settings.only.end(),
                     [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

int run(const Settings& settings) {
  Rows rows("signatures");
  rows["different_packets"] = settings.different;
  rows["seconds"] = settings.seconds;
  rows["repeats"] = settings.repeats;
  Bench bench(settings, rows);
  if (!settings.searches_alone)
    for (const u32 size : settings.sizes) bench.without_patterns(size);
  for (const u32 count : settings.patterns) {
    const Rules rules = bench.rules(count);
    for (const u32 size : settings.sizes)
      for (const Traffic& traffic : all_traffic())
        if (wanted(settings, traffic.name())) bench.measure(traffic, size, rules);
    if (count != settings.patterns.front() || !wanted(settings, "streams")) continue;
    for (const Hits hits : {Hits::none, Hits::real})
      for (const u32 flows : settings.flows)
        // In headers with hits stand more patterns than may in one part; a body is searched as a text is.
        for (const auto where :
             hits == Hits::none ? std::vector{Bench::Where::text, Bench::Where::headers, Bench::Where::body}
                                : std::vector{Bench::Where::text})
          bench.measure_streams({Like::http, hits}, settings.sizes.back(), rules, flows, where);
  }
  fmt::print(
      "{} different packets in chunks of {} bytes, in no order; each pattern is a rule for any packet; Gb/s "
      "are "
      "of whole frames; Vectorscan in block mode, each pattern told once; median of {} runs of {} s\n\n",
      settings.different, XG_CHUNK_SIZE, settings.repeats, settings.seconds);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  bool quick = false;
  CLI::App app(
      "Payloads that a device searches for thousands of patterns, host memory to alerts in host memory");
  app.add_option("--device", settings.devices,
                 "compute devices, as `xdpgpu devices` names them; with /persistent behind, driven by a "
                 "resident kernel")
      ->delimiter(',');
  app.add_option("--batch", settings.batches,
                 "packets a batch, the largest last; the CPU device is measured in the first alone")
      ->delimiter(',')
      ->check(CLI::Range(64, 65536));
  app.add_option("--patterns", settings.patterns, "patterns to look for")
      ->delimiter(',')
      ->check(CLI::Range(1, 65'535));
  app.add_option("--sizes", settings.sizes, "bytes of a frame, a multiple of 4")
      ->delimiter(',')
      ->check(CLI::Range(256, 1760))
      ->check([](const std::string& bytes) {
        return std::stoul(bytes) % 4 == 0 ? std::string() : "it is no multiple of 4";
      });
  app.add_option(
      "--rules", settings.rules,
      "rule files whose fast patterns are taken; without, those in tests/data/rules. Patterns that "
      "are missing are made up");
  app.add_option("--only", settings.only,
                 "what has one of these in its name: http, tls, dns, 'with no hits', 'with real hits', 'made "
                 "to hit', "
                 "streams")
      ->delimiter(',');
  app.add_option(
         "--flows", settings.flows,
         "connections whose packets come in turn, where rules are looked for in streams; the CPU device "
         "is measured with the first number of them, as far as it has frames, and with one")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--different", settings.different, "different packets")->check(CLI::Range(64, 65536));
  app.add_option("--reference", settings.reference,
                 "packets of a row that the sequential reference is asked about")
      ->check(CLI::Range(1, 1024));
  app.add_option("--seconds", settings.seconds, "length of a run")->check(CLI::Range(0.01, 60.0));
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_flag(
      "--searches-alone", settings.searches_alone,
      "without the rows that patterns have no part in, and so without a ratio to them: for profiles");
  app.add_flag("--quick", quick, "few patterns and packets, shortest runs: to see that all works");
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  if (quick) settings.be_quick();
  try {
    return xdpgpu::bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-signatures: {}\n", error.what());
    return 1;
  }
}
