// What the tests of COPY share.
#pragma once

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

}  // namespace penstock::nfs::v4
