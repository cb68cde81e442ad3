// SPDX-License-Identifier: MIT
//
// tests/netns/settings_test.cpp: every key of config/policy.schema.json, each of its words and each form that
// its values may have, through the real commands: `policy check`, `replay`, `attach`, `policy apply`, and
// `policy show`, which says how the process has understood it.
//
// A key that is added needs a line in settings_cases.cpp, a stage's in tests/stages/<name>.cpp; what the
// schema has and no case uses is a failure that names it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/netns/on_the_wire.hpp"
#include "tests/netns/schema_walk.hpp"
#include "tests/netns/settings_cases.hpp"

namespace xdpgpu::lab {
namespace {

const Json& schema() {
  static const Json read = [] {
    const auto path = source_tree() / "config/policy.schema.json";
    std::ifstream file(path);
    if (!file) throw Error("cannot read " + path.string());
    return Json::parse(file);
  }();
  return read;
}

// "10.0.0.1/32" as "10.0.0.1", "60s" as "1m", "AB:.." as "ab:..": as `policy show` writes them.
std::string canonical(std::string text) {
  static const std::vector<std::pair<std::string, double>> kUnits{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},
                                                                  {"s", 1},     {"m", 60},    {"h", 3600}};
  const auto digits = text.find_first_not_of("0123456789");
  if (digits != 0 && digits != std::string::npos)
    for (const auto& [unit, seconds] : kUnits)
      if (text.substr(digits) == unit) return fmt::format("{:.9f} s", std::stod(text) * seconds);
  for (const char* whole : {"/32", "/128"})
    if (text.ends_with(whole) && text.find_first_of(".:") != std::string::npos)
      text.resize(text.size() - std::string_view(whole).size());
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Does `shown` say all that `given` says? Else where it does not.
std::string difference(const Json& given, const Json& shown, const std::string& at = "") {
  if (given.is_object() && shown.is_object()) {
    for (const auto& [key, value] : given.items()) {
      const std::string place = fmt::format("{}/{}", at, key);
      if (place == "/$schema") continue;
      // What is switched off need not be said.
      if (!shown.contains(key)) {
        if (value == Json(false)) continue;
        return place + " is not shown";
      }
      if (auto found = difference(value, shown.at(key), place); !found.empty()) return found;
    }
    return {};
  }
  if (given.is_array() && given.size() == 1 && !shown.is_array()) return difference(given[0], shown, at);
  if (given.is_array() && shown.is_array() && given.size() == shown.size()) {
    for (std::size_t i = 0; i < given.size(); i++)
      if (auto found = difference(given[i], shown[i], fmt::format("{}/{}", at, i)); !found.empty())
        return found;
    return {};
  }
  if (given.is_string() && shown.is_string() &&
      canonical(given.get<std::string>()) == canonical(shown.get<std::string>()))
    return {};
  return given == shown ? std::string()
                        : fmt::format("{} is {} and shown as {}", at, given.dump(), shown.dump());
}

class Settings : public OnOneWire, public testing::WithParamInterface<SettingsCase> {
 protected:
  void SetUp() override {
    OnOneWire::SetUp();
    std::string name = "/tmp/xdpgpu-settings-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (const auto& [file, content] : settings_files()) std::ofstream(folder_ / file) << content;
  }
  void TearDown() override {
    OnOneWire::TearDown();
    std::filesystem::remove_all(folder_);
  }

  // With this test's own interfaces and device.
  Json ours(const Json& document) const {
    std::string text = document.dump();
    for (const auto& [word, name] : {std::pair{std::string("IF0"), host_port().ifname()},
                                     std::pair{std::string("IF1"), host_second().ifname()}})
      for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at))
        text.replace(at, word.size(), name);
    Json json = Json::parse(text);
    Json& compute = json["compute"];
    if (!compute.contains("device") && !compute.contains("devices")) compute["device"] = device_for(text);
    return json;
  }
  // Vulkan takes no policy that mirrors.
  static std::string device_for(const std::string& policy) {
    const bool mirrors = policy.find("\"mirror\"") != std::string::npos;
    return mirrors && device_under_test().starts_with("vulkan") ? "cpu" : device_under_test();
  }
  std::string file_of(const Json& document) const {
    std::string path = folder_ / "policy.json";
    std::ofstream(path) << document.dump(1);
    return path;
  }

