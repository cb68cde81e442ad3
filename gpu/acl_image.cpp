// SPDX-License-Identifier: MIT
#include "gpu/acl_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "gpu/stages/image.h"

namespace xdpgpu::gpu {
namespace {

__extension__ typedef unsigned __int128 u128;

// The values first..last of a dimension on which a rule's condition holds.
template <class Key>
struct Range {
  Key first;
  Key last;
  u32 rule;
};

Range<u128> range6(const Prefix& prefix, u32 rule) {
  u128 address = 0;
  for (u8 byte : prefix.address) address = address << 8 | byte;
  const u128 host = prefix.length == 0 ? ~u128{0} : (u128{1} << (128 - prefix.length)) - 1;
  return {address & ~host, address | host, rule};
}

Range<u32> range4(const Prefix& prefix, u32 rule) {
  u32 address = 0;
  for (u32 i = 0; i < 4; i++) address = address << 8 | prefix.address[i];
  const u32 host = prefix.length == 0 ? ~u32{0} : static_cast<u32>((u64{1} << (32 - prefix.length)) - 1);
  return {address & ~host, address | host, rule};
}

void append_key(std::vector<u32>& image, u32 key) { image.push_back(key); }
void append_key(std::vector<u32>& image, u128 key) {
  for (int shift = 96; shift >= 0; shift -= 32) image.push_back(static_cast<u32>(key >> shift));
}

// A row under construction. Ranges of one rule may overlap, so it counts how many of them hold.
class Row {
 public:
  Row(u32 rules, u32 bits) : holding_(rules, 0), bits_(bits, 0) {}

  void add(u32 rule) {
    if (holding_[rule]++ == 0) bits_[rule / 32] |= 1u << rule % 32;
  }
  void remove(u32 rule) {
    if (--holding_[rule] == 0) bits_[rule / 32] &= ~(1u << rule % 32);
  }
  const std::vector<u32>& bits() const { return bits_; }

 private:
  std::vector<u32> holding_;
  std::vector<u32> bits_;
};

class Builder {
 public:
  Builder(const AclSettings& settings, std::vector<u32>& image)
      : settings_(settings),
        image_(image),
        rules_(static_cast<u32>(settings.rules.size())),
        bits_(std::max<u32>(1, (rules_ + 31) / 32)),
        summary_((bits_ + 31) / 32) {}

  Result<u32> build() {
    std::vector<u32> body(XG_ACL_WORDS, 0);
    body[XG_BODY_CACHE] = settings_.cache ? 1 : 0;
    body[XG_BODY_TTL] = settings_.cache_ttl_ms;
    body[XG_ACL_BITS] = bits_;
    body[XG_ACL_SUMMARY] = summary_;
    body[XG_ACL_OTHERWISE] = action_word(settings_.otherwise, 0, 0);
    body[XG_ACL_ACTIONS] = position();
    for (u32 i = 0; i < rules_; i++)
      image_.push_back(action_word(settings_.rules[i].action, settings_.rules[i].target, i + 1));

    addresses(&AclRule::src, &body[XG_ACL_NO_SRC], &body[XG_ACL_SRC4], &body[XG_ACL_SRC6]);
    addresses(&AclRule::dst, &body[XG_ACL_NO_DST], &body[XG_ACL_DST4], &body[XG_ACL_DST6]);
    ports(&AclRule::src_ports, &body[XG_ACL_SRC_PORT]);
    ports(&AclRule::dst_ports, &body[XG_ACL_DST_PORT]);
    protocols(&body[XG_ACL_PROTOCOL]);
    if (too_large_)
      return tl::unexpected(fmt::format(
          "its {} rules overlap so much that their table would exceed {} MiB: give it fewer rules", rules_,
          kImageMaxWords * sizeof(u32) >> 20));
    const u32 at = position();
    image_.insert(image_.end(), body.begin(), body.end());
    return at;
  }

 private:
  u32 position() const { return static_cast<u32>(image_.size()); }

  // Equal rows are stored once.
  u32 store(const std::vector<u32>& bits) {
    const std::string_view bytes(reinterpret_cast<const char*>(bits.data()), bits.size() * sizeof(u32));
    auto [known, end] = rows_.equal_range(std::hash<std::string_view>{}(bytes));
    for (; known != end; ++known)
      if (std::equal(bits.begin(), bits.end(), image_.begin() + known->second + summary_))
        return known->second;
    if (image_.size() + summary_ + bits_ > kImageMaxWords) {
      too_large_ = true;
      return 0;
    }
    const u32 at = position();
    image_.resize(image_.size() + summary_, 0);
    for (u32 i = 0; i < bits_; i++)
      if (bits[i] != 0) image_[at + i / 32] |= 1u << i % 32;
    image_.insert(image_.end(), bits.begin(), bits.end());
    rows_.emplace(std::hash<std::string_view>{}(bytes), at);
    return at;
  }

