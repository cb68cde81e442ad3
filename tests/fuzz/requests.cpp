// SPDX-License-Identifier: MIT
//
// Any bytes on the control socket. Each request in them is answered, by a line that a client can read; what
// it brings along is taken or refused by a sentence; and the server has nothing left of the client
// afterwards.
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

#include "tests/fuzz/target.hpp"
#include "userspace/control/request_registry.hpp"
#include "userspace/control/server.hpp"

namespace xdpgpu::fuzz {
namespace {

using control::Json;
using control::Request;
using control::Response;

int next_descriptor() {
  const kernel::Fd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fd.get();
}

// As the data plane looks at them.
Response answer_to(const Request& request) {
  if (const auto* known = control::AnyRequest::find(request.name))
    if (const auto taken = known->check(request.arguments); !taken) return Response::failure(taken.error());
  return Response::success({{"request", request.name}, {"files", request.files.size()}});
}

void same_again(Input input, std::string_view line) {
  const auto request = control::decode_request(line);
  if (!request) {
    if (request.error().empty()) fail(input, "a request is refused without a reason");
    return;
  }
  const auto again = control::decode_request(control::encode(*request));
  if (!again) fail(input, "a request that is written out is refused: " + again.error());
  if (again->name != request->name || again->ifname != request->ifname ||
      again->announced != request->announced)
    fail(input, "a request that is written out says something else");
  const Response response = answer_to(*request);
  const auto read = control::decode_response(control::encode(response));
  if (!read || read->ok() != response.ok()) fail(input, "an answer that is written out says something else");
}

// The server, for the process's life.
class Served {
 public:
  Served() {
    char name[] = "/tmp/xdpgpu-fuzz-XXXXXX";
    if (mkdtemp(name) == nullptr) return;
    folder_ = name;
    path_ = folder_ + "/s";
    auto listener = control::listen_at(path_, std::nullopt);
    if (!listener) return;
    server_ = std::make_unique<control::Server>(
        context_, std::move(*listener),
        [](const Request& request, const control::Server::Reply& reply) { reply(answer_to(request)); },
        control::Server::Admission{.group = std::nullopt, .excluded = uid_t(-1)});
  }
  ~Served() {
    server_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  void converse(Input input) {
    kernel::Fd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    if (connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      fail(input, "the server takes no client");
    std::string answers;
    std::size_t sent = 0;
    bool ended = false;
    for (int turns = 0; !ended; ++turns) {
      if (turns > 100'000) fail(input, "it comes to no end");
      if (sent < input.size()) {
        const ssize_t part = send(client.get(), input.data() + sent, input.size() - sent, MSG_NOSIGNAL);
        sent = part > 0 ? sent + static_cast<std::size_t>(part) : errno == EAGAIN ? sent : input.size();
        if (sent == input.size()) shutdown(client.get(), SHUT_WR);
      } else if (input.empty()) {
        shutdown(client.get(), SHUT_WR);
      }
      context_.restart();
      context_.poll();
      char buffer[4096];
      const ssize_t got = recv(client.get(), buffer, sizeof(buffer), 0);
      if (got > 0) answers.append(buffer, static_cast<std::size_t>(got));
      ended = got == 0 || (got < 0 && errno != EAGAIN);
    }
    for (std::size_t at = 0; at < answers.size();) {
      const std::size_t end = answers.find('\n', at);
      if (end == std::string::npos) break;  // cut off with the connection
      if (const auto read = control::decode_response(std::string_view(answers).substr(at, end - at)); !read)
        fail(input, "an answer that nobody can read: " + read.error());
      at = end + 1;
    }
    client = kernel::Fd();
    context_.restart();
    context_.poll();
  }

 private:
  boost::asio::io_context context_;
  std::string folder_, path_;
  std::unique_ptr<control::Server> server_;
};

bool is_root() { return geteuid() == 0; }

}  // namespace

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add = [&](const std::string& text) { all.emplace_back(text.begin(), text.end()); };
  add("{\"request\": \"status\"}\n");
  add("{\"request\": \"status\", \"for\": \"eth0\"}\n{\"request\": \"policy.show\"}\n");
  add("{\"request\": \"detach\", \"keep\": true}\n{\"request\": \"detach\", \"keep\": 1}\n");
  add("{\"request\": \"bypass\", \"on\": false}\n");
  add("{\"request\": \"flows.list\", \"interface\": \"eth0\", \"limit\": 10, \"from\": 7}\n{\"request\": "
      "\"flows.flush\"}\n");
  add("{\"request\": \"flows.list\", \"interface\": \"eth0\", \"indices\": [7, 8]}\n{\"request\": "
      "\"flows.count\", \"interface\": \"eth0\", \"from\": 7, \"entries\": 8, \"since_ns\": 9}\n");
  add("{\"request\": \"policy.apply\", \"text\": \"{}\", \"file\": \"p.json\", \"confirm_s\": 60, \"audit\": "
      "true, "
      "\"files\": {\"a\": 3, \"b\": 0}}\nabc{\"request\": \"policy.confirm\"}\n");
  add("[[[[[[[[[[[[[[[[[[\n");
  add("{\"request\": \"status\", \"files\": {\"a\": 1073741824}}\n");
  add("{\"request\": {\"a\": [1, 2.5, -3, null, \"\\u0000\\ud83d\\ude00\"]}}\n");
  return all;
}

std::vector<std::string> left_out() {
  if (is_root()) return {};
  return {"the server itself, which answers root alone"};
}

}  // namespace xdpgpu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
  using namespace xdpgpu::fuzz;
  const Input input(data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    same_again(input, text.substr(at, end - at));
    at = end + 1;
  }
  if (!is_root()) return 0;
  static Served served;
  static const bool warm = (served.converse({}), true);
  (void)warm;
  const int before = next_descriptor();
  served.converse(input);
  if (next_descriptor() != before) fail(input, "a descriptor stays open");
  return 0;
}
