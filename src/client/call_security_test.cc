// Mounts under RPCSEC_GSS, with a mechanism that needs no KDC. tests/e2e has Kerberos.
#include "client/call_security.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <latch>
#include <set>

#include "client/mount_test_support.h"
#include "rpc/dispatch.h"
#include "rpc/gss/acceptor.h"
#include "rpc/gss/test_mechanism.h"

namespace penstock::client {
namespace {

using namespace std::chrono_literals;
using nfs_protocol::SecurityFlavor;
using rpc::gss::testing::ToyInitiatingMechanism;
using rpc::gss::testing::ToyMechanism;
using testing::EndsWith;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// An acceptor that can lose all contexts.
class ForgetfulAcceptor final : public rpc::SecurityFlavor {
 public:
  explicit ForgetfulAcceptor(const TimerService& clock) : clock_(clock) { Forget(); }

  Task<Admission> Admit(const rpc::Message& call, const rpc::CallHeader& header, size_t arguments_at,
                        const rpc::Peer& peer) override {
    Admission admitted = co_await acceptors_.back()->Admit(call, header, arguments_at, peer);
    if (admitted.call) used.insert(admitted.call->credential().service);
    co_return admitted;
  }
  std::shared_ptr<rpc::ReverseProtection> Reverse(ConstBytes handle, ConstBytes reverse_handle,
                                                  const rpc::GssInitiator& initiator) override {
    auto protection = acceptors_.back()->Reverse(handle, reverse_handle, initiator);
    if (!protection) return nullptr;
    ++reverse_contexts;
    return std::make_shared<Counted>(std::move(protection), *this);
  }
  void Forget() {
    acceptors_.push_back(std::make_unique<rpc::gss::Acceptor>(
        rpc::gss::Acceptor::Parts{.mechanism = mechanism_, .clock = clock_, .random = [this](Bytes room) {
                                    std::ranges::fill(room, std::byte{++last_handle_});
                                  }}));
  }
  // The number of contexts.
  size_t contexts() const { return acceptors_.back()->contexts().established(); }

  std::set<rpc::GssService> used;  // by calls
  int reverse_contexts = 0;
  int callbacks = 0;  // under RPCSEC_GSS, with an authentic reply

 private:
  class Counted final : public rpc::ReverseProtection {
   public:
    Counted(std::shared_ptr<rpc::ReverseProtection> protection, ForgetfulAcceptor& owner)
        : protection_(std::move(protection)), owner_(owner) {}
    Task<penstock::Result<rpc::Message, rpc::CallError>> Call(rpc::BackChannel& channel, rpc::Message call,
                                                              rpc::ReplyShape shape) override {
      auto reply = co_await protection_->Call(channel, std::move(call), std::move(shape));
      if (reply) ++owner_.callbacks;
      co_return reply;
    }

    TimePoint expires() const override { return protection_->expires(); }
    size_t handle_size() const override { return 8; }

   private:
    const std::shared_ptr<rpc::ReverseProtection> protection_;
    ForgetfulAcceptor& owner_;
  };

  const TimerService& clock_;
  ToyMechanism mechanism_;
  uint8_t last_handle_ = 0;
  std::vector<std::unique_ptr<rpc::gss::Acceptor>> acceptors_;  // calls of earlier ones may be under way
};

// The initiator of all mounts of a test.
class SharedInitiator final : public rpc::gss::InitiatingMechanism {
 public:
  explicit SharedInitiator(ToyInitiatingMechanism& mechanism) : mechanism_(mechanism) {}
  std::unique_ptr<rpc::gss::InitiatingContext> Begin() override { return mechanism_.Begin(); }
  std::string Initiator() const override { return mechanism_.Initiator(); }
  std::string Acceptor() const override { return mechanism_.Acceptor(); }
  std::string Explain(uint32_t major, uint32_t minor) const override { return mechanism_.Explain(major, minor); }