  // Sweeps over the dimension's values and cuts it where a condition begins or ends. `always`: the rules
  // that have no condition there. Fills the three words of a dimension.
  template <class Key>
  void dimension(const Row& always, const std::vector<Range<Key>>& ranges, u32* words) {
    struct Event {
      Key at;
      u32 rule;
      bool begins;
    };
    std::vector<Event> events;
    for (const auto& range : ranges) {
      events.push_back({range.first, range.rule, true});
      if (range.last != static_cast<Key>(~Key{0})) events.push_back({range.last + 1, range.rule, false});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at < b.at; });

    std::vector<Key> starts;
    std::vector<u32> rows;
    Row row = always;
    Key start = 0;
    for (std::size_t i = 0; !too_large_;) {
      for (; i < events.size() && events[i].at == start; i++)
        if (events[i].begins) row.add(events[i].rule);
      // An interval may begin and end rules at one value: ends come second so that no count goes below 0.
      for (std::size_t j = i; j-- > 0 && events[j].at == start;)
        if (!events[j].begins) row.remove(events[j].rule);
      const u32 stored = store(row.bits());
      if (rows.empty() || rows.back() != stored) {
        starts.push_back(start);
        rows.push_back(stored);
      }
      if (i == events.size()) break;
      start = events[i].at;
    }
    words[0] = position();
    words[1] = static_cast<u32>(starts.size());
    for (Key key : starts) append_key(image_, key);
    words[2] = position();
    image_.insert(image_.end(), rows.begin(), rows.end());
  }

  void addresses(std::vector<Prefix> AclRule::*field, u32* none, u32* v4, u32* v6) {
    Row always(rules_, bits_);
    std::vector<Range<u32>> ranges4;
    std::vector<Range<u128>> ranges6;
    for (u32 i = 0; i < rules_; i++) {
      const auto& prefixes = settings_.rules[i].*field;
      if (prefixes.empty()) always.add(i);
      for (const Prefix& prefix : prefixes) {
        if (prefix.family == 4)
          ranges4.push_back(range4(prefix, i));
        else
          ranges6.push_back(range6(prefix, i));
      }
    }
    *none = store(always.bits());
    dimension(always, ranges4, v4);
    dimension(always, ranges6, v6);
  }

  void ports(std::vector<PortRange> AclRule::*field, u32* words) {
    Row always(rules_, bits_);
    std::vector<Range<u32>> ranges;
    for (u32 i = 0; i < rules_; i++) {
      if ((settings_.rules[i].*field).empty()) always.add(i);
      for (const PortRange& range : settings_.rules[i].*field) ranges.push_back({range.first, range.last, i});
    }
    dimension(always, ranges, words);
  }

  void protocols(u32* words) {
    Row always(rules_, bits_);
    std::vector<Range<u32>> ranges;
    for (u32 i = 0; i < rules_; i++) {
      if (settings_.rules[i].protocols.empty()) always.add(i);
      for (u8 protocol : settings_.rules[i].protocols) ranges.push_back({protocol, protocol, i});
    }
    dimension(always, ranges, words);
  }

  const AclSettings& settings_;
  std::vector<u32>& image_;
  u32 rules_;
  u32 bits_;
  u32 summary_;
  bool too_large_ = false;
  std::unordered_multimap<std::size_t, u32> rows_;  // hash of the bits -> row
};

}  // namespace

u32 action_word(AclRule::Action action, u32 target, u32 rule) {
  switch (action) {
    case AclRule::Action::next:
      return XG_NEXT;
    case AclRule::Action::drop:
      return XG_VERDICT(XG_DROP, 0u, 0u, rule);
    case AclRule::Action::pass:
      return XG_VERDICT(XG_PASS, 0u, 0u, rule);
    case AclRule::Action::tx:
      return XG_VERDICT(XG_TX, 0u, 0u, rule);
    case AclRule::Action::redirect:
      return XG_VERDICT(XG_REDIRECT, target, 0u, rule);
  }
  return XG_ABORTED;
}

Result<u32> append_acl(const AclSettings& settings, std::vector<u32>& image) {
  return Builder(settings, image).build();
}

}  // namespace xdpgpu::gpu
