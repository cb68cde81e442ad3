// SPDX-License-Identifier: MIT
#include "userspace/control/log_output.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "userspace/control/describe.hpp"
#include "userspace/control/log_places.hpp"

namespace xdpgpu::control {
namespace {

// What journald takes beside the line (systemd.io, "Native Journal Protocol").
constexpr std::string_view kJournalFields = "SYSLOG_IDENTIFIER=xdpgpu\nPRIORITY=6\nMESSAGE=";

u64 lines_in(std::string_view text) { return static_cast<u64>(std::count(text.begin(), text.end(), '\n')); }

bool is_full(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == EINTR;
}

}  // namespace

LogOutput::LogOutput(policy::LogOutput output)
    : output_(std::move(output)), place_(output_.path.empty() ? "journald" : output_.path) {
  report_.output = log_place(output_);
}

bool LogOutput::wants_opening(Clock::time_point now) noexcept {
  if (asked_ || (fd_ && !reopen_) || (open_at_ && now < *open_at_)) return false;
  return asked_ = true;
}

void LogOutput::opened(kernel::Fd fd) {
  asked_ = reopen_ = false;
  open_at_.reset();
  write_at_.reset();
  if (fd_ && cut_) (void)write_some();
  miss_cut_line();
  fd_ = std::move(fd);
  struct stat info {};
  int type = 0;
  socklen_t size = sizeof(type);
  const bool known = fstat(fd_.get(), &info) == 0;
  socket_ = known && S_ISSOCK(info.st_mode);
  datagrams_ = socket_ && getsockopt(fd_.get(), SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
  end_first_ = std::exchange(left_open_, false) && known && S_ISREG(info.st_mode) && info.st_size > 0;
  works_again();
}

void LogOutput::not_opened(const std::string& why, Clock::time_point now) {
  asked_ = false;
  open_at_ = now + kPause;
  reopen_ = static_cast<bool>(fd_);
  if (!fd_) miss_all();
  failed(why);
}

void LogOutput::add(std::string_view line) {
  // Nobody knows when there will be one who takes it.
  if ((!fd_ && open_at_) || waiting() + line.size() > kMostWaiting) {
    report_.missed++;
    return;
  }
  if (begin_ > 0 && buffer_.size() + line.size() > kMostWaiting) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  buffer_ += line;
}

void LogOutput::flush(Clock::time_point now) {
  if (!fd_ || (write_at_ && now < *write_at_)) return;
  Wrote result = Wrote::some;
  while (waiting() > 0 && result == Wrote::some) result = write_some();
  if (result != Wrote::failed) {
    if (waiting() == 0 && write_at_) {
      write_at_.reset();
      works_again();
    }
    return;
  }
  const int error = errno;
  // A file has its place on a disk that is full just now; whoever read the others has gone.
  if (error != ENOSPC && error != EDQUOT && error != EIO && error != EFBIG) {
    miss_cut_line();
    fd_ = kernel::Fd();
    open_at_ = now + kPause;
  } else {
    write_at_ = now + kPause;
  }
  failed(fmt::format("the log {} cannot be written: {}", place_, std::strerror(error)));
}

LogOutput::Wrote LogOutput::write_some() {
  if (datagrams_) return write_datagram();
  if (end_first_) {
    if (::write(fd_.get(), "\n", 1) != 1) return Wrote::failed;
    end_first_ = false;
  }
  return write_bytes();
}

LogOutput::Wrote LogOutput::write_bytes() {
  const char* const from = buffer_.data() + begin_;
  const ssize_t written = socket_ ? send(fd_.get(), from, waiting(), MSG_NOSIGNAL | MSG_DONTWAIT)
                                  : ::write(fd_.get(), from, waiting());
  if (written < 0) return is_full(errno) ? Wrote::none : Wrote::failed;
  if (written == 0) return Wrote::none;
  const std::string_view out(from, static_cast<std::size_t>(written));
  report_.lines += lines_in(out);
  report_.bytes += out.size();
  cut_ = out.back() != '\n';
  begin_ += out.size();
  return Wrote::some;
}

// One line, without its newline.
LogOutput::Wrote LogOutput::write_datagram() {
  const std::size_t bytes = line_end() - begin_;
  const bool journal = output_.kind == policy::LogOutput::Kind::journald;
  const std::string_view first = journal ? kJournalFields : std::string_view();
  std::array<iovec, 2> parts{iovec{const_cast<char*>(first.data()), first.size()},
                             iovec{buffer_.data() + begin_, journal ? bytes : bytes - 1}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const bool sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
  if (!sent && is_full(errno)) return Wrote::none;
  // One that its socket never takes holds up no other.
  if (!sent && errno != EMSGSIZE) return Wrote::failed;
  ++(sent ? report_.lines : report_.missed);
  if (sent) report_.bytes += bytes;
  begin_ += bytes;
  return Wrote::some;
}

void LogOutput::failed(const std::string& why) {
  report_.failures++;
  if (report_.problem == why) return;
  report_.problem = why;
  news_ = fmt::format("{}; it is tried again each second, and what it misses is counted", why);
}

void LogOutput::works_again() {
  if (!report_.problem) return;
  report_.problem.reset();
  news_ = fmt::format("the log {} is written again; it has missed {} so far", place_,
                      counted(report_.missed, "line"));
}

void LogOutput::miss_cut_line() {
  if (!std::exchange(cut_, false)) return;
  begin_ = line_end();
  report_.missed++;
  left_open_ = true;
}

void LogOutput::miss_all() {
  report_.missed += lines_in(std::string_view(buffer_).substr(begin_));
  buffer_.clear();
  begin_ = 0;
}

LogOutputReport LogOutput::report() const {
  LogOutputReport report = report_;
  report.open = static_cast<bool>(fd_);
  return report;
}

}  // namespace xdpgpu::control
