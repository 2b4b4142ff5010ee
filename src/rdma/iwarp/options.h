// What whoever sets up the provider may choose.
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

struct Options {
  // Ask for check values. RFC 5044 §4.4 has this on unless the administrator says otherwise; off, they are used only with
  // peers that ask for them, and files are sent without a copy.
  bool crc = true;
  // Have the peer send markers. They are of no use to us, who get the stream in order, and cost direct placement.
  bool markers = false;
  // MPA revision to ask for as initiator: 2, or 1 for peers without RFC 6581.
  uint8_t revision = 2;
  // RFC 6581 §10: a peer that closes on a revision 2 request is tried again with revision 1.
  bool fall_back_to_revision_1 = true;
  // As initiator ask for the peer-to-peer model and open with one of these; as responder accept these.
  bool peer_to_peer = false;
  RtrKinds rtr = {.send = true, .write = true, .read = true};
  // See Outbound::Options.
  size_t max_ulpdu = kMaxUlpdu;

  Duration connect_timeout = std::chrono::seconds(10);  // for TCP alone; ConnectOptions::time_limit is for MPA as well
  Duration request_timeout = std::chrono::seconds(5);   // for a peer's MPA request to come in
  Duration close_timeout = std::chrono::seconds(2);  // for the peer to take what is left, and again to close its half
  // A message that the peer has begun to send, octets of ours that it has yet to take, and a Read that it has yet to answer:
  // when there is nothing new of one of them for this long (up to a quarter more), the connection is ended.
  Duration stall_limit = std::chrono::seconds(60);
  // See RdmapStream::unanswered(); the first of a few, each after four times as long.
  Duration nudge_after = std::chrono::milliseconds(50);
  // Peers that have connected but not yet asked, or that nobody has taken yet. Where there is one too many, the host that has
  // most of them loses its oldest (PendingPeers). At least one.
  size_t max_pending = 256;
  // Told where a listener has no descriptor for a peer. Null: one of its own.
  std::shared_ptr<DescriptorShortage> shortage{};
};

}  // namespace penstock::rdma::iwarp
