#include "rdma/iwarp/mpa_negotiation.h"

#include <algorithm>

namespace penstock::rdma::iwarp {
namespace {

constexpr uint16_t kNoNegotiation = EnhancedData::kNoNegotiation;

uint16_t Depth(uint16_t wanted) { return std::min<uint16_t>(wanted, kNoNegotiation - 1); }

// Chooses the cheapest indication that both sides support. A Write uses no resource of the responder, a Read uses one
// of its IRD, and a Send uses a message number.
std::optional<Rtr> ChooseRtr(const RtrKinds& ours, const RtrKinds& theirs) {
  if (ours.write && theirs.write) return Rtr::kWrite;
  if (ours.read && theirs.read) return Rtr::kRead;
  if (ours.send && theirs.send) return Rtr::kSend;
  return std::nullopt;
}

// Makes the fields that accepting and rejecting replies have in common.
MpaFrame MakeReply(const MpaPreferences& preferences, const MpaFrame& request, std::vector<std::byte> private_data) {
  MpaFrame reply;
  reply.kind = MpaFrame::Kind::kReply;
  reply.revision = request.revision;
  reply.markers = preferences.markers;
  reply.crc = preferences.crc || request.crc;
  reply.private_data = std::move(private_data);
  return reply;
}

}  // namespace

std::optional<ReadDepths> DepthsOf(const MpaFrame& frame) {
  if (!frame.enhanced || (frame.enhanced->ird == kNoNegotiation && frame.enhanced->ord == kNoNegotiation)) return {};
  return ReadDepths{frame.enhanced->ird, frame.enhanced->ord};
}

MpaFrame MakeRequest(const MpaPreferences& preferences, std::vector<std::byte> private_data) {
  MpaFrame request;
  request.revision = preferences.revision;
  request.markers = preferences.markers;
  request.crc = preferences.crc;
  if (preferences.revision >= 2) {
    EnhancedData data;
    data.peer_to_peer = preferences.peer_to_peer;
    if (data.peer_to_peer) data.rtr = preferences.rtr;
    data.ird = Depth(preferences.ird);
    data.ord = Depth(preferences.ord);
    request.enhanced = data;
  }
  request.private_data = std::move(private_data);
  return request;
}

Result<MpaAgreement, MpaRefusal> HandleReply(const MpaPreferences& preferences, const MpaFrame& request,
                                             const MpaFrame& reply) {
  MpaAgreement agreement;
  // RFC 5044 §7.1.1: check values are used in both directions if either side asks for them.
  agreement.crc = request.crc || reply.crc;
  agreement.send_markers = reply.markers;
  agreement.receive_markers = request.markers;
  agreement.ird = preferences.ird;
  agreement.ord = preferences.ord;
  // RFC 6581 §10: with a peer without the enhancements, the upper layers negotiate the depths.
  if (!request.enhanced || !reply.enhanced) return agreement;

  const EnhancedData& theirs = *reply.enhanced;
  if (theirs.ird != kNoNegotiation) agreement.ord = std::min(agreement.ord, theirs.ird);
  // RFC 6581 §9.1: the initiator's IRD must be at least the responder's ORD. The IRD of the request is our maximum.
  if (theirs.ord != kNoNegotiation && theirs.ord > request.enhanced->ird) {
    return std::unexpected(MpaRefusal{terminate::kInsufficientIrd, agreement});
  }
  // RFC 6581 §9.2
  if (request.enhanced->peer_to_peer && theirs.peer_to_peer) {
    agreement.send_rtr = ChooseRtr(request.enhanced->rtr, theirs.rtr);
    if (!agreement.send_rtr) return std::unexpected(MpaRefusal{terminate::kNoMatchingRtr, agreement});
    // §9.1: the responder serves this Read even if the request asked for no Reads.
    if (agreement.send_rtr == Rtr::kRead) agreement.ord = std::max<uint16_t>(agreement.ord, 1);
  }
  return agreement;
}

MpaAnswer AcceptRequest(const MpaPreferences& preferences, const MpaFrame& request,
                        std::vector<std::byte> private_data) {
  MpaAnswer answer;
  answer.reply = MakeReply(preferences, request, std::move(private_data));
  MpaAgreement& agreement = answer.agreement;
  agreement.crc = answer.reply.crc;
  agreement.send_markers = request.markers;
  agreement.receive_markers = answer.reply.markers;
  agreement.ird = preferences.ird;
  agreement.ord = preferences.ord;
  if (!request.enhanced) return answer;

  const EnhancedData& theirs = *request.enhanced;
  EnhancedData ours;
  ours.peer_to_peer = theirs.peer_to_peer;
  if (ours.peer_to_peer) {
    ours.rtr = {theirs.rtr.send && preferences.rtr.send, theirs.rtr.write && preferences.rtr.write,
                theirs.rtr.read && preferences.rtr.read};
    // RFC 6581 §9.2: without an indication in common, the reply names the ones of the responder.
    if (ours.rtr.empty()) ours.rtr = preferences.rtr;
  }
  agreement.absorb_rtr_send = ours.rtr.send;

  // RFC 6581 §9.1
  if (theirs.ord == kNoNegotiation) {
    ours.ird = kNoNegotiation;
  } else {
    const uint16_t needed = std::max<uint16_t>(theirs.ord, ours.rtr.read ? 1 : 0);
    agreement.ird = std::min(std::max<uint16_t>(Depth(preferences.ird), ours.rtr.read ? 1 : 0), needed);
    ours.ird = agreement.ird;
  }
  if (theirs.ird == kNoNegotiation) {
    ours.ord = kNoNegotiation;
  } else {
    agreement.ord = std::min(Depth(preferences.ord), theirs.ird);
    ours.ord = agreement.ord;
  }
  answer.reply.enhanced = ours;
  return answer;
}

MpaFrame RejectRequest(const MpaPreferences& preferences, const MpaFrame& request,
                       std::vector<std::byte> private_data) {
  MpaFrame reply = MakeReply(preferences, request, std::move(private_data));
  reply.rejected = true;
  // RFC 6581 §10: the answer to an enhanced request is enhanced, a rejection too. Its depths are the ones that we ask
  // for.
  if (request.enhanced) {
    EnhancedData ours;
    ours.peer_to_peer = request.enhanced->peer_to_peer;
    if (ours.peer_to_peer) ours.rtr = preferences.rtr;
    ours.ird = Depth(preferences.ird);
    ours.ord = Depth(preferences.ord);
    reply.enhanced = ours;
  }
  return reply;
}

}  // namespace penstock::rdma::iwarp
