// NFSACL over RDMA. A client cannot know the size of an object's lists in advance. It offers a Reply chunk for the
// largest ones.
#include "nfs/acl/acl_test.h"
#include "nfs_protocol/nfs3_reply_bounds.h"
#include "rpc/client.h"
#include "rpcrdma/test_rig.h"

namespace penstock::nfs::acl {
namespace {

class AclReplySizeTest : public AclTest {
 protected:
  AclReplySizeTest() {
    dispatcher_.Add(program_);
    rig_.server.emplace(rig_.world, dispatcher_, rig_.server_options);
    auto listener = rig_.server_provider->Listen({asio::ip::address_v4::any(), 20049});
    EXPECT_TRUE(listener);
    rig_.address = (*listener)->local();
    rig_.server->Start(*std::move(listener));
    EXPECT_TRUE(rig_.Connect());
    directory_ = MakeDirectory("directory");
    const Entries longest = Longest();
    EXPECT_EQ(Set(directory_, Lists(NA_ACL | NA_DFACL, longest, AsDefaults(longest))).status(), NFS3_OK);
    client_.emplace(*rig_.client, rig_.client_provider->buffers(), rpc::Xid(1),
                    rpc::ClientCredential({.machine = "client", .uid = 0, .gid = 0, .groups = {}}));
  }
  void TearDown() override { rig_.Finish(); }

  static Entries Longest() {
    Entries entries{{NA_USER_OBJ, 0, 7}};
    for (uint32_t uid = 1; entries.size() + 3 < NFS_ACL_MAX_ENTRIES; ++uid) entries.push_back({NA_USER, uid, 5});
    for (const aclent& last : {aclent{NA_GROUP_OBJ, 0, 5}, {NA_CLASS_OBJ, 0, 7}, {NA_OTHER_OBJ, 0, 1}}) {
      entries.push_back(last);
    }
    return entries;
  }

  template <class T>
  T Await(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> inner, std::optional<T>& to) -> Task<> {
      T value = co_await std::move(inner);
      to.emplace(std::move(value));
    }(std::move(task), result));
    EXPECT_TRUE(rig_.world.RunUntil([&] { return result.has_value(); }));
    return *std::move(result);
  }
  auto GetOverRdma() {
    const GETACL3args arguments{directory_, kAllParts};
    return Await(client_->Call<ACLPROC3_GETACL>(arguments, nfs_protocol::ReplyBoundsOf<ACLPROC3_GETACL>(arguments)));
  }
  // Calls as a client that expects results of this size at most.
  auto GetWithRoomFor(size_t size) {
    const GETACL3args arguments{directory_, kAllParts};
    return Await(client_->CallWith<ACLPROC3_GETACL>([&](xdr::Encoder& encoder) { xdr::Encode(encoder, arguments); },
                                                    rpc::ReplyShape{.max_stream = size, .results = {}},
                                                    [](xdr::Decoder& decoder) {
                                                      GETACL3res results;
                                                      return xdr::Decode(decoder, results);
                                                    }));
  }

  Program program_{memory.exports};
  rpc::Dispatcher dispatcher_;  // without a reply cache, which would keep buffers of the network
  rpcrdma::Rig rig_;
  nfs_fh3 directory_;
  std::optional<rpc::Client> client_;
};

TEST_F(AclReplySizeTest, TheLargestReplyFitsInTheReplyChunkOfTheBound) {
  const auto got = GetOverRdma();
  ASSERT_TRUE(got);
  ASSERT_EQ(got->results.status(), NFS3_OK);
  EXPECT_EQ(got->results.resok().acl, Lists(kAllParts, Longest(), AsDefaults(Longest())));
  EXPECT_GT(rig_.network.stats().writes, 0u) << "the reply went to the Reply chunk";
  // The status, the attributes and two lists.
  EXPECT_EQ(xdr::MaxSize<GETACL3res>(), 4u + 88 + 4 + 2 * (4 + 4 + 1024 * 12));
}

// RFC 8267 §3.1: the client may send the call again with a larger Reply chunk.
TEST_F(AclReplySizeTest, AReplyThatDoesNotFitGetsAnErrorAndTheConnectionStays) {
  for (const size_t room : {10'000u, 100u}) {
    const auto got = GetWithRoomFor(room);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().kind, rpc::Error::Kind::kTransport);
    EXPECT_EQ(got.error().transport, rpc::CallError::kRefused) << "ERR_CHUNK";
  }
  EXPECT_EQ(rig_.network.stats().writes, 0u) << "no part of the reply was sent";
  EXPECT_TRUE(GetOverRdma());
}

TEST_F(AclReplySizeTest, TheLongestListsOfACallArriveInAReadChunk) {
  const SETACL3args arguments{directory_, Lists(NA_ACL | NA_DFACL, OfMode(0700), AsDefaults(Longest()))};
  const auto set =
      Await(client_->Call<ACLPROC3_SETACL>(arguments, nfs_protocol::ReplyBoundsOf<ACLPROC3_SETACL>(arguments)));
  ASSERT_TRUE(set);
  ASSERT_EQ(set->results.status(), NFS3_OK);
  EXPECT_EQ(AccessOf(directory_), OfMode(0700));
  EXPECT_EQ(DefaultsOf(directory_), AsDefaults(Longest()));
  EXPECT_GT(rig_.network.stats().reads, 0u);
}

}  // namespace
}  // namespace penstock::nfs::acl
