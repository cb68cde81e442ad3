/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/layout.h: the words of the stage `signatures` in an image.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_LAYOUT_H
#define XDPGPU_STAGES_SIGNATURES_LAYOUT_H

/* The body, behind its own words. */
#define XG_SIGNATURES_REACH 2u    /* bytes of a packet that are looked at */
#define XG_SIGNATURES_NO_ROUND 3u /* ~0: it stands where tables have their round (XG_BODY_ROUND) */
#define XG_SIGNATURES_RULES 4u    /* -> XG_SIGNATURES_RULE words each, in the order in which they count */
#define XG_SIGNATURES_ALWAYS 5u   /* -> the numbers of the rules that no pattern finds, and how many */
#define XG_SIGNATURES_PATTERNS 7u /* -> XG_SIGNATURES_PATTERN words each */
#define XG_SIGNATURES_WORK 8u     /* most work on a packet */
#define XG_SIGNATURES_LIMIT 9u    /* action word of a packet that takes more */
/* XG_SIGNATURES_WINDOW words each: windows of one, two and four bytes; behind them XG_WINDOWS_* */
#define XG_SIGNATURES_WINDOWS 10u
#define XG_SIGNATURES_DNS 28u /* what of DNS messages rules ask for: XG_DNS_WANTS_* */
/* Of the patterns that are looked for in names: as XG_SIGNATURES_WINDOWS. */
#define XG_SIGNATURES_NAME_WINDOWS 29u
#define XG_SIGNATURES_WORDS 47u
#define XG_DNS_WANTS 1u         /* something */
#define XG_DNS_WANTS_NAMES 2u   /* names of queries */
#define XG_DNS_WANTS_ANSWERS 4u /* whether an answer's records are whole */

/* Windows of one length. A hash's highest bits are its place in the filter, and fewer of them its bucket. */
#define XG_SIGNATURES_WINDOW 4u
#define XG_WINDOW_FILTER 0u      /* -> the bit vector */
#define XG_WINDOW_FILTER_BITS 1u /* of a hash: its place there, 5 to 27; 0: no pattern has such a window */
#define XG_WINDOW_BUCKETS 2u     /* -> where each bucket's entries begin, and the last one's end */
#define XG_WINDOW_BUCKET_BITS 3u /* of a hash: its bucket, 1 to 20 */
/* Entry: the window; the pattern's number in the low 24 bits, and its byte at which the window stands. */
#define XG_SIGNATURES_ENTRY 2u

/* For a search of many places at a time (gpu/stages/signatures/search_avx2.hpp), with windows of its own. Of
 * three bytes, for all patterns that have them: as the others, but the filter has a word for each bucket.
 * There a window has three bits: one by its hash, behind the bucket's number; and by each of the two bytes
 * behind it one, or all that there are where the pattern ends. Bits count from the highest. */
#define XG_WINDOWS_WIDE 12u
/* Entry: the window, and in the highest byte how far in the pattern four more of its bytes stand; its number
 * and where the window stands, as the others'; these four bytes, in lower case. */
#define XG_WIDE_ENTRY 3u
#define XG_WIDE_NO_MORE 255u /* the window is all of the pattern */
#define XG_WIDE_MOST_BITS 17u
/* In the place of how many: more patterns are of one bucket than may be compared at one place, and the search
 * is the portable one. */
#define XG_WIDE_FULL 255u
#define XG_WIDE_HASH(hash, bits) (((hash) >> (29u - (bits))) & 7u) /* which bit */
/* The first bit, and which of the byte's own say how many further it is. */
#define XG_WIDE_BEHIND 8u
#define XG_WIDE_BEHIND_MASK 15u
#define XG_WIDE_SECOND 24u
#define XG_WIDE_SECOND_MASK 7u
/* Patterns of two bytes: -> sixteen bytes each by the low and the high half of the first, and of the second.
 * One may be where all four have a bit in common. 0: there is none. */
#define XG_WINDOWS_HALVES 16u
#define XG_HALVES 4u
/* -> sixteen bytes by a byte's low half, for bytes below 128, and sixteen for the others: a bit by the rest
 * of its high half where there is a window of that byte alone. 0: there is none. */
