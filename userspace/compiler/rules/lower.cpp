// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/lower.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/compiler/rules/bits.hpp"
#include "userspace/compiler/rules/lower_header.hpp"
#include "userspace/compiler/rules/lower_payload.hpp"
#include "userspace/compiler/rules/thresholds.hpp"
#include "userspace/expressions/expressions.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;

std::optional<sig::Action> action_of(Action action) {
  switch (action) {
    case Action::alert:
      return sig::Action::alert;
    case Action::pass:
      return sig::Action::pass;
    case Action::drop:
      return sig::Action::drop;
    case Action::reject:
      return sig::Action::reject;
    case Action::reject_dst:
      return sig::Action::reject_dst;
    case Action::reject_both:
      return sig::Action::reject_both;
    case Action::config:
      return {};
  }
  return {};
}

// ---- conditions ----------------------------------------------------------------------------------------

struct Named {
  std::string_view keyword;
  sig::Field field;
};
constexpr Named kFields[] = {{"dsize", sig::Field::payload_bytes},
                             {"ttl", sig::Field::ttl},
                             {"tos", sig::Field::tos},
                             {"id", sig::Field::ip_id},
                             {"fragoffset", sig::Field::fragment_offset},
                             {"itype", sig::Field::icmp_type},
                             {"icode", sig::Field::icmp_code},
                             {"icmp_id", sig::Field::icmp_id},
                             {"icmp_seq", sig::Field::icmp_seq},
                             {"seq", sig::Field::tcp_seq},
                             {"tcp.seq", sig::Field::tcp_seq},
                             {"ack", sig::Field::tcp_ack},
                             {"tcp.ack", sig::Field::tcp_ack},
                             {"window", sig::Field::tcp_window},
                             {"tcp.window", sig::Field::tcp_window}};

sig::Bits bits_of(TcpFlags::Mode mode) {
  switch (mode) {
    case TcpFlags::Mode::exactly:
      return sig::Bits::exactly;
    case TcpFlags::Mode::all:
      return sig::Bits::all;
    case TcpFlags::Mode::any:
      return sig::Bits::any;
    case TcpFlags::Mode::none:
      return sig::Bits::not_all;
  }
  return sig::Bits::exactly;
}

// searched: the rule is found by a content first.
sig::TcpFlagsAre flags_of(const TcpFlags& flags, bool searched) {
  constexpr u8 kSyn = 0x02, kBeginsOrEnds = 0x07, kUnusual = 0xe0;  // SYN, RST, FIN; URG, ECE, CWR
  sig::TcpFlagsAre made{bits_of(flags.mode), flags.flags, flags.mask, {}};
  if ((flags.flags & kBeginsOrEnds) != 0) made.some_of[0] = kBeginsOrEnds;
  if ((flags.flags & kSyn) != 0 && flags.mode != TcpFlags::Mode::none && !searched) made.some_of[0] = kSyn;
  if ((flags.flags & kUnusual) != 0) made.some_of[1] = kUnusual;
  return made;
}

std::optional<u8> ip_option_of(std::string_view name) {
  constexpr std::pair<std::string_view, u8> kOptions[] = {{"rr", 7},     {"eol", 0},    {"nop", 1},
                                                          {"ts", 68},    {"sec", 130},  {"esec", 133},
                                                          {"lsrr", 131}, {"ssrr", 137}, {"satid", 136}};
  for (const auto& [known, type] : kOptions)
    if (known == name) return type;
  return {};
}

class Lowering {
 public:
  Lowering(const Rule& rule, Streams streams, u32 priority) : rule_(rule), streams_(streams) {
    made_.gid = rule.gid;
    made_.sid = rule.sid;
    made_.rev = rule.rev;
    made_.priority = rule.priority.value_or(priority);
  }

