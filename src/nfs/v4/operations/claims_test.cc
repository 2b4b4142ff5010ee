// Operations of version 3 clients on files that version 4 clients have open or delegated. One dispatcher serves both
// versions.
#include "nfs/v4/operations/claims.h"

#include "nfs/acl/program.h"
#include "nfs/v3/program.h"
#include "nfs/v4/operations/stateful_test.h"
#include "protocol/nfs3.h"
#include "protocol/nfsacl.h"

namespace penstock::nfs::v4 {
namespace {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint32_t kDenyNothing = OPEN4_SHARE_DENY_NONE;
constexpr uint32_t kDenyRead = OPEN4_SHARE_DENY_READ;
constexpr uint32_t kDenyWrite = OPEN4_SHARE_DENY_WRITE;

class ClaimsTest : public StatefulTest {
 protected:
  ClaimsTest() : file(MakeFile("file", "data", 0666)), claims_(server.GetServices()) {
    server.Serve(nfs3_);
    server.Serve(nfs_acl_);
    LetCall(Client());
    root3 = As3(Root());
    file3 = As3(file);
  }

  static nfs_fh3 As3(const nfs_fh4& handle) { return {.data = xdr::Opaque<64>(handle.bytes())}; }

  // Calls a procedure of version 3 as root. Views in the results live as long as the server.
  template <class Procedure>
  typename Procedure::Results ResultsOf(const typename Procedure::Arguments& arguments) {
    xdr::Encoder encoder(server.buffers);
    const rpc::ClientCredential caller({.machine = "client of version 3", .uid = 0, .gid = 0, .groups = {}});
    rpc::EncodeCallHeader(
        encoder,
        {rpc::Xid(++server.last_xid), Procedure::kProgram, Procedure::kVersion, Procedure::kNumber, caller.auth(), {}});
    xdr::Encode(encoder, arguments);
    xdr::Decoder decoder(server.Ask(encoder.Finish()).message);
    rpc::ReplyHeader header;
    typename Procedure::Results results{};
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header) && xdr::Decode(decoder, results) && decoder.Finish());
    return results;
  }
  template <class Procedure>
  nfsstat3 Call(const typename Procedure::Arguments& arguments) {
    return ResultsOf<Procedure>(arguments).status();
  }
  nfsstat3 GetAttributes() { return Call<NFSPROC3_GETATTR>({file3}); }
  nfsstat3 Read() { return Call<NFSPROC3_READ>({file3, 0, 100}); }
  nfsstat3 Write() {
    return Call<NFSPROC3_WRITE>({file3, 0, 4, nfs3::FILE_SYNC, xdr::Payload<>::Borrowed(std::string_view("news"))});
  }
  nfsstat3 SetMode() { return Call<NFSPROC3_SETATTR>({file3, sattr3{.mode = 0600}, {}}); }
  nfsstat3 SetAcl() {
    nfsacl::secattr lists{.mask = nfsacl::NA_ACL};
    lists.aclcnt = 3;
    lists.access = {{nfsacl::NA_USER_OBJ, 0, 6}, {nfsacl::NA_GROUP_OBJ, 0, 0}, {nfsacl::NA_OTHER_OBJ, 0, 0}};
    return Call<nfsacl::ACLPROC3_SETACL>({file3, lists});
  }
  nfsstat3 SetSize() { return Call<NFSPROC3_SETATTR>({file3, sattr3{.size = 2}, {}}); }
  nfsstat3 Remove() { return Call<NFSPROC3_REMOVE>({{root3, "file"}}); }
  nfsstat3 Rename(std::string_view from, std::string_view to) {
    return Call<NFSPROC3_RENAME>({{root3, from}, {root3, to}});
  }
  nfsstat3 Link() { return Call<NFSPROC3_LINK>({file3, {root3, "link"}}); }
  nfsstat3 Create(sattr3 attributes) {
    return Call<NFSPROC3_CREATE>({{root3, "file"}, createhow3(UNCHECKED, attributes)});
  }

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
  // Tells for each procedure whether its reply contains the file's optional attributes. Each procedure must succeed
  // without a recall.
  std::map<std::string, bool> ShownAttributes() {
    std::map<std::string, bool> shown;
    shown["LOOKUP"] = ResultsOf<NFSPROC3_LOOKUP>({{root3, "file"}}).resok().obj_attributes.has_value();
    shown["ACCESS"] = ResultsOf<NFSPROC3_ACCESS>({file3, ACCESS3_READ}).resok().obj_attributes.has_value();
    shown["COMMIT"] = ResultsOf<NFSPROC3_COMMIT>({file3, 0, 0}).resok().file_wcc.after.has_value();
    shown["PATHCONF"] = ResultsOf<NFSPROC3_PATHCONF>({file3}).resok().obj_attributes.has_value();
    shown["FSSTAT"] = ResultsOf<NFSPROC3_FSSTAT>({file3}).resok().obj_attributes.has_value();
    shown["GETACL"] = ResultsOf<nfsacl::ACLPROC3_GETACL>({file3, nfsacl::NA_ACL}).resok().attr.has_value();
    shown["FSINFO"] = ResultsOf<NFSPROC3_FSINFO>({file3}).resok().obj_attributes.has_value();
    const CREATE3args unchecked{{root3, "file"}, createhow3(UNCHECKED, sattr3{})};
    shown["CREATE"] = ResultsOf<NFSPROC3_CREATE>(unchecked).resok().obj_attributes.has_value();
    for (const auto& entry : ResultsOf<NFSPROC3_READDIRPLUS>({root3, 0, {}, 4096, 4096}).resok().reply.entries) {
      EXPECT_TRUE(entry.name_handle) << entry.name;
      if (entry.name == "file") shown["READDIRPLUS"] = entry.name_attributes.has_value();
      if (entry.name == "another") {
        EXPECT_TRUE(entry.name_attributes);
      }
    }
    return shown;
  }
  void Return(const stateid4& id) {
    EXPECT_EQ(Run(PutFh(file), Op(OP_DELEGRETURN, DELEGRETURN4args{id})).status, NFS4_OK);
  }

