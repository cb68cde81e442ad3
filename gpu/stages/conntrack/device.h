/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/conntrack/device.h: `conntrack`, which packets belong to a connection (settings.hpp says what
 * the classes mean and what each packet does to its connection).
 *
 * Both directions of a connection have one entry: its key has the lower address first, and a packet's
 * direction is whether its source is the upper one. VLAN ids are part of the key. IPv4 addresses stand there
 * as IPv6's ::ffff:0:0/96, which no packet may bring itself: so there is room for the ids.
 *
 * Behind the sets each entry has XG_CT_RECORD words more, a line of the cache: what TCP's windows take, which
 * a stage that is loose does not look at, and room for packets and bytes.
 */
#ifndef XDPGPU_STAGES_CONNTRACK_DEVICE_H
#define XDPGPU_STAGES_CONNTRACK_DEVICE_H

#include "gpu/stages/keys.h"
#include "gpu/stages/table.h"

/* The body, behind XG_BODY_STATEFUL words */
#define XG_CT_MODE 10u   /* bits, below */
#define XG_CT_ON_NEW 11u /* action words */
#define XG_CT_ON_INVALID 12u
#define XG_CT_ON_UNTRACKED 13u
#define XG_CT_TIMEOUTS 14u /* ticks, two words for each state of a connection */
#define XG_CT_STATES 12u
#define XG_CT_WORDS (XG_CT_TIMEOUTS + XG_CT_STATES * 2u)
#define XG_CT_RECORD 16u /* words that each entry has behind the sets */
/* Bits of the stage's own settings: */
#define XG_CT_LOOSE 1u
#define XG_CT_FED 2u        /* it is shown what the host sends */
#define XG_CT_DROPS_NEW 4u  /* XG_CT_ON_NEW does */
#define XG_CT_PASSES_NEW 8u /* likewise */
/* Beside them XG_BEHIND_SENDS and so on, which are none of the table's. */

/* What a packet is. */
#define XG_CT_UNTRACKED 0u
#define XG_CT_NEW 1u
#define XG_CT_ESTABLISHED 2u
#define XG_CT_RELATED 3u
#define XG_CT_INVALID 4u
#define XG_CT_NO_PLACE 5u /* new, and the table took none */

/* States of a connection, each with a timeout of its own. */
#define XG_CT_SYN_SENT 0u
#define XG_CT_SYN_RECEIVED 1u
#define XG_CT_OPEN 2u
#define XG_CT_FIN_WAIT 3u
#define XG_CT_TIME_WAIT 4u
#define XG_CT_CLOSED 5u
#define XG_CT_UDP 6u /* one direction seen */
#define XG_CT_UDP_REPLIED 7u
#define XG_CT_ICMP 8u
#define XG_CT_ICMP_REPLIED 9u
#define XG_CT_OTHER 10u
#define XG_CT_OTHER_REPLIED 11u

/* An entry's first word of value: state, direction of its originator << 8, directions that sent FIN << 16,
 * and what else is known of it. The two other words are the ends of what TCP's directions have sent, with
 * XG_CT_SEEN. */
#define XG_CT_VALUE(state, originator, fins) ((state) | ((originator) << 8) | ((fins) << 16))
#define XG_CT_STEP_BITS 0x000301ffu /* what XG_CT_VALUE has */
#define XG_CT_LIBERAL 0x00040000u   /* its windows are not known: none are held against it */
#define XG_CT_WAITS 0x00080000u     /* for the host to send a packet of it: until then nothing answers it */
#define XG_CT_UNSURE 0x00100000u    /* a table behind may have dropped what began it */
#define XG_CT_SEEN(d) (0x00400000u << (d))  /* direction d has sent something of TCP */
#define XG_CT_SHOWN(d) (0x01000000u << (d)) /* direction d is the host's: it was shown sending */
#define XG_CT_ACKED(d) (0x04000000u << (d)) /* direction d has acknowledged something */
#define XG_CT_UNCONFIRMED (XG_CT_WAITS | XG_CT_UNSURE)

/* An entry's record, XG_CT_RECORD words: of each direction three words, then both window scales (bits 0-3,
 * bit 4: it said one, direction 1's << 8), XG_CT_BIRTH, then, of each direction, packets and bytes, two
 * words each. Nobody counts them yet. */
#define XG_CT_SIDE 3u
#define XG_CT_MAX_END 0u /* end of what the other side has room for */
#define XG_CT_MAX_WIN 1u /* largest window that it has offered, 1 or more */
#define XG_CT_MAX_ACK 2u /* with XG_CT_ACKED its latest acknowledgement, else the number behind its SYN */
#define XG_CT_SCALES 6u
#define XG_CT_BIRTH 7u /* where a stage behind inspects: which connection it is (XG_CONNECTION_BIRTH) */
#define XG_CT_COUNTS 8u

/* xg_touch.facts: direction, what it carries << 1, XG_CT_LEAVES, fate << 5, for TCP its flags << 8, else its
 * state where new << 8. Of an untracked packet: its class. */
#define XG_CT_TCP 1u
#define XG_CT_ASKS 2u    /* may begin a connection without a handshake */
#define XG_CT_ANSWERS 3u /* only answers */
#define XG_CT_REPORTS 4u /* an ICMP error about another packet, whose key this is */
#define XG_CT_LEAVES 16u /* the host sends it */

