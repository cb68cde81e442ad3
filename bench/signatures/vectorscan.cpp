// SPDX-License-Identifier: MIT
#include "bench/signatures/vectorscan.hpp"

#include <fmt/format.h>
#include <hs.h>

#include <algorithm>

namespace xdpgpu::bench {
namespace {

struct FreeDatabase {
  void operator()(hs_database_t* database) const { hs_free_database(database); }
};
using Database = std::unique_ptr<hs_database_t, FreeDatabase>;
struct FreeScratch {
  void operator()(hs_scratch_t* scratch) const { hs_free_scratch(scratch); }
};
using Scratch = std::unique_ptr<hs_scratch_t, FreeScratch>;

class HsSearcher final : public Searcher {
 public:
  HsSearcher(const hs_database_t* database, Scratch scratch)
      : database_(database), scratch_(std::move(scratch)) {}

  u64 count(std::span<const u8> payload) noexcept override {
    u64 found = 0;
    const auto note = [](unsigned, unsigned long long, unsigned long long, unsigned, void* to) {
      ++*static_cast<u64*>(to);
      return 0;
    };
    return scan(payload, note, &found) ? found : ~u64{0};
  }

  std::vector<u32> all_in(std::span<const u8> payload) override {
    std::vector<u32> found;
    const auto note = [](unsigned number, unsigned long long, unsigned long long, unsigned, void* to) {
      static_cast<std::vector<u32>*>(to)->push_back(number);
      return 0;
    };
    if (!scan(payload, note, &found)) return {~u32{0}};
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  bool scan(std::span<const u8> payload, match_event_handler note, void* to) const noexcept {
    return hs_scan(database_, reinterpret_cast<const char*>(payload.data()),
                   static_cast<unsigned>(payload.size()), 0, scratch_.get(), note, to) == HS_SUCCESS;
  }

  const hs_database_t* database_;
  Scratch scratch_;
};

class HsDatabase final : public Vectorscan {
 public:
  explicit HsDatabase(Database database) : database_(std::move(database)) {}
  u64 bytes() const override {
    std::size_t size = 0;
    return hs_database_size(database_.get(), &size) == HS_SUCCESS ? size : 0;
  }
  std::string version() const override { return hs_version(); }
  gpu::Result<std::unique_ptr<Searcher>> searcher() const override {
    hs_scratch_t* scratch = nullptr;
    if (const hs_error_t error = hs_alloc_scratch(database_.get(), &scratch); error != HS_SUCCESS)
      return tl::unexpected(fmt::format("Vectorscan gives no scratch memory: error {}", error));
    return std::make_unique<HsSearcher>(database_.get(), Scratch(scratch));
  }

 private:
  Database database_;
};

}  // namespace

gpu::Result<std::unique_ptr<Vectorscan>> Vectorscan::compile(const std::vector<SearchedPattern>& patterns) {
  // As expressions of nothing but bytes, as Suricata has them: literals cannot begin with a zero.
  std::vector<std::string> expressions;
  for (const SearchedPattern& pattern : patterns) {
    std::string& text = expressions.emplace_back();
    for (const char c : pattern.bytes) text += fmt::format("\\x{:02x}", static_cast<u8>(c));
  }
  std::vector<const char*> texts;
  std::vector<unsigned> flags, numbers;
  for (const SearchedPattern& pattern : patterns) {
    texts.push_back(expressions[texts.size()].c_str());
    flags.push_back(HS_FLAG_SINGLEMATCH | (pattern.nocase ? HS_FLAG_CASELESS : 0u));
    numbers.push_back(static_cast<unsigned>(numbers.size()));
  }
  hs_database_t* database = nullptr;
  hs_compile_error_t* wrong = nullptr;
  const hs_error_t error =
      hs_compile_multi(texts.data(), flags.data(), numbers.data(), static_cast<unsigned>(texts.size()),
                       HS_MODE_BLOCK, nullptr, &database, &wrong);
  Database made(database);
  if (error == HS_SUCCESS) return std::make_unique<HsDatabase>(std::move(made));
  std::string why = wrong == nullptr ? fmt::format("error {}", error) : std::string(wrong->message);
  hs_free_compile_error(wrong);
  return tl::unexpected("Vectorscan does not compile these patterns: " + why);
}

}  // namespace xdpgpu::bench