 private:
  ToyInitiatingMechanism& mechanism_;
};

class CallSecurityTest : public testing::TestWithParam<Version> {
 protected:
  // Serves exports, and mounts one of them.
  class Bench : public MountTestBase {
   public:
    explicit Bench(TestService::Options service_options) : MountTestBase(std::move(service_options)) {
      options.initiators = [this](const std::string&) { return std::make_unique<SharedInitiator>(initiator); };
    }
    void TestBody() override {}
    Url UrlWith(std::optional<SecurityFlavor> flavor, std::string path = "/") const {
      Url url = UrlOf(GetParam(), std::move(path));
      url.security = flavor;
      return url;
    }
    Url UrlWithList(nfs_protocol::SecurityFlavors flavors) const {
      Url url = UrlOf(GetParam(), "/");
      url.flavors = flavors;
      return url;
    }
    using MountTestBase::Create;
    using MountTestBase::Do;
    using MountTestBase::ErrorOfOpening;
    using MountTestBase::List;
    using MountTestBase::loop;
    using MountTestBase::mount;
    using MountTestBase::Open;
    using MountTestBase::OpenFile;
    using MountTestBase::options;
    using MountTestBase::Read;
    using MountTestBase::root;
    using MountTestBase::Run;
    using MountTestBase::service;
    using MountTestBase::Unmount;
    using MountTestBase::workers;
    using MountTestBase::Write;
    ToyInitiatingMechanism initiator{"alice"};
  };

  Bench& Serve(std::string sec, std::map<std::string, std::string> sec_of = {}) {
    TestService::Options options;
    options.delegations = 100;
    options.sec = std::move(sec);
    for (const auto& [path, own] : sec_of) options.exports.push_back(path);
    options.sec_of = std::move(sec_of);
    options.gss = &acceptor;
    Bench& it = bench.emplace(std::move(options));
    OpenRootToAll(it);
    return it;
  }
  // Alice is no root.
  static void OpenRootToAll(Bench& it) {
    it.Run([](fs::FileSystem& files, Loop& loop) -> Task<void> {
      const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}, .loop = &loop};
      fs::NewAttributes attributes;
      attributes.mode = 0777;
      const auto set = co_await files.SetAttributes(root, files.Root(), attributes, std::nullopt);
      EXPECT_TRUE(set.result);
    }(it.service.files(), it.loop));
  }
  static bool is_version_3() { return GetParam() == Version::k3; }
  // Executes the call by a server without programs.
  Task<rpc::Message> WithoutProgram(rpc::Message call, const rpc::Peer& peer) {
    rpc::Dispatcher nothing;
    nothing.Offer(acceptor);
    co_return co_await nothing.HandleCall(std::move(call), peer);
  }

