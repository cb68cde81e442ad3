// SPDX-License-Identifier: MIT
#include "userspace/dataplane/reassembler.hpp"

#include <algorithm>
#include <cstring>

#include "maps/encapsulation.h"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kBuckets = 32;
constexpr u32 kDatagrams = kBuckets * XG_FRAGMENT_WAYS;
constexpr u32 kFragmentHeader = 8;

const xg_metadata& metadata_of(const u8* frame) noexcept {
  return *reinterpret_cast<const xg_metadata*>(frame - XG_METADATA_SIZE);
}

// RFC 791: of a header whose own is zero.
u16 header_checksum(const u8* ip, u32 bytes) noexcept {
  u32 sum = 0;
  for (u32 i = 0; i < bytes; i += 2) sum += xg_load16(ip + i);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<u16>(~sum);
}

// Where IPv6's fragment header stands, and the byte that names it. The packet was parsed: it has one.
void find_fragment_header(const u8* frame, u32 l3, u32 readable, Fragment& fragment) noexcept {
  u32 named = l3 + 6, at = l3 + 40;
  while (at + kFragmentHeader <= readable && frame[named] != XG_IPPROTO_FRAGMENT) {
    const u32 kind = frame[named], length = frame[at + 1];
    named = at;
    at += kind == XG_IPPROTO_AH ? (length + 2) * 4 : (length + 1) * 8;
  }
  if (at + kFragmentHeader > readable) return;
  fragment.next_header = named;
  fragment.fragment_header = at;
}

bool same_source(const xg_flow_key& a, const xg_flow_key& b) noexcept {
  return std::memcmp(a.src, b.src, sizeof(a.src)) == 0 && a.vlan_outer == b.vlan_outer &&
         a.vlan_inner == b.vlan_inner;
}

}  // namespace

Fragment fragment_of(Buffers packet, const u8* region, u8 port) noexcept {
  const u8* const frame = region + packet.front().offset;
  const u32 readable = packet.front().length;
  xg_packet parsed;
  xg_parse_part(frame, frame + readable, bytes_of(packet), port, &parsed);
  Fragment fragment;
  if (parsed.flags & XG_PKT_MALFORMED) {
    fragment.more = true;  // and it brings nothing
    return fragment;
  }
  fragment.key = parsed.key;
  fragment.generation = metadata_of(frame).generation;
  fragment.start = parsed.fragment_offset;
  fragment.end = parsed.fragment_end;
  fragment.at = parsed.ip_end - (fragment.end - fragment.start);
  fragment.more = parsed.fragment_more != 0;
  if (fragment.start) return fragment;
  const u32 header_end = parsed.payload_offset ? parsed.payload_offset : parsed.l4_offset;
  if (header_end > readable || header_end < fragment.at || header_end > fragment.at + fragment.end)
    return fragment;
  if (parsed.key.family == 6) {
    find_fragment_header(frame, parsed.l3_offset, readable, fragment);
    if (!fragment.fragment_header) return fragment;
  }
  fragment.header_end = header_end;
  return fragment;
}

// A fragment that waits.
struct Reassembler::Piece {
  u32 start, end;  // of its payload, in the datagram's
  u32 at;          // of its payload, from the packet's first byte
  u8 buffer, buffers;
  bool more;
};

struct Reassembler::Datagram {
  enum class State : u8 { none, waits, whole, over };
  xg_flow_key key;
  u32 generation;
  u64 noted_ns, last_ns;
  State state = State::none;
  Unassembled why;  // over: what still comes is dropped
  u8 port;
  u8 pieces_count, buffers_count;
  u16 before, behind;  // in its list
  u32 total;           // bytes; 0: the last fragment is not there
  u32 got;             // of them, there
  u32 header_end, fragment_header, next_header;
  std::array<Piece, kBuffers> pieces;  // by start
  std::array<xg_descriptor, kBuffers> buffers;

  bool lives(u64 now_ns) const noexcept {
    return state == State::whole || (state != State::none && now_ns < noted_ns + XG_FRAGMENT_NS);
  }
};

Reassembler::Reassembler(u8* region, u32 frames, const std::array<u64, 2>& key)
    : region_(region),
      most_frames_(std::max(frames, kBuffers)),
      key_(key),
      datagrams_(std::make_unique<Datagram[]>(kDatagrams)),
      dropped_(most_frames_ + XG_PACKET_BUFFERS) {}

Reassembler::~Reassembler() = default;

// ---- Lists and frames ------------------------------------------------------------------------------

