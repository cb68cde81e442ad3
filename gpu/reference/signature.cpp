// SPDX-License-Identifier: MIT
#include "gpu/reference/signature.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "gpu/reference/stage.hpp"
#include "maps/parse.h"

namespace xdpgpu::gpu::reference {
namespace {

namespace sig = signatures;

// ---- the header ----------------------------------------------------------------------------------------

template <class T>
bool is_in(const sig::Ranges<T>& ranges, const T& value) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const auto& range) { return range.first <= value && value <= range.last; });
}

bool is_in(const sig::Addresses& addresses, std::span<const u8> address) {
  sig::Address value{};
  std::copy(address.begin(), address.end(), value.begin());
  return is_in(address.size() == 4 ? addresses.v4 : addresses.v6, value);
}

bool is_in(const std::optional<sig::Ranges<u16>>& ports, const std::optional<u16>& port) {
  return !ports || (port && is_in(*ports, *port));
}

bool header_matches(const sig::Header& header, const SignaturePacket& packet) {
  if (!(packet.v4 ? header.v4 : header.v6) || !header.protocols[packet.protocol]) return false;
  const auto one_way = [&](auto src, auto dst, auto src_port, auto dst_port) {
    return is_in(header.src, src) && is_in(header.dst, dst) && is_in(header.src_ports, src_port) &&
           is_in(header.dst_ports, dst_port);
  };
  return one_way(packet.src, packet.dst, packet.src_port, packet.dst_port) ||
         (header.both_ways && one_way(packet.dst, packet.src, packet.dst_port, packet.src_port));
}

// ---- conditions ----------------------------------------------------------------------------------------

bool has_id(const SignaturePacket& packet) {
  const u8 type = packet.transport[0];
  if (packet.protocol == XG_IPPROTO_ICMPV6) return type == 128 || type == 129;
  return type == 0 || type == 8 || (type >= 13 && type <= 18);
}

std::optional<u32> value_of(sig::Field field, const SignaturePacket& packet) {
  using Field = sig::Field;
  const auto ip = std::span<const u8>(packet.bytes).subspan(packet.ip);
  const auto& transport = packet.transport;
  const bool tcp = packet.protocol == XG_IPPROTO_TCP && !transport.empty();
  const bool icmp =
      packet.protocol == (packet.v4 ? XG_IPPROTO_ICMP : XG_IPPROTO_ICMPV6) && !transport.empty();
  // Suricata reads them of ICMPv6 where the code is the one that an echo has.
  const auto icmp_number = [&](u32 at) -> std::optional<u32> {
    if (!icmp || !has_id(packet)) return {};
    return packet.v4 || transport[1] == 0 ? number(transport, at) : 0;
  };
  switch (field) {
    case Field::payload_bytes:
      return static_cast<u32>(packet.payload.size());
    case Field::ttl:
      return packet.v4 ? ip[8] : ip[7];
    case Field::tos:
      return packet.v4 ? std::optional<u32>(ip[1]) : std::nullopt;
    case Field::ip_id:
      return packet.v4 ? std::optional<u32>(number(ip, 4)) : std::nullopt;
    case Field::fragment_offset:
      return packet.fragment_offset;
    case Field::icmp_type:
      return icmp ? std::optional<u32>(transport[0]) : std::nullopt;
    case Field::icmp_code:
      return icmp ? std::optional<u32>(transport[1]) : std::nullopt;
    case Field::icmp_id:
      return icmp_number(4);
    case Field::icmp_seq:
      return icmp_number(6);
    case Field::tcp_seq:
      return tcp ? std::optional<u32>(number(transport, 4) << 16 | number(transport, 6)) : std::nullopt;
    case Field::tcp_ack:
      return tcp ? std::optional<u32>(number(transport, 8) << 16 | number(transport, 10)) : std::nullopt;
    case Field::tcp_window:
      return tcp ? std::optional<u32>(number(transport, 14)) : std::nullopt;
  }
  return {};
}

