// Operations of version 2 clients on files that version 4 clients have open or delegated. One dispatcher serves both
// versions. The calls do not wait, because they run on no loop: a call that would wait gets no reply.
#include "nfs/padded_handle.h"
#include "nfs/v2/program.h"
#include "nfs/v4/operations/claims.h"
#include "nfs/v4/operations/stateful_test.h"
#include "protocol/nfs2.h"

namespace penstock::nfs::v4 {
namespace {

using nfs2::NFS_OK;
using nfs2::NFSERR_ACCES;
using testing::IsEmpty;
using testing::SizeIs;

class ClaimsOfVersion2Test : public StatefulTest {
 protected:
  ClaimsOfVersion2Test() : file(MakeFile("file", "data", 0666)), claims_(server.GetServices()) {
    server.Serve(nfs2_);
    LetCall(Client());
    root2 = As2(Root());
    file2 = As2(file);
  }

  static nfs2::fhandle As2(const nfs_fh4& handle) { return *ToPadded(*FileHandle::Parse(handle.bytes())); }

  // Calls a procedure as root. The result has no value if the call gets no reply.
  template <class Procedure>
  std::optional<nfs2::nfsstat> Call(const typename Procedure::Arguments& arguments) {
    xdr::Encoder encoder(server.buffers);
    const rpc::ClientCredential caller({.machine = "client of version 2", .uid = 0, .gid = 0, .groups = {}});
    rpc::EncodeCallHeader(
        encoder,
        {rpc::Xid(++server.last_xid), Procedure::kProgram, Procedure::kVersion, Procedure::kNumber, caller.auth(), {}});
    xdr::Encode(encoder, arguments);
    const auto answer = server.Ask(encoder.Finish());
    if (answer.message.empty()) return std::nullopt;
    xdr::Decoder decoder(answer.message);
    rpc::ReplyHeader header;
    nfs2::nfsstat status = nfs2::NFSERR_IO;
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header) && xdr::Decode(decoder, status));
    return status;
  }
  auto GetAttributes() { return Call<nfs2::NFSPROC_GETATTR>(file2); }
  auto Lookup() { return Call<nfs2::NFSPROC_LOOKUP>({root2, "file"}); }
  auto Read() { return Call<nfs2::NFSPROC_READ>({file2, 0, 100, 0}); }
  auto Write() {
    return Call<nfs2::NFSPROC_WRITE>(
        {file2, 0, 0, 0, xdr::Payload<nfs2::NFS_MAXDATA>::Borrowed(std::string_view("news"))});
  }
  auto Remove() { return Call<nfs2::NFSPROC_REMOVE>({root2, "file"}); }

  stateid4 ReadDelegation() {
    const auto opened = TryOpen(Client(), "file", kRead | OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
    EXPECT_EQ(opened.resok4().delegation.delegation_type(), OPEN_DELEGATE_READ);
    return opened.resok4().delegation.read().stateid;
  }
  stateid4 WriteDelegation() {
    const auto opened = TryOpen(Client(), "file", kBoth | OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG);
    EXPECT_EQ(opened.resok4().delegation.delegation_type(), OPEN_DELEGATE_WRITE);
    return opened.resok4().delegation.write().stateid;
  }
  void Return(const stateid4& id) { Run(PutFh(file), Op(OP_DELEGRETURN, DELEGRETURN4args{id})); }

  nfs_fh4 file;
  nfs2::fhandle root2{};
  nfs2::fhandle file2{};

 private:
  Claims claims_;
  v2::Program nfs2_{server.exports, {}, &claims_};
};

// The handles of both versions name one file.
TEST_F(ClaimsOfVersion2Test, ACallWaitsForAWriteDelegationOfTheSameFile) {
  const stateid4 id = WriteDelegation();
  EXPECT_EQ(Read(), std::nullopt);
  ASSERT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(server.callbacks.recalls[0].delegation.other, id.other);
  EXPECT_EQ(GetAttributes(), std::nullopt);
  EXPECT_EQ(Lookup(), std::nullopt);
  EXPECT_EQ(Write(), std::nullopt);
  Return(id);
  EXPECT_EQ(Read(), NFS_OK);
  EXPECT_EQ(GetAttributes(), NFS_OK);
  EXPECT_EQ(Lookup(), NFS_OK);
  EXPECT_EQ(Write(), NFS_OK);
}

TEST_F(ClaimsOfVersion2Test, AReaderDoesNotDisturbAReadDelegation) {
  const stateid4 id = ReadDelegation();
  EXPECT_EQ(Read(), NFS_OK);
  EXPECT_EQ(Lookup(), NFS_OK);
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
  EXPECT_EQ(Remove(), std::nullopt);
  EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
  Return(id);
  EXPECT_EQ(Remove(), NFS_OK);
}

TEST_F(ClaimsOfVersion2Test, RespectsShareDenials) {
  const auto opened = TryOpen(Client(), "file", kBoth | OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN4_SHARE_DENY_BOTH);
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_EQ(Read(), NFSERR_ACCES);
  EXPECT_EQ(Write(), NFSERR_ACCES);
  EXPECT_EQ(GetAttributes(), NFS_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
