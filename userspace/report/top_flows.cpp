// SPDX-License-Identifier: MIT
#include "userspace/report/top_flows.hpp"

#include <algorithm>

namespace xdpgpu::report {
namespace {

template <class T>
void keep_busiest(std::vector<T>& all, std::size_t most) {
  const auto busier = [](const T& a, const T& b) { return a.packets_s > b.packets_s; };
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::partial_sort(all.begin(), end, all.end(), busier);
  all.erase(end, all.end());
}

// A count that is smaller than before began anew, as another flow's did.
double rate(u64 now, u64 before, double seconds) {
  return static_cast<double>(now < before ? now : now - before) / seconds;
}

}  // namespace

void FlowWatch::set_places(std::vector<FlowPlace> places) {
  std::vector<Table> tables;
  for (FlowPlace& place : places) {
    if (Table* const known = table_of(place))
      tables.push_back(std::move(*known));
    else
      tables.push_back({.place = std::move(place), .parts = std::vector<Part>(1)});
  }
  const bool same = tables.size() == tables_.size() &&
                    std::equal(tables.begin(), tables.end(), tables_.begin(),
                               [](const Table& a, const Table& b) { return a.place == b.place; });
  tables_ = std::move(tables);
  if (same) return;
  table_ = next_part_ = 0;
  std::erase_if(shown_, [&](const auto& one) { return table_of(one.first.first) == nullptr; });
}

FlowWatch::Table* FlowWatch::table_of(const FlowPlace& place) {
  const auto found =
      std::find_if(tables_.begin(), tables_.end(), [&](const Table& table) { return table.place == place; });
  return found == tables_.end() ? nullptr : &*found;
}

std::optional<FlowWatch::Ask> FlowWatch::next() const {
  if (tables_.empty()) return std::nullopt;
  const Table& table = tables_[table_];
  const Part& part = table.parts[next_part_];
  return Ask{table.place, part.from, part_, part.at_ns};
}

FlowWatch::Part* FlowWatch::part_of(const Ask& ask) {
  Table* const table = table_of(ask.place);
  if (table == nullptr) return nullptr;
  const auto found = std::find_if(table->parts.begin(), table->parts.end(),
                                  [&](const Part& part) { return part.from == ask.from; });
  return found == table->parts.end() ? nullptr : &*found;
}

void FlowWatch::advance() {
  if (++next_part_ < tables_[table_].parts.size()) return;
  next_part_ = 0;
  table_ = (table_ + 1) % tables_.size();
}

void FlowWatch::failed(const Ask& ask) {
  if (Part* const part = part_of(ask)) *part = Part{.from = part->from};
  if (!tables_.empty()) advance();
}

void FlowWatch::counted(const Ask& ask, const control::FlowCountsReport& counts, double now_s) {
  Table* const table = table_of(ask.place);
  Part* part = part_of(ask);
  if (part == nullptr) return;
  if (table->entries != counts.table) {
    table->entries = counts.table;
    table->parts.assign(std::max(1U, (counts.table + part_ - 1) / part_), Part{});
    for (u32 i = 0; i < table->parts.size(); ++i) table->parts[i].from = i * part_;
    part = part_of(ask);
    if (part == nullptr) return;
  }
  const double seconds = now_s - part->at_s;
  const bool again = part->looks > 0 && seconds > 0;
  part->before.resize(part_);
  part->busiest.clear();
  std::vector<SourceRate> sources(counts.sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) sources[i].address = counts.sources[i];
  const std::size_t told =
      std::min({counts.index.size(), counts.packets.size(), counts.bytes.size(), counts.source.size()});
  for (std::size_t i = 0; i < told; ++i) {
    const u32 index = counts.index[i];
    if (index < part->from || index - part->from >= part->before.size()) continue;
    Count& before = part->before[index - part->from];
    const Count now{counts.packets[i], counts.bytes[i]};
    if (again) {
      const Busy busy{index, rate(now.packets, before.packets, seconds),
                      rate(now.bytes, before.bytes, seconds)};
      if (busy.packets_s > 0) {
        part->busiest.push_back(busy);
        if (counts.source[i] < sources.size()) {
          SourceRate& source = sources[counts.source[i]];
          ++source.flows;
          source.packets_s += busy.packets_s;
          source.bytes_s += busy.bytes_s;
        }
      }
    }
    before = now;
  }
  std::erase_if(sources, [](const SourceRate& source) { return source.flows == 0; });
  keep_busiest(part->busiest, kShown);
  keep_busiest(sources, kSourcesOfPart);
  part->sources = std::move(sources);
  part->current = counts.current;
  part->at_ns = counts.at_ns;
  part->at_s = now_s;
  if (++part->looks > 1) advance();
}

std::vector<std::pair<FlowPlace, std::vector<u32>>> FlowWatch::wanted() {
  struct Candidate {
    const FlowPlace* place;
    u32 index;
    double packets_s;
  };
  std::vector<Candidate> all;
  for (const Table& table : tables_)
    for (const Part& part : table.parts)
      for (const Busy& busy : part.busiest) {
        const auto shown = shown_.find({table.place, busy.index});
        all.push_back(
            {&table.place, busy.index, shown == shown_.end() ? busy.packets_s : shown->second.packets_s});
      }
  keep_busiest(all, kShown);
  std::vector<std::pair<FlowPlace, std::vector<u32>>> wanted;
  for (const Candidate& one : all) {
    auto found = std::find_if(wanted.begin(), wanted.end(),
                              [&](const auto& known) { return known.first == *one.place; });
    if (found == wanted.end()) found = wanted.insert(wanted.end(), {*one.place, {}});
    found->second.push_back(one.index);
  }
  std::erase_if(shown_, [&](const auto& one) {
    return std::none_of(all.begin(), all.end(), [&](const Candidate& candidate) {
      return candidate.index == one.first.second && *candidate.place == one.first.first;
    });
  });
  return wanted;
}

void FlowWatch::described(const FlowPlace& place, const std::vector<u32>& indices,
                          const control::FlowsReport& answer, double now_s) {
  // Some have gone.
  std::erase_if(shown_, [&](const auto& one) {
    return one.first.first == place &&
           std::none_of(answer.flows.begin(), answer.flows.end(),
                        [&](const auto& flow) { return flow.index == one.first.second; });
  });
  const Table* const table = table_of(place);
  if (table == nullptr) return;
  for (const control::FlowReport& flow : answer.flows) {
    if (std::find(indices.begin(), indices.end(), flow.index) == indices.end()) continue;
    const auto [at, added] = shown_.try_emplace({place, flow.index});
    Shown& shown = at->second;
    if (added) {
      // As its part has it, until there are two answers about it.
      for (const Part& part : table->parts)
        for (const Busy& busy : part.busiest)
          if (busy.index == flow.index) shown = {{}, now_s, busy.packets_s, busy.bytes_s};
    } else if (const double seconds = now_s - shown.at_s; seconds > 0) {
      const bool same = shown.flow.flow == flow.flow;
      shown.packets_s = rate(flow.packets, same ? shown.flow.packets : 0, seconds);
      shown.bytes_s = rate(flow.bytes, same ? shown.flow.bytes : 0, seconds);
    }
    shown.flow = flow;
    shown.at_s = now_s;
  }
}

FlowsSeen FlowWatch::seen() const {
  FlowsSeen seen;
  for (const auto& [key, shown] : shown_)
    seen.flows.push_back({key.first, shown.flow, shown.packets_s, shown.bytes_s});
  keep_busiest(seen.flows, kShown);
  std::unordered_map<std::string, SourceRate> sources;
  for (const Table& table : tables_)
    for (const Part& part : table.parts) {
      ++seen.parts;
      seen.rated += part.looks > 1;
      seen.current += part.current;
      for (const SourceRate& one : part.sources) {
        SourceRate& sum = sources.try_emplace(one.address, SourceRate{one.address}).first->second;
        sum.flows += one.flows;
        sum.packets_s += one.packets_s;
        sum.bytes_s += one.bytes_s;
      }
    }
  for (auto& [address, sum] : sources) seen.sources.push_back(std::move(sum));
  keep_busiest(seen.sources, kShown);
  return seen;
}

}  // namespace xdpgpu::report
