#include "nfs/v4/attributes/owner_texts.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "idmap/test_database.h"
#include "nfs/test_initiator.h"
#include "nfs/test_server.h"
#include "rdma/sim/world.h"

namespace penstock::nfs::v4 {
namespace {

using nfs4::NFS4ERR_BADOWNER;
using nfs4::NFS4ERR_DELAY;
using nfs4::nfsstat4;

class OwnerTextsTest : public testing::Test {
 protected:
  OwnerTextsTest() { peer.address = {asio::ip::make_address("192.0.2.1"), 700}; }

  void UseGss() { credential = alice.With(rpc::GssService::kIntegrity); }
  // The texts of a new request.
  OwnerTexts Texts() { return Texts(names); }
  OwnerTexts Texts(const idmap::Mapper& mapper) {
    return OwnerTexts(mapper, settings, rpc::CallContext{.peer = peer, .credential = credential});
  }
  void Load(OwnerTexts& texts, uint32_t uid, uint32_t gid) {
    Now([](OwnerTexts& of, uint32_t user, uint32_t group) -> Task<bool> {
      co_await of.Load(user, group);
      co_return true;
    }(texts, uid, gid));
  }
  std::string User(OwnerTexts& texts, uint32_t uid) {
    xdr::Encoder encoder(pool);
    texts.EncodeUser(encoder, uid);
    return Encoded(encoder.Finish());
  }
  std::string Group(OwnerTexts& texts, uint32_t gid) {
    xdr::Encoder encoder(pool);
    texts.EncodeGroup(encoder, gid);
    return Encoded(encoder.Finish());
  }
  static std::string Encoded(const xdr::Message& message) {
    const uint32_t length = LoadBig<uint32_t>(message.stream.data());
    return std::string(AsText(message.stream.bytes().subspan(4, length)));
  }
  Result<uint32_t, nfsstat4> UserOf(std::string_view text) {
    OwnerTexts texts = Texts();
    return Now(texts.UserOf(text));
  }

