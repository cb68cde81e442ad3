// SPDX-License-Identifier: MIT
//
// gpu/signatures.hpp: rules of intrusion detection systems that a packet by itself decides, as plain values,
// with the meaning that Suricata 7.0.10 gives them (https://docs.suricata.io/en/suricata-7.0.10/rules/).
// userspace/compiler/rules makes them of rule files; gpu/reference/signature.hpp decides by one, and the
// stage `signatures` by all of a policy's.
//
// A signature matches a packet where its header, all of its conditions, its payload steps, and what it asks
// of a DNS message do.
//
// Steps are inspected in their order, from a position in the payload that is 0 at first. Each one that
// matches hands on to the next: a content, a byte_jump, a byte_extract and a byte_math leave the position
// behind what they found. Relative steps start from there. A step that does not match goes back to the
// nearest content in front of it, which then looks for its next occurrence, one byte behind the start of the
// last, if a later step is relative to it (Content::tried_again). Otherwise the whole payload does not match:
//
//   * once a step behind a content has failed that is not tried again;
//   * once a content that is not relative, and not negated, is not there.
//
// Variables keep what a try that failed has put into them.
//
// kMostTries bounds this: each step that is begun counts, and the one with this number ends the inspection
// without a match (Suricata's inspection-recursion-limit).
#pragma once

#include <array>
#include <bitset>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu::signatures {

inline constexpr u32 kMostTries = 3000;
// Values that byte_extract and byte_math of one signature may keep.
inline constexpr u32 kMostVariables = 16;
// Positions of a regular expression's automaton.
inline constexpr u32 kMostPositions = 256;

// Of one signature, its payload and names together.
inline constexpr u32 kMostSteps = 64;
inline constexpr u32 kMostTriedAgain = 32;  // contents that are
inline constexpr u32 kMostContent = 8192;   // bytes of one, and of an expression
// Different fast patterns of all of a stage's signatures that may stand in one payload and its names.
inline constexpr u32 kMostPatterns = 48;

// Of a DNS message: a name's text is cut behind so many bytes, without the dot in front; so many labels and
// pointers are followed for one; and so many of its questions are asked for.
inline constexpr u32 kMostName = 1025, kMostLabels = 255, kMostQuestions = 1024;
// Of one signature: inspections of names, sizes and sets of one, and operations.
inline constexpr u32 kMostNames = 8;

enum class Action : u8 { alert, pass, drop, reject, reject_dst, reject_both };
// In which order rules count: those that pass, then those that drop, that reject, that alert.
u32 turn_of(Action action);

// ---- the packet's header -------------------------------------------------------------------------------

// Network order; IPv4 in the first four bytes, the others 0.
using Address = std::array<u8, 16>;
// Inclusive.
template <class T>
struct Range {
  T first{}, last{};
  bool operator==(const Range&) const = default;
};
// By first one; none overlaps or touches another. What a rule leaves out is not in them.
template <class T>
using Ranges = std::vector<Range<T>>;

struct Addresses {
  Ranges<Address> v4, v6;
  bool operator==(const Addresses&) const = default;
};

// For which packets it is. Ports in host order; nothing: any, and packets that have none. Fragments have no
// ports, nor have packets of other protocols than TCP, UDP and SCTP.
struct Header {
  std::bitset<256> protocols;  // of IP; behind IPv6 extension headers; 44 for fragments of IPv6
  bool v4 = true, v6 = true;   // IP versions
  Addresses src, dst;
  std::optional<Ranges<u16>> src_ports, dst_ports;
  bool both_ways = false;  // <>: source and destination may change places
  bool operator==(const Header&) const = default;
};

// ---- conditions on the packet --------------------------------------------------------------------------

