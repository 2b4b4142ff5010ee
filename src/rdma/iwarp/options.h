// The options of the iWARP provider.
#pragma once

#include <chrono>
#include <memory>

#include "base/timer.h"
#include "rdma/iwarp/mpa.h"
#include "rdma/iwarp/mpa_frame.h"

namespace penstock {
class DescriptorShortage;
}

namespace penstock::rdma::iwarp {

// See rdma::Provider::inline_data(). An RDMA Read costs a round trip, which takes longer than the copy of 64 KiB; but a
// server cannot refuse the memory for calls that have credits.
constexpr uint32_t kInlineData = 16 << 10;

struct Options {
  // Ask for check values. RFC 5044 §4.4 requires this as the default. If it is off, check values are used only with
  // peers that ask for them, and files are sent without a copy.
  bool crc = true;
  // Ask the peer to send markers. They have no use here, because TCP delivers in order, and they prevent direct
  // placement.
  bool markers = false;
  // The MPA revision of requests: 2, or 1 for peers without RFC 6581.
  uint8_t revision = 2;
  // RFC 6581 §10: if the peer closes after a request of revision 2, try again with revision 1.
  bool fall_back_to_revision_1 = true;
  // Initiator: ask for the peer-to-peer model and send one of these indications first. Responder: accept these
  // indications.
  bool peer_to_peer = false;
  RtrKinds rtr = {.send = true, .write = true, .read = true};
  // See Outbound::Options.
  size_t max_ulpdu = kMaxUlpdu;

  Duration connect_timeout = std::chrono::seconds(10);  // for TCP set-up; ConnectOptions::time_limit includes MPA
  Duration request_timeout = std::chrono::seconds(5);   // for the MPA request of a peer
  // The time for the peer to receive the last octets, and again the time for it to close its half.
  Duration close_timeout = std::chrono::seconds(2);
  // The connection ends if the peer makes no progress for this time (up to a quarter more) with a message that it has
  // begun to send, with octets of this side that it must receive, or with a Read that it must answer.
  Duration stall_limit = std::chrono::seconds(60);
  // The delay of the first nudge (RdmapStream::unanswered()). Each of the few later nudges has four times the delay
  // before it.
  Duration nudge_after = std::chrono::milliseconds(50);
  // The maximum of peers whose request is incomplete or not yet taken by the consumer; at least one. If one peer too
  // many connects, the host with most of them loses its oldest (PendingPeers).
  size_t max_pending = 256;
  // A listener without a free descriptor reports to this object. If it is null, each listener has its own.
  std::shared_ptr<DescriptorShortage> shortage{};
};

}  // namespace penstock::rdma::iwarp
