// SPDX-License-Identifier: MIT
//
// tests/unit/cli_program.cpp: what `program check` says of objects, through the real command, which reads
// them in a process of its own.
#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "tests/unit/cli_test.hpp"

namespace xdpgpu::test {
namespace {

using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string object(const std::string& name) { return XDPGPU_OBJECTS "/" + name + ".bpf.o"; }

class CliProgram : public CliTest {
 protected:
  static bool root() { return geteuid() == 0; }
};

TEST_F(CliProgram, WhatItGoesOnWithIsNamed) {
  const auto text = run({"program", "check", object("slots"), "--section", "first"});
  EXPECT_EQ(text.status, 0) << text.err << text.out;
  EXPECT_THAT(text.out, HasSubstr("Goes on with: last\n"));
  EXPECT_THAT(text.out, HasSubstr("In a policy it runs on many packets at a time: it changes no map\n"));
  const auto json =
      Json::parse(run({"program", "check", object("slots"), "--section", "first", "-o", "json"}).out);
  EXPECT_EQ(json.at("tails"), Json::array({"last"}));
}

TEST_F(CliProgram, EachMapsHomeIsNamed) {
  const auto homes = [&](const std::string& section) {
    std::map<std::string, std::string> found;
    const auto checked = run({"program", "check", object("kept"), "--section", section, "-o", "json"});
    const Json report = Json::parse(checked.out);
    for (const Json& map : report.at("maps")) {
      found[map.at("name").get<std::string>()] = map.at("home").get<std::string>();
      EXPECT_EQ(map.at("lag_ms"), 100) << map;
    }
    return found;
  };
  using Homes = std::map<std::string, std::string>;
  EXPECT_EQ(homes("counting"), (Homes{{"mode", "kernel"}, {"counts", "both"}, {"sizes", "both"}}));
  EXPECT_EQ(homes("noting"), (Homes{{"mode", "kernel"}, {"last", "device"}, {"recent", "device"}}));
  EXPECT_EQ(homes("knowing"), (Homes{{"mode", "kernel"}, {"counts", "both"}, {"known", "device"}}));
  const auto text = run({"program", "check", object("kept"), "--section", "noting"});
  EXPECT_THAT(text.out, HasSubstr("; on a device it overwrites the kernel's, every 100 ms\n"));
  EXPECT_THAT(text.out, HasSubstr("; on a device it has what the kernel's has, looked at every 100 ms\n"));
  EXPECT_THAT(run({"program", "check", object("slots"), "--section", "first"}).out,
              HasSubstr("; on a device it is the device's alone\n"));
}

TEST_F(CliProgram, ThatHasAllItNeedsIsDescribed) {
  const auto text = run({"program", "check", object("everything")});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("everything (section xdp): "));
  EXPECT_THAT(text.out, HasSubstr(" instructions, 3 functions\n"));
  EXPECT_THAT(text.out,
              HasSubstr("Map sources: hash, keys of 4 bytes, values of 8 bytes, 1000 at most; the program "
                        "writes it; on a device it overwrites the kernel's, every 100 ms\n"));
  EXPECT_THAT(text.out,
              HasSubstr("Map .rodata: array, keys of 4 bytes, values of 4 bytes, 1 at most; the program only "
                        "reads it; on a device it is the device's alone\n"));
  EXPECT_THAT(text.out, HasSubstr("Needs helpers: map_lookup_elem (2), map_update_elem (1), "));
  EXPECT_THAT(text.out, HasSubstr("Note: map counts is to be shared with others by a pin"));
  EXPECT_THAT(text.out, HasSubstr("Nothing that it needs is missing\n"));
  EXPECT_THAT(text.out, HasSubstr("In a policy it runs on one packet after the other: instruction "));
  EXPECT_THAT(text.out, EndsWith(root() ? "The kernel's verifier takes it\n"
                                        : "run it as root to have the kernel asked\n"));
  EXPECT_THAT(text.out, Not(HasSubstr("opcode")));
  const auto json = Json::parse(run({"program", "check", object("everything"), "-o", "json", "-v"}).out);
  EXPECT_EQ(json.at("program"), "everything");
  EXPECT_EQ(json.at("functions"), 3);
  EXPECT_EQ(json.at("maps").size(), 5u);
  EXPECT_EQ(json.at("helpers").at(0),
            (Json{{"name", "map_lookup_elem"}, {"number", 1}, {"times", 2}, {"missing", ""}}));
  EXPECT_TRUE(json.at("missing").empty());
  EXPECT_EQ(json.at("run").at("how"), "in order");
  EXPECT_THAT(json.at("run").at("cuda").get<std::string>(), AnyOf("translated", StartsWith("interpreted: ")));
  EXPECT_THAT(text.out, HasSubstr("\nOn CUDA it is " + json.at("run").at("cuda").get<std::string>() + "\n"));
  EXPECT_EQ(json.at("verifier").at("said"), root() ? "takes" : "not asked");
  EXPECT_EQ(json.at("code").size(), json.at("instructions"));
  EXPECT_FALSE(json.contains("error"));
}

TEST_F(CliProgram, ThatOnlyCountsRunsOnManyPacketsAtATime) {
  const auto text = run({"program", "check", object("counts"), "--section", "counts"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              HasSubstr("In a policy it runs on many packets at a time, and counts: it changes its maps "
                        "by additions alone, and reads no bit that they change\n"));
  const auto json = [&](const std::string& section) {
    return Json::parse(run({"program", "check", object("counts"), "--section", section, "-o", "json"}).out);
  };
  EXPECT_EQ(json("counts").at("run").at("how"), "counting");
  const auto reads = json("reads");
  EXPECT_EQ(reads.at("run").at("how"), "in order");
  EXPECT_THAT(reads.at("run").at("why").get<std::string>(), HasSubstr(" what it counts"));
}

TEST_F(CliProgram, ThatLooksByOneKeyIsOrderedByIt) {
  const auto text = run({"program", "check", object("kept"), "--section", "knowing"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              HasSubstr("In a policy it runs on many packets at a time, those of one key in their order: it "
                        "looks into the map known by one key alone, and only counts in others\n"));
  const auto how = [&](const std::string& section) {
    return Json::parse(run({"program", "check", object("kept"), "--section", section, "-o", "json"}).out)
        .at("run")
        .at("how");
  };
  EXPECT_EQ(how("knowing"), "by key");
  EXPECT_EQ(how("noting"), "in order");
}

TEST_F(CliProgram, ThatLooksUpRoutesIsToldWhatItsPolicyHasToHave) {
  const auto text = run({"program", "check", object("router")});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("Needs helpers: redirect (1), fib_lookup (1)\n"));
  EXPECT_THAT(text.out,
              HasSubstr("Note: it looks up routes: a policy has them in a stage \"forward\", and says which "
                        "number is which interface (\"interfaces\")\n"));
  EXPECT_THAT(text.out, HasSubstr("Nothing that it needs is missing\n"));
  EXPECT_THAT(text.out, HasSubstr("In a policy it runs on many packets at a time: it changes no map\n"));
  EXPECT_THAT(text.out, HasSubstr("On CUDA it is translated\n"));
}

TEST_F(CliProgram, ThatNeedsMoreIsRefused) {
  const auto text = run({"program", "check", object("missing")});
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("Missing: helper jiffies64: "));
  EXPECT_THAT(text.out, HasSubstr("Missing: map type queue: "));
  EXPECT_THAT(text.err, HasSubstr("missing needs what is missing: helper map_push_elem: "));
  const auto json = Json::parse(run({"program", "check", object("missing"), "-o", "json"}).out);
  EXPECT_EQ(json.at("missing").size(), 3u);
  EXPECT_THAT(json.at("error").at("message").get<std::string>(), HasSubstr("jiffies64"));
}

TEST_F(CliProgram, ThatTheKernelRefusesIsRefusedWithItsWords) {
  if (!root()) GTEST_SKIP() << "the kernel is asked as root: run it with sudo";
  const auto text = run({"program", "check", object("refused")});
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("The kernel's verifier refuses it: "));
  EXPECT_THAT(text.err, HasSubstr("the kernel's verifier refuses reads_beyond: "));
  EXPECT_THAT(text.err, HasSubstr("invalid access to packet"));
}

