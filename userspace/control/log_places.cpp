// SPDX-License-Identifier: MIT
#include "userspace/control/log_places.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "userspace/kernel/trusted.hpp"
#include "userspace/policy/log.hpp"

namespace xdpgpu::control {
namespace {

using Kind = policy::LogOutput::Kind;

constexpr const char* kJournald = "/run/systemd/journal/socket";

Error refuse(const std::string& path, const std::string& why) {
  return Error(fmt::format("the log {} is not opened: {}", path, why));
}
Error system_error(const std::string& path, const char* what, int error) {
  return refuse(path, fmt::format("{}: {}", what, std::strerror(error)));
}

bool is_ours(uid_t user) { return user == 0 || user == geteuid(); }
bool everybody_writes(const struct stat& at) { return (at.st_mode & S_IWOTH) != 0; }
bool is_sticky(const struct stat& at) { return (at.st_mode & S_ISVTX) != 0; }

struct Folder {
  kernel::Fd fd;
  struct stat info {};
};

// The folder that the path's last part stands in, each part on the way looked at as it is opened: nobody can
// exchange what has been looked at.
Result<Folder> open_folder(const std::string& path) {
  Folder folder{kernel::Fd(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC))};
  if (!folder.fd || fstat(folder.fd.get(), &folder.info) != 0) return system_error(path, "/", errno);
  std::size_t begin = 1;
  for (std::size_t end; (end = path.find('/', begin)) != std::string::npos; begin = end + 1) {
    if (end == begin) continue;
    const std::string part = path.substr(begin, end - begin), so_far = path.substr(0, end);
    kernel::Fd next(openat(folder.fd.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next)
      return errno == ENOENT ? refuse(path, fmt::format("there is no folder {}; make it", so_far))
                             : system_error(path, so_far.c_str(), errno);
    struct stat info {};
    if (fstat(next.get(), &info) != 0) return system_error(path, so_far.c_str(), errno);
    if (S_ISLNK(info.st_mode))
      return refuse(path, fmt::format("{} is a symbolic link; name the folder that it leads to", so_far));
    if (!S_ISDIR(info.st_mode)) return refuse(path, fmt::format("{} is no folder", so_far));
    if (everybody_writes(info) && !is_sticky(info))
      return refuse(path, fmt::format("everybody may write to {}, so anybody may put something else there; "
                                      "chmod o-w it, or name another folder",
                                      so_far));
    // What stands in a sticky folder is its owner's to move.
    if (everybody_writes(folder.info) && !is_ours(info.st_uid))
      return refuse(path,
                    fmt::format("{} is user {}'s, in a folder that everybody may write to; name another "
                                "folder",
                                so_far, info.st_uid));
    folder = {std::move(next), info};
  }
  return folder;
}

Result<kernel::Fd> open_file(const std::string& path) {
  auto folder = open_folder(path);
  if (!folder) return Error(folder.error());
  const std::string name = path.substr(path.rfind('/') + 1), where = path.substr(0, path.rfind('/'));
  if (!is_ours(folder->info.st_uid))
    return refuse(path, fmt::format("its folder is user {}'s and not root's, so that user may put something "
                                    "else there; chown root {}",
                                    folder->info.st_uid, where));
  if ((folder->info.st_mode & S_IWGRP) != 0 && folder->info.st_gid != 0 && !is_sticky(folder->info))
    return refuse(path, fmt::format("group {} may write to its folder, so its members may put something else "
                                    "there; chmod g-w {}",
                                    folder->info.st_gid, where));
  constexpr int kHow = O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  kernel::Fd file(openat(folder->fd.get(), name.c_str(), kHow | O_CREAT, 0640));
  if (!file && errno == ELOOP) return refuse(path, "it is a symbolic link; name the file that it leads to");
  if (!file && errno == ENXIO) return refuse(path, "nobody reads this FIFO, or it is a socket");
  if (!file) return system_error(path, "open", errno);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return system_error(path, "fstat", errno);
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
    return refuse(path, "it is neither a file nor a FIFO");
  if (!is_ours(info.st_uid))
    return refuse(path, fmt::format("it is user {}'s and not root's; chown or remove it", info.st_uid));
  if (info.st_nlink > 1)
    return refuse(path, "it has another name, too (a hard link), so it may be another file; remove it");
  if (everybody_writes(info)) return refuse(path, "everybody may write to it; chmod o-w it");
  return file;
}

// By the descriptor of what was looked at: the path may be of any length, and of something else by now.
Result<kernel::Fd> connect_to(const std::string& path, const kernel::Fd& node) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string link = fmt::format("/proc/self/fd/{}", node.get());
  std::memcpy(address.sun_path, link.c_str(), link.size() + 1);
  int error = 0;
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
    kernel::Fd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return system_error(path, "socket", errno);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
    error = errno;
    if (error != EPROTOTYPE) break;
  }
  if (error == ECONNREFUSED) return refuse(path, "nobody listens at this socket");
  if (error == EAGAIN)
    return refuse(path, "who listens at this socket has not taken those before; see that it runs");
  if (error == EPROTOTYPE)
    return refuse(path,
                  "the socket is one of packets (SOCK_SEQPACKET); it has to be of a stream or datagrams");
  return system_error(path, "connect", error);
}

