// Tests of the leases of the file system, which the server holds while a file has a read delegation.
#include "fs/test_leases.h"
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class LocalLeasesTest : public FilesTest {
 protected:
  using Use = Delegations::Use;
  ~LocalLeasesTest() override {
    for (const ClientId client : {alice, bob}) files.ForgetClient(client, Ending::kReleased, now);
    EXPECT_EQ(leases.held, 0u);
  }

  Delegations::DelegationRequest RequestOf(ClientId client, Want want = Want::kRead, uint32_t minor_version = 1) const {
    return {.client = client,
            .file = file,
            .dialect = DialectOf(minor_version),
            .facts = {.want = want, .share = {kRead, 0}, .can_call_back = true},
            .lease = std::nullopt};
  }
  // Asks for a delegation as OPEN does: asks the file system for a lease first, if one is needed.
  open_delegation4 Ask(ClientId client, Want want = Want::kRead, uint32_t minor_version = 1) {
    Delegations::DelegationRequest request = RequestOf(client, want, minor_version);
    if (files.delegations.NeedsLocalLease(request, now)) request.lease = leases.Open();
    return files.delegations.Delegate(request, now);
  }
  stateid4 Delegation(ClientId client, uint32_t minor_version = 1) {
    const auto given = Ask(client, minor_version == 0 ? Want::kNoPreference : Want::kRead, minor_version);
    EXPECT_EQ(given.delegation_type(), OPEN_DELEGATE_READ);
    return given.read().stateid;
  }
  void Return(const stateid4& id) {
    files.delegations.Return(**files.Find<DelegationState>(Presenter{DialectOf(1), std::nullopt}, id, file.handle),
                             now);
  }
  // A local program opens the file for writing.
  void Break() {
    leases.broken = true;
    files.delegations.LookAtLocalLeases(files.delegations.local_leases());
  }
  std::vector<ClientId> Recall(std::optional<ClientId> except = std::nullopt, Use use = Use::kWrite) {
    return files.delegations.RecallFor(file, except, use, now).holders;
  }
  void ExpectContention(const open_delegation4& none) {
    ASSERT_EQ(none.delegation_type(), OPEN_DELEGATE_NONE_EXT);
    EXPECT_EQ(none.od_whynone().ond_why(), WND4_CONTENTION);
  }

  fs::TestLeases leases;
};

TEST_F(LocalLeasesTest, ReadDelegationsShareOneLeaseUntilTheLastIsReturned) {
  const stateid4 alices = Delegation(alice);
  const stateid4 bobs = Delegation(bob);
  EXPECT_EQ(leases.asked, 1u);
  Return(alices);
  EXPECT_EQ(leases.held, 1u);
  EXPECT_EQ(files.delegations.local_leases(), 1u);
  Return(bobs);
  EXPECT_EQ(leases.held, 0u);
  EXPECT_EQ(files.delegations.local_leases(), 0u);
}

TEST_F(LocalLeasesTest, OnlyAReadDelegationNeedsALease) {
  EXPECT_FALSE(files.delegations.NeedsLocalLease(RequestOf(alice, Want::kNone), now));
  EXPECT_FALSE(files.delegations.NeedsLocalLease(RequestOf(alice, Want::kWrite), now));
  EXPECT_EQ(Ask(alice, Want::kWrite).delegation_type(), OPEN_DELEGATE_WRITE);
  EXPECT_FALSE(files.delegations.NeedsLocalLease(RequestOf(bob), now));
  EXPECT_EQ(leases.asked, 0u);
}

TEST_F(LocalLeasesTest, ABrokenLeaseIsFoundAndEndsWithTheDelegations) {
  const stateid4 alices = Delegation(alice);
  const stateid4 bobs = Delegation(bob);
  EXPECT_THAT(files.delegations.FilesWithBrokenLease(), IsEmpty());
  Break();
  EXPECT_THAT(files.delegations.FilesWithBrokenLease(), ElementsAre(file));
  EXPECT_THAT(Recall(), UnorderedElementsAre(alice, bob));
  EXPECT_EQ(files.delegations.TakeRecalls().size(), 2u);
  Return(alices);
  EXPECT_EQ(leases.held, 1u);
  Return(bobs);
  EXPECT_EQ(leases.held, 0u);
  EXPECT_THAT(files.delegations.FilesWithBrokenLease(), IsEmpty());
}

