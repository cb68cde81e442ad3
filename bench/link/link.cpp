// SPDX-License-Identifier: MIT
//
// bench/link: what does it cost to link a function into a CUDA pipeline when it is loaded? How long compiling
// and linking take, how large the result is, how long loading it takes beside a kernel that stays, and what a
// call costs a packet, launched and resident, against the same function known when the kernels were compiled.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "bench/link/orders.hpp"
#include "bench/link/toolchain.hpp"
#include "bench/rows.hpp"
#include "bench/stages/acl_cases.hpp"
#include "bench/stages/frames.hpp"
#include "gpu/cuda/memory.hpp"
#include "gpu/device_code.hpp"
#include "gpu/pipelines.hpp"
#include "gpu/stages/table.h"
#include "gpu/stages/view.h"

#define XG_JUDGE static
#include "bench/link/function.h"

// The modules and the function's text, as they were built (CMakeLists.txt).
extern "C" const char xg_inlined_begin[], xg_inlined_end[], xg_linked_begin[], xg_linked_end[],
    xg_lto_begin[], xg_lto_end[], xg_function_begin[], xg_function_end[];

namespace xdpgpu::bench::link {
namespace {

using Clock = std::chrono::steady_clock;
using gpu::cuda::DeviceMemory;
using gpu::cuda::Pinned;
using gpu::cuda::Registration;
using gpu::cuda::Stream;

constexpr u32 kBlock = 128;
constexpr u32 kGeneration = DeviceQueue::kGeneration;
constexpr const char* kArchitecture = "90";

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <class T>
T must(gpu::Result<T> result) {
  if (!result) throw std::runtime_error(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(gpu::cuda::failure(what, error).value());
}

// A way to come to kernels that have the function in them.
struct Way {
  std::string name;
  Code module;
};

class Module {
 public:
  // read_ms: is told as soon as the code has been read, which is before it is brought to the GPU.
  explicit Module(const Code& code, std::atomic<double>* read_ms = nullptr) {
    const auto start = Clock::now();
    must(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
         "reading a module");
    read_ms_ = ms_since(start);
    if (read_ms != nullptr) *read_ms = read_ms_;
    must(cudaLibraryGetKernel(&launched_, library_, "launched"), "finding a kernel");
    must(cudaLibraryGetKernel(&stays_, library_, "stays"), "finding a kernel");
    // Loading is put off until a kernel is asked about.
    cudaFuncAttributes attributes{};
    must(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(launched_)), "loading a kernel");
    registers_ = attributes.numRegs;
    stack_ = attributes.localSizeBytes;
    must(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(stays_)), "loading a kernel");
    load_ms_ = ms_since(start);
  }
  ~Module() { (void)cudaLibraryUnload(library_); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  const void* launched() const { return reinterpret_cast<const void*>(launched_); }
  const void* stays() const { return reinterpret_cast<const void*>(stays_); }
  double load_ms() const { return load_ms_; }
  int registers() const { return registers_; }
  std::size_t stack() const { return stack_; }

 private:
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t launched_ = nullptr, stays_ = nullptr;
  double read_ms_ = 0, load_ms_ = 0;
  int registers_ = 0;
  std::size_t stack_ = 0;
};

// Frames, a policy and results as the CUDA device has them.
class Bed {
 public:
  Bed(u32 count, u32 rules) : frames_(count, false), count_(count) {
    cases_ = acl_cases(AclShape::crossing, {rules}, count);
    frames_.fill(cases_.front().packets);
    pipelines_ = must(gpu::Pipelines::compile({{"main", cases_.front().stages}}));
    stream_ = must(Stream::create());
    const auto region = frames_.region(count);
    registration_ = must(Registration::create(region.base, region.bytes));
    descriptors_ = must(Pinned::create(u64{count} * sizeof(xg_descriptor)));
    std::copy(region.descriptors.begin(), region.descriptors.end(),
              reinterpret_cast<xg_descriptor*>(descriptors_.host()));
    results_ = must(Pinned::create(u64{count} * sizeof(xg_result)));
    mail_ = must(Pinned::create(sizeof(Mail)));
    const auto& image = pipelines_->image();
    image_ = must(DeviceMemory::create(image.size() * sizeof(u32), image.data(), stream_));
    batch_.frames.v = reinterpret_cast<xg_word*>(registration_.device());
    batch_.frames_bytes = region.bytes;
    batch_.descriptors.v = reinterpret_cast<xg_descriptor*>(descriptors_.device());
    batch_.results.v = reinterpret_cast<xg_result*>(results_.device());
    batch_.image.v = reinterpret_cast<xg_word*>(image_.get());
    batch_.generation = kGeneration;
  }

