// SPDX-License-Identifier: MIT
//
// userspace/report/http_server.hpp: what is served over HTTP/1.1: metrics, `status` as JSON, and a page that
// shows it. It reads nothing but requests for these, and changes nothing.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "userspace/kernel/kernel.hpp"
#include "userspace/report/web_config.hpp"

namespace xdpgpu::report {

// What can be asked for; one byte between the exporter's two processes.
enum class Asked : char { metrics = 'm', openmetrics = 'o', status = 's' };

struct Listener {
  kernel::Fd socket;  // listens, and does not block
  bool loopback = false;
};

struct HttpLimits {
  std::size_t connections = 32;
  std::chrono::milliseconds idle{10'000};  // for a request to arrive, and for a reply to be taken
  std::size_t header_bytes = 8192;
};

class HttpServer {
 public:
  // Gives what was asked for, now or later, once; empty: it cannot be had. Called by the context's thread,
  // and to be answered there.
  using Done = std::function<void(std::shared_ptr<const std::string>)>;
  using Source = std::function<void(Asked, Done)>;

  // Takes connections until destroyed. Throws what OpenSSL or crypt have against the configuration.
  HttpServer(boost::asio::io_context& context, std::vector<Listener> listeners, const WebConfig& config,
             Source source, HttpLimits limits);
  HttpServer(boost::asio::io_context& context, std::vector<Listener> listeners, const WebConfig& config,
             Source source)
      : HttpServer(context, std::move(listeners), config, std::move(source), HttpLimits()) {}
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Whether a Host header names this host by its loopback: another name is that of a page elsewhere, whose
// script asks here by a name that it lets point here (DNS rebinding).
bool is_own_name(std::string_view host);

}  // namespace xdpgpu::report