/* XG_FATE_TO_HOST and so on. */
#define XG_CT_FATE(facts) (((facts) >> 5) & 3u)

#define XG_CT_FIN 1u
#define XG_CT_SYN 2u
#define XG_CT_RST 4u
#define XG_CT_ACK 16u

/* xg_touch.more, of TCP: sequence number; acknowledgement; length in sequence numbers; window, not scaled,
 * scale << 16, XG_CT_HAS_SCALE, XG_CT_SCALE_UNKNOWN. */
#define XG_CT_LENGTH_UNKNOWN 0xffffffffu
#define XG_CT_HAS_SCALE 0x00100000u
#define XG_CT_SCALE_UNKNOWN 0x00200000u

/* An acknowledgement that is older by less is none too old, as small as windows may be (Rooij, 2001). */
#define XG_CT_LEAST_BACK 66000u

/* A packet that has nothing to do with the table. */
XG_FN xg_touch xg_ct_only(u32 what) {
  xg_touch t = xg_untracked();
  t.facts = what;
  return t;
}

/* The packet that an ICMP error is about: its addresses in q, its key. False: nothing that could be tracked.
 */
XG_FN bool xg_ct_quoted(xg_view p, u32 at, XG_INOUT(xg_touch) t) {
  xg_view q = p;
  u32 l4 = 0u;
  u32 protocol = 0u;
  if (p.family == 4u) {
    if (!xg_inside(p, at, 20u)) return false;
    u32 first = xg_view32(p, at);
    u32 words = first & 15u;
    /* A later fragment has no ports: the offset's thirteen bits of bytes 6 and 7. */
    if (((first >> 4) & 15u) != 4u || words < 5u || ((xg_view32(p, at + 4u) >> 16) & 0xff1fu) != 0u)
      return false;
    protocol = (xg_view32(p, at + 8u) >> 8) & 0xffu;
    q.src[0] = xg_view32(p, at + 12u);
    q.dst[0] = xg_view32(p, at + 16u);
    l4 = at + words * 4u;
  } else {
    if (!xg_inside(p, at, 40u)) return false;
    if (((xg_view32(p, at) >> 4) & 15u) != 6u) return false;
    protocol = (xg_view32(p, at + 4u) >> 16) & 0xffu;
    for (u32 i = 0u; i < 4u; i++) {
      q.src[i] = xg_view32(p, at + 8u + i * 4u);
      q.dst[i] = xg_view32(p, at + 24u + i * 4u);
    }
    l4 = at + 40u;
  }
  if (!xg_inside(p, l4, 8u)) return false;
  u32 ports = xg_view32(p, l4);
  if (protocol != 6u && protocol != 17u && protocol != 132u) {
    u32 type = ports & 0xffu;
    bool echo = p.family == 4u ? protocol == 1u && (type == 8u || type == 0u)
                               : protocol == 58u && (type == 128u || type == 129u);
    if (!echo) return false;
    u32 id = xg_view32(p, l4 + 4u) & 0xffffu;
    ports = id | (id << 16);
  }
  return xg_connection_key(protocol, ports & 0xffffu, ports >> 16, q, t);
}

XG_FN xg_touch xg_ct_icmp(xg_view p) {
  if (!xg_inside(p, p.l4_offset, 8u)) return xg_ct_only(XG_CT_INVALID);
  u32 type = xg_view32(p, p.l4_offset) & 0xffu;
  u32 asks = p.family == 4u ? 8u : 128u;
  u32 answers = p.family == 4u ? 0u : 129u;
  xg_touch t = xg_untracked();
  if (type == asks || type == answers) {
    u32 id = xg_view32(p, p.l4_offset + 4u) & 0xffffu;
    if (!xg_connection_key(p.protocol, id, id, p, t)) return xg_ct_only(XG_CT_INVALID);
    t.facts |= ((type == asks ? XG_CT_ASKS : XG_CT_ANSWERS) << 1) | (XG_CT_ICMP << 8);
    t.tag = 1u;
    return t;
  }
  bool error = p.family == 4u ? type == 3u || type == 4u || type == 5u || type == 11u || type == 12u
                              : type >= 1u && type < 128u;
  if (!error) return xg_ct_only(XG_CT_UNTRACKED);
  if (!xg_ct_quoted(p, p.l4_offset + 8u, t)) return xg_ct_only(XG_CT_INVALID);
  t.facts |= XG_CT_REPORTS << 1;
  t.tag = 1u;
  return t;
}

/* The window scale that a SYN's options say, as in xg_touch.more (RFC 7323 2.2). end: of its header. */
XG_FN u32 xg_ct_scale(xg_view p, u32 end) {
  if (!xg_inside(p, p.l4_offset, end - p.l4_offset)) return XG_CT_SCALE_UNKNOWN;
  u32 at = p.l4_offset + 20u;
  for (u32 i = 0u; i < 40u && at < end; i++) {
    u32 kind = xg_view8(p, at);
    if (kind == 0u) return 0u;
    if (kind == 1u) {
      at += 1u;
      continue;
    }
    if (at + 2u > end) return 0u;
    u32 size = xg_view8(p, at + 1u);
    if (size < 2u || at + size > end) return 0u;
    if (kind == 3u && size == 3u) {
      u32 scale = xg_view8(p, at + 2u);
      return ((scale < 14u ? scale : 14u) << 16) | XG_CT_HAS_SCALE;
    }
    at += size;
  }
  return 0u;
}