  // Packets a second, of batches of them all that follow each other.
  double launched(const Module& module, u32 batches) {
    xg_batch batch = batch_;
    batch.count = count_;
    void* arguments[] = {&batch};
    const auto start = Clock::now();
    for (u32 i = 0; i < batches; i++)
      must(cudaLaunchKernel(module.launched(), dim3((count_ + kBlock - 1) / kBlock), dim3(kBlock), arguments,
                            0, stream_.get()),
           "starting a kernel");
    must(cudaStreamSynchronize(stream_.get()), "waiting for a kernel");
    return double{static_cast<double>(count_)} * batches /
           std::chrono::duration<double>(Clock::now() - start).count();
  }

  // A kernel that stays, for batches of so many.
  void begin(const Module& module, u32 count) {
    xg_batch batch = batch_;
    batch.count = count;
    mail() = {};
    Mail* const there = reinterpret_cast<Mail*>(mail_.device());
    void* arguments[] = {&batch, const_cast<Mail**>(&there)};
    must(cudaLaunchKernel(module.stays(), dim3(1), dim3(kBlock), arguments, 0, stream_.get()),
         "starting a kernel");
    order_ = 0;
  }
  // ns from the order until the answer is seen.
  double ask() {
    const auto start = Clock::now();
    std::atomic_ref(mail().order).store(++order_, std::memory_order_release);
    while (std::atomic_ref(mail().done).load(std::memory_order_acquire) != order_)
      if (Clock::now() - start > std::chrono::seconds(5))
        throw std::runtime_error("the kernel that stays is silent");
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  }
  void end() {
    std::atomic_ref(mail().order).store(kEnd, std::memory_order_release);
    must(cudaStreamSynchronize(stream_.get()), "waiting for a kernel");
  }

  // What is wrong with the first `count` results, if anything.
  std::string check(u32 count) {
    const auto* results = reinterpret_cast<const xg_result*>(results_.host());
    for (u32 i = 0; i < count; i++) {
      const u8* const frame =
          frames_.region(count_).base + reinterpret_cast<const xg_descriptor*>(descriptors_.host())[i].offset;
      const auto word = [&](u32 at) {
        u32 value = 0;
        std::memcpy(&value, frame + at, sizeof(value));
        return value;
      };
      // Ethernet, IPv4 without options.
      const u32 length = reinterpret_cast<const xg_descriptor*>(descriptors_.host())[i].length;
      const u32 wanted = judge(word(26), 0, word(30), 0, word(34), frame[23], length);
      if (results[i].detail != wanted)
        return fmt::format("packet {}: {:x} instead of {:x}", i, results[i].detail, wanted);
    }
    std::fill_n(reinterpret_cast<u8*>(results_.host()), u64{count} * sizeof(xg_result), u8{0});
    return {};
  }

  FrameRegion region(u32 count) const { return frames_.region(count); }
  const std::shared_ptr<const gpu::Pipelines>& pipelines() const { return pipelines_; }
  // Makes them those of another generation.
  static void make_all(const FrameRegion& region, u32 count, u32 generation) {
    for (u32 i = 0; i < count; i++)
      std::memcpy(
          region.base + region.descriptors[i].offset - XG_METADATA_SIZE + offsetof(xg_metadata, generation),
          &generation, sizeof(generation));
  }

 private:
  Mail& mail() { return *reinterpret_cast<Mail*>(mail_.host()); }

  StageFrames frames_;
  std::vector<StageCase> cases_;
  std::shared_ptr<const gpu::Pipelines> pipelines_;
  Stream stream_;
  Registration registration_;
  Pinned descriptors_, results_, mail_;
  DeviceMemory image_;
  xg_batch batch_{};
  u32 count_, order_ = 0;
};

// NVRTC has none of the host's headers: what device code takes of them.
const std::map<std::string, std::string> kHeaders{
    {"cstddef",
     "using size_t = decltype(sizeof(0)); namespace std { using ::size_t; }\n"
     "#define offsetof(type, member) XG_OFFSET_##type##_##member\n"},
    {"cstdint",
     "namespace std { using uint8_t = unsigned char; using uint16_t = unsigned short; using uint32_t = "
     "unsigned; using uint64_t = unsigned long long; using uintptr_t = unsigned long; using int8_t = "
     "signed char; using int16_t = short; using int32_t = int; using int64_t = long long; }\n"},
    {"stdint.h", "#include <cstdint>\n"},
    {"stddef.h", "#include <cstddef>\n"},
    {"cstring", "\n"},
    {"cuda_runtime_api.h", "\n"},
};

struct Settings {
  int repeats = 5;
  u32 packets = 65536, batches = 64, asks = 20000, rules = 1000;
  std::string source;  // the tree, for the whole of it by NVRTC
  std::string json;
};

std::string_view text_of(const char* begin, const char* end) { return {begin, end}; }
Code code_of(const char* begin, const char* end) { return {begin, end}; }

class Bench {
 public:
  Bench(const Settings& settings, Rows& rows) : settings_(settings), rows_(rows) {}

