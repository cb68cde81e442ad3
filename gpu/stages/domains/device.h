/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/domains/device.h: `domains`, the name in a DNS message against lists of names (settings.hpp).
 *
 * A name is looked up once for each of its labels, as few as the longest name in the lists has: com,
 * example.com, www.example.com. What each look-up goes by is a hash of the labels so far, so that all of them
 * together hash the name once. Where names were added or removed since the lists were compiled, each look-up
 * begins among these (gpu/stages/changes.h).
 */
#ifndef XDPGPU_STAGES_DOMAINS_DEVICE_H
#define XDPGPU_STAGES_DOMAINS_DEVICE_H

#include "gpu/stages/changes.h"
#include "gpu/stages/hashed_set.h"
#include "gpu/stages/payload.h"

/* The body: behind its own words and XG_BODY_CHANGES ports, actions and the table of names (hashed_set.h). A
 * name's hash is of its labels, the last one first, each with its length in front and zeros behind it, up to
 * a multiple of eight bytes.
 *
 * table    what it has of a name: numbers of lists from 1, 0: none, that of the name itself in the low half,
 *          that of the names beneath it in the upper one. What of the lists does not follow from that the
 *          host finds there, too, by hashes that no name has (names.hpp)
 * changes  the same of names that were added or removed, and XG_DOMAINS_CHANGED: it holds in place of the
 *          table's */
#define XG_DOMAINS_KEY 3u       /* k0, k1, two words each */
#define XG_DOMAINS_PORTS 7u     /* number of ranges; -> the ranges: first port | last port << 16 */
#define XG_DOMAINS_OTHERWISE 9u /* action words */
#define XG_DOMAINS_MALFORMED 10u
#define XG_DOMAINS_TCP 11u
#define XG_DOMAINS_ACTIONS 12u /* -> two words a list: its action word; flags of the results of queries */
#define XG_DOMAINS_DEEPEST 13u /* labels of the name that has most */
#define XG_DOMAINS_SLOTS 14u
#define XG_DOMAINS_TABLE 15u /* -> the table */
#define XG_DOMAINS_WORDS 16u
#define XG_DOMAINS_CHANGED 0x80000000u
#define XG_DOMAINS_REACH 1024u /* of a packet's bytes */
#define XG_DOMAINS_NAME 255u   /* bytes of a name */
/* All of it, and the words that a load of the last label may touch. */
#define XG_DOMAINS_NAME_WORDS 68u
#define XG_DOMAINS_LABEL_WORDS 32u /* of 127 labels */

#define XG_DOMAINS_MALFORMED_MESSAGE 0u
#define XG_DOMAINS_NO_QUESTION 1u
#define XG_DOMAINS_QUESTION 2u

/* A message's name: its bytes as they stand there, in lower case, from its first length on and with the zero;
 * where each of its labels begins, four a word; how many there are; 1: it is asked for, by a query that can
 * be answered. What is looked up is apart from the packet, so that a GPU's thread does not have to hold all
 * that it takes to read it meanwhile. */
struct xg_domains_name {
  u32 bytes[XG_DOMAINS_NAME_WORDS];
  u32 labels[XG_DOMAINS_LABEL_WORDS];
  u32 count;
  u32 query;
};

/* The four bytes from `at` on, of which the first `bytes` count: zeros stand for the others. */
XG_FN u32 xg_domains_word(XG_INOUT(xg_domains_name) name, u32 at, u32 bytes) {
  u32 shift = (at & 3u) * 8u;
  u32 word = (name.bytes[at >> 2] >> shift) | ((name.bytes[(at >> 2) + 1u] << 1u) << (31u - shift));
  return bytes < 4u ? word & ((1u << (bytes * 8u)) - 1u) : word;
}

/* Whether a port is among the stage's. */
XG_FN bool xg_domains_has_port(xg_words image, u32 body, u32 port) {
  u32 count = image.v[body + XG_DOMAINS_PORTS];
  u32 ranges = image.v[body + XG_DOMAINS_PORTS + 1u];
  for (u32 i = 0u; i < count; i++) {
    u32 range = image.v[ranges + i];
    if (port >= (range & 0xffffu) && port <= range >> 16) return true;
  }
  return false;
}

