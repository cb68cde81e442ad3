// SPDX-License-Identifier: MIT
#include "userspace/compiler/artifacts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpu/stages/walk.hpp"
#include "userspace/compiler/clashes.hpp"
#include "userspace/compiler/inputs.hpp"
#include "userspace/compiler/refusals.hpp"

namespace xdpgpu::compiler {
namespace {

using Refused = tl::unexpected<Refusal>;

// Calls use(routes, sources, targets) for all that a stage has, in the order of its table of fields.
template <class Use>
struct EachRoutes : gpu::Walk<EachRoutes<Use>> {
  explicit EachRoutes(Use how) : use(std::move(how)) {}
  void routes(std::string_view, auto& routes, auto& sources, const auto& targets, auto&&...) {
    use(routes, sources, targets);
  }
  Use use;
};
template <class Stage, class Use>
void each_routes(Stage& stage, Use use) {
  EachRoutes<Use> walk(std::move(use));
  std::visit([&](auto& settings) { fields_of(walk, settings); }, stage);
}

// What is made of a policy, and what of it is new.
class Maker {
 public:
  Maker(const Artifacts& known, Made& made) : known_(known), made_(made) {}

  // The artifact, made if it is not there.
  template <class Make>
  tl::expected<ArtifactId, Refusal> add(const ArtifactId& id, Make make) {
    if (made_.artifacts.contains(id)) return id;
    if (const auto known = known_.find(id); known != known_.end()) {
      made_.artifacts.insert(*known);
      return id;
    }
    auto artifact = make();
    if (!artifact) return Refused(std::move(artifact.error()));
    made_.artifacts.emplace(id, std::move(*artifact));
    return id;
  }