void Reassembler::append(Datagram& datagram, u16& first, u16& last) noexcept {
  const auto self = static_cast<u16>(&datagram - datagrams_.get());
  datagram.before = last;
  datagram.behind = kNone;
  (last == kNone ? first : datagrams_[last].behind) = self;
  last = self;
}

void Reassembler::remove(Datagram& datagram, u16& first, u16& last) noexcept {
  (datagram.before == kNone ? first : datagrams_[datagram.before].behind) = datagram.behind;
  (datagram.behind == kNone ? last : datagrams_[datagram.behind].before) = datagram.before;
}

void Reassembler::hold(u8 port, u32 frames) noexcept {
  frames_ += frames;
  held_[port].frames += frames;
  ++held_[port].packets;
}

// All of its fragments.
void Reassembler::let_go(Datagram& datagram) noexcept {
  frames_ -= datagram.buffers_count;
  held_[datagram.port].frames -= datagram.buffers_count;
  held_[datagram.port].packets -= datagram.pieces_count;
  datagram.pieces_count = datagram.buffers_count = 0;
}

void Reassembler::drop(Buffers packet, u8 port, Unassembled why) noexcept {
  for (const xg_descriptor& buffer : packet) dropped_[dropped_count_++] = {buffer, port, why};
}

void Reassembler::condemn(Datagram& datagram, Unassembled why) noexcept {
  if (datagram.state == Datagram::State::whole)
    remove(datagram, whole_, last_whole_);
  else
    remove(datagram, oldest_, newest_);
  drop({datagram.buffers.data(), datagram.buffers_count}, datagram.port, why);
  let_go(datagram);
  datagram.state = Datagram::State::over;
  datagram.why = why;
}

void Reassembler::expire_old(u64 now_ns) noexcept {
  while (oldest_ != kNone && !datagrams_[oldest_].lives(now_ns))
    condemn(datagrams_[oldest_], Unassembled::timed_out);
}

void Reassembler::abandon() noexcept {
  while (oldest_ != kNone) condemn(datagrams_[oldest_], Unassembled::timed_out);
  while (whole_ != kNone) condemn(datagrams_[whole_], Unassembled::timed_out);
}

// The oldest ones give way, but for this one and those that are whole.
bool Reassembler::make_room(u32 frames, const Datagram& unless) noexcept {
  while (frames_ + frames > most_frames_) {
    if (oldest_ == kNone) return false;
    Datagram& oldest = datagrams_[oldest_];
    if (&oldest == &unless) return false;
    condemn(oldest, Unassembled::no_room);
  }
  return true;
}

// ---- The table -------------------------------------------------------------------------------------

Reassembler::Datagram* Reassembler::find(const Fragment& fragment, u32 bucket, u64 now_ns) noexcept {
  for (u32 i = 0; i < XG_FRAGMENT_WAYS; ++i) {
    Datagram& one = datagrams_[bucket * XG_FRAGMENT_WAYS + i];
    if (one.generation == fragment.generation && one.lives(now_ns) &&
        std::memcmp(&one.key, &fragment.key, sizeof(one.key)) == 0)
      return &one;
  }
  return nullptr;
}

// The place of what is through is taken before that of what waits; what is whole stays. nullptr: there is
// none.
Reassembler::Datagram* Reassembler::begin(const Fragment& fragment, u32 bucket, u64 now_ns) noexcept {
  using State = Datagram::State;
  const auto worth = [&](const Datagram& one) {
    return one.state == State::whole ? 3u : !one.lives(now_ns) ? 0u : one.state == State::over ? 1u : 2u;
  };
  const auto gives_way = [&](const Datagram* one, const Datagram* other) {
    if (!other || worth(*one) != worth(*other)) return !other || worth(*one) < worth(*other);
    return one->noted_ns < other->noted_ns;
  };
  u32 own = 0;
  Datagram *least_own = nullptr, *least = nullptr;
  for (u32 i = 0; i < XG_FRAGMENT_WAYS; ++i) {
    Datagram* one = &datagrams_[bucket * XG_FRAGMENT_WAYS + i];
    if (gives_way(one, least)) least = one;
    if (!one->lives(now_ns) || !same_source(one->key, fragment.key)) continue;
    ++own;
    if (gives_way(one, least_own)) least_own = one;
  }
  Datagram& place = own >= XG_FRAGMENT_OF_SOURCE ? *least_own : *least;
  if (place.state == State::whole) return nullptr;
  if (place.state == State::waits)
    condemn(place, place.lives(now_ns) ? Unassembled::no_room : Unassembled::timed_out);
  place.key = fragment.key;
  place.generation = fragment.generation;
  place.noted_ns = now_ns;
  place.state = State::waits;
  place.port = fragment.key.port;
  place.pieces_count = place.buffers_count = 0;
  place.total = place.got = place.header_end = 0;
  append(place, oldest_, newest_);
  return &place;
}

