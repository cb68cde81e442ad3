// SPDX-License-Identifier: MIT
//
// gpu/pipelines.hpp: stage settings in, compiled pipelines out. The settings are plain values; the
// image is what the devices and the sequential reference read (layout: gpu/stages/image.h).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device_code.hpp"
#include "gpu/gpu.hpp"
#include "gpu/stage_code.hpp"
#include "gpu/stages/image.h"
#include "gpu/stages/stages.hpp"

namespace xdpgpu::gpu {

// What every stage goes by is the packet's metadata, not a parse of its own. A packet has addresses if
// XG_PKT_IPV4 or XG_PKT_IPV6 is set, ports if XG_PKT_PORTS is. Where these headers are not in the frame,
// or both families are claimed, a packet marked XG_PKT_MALFORMED counts as one without them; any other
// is not judged: XG_ABORTED. So are a packet whose metadata names another generation than its batch or
// a pipeline that does not exist, and a descriptor of fewer than 14 or more than XG_CHUNK_SIZE bytes, or
// one that does not lie in the frame region together with its metadata.
//
// The verdict word of a decided packet: stage is the position in the pipeline + 1; rule is said at each stage
// (gpu/stages/<name>/settings.hpp). `cache` sets XG_RES_CACHE on whole, well-formed IP packets only: no
// fragments, nothing malformed, none without addresses; the rewrite for the kernel to apply is said at each
// stage, none where it is not.
// None decides: XG_PASS, stage 0, rule 0; cached, for the least time, if all cache and have the trait
// by_flow.
struct PipelineSettings {
  std::string name;
  std::vector<StageSettings> stages;  // a packet that no stage decides is passed
  // The stages see what is inside of a packet's tunnel in place of its own headers (gpu/stages/inner.h). None
  // may stand there of which why_not_inner() speaks (gpu/stages/stages.hpp).
  bool inner = false;
};

// A stage's table. Two of equal identity are one: a device hands it on from generation to generation.
struct StateSpec {
  std::string identity;  // pipeline, which of its stages of that kind, and the stage's settings
  std::string pipeline;
  u32 stage = 0;  // position in it, from 0
  u64 words = 0;  // of memory
  // What its last words are at first, in the image: all others are 0.
  u32 first = 0, first_words = 0;
  u64 entries = 0;
};

struct CompileOptions {
  // SipHash key of the tables and of Maglev (where it has none of its own), as hard to guess for those who
  // send packets as the caller makes it. Another key is another table, and leads flows to other backends.
  std::array<u64, 2> hash_key{};
};

// By pipeline and stage.
using CodePtr = std::shared_ptr<const StageCode>;
using PipelineCodes = std::vector<std::vector<CodePtr>>;

// Fails where there are more pipelines, or stages of one, than there can be.
Result<void> check_pipelines(const std::vector<PipelineSettings>& settings);
// Fails where all of them do not fit into one image. The error names the pipeline and the stage.
Result<void> check_link(const std::vector<PipelineSettings>& settings, const PipelineCodes& codes);
// One stage's code, by itself. The error names the pipeline and the stage.
Result<StageCode> compile_stage(const PipelineSettings& pipeline, std::size_t stage,
                                const CompileOptions& options = {});

class Pipelines {
 public:
  // Compiles all pipelines of a policy; xg_metadata.pipeline indexes `settings`. The error names the
  // pipeline and stage.
  static Result<std::shared_ptr<const Pipelines>> compile(std::vector<PipelineSettings> settings,
                                                          const CompileOptions& options = {});

  // Of stages that have been compiled: one code each, of the same settings and the same key. Copies the code
  // together, and compiles nothing.
  static Result<std::shared_ptr<const Pipelines>> link(std::vector<PipelineSettings> settings,
                                                       const PipelineCodes& codes);

  // The same but for its stages that have to be told that their tables are lost (trait loosens: conntrack is
  // loose then). Their tables are the same (StateSpec).
  static std::shared_ptr<const Pipelines> loosened(std::shared_ptr<const Pipelines> pipelines);

  // The same, with machine code for the devices that take it (Device::code). That it decides as the stages do
  // is the caller's word.
  static std::shared_ptr<const Pipelines> with_code(const std::shared_ptr<const Pipelines>& pipelines,
                                                    std::shared_ptr<const DeviceCode> code);
  // The same, with other words in their image from `first` on: what is in maps that stand there
  // (gpu/program_tables.hpp). They are words of the image.
  static std::shared_ptr<const Pipelines> with_words(const std::shared_ptr<const Pipelines>& pipelines,
                                                     u64 first, std::span<const u32> words);
  // nullptr: they bring none.
  const std::shared_ptr<const DeviceCode>& code() const noexcept { return code_; }

  const std::vector<PipelineSettings>& settings() const noexcept { return settings_; }
  const std::vector<u32>& image() const noexcept { return image_; }
  // The records that cached verdicts name, from number XG_REWRITE_FIRST on (maps/flow.h); their generation
  // is for the loader to fill in.
  const std::vector<xg_rewrite>& rewrites() const noexcept { return rewrites_; }
  // Name of the backend to which rewrite `number` leads, as a cached verdict has it: empty if it leads to
  // none.
  std::string_view backend_of(u32 number) const noexcept;
  // How many bytes of its packets, from a frame's first one on, a pipeline's stages may read, the most of
  // them counts; 0: headers alone, or there is no such pipeline. And the most of all pipelines.
  u32 payload_bytes(u32 pipeline) const noexcept {
    return pipeline < payload_.size() ? payload_[pipeline] : 0;
  }
  u32 payload_bytes() const noexcept { return most_payload_; }
  // Whether some stage has the trait inspects.
  bool inspects() const noexcept { return image_[XG_IMAGE_INSPECTS_AT] != 0; }
  // Whether some stage has the trait programs.
  bool runs_programs() const noexcept { return runs_programs_; }
  // How many words the host may change while packets flow (Device::change_words()); and where a stage's begin
  // among them, which has the trait names.
  u64 changes_words() const noexcept { return image_.size() - image_[XG_IMAGE_CHANGES_AT]; }
  u64 changes_at(std::size_t pipeline, std::size_t stage) const noexcept;
  // Where a stage's body stands in the image.
  u32 body_at(std::size_t pipeline, std::size_t stage) const noexcept;
  // The stages' tables, as the image numbers them.
  const std::vector<StateSpec>& states() const noexcept { return states_; }

 private:
  Pipelines() = default;
  std::vector<PipelineSettings> settings_;
  std::vector<u32> image_;
  std::vector<xg_rewrite> rewrites_;
  std::vector<std::string> backends_;  // by rewrite
  std::vector<StateSpec> states_;
  std::vector<u32> payload_;  // by pipeline
  u32 most_payload_ = 0;
  bool runs_programs_ = false;
  std::shared_ptr<const DeviceCode> code_;
};

// The pipelines that are to be shown what the host sends.
std::vector<u16> fed_by_egress(const Pipelines& pipelines);

// Whether some stage sends packets on inside of outer headers.
bool encapsulates(const Pipelines& pipelines);

// Whether words [first, first + count) of a table can be read.
Result<void> check_state_range(const Pipelines& pipelines, u32 table, u64 first, u64 count);

// Likewise of words that the host may change.
Result<void> check_changes(const Pipelines& pipelines, std::span<const ChangedWords> changes);

}  // namespace xdpgpu::gpu
