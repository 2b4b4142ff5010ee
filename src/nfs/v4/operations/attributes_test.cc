#include "nfs/v4/operations/attributes.h"

#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

class AttributesTest : public Nfs4Test {
 protected:
  // Decodes the values of one GETATTR reply, one after the other.
  class Values {
   public:
    explicit Values(const fattr4& attributes)
        : set(attributes.attrmask),
          message_(xdr::Message::Whole(Slice::Borrowed(attributes.attr_vals.bytes()))),
          decoder_(message_) {}
    template <class T>
    T Next() {
      T value{};
      EXPECT_TRUE(xdr::Decode(decoder_, value));
      return value;
    }
    bool AtEnd() { return decoder_.Finish(); }
    const AttributeSet set;

   private:
    const xdr::Message message_;
    xdr::Decoder decoder_;
  };

  fattr4 Get(const nfs_fh4& object, const AttributeSet& set) {
    auto reply = Run0(PutFh(object), GetAttr(set));
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<GETATTR4res>().resok4().obj_attributes;
  }
  CompoundReply Set(const nfs_fh4& object, const fattr4& values) {
    return Run0(PutFh(object), Op(OP_SETATTR, SETATTR4args{kAnonymous, values}));
  }
  GivenValues Given() { return GivenValues(server.buffers); }
};
using SetAttributesTest = AttributesTest;
using VerifyTest = AttributesTest;
using AccessTest = AttributesTest;

TEST_F(AttributesTest, ReturnsAttributesInTheOrderOfTheirNumbers) {
  const nfs_fh4 file = MakeFile("file", "contents", 0640);
  Values values(Get(file, {FATTR4_MODE, FATTR4_TYPE, FATTR4_SIZE, FATTR4_OWNER, FATTR4_NUMLINKS}));
  EXPECT_EQ(values.Next<nfs_ftype4>(), NF4REG);
  EXPECT_EQ(values.Next<uint64_t>(), 8u);
  EXPECT_EQ(values.Next<uint32_t>(), 0640u);
  EXPECT_EQ(values.Next<uint32_t>(), 1u);
  EXPECT_EQ(values.Next<fattr4_owner>(), "0");
  EXPECT_TRUE(values.AtEnd());
}

TEST_F(AttributesTest, OmitsUnsupportedAttributes) {
  const Values values(Get(Root(), {FATTR4_TYPE, FATTR4_FS_LOCATIONS, FATTR4_HIDDEN, FATTR4_SUPPATTR_EXCLCREAT, 95}));
  EXPECT_EQ(values.set, AttributeSet{FATTR4_TYPE});
}

TEST_F(AttributesTest, ReturnsEverySupportedAttribute) {
  for (const uint32_t minor_version : {0u, 1u, 2u}) {
    const Dialect& dialect = *FindDialect(MinorVersion(minor_version));
    const AttributeSet supported = SupportedAttributes(tree.GetProperties(), dialect) & ReadableAttributes();
    SessionClient client(server, "of " + std::to_string(minor_version), minor_version == 0 ? 1 : minor_version);
    auto reply = minor_version == 0 ? Run0(PutRoot(), GetAttr(supported)) : client.Run(PutRoot(), GetAttr(supported));
    EXPECT_EQ(reply.status, NFS4_OK) << minor_version;
    const auto got = reply.Skip().Next<GETATTR4res>();
    EXPECT_EQ(AttributeSet(got.resok4().obj_attributes.attrmask), supported);
  }
}

TEST_F(AttributesTest, SupportedAttrsListsTheSupportedAttributes) {
  Values values(Get(Root(), {FATTR4_SUPPORTED_ATTRS}));
  const AttributeSet supported(values.Next<bitmap4>());
  EXPECT_EQ(supported, SupportedAttributes(tree.GetProperties(), *FindDialect(MinorVersion(0))));
  // RFC 7530 §5.6 requires these attributes.
  for (uint32_t number = FATTR4_SUPPORTED_ATTRS; number <= FATTR4_RDATTR_ERROR; ++number) {
    EXPECT_TRUE(supported.Has(number)) << AttributeName(number);
  }
  EXPECT_TRUE(supported.Has(FATTR4_FILEHANDLE));
  EXPECT_FALSE(supported.Has(FATTR4_SUPPATTR_EXCLCREAT));
}

