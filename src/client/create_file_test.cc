// Tests of the ways in which CreateFile() treats existing files, in all versions.
#include <gmock/gmock.h>

#include <cerrno>

#include "client/mount_test_support.h"

namespace penstock::client {
namespace {

using namespace std::chrono_literals;
using nfs4::nfs_opnum4;
using nfs4::nfsstat4;

class CreateFileTest : public VersionedMountTest {
 protected:
  CreateFileTest() : VersionedMountTest({.lease = 2s}) {}

  static CallMatcher Creations() {
    return is_version_3() ? CallsOf<nfs3::NFSPROC3_CREATE>() : CompoundsWith(nfs_opnum4::OP_OPEN);
  }
  static CallMatcher Settings() {
    return is_version_3() ? CallsOf<nfs3::NFSPROC3_SETATTR>() : CompoundsWith(nfs_opnum4::OP_SETATTR);
  }
  Result<std::unique_ptr<File>> Make(std::string_view name, CreateMode how, uint32_t mode = 0640) {
    return Run(mount->CreateFile(root(), name, mode, how));
  }
  // Creates a file exclusively, checks its attributes, and writes it.
  void ExpectToCreate() {
    const auto file = Make("file", CreateMode::kExclusive);
    ASSERT_TRUE(file) << file.error().message;
    const Attributes& attributes = (*file)->node().attributes;
    EXPECT_EQ(attributes.mode, 0640u);
    EXPECT_EQ(attributes.size, 0u);
    const Attributes known = Do(mount->GetAttributes((*file)->node().handle, "file"));
    EXPECT_EQ(known.mode, 0640u);
    for (const Time& time : {attributes.accessed, attributes.modified, known.accessed, known.modified}) {
      EXPECT_LT(std::abs(time.seconds - known.changed.seconds), 1000) << "the times are not the verifier";
    }
    EXPECT_TRUE(Write(**file, "new"));
    EXPECT_EQ(Read(**file), "new");
    Do((*file)->Close());
    EXPECT_EQ(ErrorOf(mount->CreateFile(root(), "file", 0640, CreateMode::kExclusive)).status, Status::kExists);
  }
};
INSTANTIATE_TEST_SUITE_P(Version, CreateFileTest,
                         testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(CreateFileTest, KeepsTheContentsAndTheModeOfAnExistingFile) {
  Do(Create("file", "contents")->Close());
  const auto file = Make("file", CreateMode::kKeep, 0600);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->node().attributes.mode, 0644u);
  EXPECT_EQ((*file)->node().attributes.size, 8u);
  EXPECT_EQ(Read(**file), "contents");
  Do((*file)->Close());
}

TEST_P(CreateFileTest, CreatesAFileThatItWouldKeep) {
  const auto file = Make("file", CreateMode::kKeep);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->node().attributes.mode, 0640u);
  EXPECT_TRUE(Write(**file, "new"));
  Do((*file)->Close());
}

TEST_P(CreateFileTest, AnObjectOfAnotherTypeIsAnErrorInEveryMode) {
  Do(mount->MakeDirectory(root(), "directory", 0755));
  Do(mount->MakeSymlink(root(), "link", "missing"));
  for (const CreateMode how : {CreateMode::kTruncate, CreateMode::kKeep, CreateMode::kExclusive}) {
    EXPECT_FALSE(Make("directory", how));
    EXPECT_FALSE(Make("link", how));
  }
  EXPECT_EQ(ErrorOf(mount->Lookup(root(), "missing")).status, Status::kNotFound);
}

TEST_P(CreateFileTest, AnExclusiveCreationFailsIfTheNameExists) {
  Do(Create("file", "contents")->Close());
  Do(mount->MakeDirectory(root(), "directory", 0755));
  Do(mount->MakeSymlink(root(), "link", "missing"));
  for (const char* name : {"file", "directory", "link"}) {
    const Error error = ErrorOf(mount->CreateFile(root(), name, 0600, CreateMode::kExclusive));
    EXPECT_EQ(error.status, Status::kExists) << name;
    EXPECT_EQ(error.number, EEXIST) << name;
    EXPECT_EQ(error.message, std::string(name) + ": exists already");
  }
  const auto file = OpenFile("file");
  EXPECT_EQ(Read(*file), "contents");
  EXPECT_EQ(file->node().attributes.mode, 0644u);
  Do(file->Close());
}

// The server keeps the verifier in the times, so that the client must set them (RFC 1813 §3.3.8, RFC 8881 §18.16.4).
TEST_P(CreateFileTest, AnExclusiveCreationSetsTheModeAndTheTimes) {
  ExpectToCreate();
  EXPECT_EQ(service.CountCalls(Settings()), 1u);
}

TEST_P(CreateFileTest, AnExclusiveCreationSucceedsIfItsReplyIsLost) {
  service.LoseReply(Creations());
  ExpectToCreate();
}

TEST_P(CreateFileTest, AnExclusiveCreationSucceedsIfItsCallIsLost) {
  service.LoseCall(Creations());
  ExpectToCreate();
}

// RFC 1813 §3.3.8, RFC 8881 §18.16.4: the verifier tells the server that the file is this client's.
TEST_P(CreateFileTest, AnExclusiveCreationSucceedsIfTheServerForgetsIt) {
  service.LoseReplyInRestart(Creations());
  ExpectToCreate();
}

TEST_P(CreateFileTest, AnExclusiveCreationSucceedsIfTheReplyOfItsSetattrIsLost) {
  service.LoseReply(Settings());
  ExpectToCreate();
}

TEST_P(CreateFileTest, AServerWithoutVerifiersCreatesExclusivelyAllTheSame) {
  if (is_version_3()) {
    service.Answer<nfs3::NFSPROC3_CREATE>(nfs3::CREATE3res(nfs3::NFS3ERR_NOTSUPP));
  } else {
    service.FailOperation(nfs_opnum4::OP_OPEN, nfsstat4::NFS4ERR_NOTSUPP);
  }
  const auto file = Make("file", CreateMode::kExclusive);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->node().attributes.mode, 0640u);
  EXPECT_TRUE(Write(**file, "new"));
  Do((*file)->Close());
  EXPECT_EQ(service.CountCalls(Settings()), 0u) << "a guarded creation carries the attributes";
  EXPECT_EQ(service.CountCalls(Creations()), 2u);
}