TEST_F(CliProgram, SaysWhatAPacketCosts) {
  const auto text = run({"program", "check", object("everything")});
  EXPECT_THAT(text.out, testing::ContainsRegex("A packet costs [0-9.]+ ns on cpu, in batches of 1024\n"));
  EXPECT_THAT(text.out, HasSubstr("These packets are made up: TCP and UDP, IPv4 and IPv6, to any port, "));
  const auto measured = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"program", "check", object("everything"), "-o", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const Json one = Json::parse(measured({}).out);
  EXPECT_EQ(one.at("packets"), "made up");
  ASSERT_EQ(one.at("cost").size(), 1u);
  EXPECT_EQ(one.at("cost").at(0).at("device"), "cpu");
  EXPECT_GT(one.at("cost").at(0).at("nanoseconds").get<double>(), 1.0);
  // Every one that there is, software Vulkan among them.
  const Json all = Json::parse(measured({"--device", "all"}).out);
  std::size_t usable = 0;
  for (const auto& device : Json::parse(run({"devices", "-o", "json"}).out))
    usable += device.at("usable").get<bool>();
  EXPECT_EQ(all.at("cost").size(), usable);
}

TEST_F(CliProgram, IsMeasuredWithACapturesPackets) {
  const auto check = [&](const std::string& capture) {
    return run({"program", "check", object("everything"), "--packets", capture});
  };
  const std::string head("\xd4\xc3\xb2\xa1\2\0\4\0\0\0\0\0\0\0\0\0\0\0\4\0\1\0\0\0", 24);
  const std::string packet = std::string("\0\0\0\0\0\0\0\0\x3c\0\0\0\x3c\0\0\0", 16) + std::string(60, 'x');
  const auto own = check(file("own.pcap", head + packet));
  EXPECT_EQ(own.status, 0) << own.err;
  EXPECT_THAT(own.out, HasSubstr("These packets are those of " + file("own.pcap", head + packet)));
  const auto empty = check(file("empty.pcap", head));
  EXPECT_EQ(empty.status, 1);
  EXPECT_THAT(empty.err, HasSubstr("empty.pcap has no packet: name a capture that has some"));
  EXPECT_EQ(check(file("none.pcap", "")).status, 1);
  const auto device = run({"program", "check", object("everything"), "--device", "cuda:77"});
  EXPECT_EQ(device.status, 1);
  EXPECT_THAT(device.err, HasSubstr("what a packet costs on cuda:77: "));
}

