// SPDX-License-Identifier: MIT
#include "userspace/control/policy_diff.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/cli/command.hpp"
#include "userspace/cli/policy_commands.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/program_reader.hpp"
#include "userspace/control/request/list_show.hpp"
#include "userspace/control/request/policy_files.hpp"
#include "userspace/control/request/policy_show.hpp"

namespace xdpgpu::cli {
namespace {

// As of diff(1).
constexpr int kSame = 0, kDiffer = 1, kTrouble = 2;

struct DiffReport {
  bool same = true;
  std::string first, second;
  std::vector<control::Difference> differences;
  std::vector<std::string> notes;
  static void fields(auto& self, auto& field) {
    field("same", self.same);
    field("first", self.first);
    field("second", self.second);
    field("differences", self.differences);
    field("notes", self.notes);
  }
};

std::optional<control::ComparedPolicy> read(const std::string& file) {
  auto source = compiler::read_policy(file, control::object_reader());
  if (!source) {
    refuse(source.error());
    return std::nullopt;
  }
  const auto compiled = compiler::compile_policy_anywhere(std::move(*source), "(ingress)");
  if (!compiled) {
    refuse(compiled.error());
    return std::nullopt;
  }
  return control::compared(compiled->policy,
                           control::digests_of(compiled->policy, compiled->source.files, false));
}

// Of a list of the policy in force, as its file was when that was applied.
std::optional<std::string> text_of_list(const std::string& ifname, const std::string& list,
                                        const std::string& hash) {
  std::string text;
  for (std::optional<u64> from = 0; from;) {
    int status = kFailed;
    const auto part = ask<control::PolicyFiles>(ifname, status, {.list = list, .from = from});
    if (!part) return std::nullopt;
    if (part->hash != hash) {
      fail(fmt::format("another policy was put in force on {} meanwhile; run the command again", ifname));
      return std::nullopt;
    }
    text += part->text.value_or("");
    from = part->next;
  }
  return text;
}

// What is known of a policy that is in force: its text, the files of its lists, and what others are known by.
class InForce {
 public:
  explicit InForce(std::string ifname) : ifname_(std::move(ifname)) {}

  std::optional<control::ComparedPolicy> read(std::vector<std::string>& notes) {
    int status = kFailed;
    const auto shown = ask<control::PolicyShow>(ifname_, status);
    if (!shown) return std::nullopt;
    auto files = ask<control::PolicyFiles>(ifname_, status);
    if (!files) return std::nullopt;
    if (files->hash != shown->hash) {
      fail(fmt::format("another policy was put in force on {} meanwhile; run the command again", ifname_));
      return std::nullopt;
    }
    for (auto& file : files->files.value_or(std::vector<control::FileDigest>()))
      others_.emplace(file.name, std::move(file));
    if (!read_lists(shown->text, shown->hash)) return std::nullopt;
    auto policy = policy::parse(shown->text, shown->file, reader());
    if (!policy) {
      fail(
          fmt::format("the policy in force on {} is not one for this command: {}; is the command another "
                      "version than the process?",
                      ifname_, policy.error().front().sentence()));
      return std::nullopt;
    }
    auto known = control::compared(*policy, std::move(others_));
    known.settings["io"] = shown->at_attach.io;
    known.settings["compute"] = shown->at_attach.compute;
    if (shown->audit)
      notes.emplace_back(
          "what is in force drops nothing (--audit); \"policy apply\" without --audit ends that");
    if (shown->trial) notes.emplace_back("what is in force goes back by itself unless it is confirmed");
    note_names(notes);
    return known;
  }

 private:
  // Files that are no list's are not looked into.
  policy::FileReader reader() {
    return {[this](const std::string& path) -> policy::FileReader::Text {
              const auto at = lists_.find(path);
              if (at == lists_.end()) return policy::FileText();
              return policy::FileText(policy::FileText(), &at->second);
            },
            [this](const std::string& pattern) -> policy::FileReader::Names {
              policy::FileContents names;
              for (const auto& [name, digest] : others_) names.emplace(name, "");
              return policy::read_files_in(names).list(pattern);
            },
            [](const std::string&, const programs::Choice&) -> policy::FileReader::Text {
              return policy::FileText();
            }};
  }