TEST_P(CreateFileTest, AServerWithoutVerifiersRefusesAnExistingName) {
  Do(Create("file", "contents")->Close());
  if (is_version_3()) {
    service.Answer<nfs3::NFSPROC3_CREATE>(nfs3::CREATE3res(nfs3::NFS3ERR_NOTSUPP));
  } else {
    service.FailOperation(nfs_opnum4::OP_OPEN, nfsstat4::NFS4ERR_NOTSUPP);
  }
  EXPECT_EQ(ErrorOf(mount->CreateFile(root(), "file", 0600, CreateMode::kExclusive)).status, Status::kExists);
}

// A file with the verifier in its attributes is no success.
TEST_P(CreateFileTest, AttributesThatCannotBeSetAreAnError) {
  if (is_version_3()) {
    service.Answer<nfs3::NFSPROC3_SETATTR>(nfs3::SETATTR3res(nfs3::NFS3ERR_NOSPC));
  } else {
    service.FailOperation(nfs_opnum4::OP_SETATTR, nfsstat4::NFS4ERR_NOSPC);
  }
  EXPECT_EQ(ErrorOf(mount->CreateFile(root(), "file", 0640, CreateMode::kExclusive)).status, Status::kNoSpace);
  if (!is_version_3()) {
    EXPECT_EQ(service.CountCalls(CompoundsWith(nfs_opnum4::OP_CLOSE)), 1u) << "the file does not stay open";
  }
}

}  // namespace
}  // namespace penstock::client
