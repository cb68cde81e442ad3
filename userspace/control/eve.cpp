// SPDX-License-Identifier: MIT
#include "userspace/control/eve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>

#include "maps/hash.h"
#include "maps/parse.h"
#include "userspace/control/describe.hpp"
#include "userspace/control/json_line.hpp"
#include "userspace/dataplane/dns_question.hpp"

namespace xdpgpu::control {
namespace {

using dataplane::Event;

// In UTC: a time zone's file is none that the data plane may open.
std::string time_text(u64 wall_ns) {
  const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}+0000", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, wall_ns / 1'000 % 1'000'000);
}

std::string protocol_text(u32 protocol) {
  switch (protocol) {
    case XG_IPPROTO_ICMP:
      return "ICMP";
    case XG_IPPROTO_IPIP:
      return "IP-IP";
    case XG_IPPROTO_TCP:
      return "TCP";
    case XG_IPPROTO_UDP:
      return "UDP";
    case XG_IPPROTO_IPV6:
      return "IPv6";
    case 47:
      return "GRE";
    case 50:
      return "ESP";
    case XG_IPPROTO_AH:
      return "AH";
    case XG_IPPROTO_ICMPV6:
      return "IPv6-ICMP";
    case XG_IPPROTO_SCTP:
      return "SCTP";
    default:
      return fmt::format("{:03}", protocol);
  }
}

u32 vlan_id(u16 tag) { return tag & 0xfff; }

// The same for both directions. In 51 bits, as Suricata's are: a number in JSON is a double for many who read
// it.
u64 flow_id(const xg_packet& packet, const std::array<u64, 2>& key) {
  const xg_flow_key& flow = packet.key;
  u64 ends[2][3] = {};
  for (u32 i = 0; i < 2; i++) {
    ends[0][i] = xg_pair(flow.src[2 * i], flow.src[2 * i + 1]);
    ends[1][i] = xg_pair(flow.dst[2 * i], flow.dst[2 * i + 1]);
  }
  u64 both = flow.protocol | u64{flow.family} << 8 | u64{flow.vlan_outer} << 16 | u64{flow.vlan_inner} << 32;
  if (packet.flags & XG_PKT_FRAGMENT) {
    both |= u64{1} << 48;
    ends[0][2] = ends[1][2] = packet.fragment_id;
  } else if (packet.flags & XG_PKT_PORTS) {
    ends[0][2] = flow.src_port;
    ends[1][2] = flow.dst_port;
  } else {
    ends[0][2] = ends[1][2] = flow.dst_port;  // of an echo and its reply
  }
  if (std::lexicographical_compare(ends[1], ends[1] + 3, ends[0], ends[0] + 3)) std::swap(ends[0], ends[1]);
  XG_SIP_BEGIN(key[0], key[1]);
  for (const auto& end : ends)
    for (const u64 word : end) {
      XG_SIP_WORD(word);
    }
  XG_SIP_WORD(both);
  XG_SIP_END();
  return (v0 ^ v1 ^ v2 ^ v3) & 0x7ffffffffffffu;
}

// The packet that an event has the first bytes of.
class Packet {
 public:
  explicit Packet(const Event& event) : event_(event), bytes_(std::min<u32>(event.bytes, Event::kBytes)) {
    xg_parse_part(event.packet, event.packet + bytes_, std::max(event.length, bytes_), event.port, &parsed_);
  }
  const xg_packet& parsed() const { return parsed_; }
  bool has(u32 at, u32 bytes) const { return at != 0 && at + bytes <= bytes_; }
  const u8* at(u32 offset) const { return event_.packet + offset; }
  u32 number16(u32 offset) const { return xg_host16(xg_load16(at(offset))); }
  u32 number32(u32 offset) const { return xg_host32(xg_load32(at(offset))); }
  // Behind the L4 header, as far as it is here, and not beyond the IP packet.
  const u8* payload() const { return at(parsed_.payload_offset); }
  u32 payload_bytes() const {
    const u32 end = std::min(parsed_.ip_end, bytes_);
    return parsed_.payload_offset != 0 && parsed_.payload_offset < end ? end - parsed_.payload_offset : 0;
  }

