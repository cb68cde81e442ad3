/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/ddos/apply_many.h: the packets of one target, a warp's at a time (gpu/stages/apply_many.h).
 * While no alarm begins or ends, no register goes up and no window is over, all that a packet does to its
 * target's record is to add to it, and what it adds to is what those before it have added: sums over the
 * lanes in front. So the lanes take a packet each, find out which of them is the first that does more than
 * that, and all before it are counted at once, with the answers and the record that xg_ddos_apply() would
 * give them one after the other. That one is then for xg_ddos_apply(). In a flood such packets are few: some
 * thousands a window, however many it brings.
 */
#ifndef XDPGPU_STAGES_DDOS_APPLY_MANY_H
#define XDPGPU_STAGES_DDOS_APPLY_MANY_H

#include "gpu/stages/ddos/device.h"
#include "gpu/stages/warp.h"

/* A sketch's count that might come round within a run. */
#define XG_DDOS_NEARLY_ALL 0xffff0000u

/* Behind the record: the body's words from XG_DDOS_PER to its thresholds' last one. */
#define XG_DDOS_CACHED_SETTINGS XG_DDOS_RECORD
#define XG_DDOS_CACHE_WORDS (XG_DDOS_RECORD + XG_DDOS_LINEAR - XG_DDOS_PER)
#define XG_DDOS_CACHED(word) (XG_DDOS_CACHED_SETTINGS + (word)-XG_DDOS_PER)

/* Puts back what is in the cache. */
template <class Warp>
XG_WARP_FN void xg_ddos_write_back(Warp& warp, xg_batch b, XG_INOUT(xg_record_cache) cache) {
  if (!cache.used) return;
  cache.used = false;
  xg_state s = xg_state_of(b, cache.body);
  warp.sync();
  for (u32 i = warp.lane(); i < XG_DDOS_RECORD; i += XG_LANES) s.v[cache.record + i] = cache.words.v[i];
  if (warp.lane() == 0u) {
    xg_set_state64(s, cache.entry + XG_ENTRY_DEADLINE, cache.deadline);
    s.v[cache.entry + XG_ENTRY_RANK] = cache.rank;
  }
  warp.sync();
}

/* Puts the target that has `entry` of set `number` in the cache. */
template <class Warp>
XG_WARP_FN void xg_ddos_load_record(Warp& warp, xg_batch b, u32 body, u32 number, u32 entry,
                                    XG_INOUT(xg_record_cache) cache) {
  if (cache.used && cache.body == body && cache.entry == entry) return;
  xg_ddos_write_back(warp, b, cache);
  u32 lane = warp.lane();
  xg_state s = xg_state_of(b, body);
  u32 way = (entry - xg_set_at(number) - XG_SET_HEAD) / XG_ENTRY_WORDS;
  cache.body = body;
  cache.entry = entry;
  cache.record = xg_set_at(b.image.v[body + XG_BODY_SETS]) + (number * XG_WAYS + way) * XG_DDOS_RECORD;
  XG_WARP_UNROLL for (u32 i = 0u; i < XG_DDOS_RECORD / XG_LANES; i++) cache.words.v[i * XG_LANES + lane] =
      s.v[cache.record + i * XG_LANES + lane];
  for (u32 i = XG_DDOS_RECORD / XG_LANES * XG_LANES + lane; i < XG_DDOS_RECORD; i += XG_LANES)
    cache.words.v[i] = s.v[cache.record + i];
  for (u32 i = XG_DDOS_PER + lane; i < XG_DDOS_LINEAR; i += XG_LANES)
    cache.words.v[XG_DDOS_CACHED(i)] = b.image.v[body + i];
  cache.rank = s.v[entry + XG_ENTRY_RANK];
  cache.deadline = xg_state64(s, entry + XG_ENTRY_DEADLINE);
  u32 told = s.v[entry + XG_ENTRY_VALUE];
  cache.used = true;
  warp.sync();
  cache.news = told != cache.words.v[XG_DDOS_DETECTIONS];
}