#define XG_WINDOWS_SINGLE 17u

#define XG_SIGNATURES_PATTERN 4u
#define XG_PATTERN_BYTES 0u /* -> the bytes, four a word; in lower case where case does not count */
#define XG_PATTERN_SIZE 1u  /* bytes; XG_PATTERN_NOCASE */
#define XG_PATTERN_RULES 2u /* -> the numbers of the rules that it finds, and how many */
#define XG_PATTERN_NOCASE 0x80000000u

#define XG_SIGNATURES_RULE 11u
#define XG_SIGNATURE_FLAGS 0u
#define XG_SIGNATURE_PROTOCOLS 1u /* -> a bit each, 8 words */
#define XG_SIGNATURE_SRC 2u       /* -> addresses */
#define XG_SIGNATURE_DST 3u
#define XG_SIGNATURE_SRC_PORTS 4u /* -> ports: how many ranges, and each as first | last << 16 */
#define XG_SIGNATURE_DST_PORTS 5u
#define XG_SIGNATURE_CONDITIONS 6u /* -> XG_SIGNATURES_CONDITION words each; how many */
#define XG_SIGNATURE_STEPS 8u      /* -> XG_SIGNATURES_STEP words each; how many */
#define XG_SIGNATURE_DNS 10u       /* -> what it asks of a DNS message, 0: nothing */
/* XG_SIGNATURE_FLAGS */
#define XG_SIGNATURE_V4 1u
#define XG_SIGNATURE_V6 2u
#define XG_SIGNATURE_BOTH_WAYS 4u
#define XG_SIGNATURE_ANY_SRC 8u
#define XG_SIGNATURE_ANY_DST 16u
#define XG_SIGNATURE_ANY_SRC_PORT 32u
#define XG_SIGNATURE_ANY_DST_PORT 64u
#define XG_SIGNATURE_FROM_START 128u /* of a stream: while its text begins at byte 0 */
#define XG_SIGNATURE_ACTION(flags) (((flags) >> 8) & 3u)
#define XG_SIGNATURE_NEGATES 0x400u /* it has negated contents or expressions */
/* It asks of a request's body, whose FROM_START then is; once that is whole; and by its size or end. */
#define XG_SIGNATURE_BODY 0x800u
#define XG_SIGNATURE_WHEN_WHOLE 0x1000u
#define XG_SIGNATURE_AT_END 0x2000u
#define XG_SIGNATURE_ALERT 0u
#define XG_SIGNATURE_PASS 1u
#define XG_SIGNATURE_DROP 2u

/* Addresses: how many ranges of IPv4, -> first and last, two words each; how many of IPv6, -> the same, eight
 * words each. By first address; words as numbers, the most significant one first. */
#define XG_SIGNATURES_ADDRESSES 4u

#define XG_SIGNATURES_CONDITION 3u
/* The first word: kind, and for fields the field in bits 8 to 15. */
#define XG_CONDITION_KIND(word) ((word)&0xffu)
#define XG_CONDITION_FIELD_IS 0u /* first and last value */
#define XG_CONDITION_TCP_FLAGS \
  1u /* mode in bits 8 to 15; flags | mask << 8; two sets of which one is there */
#define XG_CONDITION_FRAGMENT_BITS 2u
#define XG_CONDITION_IP_OPTION 3u
#define XG_CONDITION_SAME_ADDRESSES 4u
#define XG_CONDITION_CONNECTION 5u /* mask and value of XG_CONNECTION_* */
#define XG_CONDITION_NEGATED 0x10000u
#define XG_CONDITION_ARGUMENT(word) (((word) >> 8) & 0xffu)

/* Of a DNS message: XG_ASKS_*, with how many operations and names; the operations, one word each; and
 * XG_SIGNATURES_NAME words a name. */
