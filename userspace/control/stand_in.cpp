// SPDX-License-Identifier: MIT
#include "userspace/control/stand_in.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "userspace/control/request/bypass.hpp"
#include "userspace/control/request/detach.hpp"
#include "userspace/control/request/status.hpp"

namespace xdpgpu::control {
namespace {

constexpr std::size_t kMostClients = 16;
constexpr std::size_t kMostBytes = 4096;  // of a request that are looked at
constexpr std::chrono::seconds kPatience{2};
// At a time, however much more comes in.
constexpr std::size_t kMostTaken = 16;  // new clients
constexpr int kMostParts = 8;           // of what one says

// Whether the line, a JSON object, gives that member a value that is so. Members of objects in it count as
// its own: who may ask for the one may ask for the other. A string's quotation marks are escaped, so none
// passes for a member.
template <class Is>
bool has_value(std::string_view line, std::string_view member, const Is& is) {
  const std::string name = '"' + std::string(member) + '"';
  const auto skip_blanks = [&](std::size_t at) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) at++;
    return at;
  };
  for (auto at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
    const auto colon = skip_blanks(at + name.size());
    if (colon >= line.size() || line[colon] != ':') continue;
    if (is(line.substr(skip_blanks(colon + 1)))) return true;
  }
  return false;
}
bool says(std::string_view line, std::string_view member, std::string_view value) {
  return has_value(line, member, [&](std::string_view there) { return there.starts_with(value); });
}

// The seconds that the line gives as that member; nothing: none, or no number of them.
std::optional<u64> seconds_of(std::string_view line, std::string_view member) {
  u64 seconds = 0;
  const bool given = has_value(line, member, [&](std::string_view there) {
    const auto [end, error] = std::from_chars(there.data(), there.data() + there.size(), seconds);
    const auto behind = there.substr(static_cast<std::size_t>(end - there.data()));
    return error == std::errc() && seconds >= 1 && seconds <= Bypass::kMostSeconds &&
           (behind.empty() || behind.find_first_of(",} \t") == 0);
  });
  return given ? std::optional(seconds) : std::nullopt;
}

}  // namespace

void StandIn::add_to(std::vector<pollfd>& events, bool taking) const {
  if (taking) events.push_back({listener_, POLLIN, 0});
  for (const Client& client : clients_)
    events.push_back(
        {client.fd.get(), static_cast<short>(client.output.empty() ? POLLIN : POLLIN | POLLOUT), 0});
}

void StandIn::serve(bool taking) {
  if (taking) take();
  for (auto client = clients_.begin(); client != clients_.end();)
    client = serve(*client) && Clock::now() < client->until ? std::next(client) : clients_.erase(client);
}

void StandIn::take() {
  for (std::size_t i = 0; i < kMostTaken; i++) {
    // A data plane shares the listener, and may have had it wait.
    if (fcntl(listener_, F_SETFL, O_NONBLOCK) != 0) return;
    kernel::Fd fd(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (!is_admitted(fd.get(), admission_)) {
      const std::string line =
          encode(Response::failure("only root and members of the control group may ask"));
      (void)send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      continue;
    }
    if (clients_.size() >= kMostClients) clients_.pop_front();
    clients_.push_back({std::move(fd), Clock::now() + kPatience});
  }
}

bool StandIn::is_meant(const std::string& line) const {
  if (!says(line, "for", "")) return true;
  constexpr std::string_view kBetween = ", ";
  const std::string names = answers_.interfaces();
  for (std::string_view rest = names; !rest.empty();) {
    const auto name = rest.substr(0, rest.find(kBetween));
    if (says(line, "for", Json(name).dump(-1, ' ', false, Json::error_handler_t::replace))) return true;
    rest.remove_prefix(std::min(rest.size(), name.size() + kBetween.size()));
  }
  return false;
}

Response StandIn::answer(const std::string& line) const {
  if (!is_meant(line))
    return Response::failure(fmt::format(
        "the process that was asked attached {} and not the interface that was meant; run the command again, "
        "and where that does not help remove the control socket of that one, which leads to it",
        answers_.interfaces()));
  const auto is = [&](std::string_view member, std::string_view value) { return says(line, member, value); };
  const auto asks_for = [&](std::string_view name) { return is("request", fmt::format("\"{}\"", name)); };
  if (asks_for(Status::kName)) return answers_.status();
  if (asks_for(Detach::kName)) {
    if (is("keep", "") && !is("keep", "true") && !is("keep", "false"))
      return Response::failure("\"keep\" is not true or false");
    return answers_.detach(is("keep", "true"));
  }
  if (asks_for(Bypass::kName)) {
    if (!is("on", "true") && !is("on", "false"))
      return Response::failure("bypass needs \"on\": true or false");
    const bool on = is("on", "true");
    const auto for_s = seconds_of(line, "for_s");
    if (!for_s && is("for_s", ""))
      return Response::failure(
          fmt::format("\"for_s\" is not a number of seconds from 1 to {}", Bypass::kMostSeconds));
    if (for_s && !on) return Response::failure(Bypass::kOnlyOn);
    return answers_.bypass(on, for_s);
  }
  return answers_.other();
}

bool StandIn::serve(Client& client) {
  // What comes behind the answer is read and thrown away: a client that sends a policy reads when it has
  // sent.
  for (int i = 0; i < kMostParts; i++) {
    std::array<char, 16384> part;
    const ssize_t length = recv(client.fd.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (length == 0) return false;
    if (length < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return false;
      break;
    }
    if (!client.answered) client.input.append(part.data(), static_cast<std::size_t>(length));
    const auto end = client.input.find('\n');
    if (client.answered || (end == client.input.npos && client.input.size() < kMostBytes)) continue;
    client.answered = true;
    client.input.resize(std::min({end, client.input.size(), kMostBytes}));
    client.output = encode(answer(client.input));
    client.input = {};
    break;
  }
  if (client.output.empty()) return true;
  const ssize_t sent =
      send(client.fd.get(), client.output.data(), client.output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  client.output.erase(0, static_cast<std::size_t>(sent));
  return true;
}

}  // namespace xdpgpu::control
