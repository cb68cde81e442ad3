// SPDX-License-Identifier: MIT
#include "gpu/pipelines.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <new>
#include <type_traits>

#include "gpu/image_words.hpp"
#include "gpu/large_vector.hpp"
#include "gpu/program_packets.hpp"
#include "gpu/stages/changes.h"
#include "gpu/stages/compilers.hpp"
#include "gpu/stages/field_checks.hpp"
#include "gpu/stages/program_body.h"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu {
namespace {

tl::unexpected<std::string> refuse_stage(const PipelineSettings& pipeline, std::size_t stage,
                                         const std::string& why) {
  return refuse("pipeline \"{}\", stage {} ({}): {}", pipeline.name, stage + 1,
                stage_name(pipeline.stages[stage]), why);
}

template <class Settings>
constexpr StageTraits kTraits = StageInfo<std::remove_cvref_t<Settings>>::kTraits;

// For how long what no stage decides is remembered, in milliseconds, 0: while the generation lives; nothing:
// it is not. Every stage has to cache, and to let each packet of a flow go on that it lets go on once.
std::optional<u32> cache_of_undecided(const PipelineSettings& pipeline) {
  std::optional<u32> shortest;
  for (const StageSettings& stage : pipeline.stages) {
    const auto ttl_ms = std::visit(
        [](const auto& what) -> std::optional<u32> {
          if constexpr (kTraits<decltype(what)>.by_flow) return cached_undecided(what);
          return std::nullopt;
        },
        stage);
    if (!ttl_ms) return std::nullopt;
    if (!shortest || *shortest == 0 || (*ttl_ms != 0 && *ttl_ms < *shortest)) shortest = ttl_ms;
  }
  return shortest;
}

u32 number_of(const StageSettings& stage) {
  return std::visit([](const auto& what) { return StageInfo<std::remove_cvref_t<decltype(what)>>::kNumber; },
                    stage);
}

u32 payload_of(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> u32 {
        if constexpr (kTraits<decltype(what)>.reads_payload) return payload_bytes(what);
        return 0;
      },
      stage);
}

// Of one flow's packets a stage that reads payload may let one go on and decide the next: no verdict behind
// it is the flow's.
Check check_caching(const PipelineSettings& pipeline) {
  const auto& stages = pipeline.stages;
  const auto reads = std::find_if(stages.begin(), stages.end(),
                                  [](const StageSettings& stage) { return traits_of(stage).reads_payload; });
  const auto caches = std::find_if(reads, stages.end(),
                                   [](const StageSettings& stage) { return cache_of(stage).has_value(); });
  if (caches == stages.end()) return {};
  return refuse_stage(
      pipeline, static_cast<std::size_t>(caches - stages.begin()),
      fmt::format(
          "stage {} ({}) in front of it has to see every packet of a flow, so that its verdicts cannot be "
          "cached: take \"cache\" out",
          reads - stages.begin() + 1, stage_name(*reads)));
}

// What is told of a packet stands in one record, and behind a table a device begins with an empty result.
Check check_inspection(const PipelineSettings& pipeline) {
  const auto& stages = pipeline.stages;
  const auto inspects = [](const StageSettings& stage) { return traits_of(stage).inspects; };
  const auto first = std::find_if(stages.begin(), stages.end(), inspects);
  if (first == stages.end()) return {};
  const auto number = static_cast<std::size_t>(first - stages.begin());
  const auto second = std::find_if(first + 1, stages.end(), inspects);
  if (second != stages.end())
    return refuse_stage(
        pipeline, static_cast<std::size_t>(second - stages.begin()),
        fmt::format("stage {} tells of rules, too, and one of a pipeline can: put all rules into one",
                    number + 1));
  // Its own is in front of it.
  const auto table =
      std::find_if(first + 1, stages.end(), [](const auto& stage) { return remembers(stage); });
  if (table == stages.end()) return {};
  return refuse_stage(
      pipeline, number,
      fmt::format("stage {} ({}) behind it has a table, and would lose what it tells: put it behind "
                  "that one",
                  table - stages.begin() + 1, stage_name(*table)));
}

