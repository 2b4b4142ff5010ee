#include "rdma/verbs/completion_errors.h"

#include <gtest/gtest.h>

namespace penstock::rdma::verbs {
namespace {

TEST(CompletionErrors, FlushedRequestsGiveNoReason) {
  EXPECT_FALSE(ErrorOfSend(IBV_WC_WR_FLUSH_ERR));
  EXPECT_FALSE(ErrorOfReceive(IBV_WC_WR_FLUSH_ERR));
}

TEST(CompletionErrors, SendErrorNamesTheSideThatFailed) {
  struct Case {
    ibv_wc_status given;
    DisconnectReason reason;
    Status status;
  };
  for (const Case& each : {
           Case{IBV_WC_REM_ACCESS_ERR, DisconnectReason::kPeerTerminated, Status::kRemoteAccess},
           Case{IBV_WC_RNR_RETRY_EXC_ERR, DisconnectReason::kPeerTerminated, Status::kFlushed},
           Case{IBV_WC_REM_OP_ERR, DisconnectReason::kPeerTerminated, Status::kFlushed},
           Case{IBV_WC_RETRY_EXC_ERR, DisconnectReason::kPeerReset, Status::kFlushed},
           Case{IBV_WC_LOC_PROT_ERR, DisconnectReason::kFault, Status::kLocalError},
       }) {
    const auto error = ErrorOfSend(each.given);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->reason, each.reason) << each.given;
    EXPECT_EQ(error->status, each.status) << each.given;
  }
}

TEST(CompletionErrors, ReceiveErrorBlamesThePeerUnlessOurMemoryIsWrong) {
  EXPECT_EQ(ErrorOfReceive(IBV_WC_LOC_LEN_ERR)->reason, DisconnectReason::kProtocolError);
  EXPECT_EQ(ErrorOfReceive(IBV_WC_LOC_LEN_ERR)->status, Status::kLocalError);
  EXPECT_EQ(ErrorOfReceive(IBV_WC_LOC_PROT_ERR)->reason, DisconnectReason::kFault);
  EXPECT_EQ(ErrorOfReceive(IBV_WC_LOC_QP_OP_ERR)->reason, DisconnectReason::kFault);
  EXPECT_EQ(ErrorOfReceive(IBV_WC_REM_INV_REQ_ERR)->reason, DisconnectReason::kProtocolError);
  EXPECT_EQ(ErrorOfReceive(IBV_WC_REM_INV_REQ_ERR)->status, Status::kFlushed);
}

}  // namespace
}  // namespace penstock::rdma::verbs
