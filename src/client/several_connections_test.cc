// Tests of mounts with several connections (nconnect), in all versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/mount_test_support.h"

namespace penstock::client {
namespace {

using nfs4::nfs_opnum4;
using nfs4::nfsstat4;

constexpr uint32_t kConnections = 4;
constexpr size_t kPieces = 32;
constexpr size_t kPiece = 1024;

class SeveralConnectionsTest : public VersionedMountTest {
 protected:
  SeveralConnectionsTest() {
    Unmount();
    Url url = UrlOf(GetParam());
    url.nconnect = kConnections;
    Open(url);
    for (size_t i = 0; i < kPieces; ++i) contents_ += std::string(kPiece, static_cast<char>('a' + i % 26));
    file_ = Create("file", contents_);
  }
  ~SeveralConnectionsTest() override {
    (void)Run(file_->Close());
    file_.reset();
  }

  static bool HasSession() { return GetParam() == Version::k41 || GetParam() == Version::k42; }

  // Reads all pieces at the same time, and returns what it has read.
  std::string ReadAll() {
    std::string got(contents_.size(), '?');
    size_t done = 0;
    for (size_t i = 0; i < kPieces; ++i) Spawn(ReadPiece(*file_, i * kPiece, AsWritableBytes(got), done));
    EXPECT_TRUE(TurnUntil(loop, [&] { return done == kPieces; }));
    return got;
  }
  static Bytes AsWritableBytes(std::string& text) { return std::as_writable_bytes(std::span(text)); }
  static Task<void> ReadPiece(File& file, uint64_t offset, Bytes all, size_t& done) {
    auto read = co_await file.Read(offset, all.subspan(offset, kPiece));
    EXPECT_TRUE(read) << read.error().message;
    ++done;
  }
  // Reads all pieces again and again until done() is true.
  template <class Done>
  void ReadUntil(const Done& done) {
    const TimePoint limit = loop.Now() + kTestPatience;
    while (!done()) {
      ASSERT_LT(loop.Now(), limit);
      ASSERT_EQ(ReadAll(), contents_);
    }
  }
  void UseAllConnections() {
    ReadUntil([&] { return service.ConnectionsOf(Reads()).size() == kConnections; });
  }
  // Makes so many directories at the same time, and returns how many attempts have failed.
  size_t MakeDirectories(size_t count) {
    size_t done = 0, failed = 0;
    for (size_t i = 0; i < count; ++i) Spawn(MakeOne(*mount, "d" + std::to_string(i), done, failed));
    EXPECT_TRUE(TurnUntil(loop, [&] { return done == count; }));
    return failed;
  }
  static Task<void> MakeOne(Mount& mount, std::string name, size_t& done, size_t& failed) {
    const Result<Node> made = co_await mount.MakeDirectory(mount.root(), name, 0755);
    if (!made) ++failed;
    ++done;
  }
  static CallMatcher DirectoryMakers() {
    return is_version_3() ? CallsOf<nfs3::NFSPROC3_MKDIR>() : CompoundsWith(nfs4::nfs_opnum4::OP_CREATE);
  }
  size_t Count(nfs_opnum4 operation) const { return service.CountCalls(CompoundsWith(operation)); }