  BufferPool pool;
  rdma::sim::World world{1};
  idmap::TestDatabase database;
  idmap::Lookups lookups{database.database(), world, database.run()};
  idmap::Mapper names{"example.org", lookups};
  Settings settings;
  rpc::Peer peer;
  rpc::Credential credential{.flavor = rpc::AuthFlavor::AUTH_SYS, .group_ids = {}};
  const TestInitiator alice{"alice@EXAMPLE.ORG", 7};
};

TEST_F(OwnerTextsTest, SendsNumbersUnderAuthSys) {
  OwnerTexts texts = Texts();
  EXPECT_TRUE(texts.LoadAtOnce(7, 8));
  EXPECT_EQ(User(texts, 7), "7");
  EXPECT_EQ(Group(texts, 8), "8");
  EXPECT_EQ(database.asked, 0u);
}

TEST_F(OwnerTextsTest, SendsNamesUnderRpcsecGss) {
  UseGss();
  OwnerTexts texts = Texts();
  EXPECT_FALSE(texts.LoadAtOnce(7, 8));
  Load(texts, 7, 8);
  EXPECT_TRUE(texts.LoadAtOnce(7, 8));
  EXPECT_EQ(User(texts, 7), "anna@example.org");
  EXPECT_EQ(Group(texts, 8), "staff@example.org");
  Load(texts, 0, 0);
  EXPECT_EQ(User(texts, 0), "root@example.org");
}

TEST_F(OwnerTextsTest, LoadsRememberedNamesAtOnce) {
  UseGss();
  OwnerTexts first = Texts();
  Load(first, 7, 99);
  database.hangs = true;
  OwnerTexts texts = Texts();
  EXPECT_TRUE(texts.LoadAtOnce(7, 99));
  EXPECT_EQ(User(texts, 7), "anna@example.org");
  EXPECT_EQ(Group(texts, 99), "99");
  EXPECT_FALSE(texts.LoadAtOnce(7, 8));
  EXPECT_EQ(lookups.under_way(), 0u);
}

TEST_F(OwnerTextsTest, SendsNamesToAllIfTheOperatorSaysSo) {
  settings.names_for_all = true;
  OwnerTexts texts = Texts();
  Load(texts, 7, 8);
  EXPECT_EQ(User(texts, 7), "anna@example.org");
  EXPECT_EQ(UserOf("7"), 7u);
}

// RFC 8881 §5.9
TEST_F(OwnerTextsTest, SendsTheNumberOfAnIdWithoutAName) {
  UseGss();
  OwnerTexts texts = Texts();
  Load(texts, 99, 98);
  EXPECT_EQ(User(texts, 99), "99");
  EXPECT_EQ(Group(texts, 98), "98");
  EXPECT_FALSE(texts.lacks_answers());
}

TEST_F(OwnerTextsTest, AcceptsNumbersAndNamesUnderAuthSys) {
  EXPECT_EQ(UserOf("7"), 7u);
  EXPECT_EQ(UserOf("12345"), 12345u);
  EXPECT_EQ(UserOf("anna@example.org"), 7u);
  OwnerTexts texts = Texts();
  EXPECT_EQ(Now(texts.GroupOf("staff@example.org")), 8u);
}

// RFC 7530 §5.9, RFC 8881 §5.9
TEST_F(OwnerTextsTest, AcceptsOnlyNamesUnderRpcsecGss) {
  UseGss();
  EXPECT_EQ(UserOf("anna@example.org"), 7u);
  EXPECT_EQ(UserOf("7").error(), NFS4ERR_BADOWNER);
  EXPECT_EQ(UserOf("12345").error(), NFS4ERR_BADOWNER);
}

TEST_F(OwnerTextsTest, RejectsUnknownNamesAndOtherDomains) {
  for (const bool gss : {false, true}) {
    if (gss) UseGss();
    EXPECT_EQ(UserOf("carl@example.org").error(), NFS4ERR_BADOWNER);
    EXPECT_EQ(UserOf("anna@example.com").error(), NFS4ERR_BADOWNER);
    EXPECT_EQ(UserOf("anna").error(), NFS4ERR_BADOWNER);
    EXPECT_EQ(UserOf("nobody").error(), NFS4ERR_BADOWNER);
    EXPECT_EQ(UserOf("4294967295").error(), NFS4ERR_BADOWNER);
  }
}

TEST_F(OwnerTextsTest, HasNumbersInBothDirectionsWithoutADomain) {
  UseGss();
  const idmap::Mapper numbers;
  OwnerTexts texts = Texts(numbers);
  EXPECT_TRUE(texts.LoadAtOnce(7, 8));
  EXPECT_EQ(User(texts, 7), "7");
  EXPECT_EQ(Now(texts.UserOf("7")), 7u);
  EXPECT_EQ(Now(texts.UserOf("anna@example.org")).error(), NFS4ERR_BADOWNER);
}

TEST_F(OwnerTextsTest, SendsTheNumberIfTheDatabaseHangs) {
  UseGss();
  database.hangs = true;
  OwnerTexts texts = Texts();
  bool loaded = false;
  Spawn([](OwnerTexts& of, bool& done) -> Task<> {
    co_await of.Load(7, 8);
    done = true;
  }(texts, loaded));
  EXPECT_FALSE(loaded);
  world.RunFor(std::chrono::seconds(2));
  EXPECT_TRUE(loaded);
  EXPECT_TRUE(texts.LoadAtOnce(7, 8));
  EXPECT_TRUE(texts.lacks_answers());
  EXPECT_EQ(User(texts, 7), "7");
  // The answer comes: the request keeps its text, and the next one gets the name.
  database.Answer();
  Load(texts, 7, 8);
  EXPECT_EQ(User(texts, 7), "7");
  OwnerTexts next = Texts();
  Load(next, 7, 8);
  EXPECT_EQ(User(next, 7), "anna@example.org");
}

TEST_F(OwnerTextsTest, ANameCanBeSetLaterIfTheDatabaseHangs) {
  database.hangs = true;
  OwnerTexts texts = Texts();
  std::optional<Result<uint32_t, nfsstat4>> id;
  Spawn([](OwnerTexts& of, std::optional<Result<uint32_t, nfsstat4>>& to) -> Task<> {
    to = co_await of.UserOf("anna@example.org");
  }(texts, id));
  EXPECT_FALSE(id);
  world.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(id.value().error(), NFS4ERR_DELAY);
  EXPECT_EQ(UserOf("12345"), 12345u);
  database.Answer();
  EXPECT_EQ(UserOf("anna@example.org"), 7u);
}

TEST_F(OwnerTextsTest, AFailureOfTheDatabaseIsNoUnknownName) {
  database.fails = true;
  EXPECT_EQ(UserOf("anna@example.org").error(), NFS4ERR_DELAY);
}

}  // namespace
}  // namespace penstock::nfs::v4
