// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/bpf.h>

#include <algorithm>

#include <cstdlib>
#include <memory>
#include <optional>

#include "gpu/pipelines.hpp"
#include "gpu/program_counts.hpp"
#include "gpu/program_packets.hpp"
#include "gpu/program_translation.hpp"
#include "gpu/stages/stages.hpp"
#include "userspace/cli/command.hpp"
#include "userspace/compiler/programs/needs.hpp"
#include "userspace/compiler/refusal.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/map_twins.hpp"
#include "userspace/control/program_cost.hpp"
#include "userspace/control/program_reader.hpp"
#include "userspace/control/seccomp.hpp"
#include "userspace/kernel/verifier.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::cli {
namespace {

using control::counted;

struct Arguments {
  std::string file, section;
  std::vector<std::string> devices{"cpu"};
  std::string packets;  // a capture's name
  bool verbose = false;
};

struct NeedReport {
  std::string name;
  u32 number = 0;
  u64 times = 0;
  std::string missing;
  static void fields(auto& self, auto& field) {
    field("name", self.name);
    field("number", self.number);
    field("times", self.times);
    field("missing", self.missing);
  }
};
struct MapReport {
  std::string name, type;
  u32 key_bytes = 0, value_bytes = 0, entries = 0, flags = 0;
  std::string inner;  // the map that those in it are like
  std::string use;
  u64 times = 0;
  std::string missing;
  // Where a device runs the program: which of the device's and the kernel's says what the map has, which way
  // entries go, and how much later, in milliseconds.
  std::string home, direction;
  std::optional<u64> lag_ms;
  static void fields(auto& self, auto& field) {
    field("name", self.name);
    field("type", self.type);
    field("key_bytes", self.key_bytes);
    field("value_bytes", self.value_bytes);
    field("entries", self.entries);
    field("flags", self.flags);
    field("inner", self.inner);
    field("use", self.use);
    field("times", self.times);
    field("missing", self.missing);
    field("home", self.home);
    field("direction", self.direction);
    field("lag_ms", self.lag_ms);
  }
};
struct VerifierReport {
  std::string said, why;
  static void fields(auto& self, auto& field) {
    field("said", self.said);
    field("why", self.why);
  }
};
// How a policy's stage runs it: "in parallel", "counting" and "by key", which are in parallel, too, "in
// order", or "not", where it is missing something. On a GPU of NVIDIA's, "translated", or why it is
// interpreted; nothing where it does not run.
struct RunReport {
  std::string how = "not", why;
  std::optional<std::string> cuda{};
  static void fields(auto& self, auto& field) {
    field("how", self.how);
    field("why", self.why);
    field("cuda", self.cuda);
  }
};
// What a packet costs.
struct CostReport {
  std::string device;
  double nanoseconds = 0;
  u32 batch = 0;
  static void fields(auto& self, auto& field) {
    field("device", self.device);
    field("nanoseconds", self.nanoseconds);
    field("batch", self.batch);
  }
};
struct CheckReport {
  std::string file, program, section, license;
  bool fragments = false;
  u64 instructions = 0, functions = 0;
  std::vector<std::string> tails;  // programs that it goes on with
  std::vector<MapReport> maps;
  std::vector<NeedReport> helpers, map_types, kinds;
  std::vector<std::string> missing, notes;
  RunReport run;
  std::string packets;  // those of the cost: a capture's name, or "made up"
  std::vector<CostReport> cost;
  VerifierReport verifier;
  std::optional<compiler::Problem> error{};  // why the exit status is not 0
  std::vector<std::string> code;             // with -v
  static void fields(auto& self, auto& field) {
    field("file", self.file);
    field("program", self.program);
    field("section", self.section);
    field("license", self.license);
    field("fragments", self.fragments);
    field("instructions", self.instructions);
    field("functions", self.functions);
    field("tails", self.tails);
    field("maps", self.maps);
    field("helpers", self.helpers);
    field("map_types", self.map_types);
    field("kinds", self.kinds);
    field("missing", self.missing);
    field("notes", self.notes);
    field("run", self.run);
    field("packets", self.packets);
    field("cost", self.cost);
    field("verifier", self.verifier);
    field("error", self.error);
    field("code", self.code);
  }
};

// As the report's words and, behind a map, as text's.
struct Use {
  const char *word, *text;
};
Use describe(programs::MapUse use) {
  switch (use) {
    case programs::MapUse::names:
      return {"names", "named to helpers alone"};
    case programs::MapUse::reads:
      return {"reads", "the program only reads it"};
    case programs::MapUse::writes:
      return {"writes", "the program writes it"};
    case programs::MapUse::unknown:
      break;
  }
  return {"unknown", "whether the program writes it is not known"};
}
const char* word_of(gpu::programs::Taking how) {
  switch (how) {
    case gpu::programs::Taking::side_by_side:
      return "in parallel";
    case gpu::programs::Taking::counting:
      return "counting";
    case gpu::programs::Taking::by_key:
      return "by key";
    case gpu::programs::Taking::in_order:
      break;
  }
  return "in order";
}
const char* word_of(kernel::Verdict::Said said) {
  switch (said) {
    case kernel::Verdict::Said::takes:
      return "takes";
    case kernel::Verdict::Said::refuses:
      return "refuses";
    case kernel::Verdict::Said::not_asked:
    case kernel::Verdict::Said::unaskable:
      break;
  }
  return "not asked";
}

std::vector<NeedReport> reports_of(const std::vector<programs::Need>& needs) {
  std::vector<NeedReport> reports;
  reports.reserve(needs.size());
  for (const auto& [name, number, times, why] : needs) reports.push_back({name, number, times, why});
  return reports;
}

CheckReport report_of(const std::string& file, const programs::ObjectProgram& object,
                      const programs::Needs& needs, bool verbose) {
  const auto& program = object.program;
  CheckReport report{.file = file,
                     .program = program.name,
                     .section = object.section,
                     .license = program.license,
                     .fragments = object.fragments,
                     .instructions = needs.instructions,
                     .functions = needs.functions,
                     .tails = {},
                     .maps = {},
                     .helpers = {},
                     .map_types = {},
                     .kinds = {},
                     .missing = programs::missing_of(object, needs),
                     .notes = object.notes,
                     .run = {},
                     .packets = {},
                     .cost = {},
                     .verifier = {},
                     .code = {}};
  for (const auto& tail : program.tails) report.tails.push_back(tail.name);
  if (gpu::programs::redirects_to_interfaces(program))
    report.notes.emplace_back(
        "it redirects packets: a policy's stage says which number is which interface (\"interfaces\")");
  for (u32 i = 0; i < program.maps.size(); i++)
    if (program.maps[i].type == BPF_MAP_TYPE_PROG_ARRAY &&
        std::ranges::find(object.slots, i, &programs::Slot::map) == object.slots.end())
      report.notes.push_back(
          fmt::format("the object puts no programs into its map {}: a policy's stage does (\"programs\")",
                      program.maps[i].name));
  for (const auto& map : program.maps) {
    if (map.type == BPF_MAP_TYPE_CPUMAP)
      report.notes.push_back(
          fmt::format("it hands packets to processors by its map {}: on a device these go on as those that "
                      "pass",
                      map.name));
    if (map.type == BPF_MAP_TYPE_XSKMAP)
      report.notes.push_back(fmt::format(
          "its map {} is one of AF_XDP sockets: on a device it is empty, and stays so", map.name));
  }
  if (std::ranges::any_of(needs.helpers, [](const auto& one) { return one.number == BPF_FUNC_fib_lookup; }))
    report.notes.emplace_back(
        "it looks up routes: a policy has them in a stage \"forward\", and says which number is which "
        "interface (\"interfaces\")");
  if (gpu::programs::output_of(program))
    report.notes.push_back(fmt::format(
        "it puts events out: of each packet the first, of {} bytes at most, is in the log of a policy "
        "that has one",
        XG_EVENT_BYTES));
  if (const auto output = gpu::programs::too_long_output_of(program))
    report.notes.push_back(fmt::format("it {}, at instruction {}: a device answers as if there were no room",
                                       output->what, output->instruction));
  report.helpers = reports_of(needs.helpers);
  report.map_types = reports_of(needs.map_types);
  report.kinds = reports_of(needs.kinds);
  const auto plans = control::map_plans(program);
  for (std::size_t i = 0; i < program.maps.size(); i++) {
    const auto& map = program.maps[i];
    const auto& need = needs.maps[i];
    std::optional<u64> lag;
    if (plans[i].home != control::MapHome::device_alone) lag = control::kMapStep.count();
    report.maps.push_back({.name = map.name,
                           .type = need.type,
                           .key_bytes = map.key_bytes,
                           .value_bytes = map.value_bytes,
                           .entries = map.entries,
                           .flags = map.flags,
                           .inner = map.inner < 0 ? "" : program.maps[static_cast<u32>(map.inner)].name,
                           .use = describe(need.use).word,
                           .times = need.times,
                           .missing = need.missing,
                           .home = control::word_of(plans[i].home),
                           .direction = control::direction_of(plans[i].home),
                           .lag_ms = lag});
  }
  if (verbose)
    for (std::size_t i = 0; i < program.instructions.size(); i++) {
      const auto& one = program.instructions[i];
      report.code.push_back(fmt::format("{}: opcode {:#04x} r{} r{} offset {} immediate {}", i, one.opcode,
                                        one.destination, one.source, one.offset, one.immediate));
    }
  return report;
}

gpu::Result<std::shared_ptr<const gpu::Pipelines>> compiled(const gpu::StageSettings& stage) {
  std::vector<gpu::PipelineSettings> pipelines{{.name = "check", .stages = {stage}, .inner = false}};
  // For one that looks routes up.
  if (const auto routes = gpu::stage_with_routes())
    pipelines.push_back({.name = "routes", .stages = {*routes}, .inner = false});
  return gpu::Pipelines::compile(pipelines);
}

// Whether its instructions can be made into a GPU's. That this build and this host have what it takes for
// that is said elsewhere.
std::string how_cuda_runs(const gpu::Pipelines& pipelines) {
  for (const auto& program : gpu::programs::programs_of(pipelines))
    if (const auto source = gpu::programs::translated(program); !source)
      return "interpreted: " + source.error();
  return "translated";
}

// What no stage does for a program, whatever the definition has, is missing, too. What devices run of it;
// nullptr: nothing, as something is missing.
std::shared_ptr<const gpu::Pipelines> say_how_it_runs(const programs::ObjectProgram& object,
                                                      CheckReport& report) {
  const auto stage = gpu::stage_with(std::make_shared<const programs::Program>(object.program));
  if (!stage) {
    report.missing.emplace_back("a stage that runs programs: this build has none");
    return nullptr;
  }
  const auto right = gpu::check_settings(*stage);
  if (!right) report.missing.push_back("a stage that runs it: " + right.error());
  if (!right) return nullptr;
  const gpu::programs::Taken taken = gpu::programs::how_taken(object.program);
  report.run = {word_of(taken.how), taken.why};
  if (!report.missing.empty()) return nullptr;
  const auto pipelines = compiled(*stage);
  if (!pipelines) {
    // Behind the place in a policy, of which there is none.
    const auto& error = pipelines.error();
    const auto place = error.find("): ");
    report.missing.push_back("a stage that runs it: " +
                             (place == std::string::npos ? error : error.substr(place + 3)));
    return nullptr;
  }
  report.run.cuda = how_cuda_runs(**pipelines);
  return *pipelines;
}

// Nothing is measured of a program that lacks something.
control::Result<void> measure(const std::shared_ptr<const gpu::Pipelines>& pipelines,
                              const Arguments& arguments, CheckReport& report) {
  if (pipelines == nullptr || !report.missing.empty()) return {};
  std::vector<std::string> devices;
  for (const auto& name : arguments.devices) {
    if (name != "all") {
      devices.push_back(name);
      continue;
    }
    for (const auto& info : gpu::list_devices())
      if (info.usable) devices.push_back(info.name);
  }
  auto frames = arguments.packets.empty() ? control::Result<control::CostFrames>(control::made_up_frames())
                                          : control::frames_of_capture(arguments.packets);
  if (!frames) return control::Error(frames.error());
  report.packets = arguments.packets.empty() ? "made up" : arguments.packets;
  for (const auto& device : devices) {
    auto cost = control::cost_on(device, pipelines, *frames);
    if (!cost) return control::Error(fmt::format("what a packet costs on {}: {}", device, cost.error()));
    report.cost.push_back({cost->device, cost->nanoseconds, cost->batch});
  }
  return {};
}

std::string names_text(const char* what, const std::vector<NeedReport>& needs) {
  std::vector<std::string> names;
  names.reserve(needs.size());
  for (const auto& one : needs) names.push_back(fmt::format("{} ({})", one.name, one.times));
  return names.empty() ? "" : fmt::format("Needs {}: {}\n", what, fmt::join(names, ", "));
}

// Where a device runs the program.
std::string home_text(const MapReport& map) {
  if (!map.lag_ms) return "on a device it is the device's alone";
  const auto lag = fmt::format("every {} ms", *map.lag_ms);
  if (map.home == "kernel") return "on a device it has what the kernel's has, looked at " + lag;
  if (map.home == "both")
    return "on a device its counts are added to the kernel's, and what is changed there is changed on the "
           "device, " +
           lag;
  return fmt::format("on a device it overwrites the kernel's, {}", lag);
}

std::string text_of(const CheckReport& report, const std::vector<programs::MapNeed>& needs) {
  std::string text =
      fmt::format("{} (section {}): {}, {}{}\n", report.program, report.section,
                  counted(report.instructions, "instruction"), counted(report.functions, "function"),
                  report.fragments ? "; for packets of several buffers, too" : "");
  for (const auto& line : report.code) text += "  " + line + "\n";
  for (std::size_t i = 0; i < report.maps.size(); i++) {
    const auto& map = report.maps[i];
    text += fmt::format("Map {}: {}, keys of {}, values of {}, {} at most{}; {}; {}\n", map.name, map.type,
                        counted(map.key_bytes, "byte"), counted(map.value_bytes, "byte"), map.entries,
                        map.inner.empty() ? "" : fmt::format(", each like {}", map.inner),
                        describe(needs[i].use).text, home_text(map));
  }
  if (!report.tails.empty()) text += fmt::format("Goes on with: {}\n", fmt::join(report.tails, ", "));
  text += names_text("helpers", report.helpers) + names_text("map types", report.map_types) +
          names_text("instructions beside usual ones", report.kinds);
  for (const auto& note : report.notes) text += fmt::format("Note: {}\n", note);
  for (const auto& one : report.missing) text += fmt::format("Missing: {}\n", one);
  if (report.missing.empty()) {
    text += "Nothing that it needs is missing\n";
    text += fmt::format("In a policy it runs {}: {}\n",
                        report.run.how == "in order"   ? "on one packet after the other"
                        : report.run.how == "counting" ? "on many packets at a time, and counts"
                        : report.run.how == "by key"
                            ? "on many packets at a time, those of one key in their order"
                            : "on many packets at a time",
                        report.run.why);
    if (report.run.cuda) text += fmt::format("On CUDA it is {}\n", *report.run.cuda);
  }
  for (const auto& one : report.cost)
    text += fmt::format("A packet costs {:.{}f} ns on {}, in batches of {}\n", one.nanoseconds,
                        one.nanoseconds < 100 ? 1 : 0, one.device, one.batch);
  if (!report.cost.empty())
    text += fmt::format("These packets are {}, and maps have what the object says\n",
                        report.packets == "made up" ? "made up: TCP and UDP, IPv4 and IPv6, to any port"
                                                    : fmt::format("those of {}", report.packets));
  if (report.verifier.said == "takes")
    text += "The kernel's verifier takes it\n";
  else if (report.verifier.said == "refuses")
    text += fmt::format("The kernel's verifier refuses it: {}\n", report.verifier.why);
  else
    text += fmt::format("The kernel's verifier was not asked: {}\n", report.verifier.why);
  return text;
}

int check(const Arguments& arguments, Format format) {
  const auto mode = control::seccomp_mode(std::getenv("XDPGPU_SECCOMP"));
  if (!mode) return fail(mode.error(), kUsage);
  const auto content = policy::read_files_from(".")(arguments.file);
  if (!content) return fail(content.error());
  const auto object = control::read_program_apart(**content, {.name = arguments.section},
                                                  *mode == control::SeccompMode::filter);
  if (!object) return fail(fmt::format("{}: {}", arguments.file, object.error()));
  const auto needs = programs::needs_of(*object);
  auto report = report_of(arguments.file, *object, needs, arguments.verbose);
  const auto pipelines = say_how_it_runs(*object, report);
  const auto verdict = kernel::verify(object->program, object->fragments);
  report.verifier = {word_of(verdict.said), verdict.why};
  // The object's writer has no say in whether the kernel is asked. What types of maps are not made is missing
  // already.
  if (verdict.said == kernel::Verdict::Said::unaskable && report.missing.empty())
    report.missing.push_back(fmt::format("what the kernel's verifier says: {}", verdict.why));
  if (verdict.said == kernel::Verdict::Said::refuses)
    report.error = {.message =
                        fmt::format("the kernel's verifier refuses {}: {}", report.program, verdict.why)};
  else if (!report.missing.empty())
    report.error = {.message = fmt::format("{} needs what is missing: {}", report.program,
                                           fmt::join(report.missing, "; "))};
  if (const auto measured = measure(pipelines, arguments, report); !measured && !report.error)
    report.error = {.message = measured.error()};
  if (report.error) report.error->file = arguments.file;
  if (format == Format::json)
    print_record(report);
  else
    print(text_of(report, needs.maps));
  if (!report.error) return kDone;
  say(fmt::format("{}: {}", arguments.file, report.error->message));
  return kFailed;
}

void add(CLI::App& app, Chosen& chosen) {
  auto* const program = app.add_subcommand("program", "XDP programs of your own");
  program->require_subcommand(1);
  auto* const command =
      program->add_subcommand("check", "Reads an eBPF object, and says what its program needs");
  cli::describe(
      *command,
      "The object is one that clang -target bpf makes. Of its XDP program it says what instructions, "
      "helpers and maps that has, what of those is missing, whether a policy's stage runs it on many packets "
      "at a time, on many and counts, on many but those of one key in their order, or on one after the "
      "other, and why, of each map where its home is and which way it is kept in step with the kernel's, "
      "whether it is translated for CUDA, "
      "what a packet costs, measured, and whether the kernel's verifier takes it. The program is "
      "attached to nothing. The object is read by a process "
      "without privileges.\n"
      "Exit status 1 if something is missing, the verifier refuses it, or it is not asked of such a program "
      "(its maps are too large, say). Who lacks CAP_BPF or CAP_NET_ADMIN is told that the kernel was not "
      "asked.");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("file", arguments->file, "An ELF object")->required()->type_name(kFile);
  command
      ->add_option("--section", arguments->section,
                   "The program: its function's name, or its section's where that has one; default: the only "
                   "XDP program that there is")
      ->type_name("NAME");
  command
      ->add_option(
          "--device", arguments->devices,
          "What a packet costs on these devices (xdpgpu devices); all: on each that can be used here")
      ->type_name(kDevice)
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--packets", arguments->packets, "A capture, whose first packets are measured with")
      ->type_name(kFile);
  command->add_flag("-v,--verbose", arguments->verbose, "Each instruction, too");
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return check(*arguments, *format); });
}

Registered registered(76, add);

}  // namespace
}  // namespace xdpgpu::cli
