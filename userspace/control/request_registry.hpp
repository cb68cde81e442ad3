// SPDX-License-Identifier: MIT
//
// userspace/control/request_registry.hpp: the requests of the control socket. Each is one file of request/,
// which nobody names: a RegisteredRequest in it adds it to what the data plane answers, and says how long a
// client waits. Such a file has
//
//   struct FlowsFlush {
//     static constexpr std::string_view kName = "flows.flush";
//     static constexpr RequestKind kKind = RequestKind::changes;
//     using Arguments = Nothing;            // a record, as arguments.hpp reads them
//     struct Answer { ... };                // a record
//     static Result<Answer> serve(Attached& attached, const Asked<Arguments>& asked);
//   };
//   inline RegisteredRequest<FlowsFlush> registered_flows_flush;
//
// A serve() may return tl::expected<Answer, Refusal>, where there are several problems to tell; or take a
// Reply as well and return nothing, where the answer comes later. Its command asks by ask<FlowsFlush>()
// (client.hpp). userspace/README.md has how to add one.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "userspace/control/arguments.hpp"
#include "userspace/control/attached.hpp"
#include "userspace/control/protocol.hpp"

namespace xdpgpu::control {

enum class RequestKind {
  reads,    // changes nothing: a client waits 2 s, and on while the process is seen at work
  changes,  // may take its time, as a large policy does: a client waits 60 s
  urgent,   // changes something, and has another way where nobody answers: a client waits 2 s
};

// A request that has come in.
template <class Arguments>
struct Asked {
  Arguments arguments;
  Files files{};
  std::function<bool()> left{};  // whether its client has gone; empty: it cannot have
};

// A request, whichever it is.
class AnyRequest {
 public:
  AnyRequest(const AnyRequest&) = delete;
  AnyRequest& operator=(const AnyRequest&) = delete;

  std::string_view name() const noexcept { return name_; }
  RequestKind kind() const noexcept { return kind_; }
  // Whether it takes these arguments; the error is a sentence.
  virtual Result<void> check(const Json& arguments) const = 0;
  // Has it done, if it takes its arguments. `reply` is called once, now or later.
  virtual void serve(Attached& attached, Request request, const Reply& reply) const = 0;

  // The one of that name, or nullptr.
  static const AnyRequest* find(std::string_view name) noexcept;
  // Each, by name.
  static void each(const std::function<void(const AnyRequest&)>& visit);

 protected:
  AnyRequest(std::string_view name, RequestKind kind) noexcept;
  ~AnyRequest() = default;

 private:
  const std::string_view name_;
  const RequestKind kind_;
  AnyRequest* next_ = nullptr;  // by name
};

template <class R>
class RegisteredRequest final : public AnyRequest {
 public:
  using Arguments = typename R::Arguments;
  using Answer = typename R::Answer;

  RegisteredRequest() noexcept : AnyRequest(R::kName, R::kKind) {}

  Result<void> check(const Json& arguments) const override {
    if (const auto read = read_arguments<Arguments>(R::kName, arguments); !read) return Error(read.error());
    return {};
  }

  void serve(Attached& attached, Request request, const Reply& reply) const override {
    auto arguments = read_arguments<Arguments>(R::kName, request.arguments);
    if (!arguments) return reply(Response::failure(std::move(arguments.error())));
    Asked<Arguments> asked{std::move(*arguments), std::move(request.files), std::move(request.left)};
    if constexpr (requires { R::serve(attached, std::move(asked), reply); }) {
      R::serve(attached, std::move(asked), reply);
    } else {
      auto answer = R::serve(attached, std::move(asked));
      static_assert(std::is_same_v<typename decltype(answer)::value_type, Answer>);
      reply(answer ? Response::success(as_json(*answer)) : Response::failure(std::move(answer.error())));
    }
  }
};

}  // namespace xdpgpu::control
