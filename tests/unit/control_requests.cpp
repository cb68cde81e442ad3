// SPDX-License-Identifier: MIT
//
// The broker's end of the channel, with a data plane that has been taken over.
#include "userspace/control/requests.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>

namespace xdpgpu::control {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator{});
}

class ControlRequests : public ::testing::Test {
 protected:
  ControlRequests() : ControlRequests(Channel::make_pair().value()) {}

  void ask(MessageType type, u32 a = 0, u32 b = 0) {
    ASSERT_TRUE(data_plane_.send(Message::make(type, a, b)));
  }
  void say_raw(const void* data, std::size_t size) {
    ASSERT_EQ(send(data_plane_.fd(), data, size, 0), static_cast<ssize_t>(size));
  }
  Result<Requests::Served> serve() { return requests_.serve(broker_); }
  MessageType answer() {
    const auto received = data_plane_.receive(0ms);
    return received ? received->message.type : MessageType{};
  }
  // What is wrong with what was said last; nothing was done about it.
  std::string wrong() {
    const std::string before = done_;
    const auto served = serve();
    EXPECT_EQ(done_, before);
    EXPECT_EQ(answer(), MessageType{}) << "it was answered";
    return served ? "nothing" : served.error();
  }

  Channel data_plane_, broker_;
  std::string done_;  // what the broker did, in order
  bool refuses_ = false;
  Requests requests_;

 private:
  Result<void> act(const std::string& what) {
    done_ += what;
    return refuses_ ? Result<void>(Error(std::string("no memory"))) : Result<void>();
  }
  // Descriptors of files stand for the maps, which only root can make.
  explicit ControlRequests(std::pair<Channel, Channel> pair)
      : data_plane_(std::move(pair.first)),
        broker_(std::move(pair.second)),
        requests_(
            {.create_maps = [this](u32 lines, u32 rows) -> Result<kernel::PolicyMaps> {
               if (auto made = act("create " + std::to_string(lines) + " " + std::to_string(rows) + "; ");
                   !made)
                 return Error(made.error());
               return kernel::PolicyMaps{kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)),
                                         kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC))};
             },
             .install_maps =
                 [this](u32 slot, const kernel::PolicyMaps&, const xg_policy& header) {
                   return act("install " + std::to_string(slot) + " of generation " +
                              std::to_string(header.generation) + "; ");
                 },
             .activate =
                 [this](u32 slot, u32 generation, u64 hash) {
                   return act("activate " + std::to_string(slot) + " " + std::to_string(generation) + " " +
                              std::to_string(hash) + "; ");
                 },
             .set_state =
                 [this](u32 state, bool bypassed_too) {
                   return act("state " + std::to_string(state) + (bypassed_too ? " of all; " : "; "));
                 },
             .set_bypass =
                 [this](bool on, std::chrono::seconds ends_after) {
                   return act(on ? "bypass for " + std::to_string(ends_after.count()) + "; " : "no bypass; ");
                 },
             .bypass_left = [] { return 1500ms; },
             .watch_egress = [this](bool on) { return act(on ? "watch; " : "watch no more; "); },
             .rename = [this](u32 port) -> Result<std::string> {
               if (auto renamed = act("rename " + std::to_string(port) + "; "); !renamed)
                 return Error(renamed.error());
               return std::string("eth9");
             },
             .keep_policy = [this](u32 bytes) -> Result<kernel::Fd> {
               if (auto made = act("memory " + std::to_string(bytes) + "; "); !made)
                 return Error(made.error());
               return kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
             },
             .policy_kept = [this](const kernel::Fd& memory,
                                   u64 /*hash*/) { done_ += memory ? "kept; " : "nothing kept; "; },
             .program_memory = [this](u32 bytes) -> Result<kernel::Fd> {
               if (auto made = act("program of " + std::to_string(bytes) + "; "); !made)
                 return Error(made.error());
               return kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
             },
             .verify_program =
                 [this](const kernel::Fd& memory) { return act(memory ? "verify; " : "verify nothing; "); },
             .load_program =
                 [this](u32 slot, u32 number, const std::string& pipeline, const kernel::Fd& memory) {
                   return act("load " + std::to_string(slot) + " " + std::to_string(number) + " " + pipeline +
                              (memory ? "; " : " of nothing; "));
                 },
             .make_program_maps = [this](u32 slot, u32 number, const std::string& place,
                                         const kernel::Fd& memory) -> Result<KernelPrograms::Made> {
               if (auto made = act("maps " + std::to_string(slot) + " " + std::to_string(number) + " " +
                                   place + (memory ? "; " : " of nothing; "));
                   !made)
                 return Error(made.error());
               return KernelPrograms::Made{3, true};
             },
             .program_map = [this](u32 slot, u32 number, u32 which) -> Result<Requests::Duties::ProgramMap> {
               if (auto made = act("map " + std::to_string(slot) + " " + std::to_string(number) + " " +
                                   std::to_string(which) + "; ");
                   !made)
                 return Error(made.error());
               return Requests::Duties::ProgramMap{kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)), 7};
             },
             .retire_programs = [this](u32 slot) { return act("retire " + std::to_string(slot) + "; "); },
             .start_compiler = [this](CompilerFor what) -> Result<kernel::Fd> {
               if (auto started =
                       act(what == CompilerFor::programs ? "compiler of programs; " : "compiler; ");
                   !started)
                 return Error(started.error());
               return kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
             },
             .open_log = [this](const std::string& place) -> Result<kernel::Fd> {
               if (auto opened = act("log " + place + "; "); !opened) return Error(opened.error());
               return kernel::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
             },
             .ready = [this] { done_ += "ready; "; },
             .ending = [this](bool keep,
                              const std::string&) { done_ += keep ? "will leave; " : "will undo; "; },
             .undo =
                 [this](bool keep) {
                   done_ += keep ? "leave; " : "undo; ";
                   return keep;
                 }}) {}
};