// What is not there is in no range, nor outside of one.
enum class Field : u8 {
  payload_bytes,    // dsize; 0 where there is none
  ttl,              // or hop limit
  tos,              // IPv4 alone
  ip_id,            // IPv4 alone
  fragment_offset,  // IPv4: in units of 8 bytes; IPv6: in bytes, where there is a fragment header
  icmp_type,        // ICMP or ICMPv6
  icmp_code,
  icmp_id,   // of types that have one
  icmp_seq,  // likewise
  tcp_seq,
  tcp_ack,
  tcp_window,
};
struct FieldIs {
  Field field = Field::payload_bytes;
  Range<u32> values;
  bool negated = false;
  bool operator==(const FieldIs&) const = default;
};

// exactly: those and no others; all: at least those; any: one of those; not_all: not all of those.
enum class Bits : u8 { exactly, all, any, not_all };
struct TcpFlagsAre {
  Bits mode = Bits::exactly;
  u8 flags = 0, mask = 0xff;  // flags outside of the mask may be what they are
  // Where there is more than 0 in one, the packet has at least one of its flags, whatever the mode: for a
  // rule that names SYN, RST or FIN Suricata skips packets with none of these, or, if it is found by no
  // content, packets without SYN; and so for URG, ECE and CWR.
  std::array<u8, 2> some_of{};
  bool operator==(const TcpFlagsAre&) const = default;
};
// Of IPv4. all: at least those, and another one.
struct FragmentBitsAre {
  Bits mode = Bits::exactly;
  u8 bits = 0;  // 4: reserved, 2: don't fragment, 1: more fragments
  bool operator==(const FragmentBitsAre&) const = default;
};
// An IPv4 option of this type is there, and well-formed.
struct IpOptionIs {
  u8 type = 0;
  bool operator==(const IpOptionIs&) const = default;
};
struct SameAddresses {
  bool operator==(const SameAddresses&) const = default;
};
// As a stage `conntrack` in front of the rules' has found the packet's connection to be; where none is, this
// matches nothing. A packet that is of no connection goes no way, and is of none that is established.
struct ConnectionIs {
  enum class Way : u8 { any, to_server, to_client } way = Way::any;  // server: who did not begin it
  std::optional<bool> established{};  // before the packet, if TCP, else once both sides have sent
  bool operator==(const ConnectionIs&) const = default;
};
using Condition =
    std::variant<FieldIs, TcpFlagsAre, FragmentBitsAre, IpOptionIs, SameAddresses, ConnectionIs>;

// ---- payload steps -------------------------------------------------------------------------------------
//
// The payload is what stands behind the headers of TCP, UDP, SCTP, ICMP, ICMPv6 and ESP, as long as the IP
// and the UDP header say. Fragments have none. Numbers of bytes and positions that do not fit count modulo
// 2^32, as they do in Suricata.

// A constant, or what a variable has.
struct Amount {
  std::int64_t constant = 0;
  std::optional<u8> variable{};
  bool operator==(const Amount&) const = default;
};

// A content stands where all of these let it. Where offset, depth or distance is a variable, the place for
// its end is counted from the first byte that it may have. Of a negated one with `ends` the first occurrence
// counts alone, and is taken for the payload's end where its own, from the payload's start, is the number of
// bytes that the content may stand in.
struct Content {
  std::string bytes;  // in lower case where nocase
  bool negated = false, nocase = false;
  bool ends = false;              // at the payload's last byte
  Amount offset{};                // first byte that it may have, from the payload's start
  std::optional<Amount> depth{};  // first byte behind it, from the payload's start; if relative, the position
  std::optional<Amount> distance;  // first byte that it may have, from the position
  std::optional<Amount> within;    // first byte behind it, from the position and distance
  bool tried_again = false;
  bool operator==(const Content&) const = default;

  bool relative() const { return distance || within; }
};

struct Number {
  u8 bytes = 0;  // as text: at most
  Amount offset{};
  bool relative = false, little_endian = false;
  // As text: its base, 0: as C writes numbers. Nothing: as bytes.
  std::optional<u8> base{};
  bool operator==(const Number&) const = default;
};
// Of the bits that the mask has, the lowest one of which comes to the right.
using Mask = std::optional<u32>;

