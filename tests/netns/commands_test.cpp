// SPDX-License-Identifier: MIT
//
// tests/netns/commands_test.cpp: a command reaches the process that it is meant for, and no other; and nobody
// keeps it waiting for ever.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/netns/control_socket.hpp"
#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class Commands : public OnOneWire {
 protected:
  bool passes_on_the_right() const {
    return ping(*right_, "10.9.1.1", {.count = 1, .timeout = 200ms}).received == 1;
  }
  // `xdpgpu ARGUMENTS` has failed in one sentence with these words.
  static void expect_refused(const Outcome& outcome, const std::vector<std::string>& words, int status = 1) {
    EXPECT_EQ(outcome.status, status) << outcome.out << outcome.err;
    for (const auto& word : words)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " is not in: " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
};

TEST_F(Commands, OneInterfaceIsNotAnothersProcess) {
  const std::string closed = policy(R"("default": "drop")");
  attach_both(closed);
  const std::string first = host_port().ifname(), second = host_second().ifname();
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  attach(closed);
  EXPECT_FALSE(passes_on_the_right()) << "by the dead one's program";
  expect_refused(product(*host_, {"status", second}), {second, "is dead"}, 6);
  const Outcome bypass = product(*host_, {"bypass", "on", second});
  EXPECT_EQ(bypass.status, 0) << bypass.err;
  EXPECT_TRUE(passes_on_the_right());
  EXPECT_EQ(attached_->status().at("ports").at(0).at("state"), "running");
  {
    Attached other(*host_, {.interfaces = {second}, .policy = closed});
    EXPECT_EQ(attached_->status().at("ports").at(0).at("interface"), first);
    other.kill_outright();
    const Outcome detach = product(*host_, {"detach", second});
    EXPECT_EQ(detach.status, 0) << detach.err;
  }
  EXPECT_EQ(xdp_state(host_second()).mode, XdpAttach::none);
  EXPECT_TRUE(passes_on_the_right());
  EXPECT_NE(xdp_state(host_port()).mode, XdpAttach::none) << "that one was not meant";
  EXPECT_EQ(attached_->detach().status, 0);
}

// Whatever led there.
TEST_F(Commands, AProcessRefusesWhatIsMeantForAnother) {
  attach(inspect_all(R"({"stage": "acl", "rules": [], "default": "pass"})"));
  const std::string name = host_port().ifname();
  for (const char* request : {"status", "bypass", "detach"}) {
    const Json answer = ask(name, request, {{"for", "eth77"}, {"on", true}});
    EXPECT_FALSE(answer.at("ok").get<bool>()) << request;
    const std::string error = answer.value("error", "");
    EXPECT_NE(error.find(name + " and not eth77"), std::string::npos) << error;
  }
  EXPECT_TRUE(ask(name, "status", {{"for", name}}).at("ok").get<bool>());
  EXPECT_EQ(attached_->status().at("ports").at(0).at("state"), "running");
  // Nor does the broker in its data plane's place.
  const pid_t data_plane = attached_->data_plane();
  kill(data_plane, SIGSTOP);
  EXPECT_TRUE(eventually([&] {
    return ask(name, "status", {{"for", name}}).at("result").at("data_plane").at("state") == "stopped";
  }));
  for (const char* request : {"status", "bypass", "detach"}) {
    const Json answer = ask(name, request, {{"for", "eth77"}, {"on", true}});
    EXPECT_FALSE(answer.at("ok").get<bool>()) << request;
    EXPECT_NE(answer.value("error", "").find(name + " and not"), std::string::npos) << answer;
  }
  kill(data_plane, SIGCONT);
  EXPECT_TRUE(eventually([&] { return attached_->status().at("ports").at(0).at("state") == "running"; }));
}

