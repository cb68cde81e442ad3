/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/conntrack.h: `conntrack`, which packets belong to a connection (gpu/pipelines.hpp says what the
 * classes mean and what each packet does to its connection).
 *
 * Both directions of a connection have one entry: its key has the lower address first, and a packet's
 * direction is whether its source is the upper one.
 */
#ifndef XDPGPU_STAGES_CONNTRACK_H
#define XDPGPU_STAGES_CONNTRACK_H

#include "table.h"

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

/* An entry's first word of value: state, direction of its originator << 8, directions that sent FIN << 16. */
#define XG_CT_VALUE(state, originator, fins) ((state) | ((originator) << 8) | ((fins) << 16))

/* xg_touch.facts: direction, what it carries << 1, XG_CT_LEAVES, for TCP its flags << 8, else its state where
 * new << 8. Of an untracked packet: its class. */
#define XG_CT_TCP 1u
#define XG_CT_ASKS 2u    /* may begin a connection without a handshake */
#define XG_CT_ANSWERS 3u /* only answers */
#define XG_CT_REPORTS 4u /* an ICMP error about another packet, whose key this is */
#define XG_CT_LEAVES 16u /* the host sends it */

#define XG_CT_FIN 1u
#define XG_CT_SYN 2u
#define XG_CT_RST 4u
#define XG_CT_ACK 16u

/* The key of a connection, and in facts the direction. */
XG_FN void xg_ct_key(u32 family, u32 protocol, u32 src_port, u32 dst_port, xg_view p, XG_INOUT(xg_touch) t) {
  bool upper = false; /* the source is */
  bool decided = false;
  for (u32 i = 0u; i < 4u; i++) {
    if (!decided && p.src[i] != p.dst[i]) {
      decided = true;
      upper = p.src[i] > p.dst[i];
    }
  }
  if (!decided) upper = src_port > dst_port;
  for (u32 i = 0u; i < 4u; i++) {
    t.key[i] = upper ? p.dst[i] : p.src[i];
    t.key[4u + i] = upper ? p.src[i] : p.dst[i];
  }
  t.key[8] = upper ? dst_port | (src_port << 16) : src_port | (dst_port << 16);
  t.key[9] = family | (protocol << 8);
  t.facts = upper ? 1u : 0u;
}

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
  if (protocol == 6u || protocol == 17u || protocol == 132u) {
    xg_ct_key(p.family, protocol, ports & 0xffffu, ports >> 16, q, t);
    return true;
  }
  u32 type = ports & 0xffu;
  bool echo = p.family == 4u ? protocol == 1u && (type == 8u || type == 0u)
                             : protocol == 58u && (type == 128u || type == 129u);
  if (!echo) return false;
  u32 id = xg_view32(p, l4 + 4u) & 0xffffu;
  xg_ct_key(p.family, protocol, id, id, q, t);
  return true;
}

XG_FN xg_touch xg_ct_icmp(xg_view p) {
  if (!xg_inside(p, p.l4_offset, 8u)) return xg_ct_only(XG_CT_INVALID);
  u32 type = xg_view32(p, p.l4_offset) & 0xffu;
  u32 asks = p.family == 4u ? 8u : 128u;
  u32 answers = p.family == 4u ? 0u : 129u;
  xg_touch t = xg_untracked();
  if (type == asks || type == answers) {
    u32 id = xg_view32(p, p.l4_offset + 4u) & 0xffffu;
    xg_ct_key(p.family, p.protocol, id, id, p, t);
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

XG_FN xg_touch xg_ct_tcp(xg_view p) {
  if (p.has_ports == 0u || !xg_inside(p, p.l4_offset, 14u)) return xg_ct_only(XG_CT_INVALID);
  u32 flags = (xg_view32(p, p.l4_offset + 10u) >> 24) & 0xffu;
  u32 marks = flags & (XG_CT_SYN | XG_CT_FIN | XG_CT_RST);
  bool alone = (marks & (marks - 1u)) == 0u;
  if (!alone || (flags & (XG_CT_SYN | XG_CT_RST | XG_CT_ACK)) == 0u) return xg_ct_only(XG_CT_INVALID);
  xg_touch t = xg_untracked();
  xg_ct_key(p.family, p.protocol, p.ports & 0xffffu, p.ports >> 16, p, t);
  t.facts |= (XG_CT_TCP << 1) | (flags << 8);
  t.tag = 1u;
  return t;
}

XG_FN xg_touch xg_conntrack_touch(xg_batch b, u32 body, xg_view p) {
  if ((p.flags & XG_PKT_MALFORMED) != 0u) return xg_ct_only(XG_CT_INVALID);
  if (p.family == 0u || (p.flags & (XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT)) != 0u)
    return xg_ct_only(XG_CT_UNTRACKED);
  xg_touch t = xg_untracked();
  if ((p.flags & XG_PKT_TCP) != 0u) {
    t = xg_ct_tcp(p);
  } else if ((p.flags & XG_PKT_ICMP) != 0u) {
    t = xg_ct_icmp(p);
  } else {
    bool udp = (p.flags & XG_PKT_UDP) != 0u;
    if (udp && p.has_ports == 0u) return xg_ct_only(XG_CT_INVALID);
    xg_ct_key(p.family, p.protocol, p.ports & 0xffffu, p.ports >> 16, p, t);
    t.facts |= (XG_CT_ASKS << 1) | ((udp ? XG_CT_UDP : XG_CT_OTHER) << 8);
    t.tag = 1u;
  }
  if (t.tag == XG_UNTRACKED) return t;
  if ((p.flags & XG_PKT_EGRESS) != 0u) t.facts |= XG_CT_LEAVES;
  t.now = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u)) * XG_TICKS_PER_NS;
  xg_touch_hash(b, body, t);
  return t;
}