struct ByteTest {
  enum class Op : u8 { less, more, equal, less_or_equal, more_or_equal, common_bits, differs } op = Op::equal;
  bool negated = false;
  Number number;
  Mask mask;
  Amount value;
  bool operator==(const ByteTest&) const = default;
};
// A jump to in front of the payload is one to its start; one to behind its end does not match.
struct ByteJump {
  enum class From : u8 { number, start, end } from = From::number;
  Number number;
  u32 multiplier = 1;
  bool align = false;  // up to a multiple of 4
  std::int32_t post_offset = 0;
  bool operator==(const ByteJump&) const = default;
};
struct ByteExtract {
  Number number;
  u32 multiplier = 1, align = 1;
  u8 variable = 0;
  bool operator==(const ByteExtract&) const = default;
};
struct ByteMath {
  enum class Op : u8 { add, subtract, multiply, divide, shift_left, shift_right } op = Op::add;
  Number number;
  Mask mask;  // of the result
  Amount right;
  u8 variable = 0;
  bool operator==(const ByteMath&) const = default;
};
struct DataAt {
  Amount offset;
  bool relative = false, negated = false;
  bool operator==(const DataAt&) const = default;
};
// A regular expression, as its position automaton (Glushkov 1961; McNaughton and Yamada 1960): a position
// stands for a byte that the expression takes, and has those that may be it. From byte to byte a set of
// positions is kept: in front of a byte those that it may be, and behind it those of them that have it. The
// expression matches once one of these is in `last`, or, behind the subject's last byte, in `last_at_end`; or
// without a byte, where it is `empty`, or `empty_at_end` and the subject has none.
//
// The subject is the payload or name, or what stands behind the position in it if `relative`: nothing in
// front of it is seen. A step that matches leaves the position where it was, so that no later step may be
// relative to what an expression matches that is not negated.
using Bytes = std::bitset<256>;
using Positions = std::bitset<kMostPositions>;
struct Regex {
  bool negated = false, relative = false;
  bool empty = false, empty_at_end = false;
  std::vector<Bytes> sets;        // different ones
  std::vector<u8> positions;      // of each: its set's place in `sets`
  std::vector<Positions> follow;  // of each: those that the next byte may be
  Positions first;                // those that the subject's first byte may be
  Positions again;                // and each other byte, whatever stands in front of it
  Positions last, last_at_end;
  bool operator==(const Regex&) const = default;
};
// Whether a position is followed by others than itself and the next one.
bool branches(const Regex& regex, std::size_t position);

// A regular expression as PCRE2 takes it. No device has it: a host asks for it (HostPart). Its subject is
// that of a Regex. Where it matches, not negated, the position is the match's end. If a later step fails and
// this one is `tried_again`, it is looked for anew, from the byte behind the first one of the last match on;
// what is in front of that is seen. One that reaches a limit does not match, negated or not.
struct Expression {
  std::string pattern;
  u32 options = 0;  // PCRE2's
  bool negated = false, relative = false;
  bool tried_again = false;
  // As it is compiled, by whoever looks for it (userspace/expressions/expressions.hpp).
  std::shared_ptr<const void> code{};
  bool operator==(const Expression& other) const {
    return pattern == other.pattern && options == other.options && negated == other.negated &&
           relative == other.relative && tried_again == other.tried_again;
  }
};

// Of conditions and steps, what is to be done with each kind of them.
template <class... Ts>
struct Visitor : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Visitor(Ts...) -> Visitor<Ts...>;

using Step = std::variant<Content, ByteTest, ByteJump, ByteExtract, ByteMath, DataAt, Regex, Expression>;

