// The replies of a world under exploration: one octet, the number of the request.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "server.h"
#include "xdr/message.h"

namespace penstock::explorer {

constexpr size_t kReplySize = 1;

// The memory of the replies lasts as long as the program.
inline std::optional<xdr::Message> ReplyOf(uint8_t request) {
  static constexpr auto kOctets = [] {
    std::array<std::byte, kMostRequests> octets{};
    for (size_t i = 0; i < octets.size(); ++i) octets[i] = std::byte(i);
    return octets;
  }();
  return xdr::Message::Whole(Slice::Borrowed(ConstBytes(kOctets).subspan(request, kReplySize)));
}

inline uint8_t RequestOf(const xdr::Message& reply) { return std::to_integer<uint8_t>(reply.stream.bytes()[0]); }

}  // namespace penstock::explorer
