// SPDX-License-Identifier: MIT
//
// bench/programs: XDP programs as stages of a pipeline: packets a second that a device decides by one, from
// frames that lie as a NIC lays them to verdicts in host memory; against the kernel, which runs the same
// program on the same packets, on one core and on all; against the stage that does the same; and on
// a GPU against a plain kernel that reads the same lines and writes as many results, with what the GPU draws.
// And how long a program takes from its object to the pipeline, and on CUDA to the machine code that it is
// translated to; where it cannot be translated, and once more for comparison, it is interpreted. The verdicts
// of all runs are those of the sequential definition, and of the kernel where that is asked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "bench/cuda/ceilings.hpp"
#include "bench/programs/filters.hpp"
#include "bench/programs/kernel_program.hpp"
#include "bench/programs/power.hpp"
#include "bench/rows.hpp"
#include "bench/stages/frames.hpp"
#include "gpu/device_code.hpp"
#include "gpu/program_counts.hpp"
#include "gpu/reference/reference.hpp"
#include "userspace/compiler/compiler.hpp"
#include "userspace/compiler/translations.hpp"
#include "userspace/kernel/verifier.hpp"

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr u32 kPackets = 65536;  // different ones
constexpr u32 kMostDepth = 64;   // batches in flight
constexpr u32 kPasses = 20;      // of the plain kernel, a run
constexpr u32 kRepeat = 20000;   // runs of one packet in a system call of BPF_PROG_TEST_RUN
constexpr const char* kPlain = "128 B lines read, 16 B results written, by a plain kernel";
// Of a GPU, in the largest batches: the lower of the first two; of the stage that does the same; packets a
// second.
constexpr double kCoreBar = 20, kPlainBar = 0.8, kStageBar = 0.5, kRateBar = 100e6;
constexpr double kCachedBar = 0.05;  // seconds
// Programs may take long: a batch takes no more, and all that is in flight at once a part of a run, for what
// a run waits for at its end is not of it.
constexpr double kLongestBatch = 1;  // seconds
constexpr double kRounds = 4;        // a run
constexpr u32 kProbe = 64;           // packets

