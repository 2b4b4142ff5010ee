// Owners and groups in COMPOUNDs (RFC 8881 §5.9, RFC 7530 §5.9). attributes/owner_texts_test.cc tests the rules.
#include <map>
#include <memory>
#include <string>

#include "idmap/test_database.h"
#include "nfs/v4/engine/nfs4_test.h"
#include "rdma/sim/world.h"

namespace penstock::nfs::v4 {
namespace {

using enum SecurityFlavor;
using testing::ElementsAre;
using testing::Pair;

constexpr uint32_t kRights = ACE4_READ_DATA | ACE4_WRITE_DATA;

// An export for every flavor. Root calls, under AUTH_SYS at first.
class OwnersTest : public testing::Test {
 protected:
  OwnersTest() : tree(server.Export("/", {.squash = Squash::kNone, .security = {kSys, kKrb5p}})) {
    server.owners = idmap::Mapper("example.org", lookups);
    MakeFile("file", 7, 8);
  }

  void UseGss() { server.SetInitiator(initiator, rpc::GssService::kPrivacy); }
  // Look-ups that are not answered at once are not waited for.
  void BeImpatient() {
    impatient.emplace(database.database(), world, database.run(), idmap::Lookups::Settings{.patience = {}});
    server.owners = idmap::Mapper("example.org", *impatient);
  }
  void MakeFile(std::string_view name, uint32_t uid, uint32_t gid) {
    fs::CreateHow how;
    how.attributes.uid = uid;
    how.attributes.gid = gid;
    EXPECT_TRUE(Now(tree.Create(Root(), tree.Root(), name, how)).result);
  }
  static fs::RequestContext Root() { return {.credentials = {.uid = 0, .gid = 0, .groups = {}}}; }
  fs::Attributes AttributesOf(std::string_view name) {
    return Now(tree.Lookup(Root(), tree.Root(), name)).result->attributes;
  }
  template <class... Arguments>
  CompoundReply Run(const Sent<Arguments>&... operations) {
    return server.Run(0, operations...);
  }

  struct Owners {
    std::string owner;
    std::string group;
    bool operator==(const Owners&) const = default;
  };
  static Owners OwnersIn(const fattr4& attributes) {
    EXPECT_EQ(AttributeSet(attributes.attrmask), kBoth);
    const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(attributes.attr_vals.bytes()));
    xdr::Decoder decoder(message);
    fattr4_owner owner;
    fattr4_owner_group group;
    EXPECT_TRUE(xdr::Decode(decoder, owner) && xdr::Decode(decoder, group) && decoder.Finish());
    return {std::string(owner), std::string(group)};
  }
  Owners Get(std::string_view name) {
    auto reply = Run(PutRoot(), LookUp(name), GetAttr(kBoth));
    EXPECT_EQ(reply.status, NFS4_OK);
    return OwnersIn(reply.Skip(2).Next<GETATTR4res>().resok4().obj_attributes);
  }
  nfsstat4 SetOwner(std::string_view owner) {
    GivenValues given(server.buffers);
    const SETATTR4args set{{}, given.Add(FATTR4_OWNER, fattr4_owner(owner)).Take()};
    return Run(PutRoot(), LookUp("file"), Op(OP_SETATTR, set)).status;
  }
  nfsstat4 Verify(std::string_view owner) {
    GivenValues given(server.buffers);
    const VERIFY4args same{given.Add(FATTR4_OWNER, fattr4_owner(owner)).Take()};
    return Run(PutRoot(), LookUp("file"), Op(OP_VERIFY, same)).status;
  }

  static constexpr AttributeSet kBoth{FATTR4_OWNER, FATTR4_OWNER_GROUP};

