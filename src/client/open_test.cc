// Tests of Mount::Open(): the choice of a version, and the errors before a mount is open.
#include <gmock/gmock.h>

#include <cerrno>

#include "client/mount.h"
#include "client/mount_test_support.h"
#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "protocol/nfs4.h"

namespace penstock::client {
namespace {

using nfs4::nfs_opnum4;
using nfs4::nfsstat4;
using testing::HasSubstr;

class OpenTest : public MountTestBase {
 protected:
  using MountTestBase::MountTestBase;

  // Returns a URL without a version, so that the client chooses one.
  Url AnyVersion() const {
    Url url = UrlOf(Version::k3);
    url.version.reset();
    return url;
  }
  // Returns a port at which no server listens.
  static uint16_t ClosedPort() {
    Loop other;
    return TestService(other, {}).port();
  }
};

// ---- versions ----

TEST_F(OpenTest, PrefersVersion41) {
  Open(AnyVersion());
  EXPECT_EQ(mount->version(), "4.1");
}

class OnlyVersion3Test : public OpenTest {
 protected:
  OnlyVersion3Test() : OpenTest(TestService::Options{.nfs4 = false}) {}
};

TEST_F(OnlyVersion3Test, FallsBackToVersion3) {
  Open(AnyVersion());
  EXPECT_EQ(mount->version(), "3");
}

TEST_F(OnlyVersion3Test, DoesNotFallBackFromARequestedVersion) {
  for (const Version version : {Version::k40, Version::k41, Version::k42}) {
    const Error error = ErrorOfOpening(UrlOf(version));
    EXPECT_EQ(error.status, Status::kVersionMismatch);
    EXPECT_EQ(error.message, "127.0.0.1: the server offers versions 3 to 3 of this service only");
  }
  EXPECT_EQ(service.CountCalls(CallsOf<mount3::MOUNTPROC3_EXPORT>()), 0u);
}

class OnlyVersion4Test : public OpenTest {
 protected:
  OnlyVersion4Test() : OpenTest(TestService::Options{.nfs3 = false, .mount = false}) {}
};

TEST_F(OnlyVersion4Test, DoesNotSpeakVersion3) {
  const Error error = ErrorOfOpening(UrlOf(Version::k3));
  EXPECT_EQ(error.message, "127.0.0.1: the server does not offer this service");
}

// RFC 8881 §16.2.3: a server that does not speak the minor version gives no results.
void RejectMinorVersion(xdr::Encoder& encoder, rpc::Xid xid) {
  rpc::EncodeAccepted(encoder, xid, rpc::AcceptStatus::SUCCESS);
  xdr::Encode(encoder, nfs4::COMPOUND4res_head{nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH, {}, 0});
}

TEST_F(OpenTest, FallsBackFromAMinorVersionThatTheServerDoesNotSpeak) {
  service.Reply(CallsOf<nfs4::NFSPROC4_COMPOUND>(), RejectMinorVersion);
  Open(AnyVersion());
  EXPECT_EQ(mount->version(), "3");
}

TEST_F(OpenTest, ReportsAMinorVersionThatTheServerDoesNotSpeak) {
  service.Reply(CallsOf<nfs4::NFSPROC4_COMPOUND>(), RejectMinorVersion);
  const Error error = ErrorOfOpening(UrlOf(Version::k42));
  EXPECT_EQ(error.status, Status::kVersionMismatch);
  EXPECT_EQ(error.message, "127.0.0.1: the server says NFS4ERR_MINOR_VERS_MISMATCH");
}

TEST_F(OpenTest, FallsBackIfTheServerHasNoProgramOfVersion4) {
  service.Reply(CallsOf<nfs4::NFSPROC4_NULL>(),
                [](auto& to, auto xid) { rpc::EncodeAccepted(to, xid, rpc::AcceptStatus::PROG_UNAVAIL); });
  Open(AnyVersion());
  EXPECT_EQ(mount->version(), "3");
}

TEST_F(OpenTest, DoesNotFallBackFromOtherErrors) {
  service.Reply(CallsOf<nfs4::NFSPROC4_NULL>(),
                [](auto& to, auto xid) { rpc::EncodeAuthError(to, xid, rpc::AuthStatus::AUTH_TOOWEAK); });
  const Error error = ErrorOfOpening(AnyVersion());
  EXPECT_EQ(error.message, "127.0.0.1: the server rejects our credentials (AUTH_TOOWEAK)");
  EXPECT_FALSE(error.status);
  EXPECT_EQ(service.CountCalls(CallsOf<nfs3::NFSPROC3_FSINFO>()), 0u);
}

// ---- connections ----

TEST_F(OpenTest, NamesTheAddressAtWhichNoServerListens) {
  for (const Version version : {Version::k3, Version::k41}) {
    Url url = UrlOf(version);
    url.port = ClosedPort();
    const Error error = ErrorOfOpening(url);
    EXPECT_EQ(error.message, "127.0.0.1 port " + std::to_string(url.port) + ": Connection refused");
    EXPECT_EQ(error.number, ECONNREFUSED);
    EXPECT_FALSE(error.status);
  }
}

TEST_F(OpenTest, ExplainsAServerThatClosesEveryConnection) {
  service.LoseCall([](const SeenCall&) { return true; }, 1000);
  Url url = UrlOf(Version::k41);
  url.recovery.timeout = 1;
  const Error error = ErrorOfOpening(url);
  EXPECT_EQ(error.message,
            "127.0.0.1: the connection was lost: the server closes connections before it answers: it may be full, or "
            "this may be its port for RDMA");
  EXPECT_EQ(error.number, ECONNRESET);
}

TEST_F(OpenTest, GivesUpAServerThatDoesNotAnswer) {
  service.HoldCall([](const SeenCall&) { return true; }, 1000);
  Url url = UrlOf(Version::k3);
  url.recovery.timeout = 1;
  const Error error = ErrorOfOpening(url);
  EXPECT_THAT(error.message, HasSubstr("the server did not answer in time"));
  EXPECT_EQ(error.number, ETIMEDOUT);
}

// ---- MOUNT, version 3 ----

class ExportsTest : public OpenTest {
 protected:
  ExportsTest() : OpenTest(TestService::Options{.exports = {"/a", "/a/b/c", "/a/b", "/ab"}}) {}
};

TEST_F(ExportsTest, MountsTheLongestExportThatHasThePath) {
  for (const auto& [path, below, export_path] : {std::tuple("/a/b/c/d/e", "d/e", "/a/b/c"),
                                                 {"/a/b/x", "x", "/a/b"},
                                                 {"/a/bc", "bc", "/a"},
                                                 {"/ab", "", "/ab"}}) {
    Open(UrlOf(Version::k3, path));
    EXPECT_EQ(mount->path(), below);
    EXPECT_EQ(mount->PathBelowRoot(std::string(export_path) + "/file"), "file");
    EXPECT_EQ(mount->PathBelowRoot("/elsewhere/file"), std::nullopt);
    Unmount();
  }
}

TEST_F(ExportsTest, RejectsAPathOutsideOfTheExports) {
  for (const char* path : {"/", "/b", "/abc"}) {
    EXPECT_EQ(
        ErrorOfOpening(UrlOf(Version::k3, path)).message,
        std::string("127.0.0.1: ") + path + " is in no export of the server, which exports /a, /a/b, /a/b/c, /ab");
  }
}

TEST_F(ExportsTest, ASymbolicLinkThatLeavesTheExportIsAnError) {
  Open(UrlOf(Version::k3, "/a"));
  Do(mount->MakeSymlink(root(), "out", "/elsewhere"));
  Do(mount->MakeSymlink(root(), "in", "/a/file"));
  EXPECT_EQ(ErrorOf(mount->Resolve("out")).message, "out: a symbolic link leads out of the export");
  Do(Create("file")->Close());
  Do(mount->Resolve("in"));
}

TEST_F(OpenTest, ExplainsWhyTheServerDoesNotMount) {
  using enum mount3::mountstat3;
  const std::pair<mount3::mountstat3, const char*> cases[] = {
      {MNT3ERR_NOENT, "/: no such directory"},
      {MNT3ERR_NOTDIR, "/: not a directory"},
      {MNT3ERR_PERM, "/: the server does not export it to this host"},
      {MNT3ERR_ACCES, "/: the server does not export it to this host"},
      {MNT3ERR_IO, "/: the server cannot mount it"},
      {MNT3ERR_SERVERFAULT, "/: the server cannot mount it"},
  };
  for (const auto& [status, message] : cases) {
    service.Answer<mount3::MOUNTPROC3_MNT>(mount3::mountres3(status));
    EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k3)).message, message);
  }
}