TEST_F(CliProgram, IsNamedWhereThereAreSeveral) {
  const auto any = run({"program", "check", object("several")});
  EXPECT_EQ(any.status, 1);
  EXPECT_THAT(any.err, HasSubstr("name one by its section: first (section xdp)"));
  // One that calls a tail, and one with maps of maps.
  for (const auto& [section, title] :
       {std::pair("first", "first (section xdp): "), {"xdp/second", "second (section xdp/second): "}}) {
    const auto one = run({"program", "check", object("several"), "--section", section});
    EXPECT_THAT(one.out, HasSubstr(title));
    EXPECT_THAT(one.out, HasSubstr("Nothing that it needs is missing\n"));
    EXPECT_EQ(one.status, 0) << one.err;
  }
  EXPECT_THAT(run({"program", "check", object("several"), "--section", "first"}).out,
              HasSubstr("Note: the object puts no programs into its map next: a policy's stage does"));
}

TEST_F(CliProgram, ThatRedirectsNeedsInterfacesOfThePolicy) {
  const auto one = run({"program", "check", object("ports")});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("Note: it redirects packets: a policy's stage says which number is which "
                                 "interface (\"interfaces\")\n"));
}

TEST_F(CliProgram, IsFittedToTheKernelByItsReader) {
  if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) GTEST_SKIP() << "this kernel does not tell its types";
  EXPECT_EQ(run({"program", "check", object("layouts"), "--section", "headers"}).status, 0);
  EXPECT_EQ(run({"program", "check", object("layouts"), "--section", "moved"}).status, 1);
}

TEST_F(CliProgram, ThatIsNoneIsRefusedInOneSentence) {
  const std::string text = file("text.o", "no object"), empty = file("empty.o", "");
  std::string cut = contents(object("everything"));
  const std::string half = file("half.o", cut.substr(0, cut.size() / 2));
  for (const auto& [path, why] :
       {std::pair{text, "no ELF object"}, {empty, "no ELF object"}, {half, "it "}}) {
    const auto outcome = run({"program", "check", path});
    EXPECT_EQ(outcome.status, 1) << path;
    EXPECT_THAT(outcome.err, HasSubstr(path + ": "));
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    const auto json = run({"program", "check", path, "-o", "json"});
    EXPECT_NE(Json::parse(json.out).at("error").at("message"), "");
  }
  EXPECT_EQ(run({"program", "check"}).status, 2);
  EXPECT_EQ(run({"program"}).status, 2);
  EXPECT_EQ(run({"program", "check", "/no/such.o"}).status, 1);
}

// What a name says is not what the command says.
TEST_F(CliProgram, WithANameThatSaysMoreIsRefused) {
  std::string bytes = contents(object("refused"));
  const std::string name = "reads_beyond";
  for (auto at = bytes.find(name); at != std::string::npos; at = bytes.find(name, at))
    bytes.replace(at, name.size(), "r: 1\nIt is\x7f!");
  const std::string path = file("named.o", bytes);
  const auto outcome = run({"program", "check", path});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("its program r: 1?It is?! is not as it has to be: "));
  EXPECT_NE(Json::parse(run({"program", "check", path, "-o", "json"}).out).at("error").at("message"), "");
}

