// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "userspace/cli/command.hpp"
#include "userspace/report/attaches.hpp"
#include "userspace/report/exporter.hpp"

namespace xdpgpu::cli {
namespace {

constexpr std::size_t kMostSeries = 100'000, kMostPlaces = 8;

struct Arguments {
  std::vector<std::string> places;
  std::string web_config, group;
  bool without_password = false;
  std::size_t series = report::Limits().series;
};

struct Serving {
  std::vector<std::string> places;
  static void fields(auto& self, auto& field) { field("listening", self.places); }
};

int serve(const Arguments& arguments, bool only_here, Format format) {
  report::ExporterOptions options;
  options.only_here = only_here;
  options.limits.series = arguments.series;
  if (arguments.places.size() > kMostPlaces)
    return fail(fmt::format("metrics are served at {} places at most", kMostPlaces), kUsage);
  for (const std::string& text : arguments.places) {
    auto place = report::parse_place(text);
    if (!place) return fail(place.error(), kUsage);
    options.places.push_back(std::move(*place));
  }
  auto group = control::find_control_group(arguments.group);
  if (!group) return fail(group.error());
  options.group = std::move(*group);
  if (!arguments.web_config.empty()) {
    auto config = report::read_web_config(arguments.web_config);
    if (!config) return fail(config.error());
    options.web = std::move(*config);
  }
  for (const auto& place : options.places)
    if (!place.loopback && options.web.users.empty() && !arguments.without_password)
      return fail(
          fmt::format(
              "at {} whoever reaches this host could read what it filters, and for whom; name users in "
              "--web-config, or say --without-password",
              place.text),
          kUsage);
  const auto served = report::run_exporter(options, [&](const std::vector<std::string>& places) {
    if (format == Format::json)
      print_record(Serving{places});
    else
      print(fmt::format("metrics are at {}\n", fmt::join(places, " and ")));
    std::fflush(stdout);
  });
  return served ? kDone : fail(served.error());
}

int print_once(bool only_here, Format format, const report::Limits& limits) {
  const report::Answers answers = report::ask_all(only_here);
  const auto asked = format == Format::json ? report::Asked::status : report::Asked::metrics;
  print(report::text_of(asked, answers.attaches, limits));
  for (const std::string& why : answers.refused) fail(why);
  return answers.refused.empty() ? kDone : kFailed;
}

void add(CLI::App& app, Chosen& chosen) {
  auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("metrics", "Print metrics for Prometheus, or serve them");
  describe(
      *command,
      "Of every attached process, in every network namespace unless one is named. Without --listen: printed "
      "once,\n"
      "in Prometheus' text format. With it: served over HTTP until the command is ended, at /metrics; at / "
      "there\n"
      "is a page that shows them, at /status.json what it shows. Nothing can be changed there. The metrics "
      "are\n"
      "listed in config/metrics.md.");
  command
      ->add_option(
          "--listen", arguments->places,
          "Where to serve: ADDRESS:PORT, [ADDRESS]:PORT, or unix:PATH for root and the group; several may "
          "be named")
      ->type_name("PLACE");
  command
      ->add_option(
          "--web-config", arguments->web_config,
          "A JSON file with users' passwords, hashed, and a certificate: {\"users\": {\"NAME\": \"HASH\"}, "
          "\"tls\": {\"certificate\": \"FILE\", \"key\": \"FILE\"}}")
      ->type_name(kFile);
  command->add_flag("--without-password", arguments->without_password,
                    "Serve at an address that other hosts reach without asking who they are");
  command->add_option("--group", arguments->group, "The group that may use a Unix socket, in place of xdpgpu")
      ->type_name(kGroup);
  command
      ->add_option("--series", arguments->series,
                   fmt::format("How many rules, and how many alarms, are told of one by one, 1 to {}; the "
                               "others are summed; default {}",
                               kMostSeries, report::Limits().series))
      ->check(whole_number())
      ->type_name("N");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format, &chosen] {
    const bool only_here = !chosen.netns.empty();
    if (arguments->series == 0 || arguments->series > kMostSeries)
      return fail(fmt::format("--series is a number from 1 to {}", kMostSeries), kUsage);
    if (!arguments->places.empty()) return serve(*arguments, only_here, *format);
    if (!arguments->web_config.empty() || arguments->without_password || !arguments->group.empty())
      return fail("--web-config, --without-password and --group are about serving; say --listen, too",
                  kUsage);
    return print_once(only_here, *format, {.series = arguments->series});
  });
}

Registered registered(35, add);

}  // namespace
}  // namespace xdpgpu::cli
