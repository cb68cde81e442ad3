// SPDX-License-Identifier: MIT
//
// tests/stages/http_text.hpp: requests by HTTP/1 as no client should make them, and answers as no server
// should.
#pragma once

#include <string>

#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {

// A request's head, with many ways of writing URIs, hosts and headers, of the letters that random rules look
// for.
std::string random_http_head(Random& random);
// Several requests one behind the other, with bodies, in chunks or not, and what is no request between them.
std::string random_http(Random& random, u32 requests);
// Likewise an answer's head, and several answers.
std::string random_answer_head(Random& random);
std::string random_answers(Random& random, u32 answers);

}  // namespace xdpgpu::tests