// Its socket's queue is full of clients that have given up, so that nobody else gets as far as to ask.
TEST_F(Commands, AStuckProcessKeepsNobodyForEver) {
  attach(policy(R"("default": "drop", "on_failure": "drop")"));
  const std::string name = host_port().ifname();
  const pid_t data_plane = attached_->data_plane(), broker = attached_->process().pid();
  kill(broker, SIGSTOP);  // else it answers in the other's place
  kill(data_plane, SIGSTOP);
  EXPECT_GT(fill_queue(name), 0U);
  const auto begin = std::chrono::steady_clock::now();
  const Outcome bypass = product(*host_, {"bypass", "on", name});
  EXPECT_EQ(bypass.status, 0) << bypass.err;
  EXPECT_NE(bypass.out.find("through the pinned map"), std::string::npos) << bypass.out;
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 500ms}).received, 1U);
  expect_refused(product(*host_, {"attach", name, "--pass-all"}), {name + " is attached already"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  expect_refused(product(*host_, {"status", name}),
                 {name, std::to_string(data_plane), "is stopped", fmt::format("kill -CONT {}", data_plane)},
                 6);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
  kill(data_plane, SIGCONT);
  kill(broker, SIGCONT);
  EXPECT_EQ(attached_->status().at("ports").at(0).at("state"), "bypass") << "and the others come up again";
  EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
}

// It has yet to see it: its control thread is busy, with a large policy, say.
TEST_F(Commands, ANewNameTakesNoLivingProgramOff) {
  if (!kernel_at_least(6, 2)) GTEST_SKIP() << "before Linux 6.2 an interface that is up keeps its name";
  attach(policy(R"("default": "drop")"));
  const std::string before = host_port().ifname(), now = before + "2";
  const auto links = link_names(*host_).size();
  const pid_t data_plane = attached_->data_plane();
  kill(data_plane, SIGSTOP);
  const Interface port = host_port().renamed(now);
  const std::vector<std::vector<std::string>> commands{
      {"detach", now}, {"attach", now, "--pass-all", "--mode", "copy", "--device", "cpu"}};
  for (const auto& command : commands)
    expect_refused(product(*host_, command), {now + " is attached", "detach " + before});
  EXPECT_NE(xdp_state(port).mode, XdpAttach::none);
  EXPECT_EQ(link_names(*host_).size(), links) << "and its pair is there";
  kill(data_plane, SIGCONT);
  EXPECT_TRUE(eventually(
      [&] {
        return product(*host_, {"status", now}).status == 0;
      },
      5s))
      << attached_->process().err();
  const Outcome detach = product(*host_, {"detach", now});
  EXPECT_EQ(detach.status, 0) << detach.err;
  EXPECT_EQ(attached_->process().wait(5s), 0) << attached_->process().err();
  port.renamed(before);
}

TEST_F(Commands, ALostSocketTakesNoLivingProgramOff) {
  attach(policy(R"("default": "drop")"));
  const std::string name = host_port().ifname(), socket = run_file(*host_, name, "sock");
  ASSERT_EQ(unlink(socket.c_str()), 0);
  const std::string process = std::to_string(attached_->process().pid());
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"detach", name}, {"status", name}, {"policy", "show", name}, {"attach", name, "--pass-all"}})
    expect_refused(product(*host_, command), {name + " is attached", socket, "kill " + process});
  EXPECT_NE(xdp_state(host_port()).mode, XdpAttach::none);
  attached_->process().signal(SIGTERM);
  EXPECT_EQ(attached_->process().wait(10s), 0) << attached_->process().err();
}

// ---- a data plane that is stopped ---------------------------------------------------------------------

bool is_stopped(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  return stat.find(") T ") != std::string::npos;
}

