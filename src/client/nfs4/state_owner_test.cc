#include "client/nfs4/state_owner.h"

#include <gtest/gtest.h>

namespace penstock::client::v4 {
namespace {

using nfs4::nfsstat4;

TEST(StateOwner, HasAUniqueName) {
  EXPECT_FALSE(std::ranges::equal(StateOwner(1).octets(), StateOwner(2).octets()));
  EXPECT_TRUE(std::ranges::equal(StateOwner(7).octets(), StateOwner(7).octets()));
}

TEST(StateOwner, CountsTheRequestsThatTheServerCounts) {
  StateOwner owner(1);
  const uint32_t first = owner.sequence();
  owner.HandleStatus(nfsstat4::NFS4_OK);
  EXPECT_EQ(owner.sequence(), first + 1);
  owner.HandleStatus(nfsstat4::NFS4ERR_DELAY);
  owner.HandleStatus(nfsstat4::NFS4ERR_GRACE);
  owner.HandleStatus(nfsstat4::NFS4ERR_SHARE_DENIED);
  EXPECT_EQ(owner.sequence(), first + 4);
}

// RFC 7530 §9.1.7
TEST(StateOwner, DoesNotCountRequestsWhoseOwnerTheServerDoesNotKnow) {
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_STALE_CLIENTID, nfsstat4::NFS4ERR_STALE_STATEID,
                                nfsstat4::NFS4ERR_BAD_STATEID, nfsstat4::NFS4ERR_BADXDR, nfsstat4::NFS4ERR_RESOURCE,
                                nfsstat4::NFS4ERR_NOFILEHANDLE, nfsstat4::NFS4ERR_MOVED}) {
    StateOwner owner(1);
    const uint32_t first = owner.sequence();
    owner.HandleStatus(status);
    EXPECT_EQ(owner.sequence(), first) << XdrName(status);
    EXPECT_FALSE(owner.spent());
  }
}

TEST(StateOwner, DoesNotCountRequestsThatTheServerDidNotReach) {
  StateOwner owner(1);
  const uint32_t first = owner.sequence();
  owner.HandleStatus(std::nullopt);
  EXPECT_EQ(owner.sequence(), first);
}

TEST(StateOwner, BecomesUnusableIfTheCountsMayDiffer) {
  StateOwner refused(1);
  refused.HandleStatus(nfsstat4::NFS4ERR_BAD_SEQID);
  EXPECT_TRUE(refused.spent());
  StateOwner unanswered(1);
  unanswered.HandleNoReply();
  EXPECT_TRUE(unanswered.spent());
}

}  // namespace
}  // namespace penstock::client::v4