/* What the lanes 0 to 7 have of the sources with most packets. */
struct xg_ddos_top {
  u32 key[4];
  u32 packets; /* 0: none */
};

/* Of the eight, the one with fewest packets, the first of equals; to all lanes. */
template <class Warp>
XG_WARP_FN u32 xg_ddos_least(Warp& warp, u32 packets, XG_INOUT(u32) fewest) {
  u64 least = warp.lane() < XG_DDOS_TOP ? xg_word_pair(warp.lane(), packets) : ~u64(0);
  XG_WARP_UNROLL for (u32 step = XG_DDOS_TOP / 2u; step != 0u; step /= 2u) {
    u64 other = warp.from(least, warp.lane() ^ step);
    if (other < least) least = other;
  }
  least = warp.from(least, 0u);
  fewest = u32(least >> 32);
  return u32(least);
}

/* The lanes in `counted`, whose sources have `packets` now, take their places among those with most. */
template <class Warp>
XG_WARP_FN void xg_ddos_rise(Warp& warp, xg_state d, const xg_touch& t, u32 counted, u32 packets) {
  u32 lane = warp.lane();
  u32 at = XG_DDOS_TOP_AT + (lane & (XG_DDOS_TOP - 1u)) * XG_DDOS_TOP_WORDS;
  xg_ddos_top top;
  for (u32 k = 0u; k < 4u; k++) top.key[k] = d.v[at + k];
  top.packets = d.v[at + XG_DDOS_TOP_PACKETS];
  /* A source has at least as many packets as it had when it was noted: one that has fewer than the last of
   * the eight is none of them. */
  u32 fewest = d.v[XG_DDOS_TOP_AT + XG_DDOS_TOP_PACKETS];
  for (u32 i = 1u; i < XG_DDOS_TOP; i++) {
    u32 has = d.v[XG_DDOS_TOP_AT + i * XG_DDOS_TOP_WORDS + XG_DDOS_TOP_PACKETS];
    if (has < fewest) fewest = has;
  }
  u32 rising = warp.ballot((counted >> lane & 1u) != 0u && packets >= fewest);
  if (rising == 0u) return;
  u32 place = XG_DDOS_TOP; /* of this lane's source */
  for (u32 i = 0u; i < XG_DDOS_TOP; i++) {
    u32 its = XG_DDOS_TOP_AT + i * XG_DDOS_TOP_WORDS;
    u32 different = d.v[its + XG_DDOS_TOP_PACKETS] == 0u ? 1u : 0u;
    for (u32 k = 0u; k < 4u; k++) different |= d.v[its + k] ^ t.key[4u + k];
    if (different == 0u && place == XG_DDOS_TOP) place = i;
  }
  u32 strangers = warp.ballot(place == XG_DDOS_TOP) & rising;
  if (strangers == 0u) {
    /* All are there already: the last packet of each counts. */
    u32 mine = 0u;
    for (u32 i = 0u; i < XG_DDOS_TOP; i++) {
      u32 its = warp.ballot(place == i) & rising;
      if (lane == i) mine = its;
    }
    u32 last = warp.from(packets, mine != 0u ? xg_highest_bit(mine) : 0u);
    if (mine != 0u) d.v[at + XG_DDOS_TOP_PACKETS] = last;
    return;
  }
  for (u32 left = rising; left != 0u; left &= left - 1u) {
    u32 who = XG_LOWEST_BIT(left);
    u32 has = warp.from(packets, who);
    u32 key[4];
    u32 different = top.packets == 0u ? 1u : 0u;
    for (u32 k = 0u; k < 4u; k++) {
      key[k] = warp.from(t.key[4u + k], who);
      different |= top.key[k] ^ key[k];
    }
    u32 known = warp.ballot(lane < XG_DDOS_TOP && different == 0u);
    if (known != 0u) {
      if (lane == XG_LOWEST_BIT(known)) top.packets = has;
      continue;
    }
    u32 least = xg_ddos_least(warp, top.packets, fewest);
    if (has > fewest && lane == least) {
      for (u32 k = 0u; k < 4u; k++) top.key[k] = key[k];
      top.packets = has;
    }
  }
  warp.sync();
  if (lane < XG_DDOS_TOP) {
    for (u32 k = 0u; k < 4u; k++) d.v[at + k] = top.key[k];
    d.v[at + XG_DDOS_TOP_PACKETS] = top.packets;
  }
}