TEST_F(ControlRequests, AreDoneInTheirOrder) {
  ask(MessageType::create_maps, 4, 2);
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto made = data_plane_.receive(0ms);
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->message.type, MessageType::maps_created);
  EXPECT_EQ(made->descriptors.size(), 2u);
  xg_policy header{};
  header.generation = 7;
  ASSERT_TRUE(data_plane_.send(Message::with(MessageType::install_maps, 1, 0, header)));
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::done);
  ASSERT_TRUE(data_plane_.send(Message::with(MessageType::activate, 1, 7, u64{99})));
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::done);
  ask(MessageType::set_state, XG_STATE_BYPASS, 1);
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::done);
  ask(MessageType::ready);
  EXPECT_EQ(serve(), Requests::Served::answered);
  ask(MessageType::set_bypass, 1, 300);
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::done);
  ask(MessageType::bypass_left);
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto left = data_plane_.receive(0ms);
  ASSERT_TRUE(left) << left.error();
  EXPECT_EQ(left->message.record<u64>(), 1500u);
  ask(MessageType::watch_egress, 1);
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::done);
  ask(MessageType::renamed, 1);
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto renamed = data_plane_.receive(0ms);
  ASSERT_TRUE(renamed) << renamed.error();
  EXPECT_EQ(renamed->message.type, MessageType::done);
  EXPECT_STREQ(renamed->message.text, "eth9");
  ask(MessageType::stopped, 1);
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::gone);
  EXPECT_TRUE(requests_.undone());
  data_plane_ = Channel();
  EXPECT_EQ(serve(), Requests::Served::gone);
  EXPECT_EQ(done_,
            "create 4 2; install 1 of generation 7; activate 1 7 99; state 2 of all; ready; bypass for 300; "
            "watch; rename 1; "
            "undo; ");
}

TEST_F(ControlRequests, AnEndIsAnnouncedAndAPolicyKept) {
  ask(MessageType::keep_policy, 1000);
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto memory = data_plane_.receive(0ms);
  ASSERT_TRUE(memory) << memory.error();
  EXPECT_EQ(memory->message.type, MessageType::memory);
  EXPECT_EQ(memory->descriptors.size(), 1u);
  ask(MessageType::policy_kept);
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::done);
  ask(MessageType::ready);
  EXPECT_EQ(serve(), Requests::Served::answered);
  ask(MessageType::ending, 1);
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType{}) << "nobody waits for an answer";
  EXPECT_EQ(done_, "memory 1000; kept; ready; will leave; ");
  // The memory is given once.
  ask(MessageType::policy_kept);
  EXPECT_THAT(wrong(), HasSubstr("was not given"));
}

