// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/automaton.hpp: a regular expression as the automaton of its positions
// (gpu::signatures::Regex).
//
// What is asked of the bytes beside a place (^, \b, ...) is asked of no subject: positions that it concerns
// are there once for each kind of byte that it tells apart, so that it is known of any two of them whether
// one may follow the other. What is asked of the byte behind a match takes that byte, too.
#pragma once

#include "gpu/signatures.hpp"
#include "userspace/compiler/rules/pcre.hpp"

namespace xdpgpu::rules {

// regex: one that PCRE2 takes. It matches where PCRE2 says that it does, if that is given as many steps as it
// takes. The error is a sentence's end: why there is none.
Result<gpu::signatures::Regex> automaton_of(const Regex& regex);

}  // namespace xdpgpu::rules
