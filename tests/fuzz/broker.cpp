// SPDX-License-Identifier: MIT
//
// Any messages on the channel to the broker, as a data plane that has been taken over may send them: of any
// length, with any descriptors beside them. What the broker is told to do is in its order and within its
// bounds, each request has one answer, and no descriptor stays.
//
// An input is a row of messages, each behind two bytes: the lower four bits of the first are how many
// descriptors come along, its upper four how many more bytes than a message has it is long, or (from 8 on)
// how many fewer; the second, if it is not 0, is how the message begins: rightly, with that type.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "tests/fuzz/target.hpp"
#include "userspace/control/requests.hpp"

namespace xdpgpu::fuzz {
namespace {

using control::Message;
using control::MessageType;
using control::Requests;

constexpr std::size_t kMostMessages = 64;
constexpr std::size_t kHead = 2;

// The lowest number that is free.
int next_descriptor() {
  const kernel::Fd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fd.get();
}

// What may be asked for now, as the broker has heard it.
class Model {
 public:
  explicit Model(Input input) : input_(input) {}

  Requests::Duties duties() {
    return {
        .create_maps = [this](u32 lines, u32 rows) -> control::Result<kernel::PolicyMaps> {
          check(lines >= 1 && lines <= control::kMaxLines && rows >= 1 && rows <= control::kMaxRows,
                "maps beyond their bounds");
          made_ = (lines & 1) != 0;
          if (!made_) return control::Error(std::string("no memory"));
          return kernel::PolicyMaps{kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)),
                                    kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC))};
        },
        .install_maps = [this](u32 slot, const kernel::PolicyMaps& maps,
                               const xg_policy& header) -> control::Result<void> {
          check(slot <= 1 && made_ && maps.lines && maps.rows, "maps installed that were not made");
          made_ = false;
          installed_.reset();
          if (header.generation == 0) return control::Error(std::string("no such generation"));
          installed_ = slot;
          return {};
        },
        .activate = [this](u32 slot, u32 generation, u64) -> control::Result<void> {
          check(installed_ == slot && generation != 0, "a policy in force that was not installed");
          installed_.reset();
          return {};
        },
        .set_state = [this](u32 state, bool) -> control::Result<void> {
          check(state == XG_STATE_RUNNING || state == XG_STATE_BYPASS || state == XG_STATE_DRAINING,
                "a state that nobody asks for");
          return {};
        },
        .set_bypass = [this](bool on, std::chrono::seconds ends_after) -> control::Result<void> {
          check(ends_after.count() >= 0 && ends_after.count() <= control::kMostBypassSeconds &&
                    (on || ends_after.count() == 0),
                "a bypass for longer than there is");
          return {};
        },
        .bypass_left =
            [this] {
              check(true, "");
              return std::chrono::milliseconds(5);
            },
        .watch_egress = [this](bool) -> control::Result<void> {
          check(true, "");
          return {};
        },
        .rename = [this](u32 port) -> control::Result<std::string> {
          check(port < XG_MAX_PORTS, "a port that cannot be");
          return std::string("eth9");
        },
        .keep_policy = [this](u32 bytes) -> control::Result<kernel::Fd> {
          check(bytes >= 1 && bytes <= control::kMaxKeptBytes, "memory beyond its bounds");
          memory_ = (bytes & 1) != 0;
          if (!memory_) return control::Error(std::string("no memory"));
          return kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
        },
        .policy_kept =
            [this](const kernel::Fd& memory, u64 /*hash*/) {
              check(static_cast<bool>(memory), "a policy kept in memory that was not given");
            },
        .program_memory = [this](u32 bytes) -> control::Result<kernel::Fd> {
          check(bytes >= 1 && bytes <= control::kMaxProgramBytes, "memory for a program of so many bytes");
          program_memory_ = (bytes & 1) != 0;
          if (!program_memory_) return control::Error(std::string("no memory"));
          return kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
        },
        .verify_program = [this](const kernel::Fd& memory) -> control::Result<void> {
          check(program_memory_ && memory, "a program verified in memory that was not given");
          program_memory_ = false;
          return {};
        },
        .load_program = [this](u32 slot, u32 number, const std::string& pipeline,
                               const kernel::Fd& memory) -> control::Result<void> {
          check(program_memory_ && memory, "a program loaded from memory that was not given");
          check(slot <= 1 && number < XG_MAX_PROGRAMS, "a program for a place that there is not");
          check(pipeline.size() < sizeof(control::Message::text), "a pipeline's name that does not end");
          program_memory_ = false;
          return {};
        },
        .make_program_maps = [this](u32 slot, u32 number, const std::string& place, const kernel::Fd& memory)
            -> control::Result<control::KernelPrograms::Made> {
          check(program_memory_ && memory, "maps made for memory that was not given");
          check(slot <= 1 && number < control::kMaxMapOrders, "maps for a place that there is not");
          check(place.size() < sizeof(control::Message::text), "a place that does not end");
          program_memory_ = false;
          return control::KernelPrograms::Made{number, (number & 1) != 0};
        },
        .program_map = [this](u32 slot, u32 number,
                              u32 which) -> control::Result<control::Requests::Duties::ProgramMap> {
          check(slot <= 1 && number < control::kMaxMapOrders && which <= 0xff,
                "a map of a place that there is not");
          if ((which & 1) != 0) return control::Error(std::string("no such map"));
          return control::Requests::Duties::ProgramMap{kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)),
                                                       which};
        },
        .retire_programs = [this](u32 slot) -> control::Result<void> {
          check(slot <= 1, "programs of a slot that there is not");
          return {};
        },
        .start_compiler = [this](control::CompilerFor what) -> control::Result<kernel::Fd> {
          check(what == control::CompilerFor::policies || what == control::CompilerFor::programs,
                "a compiler for something else");
          return kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
        },
        .open_log = [this](const std::string& place) -> control::Result<kernel::Fd> {
          check(place.size() < sizeof(control::Message::text), "a place that does not end");
          return kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
        },
        .ready =
            [this] {
              check(!ready_, "ready twice");
              ready_ = true;
            },
        .ending = [this](bool,
                         const std::string&) { check(ready_, "an end announced before the beginning"); },
        .undo =
            [this](bool keep) {
              check(ready_, "the end before the beginning");
              undone_ = true;
              return keep;
            }};
  }

 private:
  void check(bool right, const char* what) const {
    if (undone_) fail(input_, "something is done after the end");
    if (!right) fail(input_, what);
  }
  Input input_;
  bool made_ = false, memory_ = false, program_memory_ = false, ready_ = false, undone_ = false;
  std::optional<u32> installed_;
};