// ---- Fragments -------------------------------------------------------------------------------------

// A byte of the datagram in a piece that has it, and how many follow in that buffer, at least that one.
u8* Reassembler::bytes_at(const Datagram& datagram, const Piece& piece, u32 byte, u32& run) const noexcept {
  u32 skip = piece.at + byte - piece.start;
  const xg_descriptor* buffer = &datagram.buffers[piece.buffer];
  for (; skip >= buffer->length; ++buffer) skip -= buffer->length;
  run = std::min(buffer->length - skip, piece.end - byte);
  return region_ + buffer->offset + skip;
}

bool Reassembler::is_repeated(const Datagram& datagram, const Piece& piece) const noexcept {
  for (u32 i = 0; i < datagram.pieces_count; ++i) {
    const Piece& held = datagram.pieces[i];
    if (held.start != piece.start || held.end != piece.end || held.more != piece.more) continue;
    u32 byte = piece.start;
    while (byte < piece.end) {
      u32 ours = 0, theirs = 0;
      const u8* const a = bytes_at(datagram, piece, byte, ours);
      const u8* const b = bytes_at(datagram, held, byte, theirs);
      const u32 run = std::min(ours, theirs);
      if (std::memcmp(a, b, run) != 0) break;
      byte += run;
    }
    if (byte == piece.end) return true;
  }
  return false;
}

// Bytes of the piece that no other one has. Those that others have are written over its own, if the first
// ones win.
u32 Reassembler::uncovered(Datagram& datagram, const Piece& piece, bool first_wins, bool& overlaps) noexcept {
  u32 fresh = 0, done = piece.start;
  for (u32 i = 0; i < datagram.pieces_count; ++i) {
    const Piece& held = datagram.pieces[i];
    const u32 from = std::max(held.start, done), to = std::min(held.end, piece.end);
    if (from >= to) continue;
    overlaps = true;
    if (!first_wins) return 0;
    for (u32 byte = from; byte < to;) {
      u32 ours = 0, theirs = 0;
      u8* const a = bytes_at(datagram, piece, byte, ours);
      const u8* const b = bytes_at(datagram, held, byte, theirs);
      const u32 run = std::min({ours, theirs, to - byte});
      std::memcpy(a, b, run);
      byte += run;
    }
    fresh += from - done;
    done = to;
  }
  return fresh + piece.end - done;
}

void Reassembler::take(Buffers packet, const Fragment& fragment, Overlapping ipv4, u64 came_ns) noexcept {
  using State = Datagram::State;
  const u8 port = fragment.key.port;
  const auto buffers = static_cast<u32>(packet.size());
  if (fragment.start >= fragment.end) return drop(packet, port, Unassembled::repeated);
  const u32 bucket = xg_fragment_bucket_of(&fragment.key, key_[0], key_[1]) % kBuckets;
  Datagram* found = find(fragment, bucket, came_ns);
  if (found && found->state != State::waits)
    return drop(packet, port, found->state == State::over ? found->why : Unassembled::repeated);
  if (!found) found = begin(fragment, bucket, came_ns);
  if (!found) return drop(packet, port, Unassembled::no_room);
  Datagram& datagram = *found;
  const auto give_up = [&](Unassembled why) {
    condemn(datagram, why);
    drop(packet, port, why);
  };
  if (fragment.end > XG_PACKET_MAX || datagram.buffers_count + buffers > kBuffers)
    return give_up(Unassembled::too_long);

  // Where the datagram ends.
  bool contradicts =
      datagram.total && (fragment.end > datagram.total || (fragment.end == datagram.total) == fragment.more);
  contradicts |= !fragment.start && !fragment.header_end;
  for (u32 i = 0; i < datagram.pieces_count && !fragment.more; ++i)
    contradicts |= datagram.pieces[i].end > fragment.end ||
                   (datagram.pieces[i].end == fragment.end && datagram.pieces[i].more);
  if (contradicts) return give_up(Unassembled::overlapping);

  // Behind the others' buffers, for as long as it is not known whether it stays.
  const Piece piece{fragment.start,           fragment.end, fragment.at, datagram.buffers_count,
                    static_cast<u8>(buffers), fragment.more};
  std::copy(packet.begin(), packet.end(), datagram.buffers.begin() + datagram.buffers_count);
  if (is_repeated(datagram, piece)) return drop(packet, port, Unassembled::repeated);
  const bool first_wins = fragment.key.family == 4 && ipv4 == Overlapping::first;
  bool overlaps = false;
  const u32 fresh = uncovered(datagram, piece, first_wins, overlaps);
  if (overlaps && !first_wins) return give_up(Unassembled::overlapping);
  if (!fresh && (fragment.more || datagram.total)) return drop(packet, port, Unassembled::repeated);
  if (!make_room(buffers, datagram)) return give_up(Unassembled::no_room);

  u32 place = datagram.pieces_count++;
  for (; place && datagram.pieces[place - 1].start > piece.start; --place)
    datagram.pieces[place] = datagram.pieces[place - 1];
  datagram.pieces[place] = piece;
  datagram.buffers_count = static_cast<u8>(datagram.buffers_count + buffers);
  hold(port, buffers);
  datagram.got += fresh;
  datagram.last_ns = came_ns;
  if (!fragment.more) datagram.total = fragment.end;
  if (!fragment.start && !datagram.header_end) {
    datagram.header_end = fragment.header_end;
    datagram.fragment_header = fragment.fragment_header;
    datagram.next_header = fragment.next_header;
  }
  if (!datagram.total || datagram.got != datagram.total) return;
  const u32 headers = datagram.pieces[0].at;
  if (datagram.header_end > XG_FRAME_MAX || headers + datagram.total > XG_PACKET_MAX)
    return condemn(datagram, Unassembled::too_long);
  // What is in nothing but the first fragment's headers was there before.
  if (datagram.total <= datagram.header_end - headers) return condemn(datagram, Unassembled::overlapping);
  remove(datagram, oldest_, newest_);
  append(datagram, whole_, last_whole_);
  datagram.state = State::whole;
}

