// SPDX-License-Identifier: MIT
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

constexpr const char* kTooBig = ", the most that is read";

// list_of_files()
bool is_list(std::string_view path) { return path.ends_with('/'); }

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

struct Closer {
  void operator()(DIR* directory) const { closedir(directory); }
};

// The names of the files in a directory that are like the last part of the pattern, a line each.
tl::expected<std::string, std::string> list_files(const std::string& from, const std::string& pattern) {
  const auto slash = pattern.rfind('/');
  const std::string in = slash == std::string::npos ? "" : pattern.substr(0, slash + 1);
  const std::string like = pattern.substr(in.size());
  const std::string path = (std::filesystem::path(from) / in).string();
  const std::unique_ptr<DIR, Closer> directory(opendir(path.empty() ? "." : path.c_str()));
  if (!directory) return tl::unexpected(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  std::vector<std::string> names;
  while (const dirent* const entry = readdir(directory.get())) {
    const std::string name = &entry->d_name[0];
    if (fnmatch(like.c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
    if (name.find('\n') != std::string::npos)
      return tl::unexpected(
          fmt::format("{} has a file like {} whose name has more than one line", path, like));
    if (names.size() == kMaxPatternFiles)
      return tl::unexpected(
          fmt::format("more than {} files are like {}: name fewer", kMaxPatternFiles, pattern));
    names.push_back(in + name);
  }
  if (names.empty()) return tl::unexpected(fmt::format("no file is like {} in {}", like, path));
  std::sort(names.begin(), names.end());
  return fmt::format("{}\n", fmt::join(names, "\n"));
}

// The files below a directory, as far as they are not too much together.
class Directory {
 public:
  Directory(std::string path, u64 most) : path_(std::move(path)), most_(most), left_(most) {}
  tl::expected<std::string, std::string> read(const std::string& name) {
    if (name.find('\0') != std::string::npos)
      return tl::unexpected(std::string("the path contains a zero byte"));
    if (is_list(name)) return list_files(path_, name.substr(0, name.size() - 1));
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

std::string list_of_files(const std::string& pattern) { return pattern + "/"; }

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
    std::string& kept = contents[path] = *std::move(content);
    return is_list(path) ? std::make_shared<const std::string>(kept) : FileText();
  };
}

tl::expected<std::string, std::string> read_policy_text(const std::string& path) {
  auto text = read_regular(path, kMaxTextBytes);
  if (!text && text.error().ends_with(kTooBig)) text.error() += "; put long lists into files of their own";
  return text;
}

}  // namespace xdpgpu::policy