TEST_F(Commands, AStoppedDataPlaneIsSaidAndStoodInFor) {
  attach(inspect_udp(7000, R"({"stage": "l2fwd"})", R"("default": "drop", "on_failure": "drop")"));
  const std::string name = host_port().ifname();
  const pid_t data_plane = attached_->data_plane();
  const std::string process = std::to_string(data_plane);
  const auto begin = std::chrono::steady_clock::now();
  kill(data_plane, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return is_stopped(data_plane); }));
  const Outcome text = product(*host_, {"status", name});
  EXPECT_EQ(text.status, 6) << text.out << text.err;
  for (const std::string& word : {std::string("THE DATA PLANE IS STOPPED"), "kill -CONT " + process,
                                  std::string("is dropped (on_failure)")})
    EXPECT_NE(text.out.find(word), std::string::npos) << word << ": " << text.out << text.err;
  const Outcome json = product(*host_, {"status", name, "-o", "json"});
  ASSERT_TRUE(Json::accept(json.out)) << json.out << json.err;
  EXPECT_EQ(Json::parse(json.out).at("data_plane").value("state", ""), "stopped");
  EXPECT_EQ(Json::parse(json.out).at("data_plane").value("pid", 0), data_plane);
  EXPECT_EQ(Json::parse(json.out).at("packets").at("error"), 0) << "nothing is lost yet";
  const TemporaryFile other(policy(R"("default": "pass")"));
  expect_refused(product(*host_, {"policy", "apply", name, other.path()}), {"is stopped", process});
  EXPECT_EQ(product(*host_, {"bypass", "on", name}).status, 0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 500ms}).received, 1U);
  EXPECT_EQ(product(*host_, {"bypass", "off", name}).status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
  kill(data_plane, SIGCONT);
  ASSERT_TRUE(eventually([&] { return product(*host_, {"status", name}).status == 0; }, 10s));
  EXPECT_EQ(attached_->status().at("policy").at("generation"), 1) << "nobody's policy came later";
  EXPECT_EQ(attached_->data_plane(), data_plane);
  kill(data_plane, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return is_stopped(data_plane); }));
  EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
}

// Both halves are stopped, so that requests wait where nobody has taken them yet.
TEST_F(Commands, WhatAClientHasLeftIsNotDoneLater) {
  attach(policy(R"("description": "first", "default": "drop")"));
  const std::string name = host_port().ifname();
  const pid_t data_plane = attached_->data_plane(), broker = attached_->process().pid();
  kill(broker, SIGSTOP);
  kill(data_plane, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return is_stopped(data_plane) && is_stopped(broker); }));
  const Json apply = {{"text", policy(R"("description": "later", "default": "pass")")},
                      {"file", "later.json"},
                      {"audit", false}};
  for (const auto& [request, arguments] :
       std::vector<std::pair<std::string, Json>>{{"policy.apply", apply},
                                                 {"bypass", Json{{"on", true}}},
                                                 {"flows.flush", Json::object()},
                                                 {"detach", Json::object()}}) {
    std::string problem;
    try {
      ask(name, request, arguments, {}, 200ms);
    } catch (const Error& error) {
      problem = error.what();
    }
    EXPECT_NE(problem.find("no answer to " + request), std::string::npos) << problem;
  }
  kill(data_plane, SIGCONT);
  kill(broker, SIGCONT);
  ASSERT_TRUE(eventually(
      [&] {
        return product(*host_, {"status", name}).status == 0;
      },
      10s))
      << product(*host_, {"status", name}).out;
  std::this_thread::sleep_for(300ms);
  const Json show = Json::parse(product(*host_, {"policy", "show", name, "-o", "json"}).out);
  EXPECT_NE(show.at("text").get<std::string>().find("first"), std::string::npos) << show;
  EXPECT_EQ(show.at("generation"), 1);
  EXPECT_EQ(attached_->status().at("ports").at(0).at("state"), "running");
  EXPECT_EQ(attached_->detach().status, 0);
}

// ---- how it is, and was --------------------------------------------------------------------------------

TEST_F(Commands, StatusEndsWithHowItIs) {
  const std::string name = host_port().ifname(), drop = policy(R"("default": "drop")");
  const auto status = [&](const std::vector<std::string>& more = {}) {
    std::vector<std::string> command{"status", name};
    command.insert(command.end(), more.begin(), more.end());
    return product(*host_, command).status;
  };
  EXPECT_EQ(status(), 1) << "not attached";
  EXPECT_EQ(status({"--nope"}), 2);
  attach(drop);
  EXPECT_EQ(status(), 0);
  EXPECT_EQ(product(*host_, {"bypass", "on", name}).status, 0);
  EXPECT_EQ(status(), 5);
  EXPECT_EQ(status({"-o", "json"}), 5);
  EXPECT_EQ(product(*host_, {"bypass", "off", name}).status, 0);
  EXPECT_EQ(status(), 0);
  const TemporaryFile file(drop);
  EXPECT_EQ(product(*host_, {"policy", "apply", name, file.path(), "--audit"}).status, 0);
  EXPECT_EQ(status(), 4);
  EXPECT_EQ(product(*host_, {"bypass", "on", name}).status, 0);
  EXPECT_EQ(status(), 5) << "the worse of both";
  EXPECT_GE(product(*host_, {"status"}).status, 5) << "the worst of all";
  attached_->kill_outright();
  EXPECT_EQ(status(), 6);
  for (const char* help : {"3 degraded", "4 audit", "5 bypassed", "6 dead"})
    EXPECT_NE(product(*host_, {"status", "--help"}).out.find(help), std::string::npos) << help;
}

