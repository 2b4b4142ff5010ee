// NFSACL as a program: versions, procedures, flavors, and duplicate calls.
#include "nfs/acl/acl_test.h"

namespace penstock::nfs::acl {
namespace {

class AclProgramTest : public AclTest {
 protected:
  template <class Arguments>
  Answer AskRaw(uint32_t version, uint32_t procedure, const Arguments& arguments) {
    return memory.Ask(memory.Encode(rpc::Xid(1), NFS_ACL_PROGRAM, version, procedure, arguments));
  }
};

TEST_F(AclProgramTest, NullWorksForEveryCaller) {
  memory.SetNoIdentity();
  EXPECT_TRUE(memory.Ask(memory.EncodeCall<ACLPROC3_NULL>({})).succeeded());
}

TEST_F(AclProgramTest, RejectsOtherVersionsAndProcedures) {
  for (const uint32_t version : {2u, 4u}) {
    const Answer answer = AskRaw(version, 0, xdr::Void());
    ASSERT_EQ(answer.accept_status(), rpcmsg::PROG_MISMATCH) << "version " << version;
    EXPECT_EQ(answer.header.body.areply().reply_data.mismatch_info(), (rpcmsg::version_range{3, 3}));
  }
  EXPECT_EQ(AskRaw(3, 3, xdr::Void()).accept_status(), rpcmsg::PROC_UNAVAIL);
}

TEST_F(AclProgramTest, AnswersGarbageArgsToMalformedArguments) {
  EXPECT_EQ(AskRaw(3, ACLPROC3_GETACL::kNumber, root).accept_status(), rpcmsg::GARBAGE_ARGS);
  EXPECT_EQ(AskRaw(3, ACLPROC3_SETACL::kNumber, GETACL3args{root, NA_ACL}).accept_status(), rpcmsg::GARBAGE_ARGS);
}

TEST_F(AclProgramTest, AnswersGarbageArgsToAListBeyondTheLimit) {
  const auto set = [&](uint32_t count) {
    xdr::Encoder encoder(memory.buffers);
    const rpc::ClientCredential caller({.machine = "client", .uid = 0, .gid = 0, .groups = {}});
    rpc::EncodeCallHeader(encoder,
                          {rpc::Xid(1), NFS_ACL_PROGRAM, NFS_ACL_V3, ACLPROC3_SETACL::kNumber, caller.auth(), {}});
    xdr::Encode(encoder, root);
    encoder.U32(NA_ACL);
    encoder.U32(count);
    encoder.U32(count);
    for (uint32_t i = 0; i < count; ++i) xdr::Encode(encoder, aclent{NA_USER_OBJ, 0, 6});
    encoder.U32(0);
    encoder.U32(0);
    return memory.Ask(encoder.Finish()).accept_status();
  };
  EXPECT_EQ(set(NFS_ACL_MAX_ENTRIES), rpcmsg::SUCCESS);
  EXPECT_EQ(set(NFS_ACL_MAX_ENTRIES + 1), rpcmsg::GARBAGE_ARGS);
}

// Any flavor may get the attributes of an export's root, but not its lists.
TEST_F(AclProgramTest, AnswersTooWeakToAFlavorThatTheExportRefuses) {
  memory.Export("/sealed", {.squash = Squash::kNone, .security = {SecurityFlavor::kKrb5p}});
  const nfs_fh3 sealed = memory.RootOf("/sealed");
  EXPECT_EQ(memory.Ask(memory.EncodeCall<ACLPROC3_GETACL>({sealed, NA_ACL})).auth_status(), rpcmsg::AUTH_TOOWEAK);
  const SETACL3args set{sealed, Lists(NA_ACL, shared_)};
  EXPECT_EQ(memory.Ask(memory.EncodeCall<ACLPROC3_SETACL>(set)).auth_status(), rpcmsg::AUTH_TOOWEAK);
  const TestInitiator root_user("root@EXAMPLE.ORG", 0);
  memory.SetInitiator(root_user, rpc::GssService::kPrivacy);
  EXPECT_EQ(AccessOf(sealed), OfMode(0755));
}

TEST_F(AclProgramTest, SquashesRoot) {
  memory.Export("/squashed", {.squash = Squash::kRoot});
  EXPECT_EQ(SetAccess(memory.RootOf("/squashed"), shared_), NFS3ERR_PERM);
  EXPECT_EQ(SetAccess(root, shared_), NFS3_OK);
}

TEST_F(AclProgramTest, ExecutesADuplicateOnce) {
  const nfs_fh3 file = MakeFile("file");
  const SETACL3args arguments{file, Lists(NA_ACL, shared_)};
  const auto set = [&] {
    return memory.Ask(memory.Encode(rpc::Xid(77), NFS_ACL_PROGRAM, NFS_ACL_V3, ACLPROC3_SETACL::kNumber, arguments));
  };
  const Answer first = set();
  ASSERT_EQ(SetAccess(file, OfMode(0600)), NFS3_OK);
  memory.peer.address = {memory.peer.address.address(), 701};  // another connection
  memory.peer.connection = 2;
  const Answer second = set();
  EXPECT_TRUE(Equal(first.message.stream.bytes(), second.message.stream.bytes()));
  EXPECT_EQ(AccessOf(file), OfMode(0600));
}

// RFC 8267 §5.2
TEST_F(AclProgramTest, NoItemIsDdpEligible) {
  const auto check = []<class Procedure>(std::type_identity<Procedure>) {
    EXPECT_EQ(xdr::kExtent<typename Procedure::Arguments>.payloads, 0u) << Procedure::kName;
    EXPECT_EQ(xdr::kExtent<typename Procedure::Results>.payloads, 0u) << Procedure::kName;
  };
  NFS_ACL_V2_procedures::ForEach(check);
  NFS_ACL_V3_procedures::ForEach(check);
}

}  // namespace
}  // namespace penstock::nfs::acl
