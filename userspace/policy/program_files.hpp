// SPDX-License-Identifier: MIT
//
// userspace/policy/program_files.hpp: the program of an object that a policy names, and what its maps have at
// first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/program_source.hpp"
#include "gpu/programs.hpp"
#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

// As a stage names them.
struct ProgramNames {
  const std::string& object;
  const std::string& section;
  const std::vector<gpu::ProgramMapFile>& maps;
};
struct ProgramReaders {
  const NamedProgramReader& programs;
  const NamedFileReader& files;
};

// Which of the object's programs it is, with what the policy puts into its prog_arrays.
programs::Choice choice_of(const std::string& section, const std::vector<gpu::ProgramMapFile>& maps);

// Reads them into `program` and `contents`; `stage` is the object that names them. What is wrong is reported
// where it is named, and in a map's file by line. Where what is in them was not asked for they stay as they
// are.
void read_program_files(Report& report, const Place& stage, const ProgramNames& names,
                        const ProgramReaders& readers, std::shared_ptr<const gpu::programs::Program>& program,
                        std::shared_ptr<const std::vector<gpu::ProgramMapContents>>& contents);

}  // namespace xdpgpu::policy
