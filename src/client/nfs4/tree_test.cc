// Tests of mounts that lead to several servers (RFC 8881 §11.5.6, RFC 7530 §8.4.3).
#include "client/nfs4/tree.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <array>
#include <cerrno>

#include "client/mount_test_support.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {
namespace {

using namespace std::chrono_literals;
using nfs4::nfs_opnum4;
using nfs4::nfsstat4;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

// A port of this host to which no server listens.
uint16_t UnusedPort(Loop& loop) { return TestService(loop, {}).port(); }

// `service` is the mounted server, and `far` the server that /far of `service` refers to. Both serve the export /data.
class TreeTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  TreeTest() : MountTestBase({.exports = {"/data"}, .lease = 2s}) { Refer("/far", At(far, "/data")); }
  ~TreeTest() override { Unmount(); }

  void Refer(const std::string& path, std::string_view locations) { service.AddReferral(path, locations); }
  void Open(const std::string& path = "/", uint32_t timeout = 20) {
    Url url = UrlOf(GetParam(), path);
    url.recovery.timeout = timeout;
    MountTestBase::Open(url);
  }
  Node Find(const std::string& path) { return Do(mount->Resolve(path)); }
  std::string WhyNot(const std::string& path) {
    const Error error = ErrorOf(mount->Resolve(path));
    EXPECT_FALSE(error.status) << "no server has refused a request for the path";
    return error.message;
  }
  void Make(const std::string& directory, std::string_view name, std::string_view text) {
    const auto file = Do(mount->CreateFile(Find(directory).handle, name, 0644));
    EXPECT_TRUE(Write(*file, text));
    Do(file->Close());
  }
  std::string Read(const std::string& path) {
    const auto file = Do(mount->OpenFile(Find(path), path, Access::kRead));
    std::string text = MountTestBase::Read(*file);
    Do(file->Close());
    return text;
  }
  std::vector<std::string> List(const std::string& path) {
    std::vector<std::string> names;
    Do(mount->List(Find(path).handle, path, [&names](const Entry& entry) { names.push_back(entry.name); }));
    std::ranges::sort(names);
    return names;
  }
  // Counts the clients that have come to a server.
  static size_t Clients(const TestService& of) {
    return of.CountCalls(
        CompoundsWith(GetParam() == Version::k40 ? nfs_opnum4::OP_SETCLIENTID : nfs_opnum4::OP_EXCHANGE_ID));
  }