// The attributes of quotas (RFC 8881 §5.8.2.28 to §5.8.2.30). The caller is root, and the file root's.
class QuotaAttributesTest : public AttributesTest {
 protected:
  QuotaAttributesTest() {
    server.faults->OfferQuotas([this](fs::QuotaKind kind, uint32_t id) -> fs::TestFiles::QuotaReply {
      asked.emplace_back(kind, id);
      if (error) return std::unexpected(*error);
      return kind == fs::QuotaKind::kUser ? user : group;
    });
  }
  static fs::Quota Limited(const fs::QuotaUse& bytes) { return {.bytes = bytes, .enforced = true}; }

  const nfs_fh4 file = MakeFile("file", "contents", 0644);
  std::optional<fs::Quota> user = Limited({.used = 40, .hard = 100, .soft = 50});
  std::optional<fs::Quota> group;
  std::optional<fs::Error> error;
  std::vector<std::pair<fs::QuotaKind, uint32_t>> asked;
};

TEST_F(QuotaAttributesTest, TellTheRoomThatIsLeft) {
  Values values(Get(file, kQuotaAttributes));
  EXPECT_EQ(values.set, kQuotaAttributes);
  EXPECT_EQ(values.Next<uint64_t>(), 60u);
  EXPECT_EQ(values.Next<uint64_t>(), 10u);
  EXPECT_EQ(values.Next<uint64_t>(), 40u);
  EXPECT_TRUE(values.AtEnd());
}

TEST_F(QuotaAttributesTest, NoRoomIsLeftBeyondALimit) {
  user = Limited({.used = 101, .hard = 100, .soft = 50});
  Values values(Get(file, kQuotaAttributes));
  EXPECT_EQ(values.Next<uint64_t>(), 0u);
  EXPECT_EQ(values.Next<uint64_t>(), 0u);
  EXPECT_EQ(values.Next<uint64_t>(), 101u);
}

TEST_F(QuotaAttributesTest, TheSmallestQuotaCounts) {
  group = Limited({.used = 1000, .hard = 1005});
  Values values(Get(file, kQuotaAttributes));
  EXPECT_EQ(values.set, (AttributeSet{FATTR4_QUOTA_AVAIL_HARD, FATTR4_QUOTA_USED})) << "it has no soft limit";
  EXPECT_EQ(values.Next<uint64_t>(), 5u);
  EXPECT_EQ(values.Next<uint64_t>(), 1000u);
}

TEST_F(QuotaAttributesTest, AreLeftOutWithoutALimit) {
  for (const auto& quota : {std::optional<fs::Quota>(), std::optional(Limited({.used = 7})),
                            std::optional(fs::Quota{.bytes = {.used = 7, .hard = 9}})}) {
    user = quota;
    Values values(Get(file, kQuotaAttributes | AttributeSet{FATTR4_TYPE}));
    EXPECT_EQ(values.set, AttributeSet{FATTR4_TYPE});
  }
  error = fs::Error::kPerm;
  EXPECT_EQ(Get(file, kQuotaAttributes).attrmask, bitmap4());
}

TEST_F(QuotaAttributesTest, AFailureIsNoMissingLimit) {
  error = fs::Error::kIo;
  EXPECT_EQ(Run0(PutFh(file), GetAttr(kQuotaAttributes)).status, NFS4ERR_IO);
}

TEST_F(QuotaAttributesTest, AUserLearnsTheOwnQuotasOnly) {
  group = Limited({.used = 1000, .hard = 1001});
  server.SetUser(1000);
  EXPECT_EQ(Get(file, kQuotaAttributes).attrmask, bitmap4());
  EXPECT_THAT(asked, testing::IsEmpty());
  server.SetIdentity({.machine = "client", .uid = 1000, .gid = 1000, .groups = {0}});
  EXPECT_EQ(Values(Get(file, kQuotaAttributes)).Next<uint64_t>(), 1u) << "of the group that the user is in";
  EXPECT_THAT(asked, testing::ElementsAre(std::pair(fs::QuotaKind::kGroup, 0u)));
}

TEST_F(QuotaAttributesTest, AreComparedByVerify) {
  auto same = Given();
  EXPECT_EQ(Run0(PutFh(file), Op(OP_NVERIFY, NVERIFY4args{same.Add(FATTR4_QUOTA_USED, uint64_t{40}).Take()})).status,
            NFS4ERR_SAME);
  user = std::nullopt;
  auto missing = Given();
  EXPECT_EQ(Run0(PutFh(file), Op(OP_VERIFY, VERIFY4args{missing.Add(FATTR4_QUOTA_USED, uint64_t{40}).Take()})).status,
            NFS4ERR_NOT_SAME);
}