  rdma::sim::World world{1};
  idmap::TestDatabase database;
  idmap::Lookups lookups{database.database(), world, database.run()};
  std::optional<idmap::Lookups> impatient;
  Nfs4Server server;
  fs::memory::FileSystem& tree;
  const TestInitiator initiator{"root@EXAMPLE.ORG", 0};
};

TEST_F(OwnersTest, TheFlavorOfTheCallDecidesBetweenNumbersAndNames) {
  EXPECT_EQ(Get("file"), (Owners{"7", "8"}));
  UseGss();
  EXPECT_EQ(Get("file"), (Owners{"anna@example.org", "staff@example.org"}));
}

TEST_F(OwnersTest, AClientCanSetWhatItGets) {
  for (const bool gss : {false, true}) {
    if (gss) UseGss();
    const Owners before = Get("file");
    EXPECT_EQ(SetOwner(before.owner), NFS4_OK);
    EXPECT_EQ(Get("file"), before);
    EXPECT_EQ(Verify(before.owner), NFS4_OK);
  }
}

TEST_F(OwnersTest, SetsOwnersByName) {
  MakeFile("other", 0, 0);
  GivenValues given(server.buffers);
  const SETATTR4args set{{},
                         given.Add(FATTR4_OWNER, fattr4_owner("anna@example.org"))
                             .Add(FATTR4_OWNER_GROUP, fattr4_owner_group("staff@example.org"))
                             .Take()};
  EXPECT_EQ(Run(PutRoot(), LookUp("other"), Op(OP_SETATTR, set)).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("other").uid, 7u);
  EXPECT_EQ(AttributesOf("other").gid, 8u);
}

TEST_F(OwnersTest, RejectsOwnersWithoutTranslation) {
  EXPECT_EQ(SetOwner("carl@example.org"), NFS4ERR_BADOWNER);
  EXPECT_EQ(SetOwner("root@example.com"), NFS4ERR_BADOWNER);
  UseGss();
  EXPECT_EQ(SetOwner("0"), NFS4ERR_BADOWNER);
  EXPECT_EQ(AttributesOf("file").uid, 7u);
}

// chown(2) with this number changes nothing and succeeds.
TEST_F(OwnersTest, TheNumberThatIsNoIdIsNoSuccess) { EXPECT_EQ(SetOwner("4294967295"), NFS4ERR_BADOWNER); }

TEST_F(OwnersTest, AccessControlListsHaveNamesInBothDirections) {
  UseGss();
  fattr4_acl list;
  list.push_back({.type = ACE4_ACCESS_ALLOWED_ACE_TYPE, .flag = 0, .access_mask = kRights, .who = "root@example.org"});
  list.push_back({.type = ACE4_ACCESS_ALLOWED_ACE_TYPE,
                  .flag = ACE4_IDENTIFIER_GROUP,
                  .access_mask = kRights,
                  .who = "staff@example.org"});
  GivenValues given(server.buffers);
  const SETATTR4args set{{}, given.Add(FATTR4_ACL, list).Take()};
  EXPECT_EQ(Run(PutRoot(), LookUp("file"), Op(OP_SETATTR, set)).status, NFS4_OK);
  auto reply = Run(PutRoot(), LookUp("file"), GetAttr({FATTR4_ACL}));
  const fattr4 shown = reply.Skip(2).Next<GETATTR4res>().resok4().obj_attributes;
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(shown.attr_vals.bytes()));
  xdr::Decoder decoder(message);
  fattr4_acl acl;
  ASSERT_TRUE(xdr::Decode(decoder, acl));
  const auto has = [&](std::string_view who, uint32_t flag) {
    return std::ranges::any_of(acl, [&](const nfsace4& entry) { return entry.who == who && entry.flag == flag; });
  };
  EXPECT_TRUE(has("root@example.org", 0));
  EXPECT_TRUE(has("staff@example.org", ACE4_IDENTIFIER_GROUP));

  list[0].who = "carl@example.org";
  GivenValues unknown(server.buffers);
  const SETATTR4args bad{{}, unknown.Add(FATTR4_ACL, list).Take()};
  EXPECT_EQ(Run(PutRoot(), LookUp("file"), Op(OP_SETATTR, bad)).status, NFS4ERR_BADOWNER);
}