#define XG_ASKS_QUERIES 1u
#define XG_ASKS_ANSWERS 2u
#define XG_ASKS_OPERATIONS(word) (((word) >> 8) & 0xffu)
#define XG_ASKS_NAMES(word) ((word) >> 16)
#define XG_ASKS_NOT 0x100u /* of an operation: any other one */
#define XG_SIGNATURES_NAME 7u
#define XG_NAME_SIZES 0u /* -> XG_SIGNATURES_SIZE words each; how many, and XG_NAME_DOT_PREFIX */
#define XG_NAME_STEPS 2u /* as XG_SIGNATURE_STEPS */
#define XG_NAME_SETS 4u  /* -> XG_SIGNATURES_IN_SET words each; how many */
#define XG_NAME_PART 6u  /* which part of a request it is, XG_HTTP_* */
#define XG_NAME_DOT_PREFIX 0x100u
#define XG_SIGNATURES_SIZE 3u   /* first, last; 1: it is none of these */
#define XG_SIGNATURES_IN_SET 2u /* -> the set; 1: it is not in it */
/* A set of strings (gpu/stages/hashed_set.h). A string's hash is of its length, as a word of eight bytes, and
 * its bytes, with zeros behind them up to a multiple of eight. */
#define XG_SIGNATURES_SET 6u
#define XG_SET_KEY 0u   /* k0, k1, two words each */
#define XG_SET_SLOTS 4u /* how many; -> them */

/* As signatures::Field has them. */
#define XG_FIELD_PAYLOAD_BYTES 0u
#define XG_FIELD_TTL 1u
#define XG_FIELD_TOS 2u
#define XG_FIELD_IP_ID 3u
#define XG_FIELD_FRAGMENT_OFFSET 4u
#define XG_FIELD_ICMP_TYPE 5u
#define XG_FIELD_ICMP_CODE 6u
#define XG_FIELD_ICMP_ID 7u
#define XG_FIELD_ICMP_SEQ 8u
#define XG_FIELD_TCP_SEQ 9u
#define XG_FIELD_TCP_ACK 10u
#define XG_FIELD_TCP_WINDOW 11u

/* As signatures::Bits has them. */
#define XG_BITS_EXACTLY 0u
#define XG_BITS_ALL 1u
#define XG_BITS_ANY 2u
#define XG_BITS_NOT_ALL 3u

/* Steps: the first word has the kind and flags; an amount is a number, or that of a variable. */
#define XG_SIGNATURES_STEP 8u
#define XG_STEP_KIND(word) ((word)&7u)
#define XG_STEP_CONTENT 0u
#define XG_STEP_TEST 1u
#define XG_STEP_JUMP 2u
#define XG_STEP_EXTRACT 3u
#define XG_STEP_MATH 4u
#define XG_STEP_DATA_AT 5u
#define XG_STEP_REGEX 6u /* word 1 -> its automaton */
#define XG_STEP_NEGATED 0x8u
#define XG_STEP_RELATIVE 0x10u
/* Which of its amounts are variables: */
#define XG_STEP_VAR_OFFSET 0x20u
#define XG_STEP_VAR_DEPTH 0x40u
#define XG_STEP_VAR_DISTANCE 0x80u
#define XG_STEP_VAR_WITHIN 0x100u
#define XG_STEP_VAR_VALUE 0x200u
/* A content. Words: -> bytes, size, offset, depth, distance, within. */
#define XG_STEP_NOCASE 0x400u
#define XG_STEP_ENDS 0x800u
#define XG_STEP_DEPTH 0x1000u
#define XG_STEP_DISTANCE 0x2000u
#define XG_STEP_WITHIN 0x4000u
#define XG_STEP_TRIED_AGAIN 0x8000u
#define XG_STEP_FAST 0x40000u /* it has the rule's fast pattern in it: word 7, at which byte */
/* The others: word 1 is the number's bytes | base << 8 | XG_NUMBER_*, word 2 its offset, word 3 a mask, a
 * multiplier, words 4 and 5 a value, low and high, word 6 what is said below. */
#define XG_STEP_MASK 0x10000u
#define XG_STEP_ALIGN 0x20000u
#define XG_STEP_ARGUMENT(word)                                                \
  ((word) >> 24) /* of a test and of math the operation; of a jump from where \
                  */
