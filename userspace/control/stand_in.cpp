// SPDX-License-Identifier: MIT
#include "userspace/control/stand_in.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace xdpgpu::control {
namespace {

constexpr std::size_t kMostClients = 16;
constexpr std::size_t kMostBytes = 4096;  // of a request that are looked at
constexpr std::chrono::seconds kPatience{2};

// Whether the line, a JSON object, gives that member that value. Members of objects in it count as its own:
// who may ask for the one may ask for the other. A string's quotation marks are escaped, so none passes for a
// member.
bool says(std::string_view line, std::string_view member, std::string_view value) {
  const std::string name = '"' + std::string(member) + '"';
  const auto skip_blanks = [&](std::size_t at) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) at++;
    return at;
  };
  for (auto at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
    const auto colon = skip_blanks(at + name.size());
    if (colon >= line.size() || line[colon] != ':') continue;
    if (line.substr(skip_blanks(colon + 1)).starts_with(value)) return true;
  }
  return false;
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
  while (true) {
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

Response StandIn::answer(const std::string& line) const {
  if (says(line, "request", "\"status\"")) return answers_.status();
  if (says(line, "request", "\"detach\"")) return answers_.detach(says(line, "keep", "true"));
  if (says(line, "request", "\"bypass\"")) return answers_.bypass(says(line, "on", "true"));
  return answers_.other();
}

bool StandIn::serve(Client& client) {
  // What comes behind the answer is read and thrown away: a client that sends a policy reads when it has
  // sent.
  while (true) {
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