// A packet has room for one event; and behind a table a device begins with an empty result.
Check check_events(const PipelineSettings& pipeline) {
  const auto& stages = pipeline.stages;
  const auto output_of = [](const StageSettings& stage) {
    return std::visit(
        [](const auto& what) -> std::optional<programs::PacketChange> {
          if constexpr (kTraits<decltype(what)>.programs)
            if (what.program) return programs::output_of(*what.program);
          return std::nullopt;
        },
        stage);
  };
  const auto puts_out = [&](const StageSettings& stage) { return output_of(stage).has_value(); };
  const auto first = std::find_if(stages.begin(), stages.end(), puts_out);
  if (first == stages.end()) return {};
  const auto number = static_cast<std::size_t>(first - stages.begin());
  const auto how = *output_of(*first);
  const auto second = std::find_if(first + 1, stages.end(), puts_out);
  if (second != stages.end())
    return refuse_stage(
        pipeline, static_cast<std::size_t>(second - stages.begin()),
        fmt::format("its program puts events out, and so does that of stage {}: one of a pipeline can",
                    number + 1));
  const auto table =
      std::find_if(first + 1, stages.end(), [](const StageSettings& stage) { return remembers(stage); });
  if (table == stages.end()) return {};
  return refuse_stage(
      pipeline, number,
      fmt::format("its program {}, at instruction {}, and stage {} ({}) behind it has a table, and would "
                  "lose the event: put it behind that one",
                  how.what, how.instruction, table - stages.begin() + 1, stage_name(*table)));
}

// A stage behind one that changes packets would decide by what is not there any more.
Check check_programs(const PipelineSettings& pipeline) {
  for (std::size_t s = 0; s + 1 < pipeline.stages.size(); s++) {
    const auto changes = std::visit(
        [](const auto& what) -> std::optional<programs::PacketChange> {
          if constexpr (kTraits<decltype(what)>.programs)
            if (what.program) return programs::change_of_packet(*what.program);
          return std::nullopt;
        },
        pipeline.stages[s]);
    if (changes)
      return refuse_stage(
          pipeline, s,
          fmt::format("its program {}, at instruction {}, and stage {} ({}) behind it would decide by the "
                      "packet as it came: put the program last",
                      changes->what, changes->instruction, s + 2, stage_name(pipeline.stages[s + 1])));
  }
  return check_events(pipeline);
}

// Which stage's routes the programs of a pipeline look up.
struct RoutesOf {
  std::size_t pipeline = 0, stage = 0;
};
std::optional<RoutesOf> routes_in(const std::vector<PipelineSettings>& settings, std::size_t pipeline) {
  const auto& stages = settings[pipeline].stages;
  const auto found =
      std::find_if(stages.begin(), stages.end(), [](const auto& one) { return traits_of(one).routes; });
  if (found == stages.end()) return std::nullopt;
  return RoutesOf{pipeline, static_cast<std::size_t>(found - stages.begin())};
}
std::optional<RoutesOf> first_routes(const std::vector<PipelineSettings>& settings) {
  for (std::size_t p = 0; p < settings.size(); p++)
    if (const auto found = routes_in(settings, p)) return found;
  return std::nullopt;
}

// A program that looks up routes, where there are none.
Check check_routes(const std::vector<PipelineSettings>& settings) {
  if (first_routes(settings)) return {};
  for (const PipelineSettings& pipeline : settings)
    for (std::size_t s = 0; s < pipeline.stages.size(); s++) {
      const auto program = program_of(pipeline.stages[s]);
      if (!program || program->program == nullptr) continue;
      for (const programs::Program& part : programs::parts_of(*program->program))
        if (const auto looks = programs::looks_up_routes(part))
          return refuse_stage(
              pipeline, s,
              fmt::format("its program \"{}\" looks up routes, at instruction {}, and no pipeline of the "
                          "policy has any: put a stage \"forward\" with them into one",
                          part.name, *looks));
    }
  return {};
}

// What a policy is linked into.
struct Linked {
  std::vector<u32> image;
  std::vector<xg_rewrite> rewrites;
  std::vector<std::string> backends;  // by rewrite
  std::vector<StateSpec> states;
  std::vector<u32> payload;  // bytes of a packet that its stages may read, by pipeline
};

