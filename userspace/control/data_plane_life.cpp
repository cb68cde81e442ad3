// SPDX-License-Identifier: MIT
#include "userspace/control/data_plane_life.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>

#include "userspace/control/last_end.hpp"
#include "userspace/control/request/bypass.hpp"
#include "userspace/control/summary.hpp"

namespace xdpgpu::control {
namespace {

// Draining is bounded, and so is what the data plane does behind it.
constexpr std::chrono::seconds kStopTimeout{15};
constexpr int kMostLastWords = 64;

std::string how_it_ended(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kPairGone)
    return "ended, as its way to the stack was deleted, and has to be made anew";
  if (WIFEXITED(status)) return fmt::format("ended by itself with status {}", WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGSYS)
    return "asked the kernel for what it must never ask for and was killed by its system-call filter (the "
           "kernel's log, \"type=1326\" in dmesg, has the call's number)";
  return fmt::format(
      "was killed by signal {} ({}){}", WTERMSIG(status), strsignal(WTERMSIG(status)),
      WTERMSIG(status) == SIGKILL ? " by somebody, or by the kernel for want of memory (dmesg)" : "");
}

std::string now_in_utc() { return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr))); }

}  // namespace

LifeReport life_report(const DeathRecord& record, bool lives) {
  LifeReport life;
  life.deaths = record.deaths;
  life.lives = lives;
  if (record.deaths == 0) return life;
  life.last_death = LastDeath{record.how, record.at, std::nullopt};
  if (!record.headers.empty()) life.last_death->headers = record.headers;
  return life;
}

DataPlaneLife::DataPlaneLife(DataPlaneKeeper& keeper, Options options, std::function<void()> on_ready)
    : keeper_(keeper),
      options_(std::move(options)),
      on_ready_(std::move(on_ready)),
      stand_in_(options_.listener, options_.admission, answers()),
      reload_(options_.policy_file, [this](const std::string& sentence) { say(sentence); }) {}

int DataPlaneLife::run() {
  start();
  while (!status_) {
    keeper_.reap();
    reap();
    if (status_) break;
    reload_policy();
    tell_manager();
    if (child_ < 0 && next_start_ && Clock::now() >= *next_start_) {
      start();
      continue;
    }
    if (child_ >= 0 && deadline_ && Clock::now() > *deadline_) {
      say(fmt::format("the data plane did not stop within {} s and is killed", kStopTimeout.count()));
      kill(child_, SIGKILL);
      deadline_.reset();
    }
    wait();
  }
  const bool left = ordered_.value_or(false);
  if (ready_ || left) keeper_.note_end(why_.empty() ? "it failed; the log says why" : why_, left);
  return *status_;
}

// ---- the data plane -----------------------------------------------------------------------------------

void DataPlaneLife::start() {
  next_start_.reset();
  bool gone = false;
  auto started = keeper_.start(record_, gone);
  if (!started && (gone || !ready_)) {
    if (ready_)
      say(started.error());
    else
      say_failure(started.error());
    end_for(started.error());
    if (ready_)
      keeper_.finish(true);
    else
      keeper_.never_began();
    return end(1);
  }
  if (!started) return died(fmt::format("could not be started ({})", started.error()));
  child_ = started->process;
  channel_ = std::move(started->channel);
  channel_open_ = true;
  Requests::Duties duties = keeper_.duties();
  duties.ready = [this, ready = duties.ready] {
    serving_ = true;
    ready();
    if (!std::exchange(ready_, true)) {
      on_ready_();
      if (options_.daemon) output_.to_background();
      return;
    }
    say(fmt::format("the data plane of {} is back, {:.1f} s after it died", keeper_.interfaces(),
                    std::chrono::duration<double>(Clock::now() - died_at_).count()));
  };
  duties.ending = [this](bool keep, const std::string& why) {
    ordered_ = may_keep(keep);
    if (options_.manager) options_.manager->stopping();
    if (!why.empty()) end_for(why);
    if (!deadline_) deadline_ = Clock::now() + kStopTimeout;
  };
  duties.undo = [this, undo = duties.undo](bool keep) { return undo(may_keep(keep)); };
  requests_.emplace(std::move(duties));
}

void DataPlaneLife::serve_data_plane() {
  const auto served = requests_->serve(channel_);
  if (!served) {
    kill_data_plane();
    const std::string what =
        fmt::format("did what it never does ({}) and was killed: look at what packets and clients it had",
                    served.error());
    if (ready_ && !ordered_ && !requests_->undone()) return died(what);
    say(fmt::format("the data plane {}; everything was detached and cleaned up", what));
    end_for(fmt::format("the data plane {}", what));
    keeper_.finish(ordered_.value_or(false));
    return end(1);
  }
  channel_open_ = *served != Requests::Served::gone;
  // It is ending: the signal comes.
  if ((!channel_open_ || requests_->undone()) && !deadline_) deadline_ = Clock::now() + kStopTimeout;
}

