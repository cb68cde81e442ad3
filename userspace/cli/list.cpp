// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "userspace/cli/command.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/request/list_change.hpp"
#include "userspace/control/request/list_show.hpp"
#include "userspace/policy/domain_file.hpp"

namespace xdpgpu::cli {
namespace {

struct Arguments {
  std::string ifname, list;
  std::vector<std::string> names;
  u64 limit = control::ListShow::kLimit;
};

// The first of them, and how many more there are.
std::string named(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const std::size_t shown = std::min(names.size(), kShown);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

int change(const Arguments& what, bool add, Format format) {
  std::string names;
  for (const std::string& name : what.names) {
    if (const auto line = policy::DomainReader::line_of(name, false); !line)
      return fail(
          fmt::format("{}: write names as a list's file has them, in UTF-8 or in ASCII", line.error()),
          kUsage);
    names += name + '\n';
  }
  int status = kFailed;
  const auto answer = ask<control::ListChange>(what.ifname, status, {.list = what.list, .add = add},
                                               {{control::ListChange::kNames, names}});
  if (!answer) return status;
  if (format == Format::json) {
    print_record(*answer);
    return kDone;
  }
  print(fmt::format(
      "list {} of {}: {} {}{}{}\n", what.list, what.ifname, control::counted(answer->changed.size(), "name"),
      add ? "added" : "removed", answer->changed.empty() ? "" : ": " + named(answer->changed),
      answer->unchanged.empty()
          ? ""
          : fmt::format("; {} already: {}", add ? "there" : "not there", named(answer->unchanged))));
  return kDone;
}

int show(const Arguments& what, Format format) {
  int status = kFailed;
  control::ListShow::Arguments arguments{.list = {}, .limit = what.limit};
  if (!what.list.empty()) arguments.list = what.list;
  const auto answer = ask<control::ListShow>(what.ifname, status, arguments);
  if (!answer) return status;
  if (format == Format::json) {
    print_record(*answer);
    return kDone;
  }
  if (answer->lists.empty()) print(fmt::format("the policy of {} has no list of names\n", what.ifname));
  for (const auto& list : answer->lists)
    print(fmt::format("{}{}: {} added and {} removed since it was compiled{}\n", list.list,
                      list.file ? fmt::format(" ({})", *list.file) : "", list.added, list.removed,
                      list.asked ? "" : "; no stage asks it"));
  if (!answer->changes) return kDone;
  for (const auto& [name, how] : *answer->changes)
    print(fmt::format("{} {}\n", how == "added" ? '+' : '-', name));
  if (answer->left_out > 0)
    print(fmt::format("{} more are left out; show more with \"xdpgpu list show {} {} --limit N\"\n",
                      answer->left_out, kernel::names::operand(what.ifname), what.list));
  return kDone;
}

void add_change(CLI::App& list, Chosen& chosen, bool add) {
  auto arguments = std::make_shared<Arguments>();
  auto* command =
      list.add_subcommand(add ? "add" : "remove", add ? "Add names to a list of the policy in force"
                                                      : "Remove names from such a list");
  describe(
      *command,
      add ? "Adds names to a list with \"type\": \"domain\" of the policy in force: nothing is compiled, "
            "and\n"
            "packets that come from then on meet them. All of them, or where that fails none. Write them as\n"
            "the list's file has them: x.example, .x.example with all beneath it, '*.x.example' for what is\n"
            "beneath it. They are there until detach, or until the policy has no such list; write them into\n"
            "the list's file as well to keep them."
          : "Removes entries from a list with \"type\": \"domain\" of the policy in force, as add adds them: "
            "the\n"
            "very entries, and no others that stand for the same names. They are gone until detach, or "
            "until\n"
            "the policy has no such list; take them out of the list's file as well to keep it so.");
  add_attached_interface(*command, arguments->ifname)->required();
  command->add_option("list", arguments->list, "The list's name in the policy")->required();
  command->add_option("names", arguments->names, "Names, as the list's file has them")->required();
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, add, format] { return change(*arguments, add, *format); });
}

void add(CLI::App& app, Chosen& chosen) {
  auto* list = app.add_subcommand("list", "Add names to the policy's lists of names, or remove them");
  list->require_subcommand(1);
  add_change(*list, chosen, true);
  add_change(*list, chosen, false);

  auto arguments = std::make_shared<Arguments>();
  auto* command = list->add_subcommand("show", "Print lists of names, and what was changed of one");
  describe(*command,
           "Prints the policy's lists with \"type\": \"domain\", and how many names were added to each and "
           "removed\n"
           "from it since it was compiled; of one list, these names.");
  add_attached_interface(*command, arguments->ifname)->required();
  command->add_option("list", arguments->list, "The list's name in the policy; all if it is not given");
  command
      ->add_option("--limit", arguments->limit,
                   "Print at most so many names, and say how many are left out; default 1000")
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()).description(""))
      ->type_name("N");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return show(*arguments, *format); });
}

Registered registered(45, add);

}  // namespace

}  // namespace xdpgpu::cli
