// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/domain_names.hpp"
#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

constexpr u32 kReach = 1024;
constexpr u8 kUdp = 17;

// What a message asks for.
struct Question {
  bool malformed = false;
  std::string name{};  // in lower case, a dot between its labels; empty: none, or the root
  std::size_t labels = 0;
  bool query = false;
};

Question question_of(std::span<const u8> message) {
  if (message.size() < 12) return {.malformed = true};
  const u32 questions = number(message, 4);
  if (questions != 1) return {.malformed = questions != 0};
  Question question;
  question.query = message[2] < 8;
  std::size_t at = 12;
  while (at < message.size() && message[at] != 0) {
    const u8 length = message[at];
    if (length > 63 || at + 1 + length >= message.size()) return {.malformed = true};
    if (question.labels++ != 0) question.name += '.';
    // A dot inside of a label is none of those between them: no list has such a label.
    for (const u8 byte : message.subspan(at + 1, length))
      question.name += static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte + 32 : byte == '.' ? 0 : byte);
    at += 1 + length;
  }
  if (at - 12 + 1 > 255 || at + 5 > message.size()) return {.malformed = true};
  return question;
}

bool stands_for(const DomainEntry& entry, std::string_view name) {
  if (name == entry.name) return entry.itself;
  return entry.beneath && name.size() > entry.name.size() && name.ends_with(entry.name) &&
         name[name.size() - entry.name.size() - 1] == '.';
}

class Domains final : public StageWith<DomainsSettings> {
 public:
  using StageWith::StageWith;
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    if (packet.src.empty() || packet.ports.empty()) return false;
    const auto served = [&](u32 port) {
      return std::any_of(settings().ports.begin(), settings().ports.end(),
                         [&](const PortRange& range) { return port >= range.first && port <= range.last; });
    };
    if (!served(number(packet.ports, 0)) && !served(number(packet.ports, 2))) return false;
    const auto lists = static_cast<u32>(settings().lists.size());
    if (packet.metadata.protocol != kUdp) return act(settings().tcp, 0, place.position, lists + 2, result);
    const std::vector<u8> bytes = first_bytes(packet, kReach);
    const std::size_t begin = packet.metadata.payload_offset;
    const bool there = begin != 0 && begin < bytes.size();
    const Question question =
        there ? question_of(std::span(bytes).subspan(begin)) : Question{.malformed = true};
    if (question.malformed) return act(settings().malformed, 0, place.position, lists + 1, result);
    const u32 list = list_of(question);
    if (list == 0) return act(settings().otherwise, 0, place.position, 0, result);
    const DomainList& found = settings().lists[list - 1];
    const bool outermost = packet.l3 == packet.outer.l3_offset;
    if (found.action == Action::refuse && question.query && outermost) result.flags |= XG_RES_REFUSED;
    return act(found.action, found.target, place.position, list, result);
  }
  bool may_send() const override {
    return std::any_of(settings().lists.begin(), settings().lists.end(),
                       [](const DomainList& list) { return sends(list.action); });
  }

 private:
  // 1 + its number; 0: none has it.
  u32 list_of(const Question& question) const {
    u32 list = 0, most = 0;
    if (question.labels == 0) return 0;
    for (u32 i = 0; i < settings().lists.size(); i++)
      each_name(settings().lists[i].names, [&](const DomainEntry& entry) {
        if (!stands_for(entry, question.name) || labels_of(entry.name) <= most) return;
        most = labels_of(entry.name);
        list = i + 1;
      });
    return list;
  }
};

}  // namespace

std::unique_ptr<Stage> reference_of(const DomainsSettings& settings, const std::array<u64, 2>&) {
  return std::make_unique<Domains>(settings);
}

}  // namespace xdpgpu::gpu::reference