void DataPlaneLife::reap() {
  int status = 0;
  if (child_ < 0 || waitpid(child_, &status, WNOHANG | WUNTRACED | WCONTINUED) != child_) return;
  if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
    stopped_ = WIFSTOPPED(status);
    return;
  }
  child_ = -1;
  stopped_ = false;
  // What it said before it ended counts.
  for (int i = 0; i < kMostLastWords && channel_open_; i++) {
    const auto served = requests_->serve(channel_);
    channel_open_ = served && *served != Requests::Served::gone;
  }
  channel_open_ = false;
  deadline_.reset();
  ended(status);
}

void DataPlaneLife::ended(int status) {
  const int exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  if (requests_->undone() || !ready_ || ordered_) {
    const bool undone = requests_->undone();
    if (!ready_)
      keeper_.never_began();
    else if (!undone)
      keeper_.finish(*ordered_);
    serving_ = false;
    if (!WIFEXITED(status)) {
      const auto what =
          fmt::format("the data plane {}; {}", how_it_ended(status),
                      ordered_.value_or(false) ? "it had been told to detach, and what decides was left"
                                               : "everything was detached and cleaned up");
      if (ready_)
        say(what);
      else
        say_failure(what);
    }
    return end(undone || !ready_ ? exit_status : 1);
  }
  died(how_it_ended(status));
}

void DataPlaneLife::died(const std::string& how) {
  const bool served = std::exchange(serving_, false);
  reload_.interrupt();
  died_at_ = Clock::now();
  const auto pause = deaths_.add(died_at_);
  record_ = {deaths_.count(), how, now_in_utc(), keeper_.bury(deaths_.count(), served)};
  if (pause) next_start_ = died_at_ + *pause;
  say(fmt::format("the data plane of {} {}. {}", keeper_.interfaces(), how, what_now()));
}

void DataPlaneLife::say_failure(const std::string& sentence) {
  say(sentence);
  if (options_.json) output_.json(failed_end(sentence));
}

void DataPlaneLife::kill_data_plane() {
  if (child_ < 0) return;
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
  child_ = -1;
  channel_open_ = false;
  stopped_ = false;
}

// ---- what comes in ------------------------------------------------------------------------------------

void DataPlaneLife::wait() {
  std::vector<pollfd> events{{options_.signals, POLLIN, 0}, {channel_open_ ? channel_.fd() : -1, POLLIN, 0}};
  events.push_back({keeper_.news_fd(), POLLIN, 0});
  stand_in_.add_to(events, stands_in());
  for (const std::string& news : keeper_.keep_house()) say(news);
  output_.flush();
  int ms = static_cast<int>(std::clamp<long>(keeper_.due_in().count(), 0, DataPlaneKeeper::kTurn.count()));
  if (deadline_ || stand_in_.has_clients()) ms = std::min(ms, 200);
  if (next_start_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next_start_ - Clock::now()).count();
    ms = static_cast<int>(std::clamp<long>(left, 0, ms));
  }
  if (options_.manager && ready_ && !ordered_)
    ms = std::min(ms, static_cast<int>(options_.manager->due_in().count()));
  if (poll(events.data(), events.size(), ms) < 0 && errno != EINTR) {
    // Whatever the kernel lacks just now, it is no reason to let go.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return;
  }
  take_signals();
  if (status_) return;
  if (channel_open_ && events[1].revents != 0) serve_data_plane();
  if (!status_) stand_in_.serve(stands_in());
}

void DataPlaneLife::take_signals() {
  signalfd_siginfo signal{};
  while (read(options_.signals, &signal, sizeof(signal)) == sizeof(signal)) {
    // Told to leave what decides, it may still be told to undo all.
    const bool undo_after_all =
        ordered_.value_or(false) && signal.ssi_signo != SIGHUP && signal.ssi_signo != SIGUSR1;
    if (signal.ssi_signo == SIGCHLD || (ordered_ && !undo_after_all) || status_) continue;
    if (signal.ssi_signo == SIGHUP) {
      reload_.ask();
      if (stands_in()) say("SIGHUP: the policy file is applied again when there is a data plane");
      continue;
    }
    // One that is to come opens them anyway.
    if (signal.ssi_signo == SIGUSR1) {
      if (serving_ && child_ >= 0) (void)channel_.send(Message::make(MessageType::reopen_logs));
      continue;
    }
    end_for(fmt::format(
        "SIG{} from {}", sigabbrev_np(static_cast<int>(signal.ssi_signo)),
        signal.ssi_code == SI_KERNEL ? "the terminal" : name_of_process(static_cast<pid_t>(signal.ssi_pid))));
    take_order(signal.ssi_signo == SIGUSR2);
    if (child_ < 0) return;
  }
}