/* What a TCP packet brings besides its key. False: it is invalid. */
XG_FN bool xg_ct_tcp(xg_view p, XG_INOUT(xg_touch) t) {
  if (p.has_ports == 0u || !xg_inside(p, p.l4_offset, 20u)) return false;
  /* All that is read, in front of what hangs on it: the loads wait together. */
  u32 sequence = xg_view32(p, p.l4_offset + 4u);
  u32 acknowledges = xg_view32(p, p.l4_offset + 8u);
  u32 fourth = xg_view32(p, p.l4_offset + 12u);
  u32 l3 = p.l3_offset;
  u32 total = xg_view16(p, l3 + (p.family == 4u ? 2u : 4u));
  u32 flags = (fourth >> 8) & 0xffu;
  u32 header = ((fourth >> 4) & 15u) * 4u;
  u32 marks = flags & (XG_CT_SYN | XG_CT_FIN | XG_CT_RST);
  bool alone = (marks & (marks - 1u)) == 0u;
  if (!alone || (flags & (XG_CT_SYN | XG_CT_RST | XG_CT_ACK)) == 0u || header < 20u) return false;
  /* The packet's length by its IP header: of what the host sends the frame has but the beginning. 0: it is
   * more than fits there, and not known. */
  bool known = total != 0u;
  if (p.family == 6u) total += 40u;
  u32 headers = p.l4_offset - l3 + header;
  if (p.l4_offset < l3 || (known && total < headers)) return false;
  t.facts = (XG_CT_TCP << 1) | (flags << 8);
  t.more[0] = xg_swap32(sequence);
  t.more[1] = xg_swap32(acknowledges);
  t.more[2] =
      known ? total - headers + ((flags & (XG_CT_SYN | XG_CT_FIN)) != 0u ? 1u : 0u) : XG_CT_LENGTH_UNKNOWN;
  t.more[3] = ((fourth >> 8) & 0xff00u) | (fourth >> 24);
  if ((flags & XG_CT_SYN) != 0u) t.more[3] |= xg_ct_scale(p, p.l4_offset + header);
  return true;
}

XG_FN xg_touch xg_ct_touch(xg_batch b, u32 body, xg_view p) {
  if ((p.flags & XG_PKT_MALFORMED) != 0u) return xg_ct_only(XG_CT_INVALID);
  if (p.family == 0u || (p.flags & (XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT)) != 0u)
    return xg_ct_only(XG_CT_UNTRACKED);
  xg_touch t = xg_untracked();
  if ((p.flags & (XG_PKT_TCP | XG_PKT_ICMP)) == XG_PKT_ICMP) {
    t = xg_ct_icmp(p);
    if (t.tag == XG_UNTRACKED) return t;
  } else {
    bool valid = true;
    if ((p.flags & XG_PKT_TCP) != 0u) {
      valid = xg_ct_tcp(p, t);
    } else {
      bool udp = (p.flags & XG_PKT_UDP) != 0u;
      valid = !udp || p.has_ports != 0u;
      t.facts = (XG_CT_ASKS << 1) | ((udp ? XG_CT_UDP : XG_CT_OTHER) << 8);
    }
    /* Once for all of them: half of a warp does not wait for the other. */
    if (!valid || !xg_connection_key(p.protocol, p.ports & 0xffffu, p.ports >> 16, p, t))
      return xg_ct_only(XG_CT_INVALID);
    t.tag = 1u;
  }
  if ((p.flags & XG_PKT_EGRESS) != 0u) t.facts |= XG_CT_LEAVES;
  t.now = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u)) * XG_TICKS_PER_NS;
  xg_touch_hash(b, body, t);
  return t;
}

/* Whether what becomes of the packet behind the stage matters: it may begin a connection. */
XG_FN bool xg_ct_asks_fate(u32 mode, xg_touch t) {
  u32 carries = (t.facts >> 1) & 7u;
  if (t.tag == XG_UNTRACKED || (t.facts & XG_CT_LEAVES) != 0u || carries == XG_CT_REPORTS) return false;
  return carries != XG_CT_TCP || ((t.facts >> 8) & XG_CT_SYN) != 0u || (mode & XG_CT_LOOSE) != 0u;
}

/* What a packet makes of a connection. */
struct xg_ct_step {
  u32 what;    /* class of the packet */
  u32 value;   /* XG_CT_VALUE of the entry, from now on */
  u32 renewed; /* 1: its time begins anew */
  u32 anew;    /* 1: so does the connection; 2: so does what is known of the packet's direction */
};

XG_FN xg_ct_step xg_ct_stays(u32 what, u32 value) {
  xg_ct_step step_made;
  step_made.what = what;
  step_made.value = value & XG_CT_STEP_BITS;
  step_made.renewed = 0u;
  step_made.anew = 0u;
  return step_made;
}

