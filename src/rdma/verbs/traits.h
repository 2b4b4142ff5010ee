// The abilities and limits of an RDMA device, and the decisions that follow from them. These are pure functions, so
// tests need no device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rdma/endpoint.h"

namespace penstock::rdma::verbs {

enum class Transport : uint8_t { kInfiniBand, kRoce, kIwarp };

std::string_view ToString(Transport transport);

struct Traits {
  std::string name;
  Transport transport = Transport::kInfiniBand;
  uint32_t max_work_requests = 0;  // in one queue
  uint32_t max_sge = 0;            // pieces in one Send or Write
  uint32_t max_completions = 0;    // in one completion queue
  uint32_t max_windows = 0;
  bool windows_type_2 = false;  // requests of the send queue bind them; such a request or the peer invalidates them
  // The device is Linux's software RoCE (rxe). A window there gives access to the whole registration under it, not only
  // to the range that it is bound to. A completion reports an invalidation with the kernel's flag instead of
  // libibverbs's.
  bool software_roce = false;
  uint32_t max_message = 0;
  uint16_t max_ird = 0;
  uint16_t max_ord = 0;
  bool port_active = false;
};

// The way in which a peer gets access to our memory for the time of one RPC.
enum class Exposure : uint8_t {
  // A type 2 memory window over memory that is registered for local access only. A window belongs to one queue pair.
  kWindow,
  // A registration for remote access. It belongs to a protection domain, so each connection has its own domain:
  // otherwise other connections could use the registration.
  kRegistration,
};
inline Exposure ExposureFor(const Traits& traits) {
  return traits.windows_type_2 && traits.max_windows > 0 ? Exposure::kWindow : Exposure::kRegistration;
}
// Returns true if a peer's Send may invalidate a region. A peer cannot invalidate an ordinary registration (InfiniBand
// Architecture §10.6.7.2), and no completion would report it.
inline bool RemoteInvalidation(const Traits& traits) { return ExposureFor(traits) == Exposure::kWindow; }
// Returns true if a window limits access to its own range, so that it may lie over a larger registration.
inline bool WindowsAreBounds(const Traits& traits) { return !traits.software_roce; }
// Returns true if the sink of a Read must allow remote access. On iWARP the peer writes its answer to a Read through a
// steering tag of ours (RFC 5040 §5.2).
inline bool ReadSinkIsExposed(const Traits& traits) { return traits.transport == Transport::kIwarp; }

// The sizes of the queues of one connection.
struct QueueSizes {
  uint32_t send = 0;
  uint32_t receive = 0;
  uint32_t completion = 0;
};
// `receives`: the number of receives posted at set-up. More may follow, for a back channel or for more credits.
QueueSizes SizesFor(const Traits& traits, uint32_t receives);

Limits LimitsFor(const Traits& traits);

// The private data that a message of the connection manager can carry, in octets. On InfiniBand and RoCE the field has
// a fixed size: the peer sees the data padded with zeros.
enum class CmMessage : uint8_t { kRequest, kReply, kReject };
size_t MaxPrivateData(Transport transport, CmMessage message);

// The depths that the connecting side asks for.
ReadDepths OfferedDepths(const Traits& traits, ReadDepths wanted);
// The depths that the accepting side agrees to: no more Reads than each side serves. `theirs`: the depths that the peer
// has asked for.
ReadDepths AgreedDepths(const Traits& traits, ReadDepths wanted, ReadDepths theirs);

// One line for the user that says how Penstock would use the device.
std::string Describe(const Traits& traits);

}  // namespace penstock::rdma::verbs
