// SPDX-License-Identifier: MIT
#include "userspace/control/kept_policy.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "userspace/control/list_changes.hpp"
#include "userspace/control/protocol.hpp"
#include "userspace/control/request/policy_apply.hpp"

namespace xdpgpu::control {
namespace {

// A shared mapping, for as long as this object lives.
class Mapping {
 public:
  Mapping(int fd, std::size_t bytes, int protection)
      : bytes_(bytes), at_(mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0)) {}
  ~Mapping() {
    if (*this) munmap(at_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  explicit operator bool() const noexcept { return at_ != MAP_FAILED; }
  char* data() const noexcept { return static_cast<char*>(at_); }

 private:
  std::size_t bytes_;
  void* at_;
};

// What was changed of lists is kept as a file with a name that none has.
constexpr const char* kNames = "";

std::string text_of(const Received& received) { return received.message.text; }

Error system_error(const char* what) { return Error(fmt::format("{}: {}", what, std::strerror(errno))); }

}  // namespace

// As it would be sent to be applied.
Result<void> keep_policy(BrokerCalls& broker, const compiler::CompiledPolicy& policy,
                         const gpu::NameChanges& names) {
  const compiler::PolicySource& source = policy.source;
  Request request;
  request.name = PolicyApply::kName;
  request.arguments =
      as_json(PolicyApply::Arguments{.text = source.text, .file = source.file, .audit = policy.audits()});
  for (const auto& [name, content] : source.files) request.files.emplace(name, content);
  if (!names.empty()) request.files[kNames] = text_of(names);
  const std::string line = encode(request);
  std::size_t bytes = line.size();
  for (const auto& [name, content] : request.files) bytes += content.size();
  if (bytes > kMaxKeptBytes) return Error(std::string("its files are too long"));
  auto given = broker.call(Message::make(MessageType::keep_policy, static_cast<u32>(bytes)));
  if (!given) return Error(given.error());
  if (given->message.type != MessageType::memory) return Error(text_of(*given));
  {
    const Mapping memory(given->descriptors[0].get(), bytes, PROT_READ | PROT_WRITE);
    if (!memory) return system_error("its memory cannot be mapped");
    char* at = std::copy(line.begin(), line.end(), memory.data());
    for (const auto& [name, content] : request.files) at = std::copy(content.begin(), content.end(), at);
  }
  const auto kept = broker.call(Message::with(MessageType::policy_kept, 0, 0, policy.policy.hash));
  if (!kept) return Error(kept.error());
  if (kept->message.type != MessageType::done) return Error(text_of(*kept));
  return {};
}

Result<KeptPolicy> read_kept_policy(const kernel::Fd& memory) {
  struct stat info {};
  if (fstat(memory.get(), &info) != 0) return system_error("the kept policy cannot be looked at");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  const Mapping mapping(memory.get(), bytes, PROT_READ);
  if (!mapping) return system_error("the kept policy cannot be mapped");
  std::string_view rest(mapping.data(), bytes);
  const auto end = rest.substr(0, kMaxMessage).find('\n');
  if (end == rest.npos) return Error(std::string("the kept policy is none"));
  auto request = decode_request(rest.substr(0, end));
  if (!request) return Error(request.error());
  rest.remove_prefix(end + 1);
  auto arguments = read_arguments<PolicyApply::Arguments>(PolicyApply::kName, request->arguments);
  if (!arguments || !arguments->audit) return Error(std::string("the kept policy is not whole"));
  KeptPolicy kept;
  kept.source.text = std::move(arguments->text);
  kept.source.file = std::move(arguments->file);
  kept.audit = *arguments->audit;
  for (const auto& [name, length] : request->announced) {
    if (length > rest.size()) return Error(std::string("the kept policy's files are not whole"));
    if (name == kNames) {
      auto names = read_names(rest.substr(0, length));
      if (!names) return Error(std::string("what was changed of the kept policy's lists is not whole"));
      kept.names = *std::move(names);
    } else {
      kept.source.files.emplace(name, rest.substr(0, length));
    }
    rest.remove_prefix(length);
  }
  return kept;
}

Result<kernel::Fd> make_policy_memory(u32 bytes) {
  kernel::Fd memory(memfd_create("xdpgpu-policy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ftruncate(memory.get(), bytes) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("there is no memory to keep it in");
  return memory;
}

}  // namespace xdpgpu::control