#define XG_NUMBER_TEXT 0x10000u
#define XG_NUMBER_LITTLE 0x20000u
#define XG_TEST_LESS 0u
#define XG_TEST_MORE 1u
#define XG_TEST_EQUAL 2u
#define XG_TEST_LESS_OR_EQUAL 3u
#define XG_TEST_MORE_OR_EQUAL 4u
#define XG_TEST_COMMON_BITS 5u
#define XG_TEST_DIFFERS 6u
#define XG_JUMP_FROM_NUMBER 0u
#define XG_JUMP_FROM_START 1u
#define XG_JUMP_FROM_END 2u /* word 4: the post offset */
/* Extract: word 4 is the alignment; extract and math: word 6 is the variable. */
#define XG_MATH_ADD 0u
#define XG_MATH_SUBTRACT 1u
#define XG_MATH_MULTIPLY 2u
#define XG_MATH_DIVIDE 3u
#define XG_MATH_SHIFT_LEFT 4u
#define XG_MATH_SHIFT_RIGHT 5u

/* An automaton: its words, each a bit for each of 32 positions, with XG_REGEX_*; which of the sets each
 * byte's positions are, four bytes a word; rows of so many words: XG_REGEX_ROW_*, then one a position, those
 * that may follow it, then one a byte's set. */
#define XG_REGEX_WORDS(word) ((word)&0xffu)
#define XG_REGEX_EMPTY 0x100u        /* it matches without a byte */
#define XG_REGEX_EMPTY_AT_END 0x200u /* if there is none */
#define XG_REGEX_POSITIONS(word) ((word) >> 16)
#define XG_REGEX_SET_OF 1u
#define XG_REGEX_ROWS 65u
#define XG_REGEX_ROW_FIRST 0u       /* positions that the first byte may be */
#define XG_REGEX_ROW_AGAIN 1u       /* and each other one */
#define XG_REGEX_ROW_LAST 2u        /* behind which it matches */
#define XG_REGEX_ROW_LAST_AT_END 3u /* if no byte is behind them */
#define XG_REGEX_ROW_NEXT 4u        /* that the next one follows */
#define XG_REGEX_ROW_SELF 5u        /* that they themselves follow */
#define XG_REGEX_ROW_BRANCHES 6u    /* that others follow */
#define XG_REGEX_ROW_POSITIONS 7u
#define XG_REGEX_MOST_WORDS 8u /* signatures::kMostPositions */
#define XG_REGEX_PER_WORK 8u

#define XG_SIGNATURES_TRIES 3000u       /* signatures::kMostTries */
#define XG_SIGNATURES_VARIABLES 16u     /* signatures::kMostVariables */
#define XG_SIGNATURES_CHOICES 32u       /* signatures::kMostTriedAgain */
#define XG_SIGNATURES_MOST_PATTERNS 48u /* signatures::kMostPatterns, on a packet */
#define XG_SIGNATURES_SEEN 64u          /* places for their numbers */
#define XG_SIGNATURES_PER_WORK 16u      /* places that a content was looked for at, for one of work */
#define XG_SIGNATURES_EXTENSIONS 8u     /* XG_PARSE_EXTENSIONS */
#define XG_SIGNATURES_DNS_NAME 1025u    /* signatures::kMostName */
#define XG_SIGNATURES_DNS_LABELS 255u   /* signatures::kMostLabels */
#define XG_SIGNATURES_DNS_STEPS 2048u   /* kMostDnsSteps */
#define XG_SIGNATURES_MOST_NAMES 4u     /* kMostDnsNames */
#define XG_SIGNATURES_NAMES_BYTES 320u  /* kMostDnsNameBytes */