 private:
  const Event& event_;
  u32 bytes_;
  xg_packet parsed_;
};

// What all events of a packet begin with (Suricata's CreateEveHeader).
void header(JsonLine& json, const char* type, const Packet& packet, const EveFacts& facts) {
  const xg_packet& parsed = packet.parsed();
  const xg_flow_key& key = parsed.key;
  json.text("timestamp", time_text(facts.wall_ns));
  if (key.family != 0) json.number("flow_id", flow_id(parsed, facts.key));
  json.text("in_iface", facts.interface);
  json.text("event_type", type);
  if (key.vlan_outer != 0)
    json.raw("vlan", key.vlan_inner != 0
                         ? fmt::format("[{},{}]", vlan_id(key.vlan_outer), vlan_id(key.vlan_inner))
                         : fmt::format("[{}]", vlan_id(key.vlan_outer)));
  if (key.family == 0) return json.text("pkt_src", "wire/pcap");
  // A first fragment has its ports, too, but those of its datagram are not what it is known by.
  const bool ports = (parsed.flags & (XG_PKT_PORTS | XG_PKT_FRAGMENT)) == XG_PKT_PORTS;
  json.text("src_ip", address_text(key.src, key.family));
  if (ports) json.number("src_port", xg_host16(key.src_port));
  json.text("dest_ip", address_text(key.dst, key.family));
  if (ports) json.number("dest_port", xg_host16(key.dst_port));
  json.text("proto", protocol_text(key.protocol));
  if (parsed.flags & XG_PKT_ICMP && packet.has(parsed.l4_offset, 2)) {
    json.number("icmp_type", *packet.at(parsed.l4_offset));
    json.number("icmp_code", *packet.at(parsed.l4_offset + 1u));
  }
  json.text("pkt_src", "wire/pcap");
}

void tcp_fields(JsonLine& json, const Packet& packet, u32 at) {
  if (!packet.has(at, 20)) return;
  const u8 flags = *packet.at(at + 13);
  json.number("tcpseq", packet.number32(at + 4));
  json.number("tcpack", packet.number32(at + 8));
  json.number("tcpwin", packet.number16(at + 14));
  for (const auto& [name, bit] :
       {std::pair("syn", 0x02), {"ack", 0x10}, {"psh", 0x08}, {"rst", 0x04}, {"urg", 0x20}, {"fin", 0x01}})
    json.boolean(name, (flags & bit) != 0);
  json.number("tcpres", *packet.at(at + 12) & 0x0f);
  json.number("tcpurgp", packet.number16(at + 18));
}

void transport_fields(JsonLine& json, const Packet& packet) {
  const xg_packet& parsed = packet.parsed();
  const u32 at = parsed.l4_offset;
  if (parsed.flags & XG_PKT_LATER_FRAGMENT) return;
  if (parsed.flags & XG_PKT_TCP) return tcp_fields(json, packet, at);
  if (parsed.flags & XG_PKT_UDP && packet.has(at, 8)) return json.number("udplen", packet.number16(at + 4));
  if (parsed.flags & XG_PKT_ICMP && packet.has(at, 8)) {
    json.number("icmp_id", packet.number16(at + 4));
    json.number("icmp_seq", packet.number16(at + 6));
  }
}

// Of the IP header: Suricata's JsonDropLogJSON.
void ip_fields(JsonLine& json, const Packet& packet, u32 frame_bytes) {
  const xg_packet& parsed = packet.parsed();
  const u32 at = parsed.l3_offset;
  if (parsed.flags & XG_PKT_IPV4 && packet.has(at, 20)) {
    json.number("len", packet.number16(at + 2));
    json.number("tos", *packet.at(at + 1));
    json.number("ttl", *packet.at(at + 8));
    json.number("ipid", packet.number16(at + 4));
  } else if (parsed.flags & XG_PKT_IPV6 && packet.has(at, 40)) {
    const u32 first = packet.number32(at);
    json.number("len", packet.number16(at + 4));
    json.number("tc", first >> 20 & 0xff);
    json.number("hoplimit", *packet.at(at + 7));
    json.number("flowlbl", first & 0xfffff);
  } else {
    json.number("len", frame_bytes);
  }
}

// What decided, in this program's words.
void decided(JsonLine& json, const Event& event, const EveFacts& facts, bool more = false) {
  json.begin("xdpgpu");
  json.text("action",
            event.flags & XG_RES_REFUSED ? "refuse" : action_name(XG_VERDICT_ACTION(event.verdict)));
  if (!facts.pipeline.empty()) json.text("pipeline", facts.pipeline);
  if (!facts.decided_by.empty()) json.text("decided_by", facts.decided_by);
  json.number("generation", event.generation);
  if (more) json.boolean("more_alerts", true);
  json.end();
}

void payload(JsonLine& json, const Event& event, const Packet& packet) {
  const u32 bytes = std::min<u32>(packet.payload_bytes(), event.payload);
  if (bytes > 0) json.base64("payload", packet.payload(), bytes);
}

// RFC 1035 and the registry "DNS Parameters" of IANA.
std::string record_type_text(u32 type) {
  constexpr std::pair<u32, const char*> kTypes[] = {
      {1, "A"},     {2, "NS"},     {5, "CNAME"},  {6, "SOA"},   {12, "PTR"},    {13, "HINFO"},
      {15, "MX"},   {16, "TXT"},   {28, "AAAA"},  {33, "SRV"},  {35, "NAPTR"},  {39, "DNAME"},
      {43, "DS"},   {44, "SSHFP"}, {46, "RRSIG"}, {47, "NSEC"}, {48, "DNSKEY"}, {50, "NSEC3"},
      {52, "TLSA"}, {64, "SVCB"},  {65, "HTTPS"}, {99, "SPF"},  {251, "IXFR"},  {252, "AXFR"},
      {255, "ANY"}, {256, "URI"},  {257, "CAA"}};
  for (const auto& [number, name] : kTypes)
    if (number == type) return name;
  return std::to_string(type);
}

std::string response_code_text(u32 code) {
  constexpr const char* kCodes[] = {"NOERROR",  "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED",
                                    "YXDOMAIN", "YXRRSET", "NXRRSET",  "NOTAUTH",  "NOTZONE"};
  return code < std::size(kCodes) ? kCodes[code] : std::to_string(code);
}

void dns_flags(JsonLine& json, u32 flags) {
  json.text("flags", fmt::format("{:x}", flags));
  for (const auto& [name, bit] :
       {std::pair("qr", 0x8000u), {"aa", 0x0400u}, {"tc", 0x0200u}, {"rd", 0x0100u}, {"ra", 0x0080u}})
    if (flags & bit) json.boolean(name, true);
}

}  // namespace

