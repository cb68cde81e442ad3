// SPDX-License-Identifier: MIT
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <clocale>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "userspace/cli/command.hpp"
#include "userspace/cli/terminal.hpp"
#include "userspace/kernel/kernel.hpp"
#include "userspace/report/top_looker.hpp"
#include "userspace/report/top_screen.hpp"

namespace xdpgpu::cli {
namespace {

using namespace std::chrono_literals;
using report::Look;
using report::Screen;
using report::View;
using Clock = std::chrono::steady_clock;

constexpr unsigned kLongestInterval = 3600;
constexpr u64 kRows = 20;

struct Arguments {
  std::string ifname;
  View view = View::verdicts;
  std::string sort, filter, interval = "2s";
  bool plain = false;
  std::optional<u64> count, rows;
};

// ---- asked beside, so that keys are heard meanwhile --------------------------------------------------

class Asker {
 public:
  explicit Asker(report::Looker looker)
      : looker_(std::move(looker)), told_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (told_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    thread_ = std::thread([this] { serve(); });
  }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  // It may wait for a process that is stuck, as long as a client does; leave() does not.
  ~Asker() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wanted_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  // Readable once there is an answer.
  int fd() const noexcept { return told_.get(); }
  void ask(report::More more) {
    {
      const std::lock_guard lock(mutex_);
      busy_ = true;
      more_ = more;
    }
    wanted_.notify_one();
  }
  bool busy() const {
    const std::lock_guard lock(mutex_);
    return busy_;
  }
  // Throws what asking threw.
  std::optional<Look> answer() {
    u64 times = 0;
    (void)!read(told_.get(), &times, sizeof(times));
    const std::lock_guard lock(mutex_);
    if (problem_) std::rethrow_exception(problem_);
    return std::exchange(look_, std::nullopt);
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wanted_.wait(lock, [this] { return ending_ || (busy_ && !problem_); });
      if (ending_) return;
      const report::More more = more_;
      lock.unlock();
      std::optional<Look> look;
      std::exception_ptr problem;
      try {
        look = looker_.look(more);
      } catch (...) {
        problem = std::current_exception();
      }
      lock.lock();
      look_ = std::move(look);
      problem_ = problem;
      busy_ = false;
      const u64 once = 1;
      (void)!write(told_.get(), &once, sizeof(once));
    }
  }

  report::Looker looker_;
  kernel::Fd told_;
  mutable std::mutex mutex_;
  std::condition_variable wanted_;
  bool busy_ = false, ending_ = false;
  report::More more_ = report::More::nothing;
  std::optional<Look> look_;
  std::exception_ptr problem_;
  std::thread thread_;
};

// ---- on a terminal -----------------------------------------------------------------------------------

// Those that end it, or tell of another size. For the calling thread and those that it starts.
control::Result<kernel::Fd> take_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}) sigaddset(&signals, one);
  const auto cannot = [](int error) {
    return control::Error(
        fmt::format("cannot take the signals that end it: {}; \"xdpgpu top --plain\" takes none",
                    std::generic_category().message(error)));
  };
  if (const int error = pthread_sigmask(SIG_BLOCK, &signals, nullptr); error != 0) return cannot(error);
  kernel::Fd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd.get() < 0) return cannot(errno);
  return fd;
}

// Whether one came that ends it.
bool told_to_end(const kernel::Fd& signals) {
  bool end = false;
  signalfd_siginfo told{};
  while (read(signals.get(), &told, sizeof(told)) == static_cast<ssize_t>(sizeof(told)))
    end = end || told.ssi_signo != SIGWINCH;
  return end;
}

