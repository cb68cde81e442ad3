// SPDX-License-Identifier: MIT
//
// gpu/stages/program_code.h is GLSL and CUDA, too: each compiler that is here takes it.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

struct Output {
  int status = -1;
  std::string text;
};

Output output_of(const std::string& command) {
  Output output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> part;
  for (std::size_t got; (got = fread(part.data(), 1, part.size(), pipe)) > 0;)
    output.text.append(part.data(), got);
  output.status = pclose(pipe);
  return output;
}

// `compiler` of the path, with these arguments, then a source among those of this folder.
void compile(const std::string& compiler, const std::string& arguments, const std::string& source) {
  if (output_of("command -v " + compiler).status != 0)
    GTEST_SKIP() << "there is no " << compiler << " in the path";
  const std::string root = XDPGPU_SOURCE_DIR;
  const Output output = output_of(compiler + " " + arguments + " -I'" + root + "' -o - '" + root +
                                  "/tests/unit/" + source + "'");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_GT(output.text.size(), 10'000u) << "it is all there";
}

// Without -O: with it glslc 2023.2 crashes (SPIRV-Tools 2022.4).
TEST(ProgramCompilers, Glsl) { compile("glslc", "--target-env=vulkan1.2 -Werror", "gpu_program_code.comp"); }
TEST(ProgramCompilers, Cuda) {
  compile("nvcc", "-std=c++17 -ptx -Werror all-warnings", "gpu_program_code.cu");
}

}  // namespace