// ---- DNS messages ---------------------------------------------------------------------------------------
//
// The payload of a UDP datagram to or from port 53, no fragment, is a DNS message (RFC 1035) where it has a
// header of 12 bytes, whose four counts do not say more than it has room for at two bytes a record, and as
// many questions as the header says. One that ends before they do is a DNS message, too, but none that is
// read.
//
// Nothing is asked of one that is not read. An answer is read where its records of answers and authorities
// are whole, too; of the additional ones and of what stands behind them nothing is looked at.
//
// A name is a chain of labels, with compression pointers to anywhere in the message, up to kMostLabels of
// both; at a pointer to itself, and behind so many, it ends where a pointer was followed, and is malformed
// where none was. Its text has a dot between two labels, and their bytes as they are. The message's names are
// those of its questions, in front of the first one that is the root's.
//
// A message is a query or an answer by its own word (QR). Suricata goes by more: a flow's direction is the
// first message's, a message from port 53 is DNS where its flow is, and one that contradicts its flow is
// none. tests/unit/compiler_signatures.cpp counts these.

// Of a name's text, with the dot in front if there is one.
struct SizeIs {
  Range<u32> bytes;
  bool negated = false;
  bool operator==(const SizeIs&) const = default;
};
// Strings of any bytes, as one text: there may be millions.
struct StringSet {
  std::string name;
  std::string bytes;      // of all, one behind the other
  std::vector<u32> ends;  // of each, in `bytes`
  bool operator==(const StringSet&) const = default;

  void add(std::string_view string) {
    bytes += string;
    ends.push_back(static_cast<u32>(bytes.size()));
  }
  std::string_view operator[](std::size_t i) const {
    const u32 first = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(first, ends[i] - first);
  }
};
// All that ask for a set share it.
struct SharedStrings {
  std::shared_ptr<const StringSet> set;  // never nullptr
  bool operator==(const SharedStrings& other) const { return set == other.set || *set == *other.set; }
};
// A name's text, with the dot in front if there is one, is one of the strings, byte by byte.
struct InSet {
  SharedStrings strings;
  bool negated = false;
  bool operator==(const InSet&) const = default;
};
// What of a request or an answer by HTTP is looked at: see "HTTP".
enum class HttpPart : u8 {
  method,
  uri,       // normalized, as below
  raw_uri,   // as it came
  protocol,  // up to the line's end
  request_line,
  host,      // in lower case; the URI's, if that has one, else the Host header's without its port
  raw_host,  // from here on to content_length: values of headers
  user_agent,
  cookie,
  referer,
  accept,
  accept_encoding,
  accept_language,
  connection,
  content_type,
  content_length,
  header,        // each but Cookie as "Name: value" and CR LF
  header_names,  // CR LF, each name and CR LF, and CR LF
  request_body,  // behind the head
  // From here on of answers.
  stat_code,
  stat_msg,  // up to the line's end
  answer_protocol,
  response_line,
  server,  // from here on to answer_content_length: values of headers
  location,
  set_cookie,
  answer_connection,
  answer_content_type,
  answer_content_length,
  answer_header,  // each but Set-Cookie
  answer_header_names,
  response_body,
};
inline constexpr bool is_of_answers(HttpPart part) { return part >= HttpPart::stat_code; }
// One of the message's names matches by itself: its text has these sizes, it is in these sets, and the steps
// match it as they would a payload. They have no variables.
struct NameIs {
  bool dot_prefix = false;  // a dot stands in front of its text
  std::vector<SizeIs> sizes;
  std::vector<InSet> sets;
  std::vector<Step> steps;
  HttpPart part = HttpPart::method;  // of a request or answer, which one it is
  bool operator==(const NameIs&) const = default;
};
struct OperationIs {
  u8 operation = 0;  // OPCODE
  bool negated = false;
  bool operator==(const OperationIs&) const = default;
};
struct Dns {
  bool queries = true, answers = true;  // which messages match
  std::vector<OperationIs> operations;  // all of them hold
  std::vector<NameIs> names;            // likewise; if there is one, answers do not match
  bool operator==(const Dns&) const = default;
};