class NoMountServiceTest : public OpenTest {
 protected:
  NoMountServiceTest() : OpenTest(TestService::Options{.mount = false}) {}
};

TEST_F(NoMountServiceTest, NeedsTheMountServiceForVersion3) {
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k3)).message, "127.0.0.1: the server does not offer this service");
  Open(UrlOf(Version::k40));
}

TEST_F(OpenTest, NamesTheMountPortAtWhichNoServerListens) {
  Url url = UrlOf(Version::k3);
  url.mount_port = ClosedPort();
  EXPECT_EQ(ErrorOfOpening(url).message,
            "MOUNT: 127.0.0.1 port " + std::to_string(*url.mount_port) + ": Connection refused");
}

TEST_F(OpenTest, ReportsAMountServiceThatRejectsTheCredentials) {
  const auto reject = [](auto& to, auto xid) { rpc::EncodeAuthError(to, xid, rpc::AuthStatus::AUTH_BADCRED); };
  service.Reply(CallsOf<mount3::MOUNTPROC3_EXPORT>(), reject);
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k3)).message, "127.0.0.1: the server rejects our credentials (AUTH_BADCRED)");
  service.Reply(CallsOf<mount3::MOUNTPROC3_MNT>(), reject);
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k3)).message, "127.0.0.1: the server rejects our credentials (AUTH_BADCRED)");
}