 private:
  const Artifacts& known_;
  Made& made_;
};

using MadeOne = tl::expected<Artifact, Refusal>;

tl::expected<std::vector<ArtifactId>, Refusal> add_routes(const policy::Pipeline& pipeline, Maker& maker) {
  std::vector<ArtifactId> ids;
  for (const auto& stage : pipeline.stages)
    each_routes(stage, [&](const auto& routes, const auto& sources, const auto&) {
      auto table = std::make_shared<const RouteTable>(RouteTable{routes, sources});
      const ArtifactId id = id_of(*table);
      (void)maker.add(id, [&] { return MadeOne(Routes(std::move(table))); });
      ids.push_back(id);
    });
  return ids;
}

// The pointer to the stage that the devices' compiler names, which it does first where it is about one.
std::string stage_named(const std::string& sentence, const policy::Policy& policy) {
  for (const auto& pipeline : policy.pipelines)
    for (std::size_t i = 0; i < pipeline.stages.size(); i++)
      if (sentence.starts_with(fmt::format("pipeline \"{}\", stage {} (", pipeline.name, i + 1)))
        return policy::stage_pointer(pipeline, i);
  return "/pipelines";
}

tl::expected<Artifact, Refusal> refused_code(const std::string& sentence, const PolicySource& source,
                                             const policy::Policy& policy) {
  policy::Diagnostic problem;
  problem.pointer = stage_named(sentence, policy);
  problem.message = sentence;
  return Refused(refusal(placed({std::move(problem)}, source)));
}

// Of the artifacts the one of that kind, or nullptr.
template <class Kind>
Kind find(const Artifacts& artifacts, const ArtifactId& id) {
  const auto at = artifacts.find(id);
  const Kind* const found = at == artifacts.end() ? nullptr : std::get_if<Kind>(&at->second);
  return found == nullptr ? nullptr : *found;
}

bool is_prefix(const gpu::Prefix& prefix) {
  return (prefix.family == 4 && prefix.length <= 32) || (prefix.family == 6 && prefix.length <= 128);
}

// Routes of so many next hops, each from the source that is said. Nobody asks where no stage has routes.
[[maybe_unused]] bool is_whole(const RouteTable& table, std::size_t targets) {
  u64 routes = 0;
  for (const gpu::RouteSource& source : table.sources) routes += source.count;
  return routes == table.routes.size() &&
         std::all_of(table.routes.begin(), table.routes.end(), [&](const gpu::Route& route) {
           return is_prefix(route.prefix) && (route.next_hop < targets || route.next_hop == gpu::kRoutePass ||
                                              route.next_hop == gpu::kRouteDrop);
         });
}

// Puts lists and routes in their places.
bool fill_in(policy::Policy& policy, const Recipe& recipe, const Artifacts& artifacts) {
  for (auto& [name, list] : policy.lists) {
    if (list.type == policy::List::Type::domain) continue;  // their names are in the code
    const auto id = recipe.lists.find(name);
    const auto prefixes = id == recipe.lists.end() ? nullptr : find<Prefixes>(artifacts, id->second);
    if (!prefixes) return false;
    if (list.prefixes.size() != prefixes->size() || list.prefixes != *prefixes) list.prefixes = *prefixes;
  }
  if (recipe.routes.size() != policy.pipelines.size()) return false;
  for (std::size_t p = 0; p < policy.pipelines.size(); p++) {
    std::size_t next = 0;
    bool whole = true;
    for (auto& stage : policy.pipelines[p].stages)
      each_routes(stage, [&](auto& routes, auto& sources, const auto& targets) {
        const auto table =
            next < recipe.routes[p].size() ? find<Routes>(artifacts, recipe.routes[p][next++]) : nullptr;
        whole = whole && table && is_whole(*table, targets.size());
        if (!whole) return;
        routes = table->routes;
        sources = table->sources;
      });
    if (!whole || next != recipe.routes[p].size()) return false;
  }
  return true;
}

// A device follows the code of a program wherever its words lead, and writes there: jumps, maps' places,
// lists of what is free. So it is nobody's artifact. Whoever links makes it, of the program and of what its
// maps have at first: they stand in the policy's files, and have been checked as they were read.
bool is_made_here(const gpu::StageSettings& stage) { return gpu::traits_of(stage).programs; }

tl::expected<gpu::PipelineCodes, std::string> codes_of(const std::vector<gpu::PipelineSettings>& pipelines,
                                                       const std::array<u64, 2>& hash_key,
                                                       const Recipe& recipe, const Artifacts& artifacts) {
  gpu::PipelineCodes codes;
  u64 words = 0;  // of those that are made here: before they fill this process's memory
  if (recipe.codes.size() != pipelines.size())
    return tl::unexpected(std::string("it has not the policy's pipelines"));
  for (std::size_t p = 0; p < pipelines.size(); p++) {
    const gpu::PipelineSettings& pipeline = pipelines[p];
    auto& of = codes.emplace_back();
    if (recipe.codes[p].size() != pipeline.stages.size())
      return tl::unexpected(fmt::format("it has not the stages of pipeline \"{}\"", pipeline.name));
    for (std::size_t s = 0; s < pipeline.stages.size(); s++) {
      if (is_made_here(pipeline.stages[s])) {
        auto made = gpu::compile_stage(pipeline, s, {hash_key});
        if (!made) return tl::unexpected(std::move(made.error()));
        words += made->words.size();
        if (words > gpu::kImageMaxWords)
          return tl::unexpected(fmt::format(
              "pipeline \"{}\", stage {} ({}): with its maps the policy's programs need more than the {} MiB "
              "that "
              "pipelines may have: make the maps smaller",
              pipeline.name, s + 1, gpu::stage_name(pipeline.stages[s]), gpu::kImageMaxWords >> 18));
        of.push_back(std::make_shared<const gpu::StageCode>(std::move(*made)));
        continue;
      }
      of.push_back(find<gpu::CodePtr>(artifacts, recipe.codes[p][s]));
      if (!of[s] || !gpu::is_linkable(pipeline.stages[s], *of[s]))
        return tl::unexpected(fmt::format("the code of pipeline \"{}\", stage {} is not there, or damaged",
                                          pipeline.name, s + 1));
    }
  }
  return codes;
}

// What is said of rules of files, which an outline has not.
void take_rules(policy::Policy& policy, std::vector<gpu::PipelineSettings>& settings,
                const gpu::PipelineCodes& codes) {
  for (std::size_t p = 0; p < settings.size(); p++)
    for (std::size_t s = 0; s < settings[p].stages.size(); s++)
      if (gpu::FileRules* const rules = gpu::file_rules(policy.pipelines[p].stages[s])) {
        rules->heads = std::make_shared<const std::vector<gpu::RuleHead>>(codes[p][s]->heads);
        rules->suppressed = std::make_shared<const std::vector<gpu::Suppression>>(codes[p][s]->suppressed);
        rules->notes = codes[p][s]->notes;
        gpu::FileRules& linked = *gpu::file_rules(settings[p].stages[s]);
        linked.heads = rules->heads;
        linked.suppressed = rules->suppressed;
        linked.notes = rules->notes;
      }
}

}  // namespace

tl::expected<Made, Refusal> make_artifacts(const PolicySource& source, const policy::Policy& policy,
                                           const Target& target, const Artifacts& known) {
  if (auto found = clashes(policy, choice_of(policy)); !found.empty())
    return Refused(refusal(placed(std::move(found), source)));
  Made made;
  Maker maker(known, made);
  Recipe& recipe = made.recipe;
  std::map<std::string, ArtifactId> lists;  // those of domains, too
  for (const auto& [name, list] : policy.lists) {
    if (list.type == policy::List::Type::domain) {
      lists.emplace(name, id_of(list.names));
      continue;
    }
    const ArtifactId id = lists[name] = id_of(list.prefixes);
    (void)maker.add(id, [&list = list] {
      return MadeOne(Prefixes(std::make_shared<const std::vector<policy::Prefix>>(list.prefixes)));
    });
    recipe.lists.emplace(name, id);
  }
  const auto tables = maker.add(id_of_tables(policy, lists, target.ports), [&]() -> MadeOne {
    auto compiled = policy::compile(policy, target.ports);
    if (!compiled) return Refused(refusal(placed(compiled.error(), source)));
    return MadeOne(Tables(std::make_shared<const policy::Tables>(std::move(*compiled))));
  });
  if (!tables) return Refused(tables.error());
  recipe.tables = *tables;
  auto settings = pipeline_settings(policy, target.ports, target.down);
  if (!settings) return Refused(refusal(placed({settings.error()}, source)));
  if (auto possible = gpu::check_pipelines(*settings); !possible)
    return tl::unexpected(refused_code(possible.error(), source, policy).error());
  for (std::size_t p = 0; p < settings->size(); p++) {
    auto routes = add_routes(policy.pipelines[p], maker);
    if (!routes) return Refused(routes.error());
    const gpu::PipelineSettings& pipeline = (*settings)[p];
    auto& codes = recipe.codes.emplace_back();
    std::size_t used = 0;
    for (std::size_t s = 0; s < pipeline.stages.size(); s++) {
      const auto first = used;
      each_routes(pipeline.stages[s], [&](const auto&, const auto&, const auto&) { used++; });
      const auto own = std::span(*routes).subspan(first, used - first);
      const ArtifactId id = id_of(pipeline.stages[s], target, lists, own, pipeline.inner);
      if (is_made_here(pipeline.stages[s])) {
        codes.push_back(id);
        continue;
      }
      const auto code = maker.add(id, [&]() -> MadeOne {
        auto compiled = gpu::compile_stage(pipeline, s, {target.hash_key});
        if (!compiled) return refused_code(compiled.error(), source, policy);
        return MadeOne(gpu::CodePtr(std::make_shared<const gpu::StageCode>(std::move(*compiled))));
      });
      if (!code) return Refused(code.error());
      codes.push_back(*code);
    }
    recipe.routes.push_back(std::move(*routes));
  }
  const auto codes = codes_of(*settings, target.hash_key, recipe, made.artifacts);
  const auto fits = codes ? gpu::check_link(*settings, *codes) : tl::unexpected(codes.error());
  if (!fits) return tl::unexpected(refused_code(fits.error(), source, policy).error());
  return made;
}

Artifacts named_by(const Recipe& recipe, Artifacts artifacts) {
  Artifacts named;
  const auto take = [&](const ArtifactId& id) {
    if (auto found = artifacts.extract(id)) named.insert(std::move(found));
  };
  take(recipe.tables);
  for (const auto& [name, id] : recipe.lists) take(id);
  for (const auto* ids : {&recipe.routes, &recipe.codes})
    for (const auto& of : *ids)
      for (const ArtifactId& id : of) take(id);
  return named;
}

tl::expected<policy::Policy, Refusal> outline(const PolicySource& source) {
  // Keys stand in files, too: they are short, and lists that are as short are read all the same.
  constexpr std::size_t kShort = 4096;
  auto policy = policy::parse(source.text, source.file, policy::read_files_in(source.files), kShort);
  if (!policy) return Refused(refusal(policy.error()));
  return std::move(*policy);
}

tl::expected<CompiledPolicy, std::string> assemble(PolicySource source, policy::Policy policy,
                                                   const Target& target, const Recipe& recipe,
                                                   const Artifacts& artifacts) {
  if (!fill_in(policy, recipe, artifacts))
    return tl::unexpected(std::string("lists or routes of the policy are not there"));
  const auto tables = find<Tables>(artifacts, recipe.tables);
  if (!tables) return tl::unexpected(std::string("the policy's tables are not there"));
  if (tables->header.management_count != 2 * policy.management.size() ||
      tables->header.rule_count != tables->header.management_count + policy.rules.size())
    return tl::unexpected(std::string("its tables have other rules than the policy"));
  auto settings = pipeline_settings(policy, target.ports, target.down);
  if (!settings) return tl::unexpected(settings.error().message);
  auto codes = codes_of(*settings, target.hash_key, recipe, artifacts);
  if (!codes) return tl::unexpected(codes.error());
  take_rules(policy, *settings, *codes);
  auto pipelines = gpu::Pipelines::link(std::move(*settings), *codes);
  if (!pipelines) return tl::unexpected(pipelines.error());
  return CompiledPolicy{std::move(source),     std::move(policy), *tables,
                        std::move(*pipelines), target.ports,      target.down};
}

}  // namespace xdpgpu::compiler
