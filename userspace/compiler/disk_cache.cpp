// SPDX-License-Identifier: MIT
#include "userspace/compiler/disk_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "userspace/compiler/inputs.hpp"

namespace xdpgpu::compiler {
namespace {

// In front of a file's content.
struct Head {
  std::array<char, 16> magic;
  ArtifactId id;
  ArtifactId content;
};
static_assert(sizeof(Head) == 80);
constexpr std::array<char, 16> kMagic{'x', 'd', 'p', 'g', 'p', 'u', ' ',  'c',
                                      'a', 'c', 'h', 'e', ' ', '1', '\n', '\0'};

ArtifactId hash_of(std::span<const std::byte> content) {
  InputHash hash("content");
  hash.add(std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
  return hash.id();
}

std::string name_of(const ArtifactId& id) { return fmt::format("{:02x}", fmt::join(id, "")); }

// The process's user's, and nobody else can write to it.
bool is_own(const struct stat& info) {
  return info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool read_all(int fd, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = read(fd, to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool write_all(int fd, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t put = write(fd, from.data(), from.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from = from.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

template <class Act>
void for_each_name(int folder, const Act& act) {
  const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(fdopendir(again), closedir);
  if (all == nullptr) return (void)close(again);
  while (const dirent* const entry = readdir(all.get())) act(std::string(&entry->d_name[0]));
}

}  // namespace

tl::expected<DiskCache, std::string> DiskCache::open(const std::string& folder, u64 most) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return tl::unexpected(fmt::format("{} cannot be made: {}", folder, std::strerror(errno)));
  kernel::Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!fd || fstat(fd.get(), &info) != 0)
    return tl::unexpected(fmt::format("{} cannot be opened: {}", folder, std::strerror(errno)));
  if (!is_own(info))
    return tl::unexpected(
        fmt::format("{} is user {}'s, with mode {:o}: nothing is kept where somebody else can write; remove "
                    "it, or make it "
                    "this user's alone (chmod 700)",
                    folder, info.st_uid, info.st_mode & 07777));
  return DiskCache(folder, std::move(fd), most);
}

std::vector<ArtifactId> DiskCache::ids() const {
  std::vector<ArtifactId> all;
  for_each_name(folder_.get(), [&](const std::string& name) {
    ArtifactId id{};
    std::size_t length = 0;
    if (name.size() == 2 * id.size() &&
        sodium_hex2bin(id.data(), id.size(), name.data(), name.size(), nullptr, &length, nullptr) == 0 &&
        length == id.size() && name == name_of(id))
      all.push_back(id);
  });
  return all;
}

std::optional<std::vector<std::byte>> DiskCache::find(const ArtifactId& id, Use use) const {
  const kernel::Fd file(
      openat(folder_.get(), name_of(id).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || !is_own(info) || info.st_nlink != 1)
    return {};
  const auto bytes = static_cast<u64>(info.st_size);
  Head head{};
  if (bytes < sizeof(head) || bytes > most_ ||
      !read_all(file.get(), std::as_writable_bytes(std::span(&head, 1))))
    return {};
  std::vector<std::byte> content(bytes - sizeof(head));
  if (head.magic != kMagic || head.id != id || !read_all(file.get(), content) ||
      head.content != hash_of(content))
    return {};
  if (use == Use::now) (void)futimens(file.get(), nullptr);
  return content;
}

tl::expected<void, std::string> DiskCache::keep(const ArtifactId& id,
                                                std::span<const std::byte> content) const {
  const u64 bytes = sizeof(Head) + content.size();
  if (bytes > most_) return tl::unexpected(fmt::format("{} bytes are more than {} holds", bytes, name_));
  make_room(bytes);
  const Head head{kMagic, id, hash_of(content)};
  // Two that write at once write the same.
  const std::string name = name_of(id), part = fmt::format("{}.{}", name, getpid());
  (void)unlinkat(folder_.get(), part.c_str(), 0);
  const kernel::Fd file(
      openat(folder_.get(), part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file && write_all(file.get(), std::as_bytes(std::span(&head, 1))) && write_all(file.get(), content) &&
      fsync(file.get()) == 0 && renameat(folder_.get(), part.c_str(), folder_.get(), name.c_str()) == 0)
    return {};
  const int error = errno;
  (void)unlinkat(folder_.get(), part.c_str(), 0);
  return tl::unexpected(fmt::format("nothing can be kept in {}: {}", name_, std::strerror(error)));
}

// What a writer left that ended meanwhile goes like any other.
void DiskCache::make_room(u64 bytes) const {
  struct File {
    timespec used;
    u64 bytes;
    std::string name;
  };
  std::vector<File> files;
  u64 sum = bytes;
  for_each_name(folder_.get(), [&](const std::string& name) {
    struct stat info {};
    if (fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(info.st_mode))
      return;
    files.push_back({info.st_mtim, static_cast<u64>(info.st_size), name});
    sum += files.back().bytes;
  });
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const File& file : files) {
    if (sum <= most_) return;
    if (unlinkat(folder_.get(), file.name.c_str(), 0) == 0) sum -= file.bytes;
  }
}

}  // namespace xdpgpu::compiler
