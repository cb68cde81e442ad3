// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

constexpr const char* kTooBig = ", the most that is read";

struct OpenFile {
  explicit OpenFile(int descriptor) : fd(descriptor) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
  const int fd;
};

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// O_NONBLOCK: opening a FIFO must not wait for a writer; what it is gets checked before any read.
tl::expected<std::string, std::string> read_regular(const std::string& path, u64 most) {
  auto failed = [&](const char* what) {
    return tl::unexpected(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
  };
  OpenFile file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.fd < 0) return failed("open");
  struct stat info {};
  if (fstat(file.fd, &info) != 0) return failed("look at");
  if (!S_ISREG(info.st_mode))
    return tl::unexpected(fmt::format("{} is {}; a regular file is needed", path, kind_of(info.st_mode)));
  auto too_big = [&] {
    return tl::unexpected(fmt::format("{} is larger than {} MiB{}", path, most >> 20, kTooBig));
  };
  if (static_cast<u64>(info.st_size) > most) return too_big();
  std::string content(static_cast<u64>(info.st_size) + 1, '\0');
  u64 filled = 0;
  while (true) {  // the file may have grown since fstat
    if (filled == content.size()) content.resize(content.size() * 2);
    ssize_t got = read(file.fd, content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read");
    if (got == 0) break;
    filled += static_cast<u64>(got);
    if (filled > most) return too_big();
  }
  content.resize(filled);
  return content;
}

// The files below a directory, as far as they are not too much together.
class Directory {
 public:
  Directory(std::string path, u64 most) : path_(std::move(path)), most_(most), left_(most) {}
  tl::expected<std::string, std::string> read(const std::string& name) {
    if (name.find('\0') != std::string::npos)
      return tl::unexpected(std::string("the path contains a zero byte"));
    auto content = read_regular((std::filesystem::path(path_) / name).string(), kMaxFileBytes);
    if (!content) return content;
    if (content->size() > left_) return tl::unexpected(too_much_with(name, most_));
    left_ -= content->size();
    return content;
  }

 private:
  std::string path_;
  u64 most_, left_;
};

using FileResult = tl::expected<FileText, std::string>;

// Not owned by what it gives.
FileResult find_in(const FileContents& contents, const std::string& path) {
  const auto at = contents.find(path);
  if (at == contents.end())
    return tl::unexpected(fmt::format("the file {} did not come with the policy", path));
  return FileText(FileText(), &at->second);
}

}  // namespace

std::string too_much_with(const std::string& path, u64 most) {
  return fmt::format(
      "with {}, the files that the policy names have more than {} MiB together, the most that is read", path,
      most >> 20);
}

FileReader read_files_from(std::string directory) {
  return [from = std::make_shared<Directory>(std::move(directory), kMaxFilesBytes)](
             const std::string& path) -> FileResult {
    auto content = from->read(path);
    if (!content) return tl::unexpected(std::move(content.error()));
    return std::make_shared<const std::string>(*std::move(content));
  };
}

FileReader read_files_of(FileContents contents) {
  auto kept = std::make_shared<const FileContents>(std::move(contents));
  return [kept](const std::string& path) -> FileResult {
    auto content = find_in(*kept, path);
    if (content) *content = FileText(kept, content->get());
    return content;
  };
}

FileReader read_files_in(const FileContents& contents) {
  return [&contents](const std::string& path) { return find_in(contents, path); };
}

FileReader collect_files_from(std::string directory, FileContents& contents, u64 most) {
  return [from = std::make_shared<Directory>(std::move(directory), most),
          &contents](const std::string& path) -> FileResult {
    auto content = from->read(path);
    if (!content) return tl::unexpected(std::move(content.error()));
    contents[path] = *std::move(content);
    return FileText();
  };
}

tl::expected<std::string, std::string> read_policy_text(const std::string& path) {
  auto text = read_regular(path, kMaxTextBytes);
  if (!text && text.error().ends_with(kTooBig)) text.error() += "; put long lists into files of their own";
  return text;
}

}  // namespace xdpgpu::policy