  // By the commands that need no interface.
  void expect_accepted(const std::string& file) {
    const Outcome check = product(*host_, {"policy", "check", file});
    EXPECT_EQ(check.status, 0) << check.err;
    const std::string capture = source_tree() / "tests/data/pcap/vlan.pcap";
    const Outcome replay =
        product(*host_, {"replay", capture, "--policy", file, "--device", device_under_test(), "-o", "json"});
    EXPECT_EQ(replay.status, 0) << replay.err;
    EXPECT_NE(replay.out.find("\"summary\""), std::string::npos) << replay.out;
  }

  void expect_shown(const Json& expected) {
    const Outcome show = product(*host_, {"policy", "show", host_port().ifname(), "-o", "json"});
    ASSERT_EQ(show.status, 0) << show.err;
    const Json shown = Json::parse(show.out);
    ASSERT_TRUE(shown.contains("settings")) << show.out;
    EXPECT_EQ(difference(expected, shown.at("settings")), "");
  }

  // Attaches with it, or is refused with the words that the case allows.
  void attach_with(const std::string& file, const std::string& words) {
    attached_.reset();
    AttachSpec spec{.interfaces = {host_port().ifname(), host_second().ifname()},
                    .queues = 1,
                    .device_by_policy = true,
                    .mode_by_policy = true,
                    .policy_file = file};
    try {
      attached_ = std::make_unique<Attached>(*host_, spec);
    } catch (const Error& refused) {
      const std::string said = refused.what();
      EXPECT_TRUE(!words.empty() && said.find(words) != std::string::npos) << said;
    }
  }

  std::filesystem::path folder_;
};

TEST_P(Settings, GoThroughTheCommands) {
  const SettingsCase& one = GetParam();
  const Json base = ours(Json::parse(one.policy));
  const std::string file = file_of(base);
  expect_accepted(file);
  attach_with(file, "");
  ASSERT_TRUE(attached_) << one.policy;
  expect_shown(base);
  for (const SettingsValue& value : one.values) {
    SCOPED_TRACE(fmt::format("{} = {}", value.pointer, value.given));
    Json document = Json::parse(one.policy), expected = document;
    document[Json::json_pointer(value.pointer)] = Json::parse(value.given);
    expected[Json::json_pointer(value.pointer)] =
        Json::parse(value.shown.empty() ? value.given : value.shown);
    file_of(ours(document));
    expect_accepted(file);
    if (one.at_attach) {
      attach_with(file, value.refused);
      if (!attached_) continue;
    } else {
      const Outcome applied = product(*host_, {"policy", "apply", host_port().ifname(), file});
      EXPECT_EQ(applied.status, 0) << applied.err;
    }
    expect_shown(ours(expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Settings, testing::ValuesIn(settings_cases()),
                         [](const auto& made) { return made.param.name; });

// ---- none is left out --------------------------------------------------------------------------------

// What the cases use of the schema: they have to be right by it, too.
std::set<std::string> used() {
  std::set<std::string> all;
  const auto use = [&](const std::string& name, const Json& document) {
    std::string why;
    const auto found = schema_uses(schema(), document, why);
    EXPECT_TRUE(found) << name << " is wrong by the schema: " << why;
    if (found) all.insert(found->begin(), found->end());
  };
  for (const auto& one : settings_cases()) {
    use(one.name, Json::parse(one.policy));
    for (const auto& value : one.values) {
      Json document = Json::parse(one.policy);
      document[Json::json_pointer(value.pointer)] = Json::parse(value.given);
      use(fmt::format("{}, {} = {}", one.name, value.pointer, value.given), document);
    }
  }
  return all;
}

TEST(SettingsOfTheSchema, HaveACaseEach) {
  const auto have = used();
  std::vector<std::string> lacking;
  const auto wanted = schema_offers(schema());
  EXPECT_GT(wanted.size(), 300U);
  for (const auto& use : wanted)
    if (!have.contains(use)) lacking.push_back(use);
  EXPECT_TRUE(lacking.empty())
      << "settings_cases.cpp, or tests/stages/<name>.cpp of a stage, has no case for\n  "
      << fmt::format("{}", fmt::join(lacking, "\n  "));
}

}  // namespace
}  // namespace xdpgpu::lab