XG_FN xg_ct_step xg_ct_becomes(u32 what, u32 state, u32 originator, u32 fins) {
  xg_ct_step step_made;
  step_made.what = what;
  step_made.value = XG_CT_VALUE(state, originator, fins);
  step_made.renewed = 1u;
  step_made.anew = 0u;
  return step_made;
}

XG_FN xg_ct_step xg_ct_again(u32 what, u32 state, u32 originator, u32 anew) {
  xg_ct_step step_made = xg_ct_becomes(what, state, originator, 0u);
  step_made.anew = anew;
  return step_made;
}

/* Of a packet without an entry; renewed 0: none is made. */
XG_FN xg_ct_step xg_ct_begins(u32 facts, bool loose) {
  u32 direction = facts & 1u;
  u32 carries = (facts >> 1) & 7u;
  u32 detail = facts >> 8;
  if (carries == XG_CT_ASKS) return xg_ct_again(XG_CT_NEW, detail, direction, 1u);
  if (!loose && (carries != XG_CT_TCP || (detail & (XG_CT_SYN | XG_CT_ACK)) != XG_CT_SYN))
    return xg_ct_stays(XG_CT_INVALID, 0u);
  if (carries == XG_CT_ANSWERS) return xg_ct_again(XG_CT_ESTABLISHED, detail + 1u, 1u - direction, 1u);
  if (carries == XG_CT_REPORTS || (detail & XG_CT_RST) != 0u) return xg_ct_stays(XG_CT_UNTRACKED, 0u);
  if ((detail & XG_CT_SYN) != 0u) {
    if ((detail & XG_CT_ACK) == 0u) return xg_ct_again(XG_CT_NEW, XG_CT_SYN_SENT, direction, 1u);
    return xg_ct_again(XG_CT_ESTABLISHED, XG_CT_SYN_RECEIVED, 1u - direction, 1u);
  }
  xg_ct_step step_made = xg_ct_again(XG_CT_NEW, XG_CT_OPEN, direction, 1u);
  if ((detail & XG_CT_FIN) != 0u) step_made.value = XG_CT_VALUE(XG_CT_FIN_WAIT, direction, 1u << direction);
  return step_made;
}

/* ---- TCP's windows: Rooij, "Real Stateful TCP Packet Filtering in IP Filter" (2001) ------------------- */

/* What a packet finds of its connection. */
struct xg_ct_found {
  u32 value;
  u32 sent;   /* end of what the packet's direction has sent */
  u32 got;    /* of what the other one has */
  u32 record; /* -> record */
};

/* Sequence numbers: a behind b. */
XG_FN bool xg_ct_after(u32 a, u32 b) { return a - b - 1u < 0x7fffffffu; }

XG_FN bool xg_ct_between(u32 a, u32 first, u32 last) { return a - first <= last - first; }

XG_FN u32 xg_ct_side(xg_ct_found f, u32 direction) { return f.record + direction * XG_CT_SIDE; }

/* Whether sequence number and acknowledgement are within the windows, as far as both are known. The host's
 * packets are shown by another way than the others' come: of them it may have sent, or offered room for, a
 * window more than has been seen. */
XG_FN bool xg_ct_inside(xg_state s, xg_ct_found f, xg_touch t) {
  u32 d = t.facts & 1u;
  u32 r = 1u - d;
  if ((f.value & XG_CT_SEEN(0u)) == 0u || (f.value & XG_CT_SEEN(1u)) == 0u) return true;
  u32 mine = xg_ct_side(f, d);
  u32 its = xg_ct_side(f, r);
  bool shown = (f.value & XG_CT_SHOWN(r)) != 0u;
  u32 window = s.v[its + XG_CT_MAX_WIN];
  u32 limit = s.v[mine + XG_CT_MAX_END] + (shown ? window : 0u);
  if (xg_ct_after(t.more[0] + t.more[2], limit) || xg_ct_after(f.sent - window, t.more[0])) return false;
  if (((t.facts >> 8) & XG_CT_ACK) == 0u) return true;
  u32 sent = f.got;
  u32 most = sent;
  if (shown && xg_ct_after(s.v[its + XG_CT_MAX_END], most)) most = s.v[its + XG_CT_MAX_END];
  u32 back = s.v[mine + XG_CT_MAX_WIN];
  if (back < XG_CT_LEAST_BACK) back = XG_CT_LEAST_BACK;
  return !xg_ct_after(t.more[1], most) && !xg_ct_after(sent - back, t.more[1]);
}

/* An acknowledgement of the other side's SYN, or of what it has sent since. */
XG_FN bool xg_ct_acks_syn(xg_state s, xg_ct_found f, xg_touch t) {
  u32 r = 1u - (t.facts & 1u);
  if ((f.value & XG_CT_SEEN(r)) == 0u) return true;
  u32 first = f.got - XG_CT_LEAST_BACK;
  if ((f.value & XG_CT_ACKED(r)) == 0u) first = s.v[xg_ct_side(f, r) + XG_CT_MAX_ACK];
  return xg_ct_between(t.more[1], first, f.got);
}

/* A RST that only who knows the connection can send: its number is the end of what its side has sent, or
 * what the other side waits for (RFC 5961 3.2); of a side that has sent nothing, it acknowledges all of the
 * other's. */