/* Of an inspection's words: */
#define XG_SIGNATURES_FOUND_WORK 0u
#define XG_SIGNATURES_FOUND_OVER 1u     /* 1: the packet takes more than it may */
#define XG_SIGNATURES_FOUND_PATTERNS 2u /* how many there are */
/* XG_CONNECTION_* of the packet; XG_SIGNATURES_MORE: more rules hold than there is room for. */
#define XG_SIGNATURES_FOUND_CONNECTION 3u
#define XG_SIGNATURES_MORE 0x80000000u
/* XG_MAX_ALERTS words: those that hold, the lowest ones in their order; ~0: none. */
#define XG_SIGNATURES_FOUND_RULES 4u
#define XG_SIGNATURES_FOUND_DNS 11u       /* what message it is, 0: none; the first lane's, like the names */
#define XG_SIGNATURES_FOUND_NAME_ENDS 12u /* where each name ends in their bytes */
/* (1 + a pattern's number) << 16 | where it stands first, from the payload's or the name's first byte; 0:
 * none */
#define XG_SIGNATURES_FOUND_SEEN 16u
#define XG_SIGNATURES_SEEN_PATTERN(word) ((word) >> 16)
#define XG_SIGNATURES_SEEN_AT(word) ((word)&0xffffu)
#define XG_SIGNATURES_FOUND_NAMES 80u /* the names' bytes, each with a dot in front */
/* XG_SIGNATURES_FOUND_DNS */
#define XG_DNS_IS 1u
#define XG_DNS_IS_READ 2u
#define XG_DNS_IS_ANSWER 4u
#define XG_DNS_OPERATION(word) (((word) >> 8) & 15u)
#define XG_DNS_NAMES 16u /* from this bit on: how many names */

/* ---- streams (gpu/stages/signatures/streams.h) ---- */

/* The body of the part with the table, behind its own words (gpu/stages/table.h). */
#define XG_STREAMS_WINDOW \
  10u /* bytes of a block | what of HTTP is read; with the words in front it says which table it is */
#define XG_STREAMS_READS_HTTP 1u
#define XG_STREAMS_READS_ANSWERS 2u /* too */
#define XG_STREAMS_READS 3u
#define XG_STREAMS_OWN 11u
#define XG_STREAMS_RULES 11u  /* -> the body of the part that inspects packets */
#define XG_STREAMS_DEPTH 12u  /* bytes of a side that are inspected */
#define XG_STREAMS_IDLE 13u   /* ticks: low, high */
#define XG_STREAMS_CLOSED 15u /* likewise */
#define XG_STREAMS_MIDSTREAM 17u
#define XG_STREAMS_ON_GAP 18u  /* action word */
#define XG_STREAMS_COUNT 19u   /* of rules: verdicts' rules count on behind them */
#define XG_STREAMS_LONGEST 20u /* of the fast patterns of rules for streams: bytes */
#define XG_STREAMS_VERSION 21u /* of all rules: what was found by other ones is looked for anew */
#define XG_STREAMS_WINDOWS 22u /* as XG_SIGNATURES_WINDOWS */
/* What is asked of ClientHellos: whether anything is; of the patterns that are looked for in servers' names,
 * as XG_SIGNATURES_WINDOWS; -> the numbers of the rules that no pattern finds, and how many. */
#define XG_STREAMS_HELLOS 40u
#define XG_STREAMS_NAME_WINDOWS 41u
#define XG_STREAMS_HELLO_RULES 59u
/* What is asked of requests and answers by HTTP: a bit for each part, and for each that patterns are looked
 * for in; of each part's patterns XG_STREAMS_HTTP_WINDOW words, as XG_SIGNATURES_WINDOWS; -> the numbers of
 * the rules about requests that no pattern finds, and how many; -> the words that are compared, XG_HTTP_WORD
 * words each: requests' headers' names, as XG_HTTP_NAMED, behind them methods, and answers' headers' names;
 * -> what best_fit() has, code point << 8 | byte, in their order, and how many. */
#define XG_STREAMS_HTTP 61u
#define XG_STREAMS_HTTP_SEARCHED 62u
#define XG_STREAMS_HTTP_WINDOWS 63u
#define XG_STREAMS_HTTP_RULES 64u
#define XG_STREAMS_HTTP_NAMED 66u
#define XG_STREAMS_HTTP_FITS 67u
#define XG_STREAMS_BODY_LONGEST 69u /* as XG_STREAMS_LONGEST, of requests' bodies */
/* Of answers: as XG_STREAMS_BODY_LONGEST and XG_STREAMS_HTTP_RULES; and what becomes of packets with which
 * one's head is read whose body is encoded. */