TEST_F(AttributesTest, QuotasNeedAFileSystemThatKeepsThem) {
  const Values values(Get(Root(), kQuotaAttributes | AttributeSet{FATTR4_TYPE}));
  EXPECT_EQ(values.set, AttributeSet{FATTR4_TYPE});
}

TEST_F(AttributesTest, RejectsReadingWriteOnlyAttributes) {
  EXPECT_EQ(Run0(PutRoot(), GetAttr({FATTR4_TYPE, FATTR4_TIME_MODIFY_SET})).status, NFS4ERR_INVAL);
}

TEST_F(AttributesTest, ReportsAStaleHandle) {
  EXPECT_EQ(Run0(PutFh(StaleHandle()), GetAttr({FATTR4_TYPE})).status, NFS4ERR_STALE);
}

TEST_F(AttributesTest, IgnoresBitsBeyondAllAttributes) {
  GETATTR4args wanted{{1u << FATTR4_TYPE, 0, 0, 1, 0xffffffff}};
  EXPECT_EQ(Run0(PutRoot(), Op(OP_GETATTR, wanted)).status, NFS4_OK);
}

TEST_F(SetAttributesTest, SetsTheGivenAttributesAndReportsThem) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  auto given = Given();
  auto reply = Set(file, given.Add(FATTR4_SIZE, uint64_t{4}).Add(FATTR4_MODE, uint32_t{0600}).Take());
  EXPECT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(AttributeSet(reply.Skip().Next<SETATTR4res>().attrsset), (AttributeSet{FATTR4_SIZE, FATTR4_MODE}));
  EXPECT_EQ(AttributesOf("file")->size, 4u);
  EXPECT_EQ(AttributesOf("file")->mode, 0600u);
}

TEST_F(SetAttributesTest, AcceptsNumericOwnersWithoutADomain) {
  const nfs_fh4 file = MakeFile("file");
  auto given = Given();
  EXPECT_EQ(Set(file, given.Add(FATTR4_OWNER, fattr4_owner("1000")).Take()).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("file")->uid, 1000u);
  for (const std::string_view name : {"nobody@nowhere", "-1", "99999999999", "10x"}) {
    auto bad = Given();
    EXPECT_EQ(Set(file, bad.Add(FATTR4_OWNER, fattr4_owner(name)).Take()).status, NFS4ERR_BADOWNER) << name;
  }
}

TEST_F(SetAttributesTest, RejectsAnUnknownOwner) {
  const nfs_fh4 file = MakeFile("file");
  for (const std::string_view name : {"", "\xff"}) {
    auto given = Given();
    EXPECT_EQ(Set(file, given.Add(FATTR4_OWNER_GROUP, fattr4_owner_group(name)).Take()).status, NFS4ERR_INVAL);
  }
}