Result<kernel::Fd> open_socket(const std::string& path) {
  auto folder = open_folder(path);
  if (!folder) return Error(folder.error());
  const std::string name = path.substr(path.rfind('/') + 1);
  const kernel::Fd node(openat(folder->fd.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!node) return system_error(path, "open", errno);
  struct stat info {};
  if (fstat(node.get(), &info) != 0) return system_error(path, "fstat", errno);
  if (S_ISLNK(info.st_mode)) return refuse(path, "it is a symbolic link; name the socket that it leads to");
  if (!S_ISSOCK(info.st_mode)) return refuse(path, "it is no socket");
  if (!is_ours(info.st_uid) && (everybody_writes(folder->info) || info.st_uid != folder->info.st_uid))
    return refuse(path,
                  fmt::format("it is user {}'s, in a folder that is not that user's alone; let its reader "
                              "have a folder of its own",
                              info.st_uid));
  return connect_to(path, node);
}

}  // namespace

std::string log_place(const policy::LogOutput& output) {
  switch (output.kind) {
    case Kind::file:
      return "file:" + output.path;
    case Kind::socket:
      return "socket:" + output.path;
    case Kind::journald:
      break;
  }
  return "journald";
}

Result<kernel::Fd> open_log(const policy::LogOutput& output) {
  switch (output.kind) {
    case Kind::file:
      return open_file(output.path);
    case Kind::socket:
      return open_socket(output.path);
    case Kind::journald:
      break;
  }
  return open_socket(kJournald);
}

LogPlaces::LogPlaces(const std::vector<policy::LogOutput>& first, std::string policy_file)
    : policy_file_(std::move(policy_file)) {
  add(first);
}

void LogPlaces::add(const std::vector<policy::LogOutput>& outputs) {
  for (const auto& output : outputs)
    if (std::find(outputs_.begin(), outputs_.end(), output) == outputs_.end()) outputs_.push_back(output);
}

// The file is root's word only if nobody else can write it.
std::string LogPlaces::look_again() {
  if (policy_file_.empty())
    return "it was attached without a policy file, and logs are opened for what that names alone, or the "
           "policy of the attach itself";
  const auto trusted = kernel::stands_by_root(policy_file_);
  if (!trusted) return trusted.error();
  const auto text = policy::read_policy_text(policy_file_);
  if (!text) return text.error();
  add(policy::log_outputs_of(*text));
  return fmt::format(
      "{}, the policy file that attach was given, has no such output; write it there and apply that",
      policy_file_);
}

Result<kernel::Fd> LogPlaces::open(std::string_view place) {
  const auto find = [&] {
    return std::find_if(outputs_.begin(), outputs_.end(),
                        [&](const auto& output) { return log_place(output) == place; });
  };
  auto found = find();
  if (found != outputs_.end()) return open_log(*found);
  const std::string why = look_again();
  found = find();
  if (found == outputs_.end()) return Error(fmt::format("the log {} is not opened: {}", place, why));
  return open_log(*found);
}

}  // namespace xdpgpu::control