  Lowered done() && {
    if (is_dns()) made_.dns.emplace();
    if (has_buffer(kServerName)) made_.hello.emplace();
    if (asks_http()) made_.http.emplace();
    where_ = where();
    header();
    for (const auto& condition : rule_.conditions) ip_protocol(condition);
    if (is_dns()) over_udp();
    if (made_.hello || made_.http) made_.header.protocols &= std::bitset<256>().set(6);
    if (made_.http) which_way();
    for (const auto& condition : rule_.conditions) this->condition(condition);
    if (const auto why = not_limited(rule_)) not_yet(threshold_keyword(), *why);
    for (const auto& buffer : rule_.buffers) this->buffer(buffer);
    if (made_.dns && !made_.dns->names.empty()) made_.dns->answers = false;
    if (made_.action == sig::Action::pass && rule_.type == Type::ip_only && is_counted())
      not_yet(threshold_keyword(), "Suricata passes the whole flow by it");
    late_ = made_.action != sig::Action::alert && (is_counted() || asks_for_bits() || has_rest());
    if (where_ != sig::Where::packet) in_streams();
    if (const auto why = sig::beyond_bounds(made_); why && not_yet_.empty()) not_yet("content", *why);
    if (has_rest() && not_yet_.empty()) finish_rest();
    if (!not_yet_.empty()) return undecided();
    made_.once_a_flow = rule_.type == Type::ip_only && !made_.dns && rule_.header.src.out.empty() &&
                        rule_.header.dst.out.empty();
    const sig::Action action = made_.action;
    if (late_) made_.action = sig::Action::alert;
    return {std::move(made_), {},     over_tcp_too_, uploads_too_,           std::move(bits_), noalert_,
            of_connections_,  action, late_,         std::move(shared_rest_)};
  }

 private:
  void not_yet(std::string_view keyword, std::string why) {
    if (std::none_of(not_yet_.begin(), not_yet_.end(),
                     [&](const NotYet& one) { return one.keyword == keyword; }))
      not_yet_.push_back({std::string(keyword), std::move(why)});
  }

  void header() {
    const auto action = action_of(rule_.header.action);
    if (!action) not_yet("config", "it configures Suricata");
    made_.action = action.value_or(sig::Action::alert);
    const auto& protocol = rule_.header.protocol;
    if (protocol == "pkthdr")
      not_yet(protocol, "it is about what Suricata's decoder finds");
    else if (layer_of(protocol) == Layer::application && protocol != "dns" &&
             !(made_.hello && protocol == "tls") &&
             !(made_.http && (protocol == "http" || protocol == "http1")))
      not_yet(protocol, "it is about what an application says");
    else
      made_.header = lower_header(rule_.header);
  }

  void ip_protocol(const Condition& condition) {
    const auto* const protocol = std::get_if<IpProtocol>(&condition.value);
    if (protocol == nullptr) return;
    const auto& numbers = protocol->numbers;
    for (std::size_t i = 0; i < 256; i++)
      if ((numbers.least <= i && i <= numbers.most) == numbers.negated) made_.header.protocols.reset(i);
  }

  static constexpr std::string_view kServerName = "tls.sni";
  bool has_buffer(std::string_view name) const {
    return std::any_of(rule_.buffers.begin(), rule_.buffers.end(),
                       [&](const Buffer& one) { return one.name == name; });
  }