/* Reads the question's name. XG_DOMAINS_MALFORMED_MESSAGE, ..._NO_QUESTION or ..._QUESTION. */
XG_SELDOM u32 xg_domains_read(xg_batch b, xg_view p, XG_INOUT(xg_domains_name) name) {
  xg_payload_cursor c = xg_payload_of(b, p, XG_DOMAINS_REACH);
  u32 message = xg_payload_start(c, p);
  if (message == 0u || !xg_payload_has(c, message, 12u)) return XG_DOMAINS_MALFORMED_MESSAGE;
  u32 questions = xg_payload16(b, c, message + 4u);
  if (questions == 0u) return XG_DOMAINS_NO_QUESTION;
  if (questions != 1u) return XG_DOMAINS_MALFORMED_MESSAGE;
  bool query = (xg_payload8(b, c, message + 2u) & 0xf8u) == 0u && p.l3_offset == xg_outer_l3(p);
  u32 begin = message + 12u;
  u32 at = begin;
  u32 count = 0u;
  u32 labels = 0u;
  u32 bytes = xg_payload8(b, c, at);
  while (bytes != 0u) {
    if (bytes > 63u || at + bytes + 2u > begin + XG_DOMAINS_NAME) return XG_DOMAINS_MALFORMED_MESSAGE;
    labels |= (at - begin) << ((count & 3u) * 8u);
    name.labels[count >> 2] = labels;
    count += 1u;
    if ((count & 3u) == 0u) labels = 0u;
    at += bytes + 1u;
    bytes = xg_payload8(b, c, at);
  }
  /* The zero, type and class: so the name's bytes are all there, too. */
  if (!xg_payload_has(c, at, 5u)) return XG_DOMAINS_MALFORMED_MESSAGE;
  u32 words = ((at - begin) >> 2) + 1u;
  for (u32 i = 0u; i < words; i++) name.bytes[i] = xg_lower32(xg_payload32(b, c, begin + i * 4u));
  name.count = count;
  name.query = query ? 1u : 0u;
  return XG_DOMAINS_QUESTION;
}

/* The number of the list that has the name, 0: none. */
XG_SELDOM u32 xg_domains_list(xg_words image, xg_words changes, u32 body, XG_INOUT(xg_domains_name) name) {
  u32 changed = image.v[body + XG_BODY_CHANGES];
  u32 changed_slots = changes.v[changed + XG_CHANGES_SLOTS];
  u32 key = body + XG_DOMAINS_KEY;
  u64 k0 = u64(image.v[key]) | u64(image.v[key + 1u]) << 32;
  u64 k1 = u64(image.v[key + 2u]) | u64(image.v[key + 3u]) << 32;
  XG_SIP_BEGIN(k0, k1);
  u32 deepest = image.v[body + XG_DOMAINS_DEEPEST];
  if (changed_slots != 0u && changes.v[changed + XG_CHANGES_DEEPEST] > deepest)
    deepest = changes.v[changed + XG_CHANGES_DEEPEST];
  u32 list = 0u;
  for (u32 depth = 1u; depth <= name.count && depth <= deepest; depth++) {
    u32 label = name.count - depth;
    u32 at = (name.labels[label >> 2] >> ((label & 3u) * 8u)) & 0xffu;
    u32 end = at + xg_domains_word(name, at, 1u) + 1u;
    for (; at < end; at += 8u) {
      u64 m = u64(xg_domains_word(name, at, end - at));
      if (end - at > 4u) m |= u64(xg_domains_word(name, at + 4u, end - at - 4u)) << 32;
      XG_SIP_WORD(m);
    }
    xg_hashed hash = xg_hashed_end(v0, v1, v2, v3);
    u32 value = 0u;
    if (changed_slots != 0u) value = xg_hashed_find(changes, changed + XG_CHANGES_SET, changed_slots, hash);
    if (value == 0u)
      value = xg_hashed_find(image, image.v[body + XG_DOMAINS_TABLE], image.v[body + XG_DOMAINS_SLOTS], hash);
    u32 found = depth == name.count ? value & 0xffffu : (value & ~XG_DOMAINS_CHANGED) >> 16;
    if (found != 0u) list = found;
  }
  return list;
}

/* Returns an action word. */
XG_FN u32 xg_domains_decide(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  if (p.family == 0u || p.has_ports == 0u) return XG_NEXT;
  u32 ports = xg_swap32(p.ports);
  if (!xg_domains_has_port(b.image, body, ports >> 16) &&
      !xg_domains_has_port(b.image, body, ports & 0xffffu))
    return XG_NEXT;
  if (p.protocol != 17u) return b.image.v[body + XG_DOMAINS_TCP];
  xg_domains_name name;
  u32 read = xg_domains_read(b, p, name);
  if (read == XG_DOMAINS_MALFORMED_MESSAGE) return b.image.v[body + XG_DOMAINS_MALFORMED];
  u32 list = read == XG_DOMAINS_QUESTION ? xg_domains_list(b.image, xg_changes_of(b), body, name) : 0u;
  if (list == 0u) return b.image.v[body + XG_DOMAINS_OTHERWISE];
  u32 at = b.image.v[body + XG_DOMAINS_ACTIONS] + (list - 1u) * 2u;
  if (name.query != 0u) r.flags |= b.image.v[at + 1u];
  return b.image.v[at];
}

#endif