TEST_F(OpenTest, ReportsAMalformedReplyOfTheMountService) {
  service.TruncateReply(CallsOf<mount3::MOUNTPROC3_EXPORT>());
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k3)).message, "127.0.0.1: the server's reply is malformed");
  service.TruncateReply(CallsOf<mount3::MOUNTPROC3_MNT>());
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k3)).message, "127.0.0.1: the server's reply is malformed");
}

TEST_F(OpenTest, ReportsTheLossOfTheConnectionToTheMountService) {
  service.LoseReply(CallsOf<mount3::MOUNTPROC3_EXPORT>());
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k3)).message, "127.0.0.1: the connection was lost");
  service.LoseCall(CallsOf<mount3::MOUNTPROC3_MNT>());
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k3)).message, "127.0.0.1: the connection was lost");
}

// RFC 1813 §5.2.3: UMNT only tidies the server's list.
TEST_F(OpenTest, MountsAlthoughTheUnmountCallIsLost) {
  service.LoseCall(CallsOf<mount3::MOUNTPROC3_UMNT>());
  Open(UrlOf(Version::k3));
  Do(mount->GetAttributes(root(), "root"));
}

TEST_F(OpenTest, ReportsARootThatIsStaleAlready) {
  service.Answer<nfs3::NFSPROC3_FSINFO>(nfs3::FSINFO3res(nfs3::NFS3ERR_STALE));
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k3, "/x")).status, Status::kStale);
}

// ---- client ids and sessions, version 4 ----

TEST_F(OpenTest, ReportsAServerThatGivesNoClientId) {
  service.FailOperation(nfs_opnum4::OP_EXCHANGE_ID, nfsstat4::NFS4ERR_SERVERFAULT);
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k41)).message, "127.0.0.1: server fault");
  service.FailOperation(nfs_opnum4::OP_SETCLIENTID, nfsstat4::NFS4ERR_RESOURCE);
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k40)).message, "127.0.0.1: the server says NFS4ERR_RESOURCE");
}

TEST_F(OpenTest, ReportsAServerThatGivesNoSession) {
  service.FailOperation(nfs_opnum4::OP_CREATE_SESSION, nfsstat4::NFS4ERR_NOSPC);
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k41)).status, Status::kNoSpace);
}

TEST_F(OpenTest, RetriesIfTheServerIsBusy) {
  service.FailOperation(nfs_opnum4::OP_EXCHANGE_ID, nfsstat4::NFS4ERR_DELAY);
  service.FailOperation(nfs_opnum4::OP_CREATE_SESSION, nfsstat4::NFS4ERR_DELAY);
  Open(UrlOf(Version::k41));
  Unmount();
  service.FailOperation(nfs_opnum4::OP_SETCLIENTID, nfsstat4::NFS4ERR_DELAY);
  service.FailOperation(nfs_opnum4::OP_SETCLIENTID_CONFIRM, nfsstat4::NFS4ERR_DELAY);
  Open(UrlOf(Version::k40));
}

// RFC 7530 §16.34.5, RFC 8881 §18.36.4: the server has restarted after it gave the client id.
TEST_F(OpenTest, StartsAgainIfTheServerForgetsANewClientId) {
  service.FailOperation(nfs_opnum4::OP_CREATE_SESSION, nfsstat4::NFS4ERR_STALE_CLIENTID);
  Open(UrlOf(Version::k41));
  EXPECT_EQ(service.CountCalls(CompoundsWith(nfs_opnum4::OP_EXCHANGE_ID)), 2u);
  Unmount();
  service.FailOperation(nfs_opnum4::OP_SETCLIENTID_CONFIRM, nfsstat4::NFS4ERR_STALE_CLIENTID);
  Open(UrlOf(Version::k40));
  EXPECT_EQ(service.CountCalls(CompoundsWith(nfs_opnum4::OP_SETCLIENTID)), 2u);
}