  // What files have is said of other protocols, too.
  bool is_of_http(const Buffer& buffer) const {
    const bool is_http = rule_.header.protocol == "http" || rule_.header.protocol == "http1";
    return http_part_of(buffer.name, false) ||
           (http_part_of(buffer.name, true) && (buffer.name != kFile || is_http));
  }
  bool asks_http() const {
    return std::any_of(rule_.buffers.begin(), rule_.buffers.end(),
                       [&](const Buffer& one) { return is_of_http(one); });
  }
  static constexpr std::string_view kFile = "file_data";
  // Whether it is about requests or about answers, which have some of the same parts: by what it asks for, or
  // its flow.
  void which_way() {
    const auto asks_alone = [&](bool answers) {
      return std::any_of(rule_.buffers.begin(), rule_.buffers.end(), [&](const Buffer& one) {
        return http_part_of(one.name, answers) && !http_part_of(one.name, !answers) && one.name != kFile;
      });
    };
    const bool is_said =
        rule_.flow.to_client || rule_.flow.to_server || asks_alone(true) || asks_alone(false);
    uploads_too_ = !is_said && has_buffer(kFile);
    of_answers_ = rule_.flow.to_client || (!rule_.flow.to_server && asks_alone(true)) || uploads_too_;
    if (!is_said && !uploads_too_)
      return not_yet(
          stream_keyword(),
          "requests and answers have it: flow:to_server or flow:to_client has to say which is meant");
    for (const Buffer& one : rule_.buffers)
      if (is_of_http(one) && !http_part_of(one.name, of_answers_))
        not_yet(keyword_of_buffer(one.name), of_answers_ ? "no answer by HTTP has it"
                                             : one.name == kFile
                                                 ? "what clients send is not taken apart into files"
                                                 : "no request by HTTP has it");
  }

  // It asks for DNS messages by its protocol, or by what it looks at.
  bool is_dns() const {
    return rule_.header.protocol == "dns" ||
           std::any_of(rule_.buffers.begin(), rule_.buffers.end(), is_name) ||
           std::any_of(rule_.conditions.begin(), rule_.conditions.end(),
                       [](const Condition& one) { return one.keyword->name == "dns.opcode"; });
  }
  static bool is_name(const Buffer& buffer) { return buffer.name == "dns_query"; }
  // What DNS says over TCP is in a stream.
  void over_udp() {
    auto& protocols = made_.header.protocols;
    over_tcp_too_ = protocols[6] || rule_.header.protocol == "dns";
    protocols &= std::bitset<256>().set(17);
    const bool named = std::any_of(rule_.buffers.begin(), rule_.buffers.end(), is_name);
    if (protocols.none()) not_yet(named ? "dns.query" : "dns.opcode", "it is looked for over UDP alone");
  }

  // No fragment is put together. A DNS message says itself which way it goes.
  void flow_is(const FlowIs& is) {
    if (is.only_stream && made_.dns) return not_yet("flow", "it is looked for in a stream");
    if (is.only_frag) return not_yet("flow", "no fragments are put together");
    const bool way = is.to_server || is.to_client;
    if (way && made_.dns) {
      made_.dns->queries = is.to_server;
      made_.dns->answers = is.to_client;
    }
    using Way = sig::ConnectionIs::Way;
    sig::ConnectionIs asks;
    if (way && !made_.dns) asks.way = is.to_server ? Way::to_server : Way::to_client;
    if (is.established || is.not_established) asks.established = is.established;
    if (asks.way != Way::any || asks.established) of_connection(asks);
  }

  // Which way a stream goes, is known without a stage `conntrack`.
  void of_connection(const sig::ConnectionIs& asks) {
    made_.conditions.emplace_back(asks);
    of_connections_ = of_connections_ || where_ != sig::Where::stream;
  }

  void bits_are(const Bits& bits) {
    if (!bits.what) {
      noalert_ = true;
      return;
    }
    bits_.push_back(bits_of(bits));
    if (bits.on != gpu::RuleBits::On::connection) return;
    // Whether there are connections at all.
    if (std::none_of(made_.conditions.begin(), made_.conditions.end(), is_of_connection)) of_connection({});
    of_connections_ = true;  // whose they are, `conntrack` says
  }
  static bool is_of_connection(const sig::Condition& one) {
    return std::holds_alternative<sig::ConnectionIs>(one);
  }