  std::string contents_;
  std::unique_ptr<File> file_;
};
INSTANTIATE_TEST_SUITE_P(Version, SeveralConnectionsTest,
                         testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(SeveralConnectionsTest, MakesThemWhenCallsNeedThem) {
  EXPECT_EQ(service.ConnectionsOf(Writes()).size(), 1u) << "one call at a time";
  UseAllConnections();
  EXPECT_EQ(mount->reconnections(), 0u);
}

TEST_P(SeveralConnectionsTest, LosingOneLeavesTheOthers) {
  UseAllConnections();
  const std::set<uint64_t> first = service.ConnectionsOf(Reads());
  service.LoseCall(Reads());
  EXPECT_EQ(ReadAll(), contents_);
  ReadUntil([&] { return mount->reconnections() > 0; });
  EXPECT_EQ(mount->reconnections(), 1u);
  const size_t reads = service.CountCalls(Reads());
  const auto used_now = [&] { return service.ConnectionsOf(Reads(), reads); };
  ReadUntil([&] { return used_now().size() == kConnections; });
  const std::set<uint64_t> used = used_now();
  size_t kept = 0;
  for (const uint64_t each : used) kept += first.count(each);
  EXPECT_EQ(used.size(), kConnections);
  EXPECT_EQ(kept, kConnections - 1);
}

// Directories that exist already would be errors. Version 3 and 4.0 rely on the server's reply cache, which knows the
// call by its XID and wants it over a newer connection; in a session the slot knows it.
TEST_P(SeveralConnectionsTest, ExecutesACallOnceWhoseReplyIsLost) {
  UseAllConnections();
  service.LoseReply(DirectoryMakers(), 3, 2);
  EXPECT_EQ(MakeDirectories(16), 0u);
  EXPECT_EQ(List().size(), 17u);
  EXPECT_EQ(ReadAll(), contents_);
}

TEST_P(SeveralConnectionsTest, ALossOfStateIsRepairedOnce) {
  UseAllConnections();
  const size_t sessions = Count(nfs_opnum4::OP_CREATE_SESSION), clients = Count(nfs_opnum4::OP_EXCHANGE_ID);
  const size_t confirmed = Count(nfs_opnum4::OP_SETCLIENTID_CONFIRM);
  service.Restart();
  EXPECT_EQ(ReadAll(), contents_);
  // The first CREATE_SESSION finds out that the client id is lost as well.
  EXPECT_EQ(Count(nfs_opnum4::OP_CREATE_SESSION), sessions + (HasSession() ? 2 : 0));
  EXPECT_EQ(Count(nfs_opnum4::OP_EXCHANGE_ID), clients + (HasSession() ? 1 : 0));
  EXPECT_EQ(Count(nfs_opnum4::OP_SETCLIENTID_CONFIRM), confirmed + (GetParam() == Version::k40 ? 1 : 0));
  EXPECT_EQ(mount->reconnections(), 0u);
}

TEST_P(SeveralConnectionsTest, EndWithTheMount) {
  UseAllConnections();
  mount->Abort();
  std::array<std::byte, kPiece> octets{};
  EXPECT_EQ(ErrorOf(file_->Read(0, octets)).number, ECANCELED);
  const Result<Attributes> attributes = GetAttributes();
  ASSERT_FALSE(attributes);
  EXPECT_EQ(attributes.error().number, ECANCELED);
}

// The last reads are under way, so that a further connection may be on its way when the mount ends.
TEST_P(SeveralConnectionsTest, EndWhileOneIsBeingMade) {
  for (int i = 0; i < 5; ++i) {
    Url url = UrlOf(GetParam());
    url.nconnect = 16;
    auto other = TryToOpen(url);
    ASSERT_TRUE(other);
    size_t answers = 0;
    for (int calls = 0; calls < 4; ++calls) {
      Spawn([](Mount& m, size_t& out) -> Task<void> {
        const auto attributes = co_await m.GetAttributes(m.root(), "root");
        EXPECT_TRUE(attributes);
        ++out;
      }(**other, answers));
    }
    ASSERT_TRUE(TurnUntil(loop, [&] { return answers == 4; }));
    Run((*other)->Unmount());
    TurnFor(loop, Duration::zero());
    other->reset();
    TurnFor(loop, Duration::zero());
  }
}

class SeveralConnectionsOfASessionTest : public SeveralConnectionsTest {};
INSTANTIATE_TEST_SUITE_P(Version, SeveralConnectionsOfASessionTest, testing::Values(Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// RFC 8881 §2.10.3.1, §18.34
TEST_P(SeveralConnectionsOfASessionTest, BindsEachFurtherConnectionBeforeItsFirstRequest) {
  UseAllConnections();
  std::set<uint64_t> bound;
  std::set<uint64_t> used_unbound;
  const std::set<uint64_t> creator = service.ConnectionsOf(CompoundsWith(nfs_opnum4::OP_CREATE_SESSION));
  (void)service.CountCalls([&](const SeenCall& call) {
    if (CompoundsWith(nfs_opnum4::OP_BIND_CONN_TO_SESSION)(call)) bound.insert(call.connection);
    const bool is_bound = bound.contains(call.connection) || creator.contains(call.connection);
    if (CompoundsWith(nfs_opnum4::OP_SEQUENCE)(call) && !is_bound) used_unbound.insert(call.connection);
    return false;
  });
  EXPECT_EQ(bound.size(), kConnections - 1);
  EXPECT_EQ(used_unbound.size(), 0u);
}

TEST_P(SeveralConnectionsOfASessionTest, BindsAllToTheSessionThatReplacesALostOne) {
  UseAllConnections();
  const size_t before = Count(nfs_opnum4::OP_BIND_CONN_TO_SESSION);
  service.Restart();
  EXPECT_EQ(ReadAll(), contents_);
  EXPECT_EQ(Count(nfs_opnum4::OP_BIND_CONN_TO_SESSION), before + kConnections);
}

TEST_P(SeveralConnectionsOfASessionTest, BindsAllWhenTheServerCannotCallBack) {
  UseAllConnections();
  const size_t before = Count(nfs_opnum4::OP_BIND_CONN_TO_SESSION);
  service.SetStatusFlags(nfs4::SEQ4_STATUS_CB_PATH_DOWN);
  ASSERT_EQ(ReadAll(), contents_);
  ASSERT_TRUE(TurnUntil(loop, [&] { return Count(nfs_opnum4::OP_BIND_CONN_TO_SESSION) >= before + kConnections; }));
}

}  // namespace
}  // namespace penstock::client
