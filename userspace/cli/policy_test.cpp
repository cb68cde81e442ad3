// SPDX-License-Identifier: MIT
#include "userspace/control/policy_test.hpp"

#include <fmt/format.h>

#include <set>

#include "userspace/cli/command.hpp"
#include "userspace/cli/policy_commands.hpp"
#include "userspace/control/describe.hpp"

namespace xdpgpu::cli {
namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string device = "cpu";
  u64 seed = 1;
  bool no_kernel = false;
};

struct FileReport {
  std::string file, policy;
  std::vector<control::CaseResult> cases;
  static void fields(auto& self, auto& field) {
    field("file", self.file);
    field("policy", self.policy);
    field("cases", self.cases);
  }
};

struct TestReport {
  bool ok = true;
  u64 cases = 0, failed = 0, packets = 0;
  std::vector<FileReport> files;
  std::vector<std::string> notes;
  static void fields(auto& self, auto& field) {
    field("ok", self.ok);
    field("cases", self.cases);
    field("failed", self.failed);
    field("packets", self.packets);
    field("files", self.files);
    field("notes", self.notes);
  }
};

std::string text_of(const control::CaseResult& result) {
  std::string text = fmt::format("  {:<7} {} ({})\n", result.ok ? "ok" : "FAILED", result.name,
                                 control::counted(result.packets, "packet"));
  for (const auto& failure : result.failures)
    text += fmt::format("          packet {} ({}): expected {}; came {}\n", failure.packet, failure.words,
                        failure.expected, failure.came);
  if (result.more_failures > 0)
    text += fmt::format("          and {} more\n", control::counted(result.more_failures, "packet"));
  for (const auto& problem : result.problems) text += fmt::format("          {}\n", problem);
  return text;
}

int run(const Arguments& arguments, Format format) {
  // All of them, ahead of the first case: what is wrong with a file is said before anything is.
  control::PolicyTestReader reader(arguments.seed);
  std::vector<control::PolicyTest> tests;
  for (const auto& file : arguments.files) {
    auto test = reader.read(file);
    if (!test) return refuse(test.error());
    tests.push_back(std::move(*test));
  }
  control::ReplayOptions options;
  options.device = arguments.device;
  options.kernel = !arguments.no_kernel;
  options.repeatable = true;
  TestReport report;
  std::set<std::string> notes;
  for (const auto& test : tests) {
    FileReport& file = report.files.emplace_back(FileReport{test.file, test.policy, {}});
    if (format == Format::text) print(fmt::format("{} (policy {})\n", test.file, test.policy));
    for (const auto& one : test.cases) {
      auto done = control::run_case(one, options);
      if (!done) return fail(fmt::format("{}: {}: {}", test.file, one.pointer, done.error()));
      report.cases++;
      report.failed += !done->result.ok;
      report.packets += done->result.packets;
      notes.insert(fmt::format("kernel part {}; pipelines on device {}", done->kernel_part, done->device));
      if (format == Format::text) print(text_of(done->result));
      file.cases.push_back(std::move(done->result));
    }
  }
  report.ok = report.failed == 0;
  report.notes.assign(notes.begin(), notes.end());
  if (format == Format::json) {
    print_record(report);
  } else {
    for (const auto& note : report.notes) print("note: " + note + "\n");
    print(fmt::format("{}, {}: {}\n", control::counted(report.cases, "case"),
                      control::counted(report.packets, "packet"),
                      report.ok ? std::string("all as expected") : fmt::format("{} failed", report.failed)));
  }
  return report.ok ? kDone : kFailed;
}

}  // namespace

void add_policy_test(CLI::App& policy, Chosen& chosen) {
  auto arguments = std::make_shared<Arguments>();
  auto* command = policy.add_subcommand("test", "Hold a policy against packets and what is expected of them");
  describe(
      *command,
      "Reads files of cases (JSON, policy-test.schema.json; config/policy-tests.md explains them). Each\n"
      "names a policy, and packets in words or of captures, with the verdicts that are expected.\n"
      "Decides as \"replay --seed\" does: the rules by the kernel's program as root, else (and where rules\n"
      "have limits) in user space with the same answers; what is inspected by the real pipelines.\n"
      "Nothing is sent, and no interface is needed. Each case begins with nothing remembered, and goes\n"
      "by its own clock. Prints a line for each case; of one that fails which packet, what was\n"
      "expected, what came and why. Exit status 0: all as expected; 1: some were not, or a case could\n"
      "not be run; 2: a file or its policy is wrong, and nothing was run. A file has 10,000 cases at\n"
      "most, a case 1,000,000 packets.");
  command->add_option("files", arguments->files, "Files of cases (JSON)")->required()->type_name(kFile);
  command->add_option("--device", arguments->device, "Compute device (see \"xdpgpu devices\"); default cpu")
      ->check(device_name())
      ->type_name(kDevice);
  command->add_option("--seed", arguments->seed, "Hash flows by a key that is made of this number; default 1")
      ->check(whole_number())
      ->type_name("N");
  command->add_flag("--no-kernel", arguments->no_kernel, "Walk the rules in user space, also as root");
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return run(*arguments, *format); });
}

}  // namespace xdpgpu::cli
