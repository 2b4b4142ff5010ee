// Tests of the calls beyond names and data: special nodes, listings in parts, rights, sizes, extended attributes,
// access control lists, holes and copies on the server.
#include <gmock/gmock.h>

#include <cerrno>

#include "client/mount_test_support.h"
#include "protocol/nfs4_attributes.h"
#include "protocol/nfsacl.h"

namespace penstock::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class ObjectsTest : public VersionedMountTest {
 protected:
  Handle HandleOf(std::string_view name) { return Do(mount->Lookup(root(), name)).handle; }
};
INSTANTIATE_TEST_SUITE_P(Version, ObjectsTest, testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(ObjectsTest, MakesSpecialNodes) {
  const Node fifo = Do(mount->MakeNode(root(), "fifo", FileType::kFifo, 0640, 0, 0));
  EXPECT_EQ(fifo.attributes.type, FileType::kFifo);
  EXPECT_EQ(fifo.attributes.mode, 0640u);
  EXPECT_EQ(fifo.handle, HandleOf("fifo"));
  EXPECT_EQ(Do(mount->MakeNode(root(), "socket", FileType::kSocket, 0600, 0, 0)).attributes.type, FileType::kSocket);
  EXPECT_EQ(ErrorOf(mount->MakeNode(root(), "fifo", FileType::kFifo, 0640, 0, 0)).status, Status::kExists);
  EXPECT_EQ(ErrorOf(mount->MakeNode(root(), "file", FileType::kRegular, 0640, 0, 0)).status, Status::kInvalid);
}

TEST_P(ObjectsTest, TellsTheUsersRights) {
  Do(Create("file")->Close());
  const Handle file = HandleOf("file");
  EXPECT_EQ(Do(mount->CheckAccess(file, "file", right::kRead | right::kModify | right::kExecute)).rights,
            right::kRead | right::kModify);
  EXPECT_EQ(Do(mount->CheckAccess(root(), "/", right::kLookup)).rights, right::kLookup);
}

TEST_P(ObjectsTest, AListingGoesOnBehindAnyEntry) {
  for (const char* const name : {"a", "b", "c"}) Do(Create(name)->Close());
  const Listing all = Do(mount->ListFrom(root(), "/", {}, ListContent::kAttributesAndHandles));
  ASSERT_TRUE(all.ends);
  ASSERT_EQ(all.entries.size(), 3u);
  for (const Entry& entry : all.entries) {
    ASSERT_TRUE(entry.handle);
    EXPECT_EQ(*entry.handle, HandleOf(entry.name));
    EXPECT_TRUE(entry.attributes);
  }
  const ListPosition behind{.cookie = all.entries[0].cookie, .verifier = all.next.verifier};
  const Listing rest = Do(mount->ListFrom(root(), "/", behind, ListContent::kAttributes));
  ASSERT_EQ(rest.entries.size(), 2u);
  EXPECT_EQ(rest.entries[0].name, all.entries[1].name);
  EXPECT_FALSE(rest.entries[0].handle);
  EXPECT_TRUE(rest.ends);
}

TEST_P(ObjectsTest, AFileThatIsOpenForWritingChangesItsSize) {
  const auto file = Create("file", "0123456789");
  Do(file->SetSize(4));
  EXPECT_EQ(Read(*file), "0123");
  Do(file->SetSize(6));
  EXPECT_EQ(Read(*file), std::string("0123\0\0", 6));
  Do(file->Close());
}

TEST_P(ObjectsTest, TellsTheLongestName) { EXPECT_EQ(Do(mount->GetSpace(root(), "/")).longest_name, 255u); }

TEST_P(ObjectsTest, OpeningTellsTheAttributes) {
  Do(Create("file", "text")->Close());
  const auto file = OpenFile("file", Access::kRead);
  if (is_version_3()) {
    EXPECT_FALSE(file->attributes_at_open());
  } else {
    ASSERT_TRUE(file->attributes_at_open());
    EXPECT_EQ(file->attributes_at_open()->size, 4u);
  }
  Do(file->Close());
}

TEST_P(ObjectsTest, OnlyVersion42HasItsCalls) {
  if (GetParam() == Version::k42) GTEST_SKIP() << "tested below";
  const auto file = Create("file", "text");
  const auto is_unsupported = [](const Error& error) { return error.status == Status::kNotSupported; };
  EXPECT_TRUE(is_unsupported(ErrorOf(file->Seek(0, File::Content::kData))));
  EXPECT_TRUE(is_unsupported(ErrorOf(file->Allocate(0, 4096))));
  EXPECT_TRUE(is_unsupported(ErrorOf(file->Deallocate(0, 4096))));
  EXPECT_TRUE(is_unsupported(ErrorOf(file->CopyFrom(*file, 0, 8, 4))));
  EXPECT_TRUE(is_unsupported(ErrorOf(file->CloneFrom(*file, 0, 4096, 0))));
  EXPECT_TRUE(is_unsupported(ErrorOf(mount->ListXattrs(file->node().handle, "file"))));
  EXPECT_TRUE(is_unsupported(ErrorOf(mount->GetXattr(file->node().handle, "file", "a"))));
  Do(file->Close());
}

TEST_P(ObjectsTest, HasAccessControlListsOfItsVersion) {
  const auto file = Create("file");
  const Handle& handle = file->node().handle;
  if (is_version_3()) {
    EXPECT_EQ(ErrorOf(mount->GetAcl(handle, "file")).status, Status::kNotSupported);
    const PosixAcl acl{.access = {{nfsacl::NA_USER_OBJ, 0, 6},
                                  {nfsacl::NA_USER, 12, 4},
                                  {nfsacl::NA_GROUP_OBJ, 0, 4},
                                  {nfsacl::NA_CLASS_OBJ, 0, 4},
                                  {nfsacl::NA_OTHER_OBJ, 0, 0}},
                       .defaults = {}};
    Do(mount->SetPosixAcl(handle, "file", acl));
    const PosixAcl got = Do(mount->GetPosixAcl(handle, "file"));
    ASSERT_EQ(got.access.size(), 5u);
    EXPECT_THAT(got.access, testing::Contains(PosixAce{nfsacl::NA_USER, 12, 4}));
    EXPECT_THAT(got.defaults, IsEmpty());
  } else {
    EXPECT_EQ(ErrorOf(mount->GetPosixAcl(handle, "file")).status, Status::kNotSupported);
    std::vector<Ace> acl = Do(mount->GetAcl(handle, "file"));
    ASSERT_FALSE(acl.empty());
    const Ace reader{.type = nfs4::ACE4_ACCESS_ALLOWED_ACE_TYPE, .flags = 0, .mask = nfs4::ACE4_READ_DATA, .who = "12"};
    acl.insert(acl.begin(), reader);
    Do(mount->SetAcl(handle, "file", acl));
    const std::vector<Ace> got = Do(mount->GetAcl(handle, "file"));
    EXPECT_TRUE(std::ranges::any_of(got, [](const Ace& each) { return each.who.starts_with("12"); }));
  }
  Do(file->Close());
}

class Version42Test : public MountTestBase {
 protected:
  Version42Test() { Open(UrlOf(Version::k42)); }

  static std::vector<std::byte> Octets(std::string_view text) {
    const ConstBytes bytes = AsBytes(text);
    return {bytes.begin(), bytes.end()};
  }
};

TEST_F(Version42Test, ExtendedAttributesComeAndGo) {
  const auto file = Create("file");
  const Handle& handle = file->node().handle;
  EXPECT_THAT(Do(mount->ListXattrs(handle, "file")), IsEmpty());
  EXPECT_EQ(ErrorOf(mount->GetXattr(handle, "file", "color")).number, ENODATA);
  EXPECT_EQ(ErrorOf(mount->SetXattr(handle, "file", "color", Octets("red"), XattrMode::kReplace)).number, ENODATA);
  Do(mount->SetXattr(handle, "file", "color", Octets("red"), XattrMode::kCreate));
  EXPECT_EQ(ErrorOf(mount->SetXattr(handle, "file", "color", Octets("blue"), XattrMode::kCreate)).number, EEXIST);
  Do(mount->SetXattr(handle, "file", "color", Octets("blue"), XattrMode::kEither));
  Do(mount->SetXattr(handle, "file", "empty", {}, XattrMode::kEither));
  EXPECT_EQ(Do(mount->GetXattr(handle, "file", "color")), Octets("blue"));
  EXPECT_THAT(Do(mount->GetXattr(handle, "file", "empty")), IsEmpty());
  EXPECT_THAT(Do(mount->ListXattrs(handle, "file")), UnorderedElementsAre("color", "empty"));
  Do(mount->RemoveXattr(handle, "file", "color"));
  EXPECT_THAT(Do(mount->ListXattrs(handle, "file")), ElementsAre("empty"));
  Do(file->Close());
}

TEST_F(Version42Test, ManyExtendedAttributesNeedSeveralLists) {
  const auto file = Create("file");
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) names.push_back(std::to_string(i) + std::string(240, 'n'));
  for (const std::string& name : names) {
    Do(mount->SetXattr(file->node().handle, "file", name, Octets("value"), XattrMode::kCreate));
  }
  EXPECT_THAT(Do(mount->ListXattrs(file->node().handle, "file")), testing::UnorderedElementsAreArray(names));
  Do(file->Close());
}

