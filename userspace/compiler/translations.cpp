// SPDX-License-Identifier: MIT
#include "userspace/compiler/translations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "userspace/compiler/inputs.hpp"
#include "userspace/compiler/nvjitlink.hpp"
#include "userspace/compiler/nvrtc.hpp"

namespace xdpgpu::compiler {
namespace {

using gpu::programs::Decoded;

// Of each program, and of what chooses among them.
tl::expected<std::vector<std::string>, std::string> sources_of(std::span<const Decoded> programs) {
  std::vector<std::string> sources;
  std::vector<u64> names;
  for (const Decoded& program : programs) {
    auto source = gpu::programs::translated(program);
    if (!source) return tl::unexpected(std::move(source.error()));
    sources.push_back(*std::move(source));
    names.push_back(gpu::programs::name_of(program.code, program.tables));
  }
  // What chooses among one program is no compilation of its own.
  if (sources.size() == 1)
    sources.front() += gpu::programs::chosen_of(names);
  else
    sources.push_back(gpu::programs::chosen_of(names));
  return sources;
}

// By all that a cubin is made of.
ArtifactId id_of(const std::string& source, u32 architecture) {
  InputHash inputs("translation");
  inputs.value(architecture);
  inputs.add(nvrtc_version());
  for (const char* const option : gpu::programs::translation_options()) inputs.add(option);
  for (const auto& header : gpu::programs::translation_headers()) {
    inputs.add(header.name);
    inputs.add(header.text);
  }
  inputs.add(source);
  return inputs.id();
}

}  // namespace

tl::expected<void, std::string> load_translator() {
  const auto linker = load_linker();
  auto nvrtc = load_nvrtc();
  return linker ? nvrtc : linker;
}

bool translator_hurries() { return nvrtc_hurries(); }
std::string translator_version() { return nvrtc_version(); }

tl::expected<std::vector<char>, std::string> compile_translation(const std::string& source,
                                                                 u32 architecture) {
  return compile_relocatable(source, gpu::programs::translation_headers(),
                             gpu::programs::translation_options(), architecture);
}

tl::expected<KeptCode::Code, std::string> Translations::cubin_of(const std::string& source, u32 architecture,
                                                                 const ArtifactId& id) const {
  if (const auto known = cubins_.find(id); known != cubins_.end()) return known->second;
  if (auto kept = kept_.find(id)) return kept;
  auto made = compile_translation(source, architecture);
  if (!made) return tl::unexpected(std::move(made.error()));
  kept_.keep(id, *made);
  return std::make_shared<const std::vector<char>>(*std::move(made));
}

tl::expected<gpu::DeviceCode, std::string> Translations::translate(std::span<const Decoded> programs,
                                                                   u32 architecture) {
  auto linkable = gpu::linkable_code(architecture);
  if (!linkable) return tl::unexpected(std::move(linkable.error()));
  const auto sources = sources_of(programs);
  if (!sources) return tl::unexpected(sources.error());

  InputHash inputs("translations");
  inputs.add(linkable->code.id);
  inputs.value(architecture);
  inputs.add(nvrtc_version());
  inputs.add(linker_version());
  decltype(cubins_) cubins;
  for (const std::string& source : *sources) {
    inputs.add(source);
    const ArtifactId id = id_of(source, architecture);
    auto cubin = cubin_of(source, architecture, id);
    if (!cubin) return tl::unexpected(std::move(cubin.error()));
    cubins.emplace(id, *std::move(cubin));
  }
  cubins_ = std::move(cubins);

  gpu::DeviceCode code;
  code.id = fmt::format("programs of {:02x}", fmt::join(inputs.id(), ""));
  code.architecture = architecture;
  for (std::size_t i = 0; i < linkable->code.modules.size(); i++) {
    auto& module = linkable->code.modules[i];
    if (!linkable->runs_programs.at(i)) {
      code.modules.push_back(std::move(module));
      continue;
    }
    std::vector<LinkInput> parts{{module, fmt::format("module {}", i)},
                                 {linkable->interpreter, "interpreter"}};
    for (const auto& [id, cubin] : cubins_)
      parts.push_back({*cubin, fmt::format("program {}", parts.size())});
    auto linked = link_code(parts, architecture);
    if (!linked) return tl::unexpected(std::move(linked.error()));
    code.modules.push_back(*std::move(linked));
  }
  return code;
}

}  // namespace xdpgpu::compiler
