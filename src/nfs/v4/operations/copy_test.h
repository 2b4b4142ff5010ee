// What the tests of COPY share.
#pragma once

#include "nfs/v4/engine/nfs4_test.h"
#include "nfs/v4/state/clients/test_clients.h"
#include "protocol/nfs4.h"

namespace penstock::nfs::v4 {

// A synchronous COPY within the server, under the anonymous stateid.
inline nfs4::COPY4args CopyArguments(uint64_t from, uint64_t to, uint64_t count) {
  return {.ca_src_stateid = {},
          .ca_dst_stateid = {},
          .ca_src_offset = from,
          .ca_dst_offset = to,
          .ca_count = count,
          .ca_consecutive = true,
          .ca_synchronous = true,
          .ca_source_server = {}};
}

// Gives the session a backchannel, so that the server can report the end of a copy.
inline void GiveBackChannel(Nfs4Server& server, const SessionId& session) {
  const auto channel = std::make_shared<TestBackChannel>(server.buffers);
  EXPECT_TRUE(server.state.Run(
      [&](StateTables& state) { return state.sessions.Bind(session, {99, channel}, CDFC4_BACK, {}); }));
}

}  // namespace penstock::nfs::v4
