// SPDX-License-Identifier: MIT
#include "gpu/stages/ddos/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "gpu/stages/ddos/device.h"
#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

constexpr u64 kTicksPerMs = XG_TICKS_PER_NS * 1'000'000;
// What the stage counts, in this order; behind them the drops by metric.
enum : u32 { within, alarmed, dropped, no_place, no_key, detected, dropped_by };

constexpr u32 bit(DdosMetric metric) { return 1u << static_cast<u32>(metric); }

// The metrics that a packet counts for, and whose alarms concern it.
u32 kinds_of(const Packet& packet) {
  u32 kinds = bit(DdosMetric::packets) | bit(DdosMetric::bytes) | bit(DdosMetric::sources);
  const u8 protocol = packet.metadata.protocol;
  if (protocol == 17) {
    kinds |= bit(DdosMetric::udp) | bit(DdosMetric::udp_bytes);
    if (!packet.ports.empty() && packet.ports[0] == 0 && packet.ports[1] == 53)
      kinds |= bit(DdosMetric::dns) | bit(DdosMetric::dns_bytes);
  }
  if (protocol == 1 || protocol == 58) kinds |= bit(DdosMetric::icmp);
  constexpr u8 kSyn = 0x02, kAck = 0x10;
  if (!packet.tcp.empty() && (packet.tcp[13] & (kSyn | kAck)) == kSyn)
    kinds |= bit(DdosMetric::syn) | bit(DdosMetric::new_flows);
  if (protocol != 6) kinds |= bit(DdosMetric::new_flows);
  return kinds;
}

bool counts_bytes(u32 metric) {
  return metric == static_cast<u32>(DdosMetric::udp_bytes) ||
         metric == static_cast<u32>(DdosMetric::dns_bytes) || metric == static_cast<u32>(DdosMetric::bytes);
}
constexpr u32 kNewFlows = static_cast<u32>(DdosMetric::new_flows);
constexpr u32 kSources = static_cast<u32>(DdosMetric::sources);

// The sum of 2^-register, in units of 2^-32, and the number of registers that are 0.
template <class Registers>
std::pair<u64, u32> sum_of(const Registers& registers) {
  u64 sum = 0;
  u32 zeros = 0;
  for (const u8 value : registers) {
    sum += (u64{1} << 32) >> value;
    zeros += value == 0 ? 1 : 0;
  }
  return {sum, zeros};
}

// How many different ones they have seen (Flajolet et al.), in whole numbers.
template <class Registers>
u64 estimate(const Registers& registers) {
  const auto [sum, zeros] = sum_of(registers);
  constexpr double m = 256;
  const u64 many = (static_cast<u64>(m * m * (0.7213 / (1 + 1.079 / m))) << 32) / sum;
  if (zeros != 0 && many <= 640) return static_cast<u64>(std::lround(m * std::log(m / zeros)));
  return std::min<u64>(many, 0xffffffff);
}

template <class Registers>
Registers larger(const Registers& a, const Registers& b) {
  Registers both{};
  for (std::size_t i = 0; i < a.size(); i++) both[i] = std::max(a[i], b[i]);
  return both;
}

u8 rank_of(u64 hash) {
  const u32 upper = static_cast<u32>(hash >> 32);
  return static_cast<u8>(upper == 0 ? 32 : std::min(31, std::countr_zero(upper)) + 1);
}

void put64(u32* to, u64 value) {
  to[0] = static_cast<u32>(value);
  to[1] = static_cast<u32>(value >> 32);
}
template <class Registers>
void put_registers(u32* to, const Registers& registers) {
  std::memcpy(to, registers.data(), registers.size());
}
template <class Registers>
void put_sum(u32* to, const Registers& registers) {
  const auto [sum, zeros] = sum_of(registers);
  put64(to, sum);
  to[2] = zeros;
}

}  // namespace

struct Floods::Hashes {
  u64 flow, source;
};

void Floods::advance(Target& target, u64 now) const {
  const u64 window = settings_->window_ms * kTicksPerMs;
  const u64 start = now - now % window;
  const u64 gone = (start - target.start) / window;
  if (gone == 0) return;
  target.start = start;
  target.windows++;
  target.other = !target.other;
  for (Metric& metric : target.metrics) {
    metric.before = gone == 1 ? metric.now : 0;
    metric.now = 0;
  }
  target.flows_before = gone == 1 ? target.flows : Registers{};
  target.flows = target.sources = {};
  const u64 halvings = std::min<u64>(gone, 31);
  target.sketched >>= halvings;
  for (auto& row : target.sketch)
    for (u32& packets : row) packets >>= halvings;
  for (Top& top : target.top) top.packets >>= halvings;
}