  // Compiling and linking, which take no GPU.
  void make_modules() {
    const std::string function = "#define XG_JUDGE extern \"C\" __device__\n" +
                                 std::string(text_of(xg_function_begin, xg_function_end));
    ways_.push_back({kInlined, code_of(xg_inlined_begin, xg_inlined_end)});
    add(kCalled, function, text_of(xg_linked_begin, xg_linked_end), Form::cubin);
    add(kOptimised, function, text_of(xg_lto_begin, xg_lto_end), Form::lto);
    if (!settings_.source.empty()) add_whole();
  }

  void measure() {
    Bed bed(settings_.packets, settings_.rules);
    std::vector<std::unique_ptr<Module>> modules;
    for (const Way& way : ways_) {
      modules.push_back(std::make_unique<Module>(way.module));
      Row& row = rows_.add({.name = way.name + ": loading", .device = "cuda", .unit = "ms"});
      row.runs.push_back(modules.back()->load_ms());
      row.note = fmt::format("{} bytes, {} registers, {} bytes of stack", way.module.size(),
                             modules.back()->registers(), modules.back()->stack());
    }
    std::vector<Row*> launched, asked;
    for (const Way& way : ways_) {
      const bool first = way.name == kInlined;
      launched.push_back(
          &rows_.add({.name = way.name + ": launched, batches of " + std::to_string(settings_.packets),
                      .device = "cuda",
                      .unit = "M/s",
                      .scale = 1e-6,
                      .against = first ? "" : launched_name()}));
    }
    for (const Way& way : ways_)
      asked.push_back(&rows_.add({.name = way.name + ": resident, 128 packets, p50",
                                  .device = "cuda",
                                  .unit = "us",
                                  .scale = 1e-3}));
    for (int repeat = -1; repeat < settings_.repeats; repeat++)
      for (std::size_t i = 0; i < modules.size(); i++) {
        const double rate = bed.launched(*modules[i], settings_.batches);
        if (std::string wrong = bed.check(settings_.packets); !wrong.empty()) launched[i]->problem = wrong;
        bed.begin(*modules[i], kBlock);
        std::vector<double> times;
        for (u32 k = 0; k < settings_.asks; k++) times.push_back(bed.ask());
        bed.end();
        if (std::string wrong = bed.check(kBlock); !wrong.empty()) asked[i]->problem = wrong;
        if (repeat < 0) continue;
        launched[i]->runs.push_back(rate);
        asked[i]->runs.push_back(median(std::move(times)));
      }
    beside(bed, *modules.front());
    for (const gpu::Drive drive : {gpu::Drive::launched, gpu::Drive::persistent, gpu::Drive::graph})
      under_traffic(bed, drive);
  }

 private:
  static constexpr const char* kInlined = "known at compile time";
  static constexpr const char* kCalled = "linked, called";
  static constexpr const char* kOptimised = "linked, optimised together";
  std::string launched_name() const {
    return std::string(kInlined) + ": launched, batches of " + std::to_string(settings_.packets);
  }

  void add(const char* name, const std::string& function, std::string_view kernels, Form form) {
    Row& compiling = rows_.add({.name = fmt::format("{}: the function by NVRTC", name), .unit = "ms"});
    Row& linking = rows_.add({.name = fmt::format("{}: the link", name), .unit = "ms"});
    Code module;
    for (int i = -1; i < settings_.repeats; i++) {
      auto start = Clock::now();
      const auto compiled = compile(function, kArchitecture, form);
      if (!compiled) throw std::runtime_error(compiled.error());
      const double compile_ms = ms_since(start);
      start = Clock::now();
      auto linked =
          link::link({{kernels, form}, {{compiled->data(), compiled->size()}, form}}, kArchitecture, form);
      if (!linked) throw std::runtime_error(linked.error());
      const double link_ms = ms_since(start);
      module = std::move(*linked);
      compiling.note = fmt::format("{} bytes", compiled->size());
      linking.note = fmt::format("{} bytes", module.size());
      if (i < 0) continue;
      compiling.runs.push_back(compile_ms);
      linking.runs.push_back(link_ms);
    }
    ways_.push_back({name, std::move(module)});
  }

