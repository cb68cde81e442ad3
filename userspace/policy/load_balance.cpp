// SPDX-License-Identifier: MIT
#include "userspace/policy/load_balance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "userspace/policy/table_stages.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u32 kMaxBackends = 256;
constexpr u32 kMinTable = 251;
constexpr u32 kMaxTable = 1'048'573;

bool is_prime(u64 number) {
  for (u64 factor = 2; factor * factor <= number; factor++)
    if (number % factor == 0) return false;
  return true;
}

class LoadBalanceReader {
 public:
  LoadBalanceReader(Report& report, const NamedFileReader& files) : report_(report), files_(files) {}

  LoadBalanceStage stage(const Place& place) {
    Fields fields(report_, place, keys::kLoadBalance, "the stage load_balance");
    if (auto algorithm = fields.get("algorithm"))
      if (auto word = read_word(report_, *algorithm, words::kBalance))
        stage_.algorithm = words::kBalance[*word];
    if (auto size = fields.get("table_size")) table_size(*size);
    if (auto file = fields.get("key_file")) key(*file);
    if (auto health = fields.get("health")) stage_.health = this->health(*health);
    if (auto outer = fields.get("encapsulation")) stage_.encapsulation = encapsulation(*outer);
    if (auto backends = fields.require("backends")) {
      const auto* items = backends->node->as<Array>();
      if (items != nullptr && (items->empty() || items->size() > kMaxBackends))
        report_.at(*backends, fmt::format("a load balancer needs 1 to {} backends, here are {}", kMaxBackends,
                                          items->size()));
      if (items == nullptr || items->size() <= kMaxBackends)
        each_element(report_, *backends, [&](const Place& one) { stage_.backends.push_back(backend(one)); });
    }
    if (const auto backends = fields.get("backends");
        backends && !stage_.backends.empty() &&
        std::all_of(stage_.backends.begin(), stage_.backends.end(),
                    [](const auto& one) { return one.drain; }))
      report_.at(*backends, "all backends drain, so there is none for new flows: leave one that does not");
    if (auto affinity = fields.get("affinity")) stage_.affinity = this->affinity(*affinity);
    cache(fields);
    return std::move(stage_);
  }

 private:
  bool by_name() const { return stage_.algorithm == "maglev"; }

  HealthSpec health(const Place& place) {
    HealthSpec health;
    Fields fields(report_, place, keys::kHealth, "\"health\"");
    if (auto port = fields.require("port"))
      if (auto value = read_integer(report_, *port, 1, 65535)) health.port = static_cast<u16>(*value);
    if (auto interval = fields.get("interval")) health_time(*interval, health.interval_ms);
    const auto timeout = fields.get("timeout");
    if (timeout)
      health_time(*timeout, health.timeout_ms);
    else
      health.timeout_ms = std::min(health.timeout_ms, health.interval_ms);
    if (health.timeout_ms > health.interval_ms)
      report_.at(timeout.value_or(place),
                 "a connect that is waited for longer than \"interval\" meets the next one: make it shorter");
    for (const auto& [key, to] : {std::pair("fall", &health.fall), std::pair("rise", &health.rise)})
      if (auto count = fields.get(key))
        if (auto value = read_integer(report_, *count, 1, 100)) *to = static_cast<u32>(*value);
    return health;
  }

  void health_time(const Place& place, u32& ms) {
    const auto ns = read_time(report_, place, "2s");
    if (!ns) return;
    if (*ns < 10'000'000 || *ns % 1'000'000 != 0 || *ns > 3'600'000'000'000)
      report_.at(place, "backends are checked in whole milliseconds, from 10ms to 1h");
    else
      ms = static_cast<u32>(*ns / 1'000'000);
  }