TEST_F(Commands, APolicyOnTrialIsSeen) {
  attach(policy(R"("description": "before", "default": "drop")"));
  const std::string name = host_port().ifname();
  const auto in_status = [&] { return attached_->status().at("policy"); };
  const auto in_show = [&] {
    return Json::parse(product(*host_, {"policy", "show", name, "-o", "json"}).out);
  };
  EXPECT_FALSE(in_status().contains("confirm_within_s"));
  const TemporaryFile file(policy(R"("description": "trial", "default": "pass")"));
  ASSERT_EQ(product(*host_, {"policy", "apply", name, file.path(), "--confirm", "60s"}).status, 0);
  for (const Json& where : {in_status(), in_show()}) {
    EXPECT_GT(where.value("confirm_within_s", 0), 30) << where;
    EXPECT_LE(where.value("confirm_within_s", 0), 60) << where;
    EXPECT_TRUE(where.contains("goes_back_to") && where.at("goes_back_to").contains("file")) << where;
  }
  const std::string text = product(*host_, {"status", name}).out;
  EXPECT_NE(text.find("it is on trial: in "), std::string::npos) << text;
  const Outcome show = product(*host_, {"policy", "show", name});
  EXPECT_NE(show.err.find("policy confirm " + name), std::string::npos) << show.err;
  EXPECT_TRUE(Json::accept(show.out)) << "the text alone: " << show.out;
  EXPECT_EQ(product(*host_, {"policy", "confirm", name}).status, 0);
  EXPECT_FALSE(in_status().contains("confirm_within_s"));
  EXPECT_FALSE(in_show().contains("confirm_within_s"));
  EXPECT_EQ(attached_->detach().status, 0);
}