  // One module a pipeline: the kernels and the function by NVRTC.
  void add_whole() {
    constexpr const char* kName = "all by NVRTC";
    // What is asserted has been so when this was built. Of members' offsets NVRTC makes no constants.
    const std::string text =
        "#define static_assert(...)\n#define XG_JUDGE static __device__ __forceinline__\n#include "
        "\"bench/link/function.h\"\n"
        "#include \"bench/link/decider.cuh\"\n";
    Row& row = rows_.add({.name = std::string(kName) + ": the kernels and the function", .unit = "ms"});
    Code module;
    for (int i = 0; i < 2; i++) {
      const auto start = Clock::now();
      std::vector<std::string> options{"-I" + settings_.source,
                                       "-I" + settings_.source + "/build/release/generated",
                                       "--device-as-default-execution-space"};
      options.insert(
          options.end(),
          {"-D__builtin_memcpy=memcpy", "-D__builtin_memset=memset", "--diag-suppress=161",
           fmt::format("-DXG_OFFSET_xg_flow_stats_base_packets={}", offsetof(xg_flow_stats, base_packets)),
           fmt::format("-DXG_OFFSET_xg_touch_more={}", offsetof(xg_touch, more))});
      for (const char* path : {"/usr/local/cuda/include", "/usr/local/cuda/include/cccl"})
        options.push_back(std::string("-I") + path);
      auto compiled = compile(text, kArchitecture, Form::cubin, options, kHeaders);
      if (!compiled) {
        rows_.leave_out(fmt::format("{}: {}", kName, compiled.error().substr(0, 2000)));
        return;
      }
      auto linked =
          link::link({{{compiled->data(), compiled->size()}, Form::cubin}}, kArchitecture, Form::cubin);
      if (!linked) throw std::runtime_error(linked.error());
      module = std::move(*linked);
      row.runs.push_back(ms_since(start));
      row.note = fmt::format("{} bytes", module.size());
    }
    ways_.push_back({kName, std::move(module)});
  }

  // Loading while a kernel stays: whether it comes back, and how long the batches of that one wait meanwhile.
  void beside(Bed& bed, const Module& resident) {
    for (const Way& way : ways_) {
      Row& loading = rows_.add(
          {.name = way.name + ": loading beside a kernel that stays", .device = "cuda", .unit = "ms"});
      Row& pause = rows_.add({.name = way.name + ": its longest answer meanwhile",
                              .device = "cuda",
                              .unit = "us",
                              .scale = 1e-3});
      bed.begin(resident, kBlock);
      bed.ask();
      std::atomic<bool> loaded{false};
      std::atomic<double> read_ms{-1};
      double load_ms = 0;
      std::thread loader([&] {
        try {
          const Module module(way.module, &read_ms);
          load_ms = module.load_ms();
        } catch (const std::exception& error) {
          loading.problem = error.what();
        }
        loaded = true;
      });
      double longest = 0;
      const auto start = Clock::now();
      while (!loaded && ms_since(start) < 3000) longest = std::max(longest, bed.ask());
      if (!loaded)
        loading.note =
            fmt::format("waits for the kernel that stays to end; reading the code {}",
                        read_ms < 0 ? "waits, too" : fmt::format("took {:.3f} ms", read_ms.load()));
      bed.end();
      loader.join();
      loading.runs.push_back(load_ms);
      pause.runs.push_back(longest);
    }
  }

