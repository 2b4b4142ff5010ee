// Tests of moves to servers that cannot be reached, or do not have what they should have.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <array>
#include <cerrno>

#include "base/test_log.h"
#include "client/nfs4/migration_test_fixture.h"

namespace penstock::client::v4 {
namespace {

using testing::HasSubstr;

// ---- failures ----

TEST_P(MigrationTest, WaitsForAServerThatCannotBeReachedOrDoesNotServeThePathYet) {
  Open();
  const CapturedLog log;
  const uint16_t unused = TestService(loop, {}).port();
  service.Move("/data", At(unused, "/data"));
  std::optional<Result<Attributes>> got;
  StartGetAttributes(*mount, got);
  EXPECT_TRUE(TurnUntil(loop, [&] { return log.text().find("tries again") != std::string::npos; }));
  EXPECT_FALSE(got);
  EXPECT_THAT(log.text(),
              HasSubstr(fmt::format("127.0.0.1 port {}: Connection refused; the client tries again", unused)));
  const size_t lookups = far.CountCalls(CompoundsWith(nfs_opnum4::OP_LOOKUP));
  service.Move("/data", At(far, "/absent"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return far.CountCalls(CompoundsWith(nfs_opnum4::OP_LOOKUP)) > lookups + 1; }));
  EXPECT_FALSE(got);
  service.Move("/data", At(far, "/data"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.has_value(); }));
  ASSERT_TRUE(*got);
  EXPECT_EQ((*got)->size, 8u);
  EXPECT_EQ(Occurrences(log.text(), "tries again"), 1u) << log.text();
}

TEST_P(MigrationTest, AMoveThatIsTakenBackEndsTheWait) {
  Open();
  const uint16_t unused = TestService(loop, {}).port();
  const CapturedLog log;
  service.Move("/data", At(unused, "/data"));
  std::optional<Result<Attributes>> got;
  StartGetAttributes(*mount, got);
  EXPECT_TRUE(TurnUntil(loop, [&] { return log.text().find("tries again") != std::string::npos; }));
  service.MoveBack("/data");
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.has_value(); }));
  ASSERT_TRUE(*got) << got->error().message;
  EXPECT_EQ((*got)->size, 4u);
}

TEST_P(MigrationTest, AnotherUsersMountWaitsForAServerThatIsAway) {
  Open();
  options.shares_handles_with = mount.get();
  const auto other = MountOf(service);
  options.shares_handles_with = nullptr;
  const CapturedLog log;
  auto third = std::make_unique<TestService>(loop, TestService::Options{.exports = {"/data"}, .lease = 2s});
  Fill(*third, "at a third server");
  service.Move("/data", At(*third, "/data"));
  EXPECT_EQ(SizeOf(file), 17u);
  const uint16_t port = third->port();
  third.reset();
  std::optional<Result<Attributes>> got;
  StartGetAttributes(*other, got);
  EXPECT_TRUE(TurnUntil(loop, [&] { return log.text().find("the client tries again") != std::string::npos; }));
  EXPECT_FALSE(got);
  EXPECT_THAT(log.text(), HasSubstr(fmt::format("{}", port)));
  other->Abort();
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.has_value(); }));
  mount->Abort();
  Run(other->Unmount());
}

TEST_P(MigrationTest, TheWaitForAServerEndsLikeACall) {
  Url url = UrlOf(GetParam());
  url.recovery.timeout = 1;
  mount = Do(Mount::Open(loop, workers, url, options));
  mount->set_names(&names);
  data = Look(root(), "data");
  const uint16_t unused = TestService(loop, {}).port();
  service.Move("/data", At(unused, "/data"));
  const Error error = ErrorOf(mount->GetAttributes(data.handle, "data"));
  EXPECT_EQ(error.message,
            fmt::format("data: cannot follow the referral: 127.0.0.1 port {}: Connection refused", unused));
}

TEST_P(MigrationTest, AbortEndsTheWaitForAServer) {
  Open();
  service.Move("/data", At(TestService(loop, {}).port(), "/data"));
  std::optional<Result<Attributes>> got;
  StartGetAttributes(*mount, got);
  TurnFor(loop, 20ms);
  EXPECT_FALSE(got);
  mount->Abort();
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.has_value(); }));
  EXPECT_EQ(got->error().number, ECANCELED);
}

TEST_P(MigrationTest, AUserWithoutNamesGetsAnError) {
  Open();
  mount->set_names(nullptr);
  const auto opened = Do(mount->OpenFile(file, "file", Access::kRead));
  service.Move("/data", At(far, "/data"));
  const Error error = ErrorOf(mount->GetAttributes(directory.handle, "directory"));
  EXPECT_EQ(error.status, Status::kMoved);
  EXPECT_EQ(error.message, "directory: is on another server");
  std::array<std::byte, 8> octets{};
  EXPECT_EQ(ErrorOf(opened->Read(0, octets)).message, "file: is on another server");
  // A path leads to the new server.
  EXPECT_EQ(Do(mount->Resolve("data/directory/file")).attributes.size, 8u);
  Do(opened->Close());
}

// As while a move begins, or is taken back.
TEST_P(MigrationTest, AServerThatSaysSoOfWhatItHasIsAskedAgain) {
  Open();
  service.FailOperation(nfs_opnum4::OP_GETATTR, nfsstat4::NFS4ERR_MOVED);
  EXPECT_EQ(Do(mount->GetAttributes(directory.handle, "directory")).type, FileType::kDirectory);
}

TEST_P(MigrationTest, AServerThatKeepsSayingSoOfWhatItHasIsAnError) {
  Open();
  service.FailOperation(nfs_opnum4::OP_ACCESS, nfsstat4::NFS4ERR_MOVED, 9);
  const Error error = ErrorOf(mount->CheckAccess(directory.handle, "directory", right::kRead));
  EXPECT_EQ(error.message, "directory: is on another server");
  EXPECT_EQ(SizeOf(file), 4u);
}

// ---- the root of a server ----

class MovedRootTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  ~MovedRootTest() override { Unmount(); }
  Url UrlOf(const TestService& of) const {
    Url url = MountTestBase::UrlOf(GetParam());
    url.port = of.port();
    return url;
  }
  TestService far{loop, {.exports = {"/data"}}};
  TestService moved{loop, {.replicas = At(far, "/data")}};
};
INSTANTIATE_TEST_SUITE_P(Version, MovedRootTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// It has no name that could be looked up, so that its handle tells the locations.
TEST_P(MovedRootTest, TheHandleTellsTheLocations) {
  const auto there = Do(Mount::Open(loop, workers, UrlOf(far), options));
  Do(there->MakeDirectory(Do(there->Resolve("data")).handle, "there", 0755));
  Run(there->Unmount());
  Open(UrlOf(moved));
  // For the call of the test, and for the client's look whether it is so.
  moved.FailOperation(nfs_opnum4::OP_GETATTR, nfsstat4::NFS4ERR_MOVED, 2);
  Do(mount->GetAttributes(root(), "root"));
  EXPECT_EQ(Do(mount->Lookup(root(), "there")).attributes.type, FileType::kDirectory);
}

}  // namespace
}  // namespace penstock::client::v4