// Where a stage's code has come to stand.
struct Standing {
  const StageCode& code;
  u32 at = 0;
  u32 body() const { return at + code.placed.body; }
};

// Gives a stage its table, in the first round that its pipeline has left.
void add_state(const PipelineSettings& pipeline, u32 stage, u32 kind, const Standing& standing, u32 round,
               u32 kind_before, Linked& to) {
  std::vector<u32>& image = to.image;
  const Placed& placed = standing.code.placed;
  const u32 body = standing.body();
  StateSpec spec;
  spec.pipeline = pipeline.name;
  spec.stage = stage;
  spec.entries = u64{image[body + XG_BODY_SETS]} * XG_WAYS;
  spec.words = XG_TABLE_HEAD + u64{image[body + XG_BODY_SETS]} * XG_SET_WORDS + spec.entries * placed.record;
  if (traits_of(pipeline.stages[stage]).programs) {
    spec.first = image[body + XG_BODY_FIRST];
    spec.first_words = image[body + XG_BODY_FIRST_WORDS];
    spec.words += spec.first_words;
    if (image[body + XG_PROGRAM_BODY_KEY_BITS] != 0) image[XG_IMAGE_AHEAD_AT] = 1;
  }
  // The body says all there is to say of the stage's settings; where what is remembered outlives some of
  // them, its first words do.
  const std::vector<u32>& words = standing.code.words;
  const auto end = placed.own == 0 ? words.end() : words.begin() + placed.own;
  spec.identity = fmt::format("{}{}\n{} {}\n{}", pipeline.name, pipeline.inner ? "\ninner" : "", kind,
                              kind_before, fmt::join(words.begin() + placed.body + XG_BODY_SETS, end, " "));
  image[body + XG_BODY_STATE] = static_cast<u32>(to.states.size());
  image[body + XG_BODY_ROUND] = round;
  image[XG_IMAGE_ROUNDS_AT] = std::max(image[XG_IMAGE_ROUNDS_AT], round + 1);
  if (traits_of(pipeline.stages[stage]).crowds && round < 32) image[XG_IMAGE_CROWDED_AT] |= 1u << round;
  to.states.push_back(std::move(spec));
}

Check checked(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> Check {
        Check fields = check_fields(what);
        if constexpr (StageInfo<std::remove_cvref_t<decltype(what)>>::kTraits.checks)
          if (fields) return check(what);
        return fields;
      },
      stage);
}

u64 aligned(u64 words) { return (words + kCodeAlign - 1) / kCodeAlign * kCodeAlign; }

// The stage's code in the image, with the indexes and numbers that its words come to hold there.
Standing place(const StageCode& code, Linked& to) {
  std::vector<u32>& image = to.image;
  image.resize(aligned(image.size()), 0);
  const Standing standing{code, static_cast<u32>(image.size())};
  image.insert(image.end(), code.words.begin(), code.words.end());
  for (const CodeRange& range : code.pointers)
    for (u32 i = 0; i < range.count; i++) image[standing.at + range.first + i] += standing.at;
  const u64 first = XG_REWRITE_FIRST + to.rewrites.size();
  const u64 room = first < XG_REWRITE_HALF ? XG_REWRITE_HALF - first : 0;
  const u64 taken = std::min<u64>(code.rewrites.size(), room);
  for (const RewriteWord& one : code.rewrite_words)
    image[standing.at + one.word] = one.rewrite < taken ? static_cast<u32>(first + one.rewrite) : 0;
  to.rewrites.insert(to.rewrites.end(), code.rewrites.begin(),
                     code.rewrites.begin() + static_cast<std::ptrdiff_t>(taken));
  to.backends.insert(to.backends.end(), code.backends.begin(),
                     code.backends.begin() + static_cast<std::ptrdiff_t>(taken));
  return standing;
}