/* A lane a metric: what the run adds to it, where that can be told without a look at each packet: no alarm
 * begins or ends, and of those that are on each packet prolongs its kinds'. False: it cannot, nothing was
 * done. judged: kinds of the lane's packet that count. */
template <class Warp>
XG_WARP_FN bool xg_ddos_add(Warp& warp, xg_state d, u32 judged, u32 size, u64 now, u64 share, u32 run,
                            u32 alarms) {
  u32 lane = warp.lane();
  u32 last = xg_highest_bit(run);
  u64 began = warp.from(now, XG_LOWEST_BIT(run));
  u64 ended = warp.from(now, last);
  /* The part of the window before that still counts only gets smaller. */
  u64 larger = warp.from(share, XG_LOWEST_BIT(run));
  u64 smaller = warp.from(share, last);
  u32 has = 0u; /* lanes whose packets are of this lane's metric */
  XG_WARP_UNROLL for (u32 m = 0u; m < XG_DDOS_METRICS; m++) {
    u32 those = warp.ballot((judged >> m & 1u) != 0u);
    if (lane == m) has = those;
  }
  u32 added = lane < XG_DDOS_NEW_FLOWS ? XG_BITS_SET(has) : 0u;
  u32 bytes = warp.sum((judged >> XG_DDOS_UDP_BYTES & 1u) != 0u ? size : 0u);
  if (lane == XG_DDOS_UDP_BYTES) added = bytes;
  bytes = warp.sum((judged >> XG_DDOS_DNS_BYTES & 1u) != 0u ? size : 0u);
  if (lane == XG_DDOS_DNS_BYTES) added = bytes;
  bytes = warp.sum((judged >> XG_DDOS_BYTES & 1u) != 0u ? size : 0u);
  if (lane == XG_DDOS_BYTES) added = bytes;

  u32 m = lane < XG_DDOS_METRICS ? lane : 0u;
  u32 metric = XG_DDOS_METRIC_AT + m * XG_DDOS_METRIC;
  u32 threshold = XG_DDOS_CACHED(XG_DDOS_THRESHOLDS) + m * 4u;
  u64 hold = xg_state64(d, XG_DDOS_CACHED(XG_DDOS_HOLD));
  u64 until = xg_state64(d, metric + XG_DDOS_UNTIL);
  u64 value = xg_state64(d, metric + XG_DDOS_NOW);
  u64 before = xg_state64(d, metric + XG_DDOS_BEFORE);
  u64 peak = xg_state64(d, metric + XG_DDOS_PEAK);
  u64 most = (before * larger) >> 10;
  u64 least = (before * smaller) >> 10;
  if (m < XG_DDOS_NEW_FLOWS) {
    most += value + u64(added);
    least += value;
  } else {
    if (most < value) most = value;
    if (least < value) least = value;
  }
  bool on = (alarms >> m & 1u) != 0u;
  bool told = has == 0u || (until <= began && most < xg_state64(d, threshold));
  if (on)
    told = until > ended && (has == 0u || (ended - began < hold && least >= xg_state64(d, threshold + 2u) &&
                                           (larger == smaller || most <= peak)));
  if (warp.ballot(lane < XG_DDOS_METRICS && !told) != 0u) return false;
  warp.sync();
  u64 then = warp.from(now, has != 0u ? xg_highest_bit(has) : 0u) + hold;
  if (has != 0u) {
    if (added != 0u) xg_set_state64(d, metric + XG_DDOS_NOW, value + u64(added));
    if (on) {
      xg_set_state64(d, metric + XG_DDOS_UNTIL, then);
      if (most > peak) xg_set_state64(d, metric + XG_DDOS_PEAK, most);
    }
  }
  return true;
}