/* What a packet makes of a connection. */
struct xg_ct_step {
  u32 what;    /* class of the packet */
  u32 value;   /* of the entry, from now on */
  u32 renewed; /* 1: its time begins anew */
};

XG_FN xg_ct_step xg_ct_stays(u32 what, u32 value) {
  xg_ct_step step_made;
  step_made.what = what;
  step_made.value = value;
  step_made.renewed = 0u;
  return step_made;
}

XG_FN xg_ct_step xg_ct_becomes(u32 what, u32 state, u32 originator, u32 fins) {
  xg_ct_step step_made;
  step_made.what = what;
  step_made.value = XG_CT_VALUE(state, originator, fins);
  step_made.renewed = 1u;
  return step_made;
}

/* Of a packet without an entry; renewed 0: none is made. */
XG_FN xg_ct_step xg_ct_begins(u32 facts, bool loose) {
  u32 direction = facts & 1u;
  u32 carries = (facts >> 1) & 7u;
  u32 detail = facts >> 8;
  if (carries == XG_CT_ASKS) return xg_ct_becomes(XG_CT_NEW, detail, direction, 0u);
  if (!loose && (carries != XG_CT_TCP || (detail & (XG_CT_SYN | XG_CT_ACK)) != XG_CT_SYN))
    return xg_ct_stays(XG_CT_INVALID, 0u);
  if (carries == XG_CT_ANSWERS) return xg_ct_becomes(XG_CT_ESTABLISHED, detail + 1u, 1u - direction, 0u);
  if (carries == XG_CT_REPORTS || (detail & XG_CT_RST) != 0u) return xg_ct_stays(XG_CT_UNTRACKED, 0u);
  if ((detail & XG_CT_SYN) != 0u) {
    if ((detail & XG_CT_ACK) == 0u) return xg_ct_becomes(XG_CT_NEW, XG_CT_SYN_SENT, direction, 0u);
    return xg_ct_becomes(XG_CT_ESTABLISHED, XG_CT_SYN_RECEIVED, 1u - direction, 0u);
  }
  if ((detail & XG_CT_FIN) != 0u) return xg_ct_becomes(XG_CT_NEW, XG_CT_FIN_WAIT, direction, 1u << direction);
  return xg_ct_becomes(XG_CT_NEW, XG_CT_OPEN, direction, 0u);
}

XG_FN xg_ct_step xg_ct_syn(u32 value, u32 direction, bool answers) {
  u32 state = value & 0xffu;
  u32 originator = (value >> 8) & 1u;
  bool over = state == XG_CT_TIME_WAIT || state == XG_CT_CLOSED;
  if (answers) {
    if (state == XG_CT_CLOSED || (state == XG_CT_SYN_SENT && direction == originator))
      return xg_ct_stays(XG_CT_INVALID, value);
    if (state == XG_CT_SYN_SENT || state == XG_CT_SYN_RECEIVED)
      return xg_ct_becomes(XG_CT_ESTABLISHED, XG_CT_SYN_RECEIVED, originator, 0u);
    return xg_ct_stays(XG_CT_ESTABLISHED, value);
  }
  if (over) return xg_ct_becomes(XG_CT_NEW, XG_CT_SYN_SENT, direction, 0u);
  if (state == XG_CT_SYN_SENT && direction == originator)
    return xg_ct_becomes(XG_CT_NEW, XG_CT_SYN_SENT, originator, 0u);
  /* Both sides open at once (RFC 9293, 3.5). */
  if (state == XG_CT_SYN_SENT) return xg_ct_becomes(XG_CT_ESTABLISHED, XG_CT_SYN_RECEIVED, originator, 0u);
  return xg_ct_stays(XG_CT_ESTABLISHED, value);
}

