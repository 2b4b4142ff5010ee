#include "cli/mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "base/test_loop.h"
#include "cli/mounts_test_support.h"
#include "protocol/nfs4.h"

namespace penstock::cli {
namespace {

using client::Version;

class MountsTest : public MountsTestBase {
 protected:
  MountsTest() : MountsTestBase({.exports = {"/", "/data", "/data/old"}}) {}

  using Answer = std::optional<client::Result<Mounted>>;
  void Begin(const client::Url& url, Answer& answer) {
    Spawn([](Mounts& all, client::Url at, Answer& out) -> Task<void> { out.emplace(co_await all.At(at)); }(mounts, url,
                                                                                                           answer));
  }
  client::Result<Mounted> TryAt(const client::Url& url) { return Run(mounts.At(url)); }
};
INSTANTIATE_TEST_SUITE_P(Version, MountsTest, kVersionsOfCommands, NameOfVersion);

TEST_P(MountsTest, UrlsOfOneExportShareAMount) {
  const auto one = TryAt(UrlOf("/data/a"));
  const auto other = TryAt(UrlOf("/data/b/c"));
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->mount, other->mount);
  EXPECT_EQ(other->server_path, "/data/b/c");
  EXPECT_EQ(one->path, GetParam() == Version::k3 ? "a" : "data/a");
  EXPECT_EQ(other->path, GetParam() == Version::k3 ? "b/c" : "data/b/c");
}

// Version 4 has one tree for all exports.
TEST_P(MountsTest, AnExportBelowAnotherHasAMountOfItsOwnInVersion3) {
  const auto outer = TryAt(UrlOf("/data/a"));
  const auto inner = TryAt(UrlOf("/data/old/a"));
  const auto beside = TryAt(UrlOf("/data/older"));
  ASSERT_TRUE(outer && inner && beside);
  EXPECT_EQ(outer->mount == inner->mount, GetParam() != Version::k3);
  EXPECT_EQ(outer->mount, beside->mount);
  EXPECT_EQ(inner->path, GetParam() == Version::k3 ? "a" : "data/old/a");
}

TEST_P(MountsTest, UrlsWithOtherOptionsShareNoMount) {
  client::Url other = UrlOf("/a");
  other.uid = 1000;
  const auto as_root = TryAt(UrlOf("/a"));
  const auto as_user = TryAt(other);
  ASSERT_TRUE(as_root && as_user);
  EXPECT_NE(as_root->mount, as_user->mount);
}

TEST_P(MountsTest, CallsAtTheSameTimeShareAMount) {
  Answer one, other;
  Begin(UrlOf("/data/a"), one);
  Begin(UrlOf("/data/b"), other);
  ASSERT_TRUE(TurnUntil(runtime.loop(), [&] { return one && other; }));
  ASSERT_TRUE(*one && *other);
  EXPECT_EQ((*one)->mount, (*other)->mount);
}

TEST_P(MountsTest, ErrorsNameTheUrl) {
  client::Url nowhere = UrlOf("/a");
  nowhere.port = 1;
  nowhere.mount_port = 1;
  nowhere.host = "::1";
  const auto refused = TryAt(nowhere);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::StartsWith("nfs://[::1]:1/a: "));

  const auto mounted = TryAt(UrlOf("/data/no"));
  ASSERT_TRUE(mounted);
  const auto node = Run(mounted->Resolve());
  ASSERT_FALSE(node);
  const std::string name = NameOfPath("/data/no") + ": no such file or directory";
  EXPECT_EQ(node.error().message, name);
  EXPECT_EQ(mounted->Named({"/data/no: no such file or directory", client::Status::kNotFound}).message, name);
  EXPECT_EQ(mounted->Named({"no: no such file or directory", client::Status::kNotFound}).message, name);
  EXPECT_EQ(mounted->Named({name, client::Status::kNotFound}).message, name);
  EXPECT_EQ(mounted->Named({"no such file or directory", client::Status::kNotFound}).message, name);
}

// Only version 4 has names of owners. The server of the test refuses the first SETATTR, and knows no names either.
TEST_P(MountsTest, OwnersAreMappedOnRequest) {
  if (GetParam() == Version::k3) return;
  const auto set_attributes = client::CompoundsWith(nfs4::nfs_opnum4::OP_SETATTR);
  service.FailOperation(nfs4::nfs_opnum4::OP_SETATTR, nfs4::nfsstat4::NFS4ERR_BADOWNER, 2);
  client::NewAttributes root;
  root.owner = "0";
  const Mounted without = At("/");
  EXPECT_FALSE(Run(without.mount->SetAttributes(without.mount->root(), "/", root)));
  EXPECT_EQ(service.CountCalls(set_attributes), 1u);
  Run([](ClientRuntime& where) -> Task<bool> {
    co_await where.MapOwners("example.org");
    co_return true;
  }(runtime));
  client::Url other = UrlOf("/");
  other.gid = 1;
  const auto with = TryAt(other);
  ASSERT_TRUE(with);
  (void)Run(with->mount->SetAttributes(with->mount->root(), "/", root));
  EXPECT_EQ(service.CountCalls(set_attributes), 3u) << "the second SETATTR has the name of root";
}

// ---- commands ----

// Nothing listens at these ports.
TEST(RunOnMounts, GoesOnAfterAnErrorAndReturnsOne) {
  testing::internal::CaptureStderr();
  const int code = RunOnMounts({"nfs://127.0.0.1:1/a?vers=4.1", "nfs://127.0.0.1:1/b?vers=4.1"}, {},
                               [](ClientRuntime& runtime, const Mounted&) -> Task<client::Result<void>> {
                                 co_await Sleep(runtime.loop(), Duration::zero());
                                 co_return client::Result<void>();
                               });
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 1);
  EXPECT_THAT(errors, testing::MatchesRegex("penstock: nfs://127.0.0.1:1/a: [^\n]*\npenstock: nfs://127.0.0.1:1/b: "
                                            "[^\n]*\n"));
}

TEST(RunOnMounts, RunsNothingIfOneTextIsNoUrl) {
  testing::internal::CaptureStderr();
  const int code = RunOnMounts({"nfs://127.0.0.1:1/a", "/local", "neither"}, {},
                               [](ClientRuntime&, const Mounted&) -> Task<client::Result<void>> {
                                 ADD_FAILURE() << "a mount was used";
                                 co_return client::Result<void>();
                               });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "penstock: /local: not an nfs:// URL\n");
  EXPECT_EQ(code, 2);
}

}  // namespace
}  // namespace penstock::cli