#define XG_STREAMS_ANSWER_LONGEST 70u
#define XG_STREAMS_ANSWER_RULES 71u
#define XG_STREAMS_ON_ENCODED 73u /* action word */
#define XG_STREAMS_WORDS 74u
#define XG_STREAMS_HTTP_WINDOW 18u
/* Bytes, and up to 20 of them in lower case. */
#define XG_HTTP_WORD 6u
#define XG_HTTP_METHODS 28u

/* What a connection has behind the sets: XG_STREAM_HEAD words, then its two sides. */
#define XG_STREAM_STATE 0u /* XG_STREAM_* */
/* Once the client's stream has so many bytes, its hello may be whole; ~0: it has been read, or there is
 * none. */
#define XG_STREAM_HELLO 1u
#define XG_STREAM_NAME                                                                \
  2u /* the server's name with a dot in front, 256 bytes, and a word that may be read \
      */
#define XG_STREAM_HEAD 68u
#define XG_STREAM_UPPER_CLIENT 1u /* the side with the higher address and port began it */
#define XG_STREAM_DROPPED 2u      /* a rule has */
#define XG_STREAM_PASSED 4u       /* likewise: nothing more of it is inspected */
#define XG_STREAM_RESET 8u

#define XG_SIDE_STATE 0u /* XG_SIDE_IS_* */
#define XG_SIDE_FIRST 1u /* sequence number of byte 0 */
#define XG_SIDE_NEXT 2u  /* it is whole, and inspected, up to this byte */
#define XG_SIDE_TEXT 3u  /* the first byte that is kept, which T(e) begins with */
#define XG_SIDE_ACKED 4u /* what the other side has acknowledged, up to this byte */
#define XG_SIDE_PIECES 5u
#define XG_SIDE_VERSION 6u
#define XG_SIDE_SEARCHED 7u /* so many bytes of T(e) have been looked at for patterns */
#define XG_SIDE_PIECE 8u    /* what came early: first byte, and the one behind the last; in their order */
#define XG_SIDE_FOUND \
  16u /* what is found in T(e), as an inspection has it, up to XG_SIGNATURES_FOUND_NAMES */
#define XG_SIDE_FARTHEST 96u /* the end of what it has sent, wherever that went */
#define XG_SIDE_SUMS 97u     /* what digests add up to at NEXT, two of them */
#define XG_SIDE_POWERS 99u   /* what the next byte counts in each */
#define XG_SIDE_MARKS 101u   /* how many there have been */
/* A ring of places where packets have ended: the position, and the two sums there. */
#define XG_SIDE_MARK 102u
#define XG_SIDE_MARK_WORDS 3u
#define XG_SIDE_MOST_MARKS 64u /* kMostMarks */
#define XG_SIDE_END 294u       /* what its FIN says, ~0: it has sent none */
#define XG_SIDE_BYTES 296u     /* three blocks, and one more word, which may be read */
#define XG_SIDE_WORDS(window) (300u + 3u * ((window) / 4u))
/* Behind the sides, where HTTP is read, what is known of the client's side as that, and, where answers are,
 * of the server's. Bytes of it count as the stream's. */
#define XG_HTTP_IN 0u      /* XG_HTTP_IS_* */
#define XG_HTTP_AT 1u      /* where that begins or, of data, ends */
#define XG_HTTP_SEEN 2u    /* up to where ends of lines have been looked for, or data has been taken */
#define XG_HTTP_LINE_AT 3u /* within a head: where the line begins that is not whole */
#define XG_HTTP_COUNTED 4u /* and how many are */
#define XG_HTTP_BODY 5u    /* XG_HTTP_BODY_* */
#define XG_HTTP_FIRST 6u   /* its first byte, where it is not in chunks */
#define XG_HTTP_SO_FAR 7u  /* how many bytes of it have come, and have been looked at */
#define XG_HTTP_LOOKED 8u
#define XG_HTTP_KEPT 9u     /* of one in chunks: how many are kept of T(e)'s first block, and of the others */
#define XG_HTTP_VERSION 11u /* XG_STREAMS_VERSION of those that its head was asked by */
#define XG_HTTP_SEARCHED \
  12u /* so many bytes of B(e) have been looked at for patterns; 0: FOUND is anything */