// One pipeline, behind what is in the image already.
void add_pipeline(const PipelineSettings& pipeline, u32 number, const std::vector<CodePtr>& codes,
                  Linked& to) {
  std::vector<u32>& image = to.image;
  const u32 at = XG_IMAGE_HEADER + number * XG_PIPELINE_WORDS;
  image[at + XG_PIPELINE_TWICE] = ~0u;
  std::vector<u32> stages;
  u32 first_with_table = static_cast<u32>(pipeline.stages.size());
  std::map<u32, u32> with_table;  // kind -> how many there have been
  std::vector<u32> behind;        // words that are told of the stages behind, 0: none
  std::vector<u32> last;          // of each stage the last of its places
  u32 rounds = 0, programs = 0;
  u32 payload = pipeline.inner ? XG_INNER_REACH : 0;
  for (std::size_t s = 0; s < pipeline.stages.size(); s++) {
    const StageSettings& stage = pipeline.stages[s];
    const Standing placed = place(*codes[s], to);
    const Placed& where = codes[s]->placed;
    payload = std::max(payload, codes[s]->payload);
    const bool inspects = traits_of(stage).inspects;
    const u32 kind = number_of(stage) + (where.entries != 0 ? XG_KIND_STATEFUL
                                         : inspects         ? XG_KIND_INSPECTS
                                                            : 0);
    if (inspects) image[XG_IMAGE_INSPECTS_AT] = 1;
    stages.insert(stages.end(), {kind, placed.body()});
    if (inspects && where.entries != 0) {
      image[at + XG_PIPELINE_TWICE] = static_cast<u32>(s);
      stages.insert(stages.end(), {number_of(stage) + XG_KIND_INSPECTS, placed.at + where.inspects});
    }
    last.push_back(static_cast<u32>(stages.size() / 2 - 1));
    behind.push_back(where.behind == 0 ? 0 : placed.at + where.behind);
    // Programs without a table have their number among these.
    if (where.entries == 0 && traits_of(stage).programs) image[placed.body() + XG_BODY_ROUND] = programs++;
    if (traits_of(stage).programs && s + 1 == pipeline.stages.size())
      image[placed.body() + XG_PROGRAM_BODY_LINES] = XG_PATCH_LINES;
    if (where.entries == 0) continue;
    const u32 position = static_cast<u32>(s);
    first_with_table = std::min(first_with_table, position);
    add_state(pipeline, position, kind, placed, rounds++, with_table[kind]++, to);
  }
  // Tables do not hang on it: their identities are made.
  bool sends_behind = false, inspects_behind = false;
  u32 fate = XG_BEHIND_WITH_FATE(XG_FATE_TO_HOST);
  for (std::size_t s = pipeline.stages.size(); s-- > 0;) {
    if (behind[s] != 0)
      image[behind[s]] |=
          fate | (sends_behind ? XG_BEHIND_SENDS : 0) | (inspects_behind ? XG_BEHIND_INSPECTS : 0);
    sends_behind = sends_behind || sends(pipeline.stages[s]).has_value();
    inspects_behind = inspects_behind || traits_of(pipeline.stages[s]).inspects;
    fate = stages[2 * last[s]] >= XG_KIND_STATEFUL ? XG_BEHIND_WITH_FATE(XG_FATE_UNDECIDED)
                                                   : XG_BEHIND_ASKS_EACH;
  }
  image[at] = static_cast<u32>(image.size());
  image[at + 1] = static_cast<u32>(stages.size() / 2);
  image[at + 2] = first_with_table;
  image[at + XG_PIPELINE_PAYLOAD] = payload;
  image[at + XG_PIPELINE_INNER] = pipeline.inner ? 1 : 0;
  image[XG_IMAGE_INNER_AT] |= image[at + XG_PIPELINE_INNER];
  image[XG_IMAGE_PAYLOAD_AT] = std::max(image[XG_IMAGE_PAYLOAD_AT], payload);
  to.payload.push_back(payload);
  if (const auto ttl_ms = cache_of_undecided(pipeline)) {
    image[at + XG_PIPELINE_UNDECIDED + XG_BODY_CACHE] = 1;
    image[at + XG_PIPELINE_UNDECIDED + XG_BODY_TTL] = *ttl_ms;
  }
  image.insert(image.end(), stages.begin(), stages.end());
}

