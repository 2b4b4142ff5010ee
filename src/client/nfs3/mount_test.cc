// Tests of mounts of version 3 with replies that the test writes. src/client/mount_test.cc has the tests for all
// versions.
#include "client/nfs3/mount.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <array>

#include "base/data.h"
#include "client/copy.h"
#include "client/mount_test_support.h"
#include "protocol/nfs3.h"

namespace penstock::client::v3 {
namespace {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813
using testing::ElementsAre;

class Nfs3MountTest : public MountTestBase {
 protected:
  Nfs3MountTest() { Open(UrlOf(Version::k3)); }

  fattr3 AttributesWith(ftype3 type) { return {.type = type, .mode = 0644, .nlink = 1, .uid = 5, .gid = 6}; }
  void AnswerRead(uint32_t count, bool eof, std::string_view data) {
    READ3resok read;
    read.count = count;
    read.eof = eof;
    read.data = xdr::Payload<xdr::kUnbounded>::Borrowed(AsBytes(data));
    service.Answer<NFSPROC3_READ>(READ3res(NFS3_OK, read));
  }
  void AnswerWrite(uint32_t count) {
    WRITE3resok written;
    written.count = count;
    service.Answer<NFSPROC3_WRITE>(WRITE3res(NFS3_OK, written));
  }
  void AnswerCommit(uint8_t verifier, size_t times) {
    COMMIT3resok committed;
    committed.verf[0] = std::byte{verifier};
    service.Answer<NFSPROC3_COMMIT>(COMMIT3res(NFS3_OK, committed), times);
  }
  size_t CountWrites() const { return service.CountCalls(CallsOf<NFSPROC3_WRITE>()); }
};

// ---- limits ----

class LimitsTest : public MountTestBase {
 protected:
  void OpenWith(uint32_t rtmax, uint32_t wtmax, uint32_t dtpref) {
    FSINFO3resok limits;
    limits.rtmax = rtmax;
    limits.wtmax = wtmax;
    limits.dtpref = dtpref;
    service.Answer<NFSPROC3_FSINFO>(FSINFO3res(NFS3_OK, limits));
    Open(UrlOf(Version::k3));
  }
};

TEST_F(LimitsTest, TakesTheServersLimits) {
  OpenWith(8192, 4096, 2048);
  EXPECT_EQ(mount->sizes().read, 8192u);
  EXPECT_EQ(mount->sizes().write, 4096u);
  EXPECT_EQ(mount->sizes().directory, 2048u);
}

TEST_F(LimitsTest, CorrectsLimitsThatAreTooSmallOrTooLarge) {
  OpenWith(0, 1, 0);
  EXPECT_EQ(mount->sizes().read, 512u);
  EXPECT_EQ(mount->sizes().write, 512u);
  EXPECT_EQ(mount->sizes().directory, 512u);
  Unmount();
  OpenWith(~0u, ~0u, ~0u);
  EXPECT_EQ(mount->sizes().read, 1u << 20);
  EXPECT_EQ(mount->sizes().write, 1u << 20);
  EXPECT_EQ(mount->sizes().directory, 64u << 10);
}

// ---- attributes and names ----

// RFC 1813 §2.5
TEST_F(Nfs3MountTest, KnowsEveryFileType) {
  const std::pair<ftype3, FileType> types[] = {
      {NF3REG, FileType::kRegular},     {NF3DIR, FileType::kDirectory},       {NF3LNK, FileType::kSymlink},
      {NF3BLK, FileType::kBlockDevice}, {NF3CHR, FileType::kCharacterDevice}, {NF3SOCK, FileType::kSocket},
      {NF3FIFO, FileType::kFifo}};
  for (const auto& [type, expected] : types) {
    service.Answer<NFSPROC3_GETATTR>(GETATTR3res(NFS3_OK, GETATTR3resok{AttributesWith(type)}));
    EXPECT_EQ(Do(mount->GetAttributes(root(), "root")).type, expected);
  }
}

TEST_F(Nfs3MountTest, ConvertsAttributes) {
  fattr3 attributes = AttributesWith(NF3REG);
  attributes.nlink = 3;
  attributes.size = uint64_t{1} << 40;
  attributes.used = 12288;
  attributes.rdev = {1, 2};
  attributes.fsid = 0x0102030405060708;
  attributes.fileid = 44;
  attributes.atime = {5, 6};
  attributes.mtime = {7, 8};
  attributes.ctime = {9, 10};
  service.Answer<NFSPROC3_GETATTR>(GETATTR3res(NFS3_OK, GETATTR3resok{attributes}));
  const Attributes converted = Do(mount->GetAttributes(root(), "root"));
  EXPECT_EQ(converted.mode, 0644u);
  EXPECT_EQ(converted.links, 3u);
  EXPECT_EQ(converted.owner, "5");
  EXPECT_EQ(converted.group, "6");
  EXPECT_EQ(converted.size, uint64_t{1} << 40);
  EXPECT_EQ(converted.used, 12288u);
  EXPECT_EQ(converted.device_major, 1u);
  EXPECT_EQ(converted.device_minor, 2u);
  EXPECT_EQ(converted.file_system, 0x0102030405060708u);
  EXPECT_EQ(converted.file_id, 44u);
  EXPECT_EQ(converted.accessed, (Time{5, 6}));
  EXPECT_EQ(converted.modified, (Time{7, 8}));
  EXPECT_EQ(converted.changed, (Time{9, 10}));
  EXPECT_EQ(converted.change, uint64_t{9} << 32 | 10);
}

TEST_F(Nfs3MountTest, ConvertsTheRoomOfAFileSystem) {
  FSSTAT3resok room;
  room.tbytes = 6;
  room.fbytes = 5;
  room.abytes = 4;
  room.tfiles = 3;
  room.ffiles = 2;
  room.afiles = 1;
  service.Answer<NFSPROC3_FSSTAT>(FSSTAT3res(NFS3_OK, room));
  const Space space = Do(mount->GetSpace(root(), "root"));
  EXPECT_EQ(space.total, 6u);
  EXPECT_EQ(space.free, 5u);
  EXPECT_EQ(space.available, 4u);
  EXPECT_EQ(space.total_files, 3u);
  EXPECT_EQ(space.free_files, 2u);
  EXPECT_EQ(space.available_files, 1u);
}

TEST_F(Nfs3MountTest, ReportsEveryStatus) {
  for (const nfsstat3 status : {NFS3ERR_PERM, NFS3ERR_NOENT, NFS3ERR_IO, NFS3ERR_ACCES, NFS3ERR_STALE,
                                NFS3ERR_BADHANDLE, NFS3ERR_SERVERFAULT}) {
    service.Answer<NFSPROC3_GETATTR>(GETATTR3res(status));
    const Error error = ErrorOf(mount->GetAttributes(root(), "root"));
    EXPECT_EQ(error.status, static_cast<Status>(status));
    EXPECT_EQ(error.message, "root: " + Describe(static_cast<Status>(status)));
  }
}

// RFC 1813 §3.3.3: a server may leave the attributes out.
TEST_F(Nfs3MountTest, AsksForAttributesThatLookupLeavesOut) {
  Do(Create("file", "data")->Close());
  const Node node = Do(mount->Lookup(root(), "file"));
  LOOKUP3resok found;
  found.object = {xdr::Opaque<NFS3_FHSIZE>(node.handle.bytes())};
  service.Answer<NFSPROC3_LOOKUP>(LOOKUP3res(NFS3_OK, found), 2);
  EXPECT_EQ(Do(mount->Lookup(root(), "file")).attributes.size, 4u);
  service.Answer<NFSPROC3_GETATTR>(GETATTR3res(NFS3ERR_STALE));
  EXPECT_EQ(ErrorOf(mount->Lookup(root(), "file")).status, Status::kStale);
}

// RFC 1813 §3.3.8 to §3.3.10: a server may leave out the handle or the attributes of the new object.
TEST_F(Nfs3MountTest, LooksUpANewObjectThatTheReplyDoesNotDescribe) {
  const Node file = Create("file", "data")->node();
  const Node directory = Do(mount->MakeDirectory(root(), "directory", 0755));
  const Node link = Do(mount->MakeSymlink(root(), "link", "file"));
  service.Answer<NFSPROC3_CREATE>(CREATE3res(NFS3_OK, CREATE3resok()));
  EXPECT_EQ(Create("file")->node().handle, file.handle);
  MKDIR3resok made;
  made.obj = nfs_fh3{xdr::Opaque<NFS3_FHSIZE>(directory.handle.bytes())};
  service.Answer<NFSPROC3_MKDIR>(MKDIR3res(NFS3_OK, made));
  EXPECT_EQ(Do(mount->MakeDirectory(root(), "directory", 0755)).attributes.type, FileType::kDirectory);
  service.Answer<NFSPROC3_SYMLINK>(SYMLINK3res(NFS3_OK, SYMLINK3resok()));
  EXPECT_EQ(Do(mount->MakeSymlink(root(), "link", "file")).handle, link.handle);
  service.Answer<NFSPROC3_MKDIR>(MKDIR3res(NFS3_OK, MKDIR3resok()));
  EXPECT_EQ(ErrorOf(mount->MakeDirectory(root(), "gone", 0755)).status, Status::kNotFound);
}

TEST_F(Nfs3MountTest, OwnersMustBeNumbers) {
  for (const NewAttributes& attributes : {NewAttributes{.owner = "alice"}, NewAttributes{.group = "staff@x"},
                                          NewAttributes{.owner = ""}, NewAttributes{.owner = "12x"}}) {
    const Error error = ErrorOf(mount->SetAttributes(root(), "root", attributes));
    EXPECT_EQ(error.status, Status::kInvalid);
    EXPECT_EQ(error.message, "root: owners and groups are numbers in version 3");
  }
  EXPECT_EQ(service.CountCalls(CallsOf<NFSPROC3_SETATTR>()), 0u);
}

// RFC 1813 §2.5
TEST_F(Nfs3MountTest, ATimeThatTheProtocolDoesNotHaveBecomesTheNearestOne) {
  const Handle file = Create("file")->node().handle;
  const auto accessed = [&](Time time) {
    Do(mount->SetAttributes(file, "file", {.accessed = time}));
    return Do(mount->GetAttributes(file, "file")).accessed;
  };
  EXPECT_EQ(accessed({4'294'967'296, 5}), (Time{4'294'967'295, 0}));
  EXPECT_EQ(accessed({-1, 5}), (Time{0, 0}));
  EXPECT_EQ(accessed({4'294'967'295, 5}), (Time{4'294'967'295, 5}));
}

// ---- directories ----

TEST_F(Nfs3MountTest, ListsEntriesWithoutAttributes) {
  READDIRPLUS3resok listed;
  entryplus3 entry;
  for (const char* name : {".", "..", "one", "two"}) {
    entry.name = name;
    ++entry.cookie;
    listed.reply.entries.push_back(entry);
  }
  listed.reply.entries.back().name_attributes = AttributesWith(NF3DIR);
  listed.reply.eof = true;
  service.Answer<NFSPROC3_READDIRPLUS>(READDIRPLUS3res(NFS3_OK, listed));
  std::vector<Entry> entries;
  Do(mount->List(root(), "/", [&](Entry found) { entries.push_back(std::move(found)); }));
  ASSERT_EQ(entries.size(), 2u) << "without . and ..";
  EXPECT_EQ(entries[0].name, "one");
  EXPECT_FALSE(entries[0].attributes);
  EXPECT_EQ(entries[1].attributes->type, FileType::kDirectory);
}

TEST_F(Nfs3MountTest, AListingThatDoesNotAdvanceIsAnError) {
  service.Answer<NFSPROC3_READDIRPLUS>(READDIRPLUS3res(NFS3_OK, READDIRPLUS3resok()));
  EXPECT_EQ(ErrorOf(mount->List(root(), "/", [](const Entry&) {})).message, "/: the server never ends the listing");
  READDIRPLUS3resok listed;
  entryplus3 entry;
  entry.name = "same";
  entry.cookie = 5;
  listed.reply.entries.push_back(entry);
  service.Answer<NFSPROC3_READDIRPLUS>(READDIRPLUS3res(NFS3_OK, listed), 1000);
  EXPECT_EQ(ErrorOf(mount->List(root(), "/", [](const Entry&) {})).message, "/: the server never ends the listing");
  EXPECT_EQ(service.CountCalls(CallsOf<NFSPROC3_READDIRPLUS>()), 3u);
}

// ---- data ----

TEST_F(Nfs3MountTest, AReadReplyThatContradictsItselfGivesNoData) {
  const auto file = Create("file");
  std::array<std::byte, 4> octets{};
  const auto expect_contradiction = [&](const char* what) {
    const Error error = ErrorOf(file->Read(0, octets));
    EXPECT_EQ(error.message, "file: the server's READ reply contradicts itself") << what;
    EXPECT_EQ(octets, (std::array<std::byte, 4>{})) << what;
  };
  AnswerRead(3, false, "data");
  expect_contradiction("the count is smaller than the data");
  AnswerRead(4, false, "dat");
  expect_contradiction("the count is larger than the data");
  AnswerRead(5, false, "datas");
  expect_contradiction("more data than the call asked for");
  AnswerRead(0, false, "");
  expect_contradiction("no data and no end of the file");
  AnswerRead(2, false, "da");
  EXPECT_EQ(Do(file->Read(0, octets)).count, 2u) << "a short read is allowed";
  EXPECT_EQ(AsText(ConstBytes(octets).first(2)), "da");
}

TEST_F(Nfs3MountTest, ADownloadGoesOnAfterShortReads) {
  const FileDescriptor local(::memfd_create("local", MFD_CLOEXEC));
  const auto file = Create("file", "contents");
  AnswerRead(3, false, "con");
  AnswerRead(1, false, "t");
  EXPECT_EQ(Do(Download(*mount, workers, *file, local.get())), 8u);
  std::array<char, 9> octets{};
  EXPECT_EQ(::pread(local.get(), octets.data(), octets.size(), 0), 8);
  EXPECT_STREQ(octets.data(), "contents");
}

TEST_F(Nfs3MountTest, AWriteReplyThatContradictsItselfIsAnError) {
  const auto file = Create("file");
  for (const uint32_t count : {0u, 5u, ~0u}) {
    AnswerWrite(count);
    const Result<File::WriteReply> written = Write(*file, "data");
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().message, "file: the server's WRITE reply contradicts itself");
  }
  AnswerWrite(0);
  EXPECT_TRUE(Write(*file, "")) << "no data was to be written";
}

TEST_F(Nfs3MountTest, AnUploadGoesOnAfterShortWrites) {
  const FileDescriptor local(::memfd_create("local", MFD_CLOEXEC));
  ASSERT_EQ(::pwrite(local.get(), "contents", 8, 0), 8);
  const auto file = Create("file");
  AnswerWrite(3);
  const auto copied = Run(Upload(*mount, workers, local.get(), 8, *file));
  ASSERT_TRUE(copied) << copied.error().message;
  // The scripted reply has another verifier than the server, so everything is written twice.
  EXPECT_EQ(CountWrites(), 3u);
  EXPECT_EQ(Read(*file), "contents");
}

// RFC 1813 §4.11: another verifier says that the server has restarted and may have lost the data.
TEST_F(Nfs3MountTest, AnUploadWritesAgainIfTheVerifierChanges) {
  const FileDescriptor local(::memfd_create("local", MFD_CLOEXEC));
  ASSERT_EQ(::pwrite(local.get(), "contents", 8, 0), 8);
  const auto file = Create("file");
  AnswerCommit(0xff, 2);
  EXPECT_EQ(Do(Upload(*mount, workers, local.get(), 8, *file)), 8u);
  EXPECT_EQ(CountWrites(), 3u);
  AnswerCommit(0xff, 1000);
  EXPECT_EQ(ErrorOf(Upload(*mount, workers, local.get(), 8, *file)).message,
            "file: the server keeps losing uncommitted data");
}

TEST_F(Nfs3MountTest, ACommitThatFailsGivesNoVerifier) {
  const auto file = Create("file");
  service.Answer<NFSPROC3_COMMIT>(COMMIT3res(NFS3ERR_NOSPC));
  EXPECT_EQ(ErrorOf(file->Commit()).status, Status::kNoSpace);
}

// ---- repeated calls ----

// RFC 1813 §4.3: the repeated call has the XID of the first one. Otherwise the second REMOVE would fail.
TEST_F(Nfs3MountTest, ARemoveWhoseReplyIsLostSucceeds) {
  Do(Create("file")->Close());
  service.LoseReply(CallsOf<NFSPROC3_REMOVE>());
  Do(mount->Remove(root(), "file"));
  EXPECT_EQ(service.CountCalls(CallsOf<NFSPROC3_REMOVE>()), 2u);
  EXPECT_THAT(List(), ElementsAre());
}

// RFC 1813 §2.6: the client repeats the call with another XID. Otherwise the server would repeat its reply.
TEST_F(Nfs3MountTest, RetriesAMakeDirectoryThatTheServerDelays) {
  service.Answer<NFSPROC3_MKDIR>(MKDIR3res(NFS3ERR_JUKEBOX), 2);
  Do(mount->MakeDirectory(root(), "directory", 0755));
  EXPECT_EQ(service.CountCalls(CallsOf<NFSPROC3_MKDIR>()), 3u);
  service.files().Add(
      {.operation = fs::faulty::Operation::kMakeDirectory, .effect = fs::faulty::FailWith(fs::Error::kDelay)});
  const auto mend = loop.MakeTimer([&] { service.files().Clear(); });
  mend->ExpireAfter(std::chrono::milliseconds(30));
  Do(mount->MakeDirectory(root(), "second", 0755));
  EXPECT_THAT(List(), ElementsAre("directory", "second"));
}

TEST_F(Nfs3MountTest, CallsSideBySideSurviveTheLossOfTheirConnection) {
  service.LoseReply(AllCalls(), 1, 5);
  std::vector<std::optional<Result<Node>>> made(20);
  for (size_t i = 0; i < made.size(); ++i) {
    Spawn([](Mount& from, std::string name, std::optional<Result<Node>>& out) -> Task<void> {
      out.emplace(co_await from.MakeDirectory(from.root(), name, 0755));
    }(*mount, "directory " + std::to_string(i), made[i]));
  }
  EXPECT_TRUE(TurnUntil(loop, [&] { return std::ranges::all_of(made, [](auto& each) { return each.has_value(); }); }));
  for (const auto& each : made) EXPECT_TRUE(*each) << (*each).error().message;
  EXPECT_EQ(List().size(), made.size());
  EXPECT_EQ(mount->reconnections(), 1u);
}

}  // namespace
}  // namespace penstock::client::v3
