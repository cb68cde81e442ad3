// SPDX-License-Identifier: MIT
#include "userspace/report/http_server.hpp"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include "userspace/report/exposition.hpp"
#include "userspace/report/page.hpp"
#include "userspace/report/passwords.hpp"

namespace xdpgpu::report {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Protocol = asio::generic::stream_protocol;
using Plain = beast::basic_stream<Protocol>;
using Secure = beast::ssl_stream<Plain>;
using Request = http::request_parser<http::empty_body>;
using Body = std::shared_ptr<const std::string>;

std::string_view text_of(beast::string_view text) { return {text.data(), text.size()}; }

struct Page {
  std::string_view path, type, content;
};
constexpr std::array kPages{Page{"/", "text/html; charset=utf-8", k_page_html},
                            Page{"/page.css", "text/css; charset=utf-8", k_page_css},
                            Page{"/page.js", "text/javascript; charset=utf-8", k_page_js}};

}  // namespace

bool is_own_name(std::string_view host) {
  std::string name(host);
  if (name.starts_with('[')) {
    const auto end = name.find(']');
    if (end == std::string::npos) return false;
    name = name.substr(1, end - 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  if (beast::iequals(name, "localhost")) return true;
  boost::system::error_code error;
  asio::ip::make_address(name, error);
  return !error;
}

struct HttpServer::Impl : std::enable_shared_from_this<Impl> {
  template <class Stream>
  class Session;
  struct Taking {
    Taking(asio::io_context& context, Listener listener)
        : socket(context, Protocol(AF_UNSPEC, 0), listener.socket.release()), loopback(listener.loopback) {}
    asio::basic_socket_acceptor<Protocol> socket;
    bool loopback;
  };

  Impl(asio::io_context& io, std::vector<Listener> given, const WebConfig& config, Source from,
       HttpLimits most)
      : context(io), source(std::move(from)), limits(most) {
    for (Listener& listener : given) listeners.push_back(std::make_unique<Taking>(io, std::move(listener)));
    if (!config.users.empty()) passwords.emplace(config.users);
    if (!config.tls) return;
    tls.emplace(asio::ssl::context::tls_server);
    tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                     asio::ssl::context::no_tlsv1_1);
    tls->use_certificate_chain(asio::buffer(config.tls->certificate));
    tls->use_private_key(asio::buffer(config.tls->key), asio::ssl::context::pem);
  }

  void accept(Taking& from);

  asio::io_context& context;
  std::vector<std::unique_ptr<Taking>> listeners;
  std::optional<Passwords> passwords;
  std::optional<asio::ssl::context> tls;
  Source source;
  HttpLimits limits;
  std::size_t sessions = 0;
  bool ended = false;
};

// One connection: requests one after the other.
template <class Stream>
class HttpServer::Impl::Session : public std::enable_shared_from_this<Session<Stream>> {
 public:
  template <class... More>
  Session(std::shared_ptr<Impl> server, bool loopback, Protocol::socket socket, More&... more)
      : server_(std::move(server)), stream_(std::move(socket), more...), own_name_(loopback) {
    ++server_->sessions;
  }
  ~Session() { --server_->sessions; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void begin() {
    wait_no_longer();
    if constexpr (std::is_same_v<Stream, Secure>)
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](beast::error_code error) {
                                if (!error) self->read();
                              });
    else
      read();
  }

 private:
  void wait_no_longer() { beast::get_lowest_layer(stream_).expires_after(server_->limits.idle); }

  void read() {
    if (server_->ended) return;
    wait_no_longer();
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(server_->limits.header_bytes));
    http::async_read_header(
        stream_, buffer_, *parser_, [self = this->shared_from_this()](beast::error_code error, std::size_t) {
          if (!error) return self->decide();
          if (error == http::error::end_of_stream || error == beast::error::timeout) return;
          // The rest of what came may be anything.
          self->keep_ = false;
          self->head_ = false;
          self->say(error == http::error::header_limit ? http::status::request_header_fields_too_large
                                                       : http::status::bad_request,
                    "this is no request that is answered here\n");
        });
  }

  void decide() {
    const auto& request = parser_->get();
    keep_ = request.keep_alive();
    head_ = request.method() == http::verb::head;
    if (request.chunked() || parser_->content_length().value_or(0) > 0) {
      keep_ = false;  // the next request would begin behind it
      return say(http::status::payload_too_large, "a request has no body here\n");
    }
    if (own_name_ && !server_->passwords && !is_own_name(text_of(request[http::field::host])))
      return say(http::status::misdirected_request, "ask by an address, or by the name localhost\n");
    if (server_->passwords) {
      switch (
          server_->passwords->ask(text_of(request[http::field::authorization]), Passwords::Clock::now())) {
        case Passwords::Answer::admitted:
          break;
        case Passwords::Answer::ask_later:
          return say(http::status::too_many_requests,
                     "too many passwords were tried; ask again in a second\n",
                     {{http::field::retry_after, "1"}});
        case Passwords::Answer::refused:
          return say(http::status::unauthorized, "say a user and a password\n",
                     {{http::field::www_authenticate, "Basic realm=\"xdpgpu\", charset=\"UTF-8\""}});
      }
    }
    if (!head_ && request.method() != http::verb::get)
      return say(http::status::method_not_allowed, "nothing can be changed here\n",
                 {{http::field::allow, "GET, HEAD"}});
    const auto target = text_of(request.target());
    const std::string_view path = target.substr(0, target.find('?'));
    for (const Page& page : kPages)
      if (page.path == path)
        return reply(http::status::ok, page.type, std::make_shared<const std::string>(page.content));
    if (path == "/metrics") {
      const Syntax syntax = preferred(text_of(request[http::field::accept]));
      return ask(syntax == Syntax::openmetrics ? Asked::openmetrics : Asked::metrics, content_type(syntax));
    }
    if (path == "/status.json") return ask(Asked::status, "application/json");
    say(http::status::not_found, "there is /metrics, /status.json and /\n");
  }

  void ask(Asked asked, const char* type) {
    // However long that takes: who asked waits.
    beast::get_lowest_layer(stream_).expires_never();
    server_->source(asked, [self = this->shared_from_this(), type](const Body& body) {
      if (body)
        self->reply(http::status::ok, type, body);
      else
        self->say(http::status::service_unavailable, "it cannot be had\n");
    });
  }

  using More = std::initializer_list<std::pair<http::field, const char*>>;
  void say(http::status status, const char* sentence, More more = {}) {
    reply(status, "text/plain; charset=utf-8", std::make_shared<const std::string>(sentence), more);
  }
  // The body is a reader's of the same bytes, not a copy for each.
  void reply(http::status status, std::string_view type, Body body, More more = {}) {
    body_ = std::move(body);
    response_.emplace(status, 11);
    auto& response = *response_;
    response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
    response.set(http::field::cache_control, "no-store");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("Content-Security-Policy",
                 "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    response.set("Cross-Origin-Resource-Policy", "same-origin");
    response.set("Referrer-Policy", "no-referrer");
    for (const auto& [field, value] : more) response.set(field, value);
    response.body() = {body_->data(), head_ ? 0 : body_->size()};
    response.content_length(body_->size());
    response.keep_alive(keep_);
    serializer_.emplace(response);
    wait_no_longer();
    http::async_write(stream_, *serializer_,
                      [self = this->shared_from_this()](beast::error_code error, std::size_t) {
                        if (error || !self->keep_) return self->end();
                        self->read();
                      });
  }

  void end() {
    if constexpr (std::is_same_v<Stream, Secure>) {
      wait_no_longer();
      stream_.async_shutdown([self = this->shared_from_this()](beast::error_code) {});
    } else {
      beast::error_code ignored;
      stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
    }
  }

  std::shared_ptr<Impl> server_;
  Stream stream_;
  const bool own_name_;
  bool keep_ = false, head_ = false;
  beast::flat_buffer buffer_{16 * 1024};
  std::optional<Request> parser_;
  Body body_;
  using Response = http::response<http::span_body<const char>>;
  std::optional<Response> response_;
  std::optional<http::response_serializer<http::span_body<const char>>> serializer_;
};

void HttpServer::Impl::accept(Taking& from) {
  from.socket.async_accept(
      [self = shared_from_this(), &from](beast::error_code error, Protocol::socket socket) {
        if (self->ended || error == asio::error::operation_aborted) return;
        // Where there is no place left, who comes is closed at once; nobody waits for it.
        if (!error && self->sessions < self->limits.connections) {
          if (self->tls)
            std::make_shared<Session<Secure>>(self, from.loopback, std::move(socket), *self->tls)->begin();
          else
            std::make_shared<Session<Plain>>(self, from.loopback, std::move(socket))->begin();
        }
        self->accept(from);
      });
}

HttpServer::HttpServer(asio::io_context& context, std::vector<Listener> listeners, const WebConfig& config,
                       Source source, HttpLimits limits)
    : impl_(std::make_shared<Impl>(context, std::move(listeners), config, std::move(source), limits)) {
  for (const auto& listener : impl_->listeners) impl_->accept(*listener);
}

HttpServer::~HttpServer() {
  impl_->ended = true;
  beast::error_code ignored;
  for (const auto& listener : impl_->listeners) listener->socket.close(ignored);
}

}  // namespace xdpgpu::report
