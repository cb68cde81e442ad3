// SPDX-License-Identifier: MIT
#include "userspace/policy/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u32 kMaxValues = 2'000'000;  // bounds the tree's memory
constexpr u64 kMaxKeys = 8192;         // of an object: none has room for half of them
constexpr u64 kFewKeys = 16;
constexpr int kOutOfRange = 406;  // nlohmann's number for a number that no double holds

// Tells how far the parser has read.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    auto old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::string_view text) : text_(text), reached_(text.data()) {}

  bool run() {
    const char* end = text_.data() + text_.size();
    return nlohmann::json::sax_parse(CountingIterator(text_.data(), &reached_),
                                     CountingIterator(end, &reached_), this);
  }
  Node root;
  std::vector<SyntaxError> errors;

  bool null() override { return scalar(nullptr); }
  bool boolean(bool v) override { return scalar(v); }
  bool number_integer(number_integer_t v) override { return scalar(i64{v}); }
  bool number_unsigned(number_unsigned_t v) override { return scalar(u64{v}); }
  bool number_float(number_float_t v, const string_t&) override { return scalar(v); }
  bool string(string_t& v) override { return scalar(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Object{}); }
  bool start_array(std::size_t) override { return open(Array{}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    Level& level = levels_.back();
    u32 offset = token_start();
    auto& members = std::get<Object>(level.node->value);
    if (members.size() >= kMaxKeys) {
      errors.push_back({offset, pointer(levels_.size() - 1),
                        fmt::format("this object has more than {} keys, and none has room for so many; put "
                                    "long lists into files",
                                    kMaxKeys)});
      return false;
    }
    if (!is_new(level, members, key) && errors.size() < kMaxDiagnostics)
      errors.push_back({offset, pointer(levels_.size() - 1) + pointer_token(key),
                        fmt::format("the key \"{}\" appears twice in this object; keep one", key)});
    members.push_back({std::move(key), offset, {}});
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    if (e.id == kOutOfRange) return fail(token_start(), "the number that stands here is too large");
    std::string_view what = e.what();
    if (auto at = what.find(", column "); at != what.npos)
      if (auto colon = what.find(": ", at); colon != what.npos) what.remove_prefix(colon + 2);
    if (auto at = what.find("] "); what.starts_with("[json") && at != what.npos) what.remove_prefix(at + 2);
    return fail(position > 0 ? position - 1 : 0, fmt::format("this is not JSON: {}", what));
  }

 private:
  struct Level {
    Node* node;
    std::set<std::string> keys;  // of more than kFewKeys members; nobody can make them collide
  };

  static bool is_new(Level& level, const Object& members, const std::string& key) {
    if (members.size() < kFewKeys)
      return std::none_of(members.begin(), members.end(), [&](const Member& one) { return one.key == key; });
    if (level.keys.empty())
      for (const Member& one : members) level.keys.insert(one.key);
    return level.keys.insert(key).second;
  }

  // Between the previous token's end and this one's start stand only blanks, commas and colons.
  u32 token_start() {
    u64 at = previous_end_;
    while (at < text_.size() && std::string_view(" \t\r\n,:").find(text_[at]) != std::string_view::npos) ++at;
    if (at == 0 && text_.starts_with("\xef\xbb\xbf")) at = 3;
    previous_end_ = static_cast<u64>(reached_ - text_.data());
    return static_cast<u32>(at);
  }
  template <class T>
  Node* place(T&& value, u32 offset) {
    Node* slot = &root;
    if (!levels_.empty()) {
      auto& into = levels_.back().node->value;
      if (auto* array = std::get_if<Array>(&into))
        slot = &array->emplace_back();
      else
        slot = &std::get<Object>(into).back().value;
    }
    slot->value = std::forward<T>(value);
    slot->offset = offset;
    return slot;
  }
  template <class T>
  bool scalar(T&& value) {
    u32 offset = token_start();
    if (++values_ > kMaxValues)
      return fail(offset,
                  fmt::format("the document has more than {} values; put long lists into files", kMaxValues));
    place(std::forward<T>(value), offset);
    return true;
  }
  template <class T>
  bool open(T&& container) {
    u32 offset = token_start();
    if (levels_.size() >= kMaxNesting)
      return fail(offset, fmt::format("objects and arrays are nested deeper than {} levels", kMaxNesting));
    if (++values_ > kMaxValues)
      return fail(offset,
                  fmt::format("the document has more than {} values; put long lists into files", kMaxValues));
    levels_.push_back({place(std::forward<T>(container), offset), {}});
    return true;
  }
  bool close() {
    token_start();
    levels_.pop_back();
    return true;
  }
  bool fail(u64 offset, std::string message) {
    errors.push_back({offset, pointer(levels_.size()), std::move(message)});
    return false;
  }
  // Where the parser is, as the last member or element of the first `depth` open containers.
  std::string pointer(u64 depth) const {
    std::string path;
    for (u64 i = 0; i < depth; ++i) path += inner(*levels_[i].node);
    return path;
  }
  static std::string inner(const Node& node) {
    if (const auto* members = node.as<Object>())
      return members->empty() ? "" : pointer_token(members->back().key);
    const auto& items = *node.as<Array>();
    return items.empty() ? "" : fmt::format("/{}", items.size() - 1);
  }

  std::string_view text_;
  const char* reached_;
  u64 previous_end_ = 0;
  u32 values_ = 0;
  std::vector<Level> levels_;
};

}  // namespace

const char* Node::type_name() const {
  switch (value.index()) {
    case 0:
      return "null";
    case 1:
      return "true or false";
    case 2:
    case 3:
    case 4:
      return "a number";
    case 5:
      return "a string";
    case 6:
      return "an array";
    default:
      return "an object";
  }
}

Location locate(std::string_view text, u64 offset) {
  text = text.substr(0, offset);
  const std::string_view line = text.substr(text.rfind('\n') + 1);
  const auto begins = [](char c) { return (static_cast<u8>(c) & 0xc0) != 0x80; };
  return {1 + static_cast<u32>(std::count(text.begin(), text.end(), '\n')),
          1 + static_cast<u32>(std::count_if(line.begin(), line.end(), begins))};
}

std::string pointer_token(std::string_view key) {
  std::string token = "/";
  for (char c : key) {
    if (c == '~')
      token += "~0";
    else if (c == '/')
      token += "~1";
    else
      token += c;
  }
  return token;
}

tl::expected<Node, std::vector<SyntaxError>> read_document(std::string_view text) {
  if (text.size() > kMaxTextBytes)
    return tl::unexpected(std::vector<SyntaxError>{
        {0, "",
         fmt::format("the text has {} bytes, at most {} are read; put long lists into files", text.size(),
                     kMaxTextBytes)}});
  // nlohmann's parser takes one for the text's end.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos)
    return tl::unexpected(std::vector<SyntaxError>{
        {zero, "", "this is not JSON: a zero byte stands here; a policy is text in UTF-8"}});
  Builder builder(text);
  if (!builder.run() || !builder.errors.empty()) return tl::unexpected(std::move(builder.errors));
  return std::move(builder.root);
}

}  // namespace xdpgpu::policy