  EncapsulationSpec encapsulation(const Place& place) {
    EncapsulationSpec outer;
    Fields fields(report_, place, keys::kEncapsulation, "\"encapsulation\"");
    if (auto type = fields.require("type"))
      if (auto word = read_word(report_, *type, words::kEncapsulation))
        outer.type = words::kEncapsulation[*word];
    if (auto source = fields.require("source")) {
      Fields families(report_, *source, keys::kOuterSource, "\"source\"");
      if (auto at = families.get("ipv4")) outer.source4 = this->source(*at, 4);
      if (auto at = families.get("ipv6")) outer.source6 = this->source(*at, 6);
      if (families.is_object() && !families.get("ipv4") && !families.get("ipv6"))
        report_.at(*source,
                   "the outer headers need an address of this host to come from: add \"ipv4\", \"ipv6\" "
                   "or both, as the backends' addresses are");
    }
    if (auto port = fields.get("port")) {
      if (outer.type == "ipip")
        report_.at(*port, "only gue has a port: take this out, or make the \"type\" \"gue\"");
      if (auto value = read_integer(report_, *port, 1, 65535)) outer.port = static_cast<u16>(*value);
    }
    if (auto mtu = fields.get("mtu"))
      if (auto value = read_integer(report_, *mtu, 576, 65535)) outer.mtu = static_cast<u32>(*value);
    return outer;
  }

  std::optional<Prefix> source(const Place& place, u8 family) {
    const auto text = read_string(report_, place, 64);
    if (!text) return std::nullopt;
    const auto prefix = read_prefix(*text);
    const u8 least = family == 4 ? 16 : 64;
    if (!prefix)
      report_.at(place, prefix.error());
    else if (prefix->family != family)
      report_.at(place, fmt::format("\"{}\" is no IPv{} address", *text, family));
    else if (prefix->length < least)
      report_.at(place, fmt::format("\"{}\" is too large a network: the flow fills at most 16 bits, so give "
                                    "/{} or longer, or one address",
                                    *text, least));
    else if (!is_unicast(*prefix))
      report_.at(place, fmt::format("packets cannot come from \"{}\": give an address of this host", *text));
    else
      return *prefix;
    return std::nullopt;
  }

  // Neither unspecified nor multicast nor broadcast.
  static bool is_unicast(const Prefix& prefix) {
    if (prefix.family == 4) return prefix.address[0] != 0 && prefix.address[0] < 224;
    return prefix.address[0] != 0xff && std::any_of(std::begin(prefix.address), std::end(prefix.address),
                                                    [](u8 byte) { return byte != 0; });
  }

  // What is connected to, and where outer headers lead.
  void address(const Fields& fields, const Place& place, BackendSpec& backend) {
    const auto at = fields.get("address");
    if (!at) {
      if (stage_.health) report_.at(place, "\"health\" connects to each backend: add its \"address\"");
      if (stage_.encapsulation)
        report_.at(place, "\"encapsulation\" leads to each backend's own address: add its \"address\"");
      return;
    }
    if (!stage_.health && !stage_.encapsulation)
      report_.at(*at,
                 "an address is for \"health\" and \"encapsulation\", which this stage has not: take it out");
    const auto text = read_string(report_, *at, 64);
    if (!text) return;
    const auto address = read_prefix(*text);
    if (!address)
      report_.at(*at, address.error());
    else if (address->length != (address->family == 4 ? 32 : 128))
      report_.at(*at, fmt::format("\"{}\" is a network: a backend has one address", *text));
    else
      backend.address = *address;
    if (stage_.encapsulation && backend.address) outer_headers_to(*backend.address, *at);
  }

  void outer_headers_to(const Prefix& address, const Place& place) {
    const auto& source = address.family == 4 ? stage_.encapsulation->source4 : stage_.encapsulation->source6;
    if (!is_unicast(address))
      report_.at(place, fmt::format("\"{}\" is no host's address", write_prefix(address)));
    else if (!source)
      report_.at(place,
                 fmt::format("outer headers to \"{}\" need an IPv{} address to come from: add \"ipv{}\" to "
                             "the \"source\" of \"encapsulation\"",
                             write_prefix(address), address.family, address.family));
  }

  void cache(const Fields& fields) {
    stage_.cache_ms = read_cache(report_, fields);
    if (!stage_.affinity || !stage_.cache_ms) return;
    const u32 most = stage_.affinity->idle_ms / 2;
    if (*stage_.cache_ms == 0 || *stage_.cache_ms > most)
      report_.at(*fields.get("cache"),
                 fmt::format("what the kernel deals with is not seen here, and would be forgotten: cache "
                             "verdicts for at most half of the affinity's \"idle\", \"{}\"",
                             write_duration(u64{most} * 1'000'000)));
  }