// ---- streams --------------------------------------------------------------------------------------------
//
// What one side of a TCP connection says is one text, whose bytes count from the one behind its SYN, from 0
// on. Its blocks are of W bytes each (SignaturesSettings::streams.window): block k is bytes kW up to (k+1)W.
// For a position e, at which the byte e-1 is the last one that is there, the text that a rule sees, T(e),
// begins with the block in front of the one that e-1 is of, and ends in front of e: it has more than W bytes
// and 2W at most, or all that there are.
//
// A rule holds at e where its fast pattern's content is in T(e) and all of its steps match T(e) as they would
// a payload; a rule whose steps count from the payload's start (from_start()) only while T(e) begins at
// byte 0 of a stream that has had no gap. Steps that are `negated` contents or expressions are not asked at
// first: so what holds at e holds at each later position that T() begins at the same byte for, and there is a
// first position in each such part of the stream. At that one they are asked, of T() there, once.
//
// A rule fires with the packet by which the stream comes to be whole up to such a first position. So neither
// how it is cut into segments nor their order, nor batches, matter to what fires, but for the bounds: of a
// packet's work, and of the fast patterns that stand in T(e) (settings.hpp).
enum class Where : u8 { packet, stream, both };

// ---- TLS ------------------------------------------------------------------------------------------------
//
// What a client says first where it begins a TLS connection: its ClientHello (RFC 8446, 4.1.2). Its side of
// the stream begins with records of major version 3 that are handshakes, and perhaps others that are alerts
// or change a cipher, which are not looked at. The handshakes' bytes, one behind the other, begin with a
// message of type 1, that is the hello. It is read with the packet by which the stream comes to be whole up
// to its last byte, once in a connection. Where a stream has had a gap there is none.
//
// The server's name is in the first of its extensions that is a server_name (RFC 6066, 3): the first entry,
// if that is a host_name of 1 to kMostServerName bytes, up to the first byte that is 0, as Suricata has it
// (so it may be empty). A hello whose parts contradict each other's lengths in front of that has none.
inline constexpr u32 kMostServerName = 255;

struct Hello {
  std::vector<NameIs> names;  // all of them match the server's name; at least one
  bool operator==(const Hello&) const = default;
};

