// NFSv2 as a program: versions, procedures, flavors, admission, and duplicate calls.
#include <set>

#include "base/address.h"
#include "nfs/v2/nfs_test.h"

namespace penstock::nfs::v2 {
namespace {

class ProgramTest : public NfsTest {
 protected:
  Answer AskRaw(uint32_t version, uint32_t procedure, const fhandle& handle) {
    return memory.Ask(memory.Encode(rpc::Xid(1), NFS_PROGRAM, version, procedure, handle));
  }
};

TEST_F(ProgramTest, NullWorksForEveryCaller) {
  EXPECT_TRUE(memory.Ask(memory.EncodeCall<NFSPROC_NULL>({})).succeeded());
  memory.SetNoIdentity();
  EXPECT_TRUE(memory.Ask(memory.EncodeCall<NFSPROC_NULL>({})).succeeded());
}

// RFC 1094 §2.2.4, §2.2.8
TEST_F(ProgramTest, TheObsoleteProceduresDoNothing) {
  EXPECT_TRUE(memory.Ask(memory.EncodeCall<NFSPROC_ROOT>({})).succeeded());
  EXPECT_TRUE(memory.Ask(memory.EncodeCall<NFSPROC_WRITECACHE>({})).succeeded());
}

TEST_F(ProgramTest, ServesVersion2BesideVersion3) {
  EXPECT_TRUE(AskRaw(2, NFSPROC_GETATTR::kNumber, root).succeeded());
  EXPECT_EQ(memory.Call<nfs3::NFSPROC3_GETATTR>({memory.RootOf("/")}).status(), nfs3::NFS3_OK);
  const Answer other = AskRaw(1, NFSPROC_GETATTR::kNumber, root);
  EXPECT_EQ(other.accept_status(), rpcmsg::PROG_MISMATCH);
  EXPECT_EQ(other.header.body.areply().reply_data.mismatch_info(), (rpcmsg::version_range{2, 3}));
  EXPECT_EQ(AskRaw(2, 18, root).accept_status(), rpcmsg::PROC_UNAVAIL);
}

TEST_F(ProgramTest, AnswersGarbageArgsToMalformedArguments) {
  EXPECT_EQ(AskRaw(2, NFSPROC_NULL::kNumber, root).accept_status(), rpcmsg::GARBAGE_ARGS);    // too many
  EXPECT_EQ(AskRaw(2, NFSPROC_LOOKUP::kNumber, root).accept_status(), rpcmsg::GARBAGE_ARGS);  // too few
  EXPECT_EQ(AskRaw(2, NFSPROC_READDIR::kNumber, root).accept_status(), rpcmsg::GARBAGE_ARGS);
}

TEST_F(ProgramTest, AnswersTooWeakToAFlavorThatTheExportRefuses) {
  memory.SetNoIdentity();
  const Answer list = memory.Ask(memory.EncodeCall<NFSPROC_READDIR>({root, 0, 4096}));
  EXPECT_EQ(list.auth_status(), rpcmsg::AUTH_TOOWEAK);
}

// RFC 2623 §2.3.2
TEST_F(ProgramTest, AcceptsAnyFlavorForTheCallsOfAMount) {
  memory.Export("/sealed", {.security = {SecurityFlavor::kKrb5p}});
  const fhandle sealed = RootOf("/sealed");
  EXPECT_EQ(Call<NFSPROC_GETATTR>(sealed).status(), NFS_OK);
  EXPECT_EQ(Call<NFSPROC_STATFS>(sealed).status(), NFS_OK);
  const Answer list = memory.Ask(memory.EncodeCall<NFSPROC_READDIR>({sealed, 0, 4096}));
  EXPECT_EQ(list.auth_status(), rpcmsg::AUTH_TOOWEAK);
}

TEST_F(ProgramTest, SquashesRootWithRootSquash) {
  memory.Export("/squashed", {.squash = Squash::kRoot});
  EXPECT_EQ((Call<NFSPROC_MKDIR>({{RootOf("/squashed"), "name"}, Unset()}).status()), NFSERR_ACCES);
}

TEST_F(ProgramTest, AnswersStaleToAHostThatIsNotAdmitted) {
  memory.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8"))});
  const fhandle inside = RootOf("/inside");
  EXPECT_EQ(Call<NFSPROC_GETATTR>(inside).status(), NFSERR_STALE);
  memory.peer.address = {asio::ip::make_address("10.1.2.3"), 700};
  EXPECT_EQ(Call<NFSPROC_GETATTR>(inside).status(), NFS_OK);
}

TEST_F(ProgramTest, ExecutesADuplicateOnce) {
  MakeFile("file");
  const auto remove = [&] {
    return memory.Ask(
        memory.Encode(rpc::Xid(77), NFS_PROGRAM, NFS_VERSION, NFSPROC_REMOVE::kNumber, diropargs{root, "file"}));
  };
  const Answer first = remove();
  memory.peer.address = {memory.peer.address.address(), 701};  // another connection
  memory.peer.connection = 2;
  const Answer second = remove();
  EXPECT_TRUE(Equal(first.message.stream.bytes(), second.message.stream.bytes()));
  EXPECT_EQ(memory.ResultsOf<NFSPROC_REMOVE>(second), NFS_OK);
  EXPECT_EQ(Remove("file"), NFSERR_NOENT);  // a new call
}

// RFC 8166 §6.1
TEST_F(ProgramTest, RejectsACallWithAReducedItemThatIsNotDdpEligible) {
  MakeFile("file");
  rpc::Message call = memory.EncodeCall<NFSPROC_REMOVE>({root, "file"});
  const size_t at = call.stream.size() - 4;
  call.items.push_back({.offset = at, .data = call.stream.Sub(at, 4)});
  call.stream = call.stream.Sub(0, at);
  EXPECT_EQ(memory.Ask(std::move(call)).accept_status(), rpc::AcceptStatus::GARBAGE_ARGS);
  EXPECT_EQ(Lookup("file").status(), NFS_OK);
}

TEST_F(ProgramTest, CachesOnlyNonIdempotentProcedures) {
  using P = NFS_VERSION_procedure;
  const std::set<P> remembered{P::NFSPROC_SETATTR, P::NFSPROC_CREATE,  P::NFSPROC_REMOVE, P::NFSPROC_RENAME,
                               P::NFSPROC_LINK,    P::NFSPROC_SYMLINK, P::NFSPROC_MKDIR,  P::NFSPROC_RMDIR};
  for (uint32_t procedure = 0; procedure <= NFSPROC_STATFS::kNumber; ++procedure) {
    const rpc::Peer peer;
    rpc::CallContext context{.peer = peer, .version = NFS_VERSION, .procedure = procedure};
    const xdr::Message none;
    xdr::Decoder arguments(none);
    const rpc::Keep keep = nfs2.Classify(context, arguments).keep;
    EXPECT_EQ(keep == rpc::Keep::kChange, remembered.contains(static_cast<P>(procedure)))
        << XdrName(static_cast<P>(procedure));
    EXPECT_EQ(keep == rpc::Keep::kWrite, procedure == NFSPROC_WRITE::kNumber) << XdrName(static_cast<P>(procedure));
  }
}

}  // namespace
}  // namespace penstock::nfs::v2
