// SPDX-License-Identifier: MIT
//
// userspace/control/channel.hpp: what the unprivileged data plane and the privileged broker say to each
// other: fixed 256-byte messages on a SOCK_SEQPACKET pair, descriptors beside them. Each side treats the
// other's messages as untrusted: size, magic, type and every number are checked.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "userspace/control/result.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

enum class MessageType : u32 {
  // data plane → broker
  create_maps = 1,  // a: lines, b: rows; answered by maps_created or refused
  install_maps,  // a: slot (0, 1), and its xg_policy: the maps made last go into every port's slot; done or
                 // refused
  ready,         // traffic flows
  stopped,       // a: 1 if every frame came home, else 0; b: 1 if what decides is to stay for a later attach,
                 // else 0; sockets are closed; answered by gone
  watch_egress,  // a: 1 if user space is to be shown what the host sends, else 0; done or refused
  renamed,       // a: port, whose interface has another name; done, with the name as text, or refused
  activate,      // a: slot that was installed, b: its generation, and a u64, the policy's hash: packets go by
                 // it from now on; done or refused
  set_state,     // a: XG_STATE_RUNNING, BYPASS or DRAINING, b: 1 if also of ports that are bypassed, else 0;
                 // done or refused
  ending,        // it was told to detach and begins to; a: 1 if what decides is to stay, else 0; text: why;
                 // no answer
  keep_policy,   // a: bytes of the policy that a next data plane is to begin with; memory or refused
  policy_kept,   // a u64, its hash: it stands in the memory given last; done
  start_compiler,  // a: a CompilerFor; instead of the one that there may be for that; compiler or refused
  program_memory,  // a: bytes of a program that a policy names; memory or refused
  verify_program,  // it stands in the memory given last; done, or refused: what the kernel's verifier says
  open_log,        // text: one of the policy file's outputs (log_places.hpp); log or refused
  load_program,    // a: slot, by which no packet goes, b: number, text: pipeline; what stands in the memory
                   // given last (kernel_programs.hpp) is the slot's program of that number; done or refused
  make_program_maps,  // a: slot, by which no packet goes, b: number, text: "STAGE PIPELINE"; those of the
                      // maps
                      // of what stands in the memory given last that are kept in step with a device's; made,
                      // or refused
  program_map,        // a: slot, b: number << 8 | which of the maps made for that; map or refused
  retire_programs,    // a: slot, by which no packet goes: its programs are let go; done or refused
  set_bypass,  // a: 1 if every packet is to pass, else 0; b: seconds after which that ends, 0: never; done or
               // refused
  bypass_left,  // done, with a u64: milliseconds until the bypass ends by itself; 0: it does not
  // broker → data plane
  maps_created = 64,  // two descriptors
  done,
  refused,      // text says why
  stop,         // detach: drain and stop; a: 1 if what decides is to stay for a later attach, else 0
  gone,         // a: 1 if what decides was left, else 0: then programs, pins and veths are removed
  memory,       // one descriptor: so much memory as was asked for
  compiler,     // one descriptor: what orders are sent through (userspace/compiler/compiler.hpp)
  made,         // a: so many maps, b: 1 if they are the other slot's, with what is in them, else 0
  map,          // one descriptor, by which it can be written; a: its number among the program's maps
  log,          // one descriptor: where that output's lines are written
  reopen_logs,  // by itself, as `stop` is: the logs' files are to be opened anew
};

// What a compiler is for. One that has read a policy, which may be somebody else's, makes nothing that a
// device jumps into.
enum class CompilerFor : u32 { policies, programs };

// Bounds on what the data plane may ask for.
inline constexpr u32 kMaxLines = 1u << 23;         // 512 MiB
inline constexpr u32 kMaxRows = 1u << 17;          // 64 MiB
inline constexpr u32 kMaxKeptBytes = 1100u << 20;  // beyond what a request with all its files may have
inline constexpr u32 kMaxProgramBytes = 64u << 20;
inline constexpr u32 kMostBypassSeconds = 7 * 24 * 3600;
inline constexpr u32 kMaxMapOrders = 256;  // programs on devices whose maps the kernel has, too

struct Message {
  u32 magic = 0x78677067u;
  MessageType type = MessageType::done;
  u32 a = 0;
  u32 b = 0;
  char text[496] = {};  // NUL-terminated

  static Message make(MessageType type, u32 a = 0, u32 b = 0, const std::string& text = {});

  // A record in the text's place.
  template <class T>
  static Message with(MessageType type, u32 a, u32 b, const T& record) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) < sizeof(text));
    Message message = make(type, a, b);
    std::memcpy(message.text, &record, sizeof(record));
    return message;
  }
  template <class T>
  T record() const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) < sizeof(text));
    T record;
    std::memcpy(&record, text, sizeof(record));
    return record;
  }
};
static_assert(sizeof(Message) == 512);

struct Received {
  Message message;
  std::vector<kernel::Fd> descriptors;
};

// Whether a message's fields are within bounds for its type.
bool valid(const Message& message, std::size_t descriptors);

class Channel {
 public:
  Channel() = default;
  explicit Channel(kernel::Fd fd) : fd_(std::move(fd)) {}
  // Before anybody else has it.
  Channel(Channel&& other) noexcept
      : fd_(std::move(other.fd_)),
        takes_descriptors_(other.takes_descriptors_),
        stop_pending_(other.stop_pending_.load()),
        reopen_pending_(other.reopen_pending_.load()),
        closed_(other.closed_.load()) {}
  Channel& operator=(Channel&& other) noexcept {
    fd_ = std::move(other.fd_);
    takes_descriptors_ = other.takes_descriptors_;
    stop_pending_ = other.stop_pending_.load();
    reopen_pending_ = other.reopen_pending_.load();
    closed_ = other.closed_.load();
    return *this;
  }
  static Result<std::pair<Channel, Channel>> make_pair();

  int fd() const noexcept { return fd_.get(); }
  // No descriptor can be sent here from now on: the sender gets an error. On kernels that know of it (Linux
  // 6.16); before, the kernel drops those that come, none becomes this process's, and the message is invalid.
  void refuse_descriptors() noexcept;
  // Never waits: an error where the other side leaves so much unread that there is no room.
  Result<void> send(const Message& message, const std::vector<int>& descriptors = {});
  // Waits for one message; the error "the other side is gone" when it closed its end.
  Result<Received> receive(std::chrono::milliseconds timeout);
  // Sends and waits for an answer. A `stop` that comes in between is kept for take_pending_stop(), and a
  // `reopen_logs` for the other one.
  Result<Received> call(const Message& message, std::chrono::milliseconds timeout);
  // Any thread.
  // Nothing: none has come. Else whether what decides is to stay, by all that have come.
  std::optional<bool> take_pending_stop() noexcept {
    const Stop stop = stop_pending_.exchange(Stop::none);
    return stop == Stop::none ? std::nullopt : std::optional(stop == Stop::keep);
  }
  bool take_pending_reopen() noexcept { return reopen_pending_.exchange(false); }
  // Whether send() or receive() has found that the other side closed its end. Any thread.
  bool closed() const noexcept { return closed_; }

 private:
  kernel::Fd fd_;
  bool takes_descriptors_ = true;
  enum class Stop { none, keep, undo };
  std::atomic<Stop> stop_pending_ = Stop::none;
  std::atomic<bool> reopen_pending_ = false;
  std::atomic<bool> closed_ = false;
};

}  // namespace xdpgpu::control