// ---- HTTP -----------------------------------------------------------------------------------------------
//
// What a client asks by HTTP/1 (RFC 9112): one request behind the other in its side of the stream, from byte
// 0 on, where the stream has had no gap. A line ends with LF; CR and LF in front of that are no part of it,
// and a line of these alone is empty. Requests are read as libhtp 0.5.50 reads them for Suricata, with the
// personality IDS.
//
// The side is HTTP if its first line that is not empty begins a request: its first word, behind spaces, is
// one of kHttpMethods, in whatever case, or its second or third one begins with HTTP/. A side that begins
// with something else is none, and of it nothing is read. A request's head is its line and those behind it up
// to the first that is empty; where its line names no protocol (HTTP/0.9), that line alone. It is looked at
// with the packet by which the stream comes to be whole up to the head's last byte. Behind it comes its body,
// of as many bytes as Content-Length says, or in chunks if Transfer-Encoding names them; and then the next
// request. There each line that begins none is passed over. Behind a CONNECT, what comes is judged like a
// side's first line.
//
// A head of more than kMostHttpLines lines, one that is not in T(e) to its last byte, and one whose parts
// that are asked for do not fit (settings.hpp) is not read, but `limit`.
//
// A rule may ask of a request's body, too. B(e) is what in T(e) is of the body, without the lines that cut it
// into chunks. Such a rule holds at e where its other parts, if it has some, match the head, its fast
// pattern's content is in its part or in B(e), and the body's steps match B(e) as they would a payload; one
// whose steps count from the start (from_start()) only while B(e) begins with the body's first byte. It fires
// with the packet by which the stream comes to be whole up to the first position at which it holds of those
// for which B(e) begins at the same byte.
//
// A rule that looks at all of a body (asks_when_whole()) is asked with the packet that has its last byte; and
// one that does so by negated steps alone also wherever B(e) is about to lose bytes: where the stream is
// whole up to the last position that T() begins at the same byte for, and the body's bytes in the first block
// are in B(e). A size is of the whole body, of which B(e) may be the end. A body ends with as many bytes as
// Content-Length says, with the chunk of no bytes, or in front of a line that says no chunk's size. One
// without bytes matches nothing.
//
// Of a request's rules that ask for its body, and are found by another part or by nothing, kMostAwaited may
// match its head; one for which more do is `limit`. If other rules are put in force between a head and its
// body's end, nothing more is asked of that body; nor once a packet of the connection is `limit`.
//
// Its parts. A header's line that begins with a blank or NUL goes on with the one in front of it, with
// nothing between them. A header's name ends in front of the first colon and of blanks there; a line without
// colon has an empty one. Its value has no blanks at its ends. Several headers of one name, in whatever case,
// are one, where the first one stands, with their values in their order and ", " between two; of several
// Content-Length the first one counts.
//
// Answers. What a server says is one answer behind the other in its side of the stream, and they are read as
// requests are, but for what follows. An answer's line begins, behind spaces and NULs, with "HTTP", in
// whatever case. Its words are the protocol, the status code, and all behind that, the message. The status is
// a number of three digits, or of more that begin with zeros; with another code it has none. A header's line
// that begins with a blank or NUL is one of its own, behind that byte, if the protocol is "HTTP/1.1" and both
// it and what is in front of it have a colon. Names may have NULs in them.
//
// A line of a head or a trailer ends, too, with a CR that neither CR nor LF follows; and a head with its
// side's stream, by its FIN.
//
// Each answer is to the first request that has none yet, but for those with a status from 100 to 199, which
// another one follows. Of the kMostAsked first such requests the method is known. Nothing is behind the head
// of an answer to HEAD; behind one with 101 the side is HTTP no more; and behind one with a status from 200
// to 299 to CONNECT it is judged like its beginning. Behind one with a status from 100 to 199, 204 or 304
// there is a body if the head says how long one is, and the next four bytes behind spaces and NULs are there
// and begin no answer. Else a body is: in chunks, as many bytes as Content-Length says, or all that comes. A
// line that says no chunk's size, and one that is not in T(e) to its end, is more of the body, with all that
// comes behind it.
//
// A side that begins with something else than an answer is the body of one without a head, if the client's
// has begun a request by then, and is not in a tunnel; else it is no HTTP. A line where an answer should be
// that begins none is passed over.
//
// Any body ends, too, with the last byte of its side, by its FIN: the packet that brings that last byte, or a
// FIN without bytes behind them, has the body's end. A body is encoded where a line Content-Encoding is not
// empty and not "identity": `encoded` is counted where a rule asks for answers' bodies, and it is looked at
// as it is.
inline constexpr u32 kHttpParts = 32, kRequestParts = 19;
inline constexpr u32 kMostAwaited = 32;
inline constexpr u32 kMostAsked = 32;

