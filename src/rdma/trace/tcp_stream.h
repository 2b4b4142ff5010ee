// The TCP connection that a trace invents. It makes the Ethernet, IP and TCP headers for octets that did not go over
// TCP, with consistent sequence numbers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/address.h"
#include "rdma/endpoint.h"

namespace penstock::rdma::trace {

enum class From : uint8_t { kClient, kServer };
constexpr From Opposite(From from) { return from == From::kClient ? From::kServer : From::kClient; }

class TcpStream {
 public:
  // RFC 9293 §3.1
  enum Flag : uint8_t { kFin = 1, kSyn = 2, kReset = 4, kPush = 8, kAck = 16 };
  // The octets that fit in one packet, for both versions of IP.
  static constexpr size_t kMaxPayload = 65535 - 40 - 20;

  TcpStream(const Address& client, const Address& server, uint32_t initial_sequence);

  // Appends Ethernet, IP and TCP headers. The caller then appends `payload` octets. Requires payload <= kMaxPayload.
  void AppendHeaders(From from, uint8_t flags, size_t payload, std::vector<std::byte>& packet);

 private:
  struct Side {
    IpAddress address;
    uint16_t port = 0;
    uint32_t next = 0;  // the sequence number of its next octet
  };
  Side& side(From from) { return sides_[static_cast<size_t>(from)]; }

  std::array<Side, 2> sides_;
};

}  // namespace penstock::rdma::trace