/* The same, packet by packet: -> the lanes in front of the first one that does more than to add; `more`: it
 * is known to. kinds: of the lane's packet; lasts: end of the alarm that it meets, after it. */
template <class Warp>
XG_WARP_FN u32 xg_ddos_judge_run(Warp& warp, xg_state d, bool mine, u32 kinds, bool more, u32 size, u64 now,
                                 u64 share, u32 run, u32 alarms, XG_INOUT(u64) lasts) {
  u32 lane = warp.lane();
  u32 first = XG_LOWEST_BIT(run);
  u32 up_to = xg_lanes_up_to(lane);
  u64 began = warp.from(now, first);
  u64 hold = xg_state64(d, XG_DDOS_CACHED(XG_DDOS_HOLD));
  u32 judged = (kinds | 1u << XG_DDOS_NEW_FLOWS) & d.v[XG_DDOS_CACHED(XG_DDOS_WATCHED)];
  u32 sums[XG_DDOS_METRICS]; /* of this run, up to this lane */
  u64 values[XG_DDOS_METRICS];
  u32 releases[XG_DDOS_METRICS]; /* lanes whose packets prolong the alarm */
  XG_WARP_UNROLL for (u32 m = 0u; m < XG_DDOS_METRICS; m++) {
    sums[m] = 0u;
    values[m] = u64(0);
    releases[m] = 0u;
    bool has = mine && (judged >> m & 1u) != 0u;
    bool on = (alarms >> m & 1u) != 0u;
    u32 those = warp.ballot(has);
    if (those == 0u && !on) continue;
    u32 metric = XG_DDOS_METRIC_AT + m * XG_DDOS_METRIC;
    u64 until = xg_state64(d, metric + XG_DDOS_UNTIL);
    u64 value = xg_state64(d, metric + XG_DDOS_NOW);
    u64 before = (xg_state64(d, metric + XG_DDOS_BEFORE) * share) >> 10;
    if (m < XG_DDOS_NEW_FLOWS) {
      bool bytes = m == XG_DDOS_UDP_BYTES || m == XG_DDOS_DNS_BYTES || m == XG_DDOS_BYTES;
      sums[m] = bytes ? xg_sum_up_to_here(warp, has ? size : 0u) : XG_BITS_SET(those & up_to);
      value += u64(sums[m]) + before;
    } else if (before > value) {
      value = before;
    }
    values[m] = value;
    u32 threshold = XG_DDOS_CACHED(XG_DDOS_THRESHOLDS) + m * 4u;
    if (on) {
      /* A packet in front may set an end that is nearer than the one there was. */
      more |= until <= now || (lane != first && now - began >= hold);
      releases[m] = warp.ballot(has && value >= xg_state64(d, threshold + 2u));
    } else if (has) {
      more |= until > now || value >= xg_state64(d, threshold);
    }
  }

  u32 stop = warp.ballot(mine && more);
  u32 done = stop == 0u ? run : run & ((1u << XG_LOWEST_BIT(stop)) - 1u);
  if (done == 0u) return 0u;
  warp.sync();
  mine = (done >> lane & 1u) != 0u;
  u32 last = xg_highest_bit(done);
  u32 hit = mine ? kinds & alarms : 0u;
  u32 reason = hit != 0u ? XG_LOWEST_BIT(hit) : XG_DDOS_METRICS;
  XG_WARP_UNROLL for (u32 m = 0u; m < XG_DDOS_METRICS; m++) {
    u32 metric = XG_DDOS_METRIC_AT + m * XG_DDOS_METRIC;
    u32 sum = warp.from(sums[m], last);
    if (lane == m && sum != 0u)
      xg_set_state64(d, metric + XG_DDOS_NOW, xg_state64(d, metric + XG_DDOS_NOW) + u64(sum));
    if ((alarms >> m & 1u) == 0u) continue;
    u32 prolonging = releases[m] & done & up_to;
    u64 then = warp.from(now, prolonging != 0u ? xg_highest_bit(prolonging) : 0u) + hold;
    if (reason == m) lasts = prolonging != 0u ? then : xg_state64(d, metric + XG_DDOS_UNTIL);
    u64 peak = mine && (judged >> m & 1u) != 0u ? values[m] : u64(0);
    bool higher = warp.ballot(peak > xg_state64(d, metric + XG_DDOS_PEAK)) != 0u;
    if (higher) peak = xg_most_up_to_here(warp, peak);
    warp.sync();
    if (lane == XG_LANES - 1u) {
      if (prolonging != 0u) xg_set_state64(d, metric + XG_DDOS_UNTIL, then);
      if (higher) xg_set_state64(d, metric + XG_DDOS_PEAK, peak);
    }
  }
  return done;
}