/* The rules that match the head and are still to be asked of the body: how many, and their numbers. */
#define XG_HTTP_AWAITED 13u
#define XG_HTTP_MOST_AWAITED 32u /* signatures::kMostAwaited */
/* Of the client's: of the first XG_HTTP_MOST_ASKED requests that have no answer a bit each, whether it is a
 * HEAD, and whether it is a CONNECT; and how many have none. */
#define XG_HTTP_HEADS 46u
#define XG_HTTP_CONNECTS 47u
#define XG_HTTP_UNANSWERED 147u
#define XG_HTTP_MOST_ASKED 32u /* signatures::kMostAsked */
#define XG_HTTP_FOUND 48u      /* as XG_SIDE_FOUND, in B(e) or another part */
/* Of a request or answer that is looked at where each of its parts stands in the bytes behind, first byte |
 * bytes << 16, or XG_HTTP_ABSENT; its headers' lines, XG_HTTP_LINE words each; three windows of bytes, with
 * two more words, which may be written; and of a body in chunks what is in T(e), two windows of bytes and two
 * such words. */
#define XG_HTTP_PARTS 128u
#define XG_HTTP_COUNT 19u
#define XG_HTTP_LINES 148u
#define XG_HTTP_BYTES(most) (XG_HTTP_LINES + (most)*XG_HTTP_LINE)
#define XG_HTTP_DATA(window) (XG_HTTP_BYTES(XG_HTTP_MOST_LINES) + 3u * ((window) / 4u) + 2u)
#define XG_HTTP_WORDS(window) (XG_HTTP_DATA(window) + 2u * ((window) / 4u) + 2u)
#define XG_HTTP_MOST_LINES 100u /* signatures::kMostHttpLines */
#define XG_HTTP_ABSENT 0xffffffffu
#define XG_HTTP_BODY_IS_ASKED 1u /* it is the body of a head that was read, and rules ask for it */
#define XG_HTTP_BODY_IS_CUT 2u   /* in chunks */
#define XG_HTTP_BODY_IS_WHOLE 4u
#define XG_HTTP_BODY_IS_ENCODED 8u
/* A line: the name's first byte | bytes << 16; the value's; a hash of the name; and which line is the first
 * of its name, whether there is another one, and which of the names that are compared it has. */
#define XG_HTTP_LINE 4u
#define XG_HTTP_LINE_FIRST(word) ((word)&0xffu)
#define XG_HTTP_LINE_NAMED(word) (((word) >> 8) & 0xffu) /* as many as there are: none */
#define XG_HTTP_LINE_MORE 0x10000u

/* reads: XG_STREAMS_READS_* */
#define XG_STREAM_RECORD(window, reads)                                \
  (XG_STREAM_HEAD + 2u * XG_SIDE_WORDS(window) +                       \
   ((reads) == 0u                              ? 0u                    \
    : ((reads)&XG_STREAMS_READS_ANSWERS) == 0u ? XG_HTTP_WORDS(window) \
                                               : 2u * XG_HTTP_WORDS(window)))
#define XG_SIDE_IS_THERE 1u
#define XG_SIDE_IS_OVER 2u     /* it has sent a FIN */
#define XG_SIDE_IS_CUT 4u      /* its byte 0 is behind a gap */
#define XG_SIDE_MOST_PIECES 4u /* kMostGaps */

#define XG_STREAM_MOST_NAME 255u /* signatures::kMostServerName */

