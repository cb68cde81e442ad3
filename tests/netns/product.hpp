// SPDX-License-Identifier: MIT
//
// tests/netns/product.hpp: the real xdpgpu binary, attached in a laboratory, and what it says and leaves.
// What it did is read from its pinned maps by this file's own code, so that the product's own reports can
// be held against it.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "maps/control.h"
#include "maps/flow.h"
#include "tests/netns/lab.hpp"

namespace xdpgpu::lab {

using Json = nlohmann::json;

// The program under test: $XDPGPU_BIN, else `xdpgpu` beside this test's binary. Throws Error.
std::string product_path();
// $XDPGPU_DEVICE, else "cpu".
std::string device_under_test();
// The source tree; where a bundle runs ($XDPGPU_TEST_CAPTURES), its own root, which has some of the same
// files at the same places.
std::filesystem::path source_tree();

// A port's pinned maps. Descriptors are opened at construction and stay good after detach, so that the
// last counts can be read when nothing counts any more.
class Pins {
 public:
  // Throws Error when the pins are not there.
  Pins(const Namespace& ns, const std::string& ifname);
  explicit Pins(const std::string& ifname);  // in whichever namespace the product has pins of that name
  static std::string directory(const Namespace& ns, const std::string& ifname);
  // That of the one namespace in which something is pinned under this name; where there is none, one that is
  // not there. Throws Error where there are several.
  static std::string directory(const std::string& ifname);

  using Counts = std::map<std::string, std::uint64_t>;
  Counts kernel_counts() const;  // packets by reason, all CPUs; one reason is read after the other
  // What came of the packets that `kernel` counts as received.
  static std::uint64_t outcomes(const Counts& kernel);
  // Packets that came to an end, of those that `worker` counts as received.
  static std::uint64_t ends(const Counts& worker);
  Counts worker_counts() const;  // all queues
  Counts worker_counts(std::uint32_t queue) const;
  std::uint64_t kernel(const std::string& reason) const { return kernel_counts().at(reason); }
  std::uint64_t worker(const std::string& reason) const { return worker_counts().at(reason); }

  // All counts that are not 0, for messages.
  std::string summary() const;
  xg_config config() const;
  // Verdicts in the table that are of the active generation.
  std::vector<xg_flow_verdict> flows() const;
  // The one of a flow by its ports (host order).
  std::optional<xg_flow_verdict> flow(std::uint16_t src_port, std::uint16_t dst_port) const;

 private:
  void open(const std::string& directory);
  std::map<std::string, Fd> maps_;
};

// What the product has in /run for an interface: `kind` is "sock", "offloads" or "busy-poll". The second one
// finds it as Pins::directory does.
std::string run_file(const Namespace& ns, const std::string& ifname, const std::string& kind);
std::string run_file(const std::string& ifname, const std::string& kind);

struct AttachSpec {
  std::vector<std::string> interfaces;
  std::string policy{};  // JSON; empty: none
  bool generic = false;  // --mode generic, else --mode copy (native XDP; veth has no zero-copy)
  unsigned queues = 0;   // 0: not said
  std::vector<std::string> more{};
  bool device_by_policy = false;  // else --device device_under_test()
  bool mode_by_policy = false;    // no --mode at all
  std::string policy_file{};      // instead of `policy`, taken as it is
  unsigned patience_s = 30;       // until traffic is handled; a verifier under emulation takes its time
};

// A file that goes with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content, const std::string& suffix = ".json");
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const noexcept { return path_; }
  void write(const std::string& content) const;

 private:
  std::string path_;
};

// `xdpgpu ARGUMENTS` run to its end in the namespace.
Outcome product(const Namespace& ns, const std::vector<std::string>& arguments);

// What an attach has started, by its first process: the data plane, and whatever else there is. And the
// compiler; -1: there is none now.
std::vector<pid_t> but_for_the_compiler(pid_t broker);
pid_t compiler_of(pid_t broker);

// `xdpgpu attach` in the foreground of a child process. The constructor returns when traffic is handled,
// and throws Error with what the program said if it does not come to that.
class Attached {
 public:
  Attached(const Namespace& ns, const AttachSpec& spec);
  ~Attached();                                                 // ends it, cleans up what it may have left
  void leave_what_is_left() noexcept { interfaces_.clear(); }  // it cleans up nothing
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

  Process& process() { return *process_; }
  // What it said when it was ready (-o json).
  Json ready() const;
  const Pins& pins(std::size_t port = 0) const { return *pins_.at(port); }
  const std::string& ifname(std::size_t port = 0) const { return interfaces_.at(port); }

  Json status() const;  // `status -o json`; throws Error when that fails
  // `policy apply`.
  Outcome apply(const std::string& policy) const;
  // `detach`, and the attach process's end. The latter's exit status; both outputs in out and err.
  Outcome detach();
  // SIGKILL to every process of it, and waits until they are dead.
  void kill_outright();
  // The data plane's process.
  pid_t data_plane() const;
  pid_t compiler() const { return compiler_of(process_->pid()); }

 private:
  void clean_up() noexcept;
  const Namespace* ns_;
  std::vector<std::string> interfaces_;
  TemporaryFile policy_;
  std::unique_ptr<Process> process_;
  std::vector<std::unique_ptr<Pins>> pins_;
};

// What xdpgpu left behind, one line each: programs, pins, sockets, links other than `links`, qdiscs,
// processes. Empty: nothing.
std::vector<std::string> leftovers(const Namespace& ns, const std::vector<std::string>& links);

// Waits until `condition` holds.
template <class F>
bool eventually(F&& condition, std::chrono::milliseconds timeout = std::chrono::seconds(3)) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace xdpgpu::lab