XG_FN bool xg_ct_ends(xg_state s, xg_ct_found f, xg_touch t, bool windows) {
  u32 d = t.facts & 1u;
  u32 r = 1u - d;
  bool acks = ((t.facts >> 8) & XG_CT_ACK) != 0u;
  bool seen = (f.value & XG_CT_SEEN(r)) != 0u;
  if (windows && (f.value & XG_CT_ACKED(r)) != 0u && t.more[0] == s.v[xg_ct_side(f, r) + XG_CT_MAX_ACK])
    return true;
  if ((f.value & XG_CT_SEEN(d)) != 0u) return t.more[0] == f.sent;
  if (!acks || !seen) return false;
  return t.more[1] == f.got || (windows && (f.value & XG_CT_LIBERAL) == 0u && xg_ct_acks_syn(s, f, t));
}

/* lenient: its windows are not held against it. inside: lenient, or it is inside of them. */
XG_FN xg_ct_step xg_ct_syn(xg_state s, xg_ct_found f, xg_touch t, bool lenient, bool inside) {
  u32 state = f.value & 0xffu;
  u32 originator = (f.value >> 8) & 1u;
  u32 direction = t.facts & 1u;
  bool handshake = state == XG_CT_SYN_SENT || state == XG_CT_SYN_RECEIVED;
  if (((t.facts >> 8) & XG_CT_ACK) != 0u) {
    if (state == XG_CT_CLOSED || (state == XG_CT_SYN_SENT && direction == originator))
      return xg_ct_stays(XG_CT_INVALID, f.value);
    if (handshake && (lenient || xg_ct_acks_syn(s, f, t)))
      return xg_ct_again(XG_CT_ESTABLISHED, XG_CT_SYN_RECEIVED, originator, 2u);
    if (handshake) return xg_ct_stays(XG_CT_INVALID, f.value);
  } else {
    bool over = state == XG_CT_TIME_WAIT || state == XG_CT_CLOSED;
    if (over || (state == XG_CT_SYN_SENT && direction == originator))
      return xg_ct_again(XG_CT_NEW, XG_CT_SYN_SENT, direction, 1u);
    /* Both sides open at once (RFC 9293, 3.5). */
    if (state == XG_CT_SYN_SENT) return xg_ct_again(XG_CT_ESTABLISHED, XG_CT_SYN_RECEIVED, originator, 2u);
  }
  return xg_ct_stays(inside ? XG_CT_ESTABLISHED : XG_CT_INVALID, f.value);
}

/* A SYN that the host sent before what has ended the connection: it is shown once for each queue, and some
 * are late. ended: when that was. */
XG_FN bool xg_ct_shown_late(xg_ct_found f, xg_touch t, u64 ended) {
  u32 state = f.value & 0xffu;
  bool syn = ((t.facts >> 8) & (XG_CT_SYN | XG_CT_ACK)) == XG_CT_SYN;
  bool over = state == XG_CT_TIME_WAIT || state == XG_CT_CLOSED;
  if (!syn || !over || (t.facts & XG_CT_LEAVES) == 0u || t.now >= ended) return false;
  return (f.value & XG_CT_SEEN(t.facts & 1u)) != 0u && !xg_ct_after(t.more[0] + 1u, f.sent);
}

/* loose: of the stage. */
XG_FN xg_ct_step xg_ct_tcp_goes_on(xg_state s, xg_ct_found f, xg_touch t, bool loose) {
  u32 state = f.value & 0xffu;
  u32 originator = (f.value >> 8) & 1u;
  u32 fins = (f.value >> 16) & 3u;
  u32 direction = t.facts & 1u;
  u32 flags = t.facts >> 8;
  bool leaves = (t.facts & XG_CT_LEAVES) != 0u;
  bool lenient = loose || leaves || (f.value & XG_CT_LIBERAL) != 0u || t.more[2] == XG_CT_LENGTH_UNKNOWN;
  bool inside = lenient || xg_ct_inside(s, f, t);
  if ((flags & XG_CT_RST) != 0u) {
    if (state == XG_CT_CLOSED) return xg_ct_stays(XG_CT_ESTABLISHED, f.value);
    if (leaves || xg_ct_ends(s, f, t, !loose))
      return xg_ct_becomes(XG_CT_ESTABLISHED, XG_CT_CLOSED, originator, fins);
    bool passes = lenient || (state != XG_CT_SYN_SENT && inside);
    return xg_ct_stays(passes ? XG_CT_ESTABLISHED : XG_CT_INVALID, f.value);
  }
  if ((flags & XG_CT_SYN) != 0u) return xg_ct_syn(s, f, t, lenient, inside);
  if (state == XG_CT_CLOSED || (state == XG_CT_SYN_SENT && !(loose || leaves)))
    return xg_ct_stays(XG_CT_INVALID, f.value);
  /* Who shows what the host sends may be behind by any number of windows: then this is none to drop. */
  if (!inside)
    return xg_ct_stays((f.value & XG_CT_SHOWN(1u - direction)) != 0u ? XG_CT_ESTABLISHED : XG_CT_INVALID,
                       f.value);
  if (state == XG_CT_TIME_WAIT) return xg_ct_stays(XG_CT_ESTABLISHED, f.value);
  if (state == XG_CT_SYN_SENT || (state == XG_CT_SYN_RECEIVED && direction == originator)) state = XG_CT_OPEN;
  if ((flags & XG_CT_FIN) != 0u) {
    fins |= 1u << direction;
    state = fins == 3u ? XG_CT_TIME_WAIT : XG_CT_FIN_WAIT;
  }
  return xg_ct_becomes(XG_CT_ESTABLISHED, state, originator, fins);
}

