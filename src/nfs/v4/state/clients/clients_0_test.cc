// Tests SETCLIENTID and SETCLIENTID_CONFIRM by the cases of RFC 7530 §16.33.5 and §16.34.5. Comments write a record as
// the RFC does: { verifier, id, client ID, callback, confirmation }.
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using SetClientIdTest = ClientsTest;
using ConfirmClientIdTest = ClientsTest;
using MinorZeroTest = ClientsTest;

// No { *, x, *, *, * } is confirmed: the new record replaces an unconfirmed one.
TEST_F(SetClientIdTest, NewOwnerWaitsForConfirmation) {
  const auto set = Set("x");
  ASSERT_TRUE(set);
  EXPECT_EQ(clients_.Find(set->id), nullptr);
  EXPECT_NE(set->confirmation, nfs4::verifier4());
  EXPECT_EQ(Confirm(*set), nfs4::NFS4_OK);
  EXPECT_NE(clients_.Find(set->id), nullptr);
}

TEST_F(SetClientIdTest, ReplacesAnUnconfirmedRecord) {
  for (const uint64_t verifier : {1, 2}) {
    const std::string name = "x" + std::to_string(verifier);
    const auto first = Set(name, 1);
    const auto second = Set(name, verifier);
    ASSERT_TRUE(first && second);
    EXPECT_NE(first->id, second->id);
    EXPECT_NE(first->confirmation, second->confirmation);
    EXPECT_EQ(Confirm(*first), nfs4::NFS4ERR_STALE_CLIENTID);
    EXPECT_EQ(Confirm(*second), nfs4::NFS4_OK);
  }
}

// { v, x, c, l, s } is confirmed, and the client sends { v, x, k }.
TEST_F(SetClientIdTest, ConfirmedClientMayChangeItsCallbackAddress) {
  const ClientId id = OpenMinorZero("x");
  const auto update = Set("x", 1, 0, 4711);
  ASSERT_TRUE(update);
  EXPECT_EQ(update->id, id);
  EXPECT_EQ(clients_.Find(id)->callback.endpoint->port(), 2049);
  EXPECT_EQ(Confirm(*update), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.Find(id)->callback.endpoint->port(), 4711);
}

TEST_F(SetClientIdTest, UpdateGetsANewConfirmation) {
  const auto set = Set("x");
  ASSERT_EQ(Confirm(*set), nfs4::NFS4_OK);
  --random_;  // the random number repeats by chance
  const auto update = Set("x");
  EXPECT_EQ(update->id, set->id);
  EXPECT_NE(update->confirmation, set->confirmation);
}

// { u, x, c, l, s } is confirmed, u != v, and no record is unconfirmed.
TEST_F(SetClientIdTest, RestartedClientKeepsItsOldRecordUntilItConfirms) {
  const ClientId before = OpenMinorZero("x", 1);
  const auto restarted = Set("x", 2);
  ASSERT_TRUE(restarted);
  EXPECT_NE(restarted->id, before);
  EXPECT_NE(clients_.Find(before), nullptr);
  EXPECT_EQ(Confirm(*restarted), nfs4::NFS4_OK);
  EXPECT_FALSE(clients_.Has(before));
  EXPECT_EQ(clients_.Find(before), nullptr);
}

// { u, x, c, l, s } is confirmed, and { w, x, d, m, t } is unconfirmed. Whether w == v makes no difference.
TEST_F(SetClientIdTest, ReplacesTheUnconfirmedRecordOfAConfirmedClient) {
  for (const uint64_t w : {2, 3}) {
    const std::string name = "x" + std::to_string(w);
    const ClientId before = OpenMinorZero(name, 1);
    const auto first = Set(name, w);
    const auto second = Set(name, 3);
    ASSERT_TRUE(first && second);
    EXPECT_NE(second->id, first->id);
    EXPECT_NE(second->id, before);
    EXPECT_NE(second->confirmation, first->confirmation);
    EXPECT_EQ(Confirm(*first), nfs4::NFS4ERR_STALE_CLIENTID);
    EXPECT_EQ(Confirm(*second), nfs4::NFS4_OK);
    EXPECT_FALSE(clients_.Has(before));
  }
}

TEST_F(SetClientIdTest, UpdateReplacesTheUnconfirmedRecord) {
  const ClientId id = OpenMinorZero("x", 1);
  const auto restarted = Set("x", 2);
  ASSERT_EQ(Set("x", 1)->id, id);
  EXPECT_EQ(Confirm(*restarted), nfs4::NFS4ERR_STALE_CLIENTID);
}

TEST_F(SetClientIdTest, RefusesAnotherPrincipalWhileTheOwnerHasState) {
  const ClientId id = OpenMinorZero("x", 1, /*uid=*/1);
  GiveOpen(id);
  EXPECT_EQ(Set("x", 1, 2).error(), nfs4::NFS4ERR_CLID_INUSE);
  EXPECT_EQ(Set("x", 2, 2).error(), nfs4::NFS4ERR_CLID_INUSE);
  now_ += kLease + std::chrono::seconds(1);
  EXPECT_TRUE(Set("x", 2, 2));
}

TEST_F(SetClientIdTest, AnotherPrincipalMayTakeAnOwnerWithoutState) {
  const ClientId before = OpenMinorZero("x", 1, /*uid=*/1);
  const auto set = Set("x", 1, 2);
  ASSERT_TRUE(set);
  EXPECT_NE(set->id, before);
  EXPECT_EQ(Confirm(*set, 2), nfs4::NFS4_OK);
  EXPECT_FALSE(clients_.Has(before));
}

