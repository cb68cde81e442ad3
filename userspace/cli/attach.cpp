// SPDX-License-Identifier: MIT
#include "userspace/control/attach.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "userspace/cli/command.hpp"
#include "userspace/control/program_reader.hpp"

namespace xdpgpu::cli {
namespace {

constexpr const char* kAbout =
    "Handles the packets that arrive on one or more interfaces by a policy, until Ctrl-C, SIGTERM or\n"
    "\"xdpgpu detach\". Everything is checked first: what is refused has changed nothing. What ends it in\n"
    "order leaves the interfaces as they were; where it is killed, the XDP program stays and goes on alone,\n"
    "until another attach or \"xdpgpu detach\".";

constexpr const char* kFooter =
    "\nSIGHUP applies the policy file again, as \"xdpgpu policy apply\" does, but leaves --audit as it is.\n"
    "SIGTERM, SIGINT and SIGQUIT detach; SIGUSR2 does what \"xdpgpu detach --keep\" does. To a service\n"
    "manager that wants to know ($NOTIFY_SOCKET) it says when traffic is handled, and how it goes.\n"
    "\nExamples:\n"
    "  sudo xdpgpu policy init && sudo xdpgpu attach eth0\n"
    "  sudo xdpgpu attach eth0 eth1 --policy bridge.json --mode copy --device cuda\n"
    "  sudo xdpgpu attach eth0 --policy policy.json --daemon && xdpgpu status eth0\n"
    "\nWith -o json: one line when traffic is handled ({\"event\":\"ready\",...}) and one at the end\n"
    "({\"event\":\"end\",...}).";

struct Arguments {
  control::AttachOptions options;
  std::string policy;
  bool pass_all = false;
  host::IoMode mode = host::IoMode::automatic;
  bool quiet = false;
  std::shared_ptr<Format> format;
};

// The file that was named, or the one that everything names; empty: there is none.
std::string policy_file(const std::string& named) {
  if (!named.empty()) return named;
  return access(kPolicyFile, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR) ? "" : kPolicyFile;
}

int no_policy() {
  return fail(
      fmt::format("there is no policy to attach by: {} is not there and --policy names none; \"xdpgpu policy "
                  "init\" writes a first one that is safe for this host, and --pass-all attaches without "
                  "one: then everything passes and nothing is inspected",
                  kPolicyFile),
      kUsage);
}

int run(Arguments& arguments, bool mode_given) {
  auto& options = arguments.options;
  if (mode_given) options.mode = arguments.mode;
  options.live = !arguments.quiet;
  options.json = *arguments.format == Format::json;
  options.terminal = isatty(STDOUT_FILENO) == 1;
  if (!arguments.pass_all) {
    const std::string file = policy_file(arguments.policy);
    if (file.empty()) return no_policy();
    auto source = compiler::read_policy(file, control::object_reader());
    if (!source) return refuse(source.error());
    options.policy = std::move(*source);
    if (file != "-") options.policy_file = std::filesystem::absolute(file);
  }
  return control::attach(options);
}

void add(CLI::App& app, Chosen& chosen) {
  auto arguments = std::make_shared<Arguments>();
  auto& options = arguments->options;
  auto* command = app.add_subcommand("attach", "Handle an interface's packets by a policy");
  describe(*command, kAbout);
  command->footer(kFooter);
  add_interfaces(*command, "interface", options.interfaces,
                 "Interfaces; REDIRECT goes from one to another of them")
      ->required();
  auto* policy =
      command
          ->add_option("-p,--policy", arguments->policy,
                       fmt::format("Policy file (JSON), or - for standard input, which SIGHUP cannot "
                                   "read again; default: {}, which \"xdpgpu policy init\" writes a "
                                   "first one of",
                                   kPolicyFile))
          ->type_name(kFile);
  command
      ->add_flag("--pass-all", arguments->pass_all,
                 "Attach without a policy: everything passes and is counted, nothing is inspected")
      ->excludes(policy);
  auto* mode = add_choice<host::IoMode>(*command, "--mode", arguments->mode,
                                        {{"auto", host::IoMode::automatic},
                                         {"zero-copy", host::IoMode::zero_copy},
                                         {"copy", host::IoMode::copy},
                                         {"generic", host::IoMode::generic}},
                                        "How packets reach user space: zero-copy, copy (native XDP) or "
                                        "generic (any driver, slow), each strict; "
                                        "auto takes the best that works. Default: the policy's io.mode");
  command
      ->add_option(
          "--device", options.device,
          "Compute device: auto, cpu, cuda, vulkan, or a name that \"xdpgpu devices\" lists. Default: "
          "the policy's compute.device or compute.devices")
      ->check(device_name())
      ->type_name(kDevice);
  command->add_option("--queues", options.queues, "Receive queues to serve, from the first; default: all")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  command
      ->add_option("--flow-entries", options.flow_entries_per_queue,
                   "Flow verdicts that the kernel remembers per queue, a power of two; default 16384 (1 MiB)")
      ->type_name("N");
  command->add_flag("--audit", options.audit,
                    "Drop nothing: count what the policy would drop, by reason, and let it pass; until "
                    "\"xdpgpu policy apply\" without it");
  command
      ->add_option(
          "--control-group", options.control_group,
          "Group whose members may run the other commands on these interfaces, beside root; default: "
          "xdpgpu, where there is such a group")
      ->type_name(kGroup);
  command->add_flag(
      "--replace", options.replace,
      "Take somebody else's XDP program off the interface for good, where it is in the way; what "
      "was taken off is said");
  command->add_flag("--daemon", options.daemon,
                    "Return when traffic is handled, and go on in the background");
  command->add_flag("--quiet", arguments->quiet, "No summary line every second");
  add_netns(*command, chosen);
  arguments->format = add_output(*command);
  when_chosen(*command, chosen, [arguments, mode] { return run(*arguments, mode->count() > 0); });
}

Registered registered(10, add);

}  // namespace

}  // namespace xdpgpu::cli
