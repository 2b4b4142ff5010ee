// Calls one procedure of version 3.
#pragma once

#include <concepts>
#include <string_view>

#include "base/log.h"
#include "base/pauses.h"
#include "base/timer.h"
#include "client/error.h"
#include "client/retries.h"
#include "client/set_up.h"
#include "nfs_protocol/nfs3_reply_bounds.h"
#include "protocol/nfs3.h"
#include "rpc/client.h"

namespace penstock::client::v3 {

// The parts of a mount that its calls share. The client and the timers outlive it.
struct Caller {
  rpc::Client& client;
  TimerService& timers;
  // How long the client repeats a call that the server delays (NFS3ERR_JUKEBOX).
  Duration give_up_after;
  // Ends the waits between calls.
  Cancellation* ending = nullptr;
  // Refuse calls that change files.
  bool read_only = false;
};

// Whether the procedure changes files or their names.
template <class Procedure>
inline constexpr bool kChangesFiles =
    std::same_as<Procedure, nfs3::NFSPROC3_SETATTR> || std::same_as<Procedure, nfs3::NFSPROC3_WRITE> ||
    std::same_as<Procedure, nfs3::NFSPROC3_CREATE> || std::same_as<Procedure, nfs3::NFSPROC3_MKDIR> ||
    std::same_as<Procedure, nfs3::NFSPROC3_SYMLINK> || std::same_as<Procedure, nfs3::NFSPROC3_MKNOD> ||
    std::same_as<Procedure, nfs3::NFSPROC3_REMOVE> || std::same_as<Procedure, nfs3::NFSPROC3_RMDIR> ||
    std::same_as<Procedure, nfs3::NFSPROC3_RENAME> || std::same_as<Procedure, nfs3::NFSPROC3_LINK>;

// A status other than NFS3_OK becomes an Error that begins with `what`, for example a path. `destination` is the place
// for the DDP-eligible result: RDMA places it there directly; after a call over TCP the caller must copy it.
//
// After NFS3ERR_JUKEBOX the client waits and sends the call again with another XID (RFC 1813 §2.6).
template <class Procedure>
Task<Result<rpc::Reply<typename Procedure::Results>>> Call(const Caller& caller,
                                                           const typename Procedure::Arguments& arguments,
                                                           std::string_view what, Bytes destination = {}) {
  if (kChangesFiles<Procedure> && caller.read_only) co_return std::unexpected(ReadOnly(what));
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
    log::debug("{}: the client tries again later", error.message);
    co_await Pause(caller.timers, retries.NextDelay(), caller.ending);
  }
}

}  // namespace penstock::client::v3
