// SPDX-License-Identifier: MIT
//
// `xdpgpu top` beside a real attach with traffic: on a real terminal (tmux), where a test presses keys and
// reads the screen, and as text.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTmux = "/usr/bin/tmux";

// A rule that drops in the kernel, a pipeline whose verdicts the kernel remembers, and one with rules of a
// file.
std::string rates_policy(const std::string& rule_file) {
  return fmt::format(R"({{"version": 1, "default": "pass",
  "rules": [{{"name": "noise", "match": {{"proto": "udp", "dst_port": 7001}}, "action": "drop"}},
            {{"name": "web", "match": {{"proto": "udp", "dst_port": 7000}}, "action": {{"inspect": "main"}}}},
            {{"name": "mail", "match": {{"proto": "udp", "dst_port": 7002}}, "action": {{"inspect": "ids"}}}}],
  "pipelines": {{"main": [{{"stage": "acl", "rules": [], "default": "drop", "cache": true}}],
                "ids": [{{"stage": "signatures", "rules": ["{}"]}}]}}}})",
                     fs::path(rule_file).filename().string());
}

// A shell on a terminal of its own, in a network namespace. Its server ends with the object.
class Tmux {
 public:
  explicit Tmux(const Namespace& ns)
      : ns_(ns), folder_(fs::temp_directory_path() / fmt::format("xdpgpu-top-{}", getpid())) {
    fs::create_directory(folder_);
    tmux({"-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-s", "top", "/bin/sh"});
  }
  ~Tmux() {
    (void)run({"kill-server"});
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Tmux(const Tmux&) = delete;
  Tmux& operator=(const Tmux&) = delete;

  std::string tmux(const std::vector<std::string>& arguments) const {
    const Outcome outcome = run(arguments);
    if (outcome.status != 0) throw Error("tmux: " + outcome.err);
    return outcome.out;
  }
  // As it stands there; with what makes colours.
  std::string screen() const { return tmux({"capture-pane", "-p", "-t", "top"}); }
  std::string coloured() const { return tmux({"capture-pane", "-p", "-e", "-t", "top"}); }
  std::string line(std::size_t number) const {
    std::istringstream lines(screen());
    std::string line;
    for (std::size_t i = 0; i <= number; ++i) std::getline(lines, line);
    return line;
  }
  void press(const std::string& keys) const { tmux({"send-keys", "-t", "top", keys}); }
  void type(const std::string& text) const { tmux({"send-keys", "-t", "top", "-l", text}); }
  // A line for the shell.
  void command(const std::string& text) const {
    type(text);
    press("Enter");
  }
  void resize(unsigned width, unsigned height) const {
    tmux({"resize-window", "-t", "top", "-x", std::to_string(width), "-y", std::to_string(height)});
  }
  std::string says(const std::string& format) const {
    std::string text = tmux({"display-message", "-p", "-t", "top", format});
    text.erase(text.find_last_not_of('\n') + 1);
    return text;
  }
  bool shows(const std::string& expression, std::chrono::milliseconds patience = 10s) const {
    const std::regex wanted(expression);
    return eventually(
        [&] {
          std::this_thread::sleep_for(30ms);
          return std::regex_search(screen(), wanted);
        },
        patience);
  }
  bool gone(const std::string& words) const {
    return eventually([&] { return screen().find(words) == std::string::npos; }, 10s);
  }
  fs::path file(const char* name) const { return folder_ / name; }

 private:
  Outcome run(const std::vector<std::string>& arguments) const {
    std::vector<std::string> argv{kTmux, "-u", "-L", "top"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return run_program(ns_, argv, 20s,
                       {.environment = {{"TMUX_TMPDIR", folder_.string()},
                                        {"TMUX", ""},
                                        {"LC_ALL", "C.UTF-8"},
                                        {"NO_COLOR", ""},
                                        {"PS1", "$ "},
                                        {"ENV", ""}}});
  }
  const Namespace& ns_;
  fs::path folder_;
};

class Top : public OnTheWire {
 protected:
  void SetUp() override {
    OnTheWire::SetUp();
    attach(rates_policy(rules_.path()));
    traffic_ = std::thread([this] { send(); });
  }
  void TearDown() override {
    stop();
    OnTheWire::TearDown();
  }
  void stop() {
    stopped_ = true;
    if (traffic_.joinable()) traffic_.join();
  }
  // Some 1,000 packets a second, a third of them to each port.
  void send() {
    Sender sender(left_port());
    std::vector<Frame> frames;
    for (std::uint16_t i = 0; i < 33; ++i) {
      frames.push_back(build(from_left(2000, 7001, "noise")));
      frames.push_back(build(from_left(static_cast<std::uint16_t>(1000 + i % 4), 7000, "web")));
      frames.push_back(build(from_left(3000, 7002, "a worm")));
    }
    while (!stopped_) sender.send_paced(frames, 1000);
  }
  const std::string& name() const { return attached_->ifname(); }
  std::string command(const std::string& more = "") const {
    return fmt::format("{} top {} --interval 1s {}", product_path(), name(), more);
  }
  // Of the second line; -1: none.
  static double rate(const Tmux& terminal, const std::string& verdict) {
    std::smatch found;
    const std::string line = terminal.line(1);
    return std::regex_search(line, found, std::regex(verdict + " ([0-9.]+)")) ? std::stod(found[1]) : -1;
  }
  // The terminal is the shell's again, as it was: it echoes, by lines, with a cursor, without the screen that
  // top has drawn on.
  static void expect_restored(const Tmux& terminal) {
    EXPECT_TRUE(terminal.shows("ended [0-9]+")) << terminal.screen();
    EXPECT_EQ(terminal.says("#{alternate_on} #{cursor_flag}"), "0 1");
    terminal.command("clear; stty -a");
    EXPECT_TRUE(terminal.shows(" echo ")) << terminal.screen();
    const std::string settings = terminal.screen();
    for (const char* setting : {"icanon", "echo", "isig", "icrnl", "opost"})
      EXPECT_TRUE(std::regex_search(settings, std::regex(fmt::format("\\s{}\\s", setting))))
          << setting << settings;
    EXPECT_EQ(settings.find("packets/s"), std::string::npos) << settings;
    terminal.command("clear");
  }

  const TemporaryFile rules_{"alert udp any any -> any 7002 (msg:\"a worm\"; content:\"worm\"; sid:7;)\n",
                             ".rules"};
  std::atomic<bool> stopped_{false};
  std::thread traffic_;
};
INSTANTIATE_TEST_SUITE_P(Netns, Top, testing::Values(Config{false, 2}), config_name);

TEST_P(Top, OnATerminal) {
  if (access(kTmux, X_OK) != 0) GTEST_SKIP() << "tmux is not installed (deploy/install-deps --tests)";
  const Tmux terminal(*host_);
  terminal.command(command() + "; echo ended $?");

  // The rate of drops, at the top and by its reason.
  ASSERT_TRUE(terminal.shows("drop +drop_rule +" + name())) << terminal.screen();
  ASSERT_TRUE(eventually([&] { return rate(terminal, "drop") > 300; }, 10s)) << terminal.screen();
  EXPECT_LT(rate(terminal, "drop"), 3000) << terminal.screen();
  EXPECT_EQ(terminal.says("#{alternate_on} #{cursor_flag}"), "1 0");
  EXPECT_NE(terminal.coloured().find("\x1b[33m"), std::string::npos) << "drops strike the eye";

  // Each view.
  terminal.press("2");
  EXPECT_TRUE(terminal.shows("\\[2 rules\\]")) << terminal.screen();
  EXPECT_TRUE(terminal.shows("\nnoise +" + name() + " +[1-9][0-9]+ ")) << terminal.screen();
  EXPECT_TRUE(terminal.shows("\nweb ")) << terminal.screen();
  EXPECT_TRUE(terminal.shows("\n1:7 a worm +" + name() + " +[1-9][0-9]+ ")) << terminal.screen();
  terminal.press("3");
  EXPECT_TRUE(terminal.shows("10\\.9\\.0\\.2:1000 > 10\\.9\\.0\\.1:7000 udp +drop +[1-9][0-9]+ "))
      << terminal.screen();
  terminal.press("4");
  EXPECT_TRUE(terminal.shows("\n10\\.9\\.0\\.2 +4 +[1-9][0-9]+ ")) << terminal.screen();
  terminal.press("5");
  EXPECT_TRUE(terminal.shows("RX ring.*latency")) << terminal.screen();
  EXPECT_TRUE(terminal.shows("\n" + name() + " +1 .*[#.]{8} [#.]{9} ")) << terminal.screen();
  terminal.press("6");
  EXPECT_TRUE(terminal.shows("\ndevice cpu")) << terminal.screen();

  // Sorted by names, the other way round, and as it was chosen in each view.
  terminal.press("2");
  terminal.press("<");
  terminal.press("<");
  EXPECT_TRUE(terminal.shows("\\*rule[^]*\nnoise[^]*\nweb ")) << terminal.screen();
  terminal.press("r");
  EXPECT_TRUE(terminal.shows("\\^rule[^]*\nweb[^]*\nnoise ")) << terminal.screen();

  // Filtered.
  terminal.press("/");
  terminal.type("NOIsex");
  EXPECT_TRUE(terminal.shows("filter: NOIsex_")) << terminal.screen();
  terminal.press("BSpace");
  terminal.press("Enter");
  EXPECT_TRUE(terminal.shows("\nnoise ")) << terminal.screen();
  EXPECT_TRUE(terminal.gone("\nweb ")) << terminal.screen();
  terminal.press("Escape");
  EXPECT_TRUE(terminal.shows("\nweb ")) << terminal.screen();

  // Help, in place of the table.
  terminal.press("?");
  EXPECT_TRUE(terminal.shows("Space +pause")) << terminal.screen();
  terminal.press("?");

  // Paused: it stands still, and goes on.
  terminal.press("1");
  EXPECT_TRUE(terminal.shows("drop_rule")) << terminal.screen();
  terminal.press("Space");
  ASSERT_TRUE(terminal.shows("PAUSED")) << terminal.screen();
  const std::string still = terminal.screen();
  std::this_thread::sleep_for(2500ms);
  EXPECT_EQ(terminal.screen(), still);
  terminal.press("Space");
  EXPECT_TRUE(terminal.shows("every 1 s")) << terminal.screen();
  EXPECT_TRUE(eventually([&] { return terminal.screen() != still; }, 5s));
  terminal.press("+");
  EXPECT_TRUE(terminal.shows("every 2 s")) << terminal.screen();
  terminal.press("-");

  // What a look sends is less than a screen: what has changed alone.
  ASSERT_TRUE(terminal.shows("every 1 s")) << terminal.screen();
  terminal.tmux({"pipe-pane", "-t", "top", "cat > " + terminal.file("sent").string()});
  std::this_thread::sleep_for(4s);
  terminal.tmux({"pipe-pane", "-t", "top"});
  const auto sent = fs::file_size(terminal.file("sent"));
  EXPECT_GT(sent, 0U);
  EXPECT_LT(sent, 4U * 80 * 24 / 3) << "of four looks";

  // Of another size.
  terminal.resize(150, 40);
  EXPECT_TRUE(terminal.shows("in words[^]*dropped by a rule")) << terminal.screen();
  terminal.resize(30, 8);
  EXPECT_TRUE(terminal.shows("30x8: top needs 40x10")) << terminal.screen();
  terminal.resize(40, 10);
  EXPECT_TRUE(terminal.shows("\\[1 verdicts\\]")) << terminal.screen();
  terminal.resize(80, 24);
  EXPECT_TRUE(terminal.shows("6 device[^]*drop_rule")) << terminal.screen();

  terminal.press("q");
  expect_restored(terminal);
}

TEST_P(Top, LeavesTheTerminalAsItWas) {
  if (access(kTmux, X_OK) != 0) GTEST_SKIP() << "tmux is not installed (deploy/install-deps --tests)";
  const Tmux terminal(*host_);
  terminal.command(command() + "; echo ended $?");
  ASSERT_TRUE(terminal.shows("drop_rule")) << terminal.screen();
  terminal.press("C-c");
  expect_restored(terminal);

  for (const int number : {SIGTERM, SIGHUP, SIGQUIT}) {
    SCOPED_TRACE(number);
    terminal.command(command() + "; echo ended $?");
    ASSERT_TRUE(terminal.shows("drop_rule")) << terminal.screen();
    const auto below = descendants(static_cast<pid_t>(std::stoi(terminal.says("#{pane_pid}"))));
    const auto top = std::find_if(below.begin(), below.end(),
                                  [](pid_t pid) { return process_name(pid).starts_with("xdpgpu"); });
    ASSERT_NE(top, below.end());
    kill(*top, number);
    expect_restored(terminal);
  }

  // Stopped, and gone on with on a terminal of another size.
  terminal.command(command() + "; echo ended $?");
  ASSERT_TRUE(terminal.shows("drop_rule")) << terminal.screen();
  terminal.press("C-z");
  ASSERT_TRUE(eventually([&] { return terminal.says("#{alternate_on}") == "0"; }, 5s)) << terminal.screen();
  terminal.resize(90, 20);
  terminal.command("fg");
  EXPECT_TRUE(terminal.shows("drop_rule")) << terminal.screen();
  terminal.resize(80, 24);

  // A process that is gone is told of, and one that does not answer holds up no key.
  attached_->process().signal(SIGSTOP);
  kill(attached_->data_plane(), SIGSTOP);
  std::this_thread::sleep_for(1500ms);
  terminal.press("2");
  EXPECT_TRUE(terminal.shows("\\[2 rules\\]", 1s)) << terminal.screen();
  terminal.press("q");
  EXPECT_TRUE(eventually([&] { return terminal.says("#{alternate_on}") == "0"; }, 1s)) << terminal.screen();
  kill(attached_->data_plane(), SIGCONT);
  attached_->process().signal(SIGCONT);
}

TEST_P(Top, WithoutColoursAndWithoutATerminal) {
  if (access(kTmux, X_OK) == 0) {
    const Tmux terminal(*host_);
    terminal.command("NO_COLOR=1 " + command() + "; echo ended $?");
    ASSERT_TRUE(terminal.shows("drop +drop_rule")) << terminal.screen();
    EXPECT_FALSE(std::regex_search(terminal.coloured(), std::regex("\x1b\\[[0-9;]*3[0-7]")))
        << terminal.coloured();
    terminal.press("q");
    expect_restored(terminal);
    terminal.command("TERM=nonesuch " + command() + "; echo ended $?");
    EXPECT_TRUE(terminal.shows("\"nonesuch\" is not known here[^]*top --plain[^]*ended 1"))
        << terminal.screen();
    terminal.command("clear; TERM=dumb " + command() + "; echo ended $?");
    EXPECT_TRUE(terminal.shows("\"dumb\" cannot put letters[^]*ended 1")) << terminal.screen();
  }
  const Outcome none = product(*host_, {"top", name()});
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("not a terminal; \"xdpgpu top --plain\""), std::string::npos) << none.err;

  const Outcome plain = product(*host_, {"top", name(), "--plain", "--count", "2", "--interval", "1s",
                                         "--view", "rules", "--filter", "noise", "--rows", "1"});
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_TRUE(
      std::regex_search(plain.out, std::regex("drop [1-9][0-9]+, .*\nrule .*\nnoise .*\n\n.*\nrule ")))
      << plain.out;
  EXPECT_EQ(plain.out.find("web"), std::string::npos) << plain.out;
  EXPECT_EQ(plain.out.find('\x1b'), std::string::npos) << plain.out;

  // Flows by their difference; the sums are what was sent.
  const Outcome flows =
      product(*host_, {"top", name(), "--count", "2", "--interval", "1s", "--view", "flows", "-o", "json"});
  ASSERT_EQ(flows.status, 0) << flows.err;
  std::istringstream lines(flows.out);
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  const Json last = Json::parse(line);
  EXPECT_EQ(last.at("view"), "flows");
  ASSERT_EQ(last.at("rows").size(), 4U) << last;
  double sum = 0;
  for (const Json& flow : last.at("rows")) {
    EXPECT_EQ(flow.at("action"), "drop");
    sum += flow.at("packets_s").get<double>();
  }
  EXPECT_GT(sum, 200) << last;
  EXPECT_LT(sum, 1500) << last;
  EXPECT_GT(last.at("rates").at("drop").get<double>(), 300) << last;

  const Outcome every = product(*host_, {"top", "--plain", "--count", "1", "--interval", "1s"});
  EXPECT_EQ(every.status, 0) << every.err;
  EXPECT_NE(every.out.find("drop_rule"), std::string::npos) << every.out;

  for (const auto& [wrong, status] : std::vector<std::pair<std::vector<std::string>, int>>{
           {{"top", "--interval", "0s"}, 2},
           {{"top", "--interval", "soon"}, 2},
           {{"top", "--count", "1"}, 2},
           {{"top", "--plain", "--count", "0"}, 2},
           {{"top", "--plain", "--sort", "speed"}, 2},
           {{"top", "--plain", "--view", "weather"}, 2},
           {{"top", host_second().ifname(), "--plain"}, 1}}) {
    const Outcome refused = product(*host_, wrong);
    EXPECT_EQ(refused.status, status) << fmt::format("{}: {}", wrong.back(), refused.err);
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
  // Who may not ask gets a sentence, and no numbers.
  const Outcome stranger =
      run_program(*host_, {product_path(), "top", name(), "--plain", "--count", "1"}, 20s, {.uid = 65534});
  EXPECT_EQ(stranger.status, 1) << stranger.out;
  EXPECT_EQ(stranger.out, "");
}

}  // namespace
}  // namespace xdpgpu::lab