  void condition(const Condition& condition) {
    const std::string_view name = condition.keyword->name;
    const auto* const field = std::find_if(std::begin(kFields), std::end(kFields),
                                           [&](const Named& one) { return one.keyword == name; });
    if (field != std::end(kFields)) return field_is(field->field, condition);
    if (name == "prefilter") return;                                // by what it is found first, and no more
    if (name == "threshold" || name == "detection_filter") return;  // not_limited() is asked
    if (name == "sameip") {
      made_.conditions.emplace_back(sig::SameAddresses{});
    } else if (name == "flags" || name == "tcp.flags") {
      made_.conditions.emplace_back(flags_of(std::get<TcpFlags>(condition.value), is_searched()));
    } else if (name == "fragbits") {
      const auto& bits = std::get<FragmentBits>(condition.value);
      const int sum = (bits.reserved ? 4 : 0) + (bits.dont ? 2 : 0) + (bits.more ? 1 : 0);
      made_.conditions.emplace_back(sig::FragmentBitsAre{bits_of(bits.mode), static_cast<u8>(sum)});
    } else if (name == "dns.opcode") {
      const auto& is = std::get<Exactly>(condition.value);
      made_.dns->operations.push_back({static_cast<u8>(is.value), is.negated});
    } else if (name == "flow") {
      flow_is(rule_.flow);
    } else if (name == "noalert") {
      noalert_ = true;
    } else if (name == "flowbits" || name == "xbits" || name == "hostbits") {
      bits_are(std::get<Bits>(condition.value));
    } else if (name == "ipopts") {
      const auto type = ip_option_of(std::get<IpOption>(condition.value).name);
      if (type)
        made_.conditions.emplace_back(sig::IpOptionIs{*type});
      else
        not_yet(name, fmt::format("Suricata finds no option \"{}\" in any packet", condition.text));
    } else if (name != "ip_proto") {
      not_yet(name, why_not(*condition.keyword));
    }
  }

  // Whether what it does hangs on what hosts alone know: how often it has matched, and bits. What matches
  // oftener than a limit says is dropped all the same, and does not pass.
  bool is_counted() const {
    return rule_.threshold &&
           (rule_.threshold->type != Threshold::Type::limit || made_.action == sig::Action::pass);
  }
  bool asks_for_bits() const {
    return std::any_of(bits_.begin(), bits_.end(), [](const gpu::RuleBits& one) { return one.asks(); });
  }

  // Of a threshold that is not the rule's own, too.
  std::string_view threshold_keyword() const {
    return rule_.threshold->type == Threshold::Type::detection_filter ? "detection_filter" : "threshold";
  }

  void field_is(sig::Field field, const Condition& condition) {
    sig::FieldIs made{field, {}, false};
    if (const auto* const range = std::get_if<Range>(&condition.value)) {
      made.values = range_of(*range);
      made.negated = range->negated;
    } else {
      const auto& value = std::get<Exactly>(condition.value);
      made.values = {static_cast<u32>(value.value), static_cast<u32>(value.value)};
      made.negated = value.negated;
    }
    made_.conditions.emplace_back(made);
    if (field != sig::Field::payload_bytes) return;
    // A size that a payload may not have is one of a payload that there is.
    if (made.negated) made_.conditions.emplace_back(sig::FieldIs{field, {1, 65535}, false});
    if (has_streams() && (made.negated || made.values.last == 0))
      not_yet("dsize", "what a segment without payload matches is another thing once its stream has data");
  }

  static std::string why_not(const Keyword& keyword) {
    switch (keyword.kind) {
      case Kind::state:
        return "it is about a flow, or what is remembered";
      case Kind::after:
        return "it is about what is done, or how often, once a rule matches";
      case Kind::layer7:
        return "it is about what an application says";
      default:
        return "packets are not looked at for it";
    }
  }

