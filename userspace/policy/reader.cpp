// SPDX-License-Identifier: MIT
#include "userspace/policy/reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {

namespace {

constexpr u64 kLongestMessage = 1024;
constexpr u64 kLongestPointer = 512;

// The bytes of the UTF-8 character at the text's beginning; 0 where there is none, or one that a terminal
// would act upon instead of showing it.
u64 shown_character(std::string_view text) {
  const auto byte = [&](u64 at) { return at < text.size() ? static_cast<u8>(text[at]) : 0u; };
  const auto follows = [&](u64 at) { return (byte(at) & 0xc0) == 0x80; };
  const u32 first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  if (first < 0xc2 || first > 0xf4) return 0;
  const u64 length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (u64 at = 1; at < length; ++at)
    if (!follows(at)) return 0;
  if (first == 0xc2 && byte(1) < 0xa0) return 0;  // C1 controls
  // Marks that turn the direction of writing around: U+200E, 200F, 202A to 202E, 2066 to 2069.
  if (first == 0xe2 && byte(1) == 0x80 && (byte(2) == 0x8e || byte(2) == 0x8f)) return 0;
  if (first == 0xe2 && byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae) return 0;
  if (first == 0xe2 && byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9) return 0;
  return length;
}

// What the text brings must not play tricks on the terminal, nor fill it: of a long one the middle is left
// out.
std::string for_the_eye(std::string_view text, u64 most) {
  std::string shown;
  const auto take = [&](std::string_view part) {
    for (u64 at = 0; at < part.size();) {
      const u64 length = shown_character(part.substr(at));
      if (length == 0)
        shown += '?';
      else
        shown += part.substr(at, length);
      at += std::max<u64>(length, 1);
    }
  };
  if (text.size() <= most) {
    take(text);
    return shown;
  }
  take(text.substr(0, most / 2));
  shown += "[...]";
  take(text.substr(text.size() - most / 2));
  return shown;
}

}  // namespace

std::string Diagnostic::sentence() const {
  std::string text = file;
  if (line != 0) text += fmt::format("{}{}:{}", text.empty() ? "" : ":", line, column);
  if (!text.empty()) text += ": ";
  if (!pointer.empty()) text += pointer + ": ";
  return text + message;
}

Place member_of(const Place& object, std::string_view key) {
  if (const auto* const members = object.node->as<Object>())
    for (const Member& one : *members)
      if (one.key == key) return Place{&one.value, &object, one.key};
  return object;
}

std::string Place::pointer() const {
  if (up == nullptr) return {};
  return up->pointer() + (element ? fmt::format("/{}", index) : pointer_token(key));
}

void Report::add(Diagnostic d) {
  if (full()) return skip();
  d.message = for_the_eye(d.message, kLongestMessage);
  d.pointer = for_the_eye(d.pointer, kLongestPointer);
  found_.push_back(std::move(d));
}

void Report::at(const Place& place, std::string message) {
  if (full()) return skip();
  at_offset(place.pointer(), place.node->offset, std::move(message));
}

void Report::at_offset(std::string pointer, u64 offset, std::string message) {
  if (full()) return skip();
  Location where = locate(text_, offset);
  add({file_, std::move(pointer), where.line, where.column, std::move(message)});
}

void Report::in_list(std::string file, const Place& named_at, u32 line, u32 column, std::string message) {
  add({std::move(file), named_at.pointer(), line, column, std::move(message)});
}

Diagnostics Report::take() {
  if (skipped_ != 0)
    found_.push_back({file_, "", 0, 0,
                      fmt::format("and {}{} more problem{}", exhausted() ? "at least " : "", skipped_,
                                  skipped_ == 1 ? "" : "s")});
  return std::move(found_);
}

Fields::Fields(Report& report, const Place& object, Words known, std::string_view what)
    : report_(report), object_(object), what_(what), members_(object.node->as<Object>()) {
  if (members_ == nullptr) {
    report.at(object, fmt::format("{} must be an object, is {}", what, object.node->type_name()));
    return;
  }
  for (const auto& member : *members_) {
    if (find_word(known, member.key)) continue;
    if (report.exhausted()) return;
    if (report.full())
      report.skip();
    else
      report.at_offset(
          object.pointer() + pointer_token(member.key), member.key_offset,
          fmt::format("unknown key \"{}\" in {}{}", member.key, what, suggestion(known, member.key)));
  }
}

std::optional<Place> Fields::get(std::string_view key) const {
  if (members_ == nullptr) return std::nullopt;
  auto at = std::find_if(members_->begin(), members_->end(), [&](const Member& m) { return m.key == key; });
  if (at == members_->end()) return std::nullopt;
  return Place{&at->value, &object_, at->key};
}

std::optional<Place> Fields::require(std::string_view key) const {
  auto found = get(key);
  if (!found && members_ != nullptr) report_.at(object_, fmt::format("{} needs the key \"{}\"", what_, key));
  return found;
}

std::optional<std::string> read_string(Report& report, const Place& place, u64 max_length) {
  const auto* text = place.node->as<std::string>();
  if (text == nullptr) {
    report.at(place, fmt::format("must be a string, is {}", place.node->type_name()));
  } else if (text->empty() || text->size() > max_length) {
    report.at(place, text->empty() ? std::string("must not be empty")
                                   : fmt::format("is longer than {} bytes", max_length));
  } else if (std::any_of(text->begin(), text->end(),
                         [](char c) { return static_cast<u8>(c) < 0x20 || c == 0x7f; })) {
    report.at(place, "must not contain control characters");
  } else {
    return *text;
  }
  return std::nullopt;
}