bool bits_match(sig::Bits mode, u8 bits, u8 wanted) {
  switch (mode) {
    case sig::Bits::exactly:
      return bits == wanted;
    case sig::Bits::all:
      return (bits & wanted) == wanted;
    case sig::Bits::any:
      return (bits & wanted) != 0;
    case sig::Bits::not_all:
      return (bits & wanted) != wanted;
  }
  return false;
}

bool condition_matches(const sig::Condition& condition, const SignaturePacket& packet) {
  return std::visit(
      sig::Visitor{
          [&](const sig::FieldIs& one) {
            const auto value = value_of(one.field, packet);
            return value && (one.values.first <= *value && *value <= one.values.last) != one.negated;
          },
          [&](const sig::TcpFlagsAre& one) {
            if (packet.protocol != XG_IPPROTO_TCP || packet.transport.empty()) return false;
            const u8 flags = packet.transport[13];
            for (const u8 some : one.some_of)
              if (some != 0 && (flags & some) == 0) return false;
            if (one.flags == 0 && flags != 0) return one.mode == sig::Bits::not_all;
            return bits_match(one.mode, flags & one.mask, one.flags);
          },
          [&](const sig::FragmentBitsAre& one) {
            if (!packet.v4) return false;
            const auto bits = static_cast<u8>(packet.bytes[packet.ip + 6] >> 5);
            return bits_match(one.mode, bits, one.bits) && (one.mode != sig::Bits::all || bits != one.bits);
          },
          [&](const sig::IpOptionIs& one) { return packet.ip_options[one.type]; },
          [&](const sig::SameAddresses&) {
            return std::equal(packet.src.begin(), packet.src.end(), packet.dst.begin(), packet.dst.end());
          },
          [&](const sig::ConnectionIs& one) {
            using Way = sig::ConnectionIs::Way;
            const auto says = [&](u32 bit) { return (packet.connection & bit) != 0; };
            if (!says(XG_CONNECTION_SEEN)) return false;
            const bool answers = says(XG_CONNECTION_ANSWERS);
            if (one.way != Way::any && (!says(XG_CONNECTION_HAS) || answers != (one.way == Way::to_client)))
              return false;
            return !one.established || *one.established == says(XG_CONNECTION_ESTABLISHED);
          }},
      condition);
}

// ---- the payload, or a name -----------------------------------------------------------------------------

class Inspection {
 public:
  Inspection(const std::vector<sig::Step>& steps, std::span<const u8> payload)
      : steps_(steps), payload_(payload), length_(static_cast<u32>(payload.size())) {}
  // What has expressions among its steps.
  Inspection(const std::vector<sig::Step>& steps, std::span<const u8> payload, ExpressionFinder& finder)
      : Inspection(steps, payload) {
    finder_ = &finder;
  }
  // Of a payload: one of its contents is looked for from where its fast pattern lets it stand first.
  Inspection(const sig::Signature& signature, std::span<const u8> payload)
      : Inspection(signature.payload, payload) {
    if (!signature.fast_pattern || signature.fast_pattern->buffer != 0) return;
    fast_ = sig::found_by(signature);
    if (fast_ == nullptr) return;
    const sig::FastPattern& fast = *signature.fast_pattern;
    const std::string_view pattern = std::string_view(fast_->bytes).substr(fast.first, fast.length);
    const auto at = std::search(payload.begin(), payload.end(), pattern.begin(), pattern.end(),
                                [&](u8 byte, char wanted) { return same(*fast_, byte, wanted); });
    const auto first = static_cast<u32>(at - payload.begin());
    fast_from_ = first > fast.first ? first - fast.first : 0;
  }
  u64 work() const { return work_; }

  // What hosts do at most for one rule and packet, beside looking for expressions.
  static constexpr u64 kMostHostWork = 1'000'000;

  bool matches_from(std::size_t at) {
    if (at == steps_.size()) return true;
    const bool gives_up = finder_ != nullptr && work_ > kMostHostWork;
    if (gives_up) finder_->give_up();
    if (++tries_ == sig::kMostTries || gives_up) {
      over_ = true;
      return false;
    }
    return std::visit([&](const auto& step) { return matches_with(step, at + 1); }, steps_[at]);
  }