// ---- Whole datagrams -------------------------------------------------------------------------------

Reassembler::Whole Reassembler::whole() const noexcept {
  const Datagram& datagram = datagrams_[whole_];
  return {datagram.generation,
          datagram.port,
          datagram.last_ns,
          {datagram.buffers.data(), datagram.buffers_count}};
}

u32 Reassembler::make(u64 header_at, std::array<xg_descriptor, XG_PACKET_BUFFERS>& to) const noexcept {
  const Datagram& datagram = datagrams_[whole_];
  const Piece& first = datagram.pieces[0];
  const u8* const from = region_ + datagram.buffers[first.buffer].offset;
  u8* const frame = region_ + header_at;
  const u32 cut = datagram.fragment_header ? kFragmentHeader : 0;
  auto* const metadata = reinterpret_cast<xg_metadata*>(frame - XG_METADATA_SIZE);
  *metadata = metadata_of(from);
  metadata->rx_time_ns = datagram.last_ns;
  u8* const ip = frame + metadata->l3_offset;
  if (cut) {
    const u32 before = datagram.fragment_header, behind = before + cut;
    std::memcpy(frame, from, before);
    std::memcpy(frame + before, from + behind, datagram.header_end - behind);
    frame[datagram.next_header] = from[before];
    if (metadata->l4_offset) metadata->l4_offset = static_cast<u16>(metadata->l4_offset - cut);
    if (metadata->payload_offset) metadata->payload_offset = static_cast<u16>(metadata->payload_offset - cut);
    const u32 bytes = first.at - cut - metadata->l3_offset - 40 + datagram.total;
    xg_store16(ip + 4, xg_host16(static_cast<u16>(bytes)));
  } else {
    std::memcpy(frame, from, datagram.header_end);
    const u32 header = (ip[0] & 15u) * 4;
    xg_store16(ip + 2, xg_host16(static_cast<u16>(header + datagram.total)));
    xg_store16(ip + 6, xg_load16(ip + 6) & xg_host16(0x4000));
    xg_store16(ip + 10, 0);
    xg_store16(ip + 10, header_checksum(ip, header));
  }
  u32 count = 0;
  to[count++] = {header_at, datagram.header_end - cut, XG_DESC_MORE};
  u32 byte = datagram.header_end - first.at;
  for (u32 i = 0; i < datagram.pieces_count; ++i) {
    const Piece& piece = datagram.pieces[i];
    while (byte < piece.end) {
      u32 run = 0;
      const u8* const at = bytes_at(datagram, piece, byte, run);
      to[count++] = {static_cast<u64>(at - region_), run, XG_DESC_MORE};
      byte += run;
    }
  }
  to[count - 1].flags = 0;
  return count;
}

void Reassembler::made() noexcept {
  Datagram& datagram = datagrams_[whole_];
  remove(datagram, whole_, last_whole_);
  let_go(datagram);
  datagram.state = Datagram::State::over;
  datagram.why = Unassembled::repeated;
}

}  // namespace xdpgpu::dataplane
