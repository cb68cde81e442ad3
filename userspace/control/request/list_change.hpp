// SPDX-License-Identifier: MIT
//
// userspace/control/request/list_change.hpp: names are added to a list of the policy in force, or removed
// from it: all that stand, a line each, in the file `names` behind the request, or none.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct ListChange {
  static constexpr std::string_view kName = "list.change";
  static constexpr RequestKind kKind = RequestKind::changes;
  static constexpr const char* kNames = "names";
  struct Arguments {
    std::string list;
    bool add = true;  // else they are removed
    static void fields(auto& self, auto& field) {
      field("list", self.list);
      field("add", self.add);
    }
  };
  struct Answer {
    std::string list;
    std::vector<std::string>
        changed;  // as lists have them: in ASCII, and what is beneath with a dot in front
    std::vector<std::string> unchanged;  // they were as they are to be
    u64 changes = 0;                     // names of the list that are not as it was compiled
    static void fields(auto& self, auto& field) {
      field("list", self.list);
      field("changed", self.changed);
      field("unchanged", self.unchanged);
      field("changes", self.changes);
    }
  };
  static void serve(Attached& attached, Asked<Arguments> asked, const Reply& reply) {
    ListOrder order{std::move(asked.arguments.list), asked.arguments.add, {}};
    for (std::string_view rest = asked.files[kNames]; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      order.names.emplace_back(line);
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
    auto answer = [reply, list = order.list](tl::expected<ListChanged, Refusal> changed) {
      if (!changed) return reply(Response::failure(std::move(changed.error())));
      const auto of = changed->names.find(list);
      reply(Response::success(as_json(Answer{list, std::move(changed->changed), std::move(changed->unchanged),
                                             of == changed->names.end() ? 0 : of->second.size()})));
    };
    attached.change_list(std::move(order), std::move(answer));
  }
};
inline RegisteredRequest<ListChange> registered_list_change;

}  // namespace xdpgpu::control
