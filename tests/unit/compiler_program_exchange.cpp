// SPDX-License-Identifier: MIT
//
// tests/unit/compiler_program_exchange.cpp: programs on their way between processes: what was written is
// read, and whatever else stands there is refused, or a program within its bounds.
#include "userspace/compiler/programs/exchange.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <linux/bpf.h>

#include <random>

#include "tests/unit/compiler_program_object.hpp"

namespace xdpgpu::test {
namespace {

using namespace programs;
using testing::HasSubstr;

std::string bytes_of(const kernel::Fd& memory) {
  const auto sealed = compiler::SealedMemory::map(memory, kMostExchanged).value();
  return {reinterpret_cast<const char*>(sealed.bytes().data()), sealed.bytes().size()};
}
Result<Result<ObjectProgram>> read_bytes(const std::string& bytes) {
  compiler::MemoryWriter to("test");
  to.write(bytes);
  const auto memory = to.seal();
  return read_exchanged(compiler::SealedMemory::map(*memory, kMostExchanged).value());
}

TEST(ProgramExchange, GivesWhatWasWritten) {
  for (const auto& [name, program] : {std::pair{"everything", ""},
                                      {"several", "second"},
                                      {"several", "long_packets"},
                                      {"slots", "first"}}) {
    const auto object = read_object(object_bytes(name), program);
    ASSERT_TRUE(object) << object.error();
    const auto read = read_bytes(bytes_of(write_program(*object).value()));
    ASSERT_TRUE(read) << read.error();
    ASSERT_TRUE(*read) << read->error();
    EXPECT_EQ(**read, *object);
  }
  const auto refused = read_bytes(bytes_of(write_refusal("it has no program").value()));
  ASSERT_TRUE(refused) << refused.error();
  ASSERT_FALSE(*refused);
  EXPECT_EQ(refused->error(), "it has no program");
  // It may quote a stranger's names.
  const auto quoting = read_bytes(bytes_of(write_refusal("a\nb\x7f" + std::string(5000, 'c')).value()));
  ASSERT_TRUE(quoting) << quoting.error();
  EXPECT_EQ(quoting->error(), "a?b?" + std::string(kMostSentenceBytes - 4, 'c'));
  std::string forged = bytes_of(write_refusal("line by line").value());
  forged[forged.find(' ')] = '\n';
  EXPECT_FALSE(read_bytes(forged));
}

TEST(ProgramExchange, RefusesWhatIsNotWhole) {
  const std::string whole =
      bytes_of(write_program(read_object(object_bytes("slots"), "first").value()).value());
  for (std::size_t length = 0; length < whole.size(); length++)
    EXPECT_FALSE(read_bytes(whole.substr(0, length))) << length;
  EXPECT_FALSE(read_bytes(whole + '\0'));
}

TEST(ProgramExchange, RefusesWhatIsBeyondBounds) {
  const auto object = read_object(object_bytes("slots"), "first").value();
  const auto refused = [](const ObjectProgram& changed) {
    const auto read = read_bytes(bytes_of(write_program(changed).value()));
    return read ? std::string("taken") : read.error();
  };
  EXPECT_EQ(refused(object), "taken");
  ObjectProgram changed = object;
  changed.slots[0].slot = 4;
  EXPECT_THAT(refused(changed), HasSubstr("in none of its maps"));
  changed = object;
  changed.slots[0].map = 1;
  EXPECT_THAT(refused(changed), HasSubstr("in none of its maps"));
  changed = object;
  changed.slots.resize(kMostSlots, object.slots[0]);
  changed.notes.resize(kMostNotes, "a note");
  EXPECT_EQ(refused(changed), "taken");
  changed.slots.push_back(object.slots[0]);
  EXPECT_THAT(refused(changed), HasSubstr("more to say"));
  changed.slots = object.slots;
  changed.notes.emplace_back("a note");
  EXPECT_THAT(refused(changed), HasSubstr("more to say"));
  for (const char* const evil : {"a\nb", "\x1b[2J", "\xe2\x80\xae", "\x7f"}) {
    changed = object;
    changed.section = evil;
    EXPECT_THAT(refused(changed), HasSubstr("its section"));
    changed = object;
    changed.slots[0].name = evil;
    EXPECT_THAT(refused(changed), HasSubstr("a slot"));
    changed = object;
    changed.notes = {evil};
    EXPECT_THAT(refused(changed), HasSubstr("no sentence"));
    changed = object;
    changed.program.name = evil;
    EXPECT_THAT(refused(changed), HasSubstr("a name or a license"));
    changed = object;
    changed.program.license = evil;
    EXPECT_THAT(refused(changed), HasSubstr("a name or a license"));
    changed = object;
    changed.program.maps[0].name = evil;
    EXPECT_THAT(refused(changed), HasSubstr("a map has a name"));
  }
  changed = object;
  changed.notes = {std::string(kMostSentenceBytes + 1, 'a')};
  EXPECT_THAT(refused(changed), HasSubstr("no sentence"));
  changed = object;
  changed.program.maps.resize(65, changed.program.maps[0]);
  EXPECT_THAT(refused(changed), HasSubstr("65 maps"));
  changed = object;
  changed.program.instructions.push_back({.opcode = BPF_JMP | BPF_JA});
  EXPECT_THAT(refused(changed), HasSubstr("jumps out of the program"));
}

TEST(ProgramExchange, OfAnyBytesIsRefusedOrAProgramWithinItsBounds) {
  std::mt19937 random(21);
  int taken = 0, refused = 0;
  for (const char* const name : {"everything", "slots"}) {
    const std::string whole = bytes_of(
        write_program(read_object(object_bytes(name), name == std::string("slots") ? "first" : "").value())
            .value());
    for (int i = 0; i < 5000; i++) {
      std::string bytes = whole;
      for (auto k = 1 + random() % 3; k > 0; k--)
        bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
      const auto read = read_bytes(bytes);
      if (!read) {
        EXPECT_FALSE(read.error().empty());
      }
      if (read && *read) {
        EXPECT_TRUE(check((*read)->program));
        taken++;
      } else {
        refused++;
      }
    }
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace xdpgpu::test
