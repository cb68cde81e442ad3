// SPDX-License-Identifier: MIT
#include "gpu/reference/dns_message.hpp"

#include <algorithm>
#include <optional>

#include "gpu/signatures.hpp"

namespace xdpgpu::gpu::reference {
namespace {

constexpr std::size_t kHeader = 12, kRecordAtLeast = 2;

enum class End : u8 {
  well,
  cut,    // bytes are missing
  wrong,  // bytes contradict each other
};

// Goes through a part of a message: to the end of all of it, or of a record's data. All that it is asked for
// moves its place, unless it does not end well.
class Reader {
 public:
  Reader(std::span<const u8> message, std::size_t begin, std::size_t end, u64& steps)
      : message_(message), at_(begin), end_(end), steps_(&steps) {}
  // From here on what it takes is added there.
  void count_in(u64& steps) { steps_ = &steps; }
  std::size_t at() const { return at_; }
  bool is_done() const { return at_ == end_; }

  End skip(std::size_t bytes) {
    if (bytes > end_ - at_) return End::cut;
    at_ += bytes;
    return End::well;
  }
  End number(u32& value) {
    if (skip(2) != End::well) return End::cut;
    value = u32{message_[at_ - 2]} << 8 | message_[at_ - 1];
    return End::well;
  }
  // A byte with a length, and as many bytes.
  End string() {
    if (is_done()) return End::cut;
    return skip(std::size_t{1} + message_[at_]);
  }

  // text: empty.
  End name(std::string& text) {
    using signatures::kMostLabels, signatures::kMostName;
    // Where it goes on, and where what it is in ends; behind a pointer that is the message's.
    std::size_t at = at_, end = end_;
    std::optional<std::size_t> behind;  // the first pointer
    bool cut = false;
    for (u32 count = 1; at < end; count++) {
      ++*steps_;
      const u8 length = message_[at];
      if (length == 0) {
        at++;
        break;
      }
      if (length < 64) {
        if (length >= end - at) return End::cut;
        if (!cut) {
          if (!text.empty()) text += '.';
          text.append(message_.begin() + at + 1, message_.begin() + at + 1 + length);
        }
        at += std::size_t{1} + length;
      } else if (length >= 192) {
        if (end - at < 2) return End::cut;
        const std::size_t to = (length & 63u) << 8 | message_[at + 1];
        if (to > message_.size()) return End::wrong;
        if (is_same(at, end, to)) {
          if (!behind) return End::wrong;
          break;
        }
        if (!behind) behind = at + 2;
        at = to;
        end = message_.size();
      } else {
        return End::wrong;
      }
      if (count > kMostLabels) {
        if (!behind) return End::wrong;
        break;
      }
      if (text.size() > kMostName) {
        text.resize(kMostName);
        cut = true;
        if (behind) break;
      }
    }
    at_ = behind.value_or(at);
    return End::well;
  }

  // Answers or authorities.
  End records(u32 count) {
    for (; count > 0; count--) {
      std::string owner;
      u32 type = 0, length = 0;
      if (const End end = name(owner); end != End::well) return end;
      if (number(type) != End::well || skip(2 + 4) != End::well || number(length) != End::well)
        return End::cut;
      const std::size_t begin = at_;
      if (skip(length) != End::well) return End::cut;
      if (!Reader(message_, begin, at_, *steps_).data(type)) return End::wrong;
    }
    return End::well;
  }

 private:
  // Whether a pointer at `at` is one to itself: what stands there is the same, up to the end.
  bool is_same(std::size_t at, std::size_t end, std::size_t to) const {
    const auto here = message_.subspan(at, end - at), there = message_.subspan(to);
    if (at != to && here.size() == there.size()) *steps_ += here.size() / 16;
    return std::equal(here.begin(), here.end(), there.begin(), there.end());
  }

  // A record's. False where it is empty, or not as its type has it; what stands behind that is not looked at.
  bool data(u32 type) {
    const std::size_t begin = at_;
    const auto has_names = [&](u32 count) {
      for (; count > 0; count--)
        if (std::string text; name(text) != End::well) return false;
      return true;
    };
    const auto takes = [&](std::size_t bytes) { return skip(bytes) == End::well; };
    const auto is_whole = [&] {
      switch (type) {
        case 2:   // NS
        case 5:   // CNAME
        case 12:  // PTR
          return has_names(1);
        case 6:  // SOA
          return has_names(2) && takes(5 * 4);
        case 15:  // MX
          return takes(2) && has_names(1);
        case 16:  // TXT
          return string() == End::well;
        case 33:  // SRV
          return takes(3 * 2) && has_names(1);
        case 44:  // SSHFP
          return takes(2);
        default:
          at_ = end_;
          return true;
      }
    };
    return is_whole() && at_ != begin;
  }

  std::span<const u8> message_;
  std::size_t at_, end_;
  u64* steps_;
};

}  // namespace

DnsMessage::DnsMessage(std::span<const u8> message) {
  if (message.size() < kHeader) return;
  Reader reader(message, 0, message.size(), question_steps);
  u32 id = 0, flags = 0, questions = 0, answers = 0, authorities = 0, additional = 0;
  for (u32* const number : {&id, &flags, &questions, &answers, &authorities, &additional})
    (void)reader.number(*number);
  const std::size_t records = std::size_t{questions} + answers + authorities + additional;
  if (records * kRecordAtLeast + kHeader > message.size()) return;
  is_answer = (flags & 0x8000) != 0;
  operation = flags >> 11 & 15;
  bool all_named = true;
  End end = End::well;
  for (u32 i = 0; i < questions && end == End::well; i++) {
    std::string name;
    u32 number = 0;
    end = reader.name(name);
    if (end == End::well && (reader.number(number) != End::well || reader.number(number) != End::well))
      end = End::cut;
    all_named = all_named && !name.empty() && names.size() < signatures::kMostQuestions;
    if (all_named) names.push_back(std::move(name));
  }
  is_dns = end != End::wrong;
  is_read = end == End::well;
  reader.count_in(record_steps);
  if (is_read && is_answer)
    is_read = reader.records(answers) == End::well && reader.records(authorities) == End::well;
  if (!is_read || is_answer) names.clear();
}

}  // namespace xdpgpu::gpu::reference