TEST_F(Commands, DetachingAllTakesWhatRunsAndWhatIsLeft) {
  attach(policy(R"("default": "drop")"));
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  Attached other(*host_, AttachSpec{{host_second().ifname()}, policy(R"("default": "drop")")});
  const Outcome all = product(*host_, {"detach", "--all", "-o", "json"});
  ASSERT_EQ(all.status, 0) << all.err;
  const Json list = Json::parse(all.out);
  ASSERT_EQ(list.size(), 2U) << list;
  const bool first = list.at(0).contains("removed");
  EXPECT_TRUE(list.at(first ? 0 : 1).contains("removed")) << list;
  EXPECT_EQ(list.at(first ? 1 : 0).value("event", ""), "end") << list;
  EXPECT_EQ(other.process().wait(10s), 0);
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
  const Outcome again = product(*host_, {"detach", "--all"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("nothing is attached"), std::string::npos) << again.out;
}

TEST_F(Commands, HowTheLastAttachEndedIsSaid) {
  const std::string drop = policy(R"("default": "drop")"), name = host_port().ifname();
  attach(drop);
  attached_->process().signal(SIGTERM);
  ASSERT_EQ(attached_->process().wait(10s), 0) << attached_->process().err();
  const std::string why = fmt::format("SIGTERM from process {}", getpid());
  expect_refused(product(*host_, {"status", name}), {"is not attached", "its last attach ended on ", why});
  expect_refused(product(*host_, {"policy", "show", name}), {"is not attached", why});
  attached_.reset();
  attach(drop);
  EXPECT_NE(attached_->status().value("last_end", Json::object()).value("why", "").find(why),
            std::string::npos)
      << attached_->status();
  EXPECT_NE(product(*host_, {"status", name}).out.find(why), std::string::npos);
  const Json show = Json::parse(product(*host_, {"policy", "show", name, "-o", "json"}).out);
  EXPECT_TRUE(show.contains("last_end")) << show;
  EXPECT_EQ(attached_->detach().status, 0);
  expect_refused(product(*host_, {"status", name}), {"is not attached", "\"xdpgpu detach\""});
  attached_.reset();
  // Whoever was killed says nothing, and what was said before is not its end.
  attach(drop);
  attached_->kill_outright();
  EXPECT_EQ(product(*host_, {"status", name}).err.find("its last attach"), std::string::npos);
  EXPECT_EQ(product(*host_, {"detach", name}).status, 0);
  expect_refused(product(*host_, {"status", name}), {"is not attached", "was killed"});
}

// What a kept attach leaves decides, and nobody was killed.
TEST_F(Commands, WhatIsKeptIsSaidToDecide) {
  const std::string name = host_port().ifname(), kept = "\"xdpgpu detach --keep\"";
  attach(policy(R"("default": "drop")"));
  ASSERT_EQ(product(*host_, {"detach", name, "--keep"}).status, 0);
  EXPECT_NE(attached_->process().wait(10s), -1);
  const std::vector<std::string> said{"is not attached", kept, "goes on deciding", "xdpgpu detach " + name};
  expect_refused(product(*host_, {"status", name}), said);
  expect_refused(product(*host_, {"detach", name, "--keep"}), said);
  // Asked about all of them, too.
  const Outcome all = product(*host_, {"status"});
  EXPECT_NE(all.status, 0) << all.out;
  EXPECT_NE(all.err.find(name + " is not attached"), std::string::npos) << all.out << all.err;
  EXPECT_EQ(all.out.find("no interface is attached"), std::string::npos) << all.out;
  const Outcome detach = product(*host_, {"detach", name});
  EXPECT_EQ(detach.status, 0) << detach.err;
  EXPECT_NE(detach.out.find(kept), std::string::npos) << detach.out;
  EXPECT_EQ(detach.out.find("dead"), std::string::npos) << detach.out;
  const Outcome after = product(*host_, {"status", name});
  expect_refused(after, {"is not attached", kept, "and then \"xdpgpu detach\" removed"});
  for (const char* words : {"killed", "goes on deciding"})
    EXPECT_EQ(after.err.find(words), std::string::npos) << after.err;
  attached_.reset();
}

// ---- what others have taken away ------------------------------------------------------------------------

TEST_F(Commands, RemovedPinsAreMadeAgainForAKeptProgram) {
  const std::string closed = policy(R"("default": "drop", "on_failure": "drop")"),
                    name = host_port().ifname();
  attach(closed);
  const auto program = xdp_state(host_port()).program_id;
  std::filesystem::remove_all(Pins::directory(*host_, name));
  const Outcome detach = product(*host_, {"detach", name, "--keep"});
  EXPECT_EQ(detach.status, 0) << detach.out << detach.err;
  EXPECT_NE(detach.out.find("left to the kernel"), std::string::npos) << detach.out;
  EXPECT_NE(attached_->process().wait(10s), -1);
  EXPECT_EQ(xdp_state(host_port()).program_id, program);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 300ms}).received, 0U) << "it is open";
  const std::unique_ptr<Attached> before = std::move(attached_);
  attach(closed);
  EXPECT_TRUE(attached_->ready().contains("goes_on"));
  EXPECT_EQ(attached_->detach().status, 0);
}

TEST_F(Commands, ARunFolderThatTakesNothingIsSaidWithItsCure) {
  if (access("/usr/bin/unshare", X_OK) != 0) GTEST_SKIP() << "no unshare(1)";
  const std::string name = host_port().ifname();
  const auto attach_where = [&](const std::string& prepared) {
    return run_program(*host_,
                       {"/usr/bin/unshare", "-m", "/bin/sh", "-c",
                        fmt::format("mkdir -p {0} && {1} && exec {2} attach {3} --pass-all --device cpu",
                                    XG_RUN_ROOT, prepared, product_path(), name)});
  };
  const Outcome readonly = attach_where("mount -t tmpfs -o ro,mode=755 tmpfs " XG_RUN_ROOT);
  expect_refused(readonly, {XG_RUN_ROOT, "Read-only file system", "mount it writable"});
  const Outcome full = attach_where("mount -t tmpfs -o nr_inodes=1,mode=755 tmpfs " XG_RUN_ROOT);
  expect_refused(full, {XG_RUN_ROOT, "No space left on device", "df -i /run"});
  for (const auto& outcome : {readonly, full})
    EXPECT_EQ(outcome.err.find("as root"), std::string::npos) << outcome.err;
  EXPECT_EQ(xdp_state(host_port()).mode, XdpAttach::none);
}

