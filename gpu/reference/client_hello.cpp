// SPDX-License-Identifier: MIT
#include "gpu/reference/client_hello.hpp"

#include "gpu/signatures.hpp"

namespace xdpgpu::gpu::reference {
namespace {

constexpr u8 kChangeCipher = 20, kHandshake = 22, kClientHello = 1, kMajor = 3;
constexpr std::size_t kRecord = 5, kMessage = 4, kVersionAndRandom = 34;

// A message's bytes, of which some may be asked for that are not there.
class Parts {
 public:
  explicit Parts(std::string_view bytes) : bytes_(bytes) {}
  bool fits() const { return fits_; }
  bool empty() const { return bytes_.empty(); }
  std::string_view take(std::size_t bytes) {
    if (bytes > bytes_.size()) fits_ = false;
    if (!fits_) return {};
    const std::string_view taken = bytes_.substr(0, bytes);
    bytes_.remove_prefix(bytes);
    return taken;
  }
  std::size_t number(std::size_t bytes) {
    std::size_t value = 0;
    for (const char byte : take(bytes)) value = value << 8 | static_cast<u8>(byte);
    return value;
  }
  // What stands behind its own length.
  std::string_view sized(std::size_t bytes) { return take(number(bytes)); }

 private:
  std::string_view bytes_;
  bool fits_ = true;
};

std::optional<std::string> host_name(std::string_view extension) {
  Parts parts(extension);
  parts.take(2);  // the list's length
  const bool is_host = parts.number(1) == 0;
  std::string_view name = parts.sized(2);
  if (!parts.fits() || !is_host || name.empty() || name.size() > signatures::kMostServerName)
    return std::nullopt;
  return std::string(name.substr(0, name.find('\0')));
}

std::optional<std::string> server_name(std::string_view hello) {
  Parts parts(hello);
  parts.take(kVersionAndRandom);
  parts.sized(1);  // session
  parts.sized(2);  // cipher suites
  parts.sized(1);  // compression methods
  Parts extensions(parts.sized(2));
  if (!parts.fits()) return std::nullopt;
  while (extensions.fits() && !extensions.empty()) {
    const std::size_t type = extensions.number(2);
    const std::string_view extension = extensions.sized(2);
    if (extensions.fits() && type == 0 && !extension.empty()) return host_name(extension);
  }
  return std::nullopt;
}

}  // namespace

ClientHello read_client_hello(std::string_view text) {
  using State = ClientHello::State;
  const auto byte = [&](std::size_t at) { return static_cast<u8>(text[at]); };
  std::string handshakes;
  for (;;) {
    const auto said = [&](std::size_t at) { return static_cast<u8>(handshakes[at]); };
    if (!handshakes.empty() && said(0) != kClientHello) return {State::none, {}};
    if (handshakes.size() >= kMessage) {
      const std::size_t bytes = std::size_t{said(1)} << 16 | std::size_t{said(2)} << 8 | said(3);
      if (handshakes.size() - kMessage >= bytes)
        return {State::whole, server_name(std::string_view(handshakes).substr(kMessage, bytes))};
    }
    if (text.size() < kRecord) return {State::cut, {}};
    const u8 type = byte(0);
    if (byte(1) != kMajor || type < kChangeCipher || type > kHandshake) return {State::none, {}};
    const std::size_t bytes = std::size_t{byte(3)} << 8 | byte(4);
    const std::string_view record = text.substr(kRecord, bytes);
    if (type == kHandshake)
      handshakes += record;
    else if (record.size() < bytes)
      return {State::cut, {}};
    text.remove_prefix(kRecord + record.size());
    // The rest of the record is not there.
    if (record.size() < bytes) text = {};
  }
}

}  // namespace xdpgpu::gpu::reference
