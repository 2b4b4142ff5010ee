// Tests of mounts of all versions with a server that fails: its disk, its replies and its connections.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <array>

#include "base/data.h"
#include "client/copy.h"
#include "client/mount_test_support.h"

namespace penstock::client {
namespace {

using nfs4::nfs_opnum4;
using nfs4::nfsstat4;
using testing::ElementsAre;
using testing::HasSubstr;

class MountFailuresTest : public VersionedMountTest {
 protected:
  // Makes the next `times` GETATTRs fail.
  void FailAttributes(nfs3::nfsstat3 status3, nfsstat4 status4, size_t times = 1) {
    if (is_version_3()) {
      service.Answer<nfs3::NFSPROC3_GETATTR>(nfs3::GETATTR3res(status3), times);
    } else {
      service.FailOperation(nfs_opnum4::OP_GETATTR, status4, times);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Version, MountFailuresTest,
                         testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// ---- failures of the server's disk ----

TEST_P(MountFailuresTest, AFailedReadGivesNoData) {
  const auto file = Create("file", "contents");
  service.files().Add({.operation = fs::faulty::Operation::kRead, .effect = fs::faulty::FailWith(fs::Error::kIo)});
  std::array<std::byte, 8> octets{};
  const Error error = ErrorOf(file->Read(0, octets));
  EXPECT_EQ(error.message, "file: input/output error on the server");
  EXPECT_EQ(octets, (std::array<std::byte, 8>{}));
  service.files().Clear();
  EXPECT_EQ(Read(*file), "contents");
  Do(file->Close());
}

TEST_P(MountFailuresTest, AFullDiskIsReportedByWrite) {
  const auto file = Create("file");
  service.files().Add(
      {.operation = fs::faulty::Operation::kWrite, .effect = fs::faulty::FailWith(fs::Error::kNoSpace)});
  const Result<File::WriteReply> written = Write(*file, "data");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().status, Status::kNoSpace);
  EXPECT_EQ(written.error().message, "file: no space left on the server");
  service.files().Clear();
  Do(file->Close());
}

// A server may notice only when it syncs the file that the disk is full or broken.
TEST_P(MountFailuresTest, AnUploadFailsIfTheDataCannotBeCommitted) {
  const FileDescriptor local(::memfd_create("local", MFD_CLOEXEC));
  ASSERT_EQ(::pwrite(local.get(), "data", 4, 0), 4);
  const auto file = Create("file");
  for (const auto& [failure, status] :
       {std::pair(fs::Error::kNoSpace, Status::kNoSpace), std::pair(fs::Error::kQuota, Status(69)),
        std::pair(fs::Error::kIo, Status(5))}) {
    service.files().Add({.operation = fs::faulty::Operation::kCommit, .effect = fs::faulty::FailWith(failure)});
    EXPECT_EQ(ErrorOf(Upload(*mount, workers, local.get(), 4, *file)).status, status);
    service.files().Clear();
  }
  EXPECT_EQ(Do(Upload(*mount, workers, local.get(), 4, *file)), 4u);
  Do(file->Close());
}

// ---- a server that delays calls ----

TEST_P(MountFailuresTest, RetriesWhenTheServerAsksForDelay) {
  FailAttributes(nfs3::NFS3ERR_JUKEBOX, nfsstat4::NFS4ERR_DELAY, 2);
  const size_t before = service.CountCalls(AttributeQueries());
  EXPECT_TRUE(GetAttributes());
  EXPECT_EQ(service.CountCalls(AttributeQueries()), before + 3);
}

TEST_P(MountFailuresTest, AFileThatIsBusyIsReadLater) {
  const auto file = Create("file", "contents");
  service.files().Add({.operation = fs::faulty::Operation::kRead, .effect = fs::faulty::FailWith(fs::Error::kDelay)});
  const auto mend = loop.MakeTimer([&] { service.files().Clear(); });
  mend->ExpireAfter(std::chrono::milliseconds(30));
  EXPECT_EQ(Read(*file), "contents");
  EXPECT_GT(service.CountCalls(Reads()), 1u);
  Do(file->Close());
}

// ---- RPC errors and replies that make no sense ----

TEST_P(MountFailuresTest, RpcErrorsHaveNoNfsStatus) {
  using Encode = std::function<void(xdr::Encoder&, rpc::Xid)>;
  const std::pair<Encode, const char*> cases[] = {
      {[](auto& to, auto xid) { rpc::EncodeAuthError(to, xid, rpc::AuthStatus::AUTH_TOOWEAK); },
       "root: the server rejects our credentials (AUTH_TOOWEAK)"},
      {[](auto& to, auto xid) { rpc::EncodeAccepted(to, xid, rpc::AcceptStatus::SYSTEM_ERR); },
       "root: the server failed to execute the call"},
      {[](auto& to, auto xid) { rpc::EncodeAccepted(to, xid, rpc::AcceptStatus::GARBAGE_ARGS); },
       "root: the server did not understand the arguments"},
      {[](auto& to, auto xid) { rpc::EncodeProgramMismatch(to, xid, {2, 2}); },
       "root: the server offers versions 2 to 2 of this service only"},
      {[](auto& to, auto xid) { rpc::EncodeRpcMismatch(to, xid); },
       "root: the server speaks versions 2 to 2 of RPC only"},
  };
  for (const auto& [encode, message] : cases) {
    service.Reply(AttributeQueries(), encode);
    const Result<Attributes> result = GetAttributes();
    ASSERT_FALSE(result) << message;
    EXPECT_EQ(result.error().message, message);
    EXPECT_FALSE(result.error().status);
    EXPECT_TRUE(GetAttributes()) << "the mount goes on after: " << message;
  }
}

TEST_P(MountFailuresTest, AReplyWithoutResultsIsMalformed) {
  service.Reply(AttributeQueries(),
                [](auto& to, auto xid) { rpc::EncodeAccepted(to, xid, rpc::AcceptStatus::SUCCESS); });
  const Result<Attributes> result = GetAttributes();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "root: the server's reply is malformed");
}

// ---- lost connections, lost replies, silence ----

// UseAllCalls() makes calls of each kind and removes all that it has made. `round` becomes a part of the names.
class EveryCallTest : public VersionedMountTest {
 protected:
  Task<Result<void>> UseAllCalls(std::string round) {
    const std::string name = "file" + round;
    PENSTOCK_CO_TRY(const Node directory, co_await mount->MakeDirectory(root(), "directory" + round, 0755));
    PENSTOCK_CO_TRY(const auto file, co_await mount->CreateFile(directory.handle, name, 0644));
    PENSTOCK_CO_TRY(const auto written, co_await file->Write(0, AsBytes(std::string_view("contents"))));
    EXPECT_EQ(written.count, 8u);
    PENSTOCK_CO_TRY(const Verifier committed, co_await file->Commit());
    EXPECT_EQ(committed, written.verifier);
    if (!is_version_3()) {
      PENSTOCK_CO_CHECK(co_await file->Lock("owner", {0, 4}, LockKind::kExclusive));
      PENSTOCK_CO_CHECK(co_await file->Unlock("owner", {0, 4}));
    }
    PENSTOCK_CO_CHECK(co_await file->Close());
    const NewAttributes attributes{.mode = 0600};
    PENSTOCK_CO_CHECK(co_await mount->SetAttributes(file->node().handle, name, attributes));
    PENSTOCK_CO_CHECK(co_await mount->Rename(directory.handle, name, directory.handle, "renamed"));
    PENSTOCK_CO_TRY(const Node found, co_await mount->Lookup(directory.handle, "renamed"));
    PENSTOCK_CO_CHECK(co_await mount->Link(found.handle, directory.handle, "second"));
    PENSTOCK_CO_TRY(const Node link, co_await mount->MakeSymlink(directory.handle, "link", "renamed"));
    PENSTOCK_CO_TRY(const std::string text, co_await mount->ReadLink(link.handle, "link"));
    EXPECT_EQ(text, "renamed");
    PENSTOCK_CO_TRY(const auto opened, co_await mount->OpenFile(found, "renamed", Access::kRead));
    std::array<std::byte, 100> octets{};
    PENSTOCK_CO_TRY(const auto read, co_await opened->Read(0, octets));
    EXPECT_EQ(AsText(ConstBytes(octets).first(read.count)), "contents");
    PENSTOCK_CO_CHECK(co_await opened->Close());
    std::vector<std::string> names;
    const auto add = [&names](const Entry& entry) { names.push_back(entry.name); };
    PENSTOCK_CO_CHECK(co_await mount->List(directory.handle, "directory", add));
    EXPECT_THAT(names, testing::UnorderedElementsAre("link", "renamed", "second"));
    PENSTOCK_CO_TRY(const Attributes known, co_await mount->GetAttributes(found.handle, "renamed"));
    EXPECT_EQ(known.mode, 0600u);
    EXPECT_EQ(known.links, 2u);
    for (const char* each : {"link", "renamed", "second"}) {
      PENSTOCK_CO_CHECK(co_await mount->Remove(directory.handle, each));
    }
    co_return co_await mount->RemoveDirectory(root(), "directory" + round);
  }

