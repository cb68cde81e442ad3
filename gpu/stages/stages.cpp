// SPDX-License-Identifier: MIT
#include "gpu/stages/stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "gpu/stages/compilers.hpp"

namespace xdpgpu::gpu {
namespace {

template <class Settings>
using Info = StageInfo<std::remove_cvref_t<Settings>>;
template <class Settings>
constexpr StageTraits kTraits = Info<Settings>::kTraits;

}  // namespace

std::string_view stage_name(const StageSettings& stage) {
  return std::visit([](const auto& what) { return Info<decltype(what)>::kName; }, stage);
}

const StageTraits& traits_of(const StageSettings& stage) {
  return std::visit([](const auto& what) -> const StageTraits& { return Info<decltype(what)>::kTraits; },
                    stage);
}

std::string rule_text(const StageSettings& stage, u32 rule, const xg_result* result) {
  return std::visit([&](const auto& what) { return describe(what, rule, result); }, stage);
}

bool remembers(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) {
        constexpr StageTraits traits = kTraits<decltype(what)>;
        if constexpr (traits.remembers && traits.decides) return remembers(what);
        return traits.remembers;
      },
      stage);
}

std::optional<std::string> sends(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> std::optional<std::string> {
        if constexpr (kTraits<decltype(what)>.sends) return sends(what);
        return std::nullopt;
      },
      stage);
}

bool drops(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) {
        if constexpr (kTraits<decltype(what)>.drops) return drops(what);
        return false;
      },
      stage);
}

std::optional<u32> cache_of(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> std::optional<u32> {
        if constexpr (kTraits<decltype(what)>.caches)
          if (what.cache) return what.cache_ttl_ms;
        return std::nullopt;
      },
      stage);
}

std::optional<std::string> why_not_inner(const StageSettings& stage) {
  if (traits_of(stage).outermost)
    return fmt::format(
        "{} goes by the outermost headers, and the pipeline by the inner ones (\"inner\"): take one of the "
        "two "
        "out",
        stage_name(stage));
  if (cache_of(stage))
    return std::string(
        "its verdict is by the headers inside of a tunnel (\"inner\"), and the kernel knows flows by the "
        "outer "
        "ones alone, so that what is cached would hold for all that is in the tunnel: take \"cache\" out");
  return std::nullopt;
}

bool sees_egress(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) {
        if constexpr (kTraits<decltype(what)>.egress) return sees_egress(what);
        return false;
      },
      stage);
}

std::vector<StageRule> rules_of(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> std::vector<StageRule> {
        if constexpr (kTraits<decltype(what)>.rules) return rules_of(what);
        return {};
      },
      stage);
}

std::optional<ProgramOf> program_of(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> std::optional<ProgramOf> {
        if constexpr (kTraits<decltype(what)>.programs) {
          using Settings = std::remove_cvref_t<decltype(what)>;
          ProgramOf named{what.object,
                          what.section,
                          what.maps,
                          what.program,
                          what.contents,
                          what.where == Settings::Where::kernel,
                          {}};
          for (const auto& one : what.interfaces) named.interfaces.push_back({one.interface, one.ifindex});
          return named;
        }
        return std::nullopt;
      },
      stage);
}

namespace {

template <std::size_t kAt = 0>
std::optional<StageSettings> first_with(std::shared_ptr<const programs::Program> program) {
  if constexpr (kAt < std::variant_size_v<StageSettings>) {
    using Settings = std::variant_alternative_t<kAt, StageSettings>;
    if constexpr (StageInfo<Settings>::kTraits.programs) {
      Settings settings;
      settings.program = std::move(program);
      settings.interfaces.emplace_back().ifindex = 1;
      return settings;
    } else {
      return first_with<kAt + 1>(std::move(program));
    }
  } else {
    return std::nullopt;
  }
}

template <std::size_t kAt = 0>
std::optional<StageSettings> first_with_routes() {
  if constexpr (kAt < std::variant_size_v<StageSettings>) {
    using Settings = std::variant_alternative_t<kAt, StageSettings>;
    if constexpr (StageInfo<Settings>::kTraits.routes) {
      Settings settings;
      settings.next_hops.emplace_back();
      return settings;
    } else {
      return first_with_routes<kAt + 1>();
    }
  } else {
    return std::nullopt;
  }
}

}  // namespace