  TestService far{loop, {.exports = {"/data"}, .lease = 2s}};
};
INSTANTIATE_TEST_SUITE_P(Version, TreeTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// ---- crossing ----

TEST_P(TreeTest, GoesOnAtTheServerThatAReferralNames) {
  Open();
  Make("far", "file", "contents");
  EXPECT_EQ(Read("far/file"), "contents");
  EXPECT_THAT(List("far"), ElementsAre("file"));
  EXPECT_THAT(List("data"), ElementsAre());
  EXPECT_EQ(Find("far/file").attributes.size, 8u);
  EXPECT_EQ(Clients(far), 1u);
}

// Both servers number their file systems in the same way.
TEST_P(TreeTest, FileSystemsOfTwoServersHaveTwoNumbers) {
  Open();
  Make("far", "file", "contents");
  const uint64_t number = Find("far").attributes.file_system;
  EXPECT_NE(number, Find("data").attributes.file_system);
  const Node file = Find("far/file");
  EXPECT_EQ(file.attributes.file_system, number);
  EXPECT_EQ(Do(mount->GetAttributes(file.handle, "file")).file_system, number);
  std::vector<uint64_t> listed;
  Do(mount->List(Find("far").handle, "far",
                 [&listed](const Entry& entry) { listed.push_back(entry.attributes->file_system); }));
  EXPECT_THAT(listed, ElementsAre(number));
  const auto opened = Do(mount->OpenFile(file, "file", Access::kRead));
  EXPECT_EQ(opened->node().attributes.file_system, number);
  Do(opened->Close());
}

TEST_P(TreeTest, AUrlCanLeadThroughAReferral) {
  Open();
  Make("far", "file", "contents");
  Unmount();
  Open("/far/file");
  EXPECT_EQ(Read(mount->path()), "contents");
}

TEST_P(TreeTest, ServersMayUseTheSameHandles) {
  Open();
  const Node ours = Find("data");
  const Node theirs = Find("far");
  ASSERT_TRUE(Equal(ours.handle.bytes(), theirs.handle.bytes()));
  EXPECT_NE(ours.handle, theirs.handle);
  Make("data", "file", "here");
  Make("far", "file", "there");
  EXPECT_EQ(Read("data/file"), "here");
  EXPECT_EQ(Read("far/file"), "there");
}

TEST_P(TreeTest, EveryOperationReachesTheServerOfItsFile) {
  Open();
  const Node root = Find("far");
  const Node directory = Do(mount->MakeDirectory(root.handle, "directory", 0755));
  const auto file = Do(mount->CreateFile(directory.handle, "file", 0644));
  EXPECT_TRUE(Write(*file, "contents"));
  Do(file->Commit());
  Do(file->Lock("owner", {0, 4}, LockKind::kExclusive));
  EXPECT_TRUE(Do(file->TestLock("other", {0, 4}, LockKind::kShared)));
  Do(file->Unlock("owner", {0, 4}));
  const NewAttributes mode{.mode = 0600};
  Do(mount->SetAttributes(file->node().handle, "file", mode));
  EXPECT_EQ(Do(mount->GetAttributes(file->node().handle, "file")).mode, 0600u);
  Do(file->Close());
  Do(mount->Rename(directory.handle, "file", root.handle, "renamed"));
  Do(mount->Link(Find("far/renamed").handle, directory.handle, "second"));
  const Node link = Do(mount->MakeSymlink(directory.handle, "link", "../renamed"));
  EXPECT_EQ(Do(mount->ReadLink(link.handle, "link")), "../renamed");
  EXPECT_EQ(Read("far/directory/link"), "contents");
  EXPECT_THAT(List("far/directory"), ElementsAre("link", "second"));
  for (const char* name : {"link", "second"}) Do(mount->Remove(directory.handle, name));
  Do(mount->RemoveDirectory(root.handle, "directory"));
  EXPECT_THAT(List("far"), ElementsAre("renamed"));
  EXPECT_THAT(List("data"), ElementsAre());
}

TEST_P(TreeTest, ParentOfAReferredFileSystemIsTheDirectoryWithTheReferral) {
  Refer("/deep/down/far", At(far, "/data"));
  Open();
  const Node inner = Do(mount->MakeDirectory(Find("far").handle, "inner", 0755));
  EXPECT_EQ(Do(mount->Lookup(inner.handle, "..")).handle, Find("far").handle);
  EXPECT_EQ(Find("far/..").handle, root());
  EXPECT_EQ(Find("deep/down/far/..").handle, Find("deep/down").handle);
  EXPECT_EQ(Find("far/inner/../../data").handle, Find("data").handle);
  EXPECT_EQ(Do(mount->Lookup(Find("far").handle, ".")).handle, Find("far").handle);
}

TEST_P(TreeTest, AnAbsoluteSymbolicLinkLeadsFromTheRootOfTheTree) {
  Open();
  Make("data", "file", "here");
  Do(mount->MakeSymlink(Find("far").handle, "link", "/data/file"));
  EXPECT_EQ(Read("far/link"), "here");
}

TEST_P(TreeTest, NoFileMovesFromOneServerToAnother) {
  Open();
  Make("data", "file", "here");
  const Node file = Find("data/file");
  const Handle ours = Find("data").handle;
  const Handle theirs = Find("far").handle;
  EXPECT_EQ(ErrorOf(mount->Rename(ours, "file", theirs, "file")).message, "file: on another file system");
  EXPECT_EQ(ErrorOf(mount->Rename(theirs, "file", ours, "file")).status, Status::kCrossDevice);
  EXPECT_EQ(ErrorOf(mount->Link(file.handle, theirs, "second")).status, Status::kCrossDevice);
  EXPECT_THAT(List("far"), ElementsAre());
  EXPECT_EQ(Read("data/file"), "here");
}

TEST_P(TreeTest, AListingShowsAReferralWithoutAskingItsServer) {
  Open();
  bool seen = false;
  Do(mount->List(root(), "/", [&seen](const Entry& entry) {
    EXPECT_EQ(entry.is_referral, entry.name == "far") << entry.name;
    EXPECT_EQ(entry.attributes.has_value(), entry.name != "far") << entry.name;
    seen = seen || entry.is_referral;
  }));
  EXPECT_TRUE(seen);
  EXPECT_EQ(Clients(far), 0u);
}

TEST_P(TreeTest, AReferralItselfCannotBeChanged) {
  Open();
  EXPECT_TRUE(ErrorOf(mount->RemoveDirectory(root(), "far")).status);
  EXPECT_TRUE(ErrorOf(mount->Remove(root(), "far")).status);
  EXPECT_TRUE(ErrorOf(mount->CreateFile(root(), "far", 0644)).status);
  EXPECT_TRUE(ErrorOf(mount->Rename(root(), "far", Find("data").handle, "far")).status);
  EXPECT_THAT(List("far"), ElementsAre());
}

// ---- mounts of the servers ----

TEST_P(TreeTest, AllReferralsToAServerShareItsMount) {
  Refer("/again", At(far, "/data"));
  Open();
  Make("far", "file", "contents");
  EXPECT_EQ(Read("again/file"), "contents");
  Do(mount->Rename(Find("far").handle, "file", Find("again").handle, "renamed"));
  EXPECT_EQ(Read("far/renamed"), "contents");
  EXPECT_EQ(Clients(far), 1u);
}

TEST_P(TreeTest, LookupsAtTheSameTimeShareTheMountThatIsBeingOpened) {
  Open();
  size_t found = 0;
  const auto look = [](Mount& of, const Handle& in, size_t& count) -> Task<void> {
    const auto looked_up = co_await of.Lookup(in, "far");
    if (looked_up) ++count;
  };
  for (int i = 0; i < 5; ++i) Spawn(look(*mount, root(), found));
  EXPECT_TRUE(TurnUntil(loop, [&] { return found == 5; }));
  EXPECT_EQ(Clients(far), 1u);
}

TEST_P(TreeTest, HandlesMeanTheSameObjectsInTheMountsOfSeveralUsers) {
  TestService third{loop, {.exports = {"/data"}, .lease = 2s}};
  Refer("/third", At(third, "/data"));
  Open();
  Make("far", "file", "of the first user");
  const Node file = Find("far/file");
  Do(mount->SetAttributes(Find("far").handle, "far", {.mode = 0777}));
  options.shares_handles_with = mount.get();
  Url url = UrlOf(GetParam());
  url.uid = 1000;
  const auto other = Do(Mount::Open(loop, workers, url, options));
  const auto theirs = Do(other->CreateFile(file.directory, "theirs", 0644));
  EXPECT_EQ(Do(mount->GetAttributes(theirs->node().handle, "theirs")).owner, "1000");
  Do(theirs->Close());
  // The other user comes to the second server by this handle, and to the third before the first user does.
  EXPECT_EQ(Do(other->GetAttributes(file.handle, "file")).size, 17u);
  EXPECT_EQ(Clients(far), 2u);
  const Handle of_other = Do(other->Lookup(root(), "third")).handle;
  const Handle of_first = Find("third").handle;
  EXPECT_EQ(of_first, of_other);
  EXPECT_EQ(Do(other->Lookup(root(), "far")).handle, Find("far").handle);
  Do(mount->MakeDirectory(of_other, "directory", 0777));
  EXPECT_EQ(Do(other->Lookup(Do(other->Lookup(of_first, "directory")).handle, "..")).handle, of_first);
  const auto opened = Do(other->OpenFile(file, "file", Access::kRead));
  EXPECT_EQ(MountTestBase::Read(*opened), "of the first user");
  Do(opened->Close());
  Run(other->Unmount());
}

TEST_P(TreeTest, UnmountEndsTheClientAtEveryServer) {
  Open();
  Make("far", "file", "contents");
  Unmount();
  if (GetParam() == Version::k40) return;  // has no operation for it
  for (const TestService* each : {&service, &far}) {
    EXPECT_EQ(each->CountCalls(CompoundsWith(nfs_opnum4::OP_DESTROY_SESSION)), 1u);
    EXPECT_EQ(each->CountCalls(CompoundsWith(nfs_opnum4::OP_DESTROY_CLIENTID)), 1u);
  }
}

TEST_P(TreeTest, UnmountDoesNotWaitForAServerThatIsGone) {
  auto gone = std::make_unique<TestService>(loop, TestService::Options{.exports = {"/data"}});
  Refer("/gone", At(*gone, "/data"));
  options.retry.give_up_after = 1h;
  Open("/", 3600);
  Make("gone", "file", "contents");
  gone.reset();
  Unmount();
  EXPECT_EQ(service.CountCalls(CompoundsWith(nfs_opnum4::OP_DESTROY_SESSION)), GetParam() == Version::k40 ? 0u : 1u);
}

TEST_P(TreeTest, RecoversFromARestartOfAReferredServer) {
  Open();
  const auto file = Do(mount->CreateFile(Find("far").handle, "file", 0644));
  EXPECT_TRUE(Write(*file, "contents"));
  Do(file->Lock("one", {0, 10}, LockKind::kExclusive));
  far.Restart();
  EXPECT_EQ(MountTestBase::Read(*file), "contents");
  EXPECT_EQ(ErrorOf(file->Lock("two", {0, 10}, LockKind::kExclusive)).status, Status::kDenied);
  Do(file->Unlock("one", {0, 10}));
  Do(file->Close());
}

TEST_P(TreeTest, ReconnectsToAReferredServer) {
  Open();
  Make("far", "file", "contents");
  const uint64_t before = mount->reconnections();
  far.LoseCall(CompoundsWith(nfs_opnum4::OP_READ));
  EXPECT_EQ(Read("far/file"), "contents");
  EXPECT_EQ(mount->reconnections(), before + 1);
}

// ---- several locations, several referrals ----

TEST_P(TreeTest, TriesTheLocationsInTheirOrder) {
  const TestService third(loop, {.exports = {"/data"}});
  Refer("/several", At(UnusedPort(loop), "/data") + ":" + At(far, "/absent+data") + ":" + At(far, "/absent") + ":" +
                        At(third, "/data") + ":" + At(far, "/data"));
  Open();
  Make("several", "file", "contents");
  EXPECT_THAT(List("far"), ElementsAre());
  EXPECT_EQ(Clients(third), 1u);
  Unmount();
}

TEST_P(TreeTest, ALocationMayHaveAnAddressOfIpv6) {
  const std::string v4 = At(far, "/data");
  Refer("/six", "/data@[::ffff:" + v4.substr(v4.find('@') + 1) + "]");
  Open();
  Make("far", "file", "contents");
  EXPECT_EQ(Read("six/file"), "contents");
}

TEST_P(TreeTest, FollowsAChainOfReferrals) {
  TestService third(loop, {.exports = {"/data"}});
  far.AddReferral("/next/one", At(third, "/data"));
  Refer("/chain", At(far, "/next/one"));
  Open();
  Make("chain", "file", "contents");
  EXPECT_EQ(Find("chain/..").handle, root());
  EXPECT_THAT(List("far"), ElementsAre());
  Unmount();
  EXPECT_EQ(Clients(third), 1u);
}

TEST_P(TreeTest, AReferralMayBeBelowAnother) {
  far.AddReferral("/back", At(service, "/data"));
  Refer("/all", At(far, "/"));
  Open();
  Make("data", "file", "contents");
  EXPECT_EQ(Read("all/back/file"), "contents");
  EXPECT_EQ(Find("all/back/..").handle, Find("all").handle);
  EXPECT_EQ(Clients(service), 1u) << "the mounted server itself is no other server";
}

TEST_P(TreeTest, ReferralsThatLeadToOneAnotherAreAnError) {
  far.AddReferral("/back", At(service, "/loop"));
  Refer("/loop", At(far, "/back"));
  Refer("/self", At(service, "/self"));
  std::string wide = "/wide@";
  for (int i = 0; i < 20; ++i) wide += At(service, "").substr(1) + (i < 19 ? "+" : "");
  Refer("/wide", wide);
  Open();
  for (const char* name : {"loop", "self", "wide"}) {
    EXPECT_EQ(WhyNot(name), fmt::format("{}: more than 8 referrals lead to one another", name));
  }
  EXPECT_THAT(List("far"), ElementsAre());
}

// ---- failures ----

TEST_P(TreeTest, SaysWhyNoLocationCanBeUsed) {
  const uint16_t unused = UnusedPort(loop);
  Refer("/dead", At(unused, "/data"));
  Refer("/wrong", At(far, "/absent/data") + ":" + At(unused, "/data"));
  Refer("/unknown", "/data@no-such-host.invalid");
  Open();
  EXPECT_EQ(WhyNot("dead"),
            fmt::format("dead: cannot follow the referral: 127.0.0.1 port {}: Connection refused", unused));
  EXPECT_EQ(WhyNot("wrong/file"), fmt::format("wrong: cannot follow the referral: 127.0.0.1 port {}: /absent/data: no "
                                              "such file or directory; 127.0.0.1 port {}: Connection refused",
                                              far.port(), unused));
  EXPECT_THAT(WhyNot("unknown"), HasSubstr("cannot follow the referral: no-such-host.invalid port 2049: "));
  Make("far", "file", "contents");
  EXPECT_EQ(Read("far/file"), "contents") << "other referrals go on";
}

TEST_P(TreeTest, AFailureIsNotRemembered) {
  far.FailOperation(nfs_opnum4::OP_PUTROOTFH, nfsstat4::NFS4ERR_SERVERFAULT);
  Open();
  EXPECT_THAT(WhyNot("far"), EndsWith(": server fault"));
  Find("far");
}

TEST_P(TreeTest, AReferralToAFileIsAnError) {
  Refer("/file", At(far, "/data/file"));
  Open();
  Make("far", "file", "contents");
  EXPECT_THAT(WhyNot("file"), EndsWith(": /data/file: not a directory"));
}

TEST_P(TreeTest, TriesAnotherServerSoonIfOneIsSilent) {
  TestService silent(loop, {.exports = {"/data"}});
  silent.HoldCall([](const SeenCall&) { return true; }, 1000);
  Refer("/two", At(silent, "/data") + ":" + At(far, "/data"));
  Open("/", 1);
  EXPECT_THAT(List("two"), ElementsAre());
  EXPECT_EQ(Clients(silent), 0u);
}

TEST_P(TreeTest, AServerThatStopsToAnswerIsNamedByErrors) {
  Open("/", 1);
  Make("far", "file", "contents");
  const Node node = Find("far/file");
  const auto file = Do(mount->OpenFile(node, "far/file", Access::kRead));
  far.HoldCall(AllCalls(), 1000);
  std::array<std::byte, 8> octets{};
  EXPECT_EQ(ErrorOf(file->Read(0, octets)).message, "far/file: the connection was lost: the server does not answer");
  EXPECT_EQ(mount->trouble().message, "");
  Make("data", "file", "here");
}

// ---- Abort() ----

TEST_P(TreeTest, AbortEndsTheCallsToAllServers) {
  Open();
  Make("far", "file", "contents");
  Make("data", "file", "contents");
  const auto here = Do(mount->OpenFile(Find("data/file"), "data/file", Access::kRead));
  const auto there = Do(mount->OpenFile(Find("far/file"), "far/file", Access::kRead));
  service.HoldCall(AllCalls(), 1000);
  far.HoldCall(AllCalls(), 1000);
  std::array<std::optional<Result<File::ReadReply>>, 2> results;
  std::array<std::byte, 8> octets{};
  const auto read = [](File& file, Bytes into, auto& out) -> Task<void> { out = co_await file.Read(0, into); };
  Spawn(read(*here, octets, results[0]));
  Spawn(read(*there, octets, results[1]));
  TurnFor(loop, 1ms);
  mount->Abort();
  for (const auto& result : results) {
    ASSERT_TRUE(result);
    ASSERT_FALSE(*result);
    EXPECT_EQ(result->error().number, ECANCELED);
    EXPECT_THAT(result->error().message, EndsWith("/file: the mount is closing"));
  }
}

TEST_P(TreeTest, AbortEndsTheMountOfAnotherServer) {
  Open("/", 300);
  far.HoldCall([](const SeenCall&) { return true; }, 1000);
  std::array<std::optional<Result<Node>>, 2> results;
  const auto find = [](Mount& of, auto& out) -> Task<void> { out = co_await of.Resolve("far"); };
  for (auto& result : results) Spawn(find(*mount, result));
  ASSERT_TRUE(TurnUntil(loop, [&] { return far.CountCalls([](const SeenCall&) { return true; }) > 0; }));
  mount->Abort();
  ASSERT_TRUE(TurnUntil(loop, [&] { return results[0] && results[1]; }));
  for (const auto& result : results) {
    ASSERT_FALSE(*result);
    EXPECT_EQ(result->error().number, ECANCELED) << result->error().message;
  }
}

TEST_P(TreeTest, AServerThatCannotTellItsLocationsIsAnError) {
  Open();
  service.FailOperation(nfs_opnum4::OP_LOOKUP, nfsstat4::NFS4ERR_MOVED);
  EXPECT_EQ(ErrorOf(mount->Lookup(root(), "data")).message,
            fmt::format("data: is on another server, but 127.0.0.1 port {} names no location that makes sense",
                        service.port()));
  // The client asks nine times, each by a look-up of the name and one for its locations.
  service.FailOperation(nfs_opnum4::OP_LOOKUP, nfsstat4::NFS4ERR_MOVED, 18);
  EXPECT_EQ(ErrorOf(mount->Lookup(root(), "data")).message, "data: is on another server");
  Do(mount->Lookup(root(), "data"));
}

}  // namespace
}  // namespace penstock::client::v4