TEST_F(ControlRequests, AProgramIsVerifiedOnceInItsMemory) {
  ask(MessageType::verify_program);
  EXPECT_THAT(wrong(), HasSubstr("was not given"));
  ask(MessageType::program_memory, 100);
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto memory = data_plane_.receive(0ms);
  ASSERT_TRUE(memory) << memory.error();
  EXPECT_EQ(memory->message.type, MessageType::memory);
  EXPECT_EQ(memory->descriptors.size(), 1u);
  ask(MessageType::verify_program);
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::done);
  ask(MessageType::verify_program);
  EXPECT_THAT(wrong(), HasSubstr("was not given"));
  ask(MessageType::program_memory, 100);
  EXPECT_EQ(serve(), Requests::Served::answered);
  (void)data_plane_.receive(0ms);
  refuses_ = true;
  ask(MessageType::verify_program);
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::refused);
  EXPECT_EQ(done_, "program of 100; verify; program of 100; verify; ");
  ask(MessageType::program_memory, kMaxProgramBytes + 1);
  EXPECT_THAT(wrong(), HasSubstr("invalid"));
}

TEST_F(ControlRequests, AProgramIsLoadedOnceFromItsMemoryIntoASlotThatThereIs) {
  ASSERT_TRUE(data_plane_.send(Message::make(MessageType::load_program, 1, 2, "web")));
  EXPECT_THAT(wrong(), HasSubstr("was not given"));
  ask(MessageType::program_memory, 100);
  EXPECT_EQ(serve(), Requests::Served::answered);
  (void)data_plane_.receive(0ms);
  ASSERT_TRUE(data_plane_.send(Message::make(MessageType::load_program, 1, 2, "web")));
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::done);
  ask(MessageType::retire_programs, 1);
  EXPECT_EQ(serve(), Requests::Served::answered);
  EXPECT_EQ(answer(), MessageType::done);
  ASSERT_TRUE(data_plane_.send(Message::make(MessageType::load_program, 1, 2, "web")));
  EXPECT_THAT(wrong(), HasSubstr("was not given"));
  EXPECT_EQ(done_, "program of 100; load 1 2 web; retire 1; ");
  for (const auto& [slot, number] : {std::pair{2u, 0u}, {0u, XG_MAX_PROGRAMS}}) {
    ASSERT_TRUE(data_plane_.send(Message::make(MessageType::load_program, slot, number, "web")));
    EXPECT_THAT(wrong(), HasSubstr("invalid"));
  }
  ask(MessageType::retire_programs, 2);
  EXPECT_THAT(wrong(), HasSubstr("invalid"));
}

TEST_F(ControlRequests, MapsAreMadeOnceFromTheirMemoryAndHandedOver) {
  const auto make = [&](u32 slot, u32 number) {
    ASSERT_TRUE(data_plane_.send(Message::make(MessageType::make_program_maps, slot, number, "2 web")));
  };
  make(1, 4);
  EXPECT_THAT(wrong(), HasSubstr("was not given"));
  ask(MessageType::program_memory, 100);
  EXPECT_EQ(serve(), Requests::Served::answered);
  (void)data_plane_.receive(0ms);
  make(1, 4);
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto made = data_plane_.receive(0ms);
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->message.type, MessageType::made);
  EXPECT_EQ(made->message.a, 3u);
  EXPECT_EQ(made->message.b, 1u);
  ask(MessageType::program_map, 1, 4 << 8 | 2);
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto map = data_plane_.receive(0ms);
  ASSERT_TRUE(map) << map.error();
  EXPECT_EQ(map->message.type, MessageType::map);
  EXPECT_EQ(map->message.a, 7u);
  EXPECT_EQ(map->descriptors.size(), 1u);
  EXPECT_EQ(done_, "program of 100; maps 1 4 2 web; map 1 4 2; ");
  for (const auto& [slot, number] : {std::pair{2u, 0u}, {0u, kMaxMapOrders}}) {
    make(slot, number);
    EXPECT_THAT(wrong(), HasSubstr("invalid"));
  }
  ask(MessageType::program_map, 2, 0);
  EXPECT_THAT(wrong(), HasSubstr("invalid"));
}

TEST_F(ControlRequests, ACompilerIsHandedOverWhenever) {
  for (int i = 0; i < 2; i++) {
    ask(MessageType::start_compiler,
        static_cast<u32>(i == 0 ? CompilerFor::policies : CompilerFor::programs));
    EXPECT_EQ(serve(), Requests::Served::answered);
    const auto given = data_plane_.receive(0ms);
    ASSERT_TRUE(given) << given.error();
    EXPECT_EQ(given->message.type, MessageType::compiler);
    EXPECT_EQ(given->descriptors.size(), 1u);
    if (i > 0) break;
    ask(MessageType::ready);
    EXPECT_EQ(serve(), Requests::Served::answered);
  }
  EXPECT_EQ(done_, "compiler; ready; compiler of programs; ");
  ask(MessageType::start_compiler, 2);
  EXPECT_THAT(wrong(), HasSubstr("invalid"));
}