TEST_F(Version42Test, FindsDataAndHoles) {
  const auto file = Create("file");
  constexpr uint64_t kAt = 1 << 20;
  ASSERT_TRUE(Write(*file, "data", kAt));
  EXPECT_EQ(Do(file->Seek(0, File::Content::kHole)), 0u);
  const std::optional<uint64_t> data = Do(file->Seek(0, File::Content::kData));
  ASSERT_TRUE(data);
  EXPECT_LE(*data, kAt);
  EXPECT_GT(*data, 0u);
  EXPECT_EQ(Do(file->Seek(kAt, File::Content::kHole)), kAt + 4);
  EXPECT_EQ(ErrorOf(file->Seek(kAt + 4, File::Content::kData)).number, ENXIO);
  Do(file->SetSize(4 * kAt));
  EXPECT_EQ(Do(file->Seek(2 * kAt, File::Content::kData)), std::nullopt);
  Do(file->Close());
}

TEST_F(Version42Test, AllocatesAndPunchesHoles) {
  constexpr uint64_t kMost = 256 << 10;
  const auto file = Create("file", std::string(2 * kMost, 'x'));
  Do(file->Deallocate(0, kMost));
  EXPECT_EQ(Read(*file, 2), std::string("\0\0", 2));
  Do(file->Allocate(2 * kMost, 4096));
  EXPECT_EQ(Do(mount->GetAttributes(file->node().handle, "file")).size, 2 * kMost + 4096);
  Do(file->Close());
}