/* What a packet shows of its direction, in the record and the ends; more bits of the value. */
XG_FN void xg_ct_note_windows(xg_state s, XG_INOUT(xg_ct_found) f, xg_touch t) {
  u32 d = t.facts & 1u;
  u32 r = 1u - d;
  u32 mine = xg_ct_side(f, d);
  u32 its = xg_ct_side(f, r);
  u32 flags = t.facts >> 8;
  bool syn = (flags & XG_CT_SYN) != 0u;
  bool seen = (f.value & XG_CT_SEEN(d)) != 0u;
  bool both = (f.value & XG_CT_SEEN(r)) != 0u;
  u32 shift = d * 8u;
  u32 scales = s.v[f.record + XG_CT_SCALES];
  if (syn) {
    scales = (scales & ~(0x1fu << shift)) | (((t.more[3] >> 16) & 0x1fu) << shift);
    s.v[f.record + XG_CT_SCALES] = scales;
  }
  /* Where both sides have said one, but for the SYNs themselves. */
  u32 window = t.more[3] & 0xffffu;
  if (!syn && (scales & 0x1010u) == 0x1010u) window <<= (scales >> shift) & 15u;
  if (window == 0u) window = 1u;

  u32 end = t.more[0] + t.more[2];
  if (!seen) {
    s.v[mine + XG_CT_MAX_WIN] = window;
    s.v[mine + XG_CT_MAX_END] = end + (both ? s.v[its + XG_CT_MAX_WIN] : 0u);
    if (syn) s.v[mine + XG_CT_MAX_ACK] = t.more[0] + 1u;
  } else if (window > s.v[mine + XG_CT_MAX_WIN]) {
    s.v[mine + XG_CT_MAX_WIN] = window;
  }
  if ((flags & XG_CT_ACK) == 0u) return;
  u32 ack = t.more[1];
  if ((f.value & XG_CT_ACKED(d)) == 0u || xg_ct_after(ack, s.v[mine + XG_CT_MAX_ACK]))
    s.v[mine + XG_CT_MAX_ACK] = ack;
  f.value |= XG_CT_ACKED(d);
  if (both && xg_ct_after(ack + window, s.v[its + XG_CT_MAX_END])) s.v[its + XG_CT_MAX_END] = ack + window;
}

/* The ends, and whether windows can be held against the connection from now on. */
XG_FN void xg_ct_note_tcp(xg_state s, XG_INOUT(xg_ct_found) f, xg_touch t, bool loose) {
  u32 d = t.facts & 1u;
  u32 r = 1u - d;
  u32 flags = t.facts >> 8;
  bool seen = (f.value & XG_CT_SEEN(d)) != 0u;
  bool unknown = t.more[2] == XG_CT_LENGTH_UNKNOWN;
  if (loose || unknown || (t.more[3] & XG_CT_SCALE_UNKNOWN) != 0u) f.value |= XG_CT_LIBERAL;
  if (unknown) return;
  if (!loose) {
    /* More of what the host has sent was missed than logs that are read in turn account for. */
    u32 gap = s.v[xg_ct_side(f, r) + XG_CT_MAX_WIN];
    if (gap < XG_CT_LEAST_BACK) gap = XG_CT_LEAST_BACK;
    if (seen && (t.facts & XG_CT_LEAVES) != 0u && xg_ct_after(t.more[0], f.sent + gap))
      f.value |= XG_CT_LIBERAL;
    xg_ct_note_windows(s, f, t);
  }
  u32 end = t.more[0] + t.more[2];
  if (!seen || xg_ct_after(end, f.sent)) f.sent = end;
  f.value |= XG_CT_SEEN(d);
  if ((flags & XG_CT_ACK) != 0u && (f.value & XG_CT_SEEN(r)) != 0u && xg_ct_after(t.more[1], f.got))
    f.got = t.more[1];
}

XG_FN xg_ct_step xg_ct_goes_on(xg_state s, xg_ct_found f, xg_touch t, bool loose) {
  u32 direction = t.facts & 1u;
  u32 carries = (t.facts >> 1) & 7u;
  if (carries == XG_CT_REPORTS) return xg_ct_stays(XG_CT_RELATED, f.value);
  if (carries == XG_CT_TCP) return xg_ct_tcp_goes_on(s, f, t, loose);
  u32 originator = (f.value >> 8) & 1u;
  u32 one_way = t.facts >> 8;
  u32 state = f.value & 0xffu;
  if (direction != originator) state = one_way + 1u;
  return xg_ct_becomes(state == one_way ? XG_CT_NEW : XG_CT_ESTABLISHED, state, originator, 0u);
}