TEST_F(ControlRequests, ALogIsHandedOverOrRefused) {
  const auto asked = Message::make(MessageType::open_log, 0, 0, "file:/var/log/eve.json");
  ASSERT_TRUE(data_plane_.send(asked));
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto given = data_plane_.receive(0ms);
  ASSERT_TRUE(given) << given.error();
  EXPECT_EQ(given->message.type, MessageType::log);
  EXPECT_EQ(given->descriptors.size(), 1u);
  refuses_ = true;
  ASSERT_TRUE(data_plane_.send(asked));
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto refused = data_plane_.receive(0ms);
  ASSERT_TRUE(refused) << refused.error();
  EXPECT_EQ(refused->message.type, MessageType::refused);
  EXPECT_STREQ(refused->message.text, "no memory");
  EXPECT_EQ(done_, "log file:/var/log/eve.json; log file:/var/log/eve.json; ");
  ask(MessageType::reopen_logs);
  EXPECT_THAT(wrong(), HasSubstr("only the broker says"));
}

TEST_F(ControlRequests, NobodyEndsBeforeTheStart) {
  ask(MessageType::ending);
  EXPECT_THAT(wrong(), HasSubstr("before it was ready"));
  ask(MessageType::keep_policy, kMaxKeptBytes + 1);
  EXPECT_THAT(wrong(), HasSubstr("invalid"));
}

// One that is killed while its request is answered did nothing wrong.
TEST_F(ControlRequests, WhoDiesBeforeTheAnswerIsGone) {
  ask(MessageType::watch_egress, 1);
  data_plane_ = Channel();
  EXPECT_EQ(serve(), Requests::Served::gone);
}

TEST_F(ControlRequests, WhatDecidesStaysIfItIsAskedFor) {
  ask(MessageType::ready);
  EXPECT_EQ(serve(), Requests::Served::answered);
  ask(MessageType::stopped, 1, 1);
  EXPECT_EQ(serve(), Requests::Served::answered);
  const auto gone = data_plane_.receive(0ms);
  ASSERT_TRUE(gone) << gone.error();
  EXPECT_EQ(gone->message.a, 1u);
  EXPECT_EQ(done_, "ready; leave; ");
}

TEST_F(ControlRequests, WhatCannotBeDoneIsRefusedAndNoFault) {
  refuses_ = true;
  for (const auto type : {MessageType::create_maps, MessageType::watch_egress, MessageType::renamed}) {
    ask(type, 1, 1);
    EXPECT_EQ(serve(), Requests::Served::answered);
    EXPECT_EQ(answer(), MessageType::refused);
  }
}

TEST_F(ControlRequests, OutOfOrderTheyAreAFault) {
  ask(MessageType::stopped, 1);
  EXPECT_THAT(wrong(), HasSubstr("before it was ready"));
  ask(MessageType::install_maps, 0);
  EXPECT_THAT(wrong(), HasSubstr("not made"));
  ask(MessageType::ready);
  EXPECT_TRUE(serve());
  ask(MessageType::ready);
  EXPECT_THAT(wrong(), HasSubstr("twice"));
  ask(MessageType::create_maps, 1, 1);
  EXPECT_TRUE(serve());
  EXPECT_EQ(answer(), MessageType::maps_created);
  ask(MessageType::install_maps, 0);
  EXPECT_TRUE(serve());
  EXPECT_EQ(answer(), MessageType::done);
  ask(MessageType::install_maps, 1);
  EXPECT_THAT(wrong(), HasSubstr("not made")) << "maps are installed once";
  ask(MessageType::activate, 1, 1);
  EXPECT_THAT(wrong(), HasSubstr("not installed")) << "in the other slot";
  ask(MessageType::activate, 0, 1);
  EXPECT_TRUE(serve());
  EXPECT_EQ(answer(), MessageType::done);
  ask(MessageType::activate, 0, 1);
  EXPECT_THAT(wrong(), HasSubstr("not installed")) << "it is in force";
  ask(MessageType::stopped, 1);
  EXPECT_TRUE(serve());
  EXPECT_EQ(answer(), MessageType::gone);
  for (const auto type :
       {MessageType::create_maps, MessageType::watch_egress, MessageType::stopped, MessageType::ready}) {
    ask(type, 1, 1);
    EXPECT_THAT(wrong(), HasSubstr("after its end"));
  }
}

