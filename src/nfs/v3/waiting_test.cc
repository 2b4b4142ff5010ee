// Calls that meet a delegation of a client of version 4.
#include <climits>

#include "nfs/test_claims.h"
#include "nfs/test_waiting.h"
#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

class WaitingTest : public NfsTest {
 protected:
  WaitingTest() : file(MakeFile("file")) { calls.Serve(program); }
  nfsstat3 Write() {
    const auto text = xdr::Payload<>::Borrowed(std::string_view("text"));
    return calls.Call<NFSPROC3_WRITE>({file, 0, 4, UNSTABLE, text}).status();
  }

  Claimed claims;
  WaitingCalls calls{memory};
  Program program{memory.exports, Settings{}, &claims};
  nfs_fh3 file;
};

// Linux's client tries again five seconds after NFS3ERR_JUKEBOX.
TEST_F(WaitingTest, ACallWaitsForADelegationThatComesBackSoon) {
  claims.conflicts = 3;
  EXPECT_EQ(Write(), NFS3_OK);
  EXPECT_EQ(claims.uses, std::vector(4, FileClaims::Use::kWrite));
}

TEST_F(WaitingTest, TheClientIsToldToTryAgainIfADelegationDoesNotComeBack) {
  claims.conflicts = INT_MAX;
  EXPECT_EQ(Write(), NFS3ERR_JUKEBOX);
  EXPECT_GE(claims.uses.size(), 2u);
}

TEST_F(WaitingTest, ADeniedUseIsAnErrorAtOnce) {
  claims.verdict = FileClaims::Verdict::kDenied;
  claims.conflicts = 1;
  EXPECT_EQ(Write(), NFS3ERR_ACCES);
  EXPECT_EQ(claims.uses.size(), 1u);
}

}  // namespace
}  // namespace penstock::nfs::v3