// Who writes the object does not choose whether the kernel is asked.
TEST_F(CliProgram, ThatTheKernelCannotBeAskedAboutIsRefused) {
  if (!root()) GTEST_SKIP() << "the kernel is asked as root: run it with sudo";
  const auto outcome = run({"program", "check", object("large")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("Missing: what the kernel's verifier says: its maps of each processor"));
  EXPECT_THAT(outcome.out, HasSubstr("The kernel's verifier was not asked: its maps of each processor"));
  EXPECT_THAT(outcome.err, HasSubstr("large needs what is missing: what the kernel's verifier says"));
}

#if !defined(XDPGPU_SANITIZED)
// An object whose functions have one long name each: it takes more memory than there is for it.
std::string object_of_long_names() {
  constexpr std::size_t kName = std::size_t{1} << 20, kFunctions = 4000;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = EM_BPF;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(header);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  std::string names(kName, 'a');
  names += '\0';
  names.resize((names.size() + 7) / 8 * 8);
  Elf64_Sym function{};
  function.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  function.st_shndx = 1;
  Elf64_Shdr strings{}, symbols{};
  strings.sh_type = SHT_STRTAB;
  strings.sh_offset = sizeof(header);
  strings.sh_size = names.size();
  strings.sh_addralign = 1;
  symbols.sh_type = SHT_SYMTAB;
  symbols.sh_offset = sizeof(header) + names.size();
  symbols.sh_size = kFunctions * sizeof(function);
  symbols.sh_link = 1;
  symbols.sh_entsize = sizeof(function);
  symbols.sh_addralign = 8;
  header.e_shoff = symbols.sh_offset + symbols.sh_size;
  const auto raw = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  std::string bytes = raw(header) + names;
  for (std::size_t i = 0; i < kFunctions; i++) bytes += raw(function);
  return bytes + raw(Elf64_Shdr{}) + raw(strings) + raw(symbols);
}

// The line of /proc/PID/status that begins with the word.
std::string status_of(pid_t pid, const std::string& word) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(word)) return line.substr(std::min(line.size(), word.size() + 1));
  return {};
}

std::string target_of(const std::string& link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error);
}

TEST_F(CliProgram, IsReadByAProcessThatHasNothing) {
  const std::string path = file("long.o", object_of_long_names());
  const std::string out = file("out", ""), err = file("err", "");
  const pid_t command = fork();
  ASSERT_GE(command, 0);
  if (command == 0) {
    for (const auto& [to, fd] : {std::pair{out, 1}, {err, 2}}) dup2(open(to.c_str(), O_WRONLY | O_TRUNC), fd);
    execl(XDPGPU_BINARY, XDPGPU_BINARY, "program", "check", path.c_str(), nullptr);
    _exit(127);
  }
  // Once its filter is on, all else is done. It has a gigabyte to fill after that.
  bool seen = false;
  siginfo_t ended{};
  while (!seen && waitid(P_PID, static_cast<id_t>(command), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0) {
    usleep(1000);
    pid_t reader = 0;
    std::ifstream(fmt::format("/proc/{0}/task/{0}/children", command)) >> reader;
    if (reader == 0 || status_of(reader, "Seccomp:") != "2") continue;
    if (root()) {  // others may not see it
      for (int fd = 0; fd < 3; fd++)
        EXPECT_EQ(target_of(fmt::format("/proc/{}/fd/{}", reader, fd)), "/dev/null") << fd;
      EXPECT_EQ(status_of(reader, "Groups:").find_first_not_of(" \t"), std::string::npos);
    }
    EXPECT_EQ(getsid(reader), reader);
    EXPECT_EQ(status_of(reader, "CapPrm:"), "0000000000000000");
    int score = 0;
    std::ifstream(fmt::format("/proc/{}/oom_score_adj", reader)) >> score;
    EXPECT_GE(score, 600);
    seen = true;
  }
  EXPECT_TRUE(seen);
  int status = 0;
  ASSERT_EQ(waitpid(command, &status, 0), command);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  // A busy machine may not fill it in time.
  EXPECT_THAT(contents(err), AnyOf(HasSubstr("long.o: reading it takes more than the 1024 MiB of memory"),
                                   HasSubstr("long.o: reading it took more than 20 s")));
}
#endif

// libbpf does not survive each of these: the command does.
TEST_F(CliProgram, ThatIsDamagedNeverEndsTheCommand) {
  const std::string whole = contents(object("slots"));
  std::mt19937 random(22);
  for (int i = 0; i < 60; i++) {
    std::string bytes = whole;
    for (auto k = 1 + random() % 6; k > 0; k--)
      bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
    const auto outcome = run({"program", "check", file("damaged.o", bytes), "--section", "last"});
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 1) << i << ": " << outcome.status << outcome.err;
    if (outcome.status == 1) {
      EXPECT_THAT(outcome.err, HasSubstr("damaged.o: "));
    }
  }
}

}  // namespace
}  // namespace xdpgpu::test
