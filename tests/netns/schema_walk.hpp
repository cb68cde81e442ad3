// SPDX-License-Identifier: MIT
//
// tests/netns/schema_walk.hpp: what a JSON schema offers, and what of that a document uses: for telling which
// keys, words and forms no test has tried. As much of JSON Schema as config/policy.schema.json has.
//
// Both are told in the same words: "rule.priority" is a key of the definition "rule" (".default" one of the
// document's own), "acl.default=next" a word or truth value that it may have, "match.dst_port as string" one
// of several types that it may have, "duration has ms" one of the words that a pattern lists.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

namespace xdpgpu::lab {

std::set<std::string> schema_offers(const nlohmann::json& schema);
// Nothing where the document is wrong by the schema; then `why` has the first reason found.
std::optional<std::set<std::string>> schema_uses(const nlohmann::json& schema, const nlohmann::json& document,
                                                 std::string& why);

}  // namespace xdpgpu::lab
