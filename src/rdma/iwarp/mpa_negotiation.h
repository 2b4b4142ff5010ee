// What initiator and responder agree on before the first FPDU: revision, markers, check values, read depths, and who may
// speak first (RFC 5044 §7.1.2, RFC 6581 §9).
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

// What our side wants.
struct MpaPreferences {
  uint8_t revision = 2;
  bool crc = true;
  bool markers = false;  // in what we receive
  // As initiator: ask for the peer-to-peer model, with one of these. As responder: what we accept.
  bool peer_to_peer = false;
  RtrKinds rtr = {.send = true, .write = true, .read = true};
  uint16_t ird = 16;
  uint16_t ord = 16;
};

// What both sides have agreed on, as seen from ours.
struct MpaAgreement {
  bool crc = true;
  bool send_markers = false;
  bool receive_markers = false;
  uint16_t ird = 0;
  uint16_t ord = 0;
  // Initiator: the message with which we open. Responder: never set.
  std::optional<Rtr> send_rtr = {};
  // Responder: the peer may open with a zero-length Send that is meant for nobody.
  bool absorb_rtr_send = false;
  bool operator==(const MpaAgreement&) const = default;
};

// What a frame says of its sender; nothing where it says nothing, or leaves it to the upper layers.
std::optional<ReadDepths> DepthsOf(const MpaFrame& frame);

MpaFrame MakeRequest(const MpaPreferences& preferences, std::vector<std::byte> private_data);

// Why an initiator does not go on after a reply that accepts. RFC 6581 wants the peer to be told by a Terminate.
struct MpaRefusal {
  TerminateCode code;
  MpaAgreement agreement;  // under which the Terminate is sent
};

// Requires a reply that does not reject.
Result<MpaAgreement, MpaRefusal> HandleReply(const MpaPreferences& preferences, const MpaFrame& request,
                                             const MpaFrame& reply);

struct MpaAnswer {
  MpaFrame reply;
  MpaAgreement agreement;
};
MpaAnswer AcceptRequest(const MpaPreferences& preferences, const MpaFrame& request,
                        std::vector<std::byte> private_data);
MpaFrame RejectRequest(const MpaPreferences& preferences, const MpaFrame& request, std::vector<std::byte> private_data);

}  // namespace penstock::rdma::iwarp
