// SPDX-License-Identifier: MIT
//
// tests/stages/requests_by_hand.hpp: rules on requests by HTTP.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/stages/streams_by_hand.hpp"

namespace xdpgpu::tests::by_hand {

using sig::HttpPart;

inline sig::NameIs in(HttpPart part, std::vector<sig::Step> steps, bool dot_prefix = false) {
  return {dot_prefix, {}, {}, std::move(steps), part};
}
// By the first content of its first part, if that has to be there.
inline sig::Signature asks(std::vector<sig::NameIs> parts, sig::Action action = sig::Action::alert) {
  sig::Signature made = rule("x", action);
  made.payload.clear();
  made.fast_pattern.reset();
  const auto* const fast = parts[0].steps.empty() ? nullptr : std::get_if<sig::Content>(&parts[0].steps[0]);
  if (fast != nullptr && !fast->negated)
    made.fast_pattern = sig::FastPattern{0, 0, static_cast<u32>(fast->bytes.size()), 1};
  made.http = sig::Http{std::move(parts)};
  return made;
}
inline sig::Signature asks(HttpPart part, const std::string& bytes, sig::Action action = sig::Action::alert) {
  return asks({in(part, {content(bytes)})}, action);
}
// The part is this, to the byte.
inline sig::Signature is(HttpPart part, const std::string& bytes) {
  sig::NameIs made = in(part, {});
  const auto size = static_cast<u32>(bytes.size());
  made.sizes.push_back({{size, size}, false});
  if (!bytes.empty()) made.steps.emplace_back(first(bytes, size));
  return asks({std::move(made)});
}

inline SignaturesSettings of(std::vector<sig::Signature> rules) {
  SignaturesSettings settings = with(std::move(rules));
  settings.streams = 64;
  settings.inspect.window = 1024;
  return settings;
}

}  // namespace xdpgpu::tests::by_hand
