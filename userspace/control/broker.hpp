// SPDX-License-Identifier: MIT
//
// userspace/control/broker.hpp: the privileged half of attach. It makes what only root can make, hands
// the data plane descriptors, answers its requests, starts it again when it dies (data_plane_life.hpp), and
// undoes everything when it is told to.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "userspace/control/channel.hpp"
#include "userspace/control/compiler_process.hpp"
#include "userspace/control/data_plane_life.hpp"
#include "userspace/control/kernel_programs.hpp"
#include "userspace/control/leftovers.hpp"
#include "userspace/control/link_watch.hpp"
#include "userspace/control/log_places.hpp"
#include "userspace/control/offloads.hpp"
#include "userspace/control/plan.hpp"
#include "userspace/control/policy_swap.hpp"
#include "userspace/control/policy_tables.hpp"
#include "userspace/control/port_control.hpp"
#include "userspace/control/requests.hpp"
#include "userspace/control/service_manager.hpp"
#include "userspace/dataplane/in_hand.hpp"
#include "userspace/kernel/gateways.hpp"
#include "userspace/kernel/remains.hpp"

namespace xdpgpu::control {

class Broker : private DataPlaneKeeper {
 public:
  // Makes the kernel's side of every port, in an order that harms no traffic: a program passes
  // everything until the data plane says otherwise. On failure everything is undone.
  static Result<std::unique_ptr<Broker>> make(Plan plan, const AttachOptions& options);
  ~Broker() override;

  // Forks the data plane, serves it, and returns the exit status once all is undone. `on_ready` is called
  // when traffic flows. The service manager is told how it goes.
  int run(const std::function<void()>& on_ready, ServiceManager& manager);

 private:
  struct Port;
  explicit Broker(Plan plan, const AttachOptions& options);
  kernel::PortOptions options_of(u32 index) const;
  // What a dead attach left on every one of the interfaces, if it can be gone on with; else why it cannot is
  // added to the warnings, if there is something.
  std::vector<kernel::Remains> find_remains();
  Result<void> make_port(u32 index);
  // In place of those that are there.
  Result<void> make_reinjection(u32 index);
  Result<void> make_cutter(u32 index);
  // Decides whether the port's workers poll its driver, and puts its interrupts off if asked for.
  Result<void> set_up_busy_poll(Port& port, const std::string& name);
  Result<void> make_sockets();
  Result<Started> fork_data_plane(const DeathRecord& before);
  // What it throws ends the child, and nothing of it reaches what the broker would undo.
  [[noreturn]] void become_data_plane(Channel channel, const DeathRecord& before) noexcept;

  // The life of the data plane: broker_life.cpp.
  Result<Started> start(const DeathRecord& before, bool& gone) override;
  Requests::Duties duties() override;
  std::string bury(u64 death, bool served) override;
  bool finish(bool keep) override;
  void reap() override;
  void never_began() override { end(); }
  Result<StatusReport> report(bool of_the_dead) override;
  Result<void> bypass(bool on, std::chrono::seconds ends_after) override;
  std::chrono::milliseconds due_in() const override;
  // Until the bypass ends by itself; 0: it does not.
  std::chrono::milliseconds bypass_left() const;
  void end_bypass() noexcept;
  std::vector<std::string> keep_house() override;
  int news_fd() const override { return news_.fd(); }
  bool is_on_trial() const override;
  void note_end(const std::string& why, bool left) noexcept override;
  bool decides() const override;
  std::string interfaces() const override;
  void note_confirmed();
  std::string on_failure() const override;
  Result<void> follow_interfaces(bool& gone);
  // The policy by which the kernel decides, on all ports: one that died while it put a policy in force had it
  // whole on each before it began.
  Result<void> find_in_force();
  void count_lost();
  // Files in memory; empty: the frames stand in the data plane alone.
  struct FrameFiles {
    kernel::Fd ordinary, huge;
  };
  void make_frame_files();
  std::vector<dataplane::PacketInHand> last_packets(const FrameFiles& frames) const;
  // Returns where they are, or why they are nowhere.
  std::string keep_packets(const std::vector<dataplane::PacketInHand>& packets, u64 death) const;
  // But for its maps.
  dataplane::PortSpec spec_of(u32 index) const;

  // What the data plane has changed in the ports' maps: broker_maps.cpp.
  Result<void> open_controls();
  Result<void> install(u32 slot, const kernel::PolicyMaps& maps, const xg_policy& header);
  Result<void> activate(u32 slot, u32 generation, u64 policy_hash);
  Result<void> set_state(u32 state, bool bypassed_too);
  Result<void> load_program(u32 slot, u32 number, const std::string& pipeline, const kernel::Fd& memory);
  Result<KernelPrograms::Made> make_program_maps(u32 slot, u32 number, const std::string& place,
                                                 const kernel::Fd& memory);
  Result<Requests::Duties::ProgramMap> program_map(u32 slot, u32 number, u32 which);
  Result<void> retire_programs(u32 slot);
  std::vector<KernelPrograms::Port> program_ports() const;
  bool goes_by(u32 slot) const;  // some port's packets
  // Moves what bears an interface's name to the name that it has now.
  Result<std::string> rename(u32 port);
  // Puts the egress feed on every port, or takes it off.
  Result<void> watch_egress(bool on);
  // Tells the XDP programs of the default gateways' MAC addresses, if they are others now.
  void look_for_gateways();
  // Likewise of the ports' own. One that cannot be told stays as it was. Returns what has changed.
  std::vector<std::string> look_at_macs();
  // Puts back what others have undone of the ports' pairs, once a second and when there are news. Where that
  // cannot be, on_failure decides there until it can.
  std::vector<std::string> guard_pairs();
  void guard(u32 index, std::vector<std::string>& said);
  void guard_cutter(u32 index, std::vector<std::string>& said);
  // One that is gone is made anew. Without a data plane, as that has sockets on it.
  Result<void> renew_pairs();
  void undo() noexcept;
  // Likewise, but program, pins and changed settings stay for a later attach, of every interface that is
  // still there; false where they cannot.
  bool leave() noexcept;
  static void leave(Port& port) noexcept;
  static bool has_its_program(const Port& port, u32 ifindex) noexcept;
  // As it has to end if it ends now: a start that goes on from what a dead attach left, and fails, leaves
  // that to the next one.
  void end() noexcept;
  void leave_as_it_is() noexcept;

  Plan plan_;
  const AttachOptions& options_;
  std::vector<kernel::Remains> remains_;  // by port, until they are taken; empty: it starts anew
  std::optional<InForce> in_force_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<PortControl> controls_;  // by port
  PolicyTables tables_;
  KernelPrograms programs_;
  CompilerProcess compiler_, translator_;  // of policies, and of the programs that they name
  LogPlaces logs_;
  kernel::Fd listener_;
  std::vector<std::string> socket_files_;
  kernel::Fd signals_;
  FrameFiles frames_;       // of the data plane that lives
  kernel::Fd kept_policy_;  // the one that was applied last, if it is not the plan's
  u64 confirmed_hash_ = 0;  // of the policy that is there for good
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  kernel::Gateways gateways_;
  std::optional<xg_gateways> told_;
  std::vector<u64> macs_;  // by port: xg_config.mac; 0: not known yet
  std::chrono::steady_clock::time_point next_look_{};
  LinkWatch news_;
  std::chrono::steady_clock::time_point next_guard_{};
  std::optional<std::chrono::steady_clock::time_point> bypass_ends_;
  bool ready_ = false;  // said the data plane
  bool undone_ = false;
};

}  // namespace xdpgpu::control
