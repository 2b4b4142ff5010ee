#include "client/nfs4/operations.h"

#include <gtest/gtest.h>

namespace penstock::client::v4 {
namespace {

using nfs4::nfsstat4;

TEST(Operations, StatusOfGivesTheStatusOfEachOperation) {
  CompoundReply<nfs4::PUTFH4args, nfs4::CLOSE4args, nfs4::PUTFH4args> reply;
  reply.status = nfsstat4::NFS4ERR_DELAY;
  reply.count = 2;
  EXPECT_EQ(StatusOf(reply, 0), nfsstat4::NFS4_OK);
  EXPECT_EQ(StatusOf(reply, 1), nfsstat4::NFS4ERR_DELAY);
  EXPECT_EQ(StatusOf(reply, 2), std::nullopt);
}

// If a READLINK over RDMA offers a Write chunk for the text, the reply of a Linux 6.1 server cannot be decoded.
TEST(Operations, ReadlinkExpectsItsTextInTheStream) {
  const auto shape = ShapeOf(std::tuple(nfs4::PUTFH4args{}, ReadLinkText()), {});
  EXPECT_TRUE(shape.results.empty());
  EXPECT_GE(shape.max_stream, nfs_protocol::kMaxPath);
}

TEST(Operations, OnlyOperationsWithAStateidDependOnTheClientId) {
  EXPECT_TRUE((kHasStateId<nfs4::PUTFH4args, nfs4::READ4args>));
  EXPECT_TRUE((kHasStateId<nfs4::PUTFH4args, nfs4::LOCK4args>));
  EXPECT_FALSE((kHasStateId<nfs4::PUTFH4args, nfs4::OPEN4args, GetHandle>));
}

}  // namespace
}  // namespace penstock::client::v4