TEST_F(ControlRequests, OutOfBoundsTheyAreAFault) {
  for (const auto& [type, a, b] : {std::tuple{MessageType::create_maps, 0u, 1u},
                                   {MessageType::create_maps, 1u, 0u},
                                   {MessageType::create_maps, kMaxLines + 1, 1u},
                                   {MessageType::create_maps, 1u, kMaxRows + 1},
                                   {MessageType::create_maps, ~0u, ~0u},
                                   {MessageType::install_maps, 2u, 0u},
                                   {MessageType::watch_egress, 2u, 0u},
                                   {MessageType::activate, 2u, 1u},
                                   {MessageType::activate, 0u, 0u},
                                   {MessageType::set_state, XG_STATE_STARTING, 0u},
                                   {MessageType::set_state, XG_STATE_DRAINING + 1, 0u},
                                   {MessageType::set_state, XG_STATE_BYPASS, 2u},
                                   {MessageType::set_bypass, 2u, 0u},
                                   {MessageType::set_bypass, 0u, 1u},
                                   {MessageType::set_bypass, 1u, kMostBypassSeconds + 1},
                                   {MessageType::stopped, 2u, 0u},
                                   {MessageType::stopped, 1u, 2u},
                                   {static_cast<MessageType>(0), 0u, 0u},
                                   {static_cast<MessageType>(50), 0u, 0u},
                                   {static_cast<MessageType>(~0u), 0u, 0u}}) {
    ask(type, a, b);
    EXPECT_THAT(wrong(), HasSubstr("invalid")) << static_cast<u32>(type) << " " << a << " " << b;
  }
}

TEST_F(ControlRequests, WhatOnlyTheBrokerSaysIsAFault) {
  for (const auto type : {MessageType::done, MessageType::refused, MessageType::stop, MessageType::gone}) {
    ask(type);
    EXPECT_THAT(wrong(), HasSubstr("only the broker")) << static_cast<u32>(type);
  }
}

TEST_F(ControlRequests, NoDescriptorOfTheDataPlanesIsKept) {
  const kernel::Fd memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  const auto before = open_descriptors();
  ASSERT_TRUE(data_plane_.send(Message::make(MessageType::create_maps, 1, 1), {memory.get()}));
  EXPECT_THAT(wrong(), HasSubstr("invalid"));
  ASSERT_TRUE(data_plane_.send(Message::make(MessageType::maps_created), {memory.get(), memory.get()}));
  EXPECT_THAT(wrong(), HasSubstr("only the broker"));
  // More than there is room for.
  Message message = Message::make(MessageType::ready);
  iovec data{&message, sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(100 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* c = CMSG_FIRSTHDR(&header);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(100 * sizeof(int));
  for (std::size_t i = 0; i < 100; i++) {
    const int fd = memory.get();
    std::memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
  }
  ASSERT_EQ(sendmsg(data_plane_.fd(), &header, 0), static_cast<ssize_t>(sizeof(message)));
  EXPECT_THAT(wrong(), HasSubstr("invalid"));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ControlRequests, AnyBytesAreAFault) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; i++) {
    // Now and then with a right beginning.
    Message message = Message::make(static_cast<MessageType>(random() % 80), random() % 4, random() % 4);
    std::vector<unsigned char> bytes(random() % 3 != 0 ? sizeof(message) : 1 + random() % 600);
    std::memcpy(bytes.data(), &message, std::min(bytes.size(), sizeof(message)));
    for (std::size_t broken = random() % 3; broken > 0; broken--)
      bytes[random() % std::min<std::size_t>(bytes.size(), 16)] = static_cast<unsigned char>(random());
    if (bytes.size() == sizeof(message) && valid(*reinterpret_cast<Message*>(bytes.data()), 0)) continue;
    say_raw(bytes.data(), bytes.size());
    EXPECT_THAT(wrong(), HasSubstr("invalid"));
  }
  EXPECT_EQ(done_, "");
}

TEST_F(ControlRequests, ADataPlaneThatReadsNothingHoldsNobodyUp) {
  Result<Requests::Served> served = Requests::Served::answered;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100'000 && served; i++) {
    ask(MessageType::watch_egress, 1);
    served = serve();
  }
  EXPECT_FALSE(served) << "it would wait, or take memory for ever";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

}  // namespace
}  // namespace xdpgpu::control
