// SPDX-License-Identifier: MIT
//
// gpu/reference/stage.hpp: a stage of the sequential reference: what gpu/stages/<name>/reference.cpp is
// written with. Of each stage there is one function, declared in gpu/stages/references.hpp, which is made of
// gpu/stages/stages.def:
//
//   std::unique_ptr<Stage> reference_of(const XSettings& settings, const std::array<u64, 2>& secret);
#pragma once

#include <memory>
#include <optional>

#include "gpu/reference/packet.hpp"
#include "gpu/reference/table.hpp"

namespace xdpgpu::gpu::reference {

// What the stages behind one do with a packet that goes on.
enum class Fate : u32 { to_host, sent_on, dropped, undecided };

// What a packet asks about the pipeline that it is in.
class Behind {
 public:
  virtual ~Behind() = default;
  // What the stages behind do with it, as far as no table is asked.
  virtual Fate fate() const = 0;
  // Whether some stage behind may send packets on, past the host's stack.
  virtual bool sends() const = 0;
  // Whether one inspects packets.
  virtual bool inspects() const = 0;
};

// Where a stage stands, for one packet.
struct Place {
  u32 position = 0;       // in its pipeline, from 1
  u32 first_rewrite = 0;  // number of its first rewrite
  const Behind* behind = nullptr;
  // The packet's records, all zero, for stages that edit.
  xg_edit* edit = nullptr;
  xg_adjust* adjust = nullptr;
  // Likewise, for those that tell of rules.
  xg_alerts* alerts = nullptr;
  // And for one that leaves the packet as it likes, which only the last stage may.
  xg_patch* patch = nullptr;
  // And for one that puts something out, of which a pipeline has one.
  xg_event* event = nullptr;
  bool is_last = false;
};

// A stage of one pipeline, and what it remembers of its packets.
class Stage {
 public:
  virtual ~Stage() = default;
  // False: the packet goes on. Else `result` says what becomes of it.
  virtual bool decide(const Packet& packet, const Place& place, xg_result& result) = 0;
  // A packet that the host sends. Such packets are decided by no stage.
  virtual void note_sent(const Packet&, const Place&) {}
  // By other settings of the same stage from here on, which outlive this or the next change.
  virtual void change(const StageSettings& settings) = 0;
  // The stage whose routes it looks up, which outlives this or the next change; nullptr: there is none.
  virtual void look_up_in(const StageSettings*) {}
  // How many rewrites it has for the kernel to apply.
  virtual u32 rewrites() const { return 0; }
  virtual bool may_send() const { return false; }
  // For how many milliseconds what it lets go on may be remembered, 0: without end; nothing: not at all.
  virtual std::optional<u32> cached_undecided() const { return std::nullopt; }
  virtual bool remembers() const { return false; }
  virtual bool inspects() const { return false; }
  // Of one that remembers: its table word for word as a device has it.
  virtual std::vector<u32> table() const { return {}; }
};

template <class Settings>
class StageWith : public Stage {
 public:
  explicit StageWith(const Settings& settings) : settings_(&settings) {}
  void change(const StageSettings& settings) override { settings_ = &std::get<Settings>(settings); }

 protected:
  const Settings& settings() const { return *settings_; }

 private:
  const Settings* settings_;
};

// Two bytes in network order.
inline u32 number(std::span<const u8> bytes, u32 at) { return bytes[at] * 256u + bytes[at + 1]; }
// False also where the prefix is of the other family.
bool contains(const Prefix& prefix, std::span<const u8> address);
// Addresses of six bytes each.
void set_macs(const Place& place, std::span<const u8> dst, std::span<const u8> src, xg_result& result);
// Where the packet's verdict can be cached at all.
void set_cache(bool cache, u32 ttl_ms, const Packet& packet, u32 rewrite, xg_result& result);
// The verdict that sends to a port, or back.
u32 send_verdict(bool to_port, u32 target, u32 stage);
// False: the packet goes on.
bool act(Action action, u32 target, u32 stage, u32 number, xg_result& result);
bool sends(Action action);

}  // namespace xdpgpu::gpu::reference
