#include "rdma/trace/tcp_stream.h"

#include <algorithm>
#include <cassert>

#include "base/bytes.h"

namespace penstock::rdma::trace {
namespace {

constexpr size_t kEthernetSize = 14;
constexpr size_t kIpv4Size = 20;
constexpr size_t kIpv6Size = 40;
constexpr size_t kTcpSize = 20;
constexpr uint8_t kProtocolTcp = 6;
constexpr uint8_t kHopLimit = 64;
// The options of a SYN: the maximum segment size (RFC 9293 §3.2), and the largest window scale (RFC 7323 §2), so that
// the window never seems full.
constexpr std::array<std::byte, 8> kSynOptions{std::byte{2}, std::byte{4}, std::byte{0xff}, std::byte{0xc3},
                                               std::byte{1}, std::byte{3}, std::byte{3},    std::byte{14}};

IpAddress AsV6(const IpAddress& address) {
  return address.is_v6() ? address : asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4());
}

// RFC 1071
uint16_t InternetChecksum(ConstBytes header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < header.size(); i += 2) sum += LoadBig<uint16_t>(&header[i]);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void PutAddress(std::byte* at, const auto& address) {
  std::memcpy(at, address.to_bytes().data(), address.to_bytes().size());
}

// RFC 791 §3.1
void PutIpv4(std::byte* at, const IpAddress& from, const IpAddress& to, size_t payload) {
  StoreBig<uint8_t>(at, 0x45);
  StoreBig(at + 2, static_cast<uint16_t>(kIpv4Size + payload));
  StoreBig<uint16_t>(at + 6, 0x4000);  // do not fragment
  StoreBig(at + 8, kHopLimit);
  StoreBig(at + 9, kProtocolTcp);
  PutAddress(at + 12, from.to_v4());
  PutAddress(at + 16, to.to_v4());
  StoreBig(at + 10, InternetChecksum({at, kIpv4Size}));
}

// RFC 8200 §3
void PutIpv6(std::byte* at, const IpAddress& from, const IpAddress& to, size_t payload) {
  StoreBig<uint8_t>(at, 0x60);
  StoreBig(at + 4, static_cast<uint16_t>(payload));
  StoreBig(at + 6, kProtocolTcp);
  StoreBig(at + 7, kHopLimit);
  PutAddress(at + 8, from.to_v6());
  PutAddress(at + 24, to.to_v6());
}

}  // namespace

TcpStream::TcpStream(const Address& client, const Address& server, uint32_t initial_sequence)
    : sides_{Side{client.address(), client.port(), initial_sequence},
             Side{server.address(), server.port(), ~initial_sequence}} {
  if (client.address().is_v4() && server.address().is_v4()) return;
  for (Side& each : sides_) each.address = AsV6(each.address);
}

void TcpStream::AppendHeaders(From from, uint8_t flags, size_t payload, std::vector<std::byte>& packet) {
  assert(payload <= kMaxPayload);
  Side& sender = side(from);
  const Side& receiver = side(Opposite(from));
  const bool v4 = sender.address.is_v4();
  const size_t options = flags & kSyn ? kSynOptions.size() : 0;
  const size_t ip_size = v4 ? kIpv4Size : kIpv6Size;
  const size_t begin = packet.size();
  packet.resize(begin + kEthernetSize + ip_size + kTcpSize + options);  // zeros

  std::byte* at = &packet[begin];
  StoreBig<uint16_t>(at + 12, v4 ? 0x0800 : 0x86dd);
  at += kEthernetSize;
  (v4 ? PutIpv4 : PutIpv6)(at, sender.address, receiver.address, kTcpSize + options + payload);
  at += ip_size;
  StoreBig(at, sender.port);
  StoreBig(at + 2, receiver.port);
  StoreBig(at + 4, sender.next);
  if (flags & kAck) StoreBig(at + 8, receiver.next);
  StoreBig(at + 12, static_cast<uint8_t>((kTcpSize + options) / 4 << 4));
  StoreBig(at + 13, flags);
  StoreBig<uint16_t>(at + 14, 0xffff);  // the window
  if (options > 0) std::ranges::copy(kSynOptions, at + kTcpSize);
  sender.next += static_cast<uint32_t>(payload + (flags & (kSyn | kFin) ? 1 : 0));
}

}  // namespace penstock::rdma::trace
