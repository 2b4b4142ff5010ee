// The meaning of an adapter's completion that reports an error: why the connection ends, and with which status the request does.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "rdma/endpoint.h"

namespace penstock::rdma::verbs {

struct CompletionError {
  DisconnectReason reason = DisconnectReason::kFault;
  Status status = Status::kLocalError;
};

// Of a request on the send queue. `status` is not IBV_WC_SUCCESS. Returns nothing for a request that the adapter has flushed: the
// connection has ended for a reason that the adapter reports elsewhere.
std::optional<CompletionError> ErrorOfSend(ibv_wc_status status);
// The same for a posted receive.
std::optional<CompletionError> ErrorOfReceive(ibv_wc_status status);

}  // namespace penstock::rdma::verbs