  void table_size(const Place& place) {
    const auto value = read_integer(report_, place, kMinTable, kMaxTable);
    if (!value) return;
    if (!by_name())
      report_.at(place, "only maglev has a lookup table: take this out, or add \"algorithm\": \"maglev\"");
    u64 prime = *value;
    while (!is_prime(prime)) prime++;
    if (prime != *value)
      report_.at(place, fmt::format("{} is no prime number, and only of those do all backends reach every "
                                    "entry; the next one is {}",
                                    *value, prime));
    stage_.table_size = static_cast<u32>(*value);
  }

  // The first digits are the first bytes of the key.
  void key(const Place& place) {
    if (!by_name())
      report_.at(place, "only maglev hashes with a key: take this out, or add \"algorithm\": \"maglev\"");
    const auto named = files_(place);
    if (!named) return;
    stage_.key_file = named->path;
    const std::string_view text = trimmed(*named->text);
    std::array<u64, 2> key{};
    const bool digits = text.size() == 32 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
                          return std::isxdigit(c) != 0;
                        });
    if (!digits)
      return report_.at(place, fmt::format("{} must hold 32 hexadecimal digits and nothing else, as "
                                           "\"openssl rand -hex 16\" prints them",
                                           named->path));
    for (std::size_t i = 0; i < 16; i++) {
      u64 byte = 0;
      std::from_chars(&text[i * 2], &text[i * 2] + 2, byte, 16);
      key[i / 8] |= byte << i % 8 * 8;
    }
    stage_.key = key;
  }
  static std::string_view trimmed(std::string_view text) {
    constexpr const char* kBlanks = " \t\r\n";
    const auto first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
  }

  AffinitySpec affinity(const Place& place) {
    AffinitySpec affinity;
    Fields fields(report_, place, keys::kAffinity, "\"affinity\"");
    if (!by_name())
      report_.at(place, "affinity knows backends by name, as maglev does: add \"algorithm\": \"maglev\"");
    if (auto per = fields.get("per"))
      if (auto word = read_word(report_, *per, words::kAffinityPer))
        affinity.per = words::kAffinityPer[*word];
    read_timeout(report_, fields, "idle", affinity.idle_ms);
    read_table(report_, fields, affinity.table);
    return affinity;
  }

  BackendSpec backend(const Place& place) {
    BackendSpec backend;
    Fields fields(report_, place, keys::kBackend, "a backend");
    if (auto name = fields.get("name")) {
      if (auto text = read_string(report_, *name, 128)) backend.name = *text;
      if (by_name() && std::any_of(stage_.backends.begin(), stage_.backends.end(),
                                   [&](const auto& other) { return other.name == backend.name; }))
        report_.at(*name, fmt::format("another backend is \"{}\", too, and maglev tells them apart by name: "
                                      "give each its own",
                                      backend.name));
    } else if (by_name()) {
      report_.at(place, "maglev tells backends apart by name: add a \"name\" of its own here");
    }
    if (backend.name.empty()) backend.name = fmt::format("backend {}", stage_.backends.size() + 1);
    if (auto mac = fields.require("mac"))
      if (auto value = read_mac_at(report_, *mac)) backend.mac = *value;
    if (auto weight = fields.get("weight"))
      if (auto value = read_integer(report_, *weight, 0, 1000)) backend.weight = static_cast<u32>(*value);
    if (auto drain = fields.get("drain"))
      if (auto value = read_bool(report_, *drain)) backend.drain = *value;
    if (backend.weight == 0) {
      backend.drain = true;
      backend.weight = 1;
    }
    address(fields, place, backend);
    if (auto to = fields.get("to")) backend.to = read_interface(report_, *to);
    return backend;
  }

  Report& report_;
  const NamedFileReader& files_;
  LoadBalanceStage stage_;
};

}  // namespace

std::map<std::string, u32> outer_mtus(const Policy& policy) {
  std::map<std::string, u32> mtus;
  for (const auto& pipeline : policy.pipelines)
    for (const auto& stage : pipeline.stages)
      if (const auto* balance = std::get_if<LoadBalanceStage>(&stage); balance && balance->encapsulation)
        for (const auto& backend : balance->backends)
          mtus[backend.to] = std::max(mtus[backend.to], balance->encapsulation->mtu);
  return mtus;
}

LoadBalanceStage read_load_balance(Report& report, const Place& place, const NamedFileReader& files) {
  return LoadBalanceReader(report, files).stage(place);
}

}  // namespace xdpgpu::policy