 private:
  u64 value_of(const sig::Amount& amount) const {
    return amount.variable ? variables_[*amount.variable] : static_cast<u64>(amount.constant);
  }
  // As wide as Suricata has it where it counts bytes.
  u32 bytes_of(const sig::Amount& amount) const { return static_cast<u32>(value_of(amount)); }

  template <class Step>
  bool matches_with(const Step& step, std::size_t next) {
    work_++;
    return step_matches(step) && matches_from(next);
  }

  // ---- contents

  struct Window {
    u32 first, end;
  };
  // Where it may stand, if the position is `position`.
  Window window_of(const sig::Content& content, u32 position) const {
    Window window{0, length_};
    if (!content.relative()) {
      window.first = bytes_of(content.offset);
      if (content.depth) window.end = bytes_of(*content.depth);
    } else {
      window.first = position;
      std::int32_t distance = 0;
      if (content.distance) {
        distance = static_cast<std::int32_t>(bytes_of(*content.distance));
        const bool in_front = distance < 0 && u32{0} - static_cast<u32>(distance) > position;
        window.first = in_front ? 0 : position + static_cast<u32>(distance);
      }
      if (content.within) {
        const u32 end = position + bytes_of(*content.within) + static_cast<u32>(distance);
        if (static_cast<std::int32_t>(window.end) > static_cast<std::int32_t>(end)) window.end = end;
      }
      if (content.depth && bytes_of(*content.depth) + position < window.end)
        window.end = bytes_of(*content.depth) + position;
      window.first = std::max(window.first, bytes_of(content.offset));
    }
    // Where one of these is a variable, the end is counted from the first byte that it may have.
    if (content.offset.variable || (content.depth && content.depth->variable) ||
        (content.distance && content.distance->variable))
      window.end += window.first;
    return window;
  }

  static bool same(const sig::Content& content, u8 byte, char wanted) {
    const u8 small = content.nocase && byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte;
    return small == static_cast<u8>(wanted);
  }

  std::optional<u32> find(const sig::Content& content, Window window) {
    work_++;
    const auto same = [&](u8 byte, char wanted) { return Inspection::same(content, byte, wanted); };
    if (content.ends && window.end < length_) return {};
    if (&content == fast_) window.first = std::max(window.first, fast_from_);
    if (window.first > window.end) return {};
    const auto first = payload_.begin() + window.first, end = payload_.begin() + window.end;
    const u32 places = window.end - window.first + 1, size = static_cast<u32>(content.bytes.size());
    if (places <= size) return {};
    const auto found = std::search(first, end, content.bytes.begin(), content.bytes.end(), same);
    const auto at = static_cast<u32>(found - first);
    const u32 looked_at = found == end ? places - size : at + 1;
    work_ += looked_at / 16;
    for (u32 i = 0; i < looked_at && size > 4; i++)
      if (std::equal(first + i, first + i + 4, content.bytes.begin(), same)) work_ += (size + 15) / 16;
    if (found == end) return {};
    return window.first + at;
  }

  // This step, and all from `next` on.
  bool matches_with(const sig::Content& content, std::size_t next) {
    const u32 position = position_;
    const auto size = static_cast<u32>(content.bytes.size());
    Window window = window_of(content, position);
    window.end = std::min(window.end, length_);
    for (;;) {
      if (window.first > window.end || window.end == 0) return content.negated && matches_from(next);
      const auto found = find(content, window);
      if (content.negated) {
        // A place in the payload is compared with the window's size.
        const bool elsewhere = found && content.ends && *found + size != window.end - window.first;
        return (!found || elsewhere) && matches_from(next);
      }
      if (!found) {
        if (!content.relative()) over_ = true;
        return false;
      }
      position_ = *found + size;
      if (!content.ends || position_ == length_) {
        if (matches_from(next)) return true;
        if (!content.tried_again) over_ = true;
        if (over_) return false;
      }
      window.first = *found + 1;
    }
  }

  // ---- numbers