TEST_F(SetClientIdTest, RefusesTooManyClients) {
  settings_.max_clients = 1;
  OpenMinorZero("x");
  EXPECT_EQ(Set("y").error(), nfs4::NFS4ERR_RESOURCE);
  EXPECT_TRUE(Set("x", 2));
}

// { v, x, c, k, s } is unconfirmed, and { v, x, c, l, t } is confirmed.
TEST_F(ConfirmClientIdTest, UpdateKeepsTheState) {
  const ClientId id = OpenMinorZero("x");
  GiveOpen(id);
  const auto update = Set("x");
  EXPECT_EQ(Confirm(*update, /*uid=*/9), nfs4::NFS4ERR_CLID_INUSE);
  EXPECT_EQ(Confirm(*update), nfs4::NFS4_OK);
  EXPECT_EQ(Confirm(*update), nfs4::NFS4_OK);
  EXPECT_TRUE(tables_.files.HasState(id));
}

// { v, x, c, *, s } is confirmed: the client has missed the reply.
TEST_F(ConfirmClientIdTest, RepeatedConfirmationSucceeds) {
  const auto set = Set("x");
  ASSERT_EQ(Confirm(*set), nfs4::NFS4_OK);
  EXPECT_EQ(Confirm(*set), nfs4::NFS4_OK);
  EXPECT_NE(clients_.Find(set->id), nullptr);
  EXPECT_EQ(Confirm(*set, /*uid=*/9), nfs4::NFS4ERR_CLID_INUSE);
}

TEST_F(ConfirmClientIdTest, OldConfirmationDoesNotConfirmAPendingUpdate) {
  const auto set = Set("x");
  ASSERT_EQ(Confirm(*set), nfs4::NFS4_OK);
  const auto update = Set("x", 1, 0, 4711);
  EXPECT_EQ(Confirm(*set), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.Find(set->id)->callback.endpoint->port(), 2049);
  EXPECT_EQ(Confirm(*update), nfs4::NFS4_OK);
}

// { *, x, c, k, s } is unconfirmed.
TEST_F(ConfirmClientIdTest, RequiresThePrincipalOfSetClientId) {
  const auto set = Set("x", 1, /*uid=*/1);
  EXPECT_EQ(Confirm(*set, 2), nfs4::NFS4ERR_CLID_INUSE);
  EXPECT_EQ(Confirm(*set, 1), nfs4::NFS4_OK);
}

TEST_F(ConfirmClientIdTest, RefusesAnotherPrincipalIfTheOwnerGotState) {
  const ClientId id = OpenMinorZero("x", 1, /*uid=*/1);
  const auto set = Set("x", 1, 2);
  GiveOpen(id);
  EXPECT_EQ(Confirm(*set, 2), nfs4::NFS4ERR_CLID_INUSE);
  EXPECT_NE(clients_.Find(id), nullptr);
}

// No record { *, *, c, *, s } exists.
TEST_F(ConfirmClientIdTest, UnknownClientIdOrConfirmationIsStale) {
  auto set = *Set("x");
  set.confirmation = Verifier(4711);
  EXPECT_EQ(Confirm(set), nfs4::NFS4ERR_STALE_CLIENTID);
  set.id = ClientId(0);
  EXPECT_EQ(Confirm(set), nfs4::NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(Confirm({Exchange("x")->id, {}}), nfs4::NFS4ERR_STALE_CLIENTID);
}

// RFC 7530 §9.1.1, §13.1.4
TEST_F(MinorZeroTest, ClientIdOfAnotherRunIsStaleAndOfARemovedClientExpired) {
  const ClientId id = OpenMinorZero("x");
  EXPECT_EQ(clients_.Check(id), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.Check(ClientId(0)), nfs4::NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(clients_.Check(ClientId(uint64_t{0x64000000} << 32 | 1)), nfs4::NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(clients_.Check(ClientId(id.value() + 1)), nfs4::NFS4ERR_STALE_CLIENTID);
  tables_.End(id, now_);
  EXPECT_EQ(clients_.Check(id), nfs4::NFS4ERR_EXPIRED);
  EXPECT_EQ(clients_.Check(Open("of another minor version").client), nfs4::NFS4ERR_STALE_CLIENTID);
}

TEST_F(MinorZeroTest, FirstOpenNeedsNoReclaimComplete) {
  const ClientId id = OpenMinorZero("x");
  EXPECT_EQ(clients_.CheckNew(id), nfs4::NFS4_OK);
  EXPECT_TRUE(clients_.NeedsRecord(id));
}

TEST_F(MinorZeroTest, RestartedClientKeepsItsRecordOnlyWithTheSamePrincipal) {
  clients_.SetRecorded(OpenMinorZero("x", 1, 5));
  const ClientId restarted = OpenMinorZero("x", 2, 5);
  EXPECT_FALSE(clients_.NeedsRecord(restarted));
  now_ += kLease + std::chrono::seconds(1);
  EXPECT_TRUE(clients_.NeedsRecord(OpenMinorZero("x", 3, 6)));
}

TEST_F(MinorZeroTest, CanCallRequiresAWorkingCallbackPath) {
  const ClientId id = OpenMinorZero("x");
  EXPECT_FALSE(tables_.CanCall(id));
  clients_.SetPath(id, PathState::kWorks);
  EXPECT_TRUE(tables_.CanCall(id));
  ASSERT_EQ(Confirm(*Set("x", 1, 0, 4711)), nfs4::NFS4_OK);
  EXPECT_FALSE(tables_.CanCall(id));
}

}  // namespace
}  // namespace penstock::nfs::v4
