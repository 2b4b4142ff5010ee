// Calls that meet a delegation of a client of version 4.
#include <climits>

#include "base/loop.h"
#include "base/test_loop.h"
#include "nfs/test_claims.h"
#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

class WaitingTest : public NfsTest {
 protected:
  WaitingTest() : file(MakeFile("file")) {
    program.emplace(memory.exports, Settings{}, &claims);
    dispatcher.Add(*program);
    memory.peer.loop = &loop;
    memory.peer.buffers = &loop.buffers();
  }
  nfsstat3 Write() {
    std::optional<rpc::Message> reply;
    Spawn([](rpc::Dispatcher& to, rpc::Message message, const rpc::Peer& peer, std::optional<rpc::Message>& into)
              -> Task<> { into.emplace(co_await to.HandleCall(std::move(message), peer)); }(
                  dispatcher,
                  memory.EncodeCall<NFSPROC3_WRITE>(
                      {file, 0, 4, UNSTABLE, xdr::Payload<>::Borrowed(std::string_view("text"))}),
                  memory.peer, reply));
    EXPECT_TRUE(TurnUntil(loop, [&] { return reply.has_value(); }));
    Answer answer{.message = std::move(*reply), .header = {}};
    xdr::Decoder decoder(answer.message);
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, answer.header));
    return memory.ResultsOf<NFSPROC3_WRITE>(std::move(answer)).status();
  }

  Loop loop;
  Claimed claims;
  StoppedClock clock;
  rpc::ReplyCache cache;
  std::optional<Program> program;
  rpc::Dispatcher dispatcher{cache, clock};
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