  struct Read {
    u64 value = 0;
    std::int64_t at = 0;  // of its first byte
    u32 bytes = 0;        // that it took
  };
  std::optional<Read> read(const sig::Number& number, bool jump) const {
    if (length_ == 0) return {};
    const auto offset = static_cast<std::int32_t>(bytes_of(number.offset));
    Read made;
    made.at = std::int64_t{number.relative ? position_ : 0} + offset;
    const std::int64_t left = std::int64_t{length_} - made.at;
    if (number.relative && left <= 0 && (!jump || number.bytes != 0)) return {};
    if (made.at < 0 || number.bytes > left) return {};
    const auto bytes = payload_.subspan(static_cast<std::size_t>(made.at), number.bytes);
    if (number.base) return text(bytes, *number.base, made);
    for (std::size_t i = 0; i < bytes.size(); i++)
      made.value = made.value << 8 | bytes[number.little_endian ? bytes.size() - 1 - i : i];
    made.bytes = number.bytes;
    return made;
  }
  // As C's strtoull has it: behind spaces, with a sign.
  static std::optional<Read> text(std::span<const u8> bytes, int base, Read made) {
    const std::string digits(bytes.begin(), bytes.end());
    char* end = nullptr;
    errno = 0;
    made.value = std::strtoull(digits.c_str(), &end, base);
    if (errno != 0 || end == digits.c_str()) return {};
    made.bytes = static_cast<u32>(end - digits.c_str());
    return made;
  }
  static u64 masked(u64 value, const sig::Mask& mask) {
    return mask ? (value & *mask) >> __builtin_ctz(*mask) : value;
  }

  bool step_matches(const sig::ByteTest& test) {
    using Op = sig::ByteTest::Op;
    const auto number = read(test.number, false);
    if (!number) return false;
    const u64 value = masked(number->value, test.mask), other = value_of(test.value);
    const auto holds = [&] {
      switch (test.op) {
        case Op::less:
          return value < other;
        case Op::more:
          return value > other;
        case Op::equal:
          return value == other;
        case Op::less_or_equal:
          return value <= other;
        case Op::more_or_equal:
          return value >= other;
        case Op::common_bits:
          return (value & other) != 0;
        case Op::differs:
          return value != other;
      }
      return false;
    };
    return holds() != test.negated;
  }

  bool step_matches(const sig::ByteJump& jump) {
    using From = sig::ByteJump::From;
    const auto number = read(jump.number, true);
    if (!number) return false;
    u64 value = number->value * jump.multiplier;
    if (jump.align) value += (4 - value % 4) % 4;
    value += static_cast<u64>(std::int64_t{jump.post_offset});
    u64 to = value;
    if (jump.from == From::number) to += static_cast<u64>(number->at) + number->bytes;
    if (jump.from == From::end) to += length_;
    // In front of the payload are what addresses there are; all else is behind it.
    constexpr u64 kAddresses = u64{1} << 46;
    if (to >= u64{0} - kAddresses)
      position_ = 0;
    else if (to <= length_)
      position_ = static_cast<u32>(to);
    else
      return false;
    return true;
  }

  bool step_matches(const sig::ByteExtract& extract) {
    const auto number = read(extract.number, false);
    if (!number) return false;
    u64 value = number->value * extract.multiplier;
    value += (extract.align - value % extract.align) % extract.align;
    position_ = static_cast<u32>(number->at) + number->bytes;
    variables_[extract.variable] = value;
    return true;
  }

  bool step_matches(const sig::ByteMath& math) {
    using Op = sig::ByteMath::Op;
    const u64 right = value_of(math.right);
    const auto number = read(math.number, false);
    if (!number || (math.op == Op::divide && right == 0)) return false;
    const u64 left = number->value;
    const auto result = [&]() -> u64 {
      switch (math.op) {
        case Op::add:
          return left + right;
        case Op::subtract:
          return left - right;
        case Op::multiply:
          return left * right;
        case Op::divide:
          return left / right;
        case Op::shift_left:
          return right < 64 ? left << right : 0;
        case Op::shift_right:
          return left >> (right % 64);  // as x86 has it
      }
      return 0;
    };
    position_ = static_cast<u32>(number->at) + number->bytes;
    variables_[math.variable] = masked(result(), math.mask);
    return true;
  }

