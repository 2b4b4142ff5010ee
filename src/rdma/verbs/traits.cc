#include "rdma/verbs/traits.h"

#include <fmt/core.h>

#include <algorithm>

namespace penstock::rdma::verbs {
namespace {

constexpr uint32_t kSendQueue = 256;
constexpr uint32_t kLeastReceives = 512;
// Wire formats have 32 bits for a length. No transfer of ours needs that much in one request.
constexpr uint32_t kMaxTransfer = 1u << 30;

}  // namespace

std::string_view ToString(Transport transport) {
  switch (transport) {
    case Transport::kInfiniBand:
      return "InfiniBand";
    case Transport::kRoce:
      return "RoCE";
    case Transport::kIwarp:
      return "iWARP";
  }
  return "";
}

QueueSizes SizesFor(const Traits& traits, uint32_t receives) {
  QueueSizes sizes;
  sizes.send = std::min(kSendQueue, traits.max_work_requests);
  sizes.receive = std::min(std::max(kLeastReceives, 2 * receives), traits.max_work_requests);
  sizes.completion = std::min(sizes.send + sizes.receive, traits.max_completions);
  // An overflow of the completion queue breaks the connection, so the queue has room for all requests.
  sizes.receive = std::min(sizes.receive, sizes.completion - std::min(sizes.completion, sizes.send));
  return sizes;
}

Limits LimitsFor(const Traits& traits) {
  Limits limits;
  limits.max_message = limits.max_transfer = std::min(traits.max_message, kMaxTransfer);
  limits.file_data = false;
  return limits;
}

size_t MaxPrivateData(Transport transport, CmMessage message) {
  // RFC 5044 §7.1 allows 512 octets and RFC 6581 uses 4 of them, but librdmacm has one octet for the length.
  if (transport == Transport::kIwarp) return 251;
  switch (message) {
    case CmMessage::kRequest:
      return 56;  // 92, less the header with the IP addresses (InfiniBand Architecture, annex A11)
    case CmMessage::kReply:
      return 196;
    case CmMessage::kReject:
      return 148;
  }
  return 0;
}

ReadDepths OfferedDepths(const Traits& traits, ReadDepths wanted) {
  return {.ird = std::min(wanted.ird, traits.max_ird), .ord = std::min(wanted.ord, traits.max_ord)};
}

ReadDepths AgreedDepths(const Traits& traits, ReadDepths wanted, ReadDepths theirs) {
  const ReadDepths ours = OfferedDepths(traits, wanted);
  // On iWARP a peer may refuse the connection if our IRD is below its ORD (RFC 6581 §9.1). Linux's software iWARP
  // serves the peer's Reads for any value of our IRD.
  const uint16_t served = traits.transport == Transport::kIwarp ? traits.max_ird : ours.ird;
  return {.ird = std::min(served, theirs.ord), .ord = std::min(ours.ord, theirs.ird)};
}

std::string Describe(const Traits& traits) {
  const bool windows = ExposureFor(traits) == Exposure::kWindow;
  return fmt::format("{}: {}, port {}; memory for a peer: {}; {} octets in a message, {} pieces; IRD {}, ORD {}",
                     traits.name, ToString(traits.transport), traits.port_active ? "active" : "down",
                     windows ? fmt::format("type 2 windows ({})", traits.max_windows) : "a registration for each call",
                     traits.max_message, traits.max_sge, traits.max_ird, traits.max_ord);
}

}  // namespace penstock::rdma::verbs