struct Settings {
  std::vector<std::string> devices{"cpu"};
  std::vector<u32> batches{64, 1024, 65536};
  std::vector<std::string> only;
  std::string objects;
  u32 sources = 4096, ports = 1024, flows = 65'536;
  u32 hits = 10;
  u32 frames = 131072;
  u32 sample = 256;
  int repeats = 3;
  double seconds = 0.2;
  double power_seconds = 2.5;
  bool huge = false;
  std::string json;
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

const char* taken_as(gpu::programs::Taking how) {
  switch (how) {
    case gpu::programs::Taking::side_by_side:
      return "changes no map";
    case gpu::programs::Taking::counting:
      return "counts in its maps";
    case gpu::programs::Taking::by_key:
      return "ordered by key";
    case gpu::programs::Taking::in_order:
      break;
  }
  return "one packet after the other";
}

bool is_gpu(const std::string& device) { return gpu_number(device) >= 0; }

std::vector<std::byte> kernel_types() {
  std::ifstream file("/sys/kernel/btf/vmlinux", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class Bench {
 public:
  Bench(const Settings& settings, Rows& rows)
      : settings_(settings),
        rows_(rows),
        frames_(settings.frames, settings.huge),
        packets_(std::min(kPackets, settings.frames)) {
    frames_.fill(packets_for(random_entries(1, 1, false), packets_, 0));
  }

  // What a kernel on the GPU makes of as many lines at most.
  void plain(const std::string& device) {
    const FrameRegion region = frames_.region(frames_.count());
    auto reader = HostReader::open(static_cast<u32>(gpu_number(device)), region.base, region.bytes);
    if (!reader) return rows_.leave_out(fmt::format("{}: a plain kernel: {}", device, reader.error()));
    const auto lines = frames_.lines();
    std::vector<xg_result> results(lines.size());
    Row& row = rate(kPlain, device);
    plain_[gpu_number(device)] = &row;
    for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
      std::fill(results.begin(), results.end(), xg_result{});
      const auto read = (*reader)->answers(lines, results, kPasses);
      row.problem = read ? unlike_lines(lines, results) : read.error();
      if (i >= 0 && read) row.runs.push_back(static_cast<double>(lines.size()) / read->seconds);
    }
  }

  void measure(const Filter& filter) {
    const std::vector<StagePacket> packets = filter.services != 0
                                                 ? packets_to_services(filter, packets_)
                                                 : packets_for(filter.entries, packets_, settings_.hits);
    frames_.fill(packets);
    const auto program = compile(filter);
    if (!program) return;
    Answers right = answers(*program);
    const std::string name = filter.name;
    ask_kernel(filter, right);
    const auto stage =
        gpu::Pipelines::compile({{"main",
                                  {filter.services != 0 ? gpu::StageSettings(load_balance_of(filter))
                                                        : gpu::StageSettings(acl_of(filter))}}});
    std::string stage_problem = !right.problem.empty() ? right.problem : stage ? "" : stage.error();
    const auto stage_right = filter.services == 0    ? acl_verdicts(filter, packets)
                             : stage_problem.empty() ? answers(**stage).verdicts
                                                     : right.verdicts;
    u32 dropped = 0;
    for (u32 i = 0; i < packets_; ++i) {
      const u32 action = XG_VERDICT_ACTION(right.verdicts[i]);
      dropped += action == XG_DROP;
      if (action != XG_VERDICT_ACTION(stage_right[i]) && stage_problem.empty())
        stage_problem =
            fmt::format("packet {}: the stage {} does not do the same as {}", i, filter.stage(), name);
    }
    const std::string by_stage = fmt::format("{}, by the stage {}", name, filter.stage());
    const u32 hits = filter.drops_hits ? dropped : packets_ - dropped;
    const auto how = gpu::programs::how_taken(
                         *std::get<gpu::ProgramSettings>(program->settings().front().stages.front()).program)
                         .how;
    rows_["programs"].push_back({{"name", name},
                                 {"object_bytes", filter.object.size()},
                                 {"image_bytes", program->image().size() * sizeof(u32)},
                                 {"taken", taken_as(how)},
                                 {"packets", packets_},
                                 {"hits", hits},
                                 {"dropped", dropped},
                                 {"passed", packets_ - dropped},
                                 {"held_against_the_kernel", right.by_kernel}});
    const std::string note =
        filter.services != 0
            ? fmt::format("{}, each packet another flow's", taken_as(how))
            : fmt::format("{}, {:.1f} % of packets hit", taken_as(how), 100.0 * hits / packets_);
    for (const std::string& device : settings_.devices) {
      const auto translated = is_gpu(device) ? translate(filter, device, program) : nullptr;
      if (translated != nullptr) ways(name + ", interpreted", device, program, right.verdicts, right.problem);
      std::vector<std::pair<u32, Row*>> ours =
          ways(name, device, translated != nullptr ? translated : program, right.verdicts, right.problem);
      const auto theirs = ways(by_stage, device, stage ? *stage : nullptr, stage_right, stage_problem);
      for (auto& [batch, row] : ours) {
        row->note = note;
        if (rows_.find(core(name), "CPU") != nullptr) row->against = core(name);
      }
      if (ours.empty() || theirs.empty()) continue;
      const auto& [batch, largest] = ours.back();
      hold(*largest, name_of(by_stage, batch), fmt::format("the stage {}", filter.stage()),
           is_gpu(device) ? kStageBar : 0);
      if (is_gpu(device))
        judge(*largest, name, device, batch, translated != nullptr ? translated : program, right.verdicts);
    }
  }

 private:
  struct Answers {
    std::vector<u32> verdicts;  // of each different packet
    std::string problem;
    bool by_kernel = false;  // the kernel says the same
  };

  Row& rate(const std::string& name, const std::string& device) {
    return rows_.add({.name = name, .device = device, .unit = "M/s", .scale = 1e-6});
  }
  static std::string name_of(const std::string& one, u32 batch) {
    return fmt::format("{}, batches of {}", one, batch);
  }
  static std::string cores(const std::string& one, u32 number) {
    return fmt::format("{}, by the kernel, {}", one,
                       number == 1 ? "one core" : fmt::format("{} cores", number));
  }
  static std::string core(const std::string& one) { return cores(one, 1); }

  std::string unlike_lines(const std::vector<u32>& lines, const std::vector<xg_result>& results) const {
    constexpr u32 kWords = 32;
    const u8* const base = frames_.region(1).base;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::array<u32, kWords> line;
      std::memcpy(line.data(), base + u64{lines[i]} * sizeof(line), sizeof(line));
      const u32 sum = std::accumulate(line.begin(), line.end(), 0u);
      std::array<u32, sizeof(xg_result) / sizeof(u32)> written{};
      std::memcpy(written.data(), &results[i], sizeof(written));
      if (std::any_of(written.begin(), written.end(), [&](u32 word) { return word != sum; }))
        return "the sum of a line is wrong";
    }
    return {};
  }

  // From the object to the pipeline, in steps, each with a time; nullptr: there is none.
  std::shared_ptr<const gpu::Pipelines> compile(const Filter& filter) {
    using Said = kernel::Verdict::Said;
    std::vector<double> read, verified, made, whole, again;
    std::shared_ptr<const gpu::Pipelines> pipelines;
    for (int i = 0; i < settings_.repeats; ++i) {
      auto start = Clock::now();
      auto program = programs::read_program(std::as_bytes(std::span(filter.object)), {}, kernel_types);
      if (!program) return refused(filter, program.error());
      for (auto& map : program->program.maps)
        if (map.name == "flows" && filter.flows != 0) map.entries = filter.flows;
      read.push_back(since(start));
      whole.push_back(read.back());
      start = Clock::now();
      const auto verdict = kernel::verify(program->program, program->fragments);
      if (verdict.said == Said::takes) {
        verified.push_back(since(start));
        whole.back() += verified.back();
      } else if (verdict.said == Said::not_asked) {
        rows_.leave_out(fmt::format("the kernel's verifier: {}", verdict.why));
      } else {
        return refused(filter, verdict.why);
      }
      const compiler::PolicySource source = policy_of(filter, *program);
      compiler::Compiler maker;
      compiler::Artifacts known;
      start = Clock::now();
      pipelines = by(maker, source, known);
      made.push_back(since(start));
      whole.back() += made.back();
      start = Clock::now();
      (void)by(maker, source, known);
      again.push_back(since(start));
    }
    step(filter, "object read", read, 0);
    if (!verified.empty()) step(filter, "verified by the kernel", verified, 0);
    step(filter, "artifact made", made, 0);
    step(filter, verified.empty() ? "read and made" : "read, verified and made", whole, filter.compile_bar);
    step(filter, "made again by the same compiler", again, kCachedBar);
    made_in_ = median(whole);
    made_again_in_ = median(again);
    return pipelines;
  }

  // The same with machine code for the device, in the steps that it takes; nullptr: it is interpreted there.
  // Of several devices like it, once.
  std::shared_ptr<const gpu::Pipelines> translate(const Filter& filter, const std::string& device,
                                                  const std::shared_ptr<const gpu::Pipelines>& program) {
    const std::string& name = filter.name;
    const auto none = [&](const std::string& why) {
      rows_.leave_out(fmt::format("{}, {}: translated: {}", name, device, why));
      return nullptr;
    };
    const auto opened = gpu::open_device(device.substr(0, device.find('/')));
    if (!opened) return none(opened.error());
    const auto built_in = (*opened)->code();
    if (built_in == nullptr) return nullptr;
    const std::string key = fmt::format("{} {}", name, built_in->architecture);
    if (const auto known = translated_.find(key); known != translated_.end()) return known->second;
    if (auto loaded = compiler::load_translator(); !loaded) return none(loaded.error());
    std::vector<double> first, again;
    std::shared_ptr<const gpu::DeviceCode> code;
    for (int i = 0; i < settings_.repeats; ++i) {
      compiler::Translations translations;
      for (std::vector<double>* const times : {&first, &again}) {
        const auto start = Clock::now();
        auto made = translations.translate(gpu::programs::programs_of(*program), built_in->architecture);
        if (!made) return none(made.error());
        times->push_back(since(start));
        code = std::make_shared<const gpu::DeviceCode>(*std::move(made));
      }
    }
    const auto add = [&](const char* what, std::vector<double> seconds, double before, double bar) {
      Row& row = rows_.add({.name = fmt::format("{}, {}", name, what), .unit = "ms", .scale = 1e3});
      row.runs = std::move(seconds);
      const double whole = before + row.median();
      row.note = fmt::format("from the object {:.0f} ms, at most {:.0f}: {}", whole * 1e3, bar * 1e3,
                             whole <= bar ? "met" : "MISSED");
    };
    add("translated and linked", first, made_in_, filter.compile_bar);
    add("linked again, the program's code kept", again, made_again_in_, kCachedBar);
    return translated_[key] = gpu::Pipelines::with_code(program, code);
  }
  // bar: seconds; 0: none.
  void step(const Filter& filter, const char* what, std::vector<double> seconds, double bar) {
    Row& row = rows_.add({.name = fmt::format("{}, {}", filter.name, what), .unit = "ms", .scale = 1e3});
    row.runs = std::move(seconds);
    if (bar > 0)
      row.note = fmt::format("at most {:.0f} ms: {}", bar * 1e3, row.median() <= bar ? "met" : "MISSED");
  }
  std::nullptr_t refused(const Filter& filter, const std::string& why) {
    rows_.add({.name = fmt::format("{}, read and made", filter.name), .unit = "ms"}).problem = why;
    return nullptr;
  }

  // As `policy apply` does: the compiler's part, and that of whoever orders from it. known: what that one
  // has.
  static std::shared_ptr<const gpu::Pipelines> by(compiler::Compiler& maker,
                                                  const compiler::PolicySource& source,
                                                  compiler::Artifacts& known) {
    const compiler::Target target{.ports = {"eth0"}, .hash_key = {20261127, 1}};
    const auto value = [](auto result) {
      if (!result) throw std::runtime_error(result.error());
      return *std::move(result);
    };
    const auto wanted = [](auto result) {
      if (!result) throw std::runtime_error(result.error().sentence);
      return *std::move(result);
    };
    const auto order = value(compiler::write_order(source, target, known));
    const auto memory = value(compiler::SealedMemory::map(value(maker.answer(order)), compiler::kMostAnswer));
    auto answer = wanted(value(compiler::read_answer(memory)));
    known.merge(answer.artifacts);
    return value(compiler::assemble(source, wanted(compiler::outline(source)), target, answer.recipe, known))
        .pipelines;
  }

  // By the sequential definition.
  Answers answers(const gpu::Pipelines& program) const {
    const FrameRegion region = frames_.region(packets_);
    std::vector<xg_result> results(packets_);
    gpu::reference::decide({region.base, region.bytes}, region.descriptors, DeviceQueue::kGeneration,
                           program.settings(), results);
    Answers right;
    for (const xg_result& result : results) {
      right.verdicts.push_back(result.verdict);
      const u32 action = XG_VERDICT_ACTION(result.verdict);
      if (action != XG_PASS && action != XG_TX &&
          (action != XG_DROP || XG_VERDICT_RULE(result.verdict) != 1u))
        right.problem =
            fmt::format("a packet is answered {:#x}, neither passed, dropped nor sent back", result.verdict);
    }
    return right;
  }

  std::span<const u8> packet(u32 number) const {
    const FrameRegion region = frames_.region(packets_);
    const xg_descriptor& one = region.descriptors[number];
    return {region.base + one.offset, one.length};
  }

  // What the kernel says, and how fast.
  void ask_kernel(const Filter& filter, Answers& right) {
    const auto loaded = KernelProgram::load(filter);
    if (!loaded) return rows_.leave_out(fmt::format("{}, by the kernel: {}", filter.name, loaded.error()));
    for (u32 i = 0; i < packets_ && right.problem.empty(); ++i) {
      const auto said = (*loaded)->answer(packet(i));
      if (!said)
        right.problem = said.error();
      else if (*said != XG_VERDICT_ACTION(right.verdicts[i]))
        right.problem = fmt::format("packet {}: the kernel answers {}, the definition {}", i, *said,
                                    XG_VERDICT_ACTION(right.verdicts[i]));
    }
    right.by_kernel = right.problem.empty();
    // Packets are of no order: the first ones are as good as any.
    std::vector<KernelProgram::Sample> samples;
    for (u32 i = 0; i < std::min(settings_.sample, packets_); ++i)
      samples.push_back({packet(i), XG_VERDICT_ACTION(right.verdicts[i])});
    std::set<u32> numbers{1, static_cast<u32>(usable_cpus().size())};
    for (const u32 number : numbers) {
      Row& row = rate(cores(filter.name, number), "CPU");
      row.problem = right.problem;
      for (int i = 0; i < settings_.repeats && row.problem.empty(); ++i) {
        const auto measured = (*loaded)->packets_per_second(samples, kRepeat, number, settings_.seconds);
        if (measured)
          row.runs.push_back(*measured);
        else
          row.problem = measured.error();
      }
      row.note = fmt::format("{}, of {} packets each {} times on end: warm caches{}",
                             (*loaded)->is_compiled() ? "JIT" : "interpreted", samples.size(), kRepeat,
                             filter.again.empty() ? "" : "; each time it takes its headers off again");
    }
  }

  // By size of batch, what was measured.
  std::vector<std::pair<u32, Row*>> ways(const std::string& name, const std::string& device,
                                         const std::shared_ptr<const gpu::Pipelines>& pipelines,
                                         const std::vector<u32>& verdicts, const std::string& problem) {
    std::vector<std::pair<u32, Row*>> made;
    if (!problem.empty()) {
      rate(name, device).problem = problem;
      return made;
    }
    double known = 0;
    if (settings_.batches.front() > kProbe) known = probe(device, pipelines);
    for (const u32 batch : settings_.batches) {
      if (batch > frames_.count()) {
        rows_.leave_out(fmt::format("batches of {}: there are {} frames", batch, frames_.count()));
        continue;
      }
      if (known > 0 && batch / known > kLongestBatch) {
        rows_.leave_out(fmt::format("{}, {}: one takes more than {:.0f} s at {:.3f} M/s",
                                    name_of(name, batch), device, kLongestBatch, known * 1e-6));
        continue;
      }
      auto queue = open(device, pipelines, batch, depth(batch, known));
      if (!queue) break;
      expect(*queue, verdicts, batch, depth(batch, known));
      Row& row = rate(name_of(name, batch), device);
      for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
        const Rate measured = queue->run(settings_.seconds);
        row.problem = measured.problem;
        if (i >= 0) row.runs.push_back(measured.packets_per_second);
      }
      known = std::max(known, row.median());
      made.emplace_back(batch, &row);
    }
    return made;
  }

