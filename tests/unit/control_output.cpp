// SPDX-License-Identifier: MIT
//
// What an attached process says, and how the broker brings it out: whole, in order, and with nobody waiting.
#include "userspace/control/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <thread>

#include "userspace/control/output_relay.hpp"

namespace xdpgpu::control {
namespace {

using namespace std::chrono_literals;

// ---- characters ------------------------------------------------------------------------------------

std::string shown(const std::string& bytes) { return Printable()(bytes); }

TEST(Printable, LetsTextAndTheSummaryLineThrough) {
  const std::string text = "\r\033[Kpackets/s: in 5\n\teth0: \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\n";
  EXPECT_EQ(shown(text), text);
  for (std::size_t cut = 0; cut <= text.size(); cut++) {
    Printable printable;
    const std::string first = printable(text.substr(0, cut));
    EXPECT_EQ(first + printable(text.substr(cut)), text) << cut;
  }
}

TEST(Printable, TellsATerminalNothingElse) {
  EXPECT_EQ(shown("\033]0;title\a"), "?]0;title?");
  EXPECT_EQ(shown("\033[21t\033[6n\033c"), "?[21t?[6n?c");
  EXPECT_EQ(shown("\033\033[K"), "?\033[K");
  EXPECT_EQ(shown("\033[\033[K"), "?[\033[K");
  EXPECT_EQ(shown("a\x7f\b\x0e\x05z"), "a????z");
  EXPECT_EQ(shown("\xc2\x9b"
                  "21t"),
            "?21t")
      << "a control character of two bytes";
  EXPECT_EQ(shown("\x9b"
                  "21t\xff"),
            "?21t?")
      << "no character at all";
  EXPECT_EQ(shown("\xe2\x82z"), "??z");
  EXPECT_EQ(shown("\xe2\x82\033[K"), "??\033[K");
  EXPECT_EQ(shown("\xc3\033]"), "??]");
  EXPECT_EQ(shown(std::string("\0", 1)), "?");
}

// ---- processes -------------------------------------------------------------------------------------

struct Pipe {
  int reader = -1, writer = -1;
  Pipe() {
    int ends[2];
    if (pipe(ends) == 0) reader = ends[0], writer = ends[1];
  }
  ~Pipe() {
    close(reader);
    if (writer >= 0) close(writer);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  std::string rest() {
    close(std::exchange(writer, -1));
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = read(reader, buffer, sizeof(buffer))) > 0;)
      all.append(buffer, static_cast<std::size_t>(n));
    return all;
  }
};

// In a process whose standard output and error are the pipes.
pid_t start(Pipe& out, Pipe& errors, const std::function<int()>& act) {
  std::fflush(stdout);  // or the child says it, too
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(30);
  dup2(out.writer, STDOUT_FILENO);
  dup2(errors.writer, STDERR_FILENO);
  for (const int fd : {out.reader, out.writer, errors.reader, errors.writer}) close(fd);
  _exit(act());
}

int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

std::string line(int number) { return fmt::format("line {:05} {}\n", number, std::string(100, 'x')); }

TEST(Output, ComesOutWholeAndInOrderByWayOfTheBroker) {
  // More than a pipe holds, and soon taken where the machine has other things to do.
  constexpr int kLines = 2000;
  Pipe out, errors;
  const pid_t child = start(out, errors, [] {
    auto relay = OutputRelay::start();
    if (!relay) return 1;
    const pid_t data_plane = fork();
    if (data_plane == 0) {
      if (!leave_terminal()) _exit(1);
      Output output(false, false);
      for (int i = 0; i < kLines; i++) output.text(line(i));
      output.problem("of the data plane");
      output.~Output();
      _exit(0);
    }
    const int status = status_of(data_plane);
    std::fprintf(stderr, "of the broker\n");
    relay->reset();
    std::printf("behind it\n");
    std::fflush(stdout);
    return status;
  });
  std::string expected;
  for (int i = 0; i < kLines; i++) expected += line(i);
  EXPECT_EQ(out.rest(), expected + "behind it\n");
  EXPECT_EQ(errors.rest(), "xdpgpu: of the data plane\nof the broker\n");
  EXPECT_EQ(status_of(child), 0);
}

// The data plane may change how its writes behave, and not how the broker's do.
TEST(Output, IsTheDataPlanesOwnWayToTheBroker) {
  Pipe out, errors;
  const pid_t child = start(out, errors, [] {
    auto relay = OutputRelay::start();
    if (!relay) return 1;
    const pid_t data_plane = fork();
    if (data_plane == 0) {
      if (!leave_terminal()) _exit(1);
      for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
        if ((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0) _exit(2);
        if (fcntl(fd, F_SETFL, 0) != 0) _exit(3);
      }
      std::fprintf(stderr, "of the data plane\n");
      _exit(0);
    }
    if (const int status = status_of(data_plane); status != 0) return status;
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
      if ((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0) return 4;
    return 0;
  });
  EXPECT_EQ(errors.rest(), "of the data plane\n");
  EXPECT_EQ(status_of(child), 0);
}

TEST(Output, WaitsForNobody) {
  Pipe out, errors, written;
  const pid_t child = start(out, errors, [&] {
    fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
    Output output(false, false);
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t worked = std::clock();
    for (int i = 0; i < 20000; i++) output.text(line(i));  // more than a pipe and a megabyte hold
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const bool waited = took.count() - static_cast<double>(std::clock() - worked) / CLOCKS_PER_SEC > 2;
    if (write(written.writer, "", 1) != 1) return 3;
    for (int i = 0; i < 300; i++) {  // now somebody reads
      std::this_thread::sleep_for(5ms);
      output.flush();
    }
    output.text("the end\n");
    return waited ? 2 : 0;
  });
  // However slow the machine is, nobody reads before all is said.
  close(std::exchange(written.writer, -1));
  char all_is_said = 1;
  EXPECT_EQ(read(written.reader, &all_is_said, 1), 1);
  const std::string said = out.rest();
  EXPECT_EQ(status_of(child), 0);
  std::string expected;
  int lines = 0;
  while (said.compare(expected.size(), line(lines).size(), line(lines)) == 0) expected += line(lines++);
  EXPECT_EQ(said, expected + "the end\n") << "whole lines";
  EXPECT_GT(lines, 5000);
  EXPECT_EQ(errors.rest(),
            fmt::format("xdpgpu: {} messages were left out, as nobody took them in time\n", 20000 - lines));
}

TEST(Output, GoesOnWhereNobodyReadsAnyMore) {
  Pipe out, errors;
  const pid_t child = start(out, errors, [] {
    auto relay = OutputRelay::start();
    if (!relay) return 1;
    for (int i = 0; i < 5000; i++) {
      if (write(STDOUT_FILENO, line(i).data(), line(i).size()) < 0 && errno != EAGAIN) return 2;
      if (i % 100 == 0) std::this_thread::sleep_for(1ms);
    }
    std::fprintf(stderr, "still here\n");
    return 0;
  });
  close(std::exchange(out.writer, -1));
  close(out.reader);
  out.reader = open("/dev/null", O_RDONLY);
  EXPECT_EQ(errors.rest(), "still here\n");
  EXPECT_EQ(status_of(child), 0) << "killed by a broken pipe?";
}

TEST(Output, LeavesWhatAStoppedReaderDoesNotTake) {
  Pipe out, errors;
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = start(out, errors, [] {
    auto relay = OutputRelay::start();
    if (!relay) return 1;
    for (int i = 0; i < 5000; i++)
      if (write(STDOUT_FILENO, line(i).data(), line(i).size()) < 0 && errno != EAGAIN) return 2;
    relay->reset();
    return 0;
  });
  EXPECT_EQ(status_of(child), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

}  // namespace
}  // namespace xdpgpu::control
