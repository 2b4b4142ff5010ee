#include "rdma/verbs/completion_errors.h"

namespace penstock::rdma::verbs {

std::optional<CompletionError> ErrorOfSend(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_WR_FLUSH_ERR:
      return std::nullopt;
    case IBV_WC_REM_ACCESS_ERR:
      return CompletionError{DisconnectReason::kPeerTerminated, Status::kRemoteAccess};
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:  // a Send without a receive
    case IBV_WC_REM_ABORT_ERR:
      return CompletionError{DisconnectReason::kPeerTerminated, Status::kFlushed};
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return CompletionError{DisconnectReason::kPeerReset, Status::kFlushed};
    default:
      return CompletionError{DisconnectReason::kFault, Status::kLocalError};
  }
}

std::optional<CompletionError> ErrorOfReceive(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_WR_FLUSH_ERR:
      return std::nullopt;
    case IBV_WC_LOC_LEN_ERR:  // a Send that is longer than the buffer
      return CompletionError{DisconnectReason::kProtocolError, Status::kLocalError};
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      return CompletionError{DisconnectReason::kFault, Status::kFlushed};
    default:
      return CompletionError{DisconnectReason::kProtocolError, Status::kFlushed};
  }
}

}  // namespace penstock::rdma::verbs
