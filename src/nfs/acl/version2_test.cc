// NFSACL version 2, beside NFS version 2. lists_test.cc has the lists themselves.
#include "nfs/acl/acl_test.h"
#include "nfs/test_claims.h"
#include "nfs/v2/nfs_test.h"
#include "protocol/nfs2.h"

namespace penstock::nfs::acl {
namespace {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094
using testing::IsEmpty;

class Acl2Test : public v2::NfsTest, protected SampleLists {
 protected:
  Acl2Test() { memory.dispatcher.Add(secured_); }

  GETACL2res Get(const fhandle& object, uint32_t mask = kAllParts) { return Call<ACLPROC2_GETACL>({object, mask}); }
  Entries AccessOf(const fhandle& object) {
    const auto got = Get(object);
    EXPECT_EQ(got.status(), NFS_OK);
    if (!got.is_resok()) return {};
    const auto& list = got.resok().acl.access;
    return {list.begin(), list.end()};
  }
  attrstat Set(const fhandle& object, const secattr& lists) { return Call<ACLPROC2_SETACL>({object, lists}); }
  nfsstat SetAccess(const fhandle& object, const Entries& access) {
    return Set(object, Lists(NA_ACL, access)).status();
  }
  uint32_t RightsOn(const fhandle& object, uint32_t wanted = UINT32_MAX) {
    const auto got = Call<ACLPROC2_ACCESS>({object, wanted});
    EXPECT_EQ(got.status(), NFS_OK);
    return got.is_resok() ? got.resok().access : 0;
  }
  template <class Arguments>
  Answer AskRaw(uint32_t version, uint32_t procedure, const Arguments& arguments) {
    return memory.Ask(memory.Encode(rpc::Xid(1), NFS_ACL_PROGRAM, version, procedure, arguments));
  }
  void FailOnce(fs::faulty::Operation operation, fs::Error error) {
    memory.faults->Add({.operation = operation, .when = {}, .effect = fs::faulty::FailWith(error), .object = {}});
  }