// The URI behind its scheme and authority: a path, "?" and a query, "#" and a fragment, as far as it has
// them. In a query %XX is a byte; in a fragment and path %uXXXX, too. Of a path then "\" is "/", several "/"
// are one, UTF-8 (also where it is longer than it has to be) is single bytes by best_fit(), as is %uXXXX, and
// what is no UTF-8 is "?"; and last its segments "." and ".." are taken out (RFC 3986, 5.2.4). What is no
// such encoding stays as it is.
inline constexpr u32 kMostHttpLines = 100;
inline constexpr std::string_view kHttpMethods[] = {"GET",
                                                    "PUT",
                                                    "POST",
                                                    "HEAD",
                                                    "TRACE",
                                                    "OPTIONS",
                                                    "CONNECT",
                                                    "DELETE",
                                                    "PATCH",
                                                    "PROPFIND",
                                                    "PROPPATCH",
                                                    "MKCOL",
                                                    "COPY",
                                                    "MOVE",
                                                    "LOCK",
                                                    "UNLOCK",
                                                    "CHECKOUT",
                                                    "UNCHECKOUT",
                                                    "CHECKIN",
                                                    "UPDATE",
                                                    "LABEL",
                                                    "REPORT",
                                                    "MKWORKSPACE",
                                                    "MKACTIVITY",
                                                    "MERGE",
                                                    "INVALID",
                                                    "VERSION-CONTROL",
                                                    "BASELINE-CONTROL"};

// What is asked of one request, or of one answer: each of its parts is there, and matches.
struct Http {
  std::vector<NameIs> parts;  // at least one, each with its `part`, all of one kind; of its body one at most
  bool operator==(const Http&) const = default;
};

// The content that is looked for first, in the payloads or names of all packets: a step, and its bytes that
// are.
struct FastPattern {
  u32 step = 0, first = 0, length = 0;
  u32 buffer = 0;  // 0: the payload; n: the signature's n-th name
  bool operator==(const FastPattern&) const = default;
};

struct Signature {
  u32 gid = 1, sid = 0, rev = 0;
  Action action = Action::alert;
  u32 priority = 3;
  Header header;
  std::vector<Condition> conditions;
  std::vector<Step> payload;
  std::optional<FastPattern> fast_pattern;
  Where where = Where::packet;  // what its payload's steps match: packets' payloads, streams, or either
  // It asks for addresses, ports and protocols alone: Suricata alerts once a flow and direction.
  bool once_a_flow = false;
  std::optional<Dns> dns{};      // of a DNS message that it is; nothing: it need not be one
  std::optional<Hello> hello{};  // of a stream's ClientHello, and nothing of the stream itself
  std::optional<Http> http{};    // of a request or an answer in it, likewise
  bool operator==(const Signature&) const = default;
};

// What of a rule is left for a host to ask, once a device has found that the rule's signature matches, which
// asks for less than the rule. All steps of each payload or name in which an expression is that no device
// has, from the first one on: a payload's without Regex, a name's likewise and without sets.
struct HostPart {
  std::vector<Step> payload;  // none: nothing more is asked of it
  std::vector<NameIs> names;
  bool operator==(const HostPart&) const = default;
};

// What it asks of the names of a DNS message or a ClientHello, or of a request's or an answer's parts.
std::span<const NameIs> names_of(const Signature& signature);
// The steps that its fast pattern is one of: there is one.
const std::vector<Step>& searched_steps(const Signature& signature);
// The content that its fast pattern is of, where that has to be in a payload or name for it to match;
// nullptr: there is none, or it is one that may not be there.
const Content* found_by(const Signature& signature);

// What it asks of a request's or an answer's body; nullptr: nothing.
const NameIs* body_of(const Signature& signature);
// Whether what its payload's or its body's steps match hangs on where that begins.
bool from_start(const Signature& signature);
// Whether it has steps of a payload that match where something is not.
bool negates(const Signature& signature);
// Whether what it asks of a body hangs on what comes later: on the body's size or end, or on what must not be
// in it.
bool asks_when_whole(const Signature& signature);
// And on its size or end.
bool asks_for_end(const Signature& signature);
// Why it cannot be looked for in streams, as a sentence's end; nothing: it can.
std::optional<std::string> not_of_streams(const Signature& signature);

// What of it is beyond the bounds of signatures, as a sentence's end; nothing: it is within them.
std::optional<std::string> beyond_bounds(const Signature& signature);
std::optional<std::string> beyond_bounds(const HostPart& part);

}  // namespace xdpgpu::gpu::signatures
