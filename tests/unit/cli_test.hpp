// SPDX-License-Identifier: MIT
//
// tests/unit/cli_test.hpp: the real binary, run in a folder of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

extern char** environ;

namespace xdpgpu::test {

using Json = nlohmann::json;

struct Outcome {
  int status = -1;
  std::string out, err;
};

inline std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/xdpgpu-cli-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    for (const auto& path : files_) unlink(path.c_str());
    rmdir(directory_.c_str());
  }
  std::string file(const std::string& name, const std::string& text) {
    std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    files_.push_back(path);
    return path;
  }
  // Output goes to `to`, or into what is returned; input comes from `from`.
  Outcome run(std::vector<std::string> arguments, const std::string& to = "",
              const std::string& from = "/dev/null") {
    const std::string out = to.empty() ? file("out", "") : to;
    const std::string err = file("err", "");
    arguments.insert(arguments.begin(), XDPGPU_BINARY);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, from.c_str(), O_RDONLY | O_NOCTTY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_TRUNC, 0);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_TRUNC, 0);
    pid_t pid = 0;
    Outcome outcome;
    if (posix_spawn(&pid, XDPGPU_BINARY, &actions, nullptr, argv.data(), environ) == 0) {
      int status = 0;
      waitpid(pid, &status, 0);
      outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (to.empty()) outcome.out = contents(out);
    outcome.err = contents(err);
    return outcome;
  }

  std::string directory_;
  std::vector<std::string> files_;
};

}  // namespace xdpgpu::test