 private:
  Program program_{memory.exports, nullptr, &nfs2};
  CalledBy secured_{program_, memory.secured};
};

TEST_F(Acl2Test, ReturnsTheModeAsAList) {
  const fhandle file = MakeFile("file", "", 0640);
  const auto got = Get(file);
  ASSERT_EQ(got.status(), NFS_OK);
  EXPECT_EQ(got.resok().acl, Lists(kAllParts, OfMode(0640)));
  EXPECT_EQ(got.resok().attr, AttributesOf(file));
}

TEST_F(Acl2Test, SetsAndReturnsBothListsOfADirectory) {
  const fhandle directory = MakeDirectory("directory");
  const secattr lists = Lists(NA_ACL | NA_DFACL, shared_, AsDefaults(inherited_));
  ASSERT_EQ(Set(directory, lists).status(), NFS_OK);
  EXPECT_EQ(Get(directory).resok().acl, Lists(kAllParts, shared_, AsDefaults(inherited_)));
  ASSERT_EQ(Set(directory, Lists(NA_DFACL, {})).status(), NFS_OK);
  EXPECT_EQ(Get(directory).resok().acl, Lists(kAllParts, shared_)) << "the access list stays";
}

TEST_F(Acl2Test, SetAclReturnsTheNewAttributes) {
  const fhandle file = MakeFile("file", "", 04755);
  const fattr before = AttributesOf(file);
  const auto set = Set(file, Lists(NA_ACL, shared_));
  ASSERT_EQ(set.status(), NFS_OK);
  EXPECT_EQ(set.attributes().mode, 0104640u) << "the group of the mode is the mask";
  EXPECT_NE(set.attributes().ctime, before.ctime);
  EXPECT_EQ(set.attributes(), AttributesOf(file));
}

TEST_F(Acl2Test, BothVersionsHaveTheSameLists) {
  const fhandle file = MakeFile("file");
  ASSERT_EQ(SetAccess(file, shared_), NFS_OK);
  const nfs3::nfs_fh3 same{.data = xdr::Opaque<64>(EncodedHandle(*FromPadded(file)).bytes())};
  EXPECT_EQ(Call<ACLPROC3_GETACL>({same, NA_ACL}).resok().acl, Lists(NA_ACL, shared_));
  ASSERT_EQ(Call<ACLPROC3_SETACL>({same, Lists(NA_ACL, OfMode(0751))}).status(), nfs3::NFS3_OK);
  EXPECT_EQ(AccessOf(file), OfMode(0751));
}

TEST_F(Acl2Test, ReturnsTheAttributes) {
  const fhandle file = MakeFile("file", "text");
  const auto got = Call<ACLPROC2_GETATTR>(file);
  ASSERT_EQ(got.status(), NFS_OK);
  EXPECT_EQ(got.attributes(), AttributesOf(file));
  EXPECT_EQ(Call<ACLPROC2_GETATTR>(StaleHandle()).status(), NFSERR_STALE);
}

TEST_F(Acl2Test, AccessReturnsTheRightsOfTheCaller) {
  using namespace nfs3;  // NOLINT: the bits are those of version 3
  const fhandle file = MakeFile("file", "", 0600);
  const auto got = Call<ACLPROC2_ACCESS>({file, UINT32_MAX});
  ASSERT_EQ(got.status(), NFS_OK);
  EXPECT_EQ(got.resok().access, ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND) << "unknown bits are zero";
  EXPECT_EQ(got.resok().attr, AttributesOf(file));
  EXPECT_EQ(RightsOn(file, ACCESS3_MODIFY | ACCESS3_LOOKUP), ACCESS3_MODIFY);
  ASSERT_EQ(SetAccess(file, shared_), NFS_OK);
  memory.SetUser(1003);
  EXPECT_EQ(RightsOn(file), ACCESS3_READ);
  memory.SetUser(1004);
  EXPECT_EQ(RightsOn(file), 0u);
}

TEST_F(Acl2Test, RejectsChangesOfAReadOnlyExport) {
  memory.Export("/ro", {.read_only = true, .squash = Squash::kNone});
  const fhandle directory = RootOf("/ro");
  EXPECT_EQ(SetAccess(directory, shared_), NFSERR_ROFS);
  EXPECT_EQ(AccessOf(directory), OfMode(0755));
  EXPECT_EQ(RightsOn(directory), nfs3::ACCESS3_READ | nfs3::ACCESS3_LOOKUP);
}

TEST_F(Acl2Test, OnlyTheOwnerSetsLists) {
  const fhandle file = MakeFile("file", "", 0600);
  memory.SetUser(1000);
  EXPECT_EQ(SetAccess(file, shared_), NFSERR_PERM);
  EXPECT_EQ(AccessOf(file), OfMode(0600)) << "every caller may read the lists";
}

TEST_F(Acl2Test, RejectsABadHandle) {
  for (const fhandle& handle : {StaleHandle(), fhandle{}}) {
    EXPECT_EQ(Get(handle).status(), NFSERR_STALE);
    EXPECT_EQ(SetAccess(handle, shared_), NFSERR_STALE);
    EXPECT_EQ(Call<ACLPROC2_ACCESS>({handle, 1}).status(), NFSERR_STALE);
  }
}

// Version 2 of NFS has no error for an invalid argument.
TEST_F(Acl2Test, RejectsMalformedListsAndUnknownParts) {
  const fhandle file = MakeFile("file");
  EXPECT_EQ(Get(file, NA_ACL | 0x10).status(), NFSERR_IO);
  EXPECT_EQ(SetAccess(file, {{NA_USER_OBJ, 0, 6}}), NFSERR_IO);
  EXPECT_EQ(Set(file, Lists(NA_ACL | 0x10, shared_)).status(), NFSERR_IO);
  EXPECT_EQ(AccessOf(file), OfMode(0644));
}

TEST_F(Acl2Test, ReportsErrorsOfTheFileSystem) {
  const fhandle file = MakeFile("file");
  FailOnce(fs::faulty::Operation::kGetAcls, fs::Error::kNoEnt);
  EXPECT_EQ(Get(file).status(), NFSERR_NOENT);
  FailOnce(fs::faulty::Operation::kSetAcls, fs::Error::kXattrTooBig);
  EXPECT_EQ(SetAccess(file, shared_), NFSERR_NOSPC);
  FailOnce(fs::faulty::Operation::kAccess, fs::Error::kNxIo);
  EXPECT_EQ(Call<ACLPROC2_ACCESS>({file, 1}).status(), NFSERR_NXIO);
}

TEST_F(Acl2Test, ReportsAFileSystemWithoutLists) {
  ASSERT_TRUE(memory.exports.Add("/plain", std::make_shared<WithoutAcls>(memory.faults), {.squash = Squash::kNone}));
  const fhandle plain = RootOf("/plain");
  EXPECT_EQ(Get(plain).status(), NFSERR_IO);
  EXPECT_EQ(SetAccess(plain, shared_), NFSERR_IO);
  EXPECT_EQ(RightsOn(plain, nfs3::ACCESS3_READ), nfs3::ACCESS3_READ);
}

// The attributes of a reply could not say its size.
TEST_F(Acl2Test, RejectsAFileThatIsTooLargeForVersion2AndDoesNotChangeIt) {
  const fhandle large = MakeLargeFile("large", uint64_t{1} << 32);
  EXPECT_EQ(SetAccess(large, shared_), NFSERR_FBIG);
  EXPECT_EQ(Get(large).status(), NFSERR_FBIG);
  EXPECT_EQ(Call<ACLPROC2_ACCESS>({large, 1}).status(), NFSERR_FBIG);
  const fs::Acls acls = *Now(tree->GetAcls(root_context, FromPadded(large)->object)).result;
  EXPECT_EQ(acls.access, fs::AclOfMode(0644));
}

TEST_F(Acl2Test, NullWorksForEveryCaller) {
  memory.SetNoIdentity();
  EXPECT_TRUE(memory.Ask(memory.EncodeCall<ACLPROC2_NULL>({})).succeeded());
}

TEST_F(Acl2Test, RejectsOtherVersionsAndProcedures) {
  for (const uint32_t version : {1u, 4u}) {
    const Answer answer = AskRaw(version, 0, xdr::Void());
    ASSERT_EQ(answer.accept_status(), rpcmsg::PROG_MISMATCH) << "version " << version;
    EXPECT_EQ(answer.header.body.areply().reply_data.mismatch_info(), (rpcmsg::version_range{2, 3}));
  }
  EXPECT_EQ(AskRaw(2, 5, xdr::Void()).accept_status(), rpcmsg::PROC_UNAVAIL);
}

TEST_F(Acl2Test, AnswersGarbageArgsToMalformedArguments) {
  EXPECT_EQ(AskRaw(2, ACLPROC2_GETACL::kNumber, root).accept_status(), rpcmsg::GARBAGE_ARGS);
  EXPECT_EQ(AskRaw(2, ACLPROC2_SETACL::kNumber, GETACL2args{root, NA_ACL}).accept_status(), rpcmsg::GARBAGE_ARGS);
  EXPECT_EQ(AskRaw(2, ACLPROC2_GETATTR::kNumber, xdr::Void()).accept_status(), rpcmsg::GARBAGE_ARGS);
  EXPECT_EQ(AskRaw(2, ACLPROC2_ACCESS::kNumber, root).accept_status(), rpcmsg::GARBAGE_ARGS);
}

// RFC 2623 §2.3.2: any flavor may get the attributes of an export's root, but nothing else.
TEST_F(Acl2Test, AnswersTooWeakToAFlavorThatTheExportRefuses) {
  memory.Export("/sealed", {.squash = Squash::kNone, .security = {SecurityFlavor::kKrb5p}});
  const fhandle sealed = RootOf("/sealed");
  EXPECT_EQ(memory.Ask(memory.EncodeCall<ACLPROC2_GETACL>({sealed, NA_ACL})).auth_status(), rpcmsg::AUTH_TOOWEAK);
  const SETACL2args set{sealed, Lists(NA_ACL, shared_)};
  EXPECT_EQ(memory.Ask(memory.EncodeCall<ACLPROC2_SETACL>(set)).auth_status(), rpcmsg::AUTH_TOOWEAK);
  EXPECT_EQ(memory.Ask(memory.EncodeCall<ACLPROC2_ACCESS>({sealed, 1})).auth_status(), rpcmsg::AUTH_TOOWEAK);
  EXPECT_EQ(Call<ACLPROC2_GETATTR>(sealed).status(), NFS_OK);
}

TEST_F(Acl2Test, ExecutesADuplicateOnce) {
  const fhandle file = MakeFile("file");
  const SETACL2args arguments{file, Lists(NA_ACL, shared_)};
  const auto set = [&] {
    return memory.Ask(memory.Encode(rpc::Xid(77), NFS_ACL_PROGRAM, NFS_ACL_V2, ACLPROC2_SETACL::kNumber, arguments));
  };
  const Answer first = set();
  ASSERT_EQ(SetAccess(file, OfMode(0600)), NFS_OK);
  const Answer second = set();
  EXPECT_TRUE(Equal(first.message.stream.bytes(), second.message.stream.bytes()));
  EXPECT_EQ(AccessOf(file), OfMode(0600));
}

// A client of version 4 has a delegation. In a simulation no time passes, so a call that must wait gets no reply at
// once.
class Acl2ClaimsTest : public Acl2Test {
 protected:
  Acl2ClaimsTest() : file_(MakeFile("file")) { dispatcher_.Add(acl_); }

