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

// A pattern: its folder, with a slash at the end or empty, and what names in there are like.
struct Pattern {
  explicit Pattern(const std::string& path)
      : folder(path.substr(0, path.rfind('/') + 1)), like(path.substr(folder.size())) {}
  bool matches(const std::string& name) const { return fnmatch(like.c_str(), name.c_str(), FNM_PERIOD) == 0; }
  const std::string folder, like;
};

// Of those that are like it.
FileReader::Names listed(const Pattern& pattern, std::vector<std::string> names, const std::string& where) {
  if (names.empty()) return tl::unexpected(fmt::format("no file is like {}{}", pattern.like, where));
  if (names.size() > kMaxPatternFiles)
    return tl::unexpected(fmt::format("more than {} files are like {}: name fewer", kMaxPatternFiles,
                                      pattern.folder + pattern.like));
  std::sort(names.begin(), names.end());
  return names;
}

FileReader::Names list_files(const std::string& from, const std::string& path) {
  const Pattern pattern(path);
  const std::string folder = (std::filesystem::path(from) / pattern.folder).string();
  const std::unique_ptr<DIR, Closer> directory(opendir(folder.empty() ? "." : folder.c_str()));
  if (!directory) return tl::unexpected(fmt::format("cannot open {}: {}", folder, std::strerror(errno)));
  std::vector<std::string> names;
  while (const dirent* const entry = readdir(directory.get())) {
    const std::string name = &entry->d_name[0];
    if (pattern.matches(name)) names.push_back(pattern.folder + name);
    if (names.size() > kMaxPatternFiles) break;
  }
  return listed(pattern, std::move(names), " in " + folder);
}

// Of those that are there.
FileReader::Names list_in(const FileContents& contents, const std::string& path) {
  const Pattern pattern(path);
  std::vector<std::string> names;
  for (auto at = contents.lower_bound(pattern.folder);
       at != contents.end() && at->first.starts_with(pattern.folder) && names.size() <= kMaxPatternFiles;
       ++at) {
    const std::string name = at->first.substr(pattern.folder.size());
    if (name.find('\0') != std::string::npos) continue;  // a program
    if (name.find('/') == std::string::npos && pattern.matches(name)) names.push_back(at->first);
  }
  return listed(pattern, std::move(names), " among those that came with the policy");
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
  FileReader::Names list(const std::string& pattern) const { return list_files(path_, pattern); }
  tl::expected<std::string, std::string> program(const std::string& name, const programs::Choice& which,
                                                 const ObjectReader& read_object) {
    if (!read_object) return tl::unexpected(fmt::format("{}: no object is read here", name));
    auto object = read(name);
    if (!object) return object;
    return read_object(*object, which).map_error([&](const std::string& why) {
      return fmt::format("{}: {}", name, why);
    });
  }

 private:
  std::string path_;
  u64 most_, left_;
};

// Not owned by what it gives.
FileReader::Text find_in(const FileContents& contents, const std::string& path) {
  const auto at = contents.find(path);
  if (at == contents.end())
    return tl::unexpected(fmt::format("the file {} did not come with the policy", path));
  return FileText(FileText(), &at->second);
}
FileReader::Text find_program_in(const FileContents& contents, const std::string& path,
                                 const programs::Choice& which) {
  const auto at = contents.find(program_key(path, which));
  if (at == contents.end())
    return tl::unexpected(fmt::format("the object {} did not come with the policy", path));
  return FileText(FileText(), &at->second);
}

}  // namespace

std::string too_much_with(const std::string& path, u64 most) {
  return fmt::format(
      "with {}, the files that the policy names have more than {} MiB together, the most that is read", path,
      most >> 20);
}

std::string program_key(const std::string& path, const programs::Choice& which) {
  std::string key = path + '\0' + which.name;
  for (const programs::NamedSlot& slot : which.slots)
    key += fmt::format("{}{}{}{}{}{}", '\0', slot.map, '\0', slot.slot, '\0', slot.to);
  return key;
}

FileReader read_files_from(std::string directory, ObjectReader read_object) {
  const auto from = std::make_shared<Directory>(std::move(directory), kMaxFilesBytes);
  const auto text_of = [](tl::expected<std::string, std::string> content) -> FileReader::Text {
    if (!content) return tl::unexpected(std::move(content.error()));
    return std::make_shared<const std::string>(*std::move(content));
  };
  return {[from, text_of](const std::string& path) { return text_of(from->read(path)); },
          [from](const std::string& pattern) { return from->list(pattern); },
          [from, text_of, read_object = std::move(read_object)](const std::string& path,
                                                                const programs::Choice& which) {
            return text_of(from->program(path, which, read_object));
          }};
}

FileReader read_files_of(FileContents contents) {
  const auto kept = std::make_shared<const FileContents>(std::move(contents));
  const auto shared = [kept](FileReader::Text content) {
    if (content) *content = FileText(kept, content->get());
    return content;
  };
  return {[kept, shared](const std::string& path) { return shared(find_in(*kept, path)); },
          [kept](const std::string& pattern) { return list_in(*kept, pattern); },
          [kept, shared](const std::string& path, const programs::Choice& which) {
            return shared(find_program_in(*kept, path, which));
          }};
}

FileReader read_files_in(const FileContents& contents) {
  return {[&contents](const std::string& path) { return find_in(contents, path); },
          [&contents](const std::string& pattern) { return list_in(contents, pattern); },
          [&contents](const std::string& path, const programs::Choice& which) {
            return find_program_in(contents, path, which);
          }};
}

FileReader collect_files_from(std::string directory, FileContents& contents, u64 most,
                              ObjectReader read_object) {
  const auto from = std::make_shared<Directory>(std::move(directory), most);
  const auto keep = [&contents](const std::string& key,
                                tl::expected<std::string, std::string> content) -> FileReader::Text {
    if (!content) return tl::unexpected(std::move(content.error()));
    contents[key] = *std::move(content);
    return FileText();
  };
  return {[from, keep](const std::string& path) { return keep(path, from->read(path)); },
          [from](const std::string& pattern) { return from->list(pattern); },
          [from, keep, read_object = std::move(read_object)](const std::string& path,
                                                             const programs::Choice& which) {
            return keep(program_key(path, which), from->program(path, which, read_object));
          }};
}

tl::expected<std::string, std::string> read_policy_text(const std::string& path) {
  auto text = read_regular(path, kMaxTextBytes);
  if (!text && text.error().ends_with(kTooBig)) text.error() += "; put long lists into files of their own";
  return text;
}

}  // namespace xdpgpu::policy