  // How many batches are in flight, at so many packets a second; 0: that is not known.
  u32 depth(u32 batch, double known) const {
    const u32 most = std::clamp(frames_.count() / batch, 1u, kMostDepth);
    if (known <= 0) return most;
    return std::clamp(static_cast<u32>(std::min(known * settings_.seconds / kRounds / batch, 1e6)), 1u, most);
  }

  std::unique_ptr<DeviceQueue> open(const std::string& device,
                                    const std::shared_ptr<const gpu::Pipelines>& pipelines, u32 batch,
                                    u32 depth) {
    auto queue =
        DeviceQueue::open(device, frames_.region(batch * depth), gpu::Frames::automatic, batch, depth);
    auto loaded = queue ? (*queue)->load(pipelines) : gpu::Result<void>();
    if (queue && loaded) return *std::move(queue);
    rows_.leave_out(fmt::format("{}: {}", device, !queue ? queue.error() : loaded.error()));
    return nullptr;
  }
  static void expect(DeviceQueue& queue, const std::vector<u32>& verdicts, u32 batch, u32 depth) {
    std::vector<u32> of_frame(u64{batch} * depth);
    for (std::size_t i = 0; i < of_frame.size(); ++i) of_frame[i] = verdicts[i % verdicts.size()];
    queue.expect(std::move(of_frame));
  }
  // Packets a second of small batches, one at a time; 0: it is not to be had.
  double probe(const std::string& device, const std::shared_ptr<const gpu::Pipelines>& pipelines) {
    const auto queue = open(device, pipelines, kProbe, 1);
    if (!queue) return 0;
    std::string problem;
    const std::vector<double> us = queue->alone(0.02, problem);
    return us.empty() ? 0 : kProbe * 1e6 / median(us);
  }