  template <class Procedure>
  std::vector<FileClaims::Use> UsesOf(const typename Procedure::Arguments& arguments, bool has_reply) {
    claims_.uses.clear();
    const rpc::Message reply = Now(dispatcher_.HandleCall(memory.EncodeCall<Procedure>(arguments), memory.peer));
    EXPECT_EQ(!reply.empty(), has_reply) << Procedure::kName;
    return claims_.uses;
  }

  Claimed claims_;
  v2::Program version2_{memory.exports, {}, &claims_};
  Program acl_{memory.exports, &claims_, &version2_};
  rpc::Dispatcher dispatcher_{memory.cache, memory.clock};
  const fhandle file_;
};

TEST_F(Acl2ClaimsTest, ACallThatMustWaitForADelegationGetsNoReply) {
  using enum FileClaims::Use;
  using Uses = std::vector<FileClaims::Use>;
  claims_.conflicts = 4;
  EXPECT_EQ(UsesOf<ACLPROC2_SETACL>({file_, Lists(NA_ACL, shared_)}, false), Uses{kChange});
  EXPECT_EQ(UsesOf<ACLPROC2_GETACL>({file_, NA_ACL}, false), Uses{kReadAttributes});
  EXPECT_EQ(UsesOf<ACLPROC2_ACCESS>({file_, 1}, false), Uses{kReadAttributes});
  EXPECT_EQ(UsesOf<ACLPROC2_GETATTR>(file_, false), Uses{kReadAttributes});
  EXPECT_EQ(AccessOf(file_), OfMode(0644)) << "SETACL has no effect";
  EXPECT_EQ(UsesOf<ACLPROC2_SETACL>({file_, Lists(NA_ACL, shared_)}, true), Uses{kChange});
  EXPECT_EQ(AccessOf(file_), shared_);
}

}  // namespace
}  // namespace penstock::nfs::acl