  Loop clock;
  ForgetfulAcceptor acceptor{clock};
  std::optional<Bench> bench;
};
INSTANTIATE_TEST_SUITE_P(Version, CallSecurityTest,
                         testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

constexpr SecurityFlavor kKerberos[] = {SecurityFlavor::kKrb5, SecurityFlavor::kKrb5i, SecurityFlavor::kKrb5p};

TEST_P(CallSecurityTest, ReadsAndWritesUnderEveryFlavor) {
  Bench& it = Serve("krb5:krb5i:krb5p");
  for (const SecurityFlavor flavor : kKerberos) {
    it.Open(it.UrlWith(flavor));
    const std::string contents = "written by " + std::string(NameOf(flavor));
    auto file = it.Create(NameOf(flavor), contents);
    EXPECT_EQ(it.Read(*file), contents);
    EXPECT_EQ(it.Do(it.mount->GetAttributes(file->node().handle, "file")).owner, "1000");
    it.Do(file->Close());
    file.reset();
    it.Unmount();
  }
}

TEST_P(CallSecurityTest, MovesLongData) {
  Bench& it = Serve("krb5i:krb5p");
  std::string contents(300'001, 'x');
  for (size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<char>(i * 31 + i / 253);
  for (const SecurityFlavor flavor : {SecurityFlavor::kKrb5i, SecurityFlavor::kKrb5p}) {
    it.Open(it.UrlWith(flavor));
    auto file = it.Create(NameOf(flavor), contents);
    EXPECT_EQ(it.Read(*file, contents.size() + 1), contents);
    it.Do(file->Close());
    file.reset();
    it.Unmount();
  }
}

TEST_P(CallSecurityTest, GivesContextsBackAtTheEnd) {
  Bench& it = Serve("krb5i");
  it.Open(it.UrlWith(SecurityFlavor::kKrb5i));
  EXPECT_EQ(acceptor.contexts(), 1u);
  it.Unmount();
  EXPECT_EQ(acceptor.contexts(), 0u);
}

TEST_P(CallSecurityTest, UsesAFlavorThatTheServerAcceptsIfTheUrlNamesNone) {
  Bench& it = Serve("krb5i:krb5p");
  it.Open(it.UrlWith(std::nullopt));
  const auto file = it.Create("file", "contents");
  EXPECT_EQ(it.Read(*file), "contents");
  it.Do(file->Close());
}

TEST_P(CallSecurityTest, UsesAuthSysIfTheServerAcceptsItFirst) {
  Bench& it = Serve("sys:krb5");
  it.Open(it.UrlWith(std::nullopt));
  EXPECT_EQ(it.initiator.begun, 0);
}

TEST_P(CallSecurityTest, TriesTheNextFlavorIfThereIsNoTicket) {
  Bench& it = Serve("krb5:sys");
  it.initiator.failures.assign(100, rpc::gss::Failure{.text = "there is no ticket"});
  it.Open(it.UrlWith(std::nullopt));
  const auto file = it.Create("file", "contents");
  it.Do(file->Close());
}

TEST_P(CallSecurityTest, TakesTheFirstFlavorOfTheUrlThatTheServerAccepts) {
  Bench& it = Serve("sys:krb5:krb5i");
  it.Open(it.UrlWithList({SecurityFlavor::kKrb5p, SecurityFlavor::kKrb5i, SecurityFlavor::kSys}));
  it.Create("file", "contents");
  EXPECT_TRUE(acceptor.used.contains(rpc::GssService::kIntegrity));
  EXPECT_FALSE(acceptor.used.contains(rpc::GssService::kNone));
  it.Unmount();
  it.initiator.begun = 0;
  it.Open(it.UrlWithList({SecurityFlavor::kSys, SecurityFlavor::kKrb5i}));
  EXPECT_EQ(it.initiator.begun, 0);
}

TEST_P(CallSecurityTest, TriesTheNextFlavorOfTheUrlIfThereIsNoTicket) {
  Bench& it = Serve("krb5:sys");
  it.initiator.failures.assign(100, rpc::gss::Failure{.text = "there is no ticket"});
  it.Open(it.UrlWithList({SecurityFlavor::kKrb5, SecurityFlavor::kSys}));
  const auto file = it.Create("file", "contents");
  it.Do(file->Close());
}

TEST_P(CallSecurityTest, UsesNoFlavorThatIsNotInTheListOfTheUrl) {
  Bench& it = Serve("sys:krb5i");
  const Error error = it.ErrorOfOpening(it.UrlWithList({SecurityFlavor::kKrb5p, SecurityFlavor::kKrb5}));
  EXPECT_EQ(error.number, EACCES);
  // Minor version 0 cannot tell.
  if (GetParam() != Version::k40) EXPECT_THAT(error.message, EndsWith("sec=sys, krb5i"));
  if (!is_version_3()) EXPECT_THAT(error.message, HasSubstr("sec=krb5p: "));
}

TEST_P(CallSecurityTest, NamesTheFlavorsOfTheServerIfItRefusesThatOfTheUrl) {
  Bench& it = Serve("krb5i:krb5p");
  for (const SecurityFlavor flavor : {SecurityFlavor::kSys, SecurityFlavor::kKrb5}) {
    const Error error = it.ErrorOfOpening(it.UrlWith(flavor));
    // Minor version 0 cannot tell.
    if (GetParam() != Version::k40) EXPECT_THAT(error.message, EndsWith("sec=krb5i, krb5p"));
    if (!is_version_3()) EXPECT_EQ(error.status, Status::kWrongSecurity);
  }
}

TEST_P(CallSecurityTest, TellsWhyThereIsNoContext) {
  Bench& it = Serve("krb5");
  it.initiator.failures.assign(100, rpc::gss::Failure{.text = "the ticket has expired"});
  const Error error = it.ErrorOfOpening(it.UrlWith(SecurityFlavor::kKrb5));
  EXPECT_THAT(error.message, EndsWith("there is no security context: the ticket has expired"));
}

TEST_P(CallSecurityTest, GoesOnIfTheServerForgetsTheContext) {
  Bench& it = Serve("krb5i");
  it.Open(it.UrlWith(SecurityFlavor::kKrb5i));
  const auto file = it.Create("file", "contents");
  acceptor.Forget();
  EXPECT_EQ(it.Read(*file), "contents");
  acceptor.Forget();
  EXPECT_TRUE(it.Write(*file, "CONT"));
  EXPECT_EQ(it.Read(*file), "CONTents");
  it.Do(file->Close());
}

// A repeated call has another sequence number (RFC 2203 §5.3.3.1), and is executed once.
TEST_P(CallSecurityTest, RepeatsCallsOverAnotherConnection) {
  Bench& it = Serve("krb5p");
  it.Open(it.UrlWith(SecurityFlavor::kKrb5p));
  it.service.LoseReply(AllCalls());
  EXPECT_TRUE(it.Do(it.mount->MakeDirectory(it.root(), "directory", 0755)).attributes.type == FileType::kDirectory);
  it.service.LoseCall(AllCalls());
  EXPECT_THAT(it.List(), UnorderedElementsAre("directory"));
  EXPECT_EQ(it.mount->reconnections(), 2u);
}

TEST_P(CallSecurityTest, GoesOnAfterARestartOfTheServer) {
  Bench& it = Serve("krb5p");
  it.Open(it.UrlWith(SecurityFlavor::kKrb5p));
  const auto file = it.Create("file", "contents");
  acceptor.Forget();
  it.service.Restart();
  EXPECT_EQ(it.Read(*file), "contents");
  it.Do(file->Close());
}

// Nothing protects the accept_stat of a reply. Version 3 would protect less.
TEST_P(CallSecurityTest, StaysWithVersion4IfTheUrlNamesKerberos) {
  if (GetParam() != Version::k41) GTEST_SKIP() << "the version is named";
  Bench& it = Serve("sys:krb5p");
  const auto deny = [](auto& to, auto xid) { rpc::EncodeAccepted(to, xid, rpc::AcceptStatus::PROG_UNAVAIL); };
  Url url = it.UrlWith(SecurityFlavor::kSys);
  url.version.reset();
  it.service.Reply(CallsOf<nfs4::NFSPROC4_NULL>(), deny);
  it.Open(url);
  EXPECT_EQ(it.mount->version(), "3");
  it.Unmount();
  // A program that does not exist; the verifier of RPCSEC_GSS is that of the server.
  Bench& other = Serve("krb5p");
  url = other.UrlWith(SecurityFlavor::kKrb5p);
  url.version.reset();
  const auto without_program = [this](rpc::Message call, const rpc::Peer& peer) {
    return WithoutProgram(std::move(call), peer);
  };
  // The first call of procedure 0 makes the context.
  other.service.Intercept(CallsOf<nfs4::NFSPROC4_NULL>(), without_program, 1, 1);
  const Error error = other.ErrorOfOpening(url);
  EXPECT_THAT(error.message, HasSubstr("vers=3 must be named"));
}

// RFC 8881 §2.10.8.2
TEST_P(CallSecurityTest, TheServerProtectsItsCallbacks) {
  if (is_version_3() || GetParam() == Version::k40) GTEST_SKIP() << "there are no sessions";
  Bench& it = Serve("krb5:krb5i:krb5p");
  for (const SecurityFlavor flavor : kKerberos) {
    it.Open(it.UrlWith(flavor));
    const int before = acceptor.callbacks;
    auto file = it.Create(NameOf(flavor), "contents");
    it.Do(file->Close());
    auto reader = it.OpenFile(NameOf(flavor), Access::kRead);
    ASSERT_GT(it.service.delegations(), 0u);
    auto other = it.Do(Mount::Open(it.loop, it.workers, it.UrlWith(flavor), it.options));
    const Node found = it.Do(other->Resolve(std::string(NameOf(flavor))));
    auto writer = it.Do(other->OpenFile(found, NameOf(flavor), Access::kWrite));
    EXPECT_GT(acceptor.callbacks, before) << "the recall was not protected by " << NameOf(flavor);
    it.Do(writer->Close());
    writer.reset();
    it.Run(other->Unmount());
    TurnFor(it.loop, Duration::zero());
    other.reset();
    it.Do(reader->Close());
    file.reset();
    reader.reset();
    it.Unmount();
  }
}

// RFC 8881 §18.33
TEST_P(CallSecurityTest, GivesTheServerTheNextContextForItsCallbacks) {
  if (is_version_3() || GetParam() == Version::k40) GTEST_SKIP() << "there are no sessions";
  Bench& it = Serve("krb5i");
  it.Open(it.UrlWith(SecurityFlavor::kKrb5i));
  const int before = acceptor.reverse_contexts;
  EXPECT_GT(before, 0);
  acceptor.Forget();
  EXPECT_TRUE(it.List().empty());
  EXPECT_TRUE(it.List().empty());
  EXPECT_TRUE(TurnUntil(it.loop, [&] { return acceptor.reverse_contexts > before; }));
}

// Version 3 mounts one export.
TEST_P(CallSecurityTest, ChangesTheFlavorWhereTheServerRequiresAnother) {
  if (is_version_3()) GTEST_SKIP() << "version 3 mounts one export";
  Bench& it = Serve("sys", {{"/secret", "krb5p"}});
  it.Open(it.UrlWith(std::nullopt));
  EXPECT_EQ(it.initiator.begun, 0);
  const Node secret = it.Do(it.mount->Resolve("secret"));
  EXPECT_EQ(it.initiator.begun, 1);
  const auto file = it.Do(it.mount->CreateFile(secret.handle, "file", 0644));
  EXPECT_TRUE(it.Write(*file, "contents"));
  EXPECT_EQ(it.Read(*file), "contents");
  it.Do(file->Close());
  EXPECT_EQ(it.Do(it.mount->Resolve("secret/..")).handle, it.root());
  EXPECT_EQ(it.Do(it.mount->Resolve("secret/file")).attributes.size, 8u);
  it.Do(it.mount->MakeDirectory(it.root(), "plain", 0755));
  EXPECT_EQ(it.initiator.begun, 1) << "one mount for all objects of a flavor";
}

TEST_P(CallSecurityTest, TheMountOfAnotherUserChangesTheFlavorAsTheFirstOneDoes) {
  if (is_version_3()) GTEST_SKIP() << "version 3 mounts one export";
  Bench& it = Serve("krb5i", {{"/secret", "krb5p"}});
  it.Open(it.UrlWith(std::nullopt));
  const Node secret = it.Do(it.mount->Resolve("secret"));
  MountOptions for_user = it.options;
  for_user.shares_handles_with = it.mount.get();
  auto other = it.Do(Mount::Open(it.loop, it.workers, it.mount->url(), for_user));
  EXPECT_EQ(it.Do(other->Resolve("secret")).handle, secret.handle);
  it.Run(other->Unmount());
  TurnFor(it.loop, Duration::zero());
  other.reset();
  TurnFor(it.loop, Duration::zero());
}

TEST_P(CallSecurityTest, ChangesTheFlavorToTheFirstOneOfTheListThatTheServerAccepts) {
  if (is_version_3()) GTEST_SKIP() << "version 3 mounts one export";
  Bench& it = Serve("sys", {{"/secret", "krb5i:krb5p"}, {"/other", "krb5"}});
  it.Open(it.UrlWithList({SecurityFlavor::kSys, SecurityFlavor::kKrb5p, SecurityFlavor::kKrb5i}));
  it.Do(it.mount->Resolve("secret"));
  EXPECT_TRUE(acceptor.used.contains(rpc::GssService::kPrivacy));
  EXPECT_FALSE(acceptor.used.contains(rpc::GssService::kIntegrity));
  const auto refused = it.Run(it.mount->Resolve("other"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::kWrongSecurity);
  EXPECT_THAT(refused.error().message, EndsWith("sec=krb5"));
}

TEST_P(CallSecurityTest, KeepsTheFlavorThatTheUrlNames) {
  if (is_version_3()) GTEST_SKIP() << "version 3 mounts one export";
  Bench& it = Serve("sys:krb5", {{"/secret", "krb5p"}});
  it.Open(it.UrlWith(SecurityFlavor::kKrb5));
  const auto refused = it.Run(it.mount->Resolve("secret"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::kWrongSecurity);
  EXPECT_THAT(refused.error().message, HasSubstr("sec=krb5p"));
}

// ---- a KDC that does not answer ----

// The KDC hangs until the gate opens.
class SilentKdc final : public rpc::gss::InitiatingMechanism {
 public:
  explicit SilentKdc(std::shared_ptr<std::latch> gate) : gate_(std::move(gate)) {}
  std::unique_ptr<rpc::gss::InitiatingContext> Begin() override { return std::make_unique<Context>(gate_); }
  std::string Initiator() const override { return "alice"; }
  std::string Acceptor() const override { return "toy@server"; }
  std::string Explain(uint32_t, uint32_t) const override { return "unknown"; }

 private:
  class Context final : public rpc::gss::testing::ToyProtection<rpc::gss::InitiatingContext> {
   public:
    explicit Context(std::shared_ptr<std::latch> gate) : ToyProtection("alice", mics_), gate_(std::move(gate)) {}
    rpc::gss::Result<Step> Initiate(ConstBytes) override {
      gate_->wait();
      return std::unexpected(rpc::gss::Failure{.text = "no KDC answers"});
    }
    std::optional<Duration> lifetime() const override { return std::nullopt; }
    std::string initiator() const override { return "alice"; }

   private:
    size_t mics_ = 0;
    const std::shared_ptr<std::latch> gate_;
  };
  const std::shared_ptr<std::latch> gate_;
};

TEST_P(CallSecurityTest, AnOpeningThatWaitsForTheKdcCanBeCancelled) {
  Bench& it = Serve("krb5");
  const auto gate = std::make_shared<std::latch>(1);
  it.options.initiators = [gate](const std::string&) { return std::make_unique<SilentKdc>(gate); };
  Cancellation cancellation;
  it.options.cancellation = &cancellation;
  std::optional<Result<std::unique_ptr<Mount>>> opened;
  const Url url = it.UrlWith(SecurityFlavor::kKrb5);
  Spawn([](Bench& in, const Url& of, auto& out) -> Task<void> {
    out.emplace(co_await Mount::Open(in.loop, in.workers, of, in.options));
  }(it, url, opened));
  TurnFor(it.loop, 20ms);
  EXPECT_FALSE(opened);
  cancellation.Cancel();
  EXPECT_TRUE(TurnUntil(it.loop, [&] { return opened.has_value(); }));
  gate->count_down();
  ASSERT_FALSE(*opened);
  EXPECT_EQ(opened->error().number, ECANCELED) << opened->error().message;
  EXPECT_THAT(opened->error().message, EndsWith(": the mount is closing"));
}

}  // namespace
}  // namespace penstock::client
