// SPDX-License-Identifier: MIT
#include "userspace/compiler/kept_code.hpp"

#include <sys/socket.h>

#include <exception>
#include <span>
#include <utility>

#include "userspace/compiler/sealed_memory.hpp"
#include "userspace/kernel/descriptors.hpp"

namespace xdpgpu::compiler {
namespace {

// With a descriptor: what is to be kept. Without one: it was used.
struct Note {
  u32 magic;
  ArtifactId id;
};
static_assert(sizeof(Note) == 36);
constexpr u32 kMagic = 0x6b706778;  // "xgpk"

// Messages at a time: who writes them has other work, too.
constexpr int kMostNotes = 64;

bool send(int socket, const ArtifactId& id, std::span<const int> memory) noexcept {
  const Note note{kMagic, id};
  return kernel::send_with(socket, std::as_bytes(std::span(&note, 1)), memory, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

KeptCode::KeptCode(const DiskCache& folder, kernel::Fd socket) : socket_(std::move(socket)) {
  for (const ArtifactId& id : folder.ids())
    if (const auto content = folder.find(id, DiskCache::Use::none)) {
      const auto* const bytes = reinterpret_cast<const char*>(content->data());
      found_.emplace(id, std::make_shared<const std::vector<char>>(bytes, bytes + content->size()));
    }
}

KeptCode::Code KeptCode::find(const ArtifactId& id) const noexcept {
  const auto at = found_.find(id);
  if (at == found_.end()) return nullptr;
  (void)send(socket_.get(), id, {});
  return at->second;
}

void KeptCode::keep(const ArtifactId& id, const std::vector<char>& code) const noexcept try {
  if (!socket_) return;
  MemoryWriter to("xdpgpu-code");
  to.write(std::as_bytes(std::span(code)));
  const auto memory = to.seal();
  if (!memory) return;
  const int fd = memory->get();
  (void)send(socket_.get(), id, std::span(&fd, 1));
} catch (const std::exception&) {
  return;
}

tl::expected<void, std::string> keep_what_came(int socket, const DiskCache& folder) {
  for (int i = 0; i < kMostNotes; i++) {
    std::byte none{};
    if (recv(socket, &none, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) return {};
    Note note{};
    const auto arrived = kernel::receive_with(socket, std::as_writable_bytes(std::span(&note, 1)));
    if (arrived.length != sizeof(note) || !arrived.whole || note.magic != kMagic ||
        arrived.descriptors.size() > 1)
      return tl::unexpected(std::string("the compiler of programs sent something else than code"));
    if (arrived.descriptors.empty()) {
      (void)folder.find(note.id);
      continue;
    }
    const auto memory = SealedMemory::map(arrived.descriptors.front(), KeptCode::kMost);
    if (!memory) return tl::unexpected("code of programs is not kept: " + memory.error());
    if (auto kept = folder.keep(note.id, memory->bytes()); !kept) return kept;
  }
  return {};
}

}  // namespace xdpgpu::compiler