// Programs look up the routes of their own pipeline, or else those of the first one that has any.
void tell_of_routes(const std::vector<PipelineSettings>& settings, std::vector<u32>& image) {
  const auto body_of = [&](std::size_t pipeline, std::size_t stage) {
    return image[stage_words_at(image, pipeline, stage) + 1];
  };
  const auto first = first_routes(settings);
  if (!first) return;
  for (std::size_t p = 0; p < settings.size(); p++) {
    const RoutesOf routes = routes_in(settings, p).value_or(*first);
    for (std::size_t s = 0; s < settings[p].stages.size(); s++)
      if (traits_of(settings[p].stages[s]).programs)
        image[body_of(p, s) + XG_PROGRAM_BODY_ROUTES] = body_of(routes.pipeline, routes.stage);
  }
}

// Gives each stage that asks lists of names its words of the changes, behind all others.
void add_changes(const std::vector<PipelineSettings>& settings, std::vector<u32>& image) {
  u32 words = 0;
  for (std::size_t p = 0; p < settings.size(); p++)
    for (std::size_t s = 0; s < settings[p].stages.size(); s++) {
      if (!traits_of(settings[p].stages[s]).names) continue;
      image[image[stage_words_at(image, p, s) + 1] + XG_BODY_CHANGES] = words;
      words += XG_CHANGES_WORDS;
    }
  if (words != 0) image.resize(aligned(image.size()), 0);
  image[XG_IMAGE_CHANGES_AT] = static_cast<u32>(image.size());
  image.resize(image.size() + words, 0);
}

// The words of an image of all of them.
Result<u64> words_of(const std::vector<PipelineSettings>& settings, const PipelineCodes& codes) {
  u64 words = XG_IMAGE_HEADER + settings.size() * XG_PIPELINE_WORDS, rewrites = XG_REWRITE_FIRST;
  u64 changes = 0;
  for (std::size_t p = 0; p < settings.size(); p++) {
    for (std::size_t s = 0; s < codes[p].size(); s++) {
      const StageCode& code = *codes[p][s];
      words = aligned(words) + code.words.size();
      rewrites += code.rewrites.size();
      if (traits_of(settings[p].stages[s]).names) changes += XG_CHANGES_WORDS;
      if (words + (changes != 0 ? changes + kCodeAlign : 0) > kImageMaxWords)
        return refuse_stage(
            settings[p], s,
            fmt::format("with it the policy's pipelines need more than the {} MiB that they may have",
                        kImageMaxWords * sizeof(u32) >> 20));
      if (rewrites > XG_REWRITE_HALF && code.needs_rewrites)
        return refuse_stage(
            settings[p], s,
            fmt::format(
                "a policy can encapsulate to {} backends, and here are more; next hops, and backends that "
                "are cached, count too",
                XG_REWRITE_HALF - XG_REWRITE_FIRST));
    }
    words += codes[p].size() * 2;
  }
  return words + words % 2 + (changes != 0 ? changes + kCodeAlign : 0);
}

Result<Linked> link_all(const std::vector<PipelineSettings>& settings, const PipelineCodes& codes) {
  const u32 pipelines = static_cast<u32>(settings.size());
  const auto words = words_of(settings, codes);
  if (!words) return tl::unexpected(words.error());
  Linked linked;
  std::vector<u32>& image = linked.image;
  image.reserve(*words);
  advise_huge_pages(image.data(), image.capacity() * sizeof(u32));
  image.resize(XG_IMAGE_HEADER + pipelines * XG_PIPELINE_WORDS, 0);
  image[XG_IMAGE_MAGIC_AT] = XG_IMAGE_MAGIC;
  image[XG_IMAGE_PIPELINES_AT] = pipelines;
  image[XG_IMAGE_TABLE_AT] = XG_IMAGE_HEADER;
  for (u32 p = 0; p < pipelines; p++) add_pipeline(settings[p], p, codes[p], linked);
  tell_of_routes(settings, image);
  image[XG_IMAGE_STATES_AT] = static_cast<u32>(linked.states.size());
  // Devices put the tables' addresses, of eight bytes each, right behind.
  if (image.size() % 2 != 0) image.push_back(0);
  add_changes(settings, image);
  image[XG_IMAGE_WORDS_AT] = static_cast<u32>(image.size());
  return linked;
}

}  // namespace