/* What the connection is besides its state, when `step_made` is noted. value: as it was. */
XG_FN u32 xg_ct_standing(u32 mode, xg_touch t, u32 fate, u32 value, xg_ct_step step_made) {
  u32 direction = t.facts & 1u;
  u32 carries = (t.facts >> 1) & 7u;
  if ((t.facts & XG_CT_LEAVES) != 0u) return (value & ~XG_CT_UNCONFIRMED) | XG_CT_SHOWN(direction);
  if (step_made.anew == 1u) {
    bool to_host = fate == XG_FATE_TO_HOST || (fate == XG_FATE_UNDECIDED && (mode & XG_BEHIND_SENDS) == 0u);
    value &= ~XG_CT_UNCONFIRMED;
    if (to_host && (mode & XG_CT_FED) != 0u) return value | XG_CT_WAITS;
    return fate == XG_FATE_UNDECIDED ? value | XG_CT_UNSURE : value;
  }
  if (fate == XG_FATE_SENT_ON) value &= ~XG_CT_WAITS;
  /* Its originator goes on after an answer. */
  bool answered = (step_made.value & 1u) != 0u;
  if (carries == XG_CT_TCP) answered = (value & XG_CT_SEEN(1u - direction)) != 0u;
  if (answered && direction == ((step_made.value >> 8) & 1u)) value &= ~XG_CT_UNSURE;
  return value;
}

/* What is said of a connection to a stage behind that inspects: with its class the table's answer. */
#define XG_CT_SAYS(what, connection) ((what) | ((connection) << 3))
#define XG_CT_WHAT(outcome) ((outcome)&7u)
#define XG_CT_CONNECTION(outcome) ((outcome) >> 3)

/* Of the connection that it is of. value: as it was, stands: it was there. */
XG_FN u32 xg_ct_connection(xg_touch t, bool stands, u32 value, xg_ct_step step_made) {
  u32 carries = (t.facts >> 1) & 7u;
  bool of = step_made.what == XG_CT_NEW || step_made.what == XG_CT_ESTABLISHED;
  if (!of || carries == XG_CT_REPORTS) return 0u;
  u32 says = XG_CONNECTION_HAS;
  if ((t.facts & 1u) != ((step_made.value >> 8) & 1u)) says |= XG_CONNECTION_ANSWERS;
  bool open = step_made.what == XG_CT_ESTABLISHED;
  if (carries == XG_CT_TCP) open = stands && step_made.anew != 1u && (value & 0xffu) >= XG_CT_OPEN;
  return open ? says | XG_CONNECTION_ESTABLISHED : says;
}

/* Which one it is, of those that were begun at other times. */
XG_FN u32 xg_ct_birth(u64 now) {
  u32 mixed = u32(now) * 0x9e3779b1u + u32(now >> 32) * 0x85ebca6bu;
  return (mixed >> 3) & XG_CONNECTION_BIRTH;
}