TEST_F(OpenTest, ReportsAMalformedReplyAboutTheLimits) {
  service.TruncateReply(CompoundsWith(nfs_opnum4::OP_PUTROOTFH));
  EXPECT_EQ(ErrorOfOpening(UrlOf(Version::k41)).message, "127.0.0.1: the server's reply is malformed");
}

TEST_F(OpenTest, GivesBackTheSessionIfTheRootIsRefused) {
  service.FailOperation(nfs_opnum4::OP_PUTROOTFH, nfsstat4::NFS4ERR_WRONGSEC);
  Url url = UrlOf(Version::k41);
  url.security = nfs_protocol::SecurityFlavor::kSys;
  EXPECT_EQ(ErrorOfOpening(url).message, "127.0.0.1: the server requires another security flavor: sec=sys");
  EXPECT_EQ(service.CountCalls(CompoundsWith(nfs_opnum4::OP_DESTROY_SESSION)), 1u);
}

TEST_F(OpenTest, SurvivesTheLossOfAnyCallOnTheWayToAMount) {
  for (const Version version : {Version::k40, Version::k41}) {
    // The calls of version 4 before the mount is open, NULL among them.
    for (size_t n = 0; n < 4; ++n) {
      service.LoseReply([](const SeenCall& call) { return call.version == 4; }, 1, n);
      Open(UrlOf(version));
      Do(mount->GetAttributes(root(), "root"));
      Unmount();
    }
  }
}

// ---- servers that are away ----

// A mount that waits for its server.
class WaitingTest : public OpenTest, public testing::WithParamInterface<Version> {
 protected:
  WaitingTest() {
    options.retry.give_up_after = kNoTimeLimit;
    options.waits_for_server = true;
    options.cancellation = &cancellation;
  }
  void Start(RecoveryOptions::Kind kind) {
    Url url = UrlOf(GetParam());
    url.port = port;
    url.mount_port = port;
    url.recovery = {.kind = kind, .timeo = 1, .retrans = 2};
    start = loop.Now();
    Spawn([](WaitingTest& self, Url at) -> Task<void> {
      self.opened = co_await Mount::Open(self.loop, self.workers, at, self.options);
      self.time = self.loop.Now() - self.start;
    }(*this, std::move(url)));
  }
  bool Ends() {
    return TurnUntil(loop, [this] { return opened.has_value(); });
  }

  const uint16_t port = ClosedPort();
  Cancellation cancellation;
  TimePoint start{};
  Duration time{};
  std::optional<Result<std::unique_ptr<Mount>>> opened;
};
INSTANTIATE_TEST_SUITE_P(Version, WaitingTest, testing::Values(Version::k3, Version::k40, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(WaitingTest, ItIsOpenedWhenTheServerComes) {
  Start(RecoveryOptions::Kind::kHard);
  TurnFor(loop, std::chrono::milliseconds(500));
  EXPECT_FALSE(opened);
  TestService late(loop, {.port = port});
  ASSERT_TRUE(Ends());
  ASSERT_TRUE(*opened) << opened->error().message;
  mount = **std::move(opened);
  Unmount();
}

TEST_P(WaitingTest, ASoftOneFailsAfterItsTime) {
  Start(RecoveryOptions::Kind::kSoft);
  ASSERT_TRUE(Ends());
  ASSERT_FALSE(*opened);
  EXPECT_EQ(opened->error().number, ECONNREFUSED) << opened->error().message;
  EXPECT_GE(time, std::chrono::milliseconds(300));
}

TEST_P(WaitingTest, TheWaitCanBeCancelled) {
  Start(RecoveryOptions::Kind::kHard);
  TurnFor(loop, std::chrono::milliseconds(50));
  cancellation.Cancel();
  ASSERT_TRUE(Ends());
  ASSERT_FALSE(*opened);
  EXPECT_EQ(opened->error().number, ECANCELED) << opened->error().message;
}

// ---- the end ----

TEST_F(OpenTest, UnmountGivesBackSessionAndClientId) {
  Open(UrlOf(Version::k42));
  Unmount();
  EXPECT_EQ(service.CountCalls(CompoundsWith(nfs_opnum4::OP_DESTROY_SESSION)), 1u);
  EXPECT_EQ(service.CountCalls(CompoundsWith(nfs_opnum4::OP_DESTROY_CLIENTID)), 1u);
}

}  // namespace
}  // namespace penstock::client