tl::expected<void, std::string> check_settings(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> tl::expected<void, std::string> {
        if constexpr (kTraits<decltype(what)>.checks) return check(what);
        return {};
      },
      stage);
}

std::optional<StageSettings> stage_with(std::shared_ptr<const programs::Program> program) {
  return first_with(std::move(program));
}

std::optional<StageSettings> stage_with_routes() { return first_with_routes(); }

const FileRules* file_rules(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> const FileRules* {
        if constexpr (kTraits<decltype(what)>.rule_files) return &what.rules;
        return nullptr;
      },
      stage);
}

FileRules* file_rules(StageSettings& stage) {
  return std::visit(
      [](auto& what) -> FileRules* {
        if constexpr (kTraits<decltype(what)>.rule_files) return &what.rules;
        return nullptr;
      },
      stage);
}

const std::string* sends_undecided(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> const std::string* {
        if constexpr (kTraits<decltype(what)>.rule_files)
          return what.on_unsupported == Action::redirect ? &what.unsupported_to : nullptr;
        return nullptr;
      },
      stage);
}

u32 work_of(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> u32 {
        if constexpr (kTraits<decltype(what)>.rule_files) {
          const bool has_some = !what.rules.all().empty() || (what.rules.heads && !what.rules.heads->empty());
          return has_some ? what.work : 0;
        }
        return 0;
      },
      stage);
}

std::string StagePlace::where() const {
  return fmt::format(" of pipeline \"{}\", stage {}", pipeline, at + 1);
}

std::vector<std::string> notes_of(const StagePlace& place) {
  return std::visit(
      [&](const auto& what) -> std::vector<std::string> {
        if constexpr (kTraits<decltype(what)>.notes) return notes(what, place);
        return {};
      },
      place.stages[place.at]);
}

std::vector<std::pair<std::string, u32>> outer_mtus(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> std::vector<std::pair<std::string, u32>> {
        if constexpr (kTraits<decltype(what)>.encapsulates) return outer_mtus(what);
        return {};
      },
      stage);
}

std::vector<HealthCheck> health_checks(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> std::vector<HealthCheck> {
        if constexpr (kTraits<decltype(what)>.checks_health) return health_checks(what);
        return {};
      },
      stage);
}

void set_down(StageSettings& stage, const std::function<bool(const HealthCheck&)>& is_down) {
  std::visit(
      [&](auto& what) {
        if constexpr (kTraits<decltype(what)>.checks_health) set_down(what, is_down);
      },
      stage);
}

std::unique_ptr<AlarmReader> alarm_reader(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> std::unique_ptr<AlarmReader> {
        if constexpr (kTraits<decltype(what)>.alarms) return alarm_reader(what);
        return nullptr;
      },
      stage);
}

std::unique_ptr<EventReader> event_reader(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> std::unique_ptr<EventReader> {
        if constexpr (kTraits<decltype(what)>.flow_events) return event_reader(what);
        return nullptr;
      },
      stage);
}

bool is_unicast(const Prefix& prefix) {
  const auto& address = prefix.address;
  if (prefix.family == 4) return address[0] != 0 && address[0] < 224;
  return address[0] != 0xff && std::any_of(address.begin(), address.end(), [](u8 byte) { return byte != 0; });
}

std::string_view never_met(const Asked& asked) {
  constexpr u8 kTcp = 6, kUdp = 17, kSctp = 132;
  const auto has = [&](auto... numbers) {
    return asked.protocols.empty() || std::any_of(asked.protocols.begin(), asked.protocols.end(),
                                                  [&](u8 one) { return ((one == numbers) || ...); });
  };
  if (asked.flags && !has(kTcp))
    return "no packet can match: \"tcp_flags\" is named, but \"proto\" leaves tcp out";
  if (asked.ports && !has(kTcp, kUdp, kSctp))
    return "no packet can match: ports are named, but \"proto\" names none of tcp, udp and sctp";
  if ((asked.src_families & asked.dst_families) == 0)
    return "no packet can match: \"src\", \"dst\" and \"family\" have no address family in common";
  return {};
}

}  // namespace xdpgpu::gpu