void say(int to, Input bytes, std::size_t descriptors) {
  static const kernel::Fd given(open("/dev/null", O_RDONLY | O_CLOEXEC));
  iovec data{const_cast<u8*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(16 * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (descriptors > 0) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    for (std::size_t i = 0; i < descriptors; i++) {
      const int fd = given.get();
      std::memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
    }
  }
  (void)!sendmsg(to, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// One answer to what was answered, of a kind that the broker gives.
void hear(Input input, control::Channel& data_plane, bool expected) {
  const auto answer = data_plane.receive(std::chrono::milliseconds(0));
  if (answer.has_value() != expected)
    fail(input, expected ? "a request without an answer" : "an answer to nothing");
  if (answer && answer->message.type < MessageType::maps_created) fail(input, "an answer that is a request");
}

void converse(Input input) {
  auto pair = control::Channel::make_pair();
  if (!pair) fail(input, pair.error());
  auto& [data_plane, broker] = *pair;
  Model model(input);
  Requests requests(model.duties());
  Input rest = input;
  for (std::size_t messages = 0; messages < kMostMessages && rest.size() > kHead; ++messages) {
    const u8 shape = rest[0], type = rest[1];
    rest = rest.subspan(kHead);
    std::size_t length = sizeof(Message);
    if (const std::size_t odd = shape >> 4; odd >= 8)
      length -= std::min<std::size_t>(length - 1, (odd - 7) * 20);
    else
      length += odd;
    Bytes bytes(length);
    const std::size_t there = std::min(length, rest.size());
    std::copy_n(rest.begin(), there, bytes.begin());
    rest = rest.subspan(there);
    if (type != 0 && length >= sizeof(Message)) {
      const Message right = Message::make(static_cast<MessageType>(type));
      std::memcpy(bytes.data(), &right, offsetof(Message, a));
      bytes[sizeof(Message) - 1] = 0;
    }
    say(data_plane.fd(), bytes, shape & 15u);
    const auto served = requests.serve(broker);
    if (!served) {  // it is killed
      if (served.error().empty()) fail(input, "a fault without a reason");
      return;
    }
    const bool unanswered = length == sizeof(Message) && (bytes[4] == static_cast<u8>(MessageType::ready) ||
                                                          bytes[4] == static_cast<u8>(MessageType::ending));
    hear(input, data_plane, !unanswered);
  }
  data_plane = control::Channel();
  const auto gone = requests.serve(broker);
  if (!gone || *gone != Requests::Served::gone) fail(input, "it does not see that the data plane is gone");
}

}  // namespace

std::vector<Bytes> seeds() {
  using Asked = std::vector<std::pair<u8, std::vector<u32>>>;  // type, a and b
  std::vector<Bytes> all;
  const auto add = [&](const Asked& asked, u8 shape = 0) {
    Bytes bytes;
    for (const auto& [type, numbers] : asked) {
      Message message = Message::make(static_cast<MessageType>(type));
      if (!numbers.empty()) message.a = numbers[0];
      if (numbers.size() > 1) message.b = numbers[1];
      message.text[0] = 1;  // of a policy the generation
      bytes.insert(bytes.end(), {shape, type});
      const auto* raw = reinterpret_cast<const u8*>(&message);
      bytes.insert(bytes.end(), raw, raw + sizeof(message));
    }
    all.push_back(std::move(bytes));
  };
  add({{1, {5, 3}}, {2, {1}}, {7, {1, 1}}, {8, {1, 0}}, {3, {}}, {5, {1}}, {6, {2}}, {4, {1, 1}}});
  add({{1, {4, 3}}, {1, {5, 3}}, {1, {7, 3}}, {2, {0}}, {7, {0, 9}}, {8, {2, 1}}, {3, {}}, {4, {0, 0}}});
  add({{3, {}}, {10, {7}}, {11, {}}, {10, {8}}, {9, {1}}, {4, {1, 1}}});
  for (u8 type = 0; type < 80; type++) add({{type, {1, 1}}});
  for (const u8 shape : std::to_array<u8>({0x01, 0x02, 0x0f, 0x10, 0x80, 0xf3}))
    add({{1, {5, 3}}, {3, {}}}, shape);
  return all;
}

}  // namespace xdpgpu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
  using namespace xdpgpu::fuzz;
  const Input input(data, size);
  converse({});  // what is opened once
  const int before = next_descriptor();
  converse(input);
  if (next_descriptor() != before) fail(input, "a descriptor stays open");
  return 0;
}