  bool step_matches(const sig::DataAt& at) {
    constexpr u64 kMost = 100'000'000;
    const u64 offset = value_of(at.offset);
    if (at.offset.variable && offset >= kMost) return at.negated;
    const u32 bytes = static_cast<u32>(offset);
    const bool there = at.relative ? position_ + bytes <= length_ : bytes < length_;
    return there != at.negated;
  }

  // ---- regular expressions

  bool step_matches(const sig::Regex& regex) {
    const u32 from = regex.relative ? std::min(position_, length_) : 0;
    return reference::is_in(regex, payload_.subspan(from), work_) != regex.negated;
  }

  bool matches_with(const sig::Expression& expression, std::size_t next) {
    using Found = ExpressionFinder::Found;
    if (finder_ == nullptr) return false;
    const u32 first = expression.relative ? std::min(position_, length_) : 0;
    for (u32 from = 0;;) {
      sig::Range<u32> at;
      const Found found = finder_->find(expression, payload_.subspan(first), from, at);
      if (expression.negated) return found == Found::no && matches_from(next);
      if (found != Found::yes) return false;
      position_ = first + at.last;
      if (matches_from(next)) return true;
      if (over_ || !expression.tried_again) return false;
      from = at.first + 1;
    }
  }

  const std::vector<sig::Step>& steps_;
  std::span<const u8> payload_;
  u32 length_;
  const sig::Content* fast_ = nullptr;
  u32 fast_from_ = 0;
  ExpressionFinder* finder_ = nullptr;
  u32 position_ = 0;
  std::array<u64, sig::kMostVariables> variables_{};
  u32 tries_ = 0;
  u64 work_ = 0;
  bool over_ = false;
};

// ---- a DNS message -------------------------------------------------------------------------------------

bool size_matches(const sig::SizeIs& size, std::size_t bytes) {
  return (size.bytes.first <= bytes && bytes <= size.bytes.last) != size.negated;
}

bool is_one_of(const sig::StringSet& set, std::string_view text) {
  for (std::size_t i = 0; i < set.ends.size(); i++)
    if (set[i] == text) return true;
  return false;
}

bool is_in(const std::vector<sig::InSet>& sets, std::string_view text, u64& work) {
  return std::all_of(sets.begin(), sets.end(), [&](const sig::InSet& one) {
    work += 1 + (text.size() + 15) / 16;
    return is_one_of(*one.strings.set, text) != one.negated;
  });
}

std::string text_of(const sig::NameIs& wanted, const std::string& name) {
  return wanted.dot_prefix ? "." + name : name;
}
std::span<const u8> bytes_of(const std::string& text) {
  return {reinterpret_cast<const u8*>(text.data()), text.size()};
}
bool name_matches(const sig::NameIs& wanted, const std::string& name, u64& work) {
  const std::string text = text_of(wanted, name);
  if (!sizes_match(wanted, text.size()) || !is_in(wanted.sets, text, work)) return false;
  return reference::is_in(wanted.steps, bytes_of(text), work);
}

// But for what the names are.
bool asks_for(const sig::Dns& wanted, const std::optional<DnsMessage>& message) {
  if (!message || !message->is_dns || !(message->is_answer ? wanted.answers : wanted.queries)) return false;
  if (wanted.operations.empty() && wanted.names.empty()) return true;
  if (!message->is_read) return false;
  for (const auto& one : wanted.operations)
    if ((message->operation == one.operation) == one.negated) return false;
  return wanted.names.empty() || !message->names.empty();
}

bool names_match(const sig::Dns& wanted, const DnsMessage& message, u64& work) {
  return std::all_of(wanted.names.begin(), wanted.names.end(), [&](const sig::NameIs& one) {
    return std::any_of(message.names.begin(), message.names.end(),
                       [&](const std::string& name) { return name_matches(one, name, work); });
  });
}

}  // namespace

