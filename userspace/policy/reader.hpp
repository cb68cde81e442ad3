// SPDX-License-Identifier: MIT
//
// userspace/policy/reader.hpp: typed reading of a document, collecting problems instead of stopping.
//
// Each getter returns nothing where the value is wrong, having reported it; the caller just goes on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/policy/document.hpp"
#include "userspace/policy/policy.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::policy {

// A value and the way to it from the document's root. `up` must outlive it.
struct Place {
  const Node* node;
  const Place* up = nullptr;
  std::string_view key = {};  // in an object
  u32 index = 0;              // in an array, where key is empty
  bool element = false;

  std::string pointer() const;
};

// The member of an object; the object itself where it has none. `object` must outlive it.
Place member_of(const Place& object, std::string_view key);

// The problems of one document, in the order found; keeps kMaxDiagnostics, none longer than a screen, and
// counts the rest.
class Report {
 public:
  Report(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}
  void at(const Place& place, std::string message);
  void at_offset(std::string pointer, u64 offset, std::string message);
  void in_list(std::string file, const Place& named_at, u32 line, u32 column, std::string message);
  Location where(const Place& place) const { return locate(text_, place.node->offset); }
  bool full() const { return found_.size() >= kMaxDiagnostics; }
  // Counts a problem without wording it; for use when full().
  void skip() { ++skipped_; }
  // There are too many to go on reading.
  bool exhausted() const { return skipped_ >= kMaxCounted; }
  bool empty() const { return found_.empty(); }
  Diagnostics take();

 private:
  void add(Diagnostic d);
  std::string_view text_;
  std::string file_;
  Diagnostics found_;
  u64 skipped_ = 0;
};

// The members of an object, of which only `known` keys are allowed.
class Fields {
 public:
  Fields(Report& report, const Place& object, Words known, std::string_view what);
  bool is_object() const { return members_ != nullptr; }
  std::optional<Place> get(std::string_view key) const;
  // Reports its absence.
  std::optional<Place> require(std::string_view key) const;

 private:
  Report& report_;
  const Place& object_;
  std::string_view what_;
  const Object* members_ = nullptr;
};

std::optional<std::string> read_string(Report& report, const Place& place, u64 max_length);
// An object's "description", which may be empty and have any text up to 4,096 bytes; empty where it has none.
std::string read_description(Report& report, const Place& object);
std::optional<bool> read_bool(Report& report, const Place& place);
std::optional<u64> read_integer(Report& report, const Place& place, u64 least, u64 most);
// A MAC address of one interface.
std::optional<std::array<u8, 6>> read_mac_at(Report& report, const Place& place);
// An interface's name; empty where it cannot be one.
std::string read_interface(Report& report, const Place& place);
// A duration in nanoseconds. example: one that would do here, like "2ms".
std::optional<u64> read_time(Report& report, const Place& place, std::string_view example);
// A number of bytes: an integer, or a string like "64KB".
std::optional<u64> read_size(Report& report, const Place& place, u64 least, u64 most);
// A stage's "cache", in milliseconds, 0: as long as the policy; nothing: its verdicts are not cached.
std::optional<u32> read_cache(Report& report, const Fields& fields);
// The place of the value among `words`.
std::optional<u32> read_word(Report& report, const Place& place, Words words);
// A name of letters, digits, '_', '-' and '.', at most 64 (lists, pipelines).
bool is_identifier(std::string_view name);

// A file that the policy names; nullptr where what is in it is not asked now (FileReader).
struct NamedFile {
  std::string path;
  FileText text;
};
// Reads the one that is named at a place; nothing where that fails, having reported it.
using NamedFileReader = std::function<std::optional<NamedFile>(const Place&)>;
// Reads the one that is named at a place, or those that the pattern there stands for; none where that fails,
// having reported it.
using NamedFilesReader = std::function<std::vector<NamedFile>(const Place&)>;

// Reads one by its path: a file that a file names. The error is a sentence.
using PathReader = std::function<FileReader::Text(const std::string&)>;

// Reads a program of the object that is named at a place (FileReader::program()); nothing where that fails,
// having reported it.
using NamedProgramReader = std::function<std::optional<FileText>(const Place& object, const std::string& path,
                                                                 const programs::Choice& which)>;

// Calls `each` for every element of an array, which must not be empty, or for the value itself.
template <class F>
void one_or_more(Report& report, const Place& place, F&& each) {
  const auto* items = place.node->as<Array>();
  if (items == nullptr) return each(place);
  if (items->empty())
    report.at(place, "this array is empty, so nothing could match; leave the key out or fill it");
  for (u32 i = 0; i < items->size() && !report.exhausted(); ++i)
    each(Place{&(*items)[i], &place, {}, i, true});
}
// Calls `each` for every element of what must be an array.
template <class F>
void each_element(Report& report, const Place& place, F&& each) {
  const auto* items = place.node->as<Array>();
  if (items == nullptr)
    return report.at(place, std::string("must be an array, is ") + place.node->type_name());
  for (u32 i = 0; i < items->size() && !report.exhausted(); ++i)
    each(Place{&(*items)[i], &place, {}, i, true});
}

}  // namespace xdpgpu::policy