XG_FN xg_ct_step xg_ct_tcp_goes_on(u32 value, u32 direction, u32 flags, bool loose) {
  u32 state = value & 0xffu;
  u32 originator = (value >> 8) & 1u;
  u32 fins = value >> 16;
  if ((flags & XG_CT_RST) != 0u) {
    if (state == XG_CT_CLOSED) return xg_ct_stays(XG_CT_ESTABLISHED, value);
    return xg_ct_becomes(XG_CT_ESTABLISHED, XG_CT_CLOSED, originator, fins);
  }
  if ((flags & XG_CT_SYN) != 0u) return xg_ct_syn(value, direction, (flags & XG_CT_ACK) != 0u);
  if (state == XG_CT_CLOSED || (state == XG_CT_SYN_SENT && !loose)) return xg_ct_stays(XG_CT_INVALID, value);
  if (state == XG_CT_TIME_WAIT) return xg_ct_stays(XG_CT_ESTABLISHED, value);
  if (state == XG_CT_SYN_SENT || (state == XG_CT_SYN_RECEIVED && direction == originator)) state = XG_CT_OPEN;
  if ((flags & XG_CT_FIN) != 0u) {
    fins |= 1u << direction;
    state = fins == 3u ? XG_CT_TIME_WAIT : XG_CT_FIN_WAIT;
  }
  return xg_ct_becomes(XG_CT_ESTABLISHED, state, originator, fins);
}

XG_FN xg_ct_step xg_ct_goes_on(u32 value, u32 facts, bool loose) {
  u32 direction = facts & 1u;
  u32 carries = (facts >> 1) & 7u;
  if (carries == XG_CT_REPORTS) return xg_ct_stays(XG_CT_RELATED, value);
  if (carries == XG_CT_TCP) return xg_ct_tcp_goes_on(value, direction, facts >> 8, loose);
  u32 originator = (value >> 8) & 1u;
  u32 one_way = facts >> 8;
  u32 state = value & 0xffu;
  if (direction != originator) state = one_way + 1u;
  return xg_ct_becomes(state == one_way ? XG_CT_NEW : XG_CT_ESTABLISHED, state, originator, 0u);
}

XG_FN u32 xg_conntrack_apply(xg_batch b, u32 body, xg_touch t) {
  xg_state s = xg_state_of(b, body);
  u32 evict = b.image.v[body + XG_BODY_EVICT];
  bool loose = b.image.v[body + XG_CT_LOOSE] != 0u || (t.facts & XG_CT_LEAVES) != 0u;
  bool reports = ((t.facts >> 1) & 7u) == XG_CT_REPORTS;
  u64 now = u64(0);
  u32 set = xg_come(s, t, now);
  /* Anyone can send an error about a connection: it does not count as use of it. */
  u32 entry = xg_find(s, set, now, reports ? XG_EVICT_REFUSE : evict, t);
  xg_ct_step step_made = xg_ct_begins(t.facts, loose);
  if (entry != 0u) step_made = xg_ct_goes_on(s.v[entry + XG_ENTRY_VALUE], t.facts, loose);
  if (step_made.renewed == 0u) return step_made.what;

  u32 at = body + XG_CT_TIMEOUTS + (step_made.value & 0xffu) * 2u;
  u64 deadline = now + xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  if (entry == 0u) {
    entry = xg_insert(s, set, now, evict, deadline, t);
    if (entry == 0u) return XG_CT_NO_PLACE;
    s.v[entry + XG_ENTRY_VALUE + 1u] = 0u;
    s.v[entry + XG_ENTRY_VALUE + 2u] = 0u;
  } else {
    xg_set_state64(s, entry + XG_ENTRY_DEADLINE, deadline);
  }
  s.v[entry + XG_ENTRY_VALUE] = step_made.value;
  return step_made.what;
}

/* Returns an action word. */
XG_FN u32 xg_conntrack_settle(xg_batch b, u32 body, u32 what) {
  xg_count(xg_state_of(b, body), XG_TABLE_OWN + what);
  if (what == XG_CT_NEW) return b.image.v[body + XG_CT_ON_NEW];
  if (what == XG_CT_INVALID || what == XG_CT_NO_PLACE) return b.image.v[body + XG_CT_ON_INVALID];
  return XG_NEXT;
}

#endif