TEST_F(OwnersTest, ListingsHaveNames) {
  MakeFile("of nobody we know", 99, 98);
  MakeFile("of root", 0, 0);
  UseGss();
  auto reply = Run(PutRoot(), Op(OP_READDIR, READDIR4args{0, {}, 0, 1 << 16, kBoth.ToBitmap()}));
  ASSERT_EQ(reply.status, NFS4_OK);
  std::map<std::string, std::string> owners;
  const auto listed = reply.Skip().Next<READDIR4res>();
  for (const entry4& entry : listed.resok4().reply.entries) {
    owners.emplace(entry.name, OwnersIn(entry.attrs).owner);
  }
  EXPECT_THAT(owners, ElementsAre(Pair("file", "anna@example.org"), Pair("of nobody we know", "99"),
                                  Pair("of root", "root@example.org")));
}

// --- a directory service that does not answer

TEST_F(OwnersTest, AttributesHaveNumbersWhileTheDatabaseHangs) {
  BeImpatient();
  UseGss();
  database.hangs = true;
  EXPECT_EQ(Get("file"), (Owners{"7", "8"}));
  auto listing = Run(PutRoot(), Op(OP_READDIR, READDIR4args{0, {}, 0, 1 << 16, kBoth.ToBitmap()}));
  ASSERT_EQ(listing.status, NFS4_OK);
  const auto listed = listing.Skip().Next<READDIR4res>();
  ASSERT_EQ(listed.resok4().reply.entries.size(), 1u);
  EXPECT_EQ(OwnersIn(listed.resok4().reply.entries[0].attrs).owner, "7");
  database.Answer();
  EXPECT_EQ(Get("file"), (Owners{"anna@example.org", "staff@example.org"}));
}

TEST_F(OwnersTest, SettingAndComparingNamesIsDelayedWhileTheDatabaseHangs) {
  BeImpatient();
  database.hangs = true;
  EXPECT_EQ(SetOwner("root@example.org"), NFS4ERR_DELAY);
  EXPECT_EQ(AttributesOf("file").uid, 7u);
  UseGss();
  EXPECT_EQ(Verify("anna@example.org"), NFS4ERR_DELAY);
  database.Answer();
  EXPECT_EQ(Verify("anna@example.org"), NFS4_OK);
  EXPECT_EQ(SetOwner("root@example.org"), NFS4_OK);
  EXPECT_EQ(AttributesOf("file").uid, 0u);
}

TEST_F(OwnersTest, OthersGoOnWhileACallWaitsForTheDatabase) {
  UseGss();
  database.hangs = true;
  const bool& ended = server.Begin(server.Encode(0, PutRoot(), LookUp("file"), GetAttr(kBoth)));
  EXPECT_FALSE(ended);
  EXPECT_EQ(Run(PutRoot(), LookUp("file"), GetAttr({FATTR4_SIZE})).status, NFS4_OK);
  server.SetUser(0);
  EXPECT_EQ(Get("file"), (Owners{"7", "8"}));
  EXPECT_EQ(SetOwner("1000"), NFS4_OK);
  EXPECT_FALSE(ended);
  world.RunFor(std::chrono::seconds(2));
  EXPECT_TRUE(ended);
  database.Answer();
}

// --- all clients get names

class NamesForAllTest : public OwnersTest {
 protected:
  NamesForAllTest() : strict(Settings{.names_for_all = true}) {
    auto& files = strict.Export("/");
    strict.owners = idmap::Mapper("example.org", lookups);
    fs::CreateHow how;
    how.attributes.uid = 7;
    EXPECT_TRUE(Now(files.Create(Root(), files.Root(), "file", how)).result);
  }
  Nfs4Server strict;
};

TEST_F(NamesForAllTest, ClientsOfAuthSysGetNamesAndMaySendNumbers) {
  auto reply = strict.Run(0, PutRoot(), LookUp("file"), GetAttr(kBoth));
  EXPECT_EQ(OwnersIn(reply.Skip(2).Next<GETATTR4res>().resok4().obj_attributes).owner, "anna@example.org");
  GivenValues given(strict.buffers);
  const SETATTR4args set{{}, given.Add(FATTR4_OWNER, fattr4_owner("0")).Take()};
  EXPECT_EQ(strict.Run(0, PutRoot(), LookUp("file"), Op(OP_SETATTR, set)).status, NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