Check check_pipelines(const std::vector<PipelineSettings>& settings) {
  if (settings.size() > 65535)
    return refuse("a policy has {} pipelines, 65535 are possible", settings.size());
  for (const PipelineSettings& pipeline : settings)
    if (pipeline.stages.size() > XG_MAX_STAGES)
      return refuse("pipeline \"{}\" has {} stages, {} are possible", pipeline.name, pipeline.stages.size(),
                    XG_MAX_STAGES);
  for (const PipelineSettings& pipeline : settings)
    if (auto apart =
            check_caching(pipeline).and_then([&] { return check_inspection(pipeline); }).and_then([&] {
              return check_programs(pipeline);
            });
        !apart)
      return apart;
  return check_routes(settings);
}

Check check_link(const std::vector<PipelineSettings>& settings, const PipelineCodes& codes) {
  const auto words = words_of(settings, codes);
  return words ? Check{} : tl::unexpected(words.error());
}

Result<StageCode> compile_stage(const PipelineSettings& pipeline, std::size_t number,
                                const CompileOptions& options) try {
  const StageSettings& stage = pipeline.stages[number];
  Compiled to;
  to.hash_key = options.hash_key;
  auto placed = checked(stage).and_then(
      [&] { return std::visit([&](const auto& what) { return emit(what, to); }, stage); });
  if (!placed) return refuse_stage(pipeline, number, placed.error());
  if (const auto why = why_not_inner(stage); pipeline.inner && why)
    return refuse_stage(pipeline, number, *why);
  const u32 payload = payload_of(stage);
  if (payload > XG_PACKET_MAX)
    return refuse_stage(
        pipeline, number,
        fmt::format("it reads {} bytes of a packet, {} are possible", payload, XG_PACKET_MAX));
  StageCode code{.words = std::move(to.image),
                 .pointers = std::move(to.pointers),
                 .rewrite_words = std::move(to.rewrite_words),
                 .rewrites = std::move(to.rewrites),
                 .backends = std::move(to.backends),
                 .needs_rewrites = to.needs_rewrites,
                 .placed = *placed,
                 .payload = payload,
                 .heads = {},
                 .suppressed = {},
                 .notes = {}};
  if (const FileRules* const rules = file_rules(stage)) {
    if (rules->heads) code.heads = *rules->heads;
    if (rules->suppressed) code.suppressed = *rules->suppressed;
    code.notes = rules->notes;
  }
  return code;
} catch (const std::bad_alloc&) {
  return refuse("there is not enough memory to compile the pipelines: free some, or use fewer rules");
}

Result<std::shared_ptr<const Pipelines>> Pipelines::compile(std::vector<PipelineSettings> settings,
                                                            const CompileOptions& options) {
  if (auto possible = check_pipelines(settings); !possible) return tl::unexpected(possible.error());
  PipelineCodes codes;
  for (const PipelineSettings& pipeline : settings) {
    auto& of = codes.emplace_back();
    for (std::size_t s = 0; s < pipeline.stages.size(); s++) {
      auto code = compile_stage(pipeline, s, options);
      if (!code) return tl::unexpected(code.error());
      of.push_back(std::make_shared<const StageCode>(std::move(*code)));
    }
  }
  return link(std::move(settings), codes);
}

Result<std::shared_ptr<const Pipelines>> Pipelines::link(std::vector<PipelineSettings> settings,
                                                         const PipelineCodes& codes) try {
  auto linked = link_all(settings, codes);
  if (!linked) return tl::unexpected(linked.error());
  std::shared_ptr<Pipelines> pipelines(new Pipelines);
  pipelines->settings_ = std::move(settings);
  pipelines->image_ = std::move(linked->image);
  pipelines->rewrites_ = std::move(linked->rewrites);
  pipelines->backends_ = std::move(linked->backends);
  pipelines->states_ = std::move(linked->states);
  pipelines->payload_ = std::move(linked->payload);
  pipelines->most_payload_ = pipelines->image_[XG_IMAGE_PAYLOAD_AT];
  for (const PipelineSettings& pipeline : pipelines->settings_)
    pipelines->runs_programs_ |=
        std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                    [](const StageSettings& stage) { return traits_of(stage).programs; });
  return pipelines;
} catch (const std::bad_alloc&) {
  return refuse("there is not enough memory for the pipelines: free some, or use fewer rules");
}

