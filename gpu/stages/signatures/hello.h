/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/hello.h: a client's TLS ClientHello as rules see it (gpu/signatures.hpp, "TLS"), in
 * the text of its stream.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_HELLO_H
#define XDPGPU_STAGES_SIGNATURES_HELLO_H

#include "gpu/stages/signatures/packet.h"

#define XG_TLS_CHANGE_CIPHER 20u /* RFC 8446, 5.1 */
#define XG_TLS_ALERT 21u
#define XG_TLS_HANDSHAKE 22u
#define XG_TLS_RECORD 5u
#define XG_TLS_CLIENT_HELLO 1u
#define XG_TLS_HELLO_FIXED 34u /* version and random */
#define XG_TLS_SERVER_NAME 0u
#define XG_TLS_HOST_NAME 0u

#define XG_HELLO_IS_READ 0u
#define XG_HELLO_IS_CUT 1u  /* bytes are missing */
#define XG_HELLO_IS_NONE 2u /* it is none, or its lengths contradict each other */

/* Goes through the handshakes' bytes, one after the other, where they stand in records. */
struct xg_hello_reader {
  u32 state; /* XG_HELLO_IS_* */
  u32 at;    /* of the text */
  u32 end;   /* of the text */
  u32 left;  /* bytes of the record */
  u32 most;  /* bytes that may be read: of the message, or of its extension */
  u32 needs; /* where it is cut: with how many bytes of text there may be more of it */
};

XG_FN void xg_hello_cut(XG_INOUT(xg_hello_reader) r, u32 needs) {
  r.state = XG_HELLO_IS_CUT;
  r.needs = needs;
}

/* Up to a record that has bytes of a handshake. */
XG_FN void xg_hello_record(xg_batch b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_hello_reader) r) {
  while (r.left == 0u && r.state == XG_HELLO_IS_READ) {
    if (r.end - r.at < XG_TLS_RECORD) {
      xg_hello_cut(r, r.at + XG_TLS_RECORD);
      return;
    }
    u32 type = xg_payload8(b, c, r.at);
    u32 bytes = xg_payload8(b, c, r.at + 3u) << 8 | xg_payload8(b, c, r.at + 4u);
    if (xg_payload8(b, c, r.at + 1u) != 3u || type < XG_TLS_CHANGE_CIPHER || type > XG_TLS_HANDSHAKE) {
      r.state = XG_HELLO_IS_NONE;
      return;
    }
    r.at += XG_TLS_RECORD;
    if (type == XG_TLS_HANDSHAKE)
      r.left = bytes;
    else if (r.end - r.at < bytes)
      xg_hello_cut(r, r.at + bytes);
    else
      r.at += bytes;
  }
}

XG_FN void xg_hello_skip(xg_batch b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_hello_reader) r, u32 bytes) {
  if (r.state == XG_HELLO_IS_READ && bytes > r.most) r.state = XG_HELLO_IS_NONE;
  r.most -= bytes;
  while (bytes != 0u) {
    xg_hello_record(b, c, r);
    if (r.state != XG_HELLO_IS_READ) return;
    u32 some = bytes < r.left ? bytes : r.left;
    if (r.end - r.at < some) {
      xg_hello_cut(r, r.at + some);
      return;
    }
    r.at += some;
    r.left -= some;
    bytes -= some;
  }
}

/* A number of so many bytes, up to three; 0 where it is not read. */
XG_FN u32 xg_hello_number(xg_batch b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_hello_reader) r, u32 bytes) {
  u32 value = 0u;
  for (u32 i = 0u; i < bytes; i++) {
    xg_hello_skip(b, c, r, 1u);
    if (r.state != XG_HELLO_IS_READ) return 0u;
    value = value << 8 | xg_payload8(b, c, r.at - 1u);
  }
  return value;
}

/* Whether a hello is whole in the first `bytes` of a client's text. Then r stands in front of its body; where
 * bytes are missing, r.needs says with how many there may be more of it. */
XG_FN u32 xg_hello_find(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 bytes, XG_INOUT(xg_hello_reader) r) {
  r.at = r.left = r.needs = 0u;
  r.end = bytes;
  r.most = 4u;
  r.state = XG_HELLO_IS_READ;
  u32 type = xg_hello_number(b, c, r, 1u);
  if (r.state == XG_HELLO_IS_READ && type != XG_TLS_CLIENT_HELLO) r.state = XG_HELLO_IS_NONE;
  u32 size = xg_hello_number(b, c, r, 3u);
  r.most = size;
  xg_hello_reader whole = r;
  xg_hello_skip(b, c, whole, size);
  r.needs = whole.needs;
  return whole.state;
}

/* Skips what stands behind its own length, a number of so many bytes. */
XG_FN void xg_hello_skip_sized(xg_batch b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_hello_reader) r,
                               u32 bytes) {
  u32 size = xg_hello_number(b, c, r, bytes);
  xg_hello_skip(b, c, r, size);
}

/* Puts the server's name, with a dot in front, into words of `to` from `at` on. Returns its bytes, with the
 * dot; 0: there is none. r stands in front of the hello's body. */
XG_FN u32 xg_hello_name(xg_batch b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_hello_reader) r, xg_state to,
                        u32 at) {
  xg_hello_skip(b, c, r, XG_TLS_HELLO_FIXED);
  xg_hello_skip_sized(b, c, r, 1u); /* session */
  xg_hello_skip_sized(b, c, r, 2u); /* cipher suites */
  xg_hello_skip_sized(b, c, r, 1u); /* compression methods */
  u32 extensions = xg_hello_number(b, c, r, 2u);
  if (extensions > r.most) return 0u;
  r.most = extensions;
  while (r.state == XG_HELLO_IS_READ && r.most != 0u) {
    u32 type = xg_hello_number(b, c, r, 2u);
    u32 size = xg_hello_number(b, c, r, 2u);
    if (r.state != XG_HELLO_IS_READ || size > r.most) return 0u;
    if (type != XG_TLS_SERVER_NAME || size == 0u) {
      xg_hello_skip(b, c, r, size);
      continue;
    }
    r.most = size;
    xg_hello_skip(b, c, r, 2u); /* the list's length */
    u32 kind = xg_hello_number(b, c, r, 1u);
    u32 bytes = xg_hello_number(b, c, r, 2u);
    if (r.state != XG_HELLO_IS_READ || kind != XG_TLS_HOST_NAME || bytes > r.most || bytes == 0u ||
        bytes > XG_STREAM_MOST_NAME)
      return 0u;
    u32 word = 0x2eu;
    u32 put = 1u;
    to.v[at] = word;
    for (; put <= bytes; put++) {
      u32 byte = xg_hello_number(b, c, r, 1u);
      if (byte == 0u) break;
      word |= byte << ((put & 3u) * 8u);
      to.v[at + (put >> 2)] = word;
      if ((put & 3u) == 3u) word = 0u;
    }
    return put;
  }
  return 0u;
}

#endif
