// SPDX-License-Identifier: MIT
//
// userspace/cli/command.hpp: what the commands have in common. Each command is one file, which nobody else
// names: a Registered object adds it to the command line. What it returns when it runs is the exit status.
//
// userspace/README.md has how to add one.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/protocol.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::cli {

using control::Json;

// Exit statuses.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
// Of status: how it is with the processes that it asked, the worst of several.
inline constexpr int kDegraded = 3;
inline constexpr int kAudit = 4;
inline constexpr int kBypassed = 5;
inline constexpr int kDead = 6;

// What attach takes and "policy init" writes where nothing else is named.
inline constexpr const char* kPolicyFile = "/etc/xdpgpu/policy.json";
inline constexpr const char* kPolicyFileHelp =
    "Policy file (JSON); - for standard input: then relative files in it start in the working directory";

enum class Format { text, json };

// What was chosen on the command line; set by the parser, run by main.
struct Chosen {
  std::function<int()> run;
  std::string netns;  // the network namespace to run it in; empty: the one it is started in
};

// Adds "-o, --output text|json" and gives where the choice will stand; the caller keeps it.
std::shared_ptr<Format> add_output(CLI::App& command);
// Adds "--netns NAME": the command is about that network namespace's interfaces.
void add_netns(CLI::App& command, Chosen& chosen);
// What the command's own help says behind its one line in the list of commands.
void describe(CLI::App& command, const std::string& about);
// Lists commands by their one line.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* sub) const override;
};

// "text|json".
std::string either(const std::vector<std::string>& names);
[[noreturn]] void refuse_choice(const std::string& flags, const std::string& given,
                                const std::vector<std::string>& names);
// An option that takes one of some names, which its help shows in this order; anything else is refused by
// naming them.
template <class T>
CLI::Option* add_choice(CLI::App& command, const std::string& flags, T& value,
                        const std::vector<std::pair<std::string, T>>& choices, const std::string& about) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& choice : choices) names.push_back(choice.first);
  return command
      .add_option_function<std::string>(
          flags,
          [&value, choices, names, flags](const std::string& given) {
            const auto found = std::ranges::find(choices, given, &std::pair<std::string, T>::first);
            if (found == choices.end()) refuse_choice(flags, given, names);
            value = found->second;
          },
          about)
      ->type_name(either(names));
}

// What an option takes is known by its type's name: completion goes by it, manual pages and --help show it.
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kInterface = "IF";
inline constexpr const char* kDevice = "DEVICE";
inline constexpr const char* kNetns = "NETNS";
inline constexpr const char* kGroup = "GROUP";

// An argument that is one interface's name, or several; anything that cannot be one is wrong usage.
CLI::Option* add_interface(CLI::App& command, const std::string& flags, std::string& name,
                           const std::string& about);
CLI::Option* add_interfaces(CLI::App& command, const std::string& flags, std::vector<std::string>& names,
                            const std::string& about);
// The argument "interface" of what asks the process that attached it.
CLI::Option* add_attached_interface(CLI::App& command, std::string& name,
                                    const std::string& about = "An attached interface");
// Whether it is that one.
bool is_attached_interface(CLI::Option& option);

// What a compute device's name begins with; "cuda" and "vulkan" may have a number behind a colon.
inline constexpr const char* kDeviceKinds[] = {"auto", "cpu", "cuda", "vulkan"};
// Takes what can be a compute device's name on some host.
CLI::Validator device_name();
// CLI11 takes "-1" and what is too large for other numbers.
CLI::Validator whole_number();

// Says what happens when the command is chosen.
void when_chosen(CLI::App& command, Chosen& chosen, std::function<int()> run);

// "xdpgpu: sentence" to standard error; returns kFailed or the given status.
int fail(const std::string& sentence, int status = kFailed);
// The sentence alone, also where it is none of a failure.
void say(const std::string& sentence);
// From here on each failure also prints {"error": {"message": sentence}}, one line, to standard output; with
// an event (attach has "end"), {"event": event, ...}. For main alone, ahead of everything else.
void fail_in_json(const std::string& event);
// JSON for people and pipes: indented, one newline at the end; other characters than ASCII are escapes.
void print_json(const Json& json);
// Of a record (control/fields.hpp), or of several.
template <class T>
void print_record(const T& record) {
  print_json(control::as_json(record));
}
void print(const std::string& text);

// Says why a request was not done; returns kUsage where a policy is wrong.
int fail(const control::NotDone& why);
// Asks the process that attached the interface, in the words of a request (userspace/control/request/).
// Prints what went wrong and gives nothing then; `status` is what to exit with.
template <class R>
std::optional<typename R::Answer> ask(const std::string& ifname, int& status,
                                      const typename R::Arguments& arguments = {},
                                      control::Files files = {}) {
  auto answer = control::ask<R>(ifname, arguments, std::move(files));
  status = answer ? kDone : fail(answer.error());
  return answer ? std::optional(std::move(*answer)) : std::nullopt;
}
// What is wrong with a policy: a sentence each and, where failures are printed as JSON, {"ok": false,
// "error": {the first of the problems}, "problems": [...], "diagnostics": [the sentences]}. Returns kUsage.
int refuse(const control::Refusal& why);

// "90s", "5m", "1h", "90" as seconds; nothing if it is none of these.
std::optional<unsigned> parse_duration(const std::string& text);

// A command, which one object in its file adds to the command line. place: among the others in the list of
// them.
class Registered {
 public:
  using Add = void (*)(CLI::App& app, Chosen& chosen);
  Registered(int place, Add add) noexcept;
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() = default;

 private:
  friend void add_commands(CLI::App& app, Chosen& chosen);
  const int place_;
  const Add add_;
  Registered* next_ = nullptr;  // by place
};
// All of them. For command_line() alone.
void add_commands(CLI::App& app, Chosen& chosen);

}  // namespace xdpgpu::cli
