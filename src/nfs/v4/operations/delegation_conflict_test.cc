// Requests that conflict with a delegation: the server recalls it, revokes it, or asks its holder for the attributes of
// the file.
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "nfs/v4/operations/delegation_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST_F(DelegationTest, RecallsForAWriter) {
  const stateid4 id = ReadDelegation();
  const RequestName given_by{Client().session(), SlotId(0), SequenceId(Client().sequence())};
  EXPECT_EQ(TryOpen(Other(), "file", kBoth).status(), NFS4ERR_DELAY);
  EXPECT_EQ(TryOpen(Other(), "file", kBoth).status(), NFS4ERR_DELAY);
  ASSERT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(server.callbacks.recalls[0].client, Client().client());
  EXPECT_EQ(server.callbacks.recalls[0].delegation.other, id.other);
  EXPECT_EQ(server.callbacks.recalls[0].given_by, given_by);
  EXPECT_EQ(Return(id), NFS4_OK);
  EXPECT_EQ(TryOpen(Other(), "file", kBoth).status(), NFS4_OK);
}

TEST_F(DelegationTest, KeepsReadDelegationsForReaders) {
  ReadDelegation();
  EXPECT_EQ(Given(Other(), kRead).delegation_type(), OPEN_DELEGATE_READ);
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
}

TEST_F(DelegationTest, RecallsAWriteDelegationForAReader) {
  WriteDelegation();
  EXPECT_EQ(TryOpen(Other(), "file", kRead).status(), NFS4ERR_DELAY);
  EXPECT_EQ(Other().Run(PutFh(file), Reading(kAnonymous)).status, NFS4ERR_DELAY);
  EXPECT_EQ(Run(PutFh(file), Reading(kAnonymous)).status, NFS4_OK);
  EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
}

// RFC 8881 §10.4.4
TEST_F(DelegationTest, RecallsBeforeTheFileChanges) {
  const stateid4 id = ReadDelegation();
  EXPECT_EQ(Other().Run(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4ERR_DELAY);
  EXPECT_EQ(Other().Run(PutFh(file), Op(OP_SETATTR, SETATTR4args{kAnonymous, Mode(0600)})).status, NFS4ERR_DELAY);
  EXPECT_EQ(Other().Run(PutFh(file), Writing(kAnonymous)).status, NFS4ERR_DELAY);
  EXPECT_EQ(Return(id), NFS4_OK);
  EXPECT_EQ(Other().Run(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4_OK);
}

// RFC 8881 §10.4.4 also covers RENAME of the file, RENAME of another file over it, and LINK.
TEST_F(DelegationTest, RecallsBeforeTheFileIsRenamedReplacedOrLinked) {
  const auto rename = [&](std::string_view from, std::string_view to) {
    return Other().Run(PutRoot(), SaveFh(), Op(OP_RENAME, RENAME4args{from, to})).status;
  };
  const auto link = [&](std::string_view to) {
    return Other().Run(PutFh(file), SaveFh(), PutRoot(), Op(OP_LINK, LINK4args{to})).status;
  };
  MakeFile("another");
  const std::pair<std::string, std::function<nfsstat4()>> changes[] = {
      {"linked", [&] { return link("link"); }},
      {"replaced", [&] { return rename("another", "replaced"); }},
      {"renamed", [&] { return rename("renamed", "new name"); }}};
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    file = MakeFile(name);
    const auto given = TryOpen(Client(), name, kRead | kWantRead).resok4().delegation;
    const uint64_t before = AttributesOf(name)->change;
    server.callbacks.recalls.clear();
    EXPECT_EQ(change(), NFS4ERR_DELAY);
    EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
    if (server.callbacks.recalls.empty()) continue;
    EXPECT_EQ(server.callbacks.recalls[0].delegation.other, given.read().stateid.other);
    EXPECT_EQ(AttributesOf(name)->change, before);
    EXPECT_EQ(Return(given.read().stateid), NFS4_OK);
    EXPECT_EQ(change(), NFS4_OK);
  }
}

// RFC 8881 §10.4.3
class HeldAttributesTest : public DelegationTest {
 protected:
  struct Version {
    uint64_t change;
    uint64_t size;
  };
  // Returns the attributes that another client gets.
  Version Seen() {
    auto reply = Other().Run(PutFh(file), GetAttr({FATTR4_CHANGE, FATTR4_SIZE}));
    EXPECT_EQ(reply.status, NFS4_OK);
    const fattr4 attributes = reply.Skip().Next<GETATTR4res>().resok4().obj_attributes;
    const xdr::Message values = xdr::Message::Whole(Slice::Borrowed(attributes.attr_vals.bytes()));
    xdr::Decoder decoder(values);
    Version version{};
    EXPECT_TRUE(decoder.U64(version.change) && decoder.U64(version.size) && decoder.Finish());
    return version;
  }
};

TEST_F(HeldAttributesTest, ReturnsTheFilesAttributesIfTheHolderHasNotChangedIt) {
  WriteDelegation();
  const Version before{AttributesOf("file")->change, 4};
  server.callbacks.held = {.change = before.change, .size = before.size};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Seen().change, before.change);
    EXPECT_EQ(AttributesOf("file")->change, before.change);
  }
}