  void buffer(const Buffer& buffer) {
    if (is_name(buffer)) return name(buffer, made_.dns->names);
    if (buffer.name == kServerName) return name(buffer, made_.hello->names);
    if (made_.http && http_part_of(buffer.name, of_answers_)) return name(buffer, made_.http->parts);
    if (is_of_http(buffer)) return;  // which_way() says why not
    if (buffer.name != "payload") {
      const auto keyword = keyword_of_buffer(buffer.name);
      not_yet(keyword, buffer.name.ends_with(".hdr") ? "packets are not looked at for it"
                                                     : "it is about what an application says");
      return;
    }
    auto lowered = lower_payload(rule_, buffer);
    for (auto& one : lowered.not_yet) not_yet(one.keyword, std::move(one.why));
    made_.payload = std::move(lowered.steps);
    rest_.payload = std::move(lowered.rest);
    if (where_ == sig::Where::packet && has_streams() && lowered.matches_nothing)
      not_yet("content", "what a segment without payload matches is another thing once its stream has data");
    if (lowered.fast_pattern) made_.fast_pattern = lowered.fast_pattern;
  }

  void name(const Buffer& buffer, std::vector<sig::NameIs>& names) {
    const auto& transforms = buffer.transforms;
    const auto part = http_part_of(buffer.name, of_answers_);
    for (std::size_t i = 0; i < transforms.size(); i++) {
      const auto keyword = std::string_view(transforms[i]).substr(0, transforms[i].find(':'));
      if (keyword != "dotprefix" || i != 0 || (part && *part != sig::HttpPart::host))
        not_yet(keyword, "it changes what is looked at");
    }
    auto lowered = lower_payload(rule_, buffer);
    for (auto& one : lowered.not_yet) not_yet(one.keyword, std::move(one.why));
    if (!lowered.rest.empty())
      rest_.names.push_back({!transforms.empty(), lowered.sizes, {}, std::move(lowered.rest)});
    names.push_back({!transforms.empty(), std::move(lowered.sizes), std::move(lowered.sets),
                     std::move(lowered.steps), part.value_or(sig::HttpPart::method)});
    const auto of_uri = static_cast<u32>(names.size());
    if (!lowered.raw_sizes.empty())
      names.push_back({false, std::move(lowered.raw_sizes), {}, {}, sig::HttpPart::raw_uri});
    if (!lowered.fast_pattern) return;
    made_.fast_pattern = lowered.fast_pattern;
    made_.fast_pattern->buffer = of_uri;
  }

  // ---- streams

  // Where Suricata looks for it: a DNS message is a packet's.
  sig::Where where() const {
    if (made_.dns) return sig::Where::packet;
    if (made_.hello || made_.http || is_for_streams()) return sig::Where::stream;
    if (!has_buffer("payload") || rule_.type == Type::packet) return sig::Where::packet;
    return rule_.type == Type::both ? sig::Where::both : sig::Where::stream;
  }
  // By its own words.
  bool is_for_streams() const { return rule_.header.protocol == "tcp-stream" || rule_.flow.only_stream; }
  std::string_view stream_keyword() const {
    if (made_.hello) return kServerName;
    if (made_.http)
      return keyword_of_buffer(
          std::find_if(rule_.buffers.begin(), rule_.buffers.end(), [&](const Buffer& one) {
            return is_of_http(one);
          })->name);
    if (rule_.header.protocol == "tcp-stream") return rule_.header.protocol;
    return rule_.flow.only_stream ? "flow" : "content";
  }

