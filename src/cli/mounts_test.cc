#include "cli/mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "base/test_loop.h"
#include "client/service_test_support.h"

namespace penstock::cli {
namespace {

using client::Version;

class MountsTest : public testing::TestWithParam<Version> {
 protected:
  ~MountsTest() override {
    bool closed = false;
    Spawn([](Mounts& mounts, bool& done) -> Task<void> {
      co_await mounts.Close();
      done = true;
    }(mounts_, closed));
    EXPECT_TRUE(TurnUntil(runtime_.loop(), [&] { return closed; }));
    TurnFor(runtime_.loop(), Duration::zero());
  }

  client::Url UrlOf(std::string path) const {
    client::Url url;
    url.host = "127.0.0.1";
    url.port = url.mount_port = service_.port();
    url.path = std::move(path);
    url.version = GetParam();
    url.uid = url.gid = 0;
    url.reserved_port = false;
    url.timeout = 20;
    return url;
  }

  using Answer = std::optional<client::Result<Mounted>>;
  void Begin(const client::Url& url, Answer& answer) {
    Spawn([](Mounts& mounts, client::Url at, Answer& out) -> Task<void> { out.emplace(co_await mounts.At(at)); }(
                                                              mounts_, url, answer));
  }
  client::Result<Mounted> At(const client::Url& url) {
    Answer answer;
    Begin(url, answer);
    EXPECT_TRUE(TurnUntil(runtime_.loop(), [&] { return answer.has_value(); }));
    return *std::move(answer);
  }

  ClientRuntime runtime_;
  client::TestService service_{runtime_.loop(), {.exports = {"/", "/data", "/data/old"}}};
  Mounts mounts_{runtime_};
};
INSTANTIATE_TEST_SUITE_P(Version, MountsTest, testing::Values(Version::k3, Version::k42),
                         [](const auto& test) { return test.param == Version::k3 ? "Version3" : "Version42"; });

TEST_P(MountsTest, UrlsOfOneExportShareAMount) {
  const auto one = At(UrlOf("/data/a"));
  const auto other = At(UrlOf("/data/b/c"));
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->mount, other->mount);
  EXPECT_EQ(other->server_path, "/data/b/c");
  EXPECT_EQ(one->path, GetParam() == Version::k3 ? "a" : "data/a");
  EXPECT_EQ(other->path, GetParam() == Version::k3 ? "b/c" : "data/b/c");
}

// Version 4 has one tree for all exports.
TEST_P(MountsTest, AnExportBelowAnotherHasAMountOfItsOwnInVersion3) {
  const auto outer = At(UrlOf("/data/a"));
  const auto inner = At(UrlOf("/data/old/a"));
  const auto beside = At(UrlOf("/data/older"));
  ASSERT_TRUE(outer && inner && beside);
  EXPECT_EQ(outer->mount == inner->mount, GetParam() != Version::k3);
  EXPECT_EQ(outer->mount, beside->mount);
  EXPECT_EQ(inner->path, GetParam() == Version::k3 ? "a" : "data/old/a");
}

TEST_P(MountsTest, UrlsWithOtherOptionsShareNoMount) {
  client::Url other = UrlOf("/a");
  other.uid = 1000;
  const auto as_root = At(UrlOf("/a"));
  const auto as_user = At(other);
  ASSERT_TRUE(as_root && as_user);
  EXPECT_NE(as_root->mount, as_user->mount);
}

TEST_P(MountsTest, CallsAtTheSameTimeShareAMount) {
  Answer one, other;
  Begin(UrlOf("/data/a"), one);
  Begin(UrlOf("/data/b"), other);
  ASSERT_TRUE(TurnUntil(runtime_.loop(), [&] { return one && other; }));
  ASSERT_TRUE(*one && *other);
  EXPECT_EQ((*one)->mount, (*other)->mount);
}

TEST_P(MountsTest, ErrorsNameTheUrl) {
  client::Url nowhere = UrlOf("/a");
  nowhere.port = nowhere.mount_port = 1;
  nowhere.host = "::1";
  const auto refused = At(nowhere);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::StartsWith("nfs://[::1]:1/a: "));

  const auto mounted = At(UrlOf("/data/no"));
  ASSERT_TRUE(mounted);
  std::optional<client::Result<client::Node>> node;
  Spawn([](const Mounted& at, std::optional<client::Result<client::Node>>& out) -> Task<void> {
    out.emplace(co_await at.Resolve());
  }(*mounted, node));
  ASSERT_TRUE(TurnUntil(runtime_.loop(), [&] { return node.has_value(); }));
  ASSERT_FALSE(*node);
  const std::string name = "nfs://127.0.0.1:" + std::to_string(service_.port()) + "/data/no: no such file or directory";
  EXPECT_EQ(node->error().message, name);
  EXPECT_EQ(mounted->Named({"/data/no: no such file or directory", client::Status::kNotFound}).message, name);
  EXPECT_EQ(mounted->Named({"no: no such file or directory", client::Status::kNotFound}).message, name);
  EXPECT_EQ(mounted->Named({name, client::Status::kNotFound}).message, name);
  EXPECT_EQ(mounted->Named({"no such file or directory", client::Status::kNotFound}).message, name);
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
