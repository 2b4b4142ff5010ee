// Translates the error of an adapter's completion: the reason for the end of the connection, and the status of the
// request.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "rdma/endpoint.h"

namespace penstock::rdma::verbs {

struct CompletionError {
  DisconnectReason reason = DisconnectReason::kFault;
  Status status = Status::kLocalError;
};

// Translates the status of a request of the send queue, which is not IBV_WC_SUCCESS. Returns nullopt for a request that
// the adapter has flushed: another event reports why the connection has ended.
std::optional<CompletionError> ErrorOfSend(ibv_wc_status status);
// The same for a posted receive.
std::optional<CompletionError> ErrorOfReceive(ibv_wc_status status);

}  // namespace penstock::rdma::verbs