std::string dns_name_text(const u8* name, u32 bytes) {
  std::string text;
  for (u32 at = 0; at < bytes && name[at] != 0;) {
    const u32 end = std::min(at + 1 + name[at], bytes);
    if (!text.empty()) text += '.';
    for (++at; at < end; ++at) {
      const u8 byte = name[at];
      if (byte > 0x20 && byte < 0x7f && byte != '.' && byte != '\\')
        text += static_cast<char>(byte);
      else
        text += fmt::format("\\x{:02x}", byte);
    }
  }
  return text.empty() ? "." : text;
}

// The reasons are Suricata's words: a stage decides by rules; what is left is a fragment of which nothing is
// known.
void eve_drop(const Event& event, const EveFacts& facts, std::string& line) {
  const Packet packet(event);
  JsonLine json(line);
  header(json, "drop", packet, facts);
  json.begin("drop");
  ip_fields(json, packet, event.length);
  transport_fields(json, packet);
  json.text("reason", XG_VERDICT_STAGE(event.verdict) != 0 ? "rules" : "default packet policy");
  json.end();
  decided(json, event, facts);
  payload(json, event, packet);
  json.finish();
}

bool eve_dns(const Event& event, const EveFacts& facts, std::string& line) {
  const Packet packet(event);
  const u32 bytes = packet.payload_bytes();
  if (!(packet.parsed().flags & XG_PKT_UDP) || bytes == 0) return false;
  const auto question = dataplane::read_dns_question(packet.payload(), bytes);
  if (!question) return false;
  const bool answer = (question->flags & 0x8000u) != 0;
  JsonLine json(line);
  header(json, "dns", packet, facts);
  json.begin("dns");
  if (answer) json.number("version", 2);
  json.text("type", answer ? "answer" : "query");
  json.number("id", question->id);
  if (answer) dns_flags(json, question->flags);
  json.number("opcode", question->flags >> 11 & 15);
  json.text("rrname", dns_name_text(packet.payload() + question->name_at, question->name_bytes));
  json.text("rrtype", record_type_text(question->type));
  if (answer) json.text("rcode", response_code_text(question->flags & 15));
  json.end();
  decided(json, event, facts);
  payload(json, event, packet);
  json.finish();
  return true;
}

void eve_alert(const Event& event, const EveAlert& alert, const EveFacts& facts, std::string& line) {
  const Packet packet(event);
  JsonLine json(line);
  header(json, "alert", packet, facts);
  json.begin("alert");
  json.text("action", alert.blocked ? "blocked" : "allowed");
  json.number("gid", alert.gid);
  json.number("signature_id", alert.sid);
  json.number("rev", alert.rev);
  json.text("signature", alert.signature);
  json.text("category", alert.category);
  json.number("severity", alert.severity);
  json.end();
  decided(json, event, facts, alert.more);
  payload(json, event, packet);
  json.finish();
}

void eve_program(const Event& event, const EveProgram& program, const EveFacts& facts, std::string& line) {
  const Packet packet(event);
  JsonLine json(line);
  header(json, "program", packet, facts);
  json.begin("program");
  json.text("name", program.name);
  json.text("map", program.map);
  json.base64("data", event.program.bytes, std::min<u32>(event.program.length, XG_EVENT_BYTES));
  if (const u32 asked = std::min<u32>(event.program.asked, std::min<u32>(event.bytes, Event::kBytes)))
    json.base64("packet", event.packet, asked);
  json.end();
  decided(json, event, facts);
  payload(json, event, packet);
  json.finish();
}

void eve_stats(const Json& stats, u64 wall_ns, std::string& line) {
  JsonLine json(line);
  json.text("timestamp", time_text(wall_ns));
  json.text("event_type", "stats");
  json.raw("stats", stats.dump(-1, ' ', false, Json::error_handler_t::replace));
  json.finish();
}

}  // namespace xdpgpu::control
