// SPDX-License-Identifier: MIT
//
// userspace/control/client.hpp: the command line's end of the control socket.
#pragma once

#include <string>

#include "userspace/control/processes.hpp"
#include "userspace/control/protocol.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::control {

// running: a process answers, or does not get to (it is stuck, and clients queue up); ending: its broker is
// dead and its data plane about to end; dead: its socket is there but nobody listens; absent: no socket.
enum class Presence { running, ending, dead, absent };
// Waits some seconds for one that is ending, so never gives `ending`. An error other than these (no
// permission) counts as running and is in `why`.
Presence find_process(const std::string& ifname, std::string* why = nullptr);
// As it is at this moment, in any network namespace.
Presence look_for_process(const std::string& ifname, const kernel::names::Scope& scope,
                          std::string* why = nullptr);

// Sends one request to the process that attached the interface, and waits for its answer: as long as its
// RequestKind says (request_registry.hpp), and for no answer of a data plane that is stopped more than 2 s.
// The error says what to do: "eth0 is not attached; ...".
Result<Response> ask(const std::string& ifname, Request request,
                     const kernel::names::Scope& scope = kernel::names::own_scope());

// Why there is no answer.
struct NotDone : Refusal {
  bool refused = false;  // by the process that was asked; else there is none that answers
};

// The same of a request in its own words, such as PolicyShow (request/policy_show.hpp).
template <class R>
tl::expected<typename R::Answer, NotDone> ask(
    const std::string& ifname, const typename R::Arguments& arguments = {}, Files files = {},
    const kernel::names::Scope& scope = kernel::names::own_scope()) {
  Request request;
  request.name = R::kName;
  request.arguments = as_json(arguments);
  request.files = std::move(files);
  auto response = ask(ifname, std::move(request), scope);
  if (!response) return tl::unexpected(NotDone{{.sentence = std::move(response.error())}});
  if (!response->ok())
    return tl::unexpected(NotDone{{.sentence = std::move(response->error),
                                   .diagnostics = std::move(response->diagnostics),
                                   .problems = std::move(response->problems)},
                                  true});
  auto answer = read_answer<typename R::Answer>(response->result);
  if (!answer) return tl::unexpected(NotDone{{.sentence = std::move(answer.error())}, true});
  return std::move(*answer);
}

// The processes of the interface's attach, as far as it can be told.
Halves find_halves(const std::string& ifname);

// What is said of an interface without an attach: how its last one ended, and what of it still decides, as
// far as the caller may know.
std::string not_attached(const std::string& ifname,
                         const kernel::names::Scope& scope = kernel::names::own_scope());
// What is said of an attach whose control socket, `path`, was removed.
std::string without_its_socket(const std::string& ifname, const std::string& path, const Halves& living);

}  // namespace xdpgpu::control
