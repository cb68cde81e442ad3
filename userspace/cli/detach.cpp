// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "userspace/cli/command.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/last_end.hpp"
#include "userspace/control/request/detach.hpp"
#include "userspace/control/settle.hpp"
#include "userspace/control/summary.hpp"

namespace xdpgpu::cli {
namespace {

struct CleanedUp {
  std::vector<std::string> removed;  // what had been left
  static void fields(auto& self, auto& field) { field("removed", self.removed); }
};
struct LeftAlone {
  bool kept = true;  // for the next attach
  static void fields(auto& self, auto& field) { field("kept", self.kept); }
};

struct Arguments {
  std::string ifname;
  bool all = false, keep = false, unless_left = false;
  std::shared_ptr<Format> format;
};

// What is printed: of one interface its record, of all of them a list.
class Printed {
 public:
  explicit Printed(const Arguments& arguments)
      : json_(*arguments.format == Format::json), all_(arguments.all) {}
  template <class T>
  void say(const T& record, const std::string& text) {
    if (!json_) return print(text);
    if (!all_) return print_record(record);
    records_.push_back(control::as_json(record));
  }
  void end() const {
    if (json_ && all_) print_json(records_);
  }

 private:
  bool json_, all_;
  Json records_ = Json::array();
};

int clean_up(const std::string& ifname, const Arguments& arguments, Printed& printed) {
  const auto lock = control::RunLock::take();
  if (!lock) return fail(lock.error());
  control::settle_names(*lock);
  control::remove_gone_namespaces();
  // How it ended is known of one that was told to: "xdpgpu detach --keep".
  const auto before = control::last_end(ifname);
  if (arguments.unless_left && before && before->left.value_or(false)) {
    printed.say(LeftAlone{},
                fmt::format("{}: its last attach was told to leave it to the next one\n", ifname));
    return kDone;
  }
  const auto removed = control::remove_leftovers(ifname, *lock);
  if (!removed) return fail(removed.error());
  if (removed->empty() && arguments.unless_left) {
    printed.say(CleanedUp{}, fmt::format("{}: nothing is left of an attach\n", ifname));
    return kDone;
  }
  if (removed->empty())
    return fail(
        fmt::format("{} is not attached, and nothing is left of an earlier attach; see what is attached with "
                    "\"xdpgpu status\"",
                    ifname));
  control::keep_last_end({ifname}, (before ? before->why : "its process was killed") +
                                       ", and then \"xdpgpu detach\" removed what it had left");
  printed.say(CleanedUp{*removed}, fmt::format("{}: {}; removed what it left: {}\n", ifname,
                                               before ? "its last attach " + control::last_end_text(before)
                                                      : "the process that attached it is dead",
                                               fmt::join(*removed, ", ")));
  return kDone;
}

// A process that was killed may still take the request with its last breath.
bool dies(const std::string& ifname) {
  for (int i = 0; i < 60; i++) {
    if (control::find_process(ifname) != control::Presence::running) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

// The processes that are to end with an attach.
class Ending {
 public:
  explicit Ending(const control::Halves& halves) {
    for (const pid_t process : {halves.broker, halves.data_plane})
      if (process > 0)
        if (kernel::Fd fd(static_cast<int>(syscall(SYS_pidfd_open, process, 0))); fd)
          processes_.emplace_back(process, std::move(fd));
  }
  // Waits until they have ended, so that nothing of them is in use any more; else one that has not.
  std::optional<pid_t> wait(std::chrono::milliseconds patience) const {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (const auto& [process, fd] : processes_) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      pollfd end{fd.get(), POLLIN, 0};
      if (poll(&end, 1, static_cast<int>(std::max<long>(0, left.count()))) <= 0) return process;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::pair<pid_t, kernel::Fd>> processes_;
};

const char* outcome_text(bool keep, const control::StatusReport& report) {
  if (!keep) return "detached";
  return report.kept.value_or(false)
             ? "left to the kernel, which goes by what it knows until the next attach"
             : "detached: its program could not be left to a later attach, as libxdp's "
               "dispatcher runs it, or its pins were removed and could not be made again";
}

int leave(const std::string& ifname, control::Presence found, Printed& printed) {
  if (found != control::Presence::dead) return fail(control::not_attached(ifname));
  printed.say(LeftAlone{},
              ifname + ": the process that attached it is dead; the next attach goes on with what it left\n");
  return kDone;
}

int run(const std::string& ifname, const Arguments& given, Printed& printed) {
  const bool keep = given.keep;
  if (const auto found = control::find_process(ifname); found != control::Presence::running)
    return keep ? leave(ifname, found, printed) : clean_up(ifname, given, printed);

  const Ending ending(control::find_halves(ifname));
  control::Detach::Arguments arguments;
  if (keep) arguments.keep = true;
  const auto report = control::ask<control::Detach>(ifname, arguments);
  if (!report && !report.error().refused && dies(ifname) && !keep) return clean_up(ifname, given, printed);
  if (!report) return fail(report.error());
  constexpr std::chrono::seconds kPatience{20};
  if (const auto left = ending.wait(kPatience))
    return fail(fmt::format(
        "{} is {}, but process {}, which had it, has not ended within {} s, so that its memory and what it "
        "has in {} are in use still; /proc/{}/stack says what it waits for",
        ifname, outcome_text(keep, *report), *left, kPatience.count(), kernel::names::run_root(), *left));
  printed.say(*report, fmt::format("{} is {}\n{}", ifname, outcome_text(keep, *report),
                                   control::account_text(*report)));
  return report->frames_conserved.value_or(false) && report->packets_balanced.value_or(false) ? kDone
                                                                                              : kFailed;
}

// That something is attached to, or was: what has pins, and what has a control socket.
std::vector<std::string> all_interfaces() {
  auto names = kernel::names::interfaces_with_socket();
  const auto pinned = kernel::names::interfaces_with_pins();
  names.insert(names.end(), pinned.begin(), pinned.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

int run_all(const Arguments& arguments, Printed& printed) {
  int worst = kDone;
  bool any = false;
  for (const auto& ifname : all_interfaces()) {
    // One attach may have had several of them.
    const auto left = all_interfaces();
    if (!std::binary_search(left.begin(), left.end(), ifname)) continue;
    any = true;
    worst = std::max(worst, run(ifname, arguments, printed));
  }
  if (!any && *arguments.format == Format::text)
    print("nothing is attached here, and nothing is left of an attach\n");
  return worst;
}

void add(CLI::App& app, Chosen& chosen) {
  auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("detach", "End an attach, or clean up after one that died");
  describe(
      *command,
      "Asks the process that attached the interface to end, and waits until everything is undone: packets "
      "in\n"
      "hand are sent, programs, pins and the reinjection pair removed, offloads restored. Where that "
      "process\n"
      "is dead, removes what it left.");
  auto* ifname = add_attached_interface(*command, arguments->ifname, "Any one of the process's interfaces");
  auto* all = command->add_flag("--all", arguments->all,
                                "In place of an interface: every attach of this network namespace, and all "
                                "that is left of any");
  ifname->excludes(all);
  auto* keep = command->add_flag(
      "--keep", arguments->keep,
      "Leave the XDP program and its maps where they are, for an upgrade or a restart: flows with "
      "a verdict go by it, what is to be inspected goes by on_failure, and the next attach goes "
      "on from there");
  add_netns(*command, chosen);
  command
      ->add_flag("--unless-left", arguments->unless_left,
                 "Remove nothing where the last attach was told to leave it to the next one (--keep, "
                 "SIGUSR2); what has left nothing is no failure")
      ->excludes(keep);
  arguments->format = add_output(*command);
  when_chosen(*command, chosen, [arguments] {
    if (!arguments->all && arguments->ifname.empty())
      return fail("which interface is to be detached? Name one, or say --all; see \"xdpgpu detach --help\"",
                  kUsage);
    Printed printed(*arguments);
    const int status =
        arguments->all ? run_all(*arguments, printed) : run(arguments->ifname, *arguments, printed);
    printed.end();
    return status;
  });
}

Registered registered(20, add);

}  // namespace

}  // namespace xdpgpu::cli