void Floods::count(Target& target, u32 kinds, u32 bytes, const Hashes& hashes) const {
  for (u32 m = 0; m < kNewFlows; m++)
    if (watches(m) && (kinds >> m & 1) != 0) target.metrics[m].now += counts_bytes(m) ? bytes : 1;
  if (watches(kSources)) {
    u8& was = target.sources[hashes.source & 0xff];
    was = std::max(was, rank_of(hashes.source));
    target.metrics[kSources].now = estimate(target.sources);
  }
  if (watches(kNewFlows)) {
    u8& was = target.flows[hashes.flow & 0xff];
    was = std::max(was, rank_of(hashes.flow));
    const u64 all = estimate(larger(target.flows, target.flows_before)),
              known = estimate(target.flows_before);
    target.metrics[kNewFlows].now = target.windows == 0 || all < known ? 0 : all - known;
  }
}

void Floods::judge(Target& target, u32 kinds, u64 now, Table& table) const {
  const u64 window = settings_->window_ms * kTicksPerMs;
  const u64 left = (target.start + window - now) * 1024 / window;  // in 1,024ths
  const u64 hold = settings_->hold_ms * kTicksPerMs;
  u32 alarms = 0;
  for (u32 m = 0; m < kDdosMetrics; m++) {
    if (!watches(m)) continue;
    Metric& metric = target.metrics[m];
    // A flow is of no kind.
    if ((kinds >> m & 1) != 0 || m == kNewFlows) {
      const u64 before = metric.before * left / 1024;
      const u64 value = m < kNewFlows ? metric.now + before : std::max(metric.now, before);
      u64 detect = settings_->thresholds[m];
      if (m != kSources) detect = std::max<u64>(1, detect * settings_->window_ms / 1000);
      const u64 release = std::max<u64>(1, detect * settings_->release_percent / 100);
      if (metric.until > now) {
        metric.peak = std::max(metric.peak, value);
        if (value >= release) metric.until = now + hold;
      } else if (value >= detect) {
        metric.until = now + hold;
        metric.since = now;
        metric.value = metric.peak = value;
        metric.dropped = 0;
        metric.alarms++;
        target.detections++;
        table.count(detected);
      }
    }
    if (metric.until > now) alarms |= 1u << m;
  }
  target.alarms = alarms;
}

u32 Floods::count_source(Target& target, std::span<const u8> address, const Hashes& hashes) {
  target.sketched++;
  u32 packets = ~u32{0};
  for (u32 row = 0; row < 2; row++)
    packets = std::min(packets, ++target.sketch[row][hashes.source >> (8 + 6 * row) & 63]);
  std::array<u8, 16> whole{};
  std::copy(address.begin(), address.end(), whole.begin());
  const auto known = std::find_if(target.top.begin(), target.top.end(),
                                  [&](const Top& top) { return top.packets != 0 && top.address == whole; });
  const auto least = std::min_element(target.top.begin(), target.top.end(),
                                      [](const Top& a, const Top& b) { return a.packets < b.packets; });
  if (known != target.top.end())
    known->packets = packets;
  else if (packets > least->packets)
    *least = {whole, packets};
  return packets;
}

Floods::Answer Floods::see(const Packet& packet, Table& table) {
  if (packet.src.empty()) {
    table.count(no_key);
    return {};
  }
  const bool in = settings_->direction == DdosSettings::Direction::in;
  const auto own = in ? packet.dst : packet.src;
  const auto other = in ? packet.src : packet.dst;
  const u8 family = own.size() == 4 ? 4 : 6;
  Key key{}, flow{}, source{};
  const u32 bits = family == 4 ? settings_->bits4 : settings_->bits6;
  for (u32 i = 0; i < bits; i++) key[i / 8] = static_cast<u8>(key[i / 8] | (own[i / 8] & (0x80 >> i % 8)));
  std::copy(packet.src.begin(), packet.src.end(), flow.begin());
  std::copy(packet.dst.begin(), packet.dst.end(), flow.begin() + 16);
  if (!packet.ports.empty() && !packet.is(XG_PKT_FRAGMENT))
    std::copy(packet.ports.begin(), packet.ports.end(), flow.begin() + 32);
  flow[37] = packet.metadata.protocol;
  std::copy(other.begin(), other.end(), source.begin() + 16);
  key[36] = flow[36] = source[36] = family;
  const Hashes hashes{siphash13(flow, secret_), siphash13(source, secret_)};

  table.come(key, packet.metadata.rx_time_ns * XG_TICKS_PER_NS);
  const u64 now = table.now();
  const u64 deadline = now + (u64{settings_->hold_ms} + 2 * u64{settings_->window_ms}) * kTicksPerMs;
  Entry* entry = table.find(true);
  const bool known = entry != nullptr;
  if (!known) entry = table.insert(deadline);
  if (entry == nullptr) {
    table.count(no_place);
    return {};
  }
  entry->deadline = deadline;
  Target& target = targets_[table.place_of(*entry)];
  if (!known) {
    target = {};
    target.start = now - now % (settings_->window_ms * kTicksPerMs);
  }
  advance(target, now);

  const u32 kinds = kinds_of(packet);
  count(target, kinds, packet.bytes, hashes);
  judge(target, kinds, now, table);
  if (entry->value[0] != target.detections)
    entry->value = {target.detections, static_cast<u32>(now), static_cast<u32>(now >> 32)};
  u32 sketched = target.alarms;
  for (u32 m = 0; target.alarms == 0 && m < kDdosMetrics; m++) sketched |= watches(m) ? 1u << m : 0;
  u32 packets = 0;
  if ((kinds & sketched) != 0) packets = count_source(target, other, hashes);

  const u32 hit = kinds & target.alarms;
  if (hit == 0) {
    table.count(within);
    return {};
  }
  using OnDetect = DdosSettings::OnDetect;
  const bool much = u64{packets} * 100 >= u64{target.sketched} * settings_->share_percent;
  if (settings_->on_detect == OnDetect::pass || (settings_->on_detect == OnDetect::drop_sources && !much)) {
    table.count(alarmed);
    return {};
  }
  const u32 m = static_cast<u32>(std::countr_zero(hit));
  target.metrics[m].dropped++;
  target.dropped++;
  table.count(dropped);
  table.count(dropped_by + m);
  return {true, m, (target.metrics[m].until - now) / kTicksPerMs};
}