/* As signatures::HttpPart has them. */
#define XG_HTTP_METHOD 0u
#define XG_HTTP_URI 1u
#define XG_HTTP_RAW_URI 2u
#define XG_HTTP_PROTOCOL 3u
#define XG_HTTP_REQUEST_LINE 4u
#define XG_HTTP_HOST 5u
#define XG_HTTP_RAW_HOST 6u /* from here on values of headers */
#define XG_HTTP_CONTENT_LENGTH 15u
#define XG_HTTP_HEADER 16u
#define XG_HTTP_HEADER_NAMES 17u
#define XG_HTTP_REQUEST_BODY 18u
#define XG_HTTP_STAT_CODE 19u /* from here on of answers */
#define XG_HTTP_STAT_MSG 20u
#define XG_HTTP_ANSWER_PROTOCOL 21u
#define XG_HTTP_RESPONSE_LINE 22u
#define XG_HTTP_SERVER 23u /* from here on values of headers */
#define XG_HTTP_ANSWER_LENGTH 28u
#define XG_HTTP_ANSWER_HEADER 29u
#define XG_HTTP_RESPONSE_BODY 31u
/* Behind a head's part with all headers: their names, and the body. */
#define XG_HTTP_TO_NAMES 1u
#define XG_HTTP_TO_BODY 2u
/* Which of the names that are compared: those of the parts from XG_HTTP_RAW_HOST and XG_HTTP_SERVER on, of
 * which one is not among all headers, and: */
#define XG_HTTP_COOKIES 2u
#define XG_HTTP_TRANSFER_ENCODING 10u
#define XG_HTTP_NAMED 11u
#define XG_HTTP_ANSWER_TRANSFER_ENCODING 6u
#define XG_HTTP_CONTENT_ENCODING 7u
#define XG_HTTP_ANSWER_NAMED 8u

/* XG_HTTP_IN: what stands in front of the stream's next bytes. */
#define XG_HTTP_IS_FIRST 0u      /* a line that says whether this is HTTP */
#define XG_HTTP_IS_REQUEST 1u    /* a request's line, or an answer's, or one that begins none */
#define XG_HTTP_IS_HEAD 2u       /* the head that begins at AT */
#define XG_HTTP_IS_PASSED 3u     /* the rest of a line that begins none */
#define XG_HTTP_IS_BODY 4u       /* a body up to AT */
#define XG_HTTP_IS_CHUNK 5u      /* a line with a chunk's size */
#define XG_HTTP_IS_CHUNK_DATA 6u /* a chunk up to AT */
#define XG_HTTP_IS_CHUNK_END 7u  /* the rest of its last line */
#define XG_HTTP_IS_TRAILER 8u    /* headers behind the last chunk */
#define XG_HTTP_IS_NONE 9u       /* what is no HTTP */
#define XG_HTTP_IS_REST 10u      /* a body that ends with the stream */
#define XG_HTTP_IS_OPTIONAL 11u  /* a body of as many bytes as XG_HTTP_KEPT, or in chunks, or an answer */
#define XG_HTTP_NOWHERE 0xffffffffu
#define XG_HTTP_MOST_BODY 0x7fffffffu
#define XG_HTTP_WORK 32u /* kHttpWork */

/* What comes of a packet: the number of an outcome, and XG_STREAM_FIRES where rules fire with it, or
 * XG_STREAM_PASSES. */
#define XG_STREAM_INSPECTED 0u
#define XG_STREAM_LIMIT 1u
#define XG_STREAM_CHANGED 2u
#define XG_STREAM_GAP 3u
#define XG_STREAM_DROP 4u
#define XG_STREAM_ENCODED 5u /* an answer's body is */
#define XG_STREAM_OTHER 6u   /* it is no stream's */
#define XG_STREAM_OUTCOMES 6u
#define XG_STREAM_FIRES 16u
#define XG_STREAM_PASSES 32u /* a rule has passed its connection */
/* In the packet's result, beside what is said of its connection: rules of streams stand in its xg_alerts. */
#define XG_SIGNATURES_FIRED 0x40000000u
#define XG_SIGNATURES_PASSED 0x20000000u /* nothing more is asked of the packet */

#endif
