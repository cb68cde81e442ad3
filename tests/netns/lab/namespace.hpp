// SPDX-License-Identifier: MIT
//
// tests/netns/lab/namespace.hpp: a network namespace held by its descriptor. Nothing is mounted, so
// bpffs and /run stay the ones of the test.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

namespace xdpgpu::lab {

// What could not be built, on what, why: one sentence.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Empty if namespaces, veth pairs and packet sockets can be had here; else the one reason.
std::string why_unavailable();
// Whether this host's Linux is of that version or a later one.
bool kernel_at_least(unsigned major, unsigned minor);

// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd();
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A fresh network namespace; gone once this object, and every process and socket in it, is gone. Its
// loopback is up, and IPv6 duplicate address detection and router solicitation are off, so that an
// idle wire is silent; and answers to addresses that nobody has do not pile up.
class Namespace {
 public:
  // `name` is for messages only. Throws Error.
  explicit Namespace(std::string name);
  // The one that the calling thread is in.
  static Namespace current();
  Namespace(Namespace&&) noexcept = default;
  Namespace& operator=(Namespace&&) noexcept = default;

  const std::string& name() const noexcept { return name_; }
  int fd() const noexcept { return fd_.get(); }
  // The number of the nsfs inode: what readlink(/proc/PID/ns/net) shows.
  unsigned long inode() const noexcept { return inode_; }
  // What no other namespace has or will have while this host runs (SO_NETNS_COOKIE).
  unsigned long long cookie() const noexcept { return cookie_; }

  // Moves the calling thread in. For threads of one's own; the main thread stays out by run().
  void enter() const;

  // Calls `f` on a thread inside, waits for it, returns its result; exceptions come through. Sockets
  // and netlink handles made inside stay there and may be used from any thread.
  template <class F>
  auto run(F&& f) const {
    using R = std::invoke_result_t<F>;
    std::exception_ptr failure;
    if constexpr (std::is_void_v<R>) {
      std::thread([&] {
        try {
          enter();
          f();
        } catch (...) {
          failure = std::current_exception();
        }
      }).join();
      if (failure) std::rethrow_exception(failure);
    } else {
      std::optional<R> result;
      std::thread([&] {
        try {
          enter();
          result.emplace(f());
        } catch (...) {
          failure = std::current_exception();
        }
      }).join();
      if (failure) std::rethrow_exception(failure);
      return std::move(*result);
    }
  }

  // /proc/sys/net/<key>, e.g. "ipv4/conf/all/forwarding". Throws Error.
  void sysctl(const std::string& key, const std::string& value) const;

 private:
  Namespace() = default;
  std::string hold();

  std::string name_;
  Fd fd_;
  unsigned long inode_ = 0;
  unsigned long long cookie_ = 0;
};

}  // namespace xdpgpu::lab