/* run: lanes whose packets are of the target in the cache, in the order of their lanes. Each lane's own: t,
 * or xg_untracked(); now, the set's clock with its packet; turn, the set's count. -> the lanes that are
 * through, the first ones of them, with their outcomes; 0: the first one is for xg_ddos_apply(). */
template <class Warp>
XG_WARP_FN u32 xg_ddos_run(Warp& warp, xg_batch b, const xg_touch& t, u64 now, u32 turn, u32 run,
                           XG_INOUT(xg_record_cache) cache, XG_INOUT(u32) outcome) {
  if (cache.news) return 0u;
  u32 lane = warp.lane();
  u32 first = XG_LOWEST_BIT(run);
  bool mine = (run >> lane & 1u) != 0u;
  xg_state d = cache.words;

  /* What would be more than to add: another window, a register that goes up. */
  u64 forget = xg_state64(d, XG_DDOS_CACHED(XG_DDOS_FORGET));
  u64 hold = xg_state64(d, XG_DDOS_CACHED(XG_DDOS_HOLD));
  u64 window = xg_state64(d, XG_DDOS_CACHED(XG_DDOS_WINDOW));
  u64 start = xg_state64(d, XG_DDOS_START);
  bool more = now < start || now - start >= window;
  u32 watched = d.v[XG_DDOS_CACHED(XG_DDOS_WATCHED)];
  if ((watched & (1u << XG_DDOS_SOURCE_COUNT)) != 0u)
    more |= xg_ddos_register(d, XG_DDOS_SOURCES_AT, t.key[8] & 0xffu) < ((t.key[8] >> 8) & 63u);
  if ((watched & (1u << XG_DDOS_NEW_FLOWS)) != 0u) {
    u32 flows = XG_DDOS_FLOWS_AT + d.v[XG_DDOS_CURRENT] * XG_DDOS_REGISTER_WORDS;
    more |= xg_ddos_register(d, flows, (t.facts >> 10) & 0xffu) < ((t.facts >> 18) & 63u);
  }

  /* The part of the window before that counts: for many packets the same one, which is told by less than a
   * division. */
  u64 rest = mine && !more ? (start + window - now) * u64(1024) : u64(cache.share) * window;
  u64 share = u64(cache.share);
  if (warp.ballot(rest < share * window || rest >= (share + u64(1)) * window) != 0u) {
    share = rest / window;
    cache.share = u32(warp.from(share, first));
  }

  /* The sketch. */
  u32 kinds = t.facts & XG_DDOS_KINDS;
  u32 alarms = d.v[XG_DDOS_ALARMS] & watched;
  u32 sketched = alarms != 0u ? alarms : watched;
  u32 places[2];
  u32 counts[2];
  places[0] = XG_DDOS_SKETCH_AT + ((t.key[8] >> 14) & 63u);
  places[1] = XG_DDOS_SKETCH_AT + XG_DDOS_ROW + ((t.key[8] >> 20) & 63u);
  for (u32 row = 0u; row < 2u; row++) {
    counts[row] = d.v[places[row]];
    more |= counts[row] >= XG_DDOS_NEARLY_ALL;
  }
  u32 total = d.v[XG_DDOS_TOTAL];

  u32 up_to = xg_lanes_up_to(lane);
  u32 done = run;
  u64 lasts = now + hold; /* end of the alarm that the packet meets, after it */
  u32 judged = (kinds | 1u << XG_DDOS_NEW_FLOWS) & watched;
  if (warp.ballot(mine && more) != 0u ||
      !xg_ddos_add(warp, d, mine ? judged : 0u, t.size, now, share, run, alarms)) {
    done = xg_ddos_judge_run(warp, d, mine, kinds, more, t.size, now, share, run, alarms, lasts);
    if (done == 0u) return 0u;
  }
  mine = (done >> lane & 1u) != 0u;
  u32 last = xg_highest_bit(done);
  u32 hit = mine ? kinds & alarms : 0u;
  u32 reason = hit != 0u ? XG_LOWEST_BIT(hit) : XG_DDOS_METRICS;

  bool counts_for_it = mine && (kinds & sketched) != 0u;
  u32 counted = warp.ballot(counts_for_it);
  u32 packets = 0u;
  if (counted != 0u) {
    total += XG_BITS_SET(counted & up_to);
    for (u32 row = 0u; row < 2u; row++) {
      u32 peers = warp.same(places[row]) & counted;
      counts[row] += XG_BITS_SET(peers & up_to);
      if (counts_for_it && lane == xg_highest_bit(peers)) d.v[places[row]] = counts[row];
    }
    if (lane == xg_highest_bit(counted)) d.v[XG_DDOS_TOTAL] = total;
    packets = counts[0] < counts[1] ? counts[0] : counts[1];
    xg_ddos_rise(warp, d, t, counted, packets);
  }

  u32 mode = d.v[XG_DDOS_CACHED(XG_DDOS_MODE)];
  u64 needed = u64(total) * u64(d.v[XG_DDOS_CACHED(XG_DDOS_SHARE)]);
  bool spared = mode == XG_DDOS_PASSES || (mode == XG_DDOS_DROPS_SOURCES && u64(packets) * u64(100) < needed);
  bool drops = hit != 0u && !spared;
  u32 dropped = warp.ballot(drops);
  if (dropped != 0u) {
    u32 alike = warp.same(reason) & dropped;
    u32 at = XG_DDOS_METRIC_AT + reason * XG_DDOS_METRIC + XG_DDOS_DROPPED_IN;
    if (drops && lane == xg_highest_bit(alike))
      xg_set_state64(d, at, xg_state64(d, at) + u64(XG_BITS_SET(alike)));
    if (lane == 0u)
      xg_set_state64(d, XG_DDOS_DROPPED_ALL, xg_state64(d, XG_DDOS_DROPPED_ALL) + u64(XG_BITS_SET(dropped)));
  }
  if (mine) {
    outcome = hit == 0u ? XG_DDOS_WITHIN : XG_DDOS_ALARMED;
    if (drops) {
      u64 ttl = (lasts - now) / XG_DDOS_TICKS_PER_MS;
      u64 most = u64(b.image.v[cache.body + XG_BODY_TTL]);
      if (most != u64(0) && ttl > most) ttl = most;
      outcome = XG_DDOS_DROPPED | reason << 3 | u32(ttl) << 7;
    }
    xg_state s = xg_state_of(b, cache.body);
    xg_count(s, XG_TABLE_TOUCHES);
    xg_count(s, XG_TABLE_HITS);
  }
  if (lane == 0u) d.v[XG_DDOS_ALARMS] = alarms;
  u32 came = XG_BITS_SET(done);
  u32 evict = b.image.v[cache.body + XG_BODY_EVICT];
  if (evict == XG_EVICT_LRU) cache.rank = warp.from(turn, last);
  if (evict == XG_EVICT_LFU) cache.rank = cache.rank < 0xffffffffu - came ? cache.rank + came : 0xffffffffu;
  cache.deadline = warp.from(now, last) + forget;
  warp.sync();
  return done;
}

