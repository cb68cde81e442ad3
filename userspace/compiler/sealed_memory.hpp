// SPDX-License-Identifier: MIT
//
// userspace/compiler/sealed_memory.hpp: memory that one process fills, seals, and hands to another one, which
// can rely on it: nobody changes, shortens or lengthens it any more (memfd_create(2), F_SEAL_*).
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <vector>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::compiler {

template <class T>
using Result = tl::expected<T, std::string>;

// Writes from the first byte on. An error is kept, and told in the end.
class MemoryWriter {
 public:
  explicit MemoryWriter(const char* name);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  template <class T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    write(std::as_bytes(std::span(&value, 1)));
  }
  // With their number in front.
  template <class T>
  void array(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    value(u64{values.size()});
    write(std::as_bytes(std::span(values)));
  }
  void text(std::string_view text) {
    value(u64{text.size()});
    write(text);
  }
  // Nothing can be written any more.
  Result<kernel::Fd> seal();

 private:
  kernel::Fd memory_;
  std::string error_;
};

// What was written, mapped for reading. Refuses memory that is not sealed, and more than `most` bytes of it.
class SealedMemory {
 public:
  static Result<SealedMemory> map(const kernel::Fd& memory, u64 most);
  ~SealedMemory();
  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&& other) noexcept;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit SealedMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

// Reads what a MemoryWriter wrote. Whatever stands there, nothing outside of it is read: where there is not
// as much as was asked for, all that is read from there on is empty, and ok() is false.
class MemoryReader {
 public:
  explicit MemoryReader(std::span<const std::byte> bytes) : left_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return left_.empty(); }

  template <class T>
  T value() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (const auto bytes = take(sizeof(T)); bytes.size() == sizeof(T))
      std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
    return value;
  }
  template <class T>
  std::vector<T> array() {
    static_assert(std::is_trivially_copyable_v<T>);
    const u64 count = value<u64>();
    if (count > left_.size() / sizeof(T)) return fail(), std::vector<T>{};
    const auto bytes = take(count * sizeof(T));
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
    return values;
  }
  std::string_view text();
  std::span<const std::byte> take(u64 bytes);

 private:
  void fail() { ok_ = false, left_ = {}; }
  std::span<const std::byte> left_;
  bool ok_ = true;
};

// Reads so many, each by `read`; fewer where there is no more.
template <class Read>
void each(MemoryReader& from, Read read) {
  constexpr u64 kMostEntries = 1u << 20;  // of anything that is named one by one
  const u64 count = from.value<u64>();
  for (u64 i = 0; i < count && i < kMostEntries && from.ok(); i++) read();
}

// A choice, of which `last` is the last one; another number is the first one.
template <class Choice>
Choice one_of(MemoryReader& from, Choice last) {
  const u32 number = from.value<u32>();
  return number <= static_cast<u32>(last) ? static_cast<Choice>(number) : Choice{};
}

}  // namespace xdpgpu::compiler