bool is_in(const sig::Regex& regex, std::span<const u8> subject, u64& work) {
  if (regex.empty || (subject.empty() && regex.empty_at_end)) return true;
  const std::size_t count = regex.positions.size();
  sig::Positions may_be = regex.first;
  u64 parts = 0;
  bool found = false;
  for (std::size_t i = 0; i < subject.size() && may_be.any() && !found; i++) {
    const bool ends = i + 1 == subject.size();
    parts++;
    sig::Positions next = regex.again;
    u64 branches = 0;
    for (std::size_t at = 0; at < count; at++) {
      if (!may_be[at] || !regex.sets[regex.positions[at]][subject[i]]) continue;
      found = found || regex.last[at] || (ends && regex.last_at_end[at]);
      next |= regex.follow[at];
      branches += sig::branches(regex, at);
    }
    if (!found && !ends) parts += branches;
    may_be = next;
  }
  work += parts * (1 + (count + 31) / 32) / 8;
  return found;
}

bool rest_holds(const sig::HostPart& rest, const SignaturePacket& packet, ExpressionFinder& finder) {
  if (!rest.payload.empty() &&
      (packet.payload.empty() || !Inspection(rest.payload, packet.payload, finder).matches_from(0)))
    return false;
  return std::all_of(rest.names.begin(), rest.names.end(), [&](const sig::NameIs& wanted) {
    return packet.dns &&
           std::any_of(packet.dns->names.begin(), packet.dns->names.end(), [&](const auto& name) {
             const std::string text = text_of(wanted, name);
             return sizes_match(wanted, text.size()) &&
                    Inspection(wanted.steps, bytes_of(text), finder).matches_from(0);
           });
  });
}

bool matches(const sig::Signature& signature, const SignaturePacket& packet) {
  u64 work = 0;
  return matches(signature, packet, work);
}

bool applies(const sig::Signature& signature, const SignaturePacket& packet) {
  if (!packet.judged || !header_matches(signature.header, packet)) return false;
  for (const auto& condition : signature.conditions)
    if (!condition_matches(condition, packet)) return false;
  if (signature.dns && !asks_for(*signature.dns, packet.dns)) return false;
  return signature.payload.empty() || !packet.payload.empty();
}

bool is_in(const sig::Signature& signature, std::span<const u8> text, u64& work) {
  Inspection inspection(signature, text);
  const bool holds = inspection.matches_from(0);
  work += inspection.work();
  return holds;
}

bool sizes_match(const sig::NameIs& wanted, u64 bytes) {
  return std::all_of(wanted.sizes.begin(), wanted.sizes.end(),
                     [&](const sig::SizeIs& size) { return size_matches(size, bytes); });
}

bool is_in(const std::vector<sig::Step>& steps, std::span<const u8> text, u64& work) {
  Inspection inspection(steps, text);
  const bool holds = inspection.matches_from(0);
  work += inspection.work();
  return holds;
}

bool is_named(const sig::Hello& wanted, const std::string& name, u64& work) {
  return std::all_of(wanted.names.begin(), wanted.names.end(),
                     [&](const sig::NameIs& one) { return name_matches(one, name, work); });
}

bool is_asked(const sig::Http& wanted, const std::array<std::optional<std::string>, sig::kHttpParts>& parts,
              u64& work) {
  return std::all_of(wanted.parts.begin(), wanted.parts.end(), [&](const sig::NameIs& one) {
    if (one.part == sig::HttpPart::request_body || one.part == sig::HttpPart::response_body) return true;
    const auto& part = parts[static_cast<std::size_t>(one.part)];
    return part && name_matches(one, *part, work);
  });
}

bool matches(const sig::Signature& signature, const SignaturePacket& packet, u64& work) {
  if (!applies(signature, packet)) return false;
  if (!signature.payload.empty() && !is_in(signature, packet.payload, work)) return false;
  return !signature.dns || signature.dns->names.empty() || names_match(*signature.dns, *packet.dns, work);
}

}  // namespace xdpgpu::gpu::reference