  // The row once more, against another one.
  void hold(const Row& row, const std::string& against, const std::string& what, double bar) {
    Row held = row;
    held.name = fmt::format("{}, against {}", row.name, what);
    held.against = against;
    held.bar = bar;
    held.note.clear();
    rows_.add(std::move(held));
  }

  // The bars of a GPU's largest batches, and what the GPU draws.
  void judge(Row& row, const std::string& name, const std::string& device, u32 batch,
             const std::shared_ptr<const gpu::Pipelines>& program, const std::vector<u32>& verdicts) {
    const Row* const one_core = rows_.find(core(name), "CPU");
    const auto known = plain_.find(gpu_number(device));
    const Row* const plain = known == plain_.end() ? nullptr : known->second;
    const double of_core = one_core != nullptr ? kCoreBar * one_core->median() : 0;
    const double of_plain = plain != nullptr ? kPlainBar * plain->median() : 0;
    row.note += fmt::format("; at least {:.0f} M/s: {}", kRateBar * 1e-6,
                            row.median() >= kRateBar ? "met" : "MISSED");
    // Whichever asks for less.
    if (of_plain > 0 && (of_core <= 0 || of_plain < of_core)) {
      row.against = kPlain;
      row.bar = kPlainBar;
      if (of_core > 0) row.note += fmt::format("; {:.1f} x one core", row.median() * kCoreBar / of_core);
    } else if (of_core > 0) {
      row.bar = kCoreBar;
      if (of_plain > 0)
        row.note += fmt::format("; {:.2f} of a plain kernel", row.median() * kPlainBar / of_plain);
    }
    if (row.problem.empty()) draw(row, device, batch, program, verdicts);
  }