TEST_F(SetAttributesTest, SetsTimesOfTheServerOrOfTheClient) {
  const nfs_fh4 file = MakeFile("file");
  auto given = Given();
  const settime4 time(SET_TO_CLIENT_TIME4, nfstime4{.seconds = 12345, .nseconds = 6});
  EXPECT_EQ(Set(file, given.Add(FATTR4_TIME_ACCESS_SET, time).Add(FATTR4_TIME_MODIFY_SET, settime4()).Take()).status,
            NFS4_OK);
  EXPECT_EQ(AttributesOf("file")->atime, (fs::Timestamp{12345, 6}));
  EXPECT_GT(AttributesOf("file")->mtime.seconds, 12345);
  auto bad = Given();
  const settime4 none(SET_TO_CLIENT_TIME4, nfstime4{.seconds = 1, .nseconds = 1'000'000'000});
  EXPECT_EQ(Set(file, bad.Add(FATTR4_TIME_MODIFY_SET, none).Take()).status, NFS4ERR_INVAL);
}

TEST_F(SetAttributesTest, RejectsTheWholeRequestIfOneAttributeCannotBeSet) {
  const nfs_fh4 file = MakeFile("file", "contents");
  auto read_only = Given();
  auto reply = Set(file, read_only.Add(FATTR4_SIZE, uint64_t{1}).Add(FATTR4_FILEID, uint64_t{7}).Take());
  EXPECT_EQ(reply.status, NFS4ERR_INVAL);
  EXPECT_TRUE(reply.Skip().Next<SETATTR4res>().attrsset.empty());
  auto unsupported = Given();
  EXPECT_EQ(Set(file, unsupported.Add(FATTR4_HIDDEN, true).Take()).status, NFS4ERR_ATTRNOTSUPP);
  EXPECT_EQ(AttributesOf("file")->size, 8u);
}

TEST_F(SetAttributesTest, RejectsValuesOfAnotherLength) {
  const nfs_fh4 file = MakeFile("file");
  auto too_long = Given();
  fattr4 values = too_long.Add(FATTR4_SIZE, uint64_t{1}).Add(FATTR4_MODE, uint32_t{0600}).Take();
  values.attrmask = AttributeSet{FATTR4_SIZE}.ToBitmap();
  EXPECT_EQ(Set(file, values).status, NFS4ERR_BADXDR);
  auto too_short = Given();
  values = too_short.Add(FATTR4_MODE, uint32_t{0600}).Take();
  values.attrmask = AttributeSet{FATTR4_SIZE}.ToBitmap();
  EXPECT_EQ(Set(file, values).status, NFS4ERR_BADXDR);
}

TEST_F(SetAttributesTest, RejectsUndefinedModeBits) {
  auto given = Given();
  EXPECT_EQ(Set(MakeFile("file"), given.Add(FATTR4_MODE, uint32_t{010000}).Take()).status, NFS4ERR_INVAL);
}

// RFC 8881 §6.2.5
TEST_F(SetAttributesTest, SetsTheMaskedBitsOfTheMode) {
  const nfs_fh4 file = MakeFile("file", "", 0644);
  auto given = Given();
  given.Add(FATTR4_MODE_SET_MASKED, mode_masked4{.mm_value_to_set = 04111, .mm_mask_bits = 04101});
  EXPECT_EQ(Run(PutFh(file), Op(OP_SETATTR, SETATTR4args{kAnonymous, given.Take()})).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("file")->mode, 04745u);
}

TEST_F(SetAttributesTest, RequiresPermission) {
  const nfs_fh4 file = MakeFile("file");
  server.SetUser(1000);
  auto given = Given();
  EXPECT_EQ(Set(file, given.Add(FATTR4_MODE, uint32_t{0777}).Take()).status, NFS4ERR_PERM);
}

// RFC 8881 §6.4.1: the server enforces the list, and derives the mode from it.
TEST_F(SetAttributesTest, SetsAnAccessControlList) {
  const nfs_fh4 file = MakeFile("file", "", 0644);
  auto given = Given();
  fattr4_acl list;
  list.push_back({.type = ACE4_ACCESS_ALLOWED_ACE_TYPE,
                  .flag = 0,
                  .access_mask = ACE4_READ_DATA | ACE4_WRITE_DATA | ACE4_APPEND_DATA,
                  .who = "OWNER@"});
  list.push_back({.type = ACE4_ACCESS_ALLOWED_ACE_TYPE, .flag = 0, .access_mask = ACE4_READ_DATA, .who = "1000"});
  auto reply = Set(file, given.Add(FATTR4_ACL, list).Take());
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(AttributeSet(reply.Skip().Next<SETATTR4res>().attrsset), AttributeSet{FATTR4_ACL});
  EXPECT_EQ(AttributesOf("file")->mode & 0707, 0600u);
  Values values(Get(file, {FATTR4_ACL}));
  const auto shown = values.Next<fattr4_acl>();
  EXPECT_TRUE(std::ranges::any_of(shown, [](const nfsace4& entry) { return entry.who == "1000"; }));
}

// RFC 8881 §6.2.2, §6.4.3.2: dacl is the list of acl, with flags.
class DaclTest : public AttributesTest {
 protected:
  Values Shown(const AttributeSet& set) {
    auto reply = client_.Run(PutFh(file_), GetAttr(set));
    EXPECT_EQ(reply.status, NFS4_OK);
    return Values(reply.Skip().Next<GETATTR4res>().resok4().obj_attributes);
  }
  nfsstat4 SetDacl(aclflag4 flags) {
    auto given = Given();
    const fattr4 values = given.Add(FATTR4_DACL, fattr4_dacl{.na41_flag = flags, .na41_aces = {kReaders}}).Take();
    return client_.Run(PutFh(file_), Op(OP_SETATTR, SETATTR4args{kAnonymous, values})).status;
  }

  const nfsace4 kReaders{
      .type = ACE4_ACCESS_ALLOWED_ACE_TYPE, .flag = 0, .access_mask = ACE4_READ_DATA, .who = "EVERYONE@"};
  const nfs_fh4 file_ = MakeFile("file", "", 0600);
  SessionClient client_{server, "client", 1};
};

TEST_F(DaclTest, ShowsTheEntriesOfTheAcl) {
  Values values = Shown({FATTR4_ACL, FATTR4_DACL});
  const auto acl = values.Next<fattr4_acl>();
  const auto dacl = values.Next<fattr4_dacl>();
  EXPECT_TRUE(values.AtEnd());
  EXPECT_EQ(dacl.na41_flag, 0u + ACL4_PROTECTED) << "automatic inheritance must not change the list";
  EXPECT_FALSE(acl.empty());
  EXPECT_TRUE(std::ranges::equal(dacl.na41_aces, acl));
}

TEST_F(DaclTest, SetsTheList) {
  EXPECT_EQ(SetDacl(ACL4_PROTECTED), NFS4_OK);
  EXPECT_EQ(AttributesOf("file")->mode & 0777, 0444u);
  EXPECT_EQ(SetDacl(0), NFS4_OK);
  EXPECT_EQ(Shown({FATTR4_DACL}).Next<fattr4_dacl>().na41_flag, 0u + ACL4_PROTECTED);
}

TEST_F(DaclTest, RejectsFlagsThatItCannotKeep) {
  EXPECT_EQ(SetDacl(ACL4_AUTO_INHERIT), NFS4ERR_ATTRNOTSUPP);
  EXPECT_EQ(SetDacl(ACL4_PROTECTED | ACL4_DEFAULTED), NFS4ERR_ATTRNOTSUPP);
  EXPECT_EQ(SetDacl(8), NFS4ERR_INVAL);
  EXPECT_EQ(AttributesOf("file")->mode & 0777, 0600u);
}

TEST_F(DaclTest, RejectsBothFormsOfTheListAtOnce) {
  auto given = Given();
  given.Add(FATTR4_ACL, fattr4_acl{kReaders}).Add(FATTR4_DACL, fattr4_dacl{.na41_flag = 0, .na41_aces = {kReaders}});
  const SETATTR4args both{kAnonymous, given.Take()};
  EXPECT_EQ(client_.Run(PutFh(file_), Op(OP_SETATTR, both)).status, NFS4ERR_INVAL);
}

TEST_F(DaclTest, AttrsetNamesTheAttributeThatWasSet) {
  auto given = Given();
  const SETATTR4args set{kAnonymous,
                         given.Add(FATTR4_DACL, fattr4_dacl{.na41_flag = 0, .na41_aces = {kReaders}}).Take()};
  auto reply = client_.Run(PutFh(file_), Op(OP_SETATTR, set));
  EXPECT_EQ(AttributeSet(reply.Skip().Next<SETATTR4res>().attrsset), AttributeSet{FATTR4_DACL});
}

// RFC 9754 §4
TEST_F(AttributesTest, OpenArgumentsNamesWhatOpenSupports) {
  SessionClient client(server, "client", 2);
  auto reply = client.Run(PutRoot(), GetAttr({FATTR4_OPEN_ARGUMENTS}));
  Values values(reply.Skip().Next<GETATTR4res>().resok4().obj_attributes);
  const auto supported = values.Next<fattr4_open_arguments>();
  EXPECT_TRUE(values.AtEnd());
  EXPECT_EQ(supported.oa_share_access, bitmap4{0b1110});
  EXPECT_EQ(supported.oa_share_deny, bitmap4{0b1111});
  EXPECT_EQ(supported.oa_share_access_want, bitmap4{1 << 3 | 1 << 4 | 1 << 5 | 1 << 20 | 1 << 21});
  EXPECT_EQ(supported.oa_open_claim, bitmap4{0b110111}) << "all claims but CLAIM_DELEGATE_PREV and CLAIM_DELEG_PREV_FH";
  EXPECT_EQ(supported.oa_create_mode, bitmap4{0b1111});
}

// RFC 7862 §12.2.3: the change attribute derives from time_metadata, and is not monotonic after a restart.
TEST_F(AttributesTest, ChangeAttrTypeIsTimeMetadata) {
  SessionClient client(server, "client", 2);
  auto reply = client.Run(PutRoot(), GetAttr({FATTR4_CHANGE_ATTR_TYPE}));
  Values values(reply.Skip().Next<GETATTR4res>().resok4().obj_attributes);
  EXPECT_EQ(values.Next<fattr4_change_attr_type>(), NFS4_CHANGE_TYPE_IS_TIME_METADATA);
}

TEST_F(VerifyTest, ComparesTheObjectWithTheGivenAttributes) {
  const nfs_fh4 file = MakeFile("file", "contents");
  auto right = Given();
  const fattr4 same = right.Add(FATTR4_TYPE, NF4REG).Add(FATTR4_SIZE, uint64_t{8}).Take();
  auto wrong = Given();
  const fattr4 other = wrong.Add(FATTR4_TYPE, NF4REG).Add(FATTR4_SIZE, uint64_t{9}).Take();
  EXPECT_EQ(Run0(PutFh(file), Op(OP_VERIFY, VERIFY4args{same})).status, NFS4_OK);
  EXPECT_EQ(Run0(PutFh(file), Op(OP_VERIFY, VERIFY4args{other})).status, NFS4ERR_NOT_SAME);
  EXPECT_EQ(Run0(PutFh(file), Op(OP_NVERIFY, NVERIFY4args{same})).status, NFS4ERR_SAME);
  EXPECT_EQ(Run0(PutFh(file), Op(OP_NVERIFY, NVERIFY4args{other})).status, NFS4_OK);
}

TEST_F(VerifyTest, RejectsAttributesThatCannotBeCompared) {
  auto write_only = Given();
  const fattr4 time = write_only.Add(FATTR4_TIME_MODIFY_SET, settime4()).Take();
  EXPECT_EQ(Run0(PutRoot(), Op(OP_VERIFY, VERIFY4args{time})).status, NFS4ERR_INVAL);
  auto unsupported = Given();
  const fattr4 hidden = unsupported.Add(FATTR4_HIDDEN, true).Take();
  EXPECT_EQ(Run0(PutRoot(), Op(OP_NVERIFY, NVERIFY4args{hidden})).status, NFS4ERR_ATTRNOTSUPP);
}

TEST_F(AccessTest, ReturnsTheCallersRights) {
  const nfs_fh4 file = MakeFile("file", "", 0644);
  server.SetUser(1000);
  auto reply = Run0(PutFh(file), Op(OP_ACCESS, ACCESS4args{0x3f}));
  const ACCESS4resok access = reply.Skip().Next<ACCESS4res>().resok4();
  EXPECT_EQ(access.supported, ACCESS4_READ | ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_EXECUTE);
  EXPECT_EQ(access.access, ACCESS4_READ);
}

// RFC 8881 §18.1.3
TEST_F(AccessTest, ReturnsOnlyTheRequestedRights) {
  const nfs_fh4 file = MakeFile("file", "", 0755);
  for (const uint32_t asked : {0u, 0u + ACCESS4_READ, 0u + ACCESS4_MODIFY, ACCESS4_READ | ACCESS4_EXECUTE}) {
    auto reply = Run0(PutFh(file), Op(OP_ACCESS, ACCESS4args{asked}));
    const ACCESS4resok access = reply.Skip().Next<ACCESS4res>().resok4();
    EXPECT_EQ(access.supported, asked);
    EXPECT_EQ(access.access, asked);
  }
}

TEST_F(AccessTest, ReportsLookupForDirectoriesAndExecuteForFiles) {
  auto reply = Run0(PutRoot(), Op(OP_ACCESS, ACCESS4args{ACCESS4_LOOKUP | ACCESS4_EXECUTE}));
  const ACCESS4resok access = reply.Skip().Next<ACCESS4res>().resok4();
  EXPECT_EQ(access.supported, ACCESS4_LOOKUP);
  EXPECT_EQ(access.access, ACCESS4_LOOKUP);
}

TEST_F(AccessTest, RejectsRightsThatTheDialectDoesNotDefine) {
  EXPECT_EQ(Run0(PutRoot(), Op(OP_ACCESS, ACCESS4args{0x40})).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutRoot(), Op(OP_ACCESS, ACCESS4args{ACCESS4_XAREAD})).status, NFS4_OK);
  EXPECT_EQ(Run(PutRoot(), Op(OP_ACCESS, ACCESS4args{0x200})).status, NFS4ERR_INVAL);
}

}  // namespace
}  // namespace penstock::nfs::v4