  // The device's own code under another name, which a policy brings while batches come one after the other:
  // how long loading it takes, and the longest batch until those of that policy are decided by it. All come
  // back, and rightly.
  void under_traffic(const Bed& bed, gpu::Drive drive) {
    constexpr std::array kDrives{"launched", "persistent", "graph"};
    const std::string name =
        fmt::format("{}, batches of {} one by one", kDrives[static_cast<u32>(drive)], kBlock);
    const FrameRegion region = bed.region(kBlock);
    const auto& pipelines = bed.pipelines();
    auto device = must(gpu::open_device("cuda"));
    must(device->register_frames(region.base, region.bytes, gpu::Frames::in_place));
    must(device->load(kGeneration, pipelines));
    auto queue = device->open_queue({kBlock, 1, drive});
    if (!queue) return rows_.leave_out(fmt::format("{}: {}", name, queue.error()));
    Row& alone = rows_.add({.name = name + ": p50", .device = "cuda", .unit = "us", .scale = 1e-3});
    Row& loading = rows_.add({.name = name + ": loading a policy's code", .device = "cuda", .unit = "ms"});
    Row& pause = rows_.add({.name = name + ": the longest batch until the code decides",
                            .device = "cuda",
                            .unit = "us",
                            .scale = 1e-3});
    std::string problem;
    std::vector<u32> verdicts;
    const auto decide = [&](u32 generation) {
      gpu::Slot* const slot = (*queue)->acquire();
      std::copy_n(region.descriptors.begin(), kBlock, slot->descriptors);
      const auto start = Clock::now();
      if ((*queue)->submit(slot, kBlock, generation) != gpu::Submit::ok) problem = "a batch is not taken";
      while (problem.empty() && (*queue)->poll() == nullptr)
        if (Clock::now() - start > std::chrono::seconds(5)) problem = "a batch does not come back";
      const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
      std::vector<u32> now;
      for (u32 i = 0; i < kBlock; i++) now.push_back(slot->results[i].verdict);
      if (verdicts.empty()) verdicts = now;
      if (now != verdicts) problem = "the verdicts are others";
      (*queue)->release(slot);
      return ns;
    };
    for (u32 i = 0; i < 2000 && problem.empty(); i++) decide(kGeneration);
    for (int repeat = 0; repeat < settings_.repeats && problem.empty(); repeat++) {
      std::vector<double> times;
      for (u32 i = 0; i < 5000 && problem.empty(); i++) times.push_back(decide(kGeneration + repeat));
      alone.runs.push_back(median(std::move(times)));
      auto code = std::make_shared<gpu::DeviceCode>(*device->code());
      code->id = fmt::format("copy {}", repeat);
      std::atomic<bool> loaded{false};
      double load_ms = 0;
      std::thread loader([&] {
        const auto start = Clock::now();
        const auto done = device->load(kGeneration + repeat + 1, gpu::Pipelines::with_code(pipelines, code));
        load_ms = ms_since(start);
        if (!done) loading.problem = done.error();
        loaded = true;
      });
      double longest = 0;
      while (!loaded && problem.empty()) longest = std::max(longest, decide(kGeneration + repeat));
      loader.join();
      Bed::make_all(region, kBlock, kGeneration + repeat + 1);
      for (u32 i = 0; i < 200 && problem.empty(); i++)
        longest = std::max(longest, decide(kGeneration + repeat + 1));
      device->unload(kGeneration + repeat);
      loading.runs.push_back(load_ms);
      pause.runs.push_back(longest);
    }
    Bed::make_all(region, kBlock, kGeneration);
    if (!problem.empty()) pause.problem = problem;
  }

  const Settings& settings_;
  Rows& rows_;
  std::vector<Way> ways_;
};

}  // namespace
}  // namespace xdpgpu::bench::link

int main(int argc, char** argv) {
  using namespace xdpgpu::bench;
  link::Settings settings;
  CLI::App app{"What a function costs that is linked into a CUDA pipeline when it is loaded"};
  app.add_option("--packets", settings.packets, "packets of a batch that is launched")
      ->check(CLI::Range(128, 262144));
  app.add_option("--batches", settings.batches, "batches of a run")->check(CLI::Range(1, 4096));
  app.add_option("--asks", settings.asks, "batches of a run of the kernel that stays")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--rules", settings.rules, "rules of the pipeline's acl")->check(CLI::Range(1, 100000));
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_option("--source", settings.source,
                 "the tree that this was built of: compiles all of it by NVRTC, too");
  app.add_option("--json", settings.json, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  Rows rows("link");
  try {
    const auto loaded = link::load_toolchain();
    int gpus = 0;
    if (!loaded) {
      rows.leave_out(loaded.error());
    } else {
      link::Bench bench(settings, rows);
      bench.make_modules();
      if (cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0)
        bench.measure();
      else
        rows.leave_out("there is no GPU here: nothing is loaded or run");
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-link: {}\n", error.what());
    return 1;
  }
  return rows.report(settings.json) ? 0 : 1;
}