  void draw(Row& row, const std::string& device, u32 batch,
            const std::shared_ptr<const gpu::Pipelines>& program, const std::vector<u32>& verdicts) {
    const u32 in_flight = depth(batch, row.median());
    const auto queue = open(device, program, batch, in_flight);
    if (!queue) return;
    expect(*queue, verdicts, batch, in_flight);
    const auto meter = PowerMeter::start(static_cast<u32>(gpu_number(device)));
    if (!meter) return rows_.leave_out(fmt::format("{}: watts: {}", device, meter.error()));
    const Rate measured = queue->run(settings_.power_seconds);
    const auto watts = (*meter)->stop();
    row.problem = measured.problem;
    if (!watts) return rows_.leave_out(fmt::format("{}: watts: {}", device, watts.error()));
    const double per_watt = measured.packets_per_second / *watts;
    row.note += fmt::format("; {:.0f} W, {:.3f} M/s a watt", *watts, per_watt * 1e-6);
    rows_["power"].push_back({{"row", row.name},
                              {"device", device},
                              {"watts", *watts},
                              {"packets_per_second", measured.packets_per_second},
                              {"packets_per_second_a_watt", per_watt}});
  }

  const Settings& settings_;
  Rows& rows_;
  StageFrames frames_;
  const u32 packets_;                       // different ones
  std::map<int, const Row*> plain_;         // by GPU
  double made_in_ = 0, made_again_in_ = 0;  // the last program: seconds from its object, and once more
  std::map<std::string, std::shared_ptr<const gpu::Pipelines>> translated_;  // by program and architecture
};

