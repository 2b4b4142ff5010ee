// One procedure of version 3, called.
#pragma once

#include <string_view>

#include "base/log.h"
#include "base/signal.h"
#include "base/timer.h"
#include "client/error.h"
#include "client/retries.h"
#include "client/set_up.h"
#include "nfs_protocol/nfs3_reply_bounds.h"
#include "protocol/nfs3.h"
#include "rpc/client.h"

namespace penstock::client::v3 {

// What the calls of one mount share. The client and the timers outlive it.
struct Caller {
  rpc::Client& client;
  TimerService& timers;
  // How long a call is repeated that the server puts off.
  Duration give_up_after;
};

// A status other than NFS3_OK is an Error that names `what` (a path, say). `destination`: where the DDP-eligible result
// is to go, if anywhere; over RDMA it is placed there directly, over TCP it must be copied.
//
// After NFS3ERR_JUKEBOX the call is repeated some time later, with another XID (RFC 1813 §2.6).
template <class Procedure>
Task<Result<rpc::Reply<typename Procedure::Results>>> Call(const Caller& caller,
                                                           const typename Procedure::Arguments& arguments,
                                                           std::string_view what, Bytes destination = {}) {
  Retries retries(caller.timers.Now() + caller.give_up_after);
  for (;;) {
    auto reply = co_await caller.client.template Call<Procedure>(
        arguments, nfs_protocol::ReplyBoundsOf<Procedure>(arguments, destination));
    if (!reply) co_return std::unexpected(ErrorOf(reply.error(), what));
    const nfs3::nfsstat3 status = reply->results.status();
    if (status == nfs3::nfsstat3::NFS3_OK) co_return *std::move(reply);
    Error error = ErrorOf(static_cast<Status>(status), what);
    if (status != nfs3::nfsstat3::NFS3ERR_JUKEBOX || caller.timers.Now() >= retries.give_up) {
      co_return std::unexpected(std::move(error));
    }
    log::debug("{}: the server puts it off", error.message);
    co_await Sleep(caller.timers, retries.NextDelay());
  }
}

}  // namespace penstock::client::v3
