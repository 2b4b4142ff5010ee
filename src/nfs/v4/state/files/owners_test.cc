#include "nfs/v4/state/files/owners.h"

#include <gtest/gtest.h>

namespace penstock::nfs::v4 {
namespace {

using namespace nfs4;  // NOLINT: the protocol's own names
using Verdict = OwnerSequence::Verdict;

SequenceId Number(uint32_t value) { return SequenceId(value); }

TEST(OwnerSequence, AcceptsAnyFirstSeqid) {
  const OwnerSequence sequence;
  EXPECT_EQ(sequence.Judge<OPEN4res>(Number(4711)), Verdict::kRun);
  EXPECT_FALSE(sequence.used());
}

TEST(OwnerSequence, AcceptsOnlyTheNextSeqid) {
  OwnerSequence sequence;
  sequence.Finish(Number(7), OPEN4res(NFS4ERR_NOENT));
  EXPECT_EQ(sequence.Judge<OPEN4res>(Number(8)), Verdict::kRun);
  EXPECT_EQ(sequence.Judge<OPEN4res>(Number(9)), Verdict::kMisordered);
  EXPECT_EQ(sequence.Judge<OPEN4res>(Number(6)), Verdict::kMisordered);
}

TEST(OwnerSequence, ReplaysTheReplyToARetry) {
  OwnerSequence sequence;
  sequence.Finish(Number(7), CLOSE4res(NFS4ERR_OLD_STATEID));
  ASSERT_EQ(sequence.Judge<CLOSE4res>(Number(7)), Verdict::kReplay);
  EXPECT_EQ(std::get<CLOSE4res>(sequence.last().results).status(), NFS4ERR_OLD_STATEID);
}

TEST(OwnerSequence, RejectsARetryByAnotherOperation) {
  OwnerSequence sequence;
  sequence.Finish(Number(7), LOCK4res(NFS4ERR_OPENMODE));
  EXPECT_EQ(sequence.Judge<LOCKU4res>(Number(7)), Verdict::kMisordered);
}

TEST(OwnerSequence, KeepsTheDataThatTheReplyRefersTo) {
  OwnerSequence sequence;
  sequence.Finish(Number(1), LOCK4res(NFS4ERR_DENIED, LOCK4denied{}), std::nullopt, "holder");
  EXPECT_EQ(sequence.last().denied_owner, "holder");
}

// RFC 7530 §9.1.7: after these errors the client uses the same seqid again.
TEST(OwnerSequence, DoesNotAdvanceAfterUnsequencedErrors) {
  for (const nfsstat4 status : {NFS4ERR_STALE_CLIENTID, NFS4ERR_STALE_STATEID, NFS4ERR_BAD_STATEID, NFS4ERR_BAD_SEQID,
                                NFS4ERR_BADXDR, NFS4ERR_RESOURCE, NFS4ERR_NOFILEHANDLE, NFS4ERR_MOVED}) {
    OwnerSequence sequence;
    sequence.Finish(Number(7), OPEN4res(NFS4ERR_NOENT));
    sequence.Finish(Number(8), OPEN4res(status));
    EXPECT_EQ(sequence.Judge<OPEN4res>(Number(8)), Verdict::kRun);
    ASSERT_EQ(sequence.Judge<OPEN4res>(Number(7)), Verdict::kReplay);
    EXPECT_EQ(std::get<OPEN4res>(sequence.last().results).status(), NFS4ERR_NOENT);
  }
}

TEST(OwnerSequence, WrapsAroundToOneOrZero) {
  OwnerSequence sequence;
  sequence.Finish(Number(UINT32_MAX), OPEN4res(NFS4ERR_NOENT));
  EXPECT_EQ(sequence.Judge<OPEN4res>(Number(1)), Verdict::kRun);
  EXPECT_EQ(sequence.Judge<OPEN4res>(Number(0)), Verdict::kRun);
  EXPECT_EQ(sequence.Judge<OPEN4res>(Number(2)), Verdict::kMisordered);
}

TEST(OwnerSequence, RunsOneRequestAtATime) {
  OwnerSequence sequence;
  sequence.Start();
  EXPECT_EQ(sequence.Judge<OPEN4res>(Number(1)), Verdict::kBusy);
  sequence.Finish(Number(1), OPEN4res(NFS4ERR_NOENT));
  EXPECT_EQ(sequence.Judge<OPEN4res>(Number(2)), Verdict::kRun);
}

}  // namespace
}  // namespace penstock::nfs::v4
