#include "nfs_protocol/nfs3_reply_bounds.h"

#include "nfs/v3/nfs_test.h"

namespace penstock::nfs_protocol {
namespace {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

class ReplyBoundsTest : public nfs::v3::NfsTest {
 protected:
  // Compares the size that rpc::Client tells the transport with the size of the reply.
  template <class Procedure>
  void ExpectKept(const typename Procedure::Arguments& arguments) {
    const rpc::ReplyBounds bounds = ReplyBoundsOf<Procedure>(arguments);
    const size_t most = rpc::kMaxReplyHeader + xdr::MaxSize<typename Procedure::Results>() + bounds.open;
    const nfs::Answer answer = memory.Ask(memory.EncodeCall<Procedure>(arguments));
    EXPECT_LE(answer.message.stream.size(), most) << Procedure::kName;
    ASSERT_LE(answer.message.items.size(), bounds.results.size()) << Procedure::kName;
    for (size_t i = 0; i < answer.message.items.size(); ++i) {
      EXPECT_LE(answer.message.items[i].data.size(), bounds.results[i].max_length) << Procedure::kName;
    }
  }
};

TEST_F(ReplyBoundsTest, NoReplyExceedsItsBounds) {
  const nfs_fh3 file = MakeFile("file", "contents");
  for (int i = 0; i < 50; ++i) MakeFile("file " + std::to_string(i));
  ExpectKept<NFSPROC3_NULL>({});
  ExpectKept<NFSPROC3_GETATTR>({file});
  ExpectKept<NFSPROC3_SETATTR>({file, {.mode = 0600}, {}});
  ExpectKept<NFSPROC3_LOOKUP>({{root, "file"}});
  ExpectKept<NFSPROC3_ACCESS>({file, ACCESS3_READ});
  ExpectKept<NFSPROC3_READLINK>({MakeSymlink("link", std::string(1000, 'x'))});
  ExpectKept<NFSPROC3_READ>({file, 0, 8});
  ExpectKept<NFSPROC3_WRITE>({file, 0, 1, FILE_SYNC, xdr::Payload<>::Borrowed("x")});
  ExpectKept<NFSPROC3_CREATE>({{root, "created"}, createhow3(UNCHECKED, sattr3{})});
  ExpectKept<NFSPROC3_MKDIR>({{root, "made"}, {}});
  ExpectKept<NFSPROC3_SYMLINK>({{root, "linked"}, {{}, xdr::Payload<>::Borrowed("x")}});
  ExpectKept<NFSPROC3_MKNOD>({{root, "pipe"}, mknoddata3(NF3FIFO, sattr3{})});
  ExpectKept<NFSPROC3_RENAME>({{root, "created"}, {root, "renamed"}});
  ExpectKept<NFSPROC3_LINK>({file, {root, "another"}});
  ExpectKept<NFSPROC3_REMOVE>({{root, "renamed"}});
  ExpectKept<NFSPROC3_RMDIR>({{root, "made"}});
  for (const uint32_t count : {0u, 50u, 200u, 4096u}) {
    ExpectKept<NFSPROC3_READDIR>({root, 0, {}, count});
    ExpectKept<NFSPROC3_READDIRPLUS>({root, 0, {}, count, count});
  }
  ExpectKept<NFSPROC3_FSSTAT>({root});
  ExpectKept<NFSPROC3_FSINFO>({root});
  ExpectKept<NFSPROC3_PATHCONF>({root});
  ExpectKept<NFSPROC3_COMMIT>({file, 0, 0});
}

TEST_F(ReplyBoundsTest, PlacesTheDataOfAReadWhereTheCallerWantsIt) {
  std::byte memory_of_caller[8];
  const auto bounds = ReplyBoundsOf<NFSPROC3_READ>({root, 0, 8}, memory_of_caller);
  ASSERT_EQ(bounds.results.size(), 1u);
  EXPECT_EQ(bounds.results[0].max_length, 8u);
  EXPECT_EQ(bounds.results[0].destination.data(), memory_of_caller);
}

TEST_F(ReplyBoundsTest, ADirectoryCountLimitsTheWholeResult) {
  EXPECT_EQ(ReplyBoundsOf<NFSPROC3_READDIR>({root, 0, {}, 4096}).open, 4096u - 104);
  EXPECT_EQ(ReplyBoundsOf<NFSPROC3_READDIR>({root, 0, {}, 100}).open, 0u);
  EXPECT_EQ(ReplyBoundsOf<NFSPROC3_READDIRPLUS>({root, 0, {}, 1, 4096}).open, 4096u - 104);
}

}  // namespace
}  // namespace penstock::nfs_protocol
