// The replies of a client to callbacks, for fuzz targets.
#pragma once

#include <optional>
#include <utility>

#include "input.h"
#include "protocol/nfs4_compound.h"
#include "rpc/dispatch.h"
#include "xdr/decode.h"

namespace penstock::fuzz {

// Returns the reply to a callback. There must be one.
inline rpc::Message Ask(rpc::Dispatcher& client, const rpc::Message& call, const rpc::Peer& server) {
  std::optional<rpc::Message> reply;
  Spawn([](rpc::Dispatcher& to, rpc::Message message, const rpc::Peer& from, auto& answer) -> Task<void> {
    answer = co_await to.HandleCall(std::move(message), from);
  }(client, call, server, reply));
  if (!reply || reply->empty()) Die("no reply");
  return *std::move(reply);
}

// Decodes a reply up to the first result of its CB_COMPOUND. Returns false if the call was refused, or has no results.
inline bool DecodeHead(xdr::Decoder& reply) {
  rpc::ReplyHeader header;
  if (!rpc::DecodeReplyHeader(reply, header)) Die("the reply cannot be decoded");
  if (header.body.areply().reply_data.discriminant() != rpc::AcceptStatus::SUCCESS) return false;
  nfs4::CB_COMPOUND4res_head head;
  if (!xdr::Decode(reply, head)) Die("results without a head");
  return head.count > 0;
}

}  // namespace penstock::fuzz
