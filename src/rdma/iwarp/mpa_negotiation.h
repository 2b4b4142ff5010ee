// The negotiation of initiator and responder before the first FPDU: MPA revision, markers, check values, read depths
// and the readiness indication (RFC 5044 §7.1.2, RFC 6581 §9). The functions turn preferences and frames into an
// agreement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rdma/endpoint.h"
#include "rdma/iwarp/mpa_frame.h"
#include "rdma/iwarp/terminate.h"

namespace penstock::rdma::iwarp {

enum class Rtr : uint8_t { kSend, kWrite, kRead };

// The preferences of this side.
struct MpaPreferences {
  uint8_t revision = 2;
  bool crc = true;
  bool markers = false;  // in the received stream
  // Initiator: ask for the peer-to-peer model and one of these indications. Responder: the indications that it accepts.
  bool peer_to_peer = false;
  RtrKinds rtr = {.send = true, .write = true, .read = true};
  uint16_t ird = 16;
  uint16_t ord = 16;
};

// The agreement of both sides, from the view of this side.
struct MpaAgreement {
  bool crc = true;
  bool send_markers = false;
  bool receive_markers = false;
  uint16_t ird = 0;
  uint16_t ord = 0;
  // Initiator: the readiness indication to send first. Responder: never set.
  std::optional<Rtr> send_rtr = {};
  // Responder: the first message of the peer may be a zero-length Send that is only an indication and uses no receive.
  bool absorb_rtr_send = false;
  bool operator==(const MpaAgreement&) const = default;
};

// The depths of the sender of a frame. Returns nullopt if the frame has none, or leaves them to the upper layers.
std::optional<ReadDepths> DepthsOf(const MpaFrame& frame);

MpaFrame MakeRequest(const MpaPreferences& preferences, std::vector<std::byte> private_data);

// The reason why an initiator refuses an accepting reply. RFC 6581 requires a Terminate to the peer.
struct MpaRefusal {
  TerminateCode code;
  MpaAgreement agreement;  // the framing of the Terminate
};

// Evaluates the reply to `request`. Requires a reply that does not reject the connection.
Result<MpaAgreement, MpaRefusal> HandleReply(const MpaPreferences& preferences, const MpaFrame& request,
                                             const MpaFrame& reply);

struct MpaAnswer {
  MpaFrame reply;
  MpaAgreement agreement;
};
// Makes the reply that accepts `request`, and the agreement.
MpaAnswer AcceptRequest(const MpaPreferences& preferences, const MpaFrame& request,
                        std::vector<std::byte> private_data);
// Makes the reply that rejects `request`.
MpaFrame RejectRequest(const MpaPreferences& preferences, const MpaFrame& request, std::vector<std::byte> private_data);

}  // namespace penstock::rdma::iwarp
