// One call to a client over a connection that the client has made.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/task.h"
#include "nfs/v4/callback/wire.h"
#include "rpc/security_flavor.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

enum class LostCall : uint8_t {
  kRefused,   // the client did not execute the call
  kUnsent,    // the server did not send the call
  kNoAnswer,  // the client may have executed the call
};

// Makes the call, on the connection's loop. The arguments outlive the call.
inline Task<Result<CallbackAnswer, LostCall>> CallOver(rpc::BackChannel& channel, rpc::Xid xid,
                                                       const CallbackCall& call) {
  rpc::Message message = EncodeCallback(channel.buffers(), xid, call);
  rpc::ReplyShape shape = ShapeOfCallbackReply();
  Result<rpc::Message, rpc::CallError> reply;
  if (call.protection) {
    reply = co_await call.protection->Call(channel, std::move(message), std::move(shape));
  } else {
    reply = co_await channel.Call(std::move(message), std::move(shape));
  }
  if (!reply) {
    const bool unsent = reply.error() == rpc::CallError::kTooLarge || reply.error() == rpc::CallError::kNoContext;
    co_return std::unexpected(unsent ? LostCall::kUnsent : LostCall::kNoAnswer);
  }
  const auto answer = DecodeCallbackReply(*reply, xid, call);
  if (answer) co_return *answer;
  co_return std::unexpected(answer.error() == CallbackProblem::kRefused ? LostCall::kRefused : LostCall::kNoAnswer);
}

}  // namespace penstock::nfs::v4
