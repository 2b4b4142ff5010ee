// What a device can do, as far as we use it, and what follows from it. No device is needed for any of this.
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
  uint32_t max_sge = 0;            // pieces of one Send or Write
  uint32_t max_completions = 0;    // in one completion queue
  uint32_t max_windows = 0;
  bool windows_type_2 = false;  // bound by the send queue, and invalidated by it or by the peer
  // Linux' software RoCE. Its windows give access to all that they were bound over, whatever they were bound to; and it tells
  // of an invalidation by the flag that the kernel has for it, not by libibverbs'.
  bool software_roce = false;
  uint32_t max_message = 0;
  uint16_t max_ird = 0;
  uint16_t max_ord = 0;
  bool port_active = false;
};

// How a peer is let into memory of ours, for the time of one RPC.
enum class Exposure : uint8_t {
  // A type 2 memory window over memory that itself is registered for local access alone. It belongs to one queue pair.
  kWindow,
  // A registration of its own. Belongs to a protection domain: one for each connection, so that other connections do not
  // reach it.
  kRegistration,
};
inline Exposure ExposureFor(const Traits& traits) {
  return traits.windows_type_2 && traits.max_windows > 0 ? Exposure::kWindow : Exposure::kRegistration;
}
// An ordinary registration cannot be invalidated by a peer (InfiniBand Architecture §10.6.7.2), nor would we be told.
inline bool RemoteInvalidation(const Traits& traits) { return ExposureFor(traits) == Exposure::kWindow; }
// Whether a window may lie over registered memory that holds more than what is to be reached.
inline bool WindowsAreBounds(const Traits& traits) { return !traits.software_roce; }
// RFC 5040 §5.2: what a Read brings is written to a steering tag of ours, which must allow that.
inline bool ReadSinkIsExposed(const Traits& traits) { return traits.transport == Transport::kIwarp; }

// Queue sizes for one connection.
struct QueueSizes {
  uint32_t send = 0;
  uint32_t receive = 0;
  uint32_t completion = 0;
};
// `receives` are posted with the connection; more may follow (a back channel, more credits).
QueueSizes SizesFor(const Traits& traits, uint32_t receives);

Limits LimitsFor(const Traits& traits);

// How much private data a peer can be sent. On InfiniBand and RoCE the room has a fixed size, is padded with zeros, and the
// peer sees all of it.
enum class CmMessage : uint8_t { kRequest, kReply, kReject };
size_t MaxPrivateData(Transport transport, CmMessage message);

// What we ask for as the connecting side.
ReadDepths OfferedDepths(const Traits& traits, ReadDepths wanted);
// What the accepting side agrees to: no more Reads than the other serves or makes. `theirs` is what the peer has asked for.
ReadDepths AgreedDepths(const Traits& traits, ReadDepths wanted, ReadDepths theirs);

// One line for people, what Penstock would do with the device.
std::string Describe(const Traits& traits);

}  // namespace penstock::rdma::verbs
