// SPDX-License-Identifier: MIT
#include "userspace/control/attach.hpp"

#include <unistd.h>

#include "userspace/cli/command.hpp"

namespace xdpgpu::cli {
namespace {

constexpr const char* kAbout =
    "Handles the packets that arrive on one or more interfaces by a policy, until Ctrl-C, SIGTERM or\n"
    "\"xdpgpu detach\". Everything is checked first: what is refused has changed nothing. Whatever ends it,\n"
    "the interfaces are left as they were.";

constexpr const char* kFooter =
    "\nExamples:\n"
    "  sudo xdpgpu attach eth0 --policy /etc/xdpgpu/policy.json\n"
    "  sudo xdpgpu attach eth0 eth1 --policy bridge.json --mode copy --device cuda\n"
    "  sudo xdpgpu attach eth0 --policy policy.json --daemon && xdpgpu status eth0\n"
    "\nWith -o json: one line when traffic is handled ({\"event\":\"ready\",...}) and one at the end\n"
    "({\"event\":\"end\",...}).";

struct Arguments {
  control::AttachOptions options;
  std::string policy;
  host::IoMode mode = host::IoMode::automatic;
  bool quiet = false;
  std::shared_ptr<Format> format;
};

int run(Arguments& arguments, bool mode_given) {
  auto& options = arguments.options;
  if (mode_given) options.mode = arguments.mode;
  options.live = !arguments.quiet;
  options.json = *arguments.format == Format::json;
  options.terminal = isatty(STDOUT_FILENO) == 1;
  if (!arguments.policy.empty()) {
    auto source = control::read_policy(arguments.policy);
    if (!source) return fail(source.error().sentence, kUsage);
    options.policy = std::move(*source);
  }
  return control::attach(options);
}

}  // namespace

void add_attach(CLI::App& app, Chosen& chosen) {
  auto arguments = std::make_shared<Arguments>();
  auto& options = arguments->options;
  auto* command = app.add_subcommand("attach", "Handle an interface's packets by a policy");
  describe(*command, kAbout);
  command->footer(kFooter);
  add_interfaces(*command, "interface", options.interfaces,
                 "Interfaces; REDIRECT goes from one to another of them")
      ->required();
  command
      ->add_option("-p,--policy", arguments->policy,
                   "Policy file (JSON); without one, everything passes and is counted")
      ->type_name("FILE");
  auto* mode = add_choice<host::IoMode>(*command, "--mode", arguments->mode,
                                        {{"auto", host::IoMode::automatic},
                                         {"zero-copy", host::IoMode::zero_copy},
                                         {"copy", host::IoMode::copy},
                                         {"generic", host::IoMode::generic}},
                                        "How packets reach user space: zero-copy, copy (native XDP) or "
                                        "generic (any driver, slow), each strict; "
                                        "auto takes the best that works. Default: the policy's io.mode")
                   ->type_name("MODE");
  command
      ->add_option(
          "--device", options.device,
          "Compute device: auto, cpu, cuda, vulkan, or a name that \"xdpgpu devices\" lists. Default: "
          "the policy's compute.device or compute.devices")
      ->check(device_name())
      ->type_name("NAME");
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
      ->type_name("NAME");
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

}  // namespace xdpgpu::cli