TEST_F(Commands, FewOpenFilesAreMadeMoreOrSaid) {
  const std::string name = host_port().ifname();
  const auto attach_with = [&](const std::string& before) {
    return run_program(*host_, {"/bin/sh", "-c",
                                fmt::format("{}exec {} attach {} --pass-all --device cpu --daemon", before,
                                            product_path(), name)});
  };
  const Outcome raised = attach_with("ulimit -S -n 16; ");
  EXPECT_EQ(raised.status, 0) << raised.out << raised.err;
  EXPECT_EQ(product(*host_, {"detach", name}).status, raised.status == 0 ? 0 : 1);
  if (access("/usr/bin/setpriv", X_OK) != 0) return;
  // Not even root may have more of them without CAP_SYS_RESOURCE.
  const Outcome refused = run_program(
      *host_, {"/usr/bin/setpriv", "--bounding-set", "-sys_resource", "/bin/sh", "-c",
               fmt::format("ulimit -n 16; exec {} attach {} --pass-all --device cpu", product_path(), name)});
  expect_refused(refused, {"only 16 files may be open", "ulimit -n 4096", "LimitNOFILE=4096"});
  EXPECT_EQ(xdp_state(host_port()).mode, XdpAttach::none);
}

TEST_F(Commands, ADoctorSaysWhatIsAttachedAlready) {
  const std::string& name = host_port().ifname();
  const Outcome before = product(*host_, {"doctor", name});
  EXPECT_NE(before.out.find("ready to attach to " + name), std::string::npos) << before.out;
  attach(R"({"version": 1})");
  const Outcome text = product(*host_, {"doctor", name});
  EXPECT_EQ(text.status, 0) << text.out;
  EXPECT_EQ(text.out.find("ready to attach"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(name + " is attached already"), std::string::npos) << text.out;
  const Json json = Json::parse(product(*host_, {"doctor", name, "-o", "json"}).out);
  EXPECT_EQ(json.at("attached"), Json::array({name}));
  EXPECT_EQ(json.at("attachable"), Json::array());
}

// Doctor says what attach will do.
TEST_F(Commands, ADoctorBlocksAForeignProgramAndNamesWhoHasIt) {
  const std::string name = host_port().ifname();
  EXPECT_EQ(product(*host_, {"doctor", name}).status, 0);
  const auto expect_blocked = [&](const std::string& cure) {
    const Outcome doctor = product(*host_, {"doctor", name});
    EXPECT_EQ(doctor.status, 1) << doctor.out;
    for (const std::string& word : {std::string("somebody_elses"), cure, std::string("--replace"),
                                    std::string("attach would be refused")})
      EXPECT_NE(doctor.out.find(word), std::string::npos) << word << ": " << doctor.out;
    EXPECT_EQ(product(*host_, {"attach", name, "--pass-all", "--device", "cpu"}).status, 1) << "as it says";
  };
  {
    const XdpProgram foreign(host_port(), 2, false, "somebody_elses");
    expect_blocked(fmt::format("ip link set dev {} xdp off", name));
  }
  const bpf_insn pass[] = {{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 2},
                           {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
  const Fd program(bpf_prog_load(BPF_PROG_TYPE_XDP, "somebody_elses", "GPL", pass, std::size(pass), nullptr));
  ASSERT_TRUE(program);
  const Fd link(host_->run([&] {
    bpf_link_create_opts options{};
    options.sz = sizeof(options);
    options.flags = XDP_FLAGS_DRV_MODE;
    return bpf_link_create(program.get(), static_cast<int>(host_port().ifindex()), BPF_XDP, &options);
  }));
  ASSERT_TRUE(link);
  expect_blocked(fmt::format("stop process {} (", getpid()));
}

}  // namespace
}  // namespace xdpgpu::lab
