// The replies of persistent sessions in the store of a cluster: an object "replies-INSTANCE-SESSION" for each session.
//
//   0         8         12       16
//   +---------+---------+--------+
//   | "pnsrep1"|  slots | octets |                       the head
//   +---------+---------+--------+----------------- - -+
//   |  ReplyRecord, or nothing                         |  for each slot, `octets` long
//   +--------------------------------------------- - --+
//
// A server loads the sessions of its runs that have ended.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "nfs/v4/state/stable/reply_store.h"
#include "objects/store.h"

namespace penstock::cluster {

// `instance` is the run of this server, `ended` are those whose sessions are loaded. Fails if the store cannot be read.
// Blocks.
SetupResult<std::unique_ptr<nfs::v4::ReplyStore>> OpenReplyObjects(std::shared_ptr<objects::Store> store,
                                                                   uint32_t instance,
                                                                   const std::vector<uint32_t>& ended);

}  // namespace penstock::cluster