// The holder may report the same change attribute each time, even if it has changed the file several times.
TEST_F(HeldAttributesTest, ChangeAttributeGrowsWithEachGetattrAfterAChangeByTheHolder) {
  WriteDelegation();
  const auto before = *AttributesOf("file");
  server.callbacks.held = {.change = before.change + 1, .size = 4};
  Version last{before.change, 4};
  for (int i = 0; i < 3; ++i) {
    const Version seen = Seen();
    EXPECT_GT(seen.change, last.change);
    last = seen;
  }
  EXPECT_GT(AttributesOf("file")->mtime.seconds, before.mtime.seconds);
}

TEST_F(HeldAttributesTest, TreatsAnotherSizeAsAChange) {
  WriteDelegation();
  const uint64_t before = AttributesOf("file")->change;
  server.callbacks.held = {.change = before, .size = 1000};
  const Version seen = Seen();
  EXPECT_EQ(seen.size, 1000u);
  EXPECT_GT(seen.change, before);
  server.callbacks.held = {.change = before, .size = 4};  // the holder has truncated the file again
  EXPECT_GT(Seen().change, seen.change);
}

// The holder returns the delegation without writing its changes.
TEST_F(HeldAttributesTest, ChangeAttributeDoesNotDecreaseAfterTheDelegation) {
  const stateid4 id = WriteDelegation();
  server.callbacks.held = {.change = AttributesOf("file")->change + 1, .size = 1000};
  const uint64_t seen = Seen().change;
  EXPECT_EQ(Return(id), NFS4_OK);
  const Version after = Seen();
  EXPECT_GE(after.change, seen);
  EXPECT_EQ(after.size, 4u);
}

TEST_F(HeldAttributesTest, ReturnsTheFilesAttributesIfTheHolderDoesNotAnswer) {
  WriteDelegation();
  const uint64_t before = AttributesOf("file")->change;
  EXPECT_EQ(Seen().change, before);
  EXPECT_EQ(Seen().size, 4u);
}

TEST_F(DelegationTest, DoesNotRecallForItsHolder) {
  const stateid4 id = ReadDelegation();
  EXPECT_EQ(TryOpen(Client(), "file", kBoth, 0, {}, "another owner").status(), NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Op(OP_SETATTR, SETATTR4args{id, Mode(0600)})).status, NFS4_OK);
  EXPECT_EQ(Run(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4_OK);
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
}

// The server denies the OPEN because of a share reservation, so a recall is unnecessary.
TEST_F(DelegationTest, DoesNotRecallForAnOpenThatIsDenied) {
  EXPECT_EQ(TryOpen(Client(), "file", kRead | kWantRead, OPEN4_SHARE_DENY_WRITE).resok4().delegation.delegation_type(),
            OPEN_DELEGATE_READ);
  EXPECT_EQ(TryOpen(Other(), "file", kWrite).status(), NFS4ERR_SHARE_DENIED);
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
}

TEST_F(DelegationTest, RevokesIfNotReturnedInTime) {
  const stateid4 id = ReadDelegation();
  EXPECT_EQ(TryOpen(Other(), "file", kWrite).status(), NFS4ERR_DELAY);
  for (int i = 0; i < 2; ++i) {
    Pass(server.settings.lease / 2);
    EXPECT_EQ(Run().status, NFS4_OK);
  }
  EXPECT_EQ(TryOpen(Other(), "file", kWrite).status(), NFS4_OK);

  EXPECT_EQ(Run(PutFh(file), Reading(id)).status, NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(Return(id), NFS4ERR_DELEG_REVOKED);
  const auto test = Op(OP_TEST_STATEID, TEST_STATEID4args{{id, kAnonymous, kCurrent}});
  auto reply = Run(test);
  EXPECT_THAT(reply.Next<TEST_STATEID4res>().tsr_resok4().tsr_status_codes,
              testing::ElementsAre(NFS4ERR_DELEG_REVOKED, NFS4ERR_BAD_STATEID, NFS4ERR_BAD_STATEID));
  EXPECT_TRUE(
      server.state.Run([&](StateTables& state) { return state.files.delegations.HasRevoked(Client().client()); }));
  EXPECT_EQ(Run(Op(OP_FREE_STATEID, FREE_STATEID4args{id})).status, NFS4_OK);
  EXPECT_FALSE(
      server.state.Run([&](StateTables& state) { return state.files.delegations.HasRevoked(Client().client()); }));
}

TEST_F(DelegationTest, RemovesADelegationOfAnExpiredClientOnConflict) {
  WriteDelegation();
  PassLease();
  EXPECT_EQ(TryOpen(Other(), "file", kRead).status(), NFS4_OK);
  EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
}

TEST_F(DelegationTest, RecallsADelegationOfVersion40ForAnyRemover) {
  Client0 client(server, "of 4.0");
  LetCall(client);
  client.Open("owner", "file", kRead);
  const auto opened = client.TryOpen("owner", "file", kRead);
  const stateid4 id = opened.resok4().delegation.read().stateid;
  EXPECT_EQ(Run0(PutFh(file), Op(OP_SETATTR, SETATTR4args{id, Mode(0600)})).status, NFS4_OK);
  EXPECT_EQ(Run0(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4ERR_DELAY);
  ASSERT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(server.callbacks.recalls[0].delegation, id);
  EXPECT_EQ(Run0(PutFh(file), Op(OP_DELEGRETURN, DELEGRETURN4args{id})).status, NFS4_OK);
  EXPECT_EQ(Run0(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