TEST_F(LocalLeasesTest, ALeaseEndsWhenTheLastDelegationIsRevoked) {
  Delegation(alice);
  Delegation(bob, 0);
  Break();
  Recall();
  now += std::chrono::seconds(90);
  EXPECT_THAT(Recall(), ElementsAre(bob));
  EXPECT_EQ(leases.held, 1u);
  now += std::chrono::seconds(90);
  EXPECT_THAT(Recall(), IsEmpty());
  EXPECT_EQ(leases.held, 0u);
}

TEST_F(LocalLeasesTest, LeasesAreCheckedInTurn) {
  Delegation(alice);
  fs::TestLeases others;
  Delegations::DelegationRequest request = RequestOf(alice);
  request.file = other_file;
  request.lease = others.Open();
  EXPECT_EQ(files.delegations.Delegate(request, now).delegation_type(), OPEN_DELEGATE_READ);
  request.lease.reset();
  others.broken = true;
  files.delegations.LookAtLocalLeases(1);
  EXPECT_THAT(files.delegations.FilesWithBrokenLease(), IsEmpty());
  files.delegations.LookAtLocalLeases(1);
  EXPECT_THAT(files.delegations.FilesWithBrokenLease(), ElementsAre(other_file));
  files.delegations.LookAtLocalLeases(100);
  EXPECT_EQ(files.delegations.local_leases(), 1u);
  files.ForgetClient(alice, Ending::kReleased, now);
  EXPECT_EQ(others.held, 0u);
}

TEST_F(LocalLeasesTest, GivesNoDelegationOfAFileThatALocalProgramWrites) {
  leases.contended = true;
  ExpectContention(Ask(alice));
}

TEST_F(LocalLeasesTest, GivesNoDelegationWhileALocalProgramWaits) {
  Delegation(alice);
  leases.broken = true;
  ExpectContention(Ask(bob));
}

// A program opens the file after the lease was granted and before the delegation is given.
TEST_F(LocalLeasesTest, GivesNoDelegationWithABrokenLease) {
  leases.broken = true;
  ExpectContention(Ask(alice));
  EXPECT_EQ(leases.held, 0u);
}

// NeedsLocalLease() returned false, because a delegation was impossible at that time. So the caller asked for no lease.
TEST_F(LocalLeasesTest, GivesNoDelegationIfTheCallerDidNotAskForTheLease) {
  ExpectContention(files.delegations.Delegate(RequestOf(alice), now));
}

TEST_F(LocalLeasesTest, GivesDelegationsOnAFileSystemWithoutLeases) {
  Delegations::DelegationRequest request = RequestOf(alice);
  request.lease = fs::LeaseReply{};
  EXPECT_EQ(files.delegations.Delegate(request, now).delegation_type(), OPEN_DELEGATE_READ);
  EXPECT_EQ(files.delegations.local_leases(), 0u);
  // The next delegation may still get a lease.
  Delegation(bob);
  EXPECT_EQ(files.delegations.local_leases(), 1u);
}

// The server cannot write for the holder while it has the lease.
TEST_F(LocalLeasesTest, ALeaseIsGivenUpWhenTheOnlyHolderWrites) {
  Delegation(alice);
  const stateid4 bobs = Delegation(bob);
  EXPECT_THAT(Recall(alice, Use::kRead), IsEmpty());
  EXPECT_THAT(Recall(alice, Use::kWrite), ElementsAre(bob));
  EXPECT_EQ(leases.held, 1u);
  Return(bobs);
  EXPECT_THAT(Recall(alice, Use::kChange), IsEmpty());
  EXPECT_EQ(leases.held, 1u);
  EXPECT_FALSE(files.delegations.MustRecallFor(file, alice, Use::kRead));
  EXPECT_TRUE(files.delegations.MustRecallFor(file, alice, Use::kWrite));
  EXPECT_THAT(Recall(alice, Use::kWrite), IsEmpty());
  EXPECT_EQ(leases.held, 0u);
  EXPECT_FALSE(files.delegations.MustRecallFor(file, alice, Use::kWrite));
  EXPECT_TRUE(files.delegations.MustRecallFor(file, bob, Use::kWrite));
  EXPECT_FALSE(files.delegations.MustRecallFor(file, bob, Use::kRead));
}

TEST_F(LocalLeasesTest, GivesNoReadDelegationWithALeaseWhileTheClientItselfWrites) {
  const stateid4 open = OpenBy(alice, "owner", {kBoth, 0});
  ExpectContention(Ask(alice));
  EXPECT_EQ(leases.held, 0u);
  Close(open);
  Delegation(alice);
}

}  // namespace
}  // namespace penstock::nfs::v4