std::shared_ptr<const Pipelines> Pipelines::loosened(std::shared_ptr<const Pipelines> pipelines) {
  std::shared_ptr<Pipelines> loose(new Pipelines(*pipelines));
  std::vector<u32>& image = loose->image_;
  bool changed = false;
  for (u32 p = 0; p < loose->settings_.size(); p++) {
    for (u32 i = 0; i < loose->settings_[p].stages.size(); i++)
      std::visit(
          [&](auto& what) {
            if constexpr (kTraits<decltype(what)>.loosens)
              changed |= loosen(what, &image[image[stage_words_at(image, p, i) + 1]]);
          },
          loose->settings_[p].stages[i]);
  }
  if (!changed) return pipelines;
  return loose;
}

std::shared_ptr<const Pipelines> Pipelines::with_code(const std::shared_ptr<const Pipelines>& pipelines,
                                                      std::shared_ptr<const DeviceCode> code) {
  std::shared_ptr<Pipelines> with(new Pipelines(*pipelines));
  with->code_ = std::move(code);
  return with;
}

std::shared_ptr<const Pipelines> Pipelines::with_words(const std::shared_ptr<const Pipelines>& pipelines,
                                                       u64 first, std::span<const u32> words) {
  std::shared_ptr<Pipelines> with(new Pipelines(*pipelines));
  std::copy(words.begin(), words.end(), with->image_.begin() + static_cast<std::ptrdiff_t>(first));
  return with;
}

u32 Pipelines::body_at(std::size_t pipeline, std::size_t stage) const noexcept {
  return image_[stage_words_at(image_, pipeline, stage) + 1];
}

u64 Pipelines::changes_at(std::size_t pipeline, std::size_t stage) const noexcept {
  return image_[body_at(pipeline, stage) + XG_BODY_CHANGES];
}

std::string_view Pipelines::backend_of(u32 number) const noexcept {
  if (number < XG_REWRITE_FIRST || number - XG_REWRITE_FIRST >= backends_.size()) return {};
  return backends_[number - XG_REWRITE_FIRST];
}

std::vector<u16> fed_by_egress(const Pipelines& pipelines) {
  std::vector<u16> fed;
  for (std::size_t i = 0; i < pipelines.settings().size(); i++) {
    const auto& stages = pipelines.settings()[i].stages;
    if (std::any_of(stages.begin(), stages.end(), [](const StageSettings& one) { return sees_egress(one); }))
      fed.push_back(static_cast<u16>(i));
  }
  return fed;
}

bool encapsulates(const Pipelines& pipelines) {
  return std::any_of(pipelines.rewrites().begin(), pipelines.rewrites().end(),
                     [](const xg_rewrite& rewrite) { return rewrite.flags & XG_REWRITE_ENCAPSULATE; });
}

Result<void> check_changes(const Pipelines& pipelines, std::span<const ChangedWords> changes) {
  const u64 all = pipelines.changes_words();
  for (const ChangedWords& one : changes)
    if (one.first > all || one.words.size() > all - one.first)
      return refuse("{} words can be changed, {} from word {} on are not among them", all, one.words.size(),
                    one.first);
  return {};
}

Result<void> check_state_range(const Pipelines& pipelines, u32 table, u64 first, u64 count) {
  if (table >= pipelines.states().size())
    return refuse("the pipelines have {} tables, there is no number {}", pipelines.states().size(), table);
  const u64 words = pipelines.states()[table].words;
  if (first > words || count > words - first)
    return refuse("the table has {} words, {} from word {} on are not in it", words, count, first);
  return {};
}

}  // namespace xdpgpu::gpu
