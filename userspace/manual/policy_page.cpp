// SPDX-License-Identifier: MIT
#include "userspace/manual/policy_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "userspace/cli/command.hpp"
#include "userspace/manual/schema_text.hpp"
#include "userspace/manual/troff.hpp"
#include "userspace/policy/stage_schema.hpp"

namespace xdpgpu::manual {
namespace {

// Values as SchemaText marks them.
Troff values_text(std::string_view text) {
  Troff all;
  while (!text.empty()) {
    const char mark = text.front();
    const char closing = mark == '<' ? '>' : mark;
    const auto end = mark == '`' || mark == '<' ? text.find(closing, 1) : std::string_view::npos;
    if (end != std::string_view::npos) {
      const auto inside = text.substr(1, end - 1);
      all += mark == '`' ? bold(inside) : italic(inside);
      text.remove_prefix(end + 1);
      continue;
    }
    const auto next = std::min(text.find_first_of("`<", 1), text.size());
    all += plain(text.substr(0, next));
    text.remove_prefix(next);
  }
  return all;
}

std::string sentence(std::string text) {
  if (!text.empty() && !text.ends_with('.')) text += '.';
  return text;
}

void key_item(Page& page, const std::string& key, const std::string& values, bool needed,
              const std::string& usual, const std::string& about) {
  Troff says = values_text(values);
  if (needed) says += plain(" (needed)");
  if (!usual.empty()) says += plain("; default ") + marked(usual);
  page.item(bold(key), says);
  if (!about.empty()) page.item_paragraph(plain(sentence(about)));
}

void objects(Page& page, const SchemaText& schema) {
  for (const auto& object : schema.objects()) {
    const bool whole = object.places.front().empty();
    if (whole)
      page.section("KEYS");
    else
      page.subsection(fmt::format("{}{}{}", fmt::join(object.places, ", "), object.shape.empty() ? "" : " ",
                                  object.shape));
    if (!whole && !object.about.empty()) page.paragraph(plain(sentence(object.about)));
    for (const auto& note : object.notes) page.paragraph(marked(note));
    for (const auto& key : object.keys) key_item(page, key.key, key.values, key.needed, key.usual, key.about);
  }
}

void values(Page& page, const SchemaText& schema) {
  page.section("VALUES");
  for (const auto& value : schema.values()) {
    page.item(italic(value.name), values_text(value.values));
    page.item_paragraph(plain(sentence(value.about)));
  }
}

void stages(Page& page) {
  page.section("STAGES");
  page.paragraph(
      marked("A stage is an object with `\"stage\"`, its name, and its own keys. Each may have a "
             "`\"description\"`, too. The stages of this program:"));
  for (const auto& stage : policy::stage_texts()) {
    page.subsection(stage.name);
    page.paragraph(plain(sentence(stage.about)));
    page.item(bold("stage"), bold(fmt::format("\"{}\"", stage.name)) + plain(" (needed)"));
    for (const auto& field : stage.fields)
      key_item(page, field.key, field.values, field.needed, field.usual, field.says);
  }
}

}  // namespace

std::string policy_page(const std::string& schema, const std::string& example, const std::string& date) {
  const auto document = nlohmann::ordered_json::parse(schema);
  const SchemaText text(document, {{"stage", "`{\"stage\": ...}` (see STAGES)"}});
  Page page("xdpgpu-policy", "5", date);
  page.section("NAME");
  page.paragraph(plain("xdpgpu-policy") + Troff{" \\- "} + plain("What xdpgpu does with packets"));
  page.section("DESCRIPTION");
  page.paragraph(plain(sentence(document.at("description"))));
  page.paragraph(
      marked("A policy is a file with one JSON object. Keys that are not described here are refused. "
             "Files that it names are found from its own folder. In what follows `[]` stands for "
             "each element of an array, and `NAME` for a name that you give."));
  objects(page, text);
  values(page, text);
  stages(page);
  page.section("FILES");
  page.item(bold("share/doc/xdpgpu/config/"),
            plain("Below the folder that xdpgpu is installed in: the documents that are named here."));
  page.item(bold(cli::kPolicyFile), plain("The policy that xdpgpu attach goes by where none is named."));
  page.section("EXAMPLES");
  page.literal(example);
  page.section("SEE ALSO");
  Troff others;
  for (const char* name : {"xdpgpu", "xdpgpu-attach", "xdpgpu-policy", "xdpgpu-policy-check"})
    others += plain(others.empty() ? "" : ", ") + Page::reference(name, "1");
  page.paragraph(others);
  return page.text();
}

}  // namespace xdpgpu::manual