std::string read_description(Report& report, const Place& object) {
  constexpr u64 kMaxBytes = 4096;
  const auto* members = object.node->as<Object>();
  if (members == nullptr) return {};
  const auto at = std::find_if(members->begin(), members->end(),
                               [](const Member& member) { return member.key == "description"; });
  if (at == members->end()) return {};
  const Place place{&at->value, &object, at->key};
  const auto* text = at->value.as<std::string>();
  if (text != nullptr && text->size() <= kMaxBytes) return *text;
  report.at(place, text == nullptr ? fmt::format("must be a string, is {}", at->value.type_name())
                                   : fmt::format("is longer than {} bytes", kMaxBytes));
  return {};
}

std::optional<bool> read_bool(Report& report, const Place& place) {
  if (const auto* value = place.node->as<bool>()) return *value;
  report.at(place, fmt::format("must be true or false, is {}", place.node->type_name()));
  return std::nullopt;
}

std::optional<u64> read_integer(Report& report, const Place& place, u64 least, u64 most) {
  const auto* value = place.node->as<u64>();
  bool number = value != nullptr || place.node->as<i64>() != nullptr || place.node->as<double>() != nullptr;
  if (value != nullptr && *value >= least && *value <= most) return *value;
  report.at(place, number ? fmt::format("must be a whole number from {} to {}", least, most)
                          : fmt::format("must be a whole number from {} to {}, is {}", least, most,
                                        place.node->type_name()));
  return std::nullopt;
}

std::optional<std::array<u8, 6>> read_mac_at(Report& report, const Place& place) {
  const auto* text = place.node->as<std::string>();
  if (text == nullptr) {
    report.at(place, fmt::format("must be a MAC address as a string, is {}", place.node->type_name()));
    return std::nullopt;
  }
  const auto value = read_mac(*text);
  if (value) return *value;
  report.at(place, value.error());
  return std::nullopt;
}

std::string read_interface(Report& report, const Place& place) {
  auto name = read_string(report, place, 4096);
  if (!name) return {};
  if (is_interface_name(*name)) return *name;
  report.at(place,
            fmt::format("\"{}\" cannot be an interface's name (1 to 15 characters, no blanks, '/' or ':')",
                        name->substr(0, 80)));
  return {};
}

std::optional<u64> read_time(Report& report, const Place& place, std::string_view example) {
  const auto* text = place.node->as<std::string>();
  if (text == nullptr) {
    report.at(place, fmt::format("must be a duration like \"{}\", is {}", example, place.node->type_name()));
    return std::nullopt;
  }
  const auto ns = read_duration(*text);
  if (ns) return *ns;
  report.at(place, ns.error());
  return std::nullopt;
}

std::optional<u64> read_size(Report& report, const Place& place, u64 least, u64 most) {
  const auto wrong = [&](std::string_view is) {
    report.at(place, fmt::format("must be a whole number of bytes from {} to {}, alone or as a string like "
                                 "\"64KB\"{}",
                                 write_bytes(least), write_bytes(most), is));
    return std::nullopt;
  };
  std::optional<u64> bytes;
  if (const auto* text = place.node->as<std::string>()) {
    const auto read = read_bytes(*text);
    if (!read) {
      report.at(place, read.error());
      return std::nullopt;
    }
    bytes = *read;
  } else if (const auto* number = place.node->as<u64>()) {
    bytes = *number;
  } else if (place.node->as<i64>() == nullptr && place.node->as<double>() == nullptr) {
    return wrong(fmt::format(", is {}", place.node->type_name()));
  }
  return bytes && *bytes >= least && *bytes <= most ? bytes : wrong("");
}

std::optional<u32> read_cache(Report& report, const Fields& fields) {
  constexpr u64 kMaxCacheMs = 7ull * 24 * 3600 * 1000;
  auto place = fields.get("cache");
  if (!place) return std::nullopt;
  if (const auto* flag = place->node->as<bool>()) return *flag ? std::optional<u32>(0) : std::nullopt;
  const auto* text = place->node->as<std::string>();
  if (text == nullptr) {
    report.at(*place,
              fmt::format("must be true, false or a duration like \"60s\", is {}", place->node->type_name()));
    return std::nullopt;
  }
  auto ns = read_duration(*text);
  if (!ns) {
    report.at(*place, ns.error());
  } else if (*ns < kNsPerMs || *ns % kNsPerMs != 0 || *ns / kNsPerMs > kMaxCacheMs) {
    report.at(*place,
              "verdicts are cached for whole milliseconds, from 1ms to 168h; true keeps them until the next "
              "policy");
  } else {
    return static_cast<u32>(*ns / kNsPerMs);
  }
  return std::nullopt;
}

std::optional<u32> read_word(Report& report, const Place& place, Words words) {
  const auto* text = place.node->as<std::string>();
  if (text == nullptr) {
    report.at(place, fmt::format("must be {}, is {}", quoted_list(words), place.node->type_name()));
    return std::nullopt;
  }
  auto found = find_word(words, *text);
  if (!found && report.full()) {
    report.skip();
  } else if (!found) {
    auto near = nearest(words, *text);
    report.at(place, fmt::format("\"{}\" is not known here; it must be {}{}", *text, quoted_list(words),
                                 near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near)));
  }
  return found;
}

bool is_identifier(std::string_view name) {
  auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), fits);
}

}  // namespace xdpgpu::policy