TEST_F(Version42Test, TheServerCopiesBetweenFiles) {
  const auto from = Create("from", "0123456789");
  const auto to = Create("to", "abc");
  const File::CopyReply copied = Do(to->CopyFrom(*from, 2, 1, 8));
  EXPECT_EQ(copied.count, 8u);
  EXPECT_EQ(Read(*to), "a23456789");
  if (copied.verifier) EXPECT_EQ(Do(to->Commit()), *copied.verifier);
  EXPECT_EQ(Do(to->CopyFrom(*from, 0, 0, 0)).count, 0u);
  EXPECT_EQ(ErrorOf(to->CopyFrom(*from, 2, 1, 9)).number, EINVAL);
  Do(to->CloneFrom(*from, 0, 0, 0));
  EXPECT_EQ(Read(*to), "0123456789");
  Do(from->Close());
  Do(to->Close());
}

TEST_F(Version42Test, ACopyGoesOnWhenTheServerHasRestarted) {
  const auto from = Create("from", "0123456789");
  const auto to = Create("to");
  service.Restart();
  EXPECT_EQ(Do(to->CopyFrom(*from, 0, 0, 10)).count, 10u);
  EXPECT_EQ(Read(*to), "0123456789");
  Do(from->Close());
  Do(to->Close());
}

// The server revokes the stateid of one of the two files. The client opens that one again.
TEST_F(Version42Test, ACopyOpensAFileAgainWhoseStateIsLost) {
  for (const size_t lost : {0u, 1u}) {
    const auto from = Create("from", "0123456789");
    const auto to = Create("to");
    service.FailOperation(nfs4::nfs_opnum4::OP_SAVEFH, nfs4::nfsstat4::NFS4ERR_BAD_STATEID, 1 + lost);
    if (lost == 0) service.FailOperation(nfs4::nfs_opnum4::OP_READ, nfs4::nfsstat4::NFS4ERR_BAD_STATEID);
    EXPECT_EQ(Do(to->CopyFrom(*from, 0, 0, 10)).count, 10u);
    EXPECT_EQ(Read(*to), "0123456789");
    Do(from->Close());
    Do(to->Close());
  }
}

}  // namespace
}  // namespace penstock::client