  nfs_fh4 file;
  nfs_fh3 root3;
  nfs_fh3 file3;

 private:
  Claims claims_;
  v3::Program nfs3_{server.exports, {}, &claims_};
  acl::Program nfs_acl_{server.exports, &claims_};
};

TEST_F(ClaimsTest, CounterIsZeroUntilAClaimExists) {
  const stateid4 open = OpenBy(Client(), "file", kBoth | OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  EXPECT_EQ(server.state.claims(), 0u);
  Run(PutFh(file), Closing(open));
  WriteDelegation();
  EXPECT_EQ(server.state.claims(), 1u);
}

TEST_F(ClaimsTest, RecallsAWriteDelegationForAReader) {
  const stateid4 id = WriteDelegation();
  EXPECT_EQ(Read(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(Read(), NFS3ERR_JUKEBOX);
  ASSERT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(server.callbacks.recalls[0].client, Client().client());
  EXPECT_EQ(server.callbacks.recalls[0].delegation.other, id.other);
  Return(id);
  EXPECT_EQ(Read(), NFS3_OK);
}

// RFC 8881 §10.4.3: the holder may have data that it has not written to the server yet.
TEST_F(ClaimsTest, RecallsAWriteDelegationForGetattr) {
  const stateid4 id = WriteDelegation();
  EXPECT_EQ(GetAttributes(), NFS3ERR_JUKEBOX);
  EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
  Return(id);
  EXPECT_EQ(GetAttributes(), NFS3_OK);
}

// A version 3 client uses the attributes of LOOKUP when it opens a file. With outdated ones it would take the file for
// empty.
TEST_F(ClaimsTest, OmitsAttributesDuringAWriteDelegation) {
  MakeFile("another");
  const auto all = [](bool shown) { return testing::Each(testing::Pair(testing::_, shown)); };
  EXPECT_THAT(ShownAttributes(), testing::AllOf(SizeIs(9), all(true)));
  const stateid4 id = WriteDelegation();
  EXPECT_THAT(ShownAttributes(), testing::AllOf(SizeIs(9), all(false)));
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
  Return(id);
  EXPECT_THAT(ShownAttributes(), all(true));
  ReadDelegation();
  EXPECT_THAT(ShownAttributes(), all(true));
}

TEST_F(ClaimsTest, RefusalsOmitAttributesDuringAWriteDelegation) {
  WriteDelegation();
  EXPECT_FALSE(ResultsOf<NFSPROC3_SETATTR>({file3, sattr3{.mode = 0600}, {}}).resfail().obj_wcc.after.has_value());
  EXPECT_EQ(SetAcl(), NFS3ERR_JUKEBOX);
  EXPECT_FALSE(ResultsOf<NFSPROC3_LINK>({file3, {root3, "link"}}).resfail().file_attributes.has_value());
  const auto written =
      ResultsOf<NFSPROC3_WRITE>({file3, 0, 4, nfs3::FILE_SYNC, xdr::Payload<>::Borrowed(std::string_view("news"))});
  EXPECT_FALSE(written.resfail().file_wcc.before || written.resfail().file_wcc.after);
}

// Attributes that the server read during a write delegation are outdated, even if the delegation has ended since then.
TEST_F(ClaimsTest, OmitsAttributesIfAWriteDelegationEndedMeanwhile) {
  Claims claims(server.GetServices());
  const NamedFile name = NameOf(file);
  const uint64_t before = claims.Mark();
  EXPECT_FALSE(claims.IsOutdated(name, before));
  const stateid4 id = WriteDelegation();
  EXPECT_TRUE(claims.IsOutdated(name, before));
  const uint64_t meanwhile = claims.Mark();
  Return(id);
  EXPECT_TRUE(claims.IsOutdated(name, meanwhile));
  EXPECT_FALSE(claims.IsOutdated(name, claims.Mark()));
}

TEST_F(ClaimsTest, KeepsAReadDelegationForAReader) {
  ReadDelegation();
  EXPECT_EQ(Read(), NFS3_OK);
  EXPECT_EQ(GetAttributes(), NFS3_OK);
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
}

TEST_F(ClaimsTest, RecallsADelegationForAWriter) {
  const stateid4 id = ReadDelegation();
  EXPECT_EQ(Write(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(ContentsOf("file"), "data");
  EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
  Return(id);
  EXPECT_EQ(Write(), NFS3_OK);
  EXPECT_EQ(ContentsOf("file"), "news");
}

// RFC 8881 §10.4.4
TEST_F(ClaimsTest, RecallsADelegationBeforeTheFileChanges) {
  MakeFile("another");
  const stateid4 id = ReadDelegation();
  EXPECT_EQ(SetMode(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(SetAcl(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(SetSize(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(Remove(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(Rename("file", "new name"), NFS3ERR_JUKEBOX);
  EXPECT_EQ(Rename("another", "file"), NFS3ERR_JUKEBOX);
  EXPECT_EQ(Link(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(Create({.size = 0}), NFS3ERR_JUKEBOX);
  EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(AttributesOf("file")->mode, 0666u);
  EXPECT_EQ(ContentsOf("file"), "data");
  Return(id);
  EXPECT_EQ(SetMode(), NFS3_OK);
  EXPECT_EQ(SetAcl(), NFS3_OK);
  EXPECT_EQ(SetSize(), NFS3_OK);
  EXPECT_EQ(Link(), NFS3_OK);
  EXPECT_EQ(Create({.size = 0}), NFS3_OK);
  EXPECT_EQ(Rename("another", "file"), NFS3_OK);
  EXPECT_EQ(Rename("file", "new name"), NFS3_OK);
  EXPECT_EQ(Call<NFSPROC3_REMOVE>({{root3, "new name"}}), NFS3_OK);
}

TEST_F(ClaimsTest, KeepsADelegationIfTheFileDoesNotChange) {
  MakeFile("another");
  ReadDelegation();
  EXPECT_EQ(Create({}), NFS3_OK);
  EXPECT_EQ(Rename("another", "new name"), NFS3_OK);
  EXPECT_EQ(Call<NFSPROC3_REMOVE>({{root3, "nothing"}}), NFS3ERR_NOENT);
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
}

// RFC 8881 §10.4.6
TEST_F(ClaimsTest, RevokesADelegationThatIsNotReturned) {
  WriteDelegation();
  EXPECT_EQ(Write(), NFS3ERR_JUKEBOX);
  Pass(server.settings.lease / 2);
  Run();
  Pass(server.settings.lease / 2);
  EXPECT_EQ(Write(), NFS3_OK);
}

TEST_F(ClaimsTest, RemovesTheDelegationOfAnExpiredClientAtOnce) {
  WriteDelegation();
  PassLease();
  EXPECT_EQ(Write(), NFS3_OK);
  EXPECT_EQ(server.state.claims(), 0u);
}

// An OPEN may be executed between the check of the claims and the change. It must not get a delegation then.
TEST_F(ClaimsTest, GrantsNoDelegationWhileTheFileChanges) {
  Client();
  Claims claims(server.GetServices());
  const NamedFile name = NameOf(file);
  for (const auto use : {FileClaims::Use::kWrite, FileClaims::Use::kChange}) {
    auto checked = Now(claims.Check(nullptr, name, use));
    ASSERT_EQ(checked.verdict, FileClaims::Verdict::kFree);
    const auto opened = TryOpen(Client(), "file", kRead | OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
    EXPECT_EQ(opened.resok4().delegation.delegation_type(), OPEN_DELEGATE_NONE_EXT);
    checked.hold.reset();
    Return(ReadDelegation());
  }
  EXPECT_FALSE(Now(claims.Check(nullptr, name, FileClaims::Use::kRead)).hold);
}

TEST_F(ClaimsTest, DenialOfWritingEndsWithItsOpen) {
  const stateid4 open = OpenBy(Client(), "file", kRead | OPEN4_SHARE_ACCESS_WANT_NO_DELEG, kDenyWrite);
  EXPECT_EQ(Write(), NFS3ERR_ACCES);
  EXPECT_EQ(SetSize(), NFS3ERR_ACCES);
  EXPECT_EQ(Create({.size = 0}), NFS3ERR_ACCES);
  EXPECT_EQ(ContentsOf("file"), "data");
  EXPECT_EQ(Read(), NFS3_OK);
  EXPECT_EQ(SetMode(), NFS3_OK);
  EXPECT_EQ(Run(PutFh(file), Closing(open)).status, NFS4_OK);
  EXPECT_EQ(server.state.claims(), 0u);
  EXPECT_EQ(Write(), NFS3_OK);
}

TEST_F(ClaimsTest, DenialOfReadingEndsWithADowngrade) {
  OpenBy(Client(), "file", kWrite | OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  const stateid4 open = OpenBy(Client(), "file", kBoth | OPEN4_SHARE_ACCESS_WANT_NO_DELEG, kDenyRead);
  EXPECT_EQ(Read(), NFS3ERR_ACCES);
  EXPECT_EQ(GetAttributes(), NFS3_OK);
  EXPECT_EQ(Write(), NFS3_OK);
  const OPEN_DOWNGRADE4args downgrade{open, 0, kWrite, kDenyNothing};
  EXPECT_EQ(Run(PutFh(file), Op(OP_OPEN_DOWNGRADE, downgrade)).status, NFS4_OK);
  EXPECT_EQ(server.state.claims(), 0u);
  EXPECT_EQ(Read(), NFS3_OK);
}

TEST_F(ClaimsTest, RemovesTheDenialOfAnExpiredClientAtOnce) {
  OpenBy(Client(), "file", kRead | OPEN4_SHARE_ACCESS_WANT_NO_DELEG, kDenyWrite);
  PassLease();
  EXPECT_EQ(Write(), NFS3_OK);
}

// RFC 8881 §8.4.2.1
TEST_F(ClaimsTest, DelaysOperationsDuringTheGracePeriod) {
  const RecoveryRecord absent{.owner = "absent", .principal = {}};
  server.state.Run([&](StateTables& state) {
    state.clients.grace() = Grace({absent}, server.clock.now + std::chrono::seconds(90));
  });
  EXPECT_EQ(Read(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(Write(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(Remove(), NFS3ERR_JUKEBOX);
  EXPECT_EQ(GetAttributes(), NFS3_OK);
  server.state.Run([&](StateTables& state) { state.clients.grace().End(); });
  EXPECT_EQ(Read(), NFS3_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