  bool read_lists(const std::string& text, const std::string& hash) {
    const auto outline = policy::parse(text, "", reader());
    if (!outline) return true;  // said when it is read whole
    for (const auto& [name, list] : outline->lists) {
      if (list.file.empty() || lists_.contains(list.file)) continue;
      auto content = text_of_list(ifname_, name, hash);
      if (!content) return false;
      lists_.emplace(list.file, std::move(*content));
    }
    return true;
  }

  void note_names(std::vector<std::string>& notes) const {
    const auto lists = control::ask<control::ListShow>(ifname_);
    if (!lists) return;
    for (const auto& list : lists->lists)
      if (list.added + list.removed > 0)
        notes.push_back(
            fmt::format("\"xdpgpu list\" has added {} to list \"{}\" and removed {} from it; "
                        "that stays, and is not compared",
                        control::counted(list.added, "name"), list.list, list.removed));
  }

  std::string ifname_;
  policy::FileContents lists_;  // by file
  std::map<std::string, control::FileDigest> others_;
};

void print_text(const DiffReport& report) {
  std::string part;
  for (const auto& one : report.differences) {
    if (one.part != part)
      print(fmt::format("{}{}:\n", one.part, one.at_attach ? " (taken at attach alone)" : ""));
    part = one.part;
    print("  " + control::text_of(one) + "\n");
  }
  for (const auto& note : report.notes) print("note: " + note + "\n");
  print(report.same
            ? fmt::format("{} and {} are the same policy\n", report.first, report.second)
            : fmt::format("{} between {} and {}\n", control::counted(report.differences.size(), "difference"),
                          report.first, report.second));
}

int run(const std::vector<std::string>& files, const std::string& in_force, Format format) {
  if (files.size() != (in_force.empty() ? 2 : 1))
    return fail(in_force.empty() ? "name two policy files, or one and --in-force IF"
                                 : "name one policy file, which the one in force is compared with",
                kUsage);
  if (std::count(files.begin(), files.end(), "-") > 1)
    return fail("standard input is one policy: name a file for the other one", kUsage);
  DiffReport report;
  const auto called = [](const std::string& file) { return file == "-" ? "(standard input)" : file; };
  report.first = in_force.empty() ? called(files.front()) : "what is in force on " + in_force;
  report.second = called(files.back());
  // What is wrong with a file is said before a process is asked.
  const auto second = read(files.back());
  if (!second) return kTrouble;
  const auto first = in_force.empty() ? read(files.front()) : InForce(in_force).read(report.notes);
  if (!first) return kTrouble;
  report.differences = control::differences(*first, *second);
  report.same = report.differences.empty();
  const bool restart = std::any_of(report.differences.begin(), report.differences.end(),
                                   [](const auto& one) { return one.at_attach.value_or(false); });
  if (restart && !in_force.empty())
    report.notes.emplace_back(
        "\"policy apply\" does not change \"io\" and \"compute\"; detach and attach again for that");
  if (format == Format::json)
    print_record(report);
  else
    print_text(report);
  return report.same ? kSame : kDiffer;
}

}  // namespace

void add_policy_diff(CLI::App& policy, Chosen& chosen) {
  struct Arguments {
    std::vector<std::string> files;
    std::string in_force;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* command = policy.add_subcommand("diff", "Say in what two policies differ, by what they mean");
  describe(
      *command,
      "Compares two policies, or with --in-force what an attached interface goes by and a file: what\n"
      "applying the file would change. Equal policies that are written differently are the same:\n"
      "defaults count as if they were written, lists by their entries, wherever these stand, and values\n"
      "that may come in any order in any order. Descriptions do not count. Rules are known by their\n"
      "names, unnamed ones by what they say; each is added (+), removed (-), changed (~), moved (>) or\n"
      "renamed (=). Of other files (rules, routes, programs) it is said whether they are the same. What\n"
      "is taken at attach, and not by \"policy apply\", is marked. Exit status as of diff(1): 0 no\n"
      "difference, 1 some, 2 trouble.");
  command->add_option("files", arguments->files, "Policy files (JSON); one of them may be -, standard input")
      ->required()
      ->type_name(kFile)
      ->expected(1, 2);
  add_interface(*command, "--in-force", arguments->in_force,
                "Compare the policy in force on this attached interface with one file");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen,
              [arguments, format] { return run(arguments->files, arguments->in_force, *format); });
}

}  // namespace xdpgpu::cli
