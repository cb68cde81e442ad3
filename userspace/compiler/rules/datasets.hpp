// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/datasets.hpp: sets of strings that rules ask for by name (Suricata's keyword
// `dataset`), and the files that these are loaded from.
//
//   alert dns any any -> any any (dns.query; dataset:isset,bad,type string,load bad.lst; sid:1;)
//
// A set has a name in letters of either case, for all rule files together. The first rule that names it says
// its type, and where its strings are: those behind it may leave that out, and say nothing else. A file has a
// string a line, in base64 (RFC 4648); behind a comma a number up to 65535 may stand, which is for another
// keyword. What Suricata 7.0.10 would read as something that the file does not say is an error: a line of
// more than 1,022 bytes, a last line without an end, two letters that lack their padding.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "gpu/signatures.hpp"
#include "userspace/compiler/rules/text.hpp"

namespace xdpgpu::rules {

struct Dataset {
  enum class Do : u8 { is_set, is_not_set, set, unset } what = Do::is_set;
  std::string name;
  std::string type;        // "string", "md5", "sha256", "ipv4", "ipv6" or "ip"; empty: unsaid
  std::string load, save;  // paths as they are written; of "state" it is both

  // What load_rules() finds for it: whose strings they are, where that is to be known; and what stands in the
  // way of that, as a sentence's end.
  std::string file{};  // that they are loaded from
  std::shared_ptr<const gpu::signatures::StringSet> strings{};
  std::string changed_by{};
};
Result<Dataset> parse_dataset(std::string_view text);

// A file that a rule file names has its path from there.
std::string beside(const std::string& rule_file, const std::string& path);
// What the rules of a file load their sets from, those too that are commented out: each path once, by
// beside().
std::vector<std::string> dataset_paths(std::string_view content, const std::string& file);

// A file's content by its path. The error is a sentence.
using ReadFile =
    std::function<tl::expected<std::shared_ptr<const std::string>, std::string>(const std::string&)>;

// The error names the line, by `file`, and has nothing of what stands there.
Result<gpu::signatures::StringSet> parse_strings(std::string name, std::string_view content,
                                                 const std::string& file);

// The sets that the rules of some files name, in the rules' order.
class Datasets {
 public:
  // read: nothing: no file is read, and no set has its strings.
  explicit Datasets(ReadFile read) : read_(std::move(read)) {}
  // Gives what a rule names what is known of it. The error is a sentence.
  Result<void> take(const Place& rule, Dataset& one);

 private:
  struct Known {
    Place place;
    Dataset dataset;
  };
  using Strings = std::shared_ptr<const gpu::signatures::StringSet>;
  Result<Strings> read(const std::string& name, const std::string& file);
  ReadFile read_;
  std::map<std::string, Known, std::less<>> known_;  // by name
  std::map<std::string, std::string> wrong_;         // files that are: why
};

}  // namespace xdpgpu::rules
