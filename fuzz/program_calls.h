// For fuzz targets that make calls of an RPC program: the reply of a call, and its results.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "input.h"
#include "rpc/dispatch.h"
#include "rpc/header.h"
#include "xdr/decode.h"

namespace penstock::fuzz {

[[noreturn]] inline void Die(std::string_view procedure, std::string_view what) {
  Die((std::string(procedure) + ": " + std::string(what)).c_str());
}

// Executes a call that waits for nothing. A call that does not end is an error.
inline rpc::Message Answer(rpc::CallHandler& handler, rpc::Message call, const rpc::Peer& peer) {
  std::optional<rpc::Message> reply;
  Spawn([](rpc::CallHandler& by, rpc::Message executed, const rpc::Peer& from,
           std::optional<rpc::Message>& to) -> Task<> {
    to.emplace(co_await by.HandleCall(std::move(executed), from));
  }(handler, std::move(call), peer, reply));
  if (!reply) Die("a call", "did not end");
  return *std::move(reply);
}

// Returns the results of a procedure, which view `reply`; nothing if the arguments were garbage. Any other reply is an
// error.
template <class Procedure>
std::optional<typename Procedure::Results> ResultsOf(const rpc::Message& reply) {
  xdr::Decoder decoder(reply);
  rpc::ReplyHeader header;
  if (!rpc::DecodeReplyHeader(decoder, header) || !header.body.is_areply()) Die(Procedure::kName, "no reply");
  const auto status = header.body.areply().reply_data.discriminant();
  if (status == rpc::AcceptStatus::GARBAGE_ARGS) return std::nullopt;
  if (status != rpc::AcceptStatus::SUCCESS) Die(Procedure::kName, "not executed");
  typename Procedure::Results results{};
  if (!xdr::Decode(decoder, results) || !decoder.Finish()) Die(Procedure::kName, "undecodable results");
  return results;
}

}  // namespace penstock::fuzz
