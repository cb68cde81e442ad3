// SPDX-License-Identifier: MIT
#include "userspace/cli/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdio>

#include "userspace/control/client.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::cli {
namespace {

// A check that refuses nothing: CLI11 has no other place for what an option is.
constexpr const char* kAttached = "attached";

CLI::Option* check_interfaces(CLI::Option* option) {
  // Such names become paths below.
  const CLI::Validator check(
      [](const std::string& name) {
        if (policy::is_interface_name(name)) return std::string();
        return fmt::format(
            "\"{}\" cannot be an interface: a name has 1 to 15 characters, none of them a "
            "space, \"/\" or \":\"",
            name);
      },
      "");
  return option->check(check)->type_name(kInterface);
}

// What a terminal would obey instead of showing it: a data plane that has been taken over has the say in what
// its answers hold, and root reads them. The control characters of Unicode's second block stand in two bytes.
std::string visible(const std::string& text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); i++) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool second_block = c == 0xc2 && next >= 0x80 && next < 0xa0;
    if ((c >= 0x20 || c == '\n' || c == '\t') && c != 0x7f && !second_block) {
      shown += text[i];
      continue;
    }
    shown += fmt::format("\\x{:02x}", second_block ? next : c);
    if (second_block) i++;
  }
  return shown;
}

// Other characters than ASCII, and 0x7f, stand there as escapes: what visible() would make of them is no
// JSON.
std::string in_ascii(const Json& json, int indent) {
  return json.dump(indent, ' ', true, Json::error_handler_t::replace) + "\n";
}

// How failures are printed, too; set once, before there is a second thread.
struct FailuresInJson {
  bool wanted = false;
  std::string event;
};
FailuresInJson& failures_in_json() {
  static FailuresInJson how;
  return how;
}

void print_failure(control::FailureReport report) {
  const auto& [wanted, event] = failures_in_json();
  if (!wanted) return;
  if (!event.empty()) report.event = event;
  print(in_ascii(control::as_json(report), -1));
}

}  // namespace

namespace {

// The first one; in place before main begins.
Registered*& first_command() {
  static Registered* first = nullptr;
  return first;
}

}  // namespace

Registered::Registered(int place, Add add) noexcept : place_(place), add_(add) {
  Registered** at = &first_command();
  while (*at != nullptr && (*at)->place_ < place) at = &(*at)->next_;
  next_ = *at;
  *at = this;
}

void add_commands(CLI::App& app, Chosen& chosen) {
  for (const Registered* one = first_command(); one != nullptr; one = one->next_) one->add_(app, chosen);
}

CLI::Option* add_interface(CLI::App& command, const std::string& flags, std::string& name,
                           const std::string& about) {
  return check_interfaces(command.add_option(flags, name, about));
}

CLI::Option* add_interfaces(CLI::App& command, const std::string& flags, std::vector<std::string>& names,
                            const std::string& about) {
  return check_interfaces(command.add_option(flags, names, about));
}

CLI::Option* add_attached_interface(CLI::App& command, std::string& name, const std::string& about) {
  const CLI::Validator mark([](const std::string&) { return std::string(); }, "", kAttached);
  return add_interface(command, "interface", name, about)->check(mark);
}

bool is_attached_interface(CLI::Option& option) {
  try {
    return option.get_validator(kAttached) != nullptr;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

std::shared_ptr<Format> add_output(CLI::App& command) {
  auto format = std::make_shared<Format>(Format::text);
  add_choice<Format>(command, "-o,--output", *format, {{"text", Format::text}, {"json", Format::json}},
                     "What to print; default text");
  return format;
}

std::string either(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, "|")); }

void refuse_choice(const std::string& flags, const std::string& given,
                   const std::vector<std::string>& names) {
  throw CLI::ValidationError(flags.substr(flags.rfind(',') + 1),
                             fmt::format("\"{}\" is none of {}", given, fmt::join(names, ", ")));
}

void describe(CLI::App& command, const std::string& about) {
  command.description(command.get_description() + ".\n\n" + about + "\n");
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  std::string line = sub->get_description();
  line = line.substr(0, line.find(".\n"));
  return fmt::format("  {:<{}}{}\n", sub->get_name(), get_column_width() - 2, line);
}

CLI::Validator device_name() {
  return CLI::Validator(
      [](const std::string& name) {
        const std::string kind = name.substr(0, name.find(':'));
        const std::string number = kind.size() < name.size() ? name.substr(kind.size() + 1) : "0";
        const bool numbered = !number.empty() && number.size() < 4 &&
                              number.find_first_not_of("0123456789") == std::string::npos;
        if (name == "auto" || name == "cpu" || ((kind == "cuda" || kind == "vulkan") && numbered))
          return std::string();
        return fmt::format(
            "\"{}\" is no device; it must be auto, cpu, cuda, cuda:0, vulkan or vulkan:0 (see "
            "\"xdpgpu devices\")",
            name);
      },
      "");
}

CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) {
        u64 number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (!text.empty() && error == std::errc() && end == text.data() + text.size()) return std::string();
        return fmt::format("\"{}\" is no whole number from 0 to {}", text, ~u64{0});
      },
      "");
}

void add_netns(CLI::App& command, Chosen& chosen) {
  command
      .add_option(
          "--netns", chosen.netns,
          "Network namespace of the interfaces: a name that \"ip netns\" lists, a process's number, or a "
          "path; default: the one that the command is started in")
      ->type_name(kNetns);
}

void when_chosen(CLI::App& command, Chosen& chosen, std::function<int()> run) {
  command.callback([&chosen, run = std::move(run)] { chosen.run = run; });
}

void say(const std::string& sentence) {
  std::fflush(stdout);
  std::fprintf(stderr, "xdpgpu: %s\n", visible(sentence).c_str());
}

int fail(const std::string& sentence, int status) {
  print_failure(control::failure_report(sentence));
  say(sentence);
  return status;
}

void fail_in_json(const std::string& event) { failures_in_json() = {true, event}; }

void print_json(const Json& json) { print(in_ascii(json, 2)); }

void print(const std::string& text) {
  const std::string shown = visible(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

int refuse(const control::Refusal& why) {
  auto report = control::failure_report(why.sentence, why.problems);
  report.ok = false;
  report.diagnostics = why.diagnostics;
  print_failure(std::move(report));
  for (const auto& diagnostic : why.diagnostics) say(diagnostic);
  return kUsage;
}

int fail(const control::NotDone& why) {
  // Each diagnostic is a sentence of its own; they say more than their summary.
  return why.diagnostics.empty() ? fail(why.sentence) : refuse(why);
}

std::optional<unsigned> parse_duration(const std::string& text) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') digits++;
  if (digits == 0 || digits > 6) return std::nullopt;
  const auto number = static_cast<unsigned>(std::stoul(text.substr(0, digits)));
  const std::string unit = text.substr(digits);
  if (unit.empty() || unit == "s") return number;
  if (unit == "m") return number * 60;
  if (unit == "h") return number * 3600;
  return std::nullopt;
}

}  // namespace xdpgpu::cli