XG_FN u32 xg_conntrack_apply(xg_batch b, u32 body, xg_touch t) {
  /* In front of what is written to the table: so the loads wait together, and none behind that. */
  u32 mode = b.image.v[body + XG_CT_MODE];
  u32 evict = b.image.v[body + XG_BODY_EVICT];
  u32 sets = b.image.v[body + XG_BODY_SETS];
  xg_state s = xg_state_of(b, body);
  bool leaves = (t.facts & XG_CT_LEAVES) != 0u;
  bool loose = (mode & XG_CT_LOOSE) != 0u;
  u32 direction = t.facts & 1u;
  u32 carries = (t.facts >> 1) & 7u;
  u64 now = u64(0);
  u32 set = xg_come(s, t, now);
  /* What does not change an entry does not count as use of it either. */
  u32 entry = xg_find(s, set, now, XG_EVICT_REFUSE, t);
  xg_ct_found f;
  f.value = 0u;
  f.sent = 0u;
  f.got = 0u;
  f.record = 0u;
  bool stands = entry != 0u;
  if (stands) {
    f.value = s.v[entry + XG_ENTRY_VALUE];
    f.sent = s.v[entry + XG_ENTRY_VALUE + 1u + direction];
    f.got = s.v[entry + XG_ENTRY_VALUE + 2u - direction];
    bool asked = carries != XG_CT_REPORTS && direction == ((f.value >> 8) & 1u);
    stands = leaves || asked || (f.value & XG_CT_WAITS) == 0u;
  }
  u32 records = xg_set_at(sets) + t.set * (XG_WAYS * XG_CT_RECORD);
  if (entry != 0u) f.record = records + (entry - set - XG_SET_HEAD) / XG_ENTRY_WORDS * XG_CT_RECORD;
  xg_ct_step step_made = xg_ct_begins(t.facts, loose || leaves);
  if (stands) {
    xg_ct_step goes_on = xg_ct_goes_on(s, f, t, loose);
    /* The host knows better than what somebody else has begun in its name. */
    bool wrong = leaves && (f.value & XG_CT_WAITS) != 0u && goes_on.what == XG_CT_INVALID;
    if (!wrong) step_made = goes_on;
    u32 lasts = body + XG_CT_TIMEOUTS + (f.value & 0xffu) * 2u;
    u64 renewed =
        xg_state64(s, entry + XG_ENTRY_DEADLINE) - xg_word_pair(b.image.v[lasts], b.image.v[lasts + 1u]);
    if (carries == XG_CT_TCP && xg_ct_shown_late(f, t, renewed))
      step_made = xg_ct_stays(XG_CT_ESTABLISHED, f.value);
  }
  u32 connection = 0u;
  if ((mode & XG_BEHIND_INSPECTS) != 0u) {
    connection = xg_ct_connection(t, stands, f.value, step_made);
    if (stands && connection != 0u && step_made.anew != 1u) connection |= s.v[f.record + XG_CT_BIRTH];
  }
  if (step_made.renewed == 0u) return XG_CT_SAYS(step_made.what, connection);

  u32 fate = XG_CT_FATE(t.facts);
  if (!leaves) {
    if (step_made.what == XG_CT_NEW && (mode & XG_CT_DROPS_NEW) != 0u) fate = XG_FATE_DROPPED;
    if (step_made.what == XG_CT_NEW && (mode & XG_CT_PASSES_NEW) != 0u) fate = XG_FATE_TO_HOST;
    bool passes = fate == XG_FATE_TO_HOST || (fate == XG_FATE_UNDECIDED && (mode & XG_BEHIND_SENDS) == 0u);
    /* The host's own direction: what it sends of it will be shown. */
    bool shown = (mode & XG_CT_FED) != 0u && (f.value & XG_CT_SHOWN(direction)) != 0u;
    if (fate == XG_FATE_DROPPED || (passes && shown)) return XG_CT_SAYS(step_made.what, connection);
  }

  u32 at = body + XG_CT_TIMEOUTS + (step_made.value & 0xffu) * 2u;
  u64 deadline = now + xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  if (entry == 0u) {
    entry = xg_insert_before(s, set, now, evict, XG_CT_UNCONFIRMED, deadline, t);
    if (entry == 0u) return XG_CT_NO_PLACE;
    f.record = records + (entry - set - XG_SET_HEAD) / XG_ENTRY_WORDS * XG_CT_RECORD;
  } else {
    xg_set_state64(s, entry + XG_ENTRY_DEADLINE, deadline);
    xg_note_use(s, set, entry, evict);
  }
  if (step_made.anew == 1u) {
    f.value &= XG_CT_SHOWN(0u) | XG_CT_SHOWN(1u);
    f.sent = 0u;
    f.got = 0u;
    for (u32 i = 0u; i < XG_CT_RECORD; i++) s.v[f.record + i] = 0u;
    if (connection != 0u) {
      u32 birth = xg_ct_birth(now);
      s.v[f.record + XG_CT_BIRTH] = birth;
      connection |= birth;
    }
    bool picked_up = carries == XG_CT_TCP && ((t.facts >> 8) & (XG_CT_SYN | XG_CT_ACK)) != XG_CT_SYN;
    if (picked_up) f.value |= XG_CT_LIBERAL;
  }
  if (step_made.anew == 2u) f.value &= ~(XG_CT_SEEN(direction) | XG_CT_ACKED(direction));
  f.value = xg_ct_standing(mode, t, fate, f.value, step_made);
  if (carries == XG_CT_TCP) {
    xg_ct_note_tcp(s, f, t, loose);
    s.v[entry + XG_ENTRY_VALUE + 1u + direction] = f.sent;
    s.v[entry + XG_ENTRY_VALUE + 2u - direction] = f.got;
  } else if (step_made.anew == 1u) {
    s.v[entry + XG_ENTRY_VALUE + 1u] = 0u;
    s.v[entry + XG_ENTRY_VALUE + 2u] = 0u;
  }
  s.v[entry + XG_ENTRY_VALUE] = (f.value & ~XG_CT_STEP_BITS) | step_made.value;
  return XG_CT_SAYS(step_made.what, connection);
}

/* Returns an action word. */
XG_FN u32 xg_conntrack_settle(xg_batch b, u32 body, u32 outcome, xg_view p, XG_INOUT(xg_result) r) {
  u32 what = XG_CT_WHAT(outcome);
  xg_count(xg_state_of(b, body), XG_TABLE_OWN + what);
  if ((b.image.v[body + XG_CT_MODE] & XG_BEHIND_INSPECTS) != 0u && (p.flags & XG_PKT_EGRESS) == 0u)
    r.detail = XG_CT_CONNECTION(outcome) | XG_CONNECTION_SEEN;
  if (what == XG_CT_NEW) return b.image.v[body + XG_CT_ON_NEW];
  if (what == XG_CT_INVALID || what == XG_CT_NO_PLACE) return b.image.v[body + XG_CT_ON_INVALID];
  if (what == XG_CT_UNTRACKED) return b.image.v[body + XG_CT_ON_UNTRACKED];
  return XG_NEXT;
}

/* Windows are in the record, and which connection it is. */
XG_FN u32 xg_conntrack_record_ahead(xg_words image, u32 body, xg_touch t) {
  u32 mode = image.v[body + XG_CT_MODE];
  bool windows = (mode & XG_CT_LOOSE) == 0u && ((t.facts >> 1) & 7u) == XG_CT_TCP;
  return windows || (mode & XG_BEHIND_INSPECTS) != 0u ? XG_CT_RECORD : 0u;
}

#endif
