// SPDX-License-Identifier: MIT
#include "userspace/compiler/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "userspace/policy/document.hpp"

namespace xdpgpu::compiler {
namespace {

Problem problem_of(const policy::Diagnostic& diagnostic) {
  Problem problem{.message = diagnostic.message};
  if (!diagnostic.file.empty()) problem.file = diagnostic.file;
  if (!diagnostic.pointer.empty()) problem.pointer = diagnostic.pointer;
  if (diagnostic.line != 0) problem.line = diagnostic.line;
  if (diagnostic.column != 0) problem.column = diagnostic.column;
  return problem;
}

const policy::Node* member_of(const policy::Node& node, const std::string& token) {
  if (const auto* object = node.as<policy::Object>()) {
    for (const auto& member : *object)
      if (policy::pointer_token(member.key) == "/" + token) return &member.value;
  } else if (const auto* array = node.as<policy::Array>()) {
    for (std::size_t i = 0; i < array->size(); i++)
      if (std::to_string(i) == token) return &(*array)[i];
  }
  return nullptr;
}

const policy::Node* node_at(const policy::Node& document, const std::string& pointer) {
  const policy::Node* node = &document;
  std::istringstream tokens(pointer.substr(std::min<std::size_t>(1, pointer.size())));
  for (std::string token; node && std::getline(tokens, token, '/');) node = member_of(*node, token);
  return node;
}

}  // namespace

Refusal refusal(const policy::Diagnostics& diagnostics) {
  Refusal made;
  for (const auto& diagnostic : diagnostics) {
    made.diagnostics.push_back(diagnostic.sentence());
    made.problems.push_back(problem_of(diagnostic));
  }
  made.sentence = made.diagnostics.empty() ? "the policy was refused" : made.diagnostics.front();
  if (made.diagnostics.size() > 1)
    made.sentence += fmt::format(" (and {} more)", made.diagnostics.size() - 1);
  return made;
}

Refusal refusal(std::string sentence) {
  return {.sentence = sentence, .diagnostics = {sentence}, .problems = {{.message = sentence}}};
}

policy::Diagnostics placed(policy::Diagnostics diagnostics, const PolicySource& source) {
  const auto document = policy::read_document(source.text);
  for (auto& diagnostic : diagnostics) {
    diagnostic.file = source.file;
    const policy::Node* const node = document ? node_at(*document, diagnostic.pointer) : nullptr;
    if (!node) continue;
    const auto location = policy::locate(source.text, node->offset);
    diagnostic.line = location.line;
    diagnostic.column = location.column;
  }
  return diagnostics;
}

}  // namespace xdpgpu::compiler