  // Counts the calls that UseAllCalls() makes.
  size_t CountAllCalls() {
    const size_t before = service.CountCalls(AllCalls());
    Do(UseAllCalls("counted"));
    return service.CountCalls(AllCalls()) - before;
  }

  // Runs UseAllCalls() once for each of its calls. `lose(n)` makes the connection fail at call n.
  void ExpectToSurvive(const std::function<void(size_t)>& lose) {
    const size_t calls = CountAllCalls();
    ASSERT_GT(calls, 15u);
    for (size_t n = 0; n < calls; ++n) {
      const uint64_t before = mount->reconnections();
      lose(n);
      const Result<void> used = Run(UseAllCalls(std::to_string(n)));
      ASSERT_TRUE(used) << "call " << n << ": " << used.error().message;
      EXPECT_EQ(mount->reconnections(), before + 1) << n;
    }
    EXPECT_THAT(List(), ElementsAre());
  }
};
INSTANTIATE_TEST_SUITE_P(Version, EveryCallTest, testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// RFC 1813 §4.3, RFC 7530 §9.1.7, RFC 8881 §2.10.6: a call that is sent again is executed once.
TEST_P(EveryCallTest, SurvivesTheLossOfAnyCall) {
  ExpectToSurvive([this](size_t n) { service.LoseCall(AllCalls(), 1, n); });
}

TEST_P(EveryCallTest, SurvivesTheLossOfAnyReply) {
  ExpectToSurvive([this](size_t n) { service.LoseReply(AllCalls(), 1, n); });
}

TEST_P(EveryCallTest, ATruncatedReplyIsAnErrorAndTheMountStaysUsable) {
  const size_t calls = CountAllCalls();
  size_t failed = 0;
  for (size_t n = 0; n < calls; ++n) {
    size_t left = n;
    service.TruncateReply([left, all = AllCalls()](const SeenCall& call) mutable { return all(call) && left-- == 0; });
    const Result<void> used = Run(UseAllCalls(std::to_string(n)));
    if (!used) {
      ++failed;
      EXPECT_THAT(used.error().message, HasSubstr("the server's reply is malformed")) << n;
      EXPECT_FALSE(used.error().status) << n;
    }
    EXPECT_TRUE(GetAttributes()) << "after call " << n;
  }
  // Calls that only tidy up, such as RELEASE_LOCKOWNER, may fail in silence.
  EXPECT_GE(failed + 1, calls);
}

class ImpatientMountTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  ImpatientMountTest() {
    Url url = UrlOf(GetParam());
    url.recovery.timeout = 1;
    Open(url);
  }
};
INSTANTIATE_TEST_SUITE_P(Version, ImpatientMountTest, testing::Values(Version::k3, Version::k40, Version::k41),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(ImpatientMountTest, ACallWithoutAReplyTimesOutAndTheNextSucceeds) {
  service.HoldCall(AllCalls());
  const Error error = ErrorOf(mount->GetAttributes(root(), "root"));
  EXPECT_FALSE(error.status);
  EXPECT_EQ(mount->trouble().message, "the server does not answer");
  EXPECT_EQ(WithTrouble(error, mount->trouble()).number, ETIMEDOUT);
  Do(mount->GetAttributes(root(), "root"));
  EXPECT_EQ(mount->trouble().message, "");
}

TEST_P(ImpatientMountTest, GivesUpAServerThatLosesEveryCall) {
  service.LoseCall(AllCalls(), 1000);
  const Error error = ErrorOf(mount->GetAttributes(root(), "root"));
  EXPECT_EQ(error.message, "root: the connection was lost");
  EXPECT_EQ(mount->trouble().message,
            "the server closes connections before it answers: it may be full, or this may be its port for RDMA");
}

TEST_P(ImpatientMountTest, GivesUpAFileThatStaysBusy) {
  service.files().Add({.operation = fs::faulty::Operation::kLookup, .effect = fs::faulty::FailWith(fs::Error::kDelay)});
  const Error error = ErrorOf(mount->Lookup(root(), "file"));
  EXPECT_EQ(error.message, "file: not available now, try again later");
  EXPECT_EQ(error.status, Status(10008));
  service.files().Clear();
  EXPECT_EQ(ErrorOf(mount->Lookup(root(), "file")).status, Status::kNotFound);
}

}  // namespace
}  // namespace penstock::client