// Until it is to end.
void show_live(Terminal& terminal, const kernel::Fd& signals, Asker& asker, Screen& screen) {
  auto next = Clock::now();
  const auto ask = [&] {
    asker.ask(screen.wants());
    next = Clock::now() + screen.interval();
  };
  for (;;) {
    const auto [width, height] = terminal.size();
    terminal.show(screen.draw(width, height));
    const bool waits = !screen.paused() && !asker.busy();
    if (waits && Clock::now() >= next) ask();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    pollfd ready[] = {{STDIN_FILENO, POLLIN, 0}, {signals.get(), POLLIN, 0}, {asker.fd(), POLLIN, 0}};
    const bool timed = !screen.paused() && !asker.busy();
    (void)poll(ready, std::size(ready),
               timed ? static_cast<int>(std::max<std::int64_t>(0, left.count())) : -1);
    if (ready[1].revents && told_to_end(signals)) return;
    if (ready[2].revents)
      if (auto look = asker.answer()) screen.take(std::move(*look));
    bool again = false, any = false;
    while (const auto key = terminal.key()) {
      any = true;
      const auto effect = screen.press(*key);
      if (effect == Screen::Effect::quit) return;
      again = again || effect == Screen::Effect::look;
    }
    // Nobody is there any more.
    if (!any && (ready[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return;
    if (again && !asker.busy()) ask();
  }
}

int run_live(Screen::Settings settings, report::Looker looker) {
  auto signals = take_signals();
  if (!signals) return fail(signals.error());
  Asker asker(std::move(looker));
  {
    auto terminal = Terminal::open();
    if (!terminal) return fail(terminal.error());
    Screen screen(std::move(settings));
    show_live(**terminal, *signals, asker, screen);
  }
  // The terminal is as it was. The other thread may wait for a process that is stuck, and has nothing to
  // undo.
  if (asker.busy()) std::_Exit(kDone);
  return kDone;
}

// ---- without one -------------------------------------------------------------------------------------

void print_table(const Arguments& arguments, Format format, const Look* before, const Look& now) {
  const report::Rates rates = report::rates_of(before, now);
  const auto warnings = report::warnings_of(now);
  report::Table table = report::table_of(arguments.view, before, now);
  const auto column = report::column_of(table, arguments.sort).value_or(table.sorted_by);
  report::arrange(table, {column}, arguments.filter);
  const std::size_t rows = arguments.rows.value_or(kRows);
  const auto name = report::kViews[static_cast<std::size_t>(arguments.view)];
  if (format == Format::json) {
    const Json all{{"view", name},
                   {"rates", control::as_json(rates)},
                   {"warnings", warnings},
                   {"note", table.note},
                   {"rows", report::json_of(table, rows)},
                   {"rows_left_out", table.rows.size() - std::min(rows, table.rows.size())}};
    print(all.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
  } else {
    const auto text = [](std::optional<double> rate) { return rate ? report::short_text(*rate) : "-"; };
    std::string out = fmt::format(
        "{:%Y-%m-%d %H:%M:%S}  packets/s: in {}, pass {}, drop {}, tx {}, redirect {}, error {}, inspected "
        "{}\n",
        fmt::localtime(std::time(nullptr)), text(rates.in), text(rates.pass), text(rates.drop),
        text(rates.tx), text(rates.redirect), text(rates.error), text(rates.inspected));
    for (const auto& warning : warnings) out += report::narrow(report::printable(warning)) + "\n";
    if (now.answers.attaches.empty())
      out += "no interface is attached; attach one with \"xdpgpu attach IF\"\n";
    else
      out += text_of(table, rows);
    if (!table.note.empty()) out += table.note + "\n";
    print(out + "\n");
  }
  std::fflush(stdout);
}

int run_plain(const Arguments& arguments, std::chrono::seconds interval, Format format,
              report::Looker& looker, Look first) {
  Look before = std::move(first);
  auto next = Clock::now();
  for (u64 printed = 0; !arguments.count || printed < *arguments.count; ++printed) {
    next = std::max(next + interval, Clock::now());
    std::this_thread::sleep_until(next);
    Look now = looker.look(report::more_of(arguments.view));
    print_table(arguments, format, &before, now);
    // main says why.
    if (std::ferror(stdout)) return kFailed;
    before = std::move(now);
  }
  return kDone;
}

// ---- the command -------------------------------------------------------------------------------------

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

int run(const Arguments& arguments, Format format, bool only_here) {
  // Which letters there are.
  std::setlocale(LC_CTYPE, "");
  const bool plain = arguments.plain || format == Format::json;
  const auto seconds = parse_duration(arguments.interval);
  if (!seconds || *seconds == 0 || *seconds > kLongestInterval)
    return fail(fmt::format("--interval {} is not a time from 1s to {}s, such as 5s or 1m",
                            arguments.interval, kLongestInterval),
                kUsage);
  if (!plain && (arguments.count || arguments.rows))
    return fail("--count and --rows go with --plain or -o json alone", kUsage);
  if (arguments.count == u64{0}) return fail("--count is 1 or more", kUsage);
  const report::Table columns = report::table_of(arguments.view, nullptr, {});
  if (!arguments.sort.empty() && !report::column_of(columns, arguments.sort)) {
    std::vector<std::string_view> names;
    for (const auto& column : columns.columns) names.push_back(column.name);
    return fail(fmt::format("there is no column \"{}\" to sort by; those of {} are {}", arguments.sort,
                            report::kViews[static_cast<std::size_t>(arguments.view)], fmt::join(names, ", ")),
                kUsage);
  }
  report::Looker looker(arguments.ifname, only_here);
  // Who may not ask, or names what is not attached, is told so, and the terminal stays as it is.
  Look first = looker.look(plain ? report::more_of(arguments.view) : report::More::nothing);
  const auto& [attaches, refused] = first.answers;
  if (attaches.empty() && !refused.empty()) return fail(refused.front());
  const std::chrono::seconds interval(*seconds);
  if (plain) return run_plain(arguments, interval, format, looker, std::move(first));
  Screen::Settings settings{.view = arguments.view,
                            .sort = arguments.sort,
                            .filter = arguments.filter,
                            .interval = interval,
                            .host = host_name()};
  return run_live(std::move(settings), std::move(looker));
}

void add(CLI::App& app, Chosen& chosen) {
  auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("top", "Watch the rates live, on a terminal or as text");
  describe(
      *command,
      "Shows what becomes of packets as it happens: rates by verdict and reason, by rule, by flow and by\n"
      "source, the queues with their rings and latency, and the device. Of the process that attached the\n"
      "interface; without one, of every attached process, in every network namespace unless one is named.\n"
      "Keys choose what is shown, sort, filter, pause; ? lists them. 80 columns and 24 rows are enough.\n"
      "With --plain, or -o json, tables are printed one after the other, and no terminal is needed; each\n"
      "object of -o json is a line. Flows and sources are those that the kernel decides by a flow verdict.\n"
      "Rates are of the time since the last look. NO_COLOR in the environment leaves colours out.");
  command->footer(
      "\nExamples:\n  xdpgpu top eth0\n  xdpgpu top eth0 --plain --count 1 --view rules --sort packets");
  add_attached_interface(*command, arguments->ifname);
  std::vector<std::pair<std::string, View>> views;
  for (std::size_t i = 0; i < report::kViews.size(); ++i)
    views.emplace_back(report::kViews[i], static_cast<View>(i));
  add_choice<View>(*command, "--view", arguments->view, views, "What is shown first; default verdicts");
  command->add_option("--sort", arguments->sort, "The column that is sorted by, as -o json names it")
      ->type_name("COLUMN");
  command->add_option("--filter", arguments->filter, "Show rows that have this in their words alone")
      ->type_name("TEXT");
  command->add_option("--interval", arguments->interval, "Time from one look to the next; default 2s")
      ->type_name("TIME");
  command->add_flag("--plain", arguments->plain, "Print tables as text, without a terminal");
  command->add_option("--count", arguments->count, "With --plain: end after so many tables")
      ->check(whole_number())
      ->type_name("N");
  command
      ->add_option("--rows", arguments->rows,
                   fmt::format("With --plain: print at most so many rows of a table; default {}", kRows))
      ->check(whole_number())
      ->type_name("N");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen,
              [arguments, format, &chosen] { return run(*arguments, *format, !chosen.netns.empty()); });
}

Registered registered(32, add);

}  // namespace
}  // namespace xdpgpu::cli