/* The entry of the packet's target, whether or not its time is over; 0: there is none. */
XG_WARP_FN u32 xg_ddos_entry(xg_state s, u32 set, const xg_touch& t) {
  u32 entry = 0u;
  for (u32 way = XG_WAYS; way-- != 0u;) {
    if (s.v[set + XG_SET_TAGS + way] != t.tag) continue;
    u32 at = xg_entry_at(set, way);
    u32 different = s.v[at + XG_ENTRY_KEY + 9u] ^ t.key[9];
    for (u32 k = 0u; k < 4u; k++) different |= s.v[at + XG_ENTRY_KEY + k] ^ t.key[k];
    for (u32 k = 4u; k < 9u; k++) different |= s.v[at + XG_ENTRY_KEY + k];
    if (different == 0u) entry = at;
  }
  return entry;
}

/* peers: lanes whose packets are of one set of a `ddos`, in their order. -> the lanes that are through, the
 * first ones of them; 0: the first one is for xg_ddos_apply(), as its target is not in the set. Of targets
 * that are, one after the other is taken: what they share is the set's clock and its count, which are known
 * of every packet beforehand. */
template <class Warp>
XG_WARP_FN u32 xg_ddos_apply_many(Warp& warp, xg_batch b, u32 body, const xg_touch& t, u32 peers,
                                  XG_INOUT(xg_record_cache) cache, XG_INOUT(u32) outcome) {
  u32 lane = warp.lane();
  u32 first = XG_LOWEST_BIT(peers);
  bool peer = (peers >> lane & 1u) != 0u;
  xg_state s = xg_state_of(b, body);
  u32 number = warp.from(t.set, first);
  u32 set = xg_set_at(number);
  u64 clock = xg_state64(s, set + XG_SET_TIME);
  u32 turns = s.v[set + XG_SET_TURNS];
  u64 now = xg_most_up_to_here(warp, peer && t.now > clock ? t.now : clock);
  u64 began = warp.from(now, first);
  u32 entry = peer ? xg_ddos_entry(s, set, t) : 0u;
  bool stranger = entry == 0u;
  if (!stranger) {
    /* What is in the cache is not in the table. */
    u64 deadline = cache.used && cache.body == body && cache.entry == entry
                       ? cache.deadline
                       : xg_state64(s, entry + XG_ENTRY_DEADLINE);
    stranger = deadline <= now || (lane != first && now - began >= xg_image64(b, body + XG_DDOS_FORGET));
  }
  u32 strangers = warp.ballot(stranger) & peers;
  if (strangers != 0u) peers &= (1u << XG_LOWEST_BIT(strangers)) - 1u;
  if (peers == 0u) return 0u;
  u32 turn = turns + XG_BITS_SET(peers & xg_lanes_up_to(lane));
  for (u32 left = peers; left != 0u;) {
    u32 its = warp.from(entry, XG_LOWEST_BIT(left));
    u32 run = warp.ballot(entry == its) & left;
    left &= ~run;
    while (run != 0u) {
      xg_ddos_load_record(warp, b, body, number, its, cache);
      u32 done = xg_ddos_run(warp, b, t, now, turn, run, cache, outcome);
      if (done == 0u) {
        u32 next = XG_LOWEST_BIT(run);
        xg_ddos_write_back(warp, b, cache);
        if (lane == next) {
          xg_set_state64(s, set + XG_SET_TIME, now);
          s.v[set + XG_SET_TURNS] = turn - 1u;
          outcome = xg_ddos_apply(b, body, t);
        }
        warp.sync();
        done = 1u << next;
      }
      run &= ~done;
    }
  }
  if (lane == xg_highest_bit(peers)) {
    xg_set_state64(s, set + XG_SET_TIME, now);
    s.v[set + XG_SET_TURNS] = turn;
  }
  warp.sync();
  return peers;
}

#endif