  void in_streams() {
    // What else it asks for stands in the way by itself.
    const bool is_application = rule_.type == Type::application && !made_.hello && !made_.http;
    if (!is_application && late_ && !has_rest())
      not_yet(late_keyword(), "a host does what it does to one packet, and a stream's comes again");
    if (!is_application && has_rest())
      not_yet("pcre", "no device decides its expression, and a stream is on devices alone");
    const auto why = is_application ? std::nullopt : why_not_in_streams();
    lacks_streams_ = !why && streams_ == Streams::none && not_yet_.empty();
    if (why)
      not_yet(stream_keyword(), fmt::format("it is looked for in a stream, and {}", *why));
    else if (streams_ == Streams::none)
      not_yet(
          stream_keyword(),
          "it is looked for in a stream: \"streams\" of the stage says how many connections are followed");
    else if (made_.http && streams_ == Streams::without_http)
      not_yet(stream_keyword(), "it is about HTTP: \"http\" of \"inspect\" says whether that is read");
    else if (of_answers_ && streams_ == Streams::with_requests)
      not_yet(stream_keyword(),
              "it is about answers by HTTP: \"answers\" of \"inspect\" says whether they are read");
    else
      made_.where = where_;
  }
  std::optional<std::string> why_not_in_streams() const {
    if (!std::all_of(made_.conditions.begin(), made_.conditions.end(), is_of_connection))
      return "asks for what packets have, and streams have not";
    return sig::not_of_streams(made_);
  }
  // By which what it does hangs on a host.
  std::string_view late_keyword() const {
    if (is_counted()) return threshold_keyword();
    return std::find_if(rule_.conditions.begin(), rule_.conditions.end(),
                        [](const Condition& one) { return std::holds_alternative<Bits>(one.value); })
        ->keyword->name;
  }

  Lowered undecided() {
    Lowered made;
    made.not_yet = std::move(not_yet_);
    made.lacks_streams = lacks_streams_;
    return made;
  }

  bool is_searched() const {
    if (!rule_.fast_pattern) return false;
    const auto& [buffer, match] = *rule_.fast_pattern;
    return !std::get<Content>(rule_.buffers[buffer].matches[match]).negated;
  }
  bool has_streams() const { return made_.header.protocols[6]; }
  bool has_rest() const { return !rest_.payload.empty() || !rest_.names.empty(); }
  void finish_rest() {
    if (const auto why = sig::beyond_bounds(rest_)) return not_yet("pcre", *why);
    u64 bytes = 0;
    if (const auto compiled = expressions::compile(rest_, bytes); !compiled)
      return not_yet("pcre", compiled.error());
    shared_rest_ = std::make_shared<const sig::HostPart>(std::move(rest_));
  }

  const Rule& rule_;
  const Streams streams_;
  sig::Where where_ = sig::Where::packet;
  sig::Signature made_;
  sig::HostPart rest_;
  std::shared_ptr<const sig::HostPart> shared_rest_;
  std::vector<NotYet> not_yet_;
  bool over_tcp_too_ = false, uploads_too_ = false;
  std::vector<gpu::RuleBits> bits_;
  bool noalert_ = false, of_connections_ = false, late_ = false, lacks_streams_ = false;
  bool of_answers_ = false;  // made_.http is about these
};

}  // namespace

void NotYetCounts::add(const Lowered& lowered) {
  for (const NotYet& one : lowered.not_yet) {
    const auto known = std::find_if(counts_.begin(), counts_.end(),
                                    [&](const auto& other) { return other.first == one.keyword; });
    if (known == counts_.end())
      counts_.emplace_back(one.keyword, 1);
    else
      known->second++;
  }
}

std::vector<std::pair<std::string, u64>> NotYetCounts::sorted() const {
  auto counts = counts_;
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& one, const auto& other) { return one.second > other.second; });
  return counts;
}

bool passes_streams(const Lowered& lowered) {
  return lowered.signature && lowered.action == sig::Action::pass &&
         lowered.signature->where != sig::Where::packet;
}

Lowered lower(const Rule& rule, Streams streams, u32 priority) {
  return Lowering(rule, streams, priority).done();
}

std::vector<Lowered> lower(std::span<const Rule> rules, Streams streams,
                           std::span<const gpu::Suppression> suppressed) {
  const SuppressedForSome for_some(suppressed);
  std::vector<Lowered> all;
  for (const Rule& rule : rules) {
    all.push_back(lower(rule, streams));
    if (!passes_streams(all.back()) || !for_some.contains(rule)) continue;
    all.back() = {};
    all.back().not_yet.push_back({"suppress", "a host says whether it passes a packet, and no stream"});
  }
  settle_bits(rules, all);
  return all;
}

}  // namespace xdpgpu::rules
