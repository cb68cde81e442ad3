// SPDX-License-Identifier: MIT
//
// bench/link/toolchain.hpp: what compiles and links for a GPU at run time: NVRTC and nvJitLink, loaded where
// they are installed, as a program that needs neither to start has to.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace xdpgpu::bench::link {

using Code = std::vector<char>;
template <class T>
using Result = tl::expected<T, std::string>;

// The error is a sentence: which library is not there.
Result<void> load_toolchain();

enum class Form { cubin, lto };  // machine code that is to be linked, or the compiler's intermediate one

// options: of NVRTC, beside the architecture and the form. headers: by the name that they are included by.
Result<Code> compile(const std::string& source, const std::string& architecture, Form form,
                     const std::vector<std::string>& options = {},
                     const std::map<std::string, std::string>& headers = {});
// A cubin. Parts of Form::lto are optimised together.
Result<Code> link(const std::vector<std::pair<std::string_view, Form>>& parts,
                  const std::string& architecture, Form form);

}  // namespace xdpgpu::bench::link
