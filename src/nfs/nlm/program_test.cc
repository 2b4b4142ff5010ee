// The messages of the lock manager's versions.
#include "nfs/nlm/nlm_test.h"
#include "nfs/padded_handle.h"

namespace penstock::nfs::nlm {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class NlmProgramTest : public NlmTest {
 protected:
  // The handle of the file in NFS version 2.
  const PaddedHandle file2 = *ToPadded(*FileHandle::Parse(file.bytes()));

  nlm1::nlm_stats Lock3(uint32_t offset, uint32_t length, bool exclusive = true) {
    return Call<nlm1::NLMPROC_LOCK>(bob, {.cookie = {},
                                          .block = false,
                                          .exclusive = exclusive,
                                          .alock = {.caller_name = "bob",
                                                    .fh = ConstBytes(file2),
                                                    .oh = AsBytes("b"),
                                                    .svid = 1,
                                                    .l_offset = offset,
                                                    .l_len = length},
                                          .reclaim = false,
                                          .state = 1})
        .stat;
  }
};

TEST_F(NlmProgramTest, ResultsRepeatTheCookie) {
  const auto locked = Call<NLMPROC4_LOCK>(
      alice, {.cookie = AsBytes("cookie"), .block = false, .exclusive = true, .alock = LockOf(alice, {})});
  EXPECT_EQ(AsText(locked.cookie.bytes()), "cookie");
  const auto tested =
      Call<NLMPROC4_TEST>(alice, {.cookie = AsBytes("another"), .exclusive = true, .alock = LockOf(alice, {})});
  EXPECT_EQ(AsText(tested.cookie.bytes()), "another");
}

TEST_F(NlmProgramTest, ResultsOfAnAsynchronousCallFollowInACallOfTheServer) {
  Call<NLMPROC4_LOCK_MSG>(alice,
                          {.cookie = AsBytes("1"), .block = false, .exclusive = true, .alock = LockOf(alice, {})});
  Call<NLMPROC4_TEST_MSG>(bob, {.cookie = AsBytes("2"), .exclusive = true, .alock = LockOf(bob, {})});
  Call<NLMPROC4_CANCEL_MSG>(bob, {.cookie = AsBytes("3"), .block = true, .exclusive = true, .alock = LockOf(bob, {})});
  Call<NLMPROC4_UNLOCK_MSG>(alice, {.cookie = AsBytes("4"), .alock = LockOf(alice, {})});
  ASSERT_THAT(hosts.calls, SizeIs(4));
  const auto is = [&](size_t at, uint32_t procedure, std::string_view cookie, nlm4_stats status) {
    const SentCall& call = hosts.calls[at];
    EXPECT_EQ(call.to.procedure, procedure);
    EXPECT_EQ(call.cookie, cookie);
    EXPECT_EQ(call.status, static_cast<uint32_t>(status));
  };
  is(0, NLMPROC4_LOCK_RES::kNumber, "1", NLM4_GRANTED);
  is(1, NLMPROC4_TEST_RES::kNumber, "2", NLM4_DENIED);
  is(2, NLMPROC4_CANCEL_RES::kNumber, "3", NLM4_DENIED);
  is(3, NLMPROC4_UNLOCK_RES::kNumber, "4", NLM4_GRANTED);
  EXPECT_EQ(hosts.calls[1].to.host, asio::ip::make_address("192.0.2.2"));
}

TEST_F(NlmProgramTest, VersionsSeeEachOthersLocks) {
  EXPECT_EQ(Lock(alice, {.offset = 0, .length = 10}), NLM4_GRANTED);
  EXPECT_EQ(Lock3(9, 1), nlm1::LCK_DENIED);
  EXPECT_EQ(Lock3(10, 1), nlm1::LCK_GRANTED);
  EXPECT_EQ(Lock(alice, {.offset = 10, .length = 1}), NLM4_DENIED);
}

TEST_F(NlmProgramTest, VersionsSeeEachOthersShares) {
  const auto share = [&](nlm1::fsh_access access) {
    return Call<nlm1::NLMPROC_SHARE>(bob, {.cookie = {},
                                           .share = {.caller_name = "bob",
                                                     .fh = ConstBytes(file2),
                                                     .oh = AsBytes("b"),
                                                     .mode = nlm1::fsm_DN,
                                                     .access = access},
                                           .reclaim = false})
        .stat;
  };
  EXPECT_EQ(SetShare(alice, "a", fsa4_R, fsm4_DW), NLM4_GRANTED);
  EXPECT_EQ(share(nlm1::fsa_W), nlm1::LCK_DENIED);
  EXPECT_EQ(share(nlm1::fsa_R), nlm1::LCK_GRANTED);
}

TEST_F(NlmProgramTest, AStatusThatVersion3DoesNotHaveIsADenial) {
  EXPECT_EQ(Call<nlm1::NLMPROC_UNLOCK>(bob, {.cookie = {}, .alock = {.caller_name = "bob"}}).stat, nlm1::LCK_DENIED)
      << "a stale handle";
}

TEST_F(NlmProgramTest, Version3ShowsALockBeyondItsOffsets) {
  EXPECT_EQ(Lock(alice, {.offset = uint64_t{1} << 40, .length = 10}), NLM4_GRANTED);
  const auto tested = Call<nlm1::NLMPROC_TEST>(bob, {.cookie = {},
                                                     .exclusive = true,
                                                     .alock = {.caller_name = "bob",
                                                               .fh = ConstBytes(file2),
                                                               .oh = AsBytes("b"),
                                                               .svid = 1,
                                                               .l_offset = 0,
                                                               .l_len = 0}})
                          .test_stat;
  ASSERT_EQ(tested.discriminant(), nlm1::LCK_DENIED);
  EXPECT_EQ(tested.holder().l_offset, UINT32_MAX);
  EXPECT_EQ(tested.holder().l_len, 0u) << "to the end";
}

TEST_F(NlmProgramTest, CallsForClientsAreUnknown) {
  EXPECT_EQ(Ask<NLMPROC4_GRANTED>(alice, {.cookie = {}, .exclusive = true, .alock = LockOf(alice, {})}).accept_status(),
            rpc::AcceptStatus::PROC_UNAVAIL);
  EXPECT_EQ(Ask<NLMPROC4_LOCK_RES>(alice, {.cookie = {}, .stat = NLM4_GRANTED}).accept_status(),
            rpc::AcceptStatus::PROC_UNAVAIL);
}

TEST_F(NlmProgramTest, MalformedArgumentsAreGarbage) {
  xdr::Encoder encoder(server.buffers);
  const rpc::ClientCredential caller({.machine = "alice", .uid = 0, .gid = 0, .groups = {}});
  rpc::EncodeCallHeader(
      encoder, {rpc::Xid(++server.last_xid), NLM4_PROGRAM, NLM4_VERS, NLMPROC4_LOCK::kNumber, caller.auth(), {}});
  encoder.U32(5000);  // the length of the cookie
  EXPECT_EQ(server.Ask(encoder.Finish()).accept_status(), rpc::AcceptStatus::GARBAGE_ARGS);
}

}  // namespace
}  // namespace penstock::nfs::nlm