void DataPlaneLife::take_order(bool keep) {
  if (options_.manager) options_.manager->stopping();
  if (child_ < 0) return end_by_itself(keep, nullptr);
  ordered_ = may_keep(keep);
  if (!deadline_) deadline_ = Clock::now() + kStopTimeout;
  (void)channel_.send(Message::make(MessageType::stop, keep ? 1 : 0));
}

void DataPlaneLife::tell_manager() {
  if (!options_.manager || !ready_ || ordered_) return;
  options_.manager->tell(
      stands_in() ? what_now() : fmt::format("Handles the packets of {}", keeper_.interfaces()),
      [this] { return keeper_.decides(); });
}

// What is asked for while there is no data plane waits for the next one.
void DataPlaneLife::reload_policy() {
  reload_.reap();
  if (!serving_ || ordered_) return;
  const std::string names = keeper_.interfaces();
  reload_.begin(names.substr(0, names.find(',')));
}

// ---- without a data plane -------------------------------------------------------------------------------

// In place of what the data plane does when it is told to detach.
void DataPlaneLife::end_by_itself(bool keep, Response* answer) {
  if (options_.manager) options_.manager->stopping();
  ordered_ = keep;
  kill_data_plane();
  const bool left = keeper_.finish(keep);
  auto account = keeper_.report(true);
  if (!account) {
    say(account.error());
    if (answer) *answer = Response::failure(account.error());
    return end(1);
  }
  account->event = "end";
  account->frames_conserved = true;  // they went with the data plane's sockets
  account->packets_balanced = account->packets.in_flight() == 0;
  if (keep) account->kept = left;
  account->data_plane = report_of_it();
  if (options_.json)
    output_.json(as_json(*account));
  else
    output_.text(account_text(*account));
  if (answer) *answer = Response::success(as_json(*account));
  end(0);
}

std::string DataPlaneLife::what_now() const {
  const std::string names = keeper_.interfaces();
  if (is_stopped())
    return fmt::format(
        "The data plane, process {}, is stopped (SIGSTOP). The XDP program stays: what is to be inspected "
        "{}. Let it go on with \"kill -CONT {}\", or have another one started with \"kill -KILL {}\"; "
        "\"bypass\" and \"detach\" work meanwhile",
        child_, keeper_.on_failure(), child_, child_);
  std::string text = fmt::format("The XDP program stays: what is to be inspected {}", keeper_.on_failure());
  if (child_ >= 0)
    text += "; another data plane is starting";
  else if (next_start_)
    text += fmt::format(
        "; another one is started {}",
        *next_start_ <= Clock::now()
            ? "at once"
            : fmt::format("in {:.1f} s", std::chrono::duration<double>(*next_start_ - Clock::now()).count()));
  else
    text += fmt::format(
        ", and stays so: it died {0} times within {1} s and is not started again. Look at what it died of; "
        "then \"xdpgpu detach {2} --keep\" and attach again, maybe with another policy or device, or "
        "\"xdpgpu bypass on {2}\" to let everything pass",
        Deaths::kMost, Deaths::kWithin.count(), kernel::names::operand(names.substr(0, names.find(','))));
  if (child_ < 0 && !next_start_ && keeper_.is_on_trial())
    text += ". The policy in force is one that nobody had confirmed";
  if (!record_.headers.empty())
    text += fmt::format(". The headers of the packets that it had are in {}", record_.headers);
  return text;
}

LifeReport DataPlaneLife::report_of_it() const {
  LifeReport life = life_report(record_, false);
  if (is_stopped()) life.pid = child_;
  life.state = is_stopped() ? "stopped" : child_ >= 0 ? "starting" : next_start_ ? "waiting" : "dead";
  life.summary = what_now();
  return life;
}

Response DataPlaneLife::status_answer() {
  // One that is starting may have packets already: they are no dead one's.
  auto report = keeper_.report(child_ < 0);
  if (!report) return Response::failure(report.error());
  report->data_plane = report_of_it();
  return Response::success(as_json(*report));
}

StandIn::Answers DataPlaneLife::answers() {
  return {
      .status = [this] { return status_answer(); },
      .detach =
          [this](bool keep) {
            end_for(keep ? "\"xdpgpu detach --keep\"" : "\"xdpgpu detach\"");
            Response answer;
            end_by_itself(keep, &answer);
            return answer;
          },
      .bypass =
          [this](bool on, std::optional<u64> for_s) {
            if (auto set = keeper_.bypass(on, std::chrono::seconds(for_s.value_or(0))); !set)
              return Response::failure(set.error());
            return Response::success(as_json(Bypass::Answer{on, for_s}));
          },
      .other =
          [this] {
            if (is_stopped()) return Response::failure(fmt::format("nothing was done: {}", what_now()));
            return Response::failure(fmt::format("{} has no data plane: it {} ({}). {}", keeper_.interfaces(),
                                                 record_.how, record_.at, what_now()));
          },
      .interfaces = [this] { return keeper_.interfaces(); }};
}

}  // namespace xdpgpu::control