int run(const Settings& settings) {
  Rows rows("programs");
  rows["sources"] = settings.sources;
  rows["ports"] = settings.ports;
  rows["flows"] = settings.flows;
  rows["hits_of_a_hundred"] = settings.hits;
  rows["frames"] = settings.frames;
  rows["seconds"] = settings.seconds;
  rows["repeats"] = settings.repeats;
  const auto wanted = [&](const std::string& name) {
    return settings.only.empty() ||
           std::any_of(settings.only.begin(), settings.only.end(),
                       [&](const auto& part) { return name.find(part) != name.npos; });
  };
  std::vector<Filter> filters;
  const Entries addresses = random_entries(settings.sources, settings.ports, true);
  const std::string folder = settings.objects.empty() ? usual_folder() : settings.objects;
  for (const bool drops_hits : {true, false}) {
    auto filter = xdp_filter(folder, drops_hits, addresses);
    if (filter)
      filters.push_back(*std::move(filter));
    else
      rows.leave_out(filter.error());
  }
  filters.push_back(own_filter(random_entries(settings.sources, settings.ports, false)));
  filters.push_back(balancer(settings.flows));
  Bench bench(settings, rows);
  std::set<int> gpus;
  for (const std::string& device : settings.devices)
    if (is_gpu(device) && gpus.insert(gpu_number(device)).second) bench.plain(device);
  for (const Filter& filter : filters)
    if (wanted(filter.name)) bench.measure(filter);
  fmt::print(
      "filters that look for {} sources and {} ports, and a load balancer of {} flows; up to {} frames of 64 "
      "bytes in chunks of {} bytes, of no order; the kernel by BPF_PROG_TEST_RUN, which runs a packet many "
      "times on end: its caches "
      "are warm, and no packet is received, both to its advantage; median of {} runs of {} s\n\n",
      settings.sources, settings.ports, settings.flows, settings.frames, XG_CHUNK_SIZE, settings.repeats,
      settings.seconds);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  CLI::App app(
      "XDP programs as stages: packets a second, against the kernel and the stage that does the same; and "
      "compiling");
  app.add_option("--device", settings.devices,
                 "compute devices, as `xdpgpu devices` names them; with /persistent behind, driven by a "
                 "resident kernel")
      ->delimiter(',');
  app.add_option("--batch", settings.batches, "packets a batch, the largest last")
      ->delimiter(',')
      ->check(CLI::Range(64, 65536));
  app.add_option("--only", settings.only,
                 "programs that have one of these in their names: filter, dny, alw, balancer")
      ->delimiter(',');
  app.add_option("--objects", settings.objects,
                 "folder of xdp-filter's objects; without it LIBXDP_OBJECT_PATH, or where Debian has them");
  app.add_option("--sources", settings.sources, "source addresses, or prefixes, in a program's map")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--ports", settings.ports, "ports in a program's map")->check(CLI::Range(1, 6'000));
  app.add_option("--flows", settings.flows, "flows that the load balancer remembers")
      ->check(CLI::Range(256, 1 << 20));
  app.add_option("--hits", settings.hits, "of a hundred packets, those that are made to hit")
      ->check(CLI::Range(0, 100));
  app.add_option("--frames", settings.frames, "frames in memory, of 2 KiB each")
      ->check(CLI::Range(64, 1 << 22));
  app.add_option("--sample", settings.sample, "different packets that the kernel is timed with")
      ->check(CLI::Range(1, 65536));
  app.add_option("--seconds", settings.seconds, "length of a run")->check(CLI::Range(0.01, 60.0));
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_option("--power-seconds", settings.power_seconds,
                 "length of the run in which a GPU's watts are read")
      ->check(CLI::Range(0.1, 60.0));
  app.add_flag("--huge", settings.huge, "frames on pages of 2 MiB");
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-programs: {}\n", error.what());
    return 1;
  }
}