std::vector<u32> Floods::words(u64 places) const {
  std::vector<u32> all(places * XG_DDOS_RECORD);
  for (const auto& [place, target] : targets_) {
    u32* const to = &all[place * XG_DDOS_RECORD];
    put64(to + XG_DDOS_START, target.start);
    to[XG_DDOS_LEARNED] = target.windows != 0 ? 1 : 0;
    to[XG_DDOS_CURRENT] = target.other ? 1 : 0;
    to[XG_DDOS_ALARMS] = target.alarms;
    to[XG_DDOS_DETECTIONS] = target.detections;
    to[XG_DDOS_TOTAL] = target.sketched;
    to[XG_DDOS_FLOWS_BEFORE] = static_cast<u32>(estimate(target.flows_before));
    put_sum(to + XG_DDOS_SOURCES, target.sources);
    put_sum(to + XG_DDOS_FLOWS, target.flows);
    put_sum(to + XG_DDOS_BOTH, larger(target.flows, target.flows_before));
    put64(to + XG_DDOS_DROPPED_ALL, target.dropped);
    for (u32 m = 0; m < kDdosMetrics; m++) {
      const Metric& metric = target.metrics[m];
      u32* const at = to + XG_DDOS_METRIC_AT + m * XG_DDOS_METRIC;
      put64(at + XG_DDOS_NOW, metric.now);
      put64(at + XG_DDOS_BEFORE, metric.before);
      put64(at + XG_DDOS_UNTIL, metric.until);
      put64(at + XG_DDOS_SINCE, metric.since);
      put64(at + XG_DDOS_VALUE, metric.value);
      put64(at + XG_DDOS_PEAK, metric.peak);
      at[XG_DDOS_COUNT] = metric.alarms;
      put64(at + XG_DDOS_DROPPED_IN, metric.dropped);
    }
    put_registers(to + XG_DDOS_SOURCES_AT, target.sources);
    const u32 current = target.other ? 1 : 0;
    put_registers(to + XG_DDOS_FLOWS_AT + current * XG_DDOS_REGISTER_WORDS, target.flows);
    put_registers(to + XG_DDOS_FLOWS_AT + (1 - current) * XG_DDOS_REGISTER_WORDS, target.flows_before);
    for (u32 row = 0; row < 2; row++)
      std::copy(target.sketch[row].begin(), target.sketch[row].end(),
                to + XG_DDOS_SKETCH_AT + row * XG_DDOS_ROW);
    for (u32 i = 0; i < target.top.size(); i++) {
      u32* const top = to + XG_DDOS_TOP_AT + i * XG_DDOS_TOP_WORDS;
      std::memcpy(top, target.top[i].address.data(), 16);
      top[XG_DDOS_TOP_PACKETS] = target.top[i].packets;
    }
  }
  return all;
}

namespace {

class Ddos final : public StageWith<DdosSettings> {
 public:
  Ddos(const DdosSettings& settings, const std::array<u64, 2>& secret)
      : StageWith(settings), table_(settings.table, secret), floods_(settings, secret) {}
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    const Floods::Answer answer = floods_.see(packet, table_);
    if (!answer.dropped) return false;
    result.verdict = XG_VERDICT(XG_DROP, 0u, place.position, answer.metric + 1);
    u64 ttl_ms = answer.milliseconds;
    if (settings().cache_ttl_ms != 0) ttl_ms = std::min<u64>(ttl_ms, settings().cache_ttl_ms);
    set_cache(settings().cache && ttl_ms != 0, static_cast<u32>(ttl_ms), packet, XG_REWRITE_NONE, result);
    return true;
  }
  void change(const StageSettings& changed) override {
    StageWith::change(changed);
    floods_.change(settings());
  }
  bool remembers() const override { return true; }
  std::vector<u32> table() const override {
    auto words = table_.words();
    const auto records = floods_.words(table_.places());
    words.insert(words.end(), records.begin(), records.end());
    return words;
  }

 private:
  Table table_;
  Floods floods_;
};

}  // namespace

std::unique_ptr<Stage> reference_of(const DdosSettings& settings, const std::array<u64, 2>& secret) {
  return std::make_unique<Ddos>(settings, secret);
}

}  // namespace xdpgpu::gpu::reference
