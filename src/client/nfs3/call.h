// One procedure of version 3, called.
#pragma once

#include <string_view>

#include "client/error.h"
#include "client/set_up.h"
#include "nfs_protocol/nfs3_reply_bounds.h"
#include "protocol/nfs3.h"
#include "rpc/client.h"

namespace penstock::client::v3 {

// A status other than NFS3_OK is an Error that names `what` (a path, say). `destination`: where the DDP-eligible result
// is to go, if anywhere; over RDMA it is placed there directly, over TCP it must be copied.
template <class Procedure>
Task<Result<rpc::Reply<typename Procedure::Results>>> Call(rpc::Client& client,
                                                           const typename Procedure::Arguments& arguments,
                                                           std::string_view what, Bytes destination = {}) {
  auto reply =
      co_await client.Call<Procedure>(arguments, nfs_protocol::ReplyBoundsOf<Procedure>(arguments, destination));
  if (!reply) co_return std::unexpected(ErrorOf(reply.error(), what));
  if (const nfs3::nfsstat3 status = reply->results.status(); status != nfs3::nfsstat3::NFS3_OK) {
    co_return std::unexpected(ErrorOf(static_cast<Status>(status), what));
  }
  co_return *std::move(reply);
}

}  // namespace penstock::client::v3
