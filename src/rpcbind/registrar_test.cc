#include "rpcbind/registrar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "base/loop.h"
#include "base/test_log.h"
#include "rpc/tcp/server.h"
#include "rpc/udp/server.h"
#include "rpcbind/test_rpcbind.h"

namespace penstock::rpcbind {
namespace {

using namespace std::chrono_literals;
using asio::ip::make_address;
using rpc::TransportKind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Another server of this host. It answers calls of one program, over TCP and UDP, on a thread of its own.
class OtherServer {
 public:
  explicit OtherServer(uint32_t program) : program_(program) {
    dispatcher_.Add(program_);
    auto listener = rpc::tcp::Listener::Open({make_address("127.0.0.1"), 0});
    EXPECT_TRUE(listener);
    listener_.emplace(*std::move(listener));
    auto datagrams = rpc::udp::Listener::Open(listener_->local());
    EXPECT_TRUE(datagrams);
    EXPECT_TRUE(tcp_.Start(*listener_));
    EXPECT_TRUE(udp_.Start(*std::move(datagrams)));
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~OtherServer() {
    loop_.Post([this] { Spawn(Stop()); });
    thread_.join();
  }
  std::string address(const char* host = "127.0.0.1") const {
    return rpc::UniversalAddress({make_address(host), listener_->local().port()});
  }

 private:
  class Program final : public rpc::Program {
   public:
    explicit Program(uint32_t number) : number_(number) {}
    uint32_t number() const override { return number_; }
    rpc::VersionRange versions() const override { return {3, 3}; }
    rpc::Classification Classify(rpc::CallContext&, xdr::Decoder&) const override { return {}; }
    Task<rpc::AcceptStatus> Call(rpc::CallContext&, xdr::Decoder&, xdr::Encoder&) override {
      co_return rpc::AcceptStatus::SUCCESS;
    }

   private:
    const uint32_t number_;
  };

  Task<void> Stop() {
    co_await tcp_.Stop(1s);
    co_await udp_.Stop();
    loop_.Finish();
  }

  Program program_;
  rpc::Dispatcher dispatcher_;
  std::optional<rpc::tcp::Listener> listener_;
  Loop loop_;
  rpc::tcp::Server tcp_{loop_, dispatcher_};
  rpc::udp::Server udp_{loop_, dispatcher_};
  std::thread thread_;
};

class RegistrarTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  RegistrarTest() {
    char folder[] = "/tmp/penstock-rpcbind-XXXXXX";
    folder_ = ::mkdtemp(folder);
  }
  ~RegistrarTest() override { std::filesystem::remove_all(folder_); }

  void StartRpcbind() { rpcbind_.emplace(path(), table_); }
  void StopRpcbind() { rpcbind_.reset(); }
  std::string path() const { return folder_ + "/rpcbind.sock"; }

  static Service Nfs(TransportKind transport, uint16_t port, uint32_t version = 3) {
    return {100003, version, {transport, false}, SocketAddress(make_address("0.0.0.0"), port)};
  }
  static Service Mount(uint16_t port) {
    return {100005, 3, {TransportKind::kUdp, false}, SocketAddress(make_address("0.0.0.0"), port)};
  }
  static std::vector<Service> Services() {
    return {Nfs(TransportKind::kTcp, 2049), Nfs(TransportKind::kRdma, 20049), Mount(20048)};
  }
  Registrar MakeRegistrar(std::vector<Service> services = Services()) {
    return Registrar(std::move(services), {.sockets = {folder_ + "/missing.sock", path()}});
  }
  // The universal address of a port that nobody listens on.
  static std::string ClosedAddress() {
    const auto listener = rpc::tcp::Listener::Open({make_address("127.0.0.1"), 0});
    return rpc::UniversalAddress(listener->local());
  }

  std::string folder_;
  FakeTable table_{GetParam()};
  std::optional<LocalServer> rpcbind_;
  CapturedLog log_;
};

const FakeEntry kTcp{100003, 3, "tcp", "0.0.0.0.8.1"};
const FakeEntry kRdma{100003, 3, "rdma", "0.0.0.0.78.81"};
const FakeEntry kMount{100005, 3, "udp", "0.0.0.0.78.80"};

TEST_P(RegistrarTest, RegistersAllServicesAndRemovesThemAtTheEnd) {
  StartRpcbind();
  const FakeEntry other{100024, 1, "tcp", "0.0.0.0.4.5"};
  table_.Add(other);
  Registrar registrar = MakeRegistrar();
  EXPECT_TRUE(registrar.Require());
  EXPECT_THAT(table_.entries(), ElementsAre(kRdma, kTcp, kMount, other));
  registrar.Withdraw();
  EXPECT_THAT(table_.entries(), ElementsAre(other));
}

TEST_P(RegistrarTest, RegistersAgainWhenRpcbindWasStartedAgain) {
  StartRpcbind();
  Registrar registrar = MakeRegistrar();
  registrar.Refresh();
  StopRpcbind();
  registrar.Refresh();
  EXPECT_THAT(log_.text(), HasSubstr("rpcbind no longer answers"));
  table_.Clear();
  StartRpcbind();
  registrar.Refresh();
  EXPECT_THAT(table_.entries(), ElementsAre(kRdma, kTcp, kMount));
}

TEST_P(RegistrarTest, RegistersWhenRpcbindIsStartedLater) {
  Registrar registrar = MakeRegistrar();
  registrar.Refresh();
  EXPECT_THAT(log_.text(), IsEmpty()) << "most hosts have no rpcbind, which is no news";
  StartRpcbind();
  registrar.Refresh();
  EXPECT_THAT(table_.entries(), ElementsAre(kRdma, kTcp, kMount));
  EXPECT_THAT(log_.text(), HasSubstr("registered with rpcbind: NFS (program 100003)"));
}

TEST_P(RegistrarTest, RequiresAnRpcbind) {
  const auto registered = MakeRegistrar().Require();
  ASSERT_FALSE(registered);
  EXPECT_EQ(registered.error().message, "no rpcbind answers at " + folder_ + "/missing.sock or " + path());
}

TEST_P(RegistrarTest, ARefreshOfACompleteRegistrationChangesNothing) {
  StartRpcbind();
  Registrar registrar = MakeRegistrar();
  registrar.Refresh();
  const size_t before = table_.calls();
  registrar.Refresh();
  EXPECT_LE(table_.calls() - before, 2u) << "it lists, in version 4 and then in version 3";
}

TEST_P(RegistrarTest, RegistersNothingAfterWithdraw) {
  StartRpcbind();
  Registrar registrar = MakeRegistrar();
  registrar.Refresh();
  registrar.Withdraw();
  registrar.Refresh();
  EXPECT_THAT(table_.entries(), IsEmpty());
}

TEST_P(RegistrarTest, LeavesAProgramThatAnotherServerOffers) {
  StartRpcbind();
  OtherServer other(100003);
  // The other server listens on all addresses, as far as rpcbind knows. It offers a version that this server does not.
  const FakeEntry theirs{100003, 2, "tcp", other.address("0.0.0.0")};
  table_.Add(theirs);
  Registrar registrar = MakeRegistrar();
  registrar.Refresh();
  EXPECT_THAT(table_.entries(), ElementsAre(theirs, kMount)) << "no part of NFS is registered, and MOUNT is";
  EXPECT_THAT(log_.Take(), AllOf(HasSubstr("NFS (program 100003) is registered"), HasSubstr("version 2, tcp"),
                                 HasSubstr(theirs.address), HasSubstr("superuser")));
  registrar.Refresh();
  EXPECT_EQ(log_.Take(), "") << "the warning comes once";
  EXPECT_EQ(registrar.PlaceOf(100003), Registrar::Place::kNeither);
  EXPECT_EQ(registrar.PlaceOf(100005), Registrar::Place::kHere);
  registrar.Withdraw();
  EXPECT_THAT(table_.entries(), ElementsAre(theirs));
  EXPECT_FALSE(MakeRegistrar().Require());
}

TEST_P(RegistrarTest, AProgramThatMayBeElsewhereIsNoProblem) {
  StartRpcbind();
  std::optional<OtherServer> other(100005);
  table_.Add({100005, 3, "udp", other->address()});
  Registrar registrar(Services(), {.sockets = {path()}, .may_be_elsewhere = {100005}});
  EXPECT_TRUE(registrar.Require());
  EXPECT_EQ(registrar.PlaceOf(100005), Registrar::Place::kElsewhere);
  EXPECT_EQ(registrar.PlaceOf(100003), Registrar::Place::kHere);
  EXPECT_THAT(log_.Take(), HasSubstr("it is left to that server"));
  registrar.Refresh();
  EXPECT_TRUE(registrar.has_all());
  EXPECT_EQ(log_.Take(), "") << "it is told once";
  other.reset();
  registrar.Refresh();
  EXPECT_EQ(registrar.PlaceOf(100005), Registrar::Place::kHere);
  EXPECT_THAT(table_.entries(), ElementsAre(kRdma, kTcp, kMount));
  StopRpcbind();
  registrar.Refresh();
  EXPECT_EQ(registrar.PlaceOf(100005), Registrar::Place::kUnknown);
}

TEST_P(RegistrarTest, LeavesAProgramThatAnotherServerOffersOverUdp) {
  StartRpcbind();
  OtherServer other(100005);
  const FakeEntry theirs{100005, 3, "udp", other.address()};
  table_.Add(theirs);
  MakeRegistrar().Refresh();
  EXPECT_THAT(table_.entries(), ElementsAre(kRdma, kTcp, theirs));
}

TEST_P(RegistrarTest, TakesAProgramWhenItsServerHasEnded) {
  StartRpcbind();
  std::optional<OtherServer> other(100003);
  const std::string address = other->address();
  table_.Add({100003, 3, "tcp", address});
  Registrar registrar = MakeRegistrar();
  registrar.Refresh();
  EXPECT_THAT(table_.entries(), ElementsAre(FakeEntry{100003, 3, "tcp", address}, kMount));
  other.reset();
  registrar.Refresh();
  EXPECT_THAT(table_.entries(), ElementsAre(kRdma, kTcp, kMount));
}

TEST_P(RegistrarTest, ReplacesWhatAKilledServerHasLeft) {
  StartRpcbind();
  table_.Add({100003, 3, "tcp", ClosedAddress()});
  table_.Add({100003, 3, "rdma", "0.0.0.0.1.2"});
  table_.Add({100005, 3, "udp", ClosedAddress()});
  Registrar registrar = MakeRegistrar();
  EXPECT_TRUE(registrar.Require());
  EXPECT_THAT(table_.entries(), ElementsAre(kRdma, kTcp, kMount));
  EXPECT_THAT(log_.text(), IsEmpty());
}

TEST_P(RegistrarTest, TakesOverTheRegistrationsOfAKilledServerOnTheSamePorts) {
  StartRpcbind();
  for (const FakeEntry& each : {kTcp, kRdma, kMount}) table_.Add(each);
  Registrar registrar = MakeRegistrar();
  EXPECT_TRUE(registrar.Require());
  EXPECT_THAT(table_.entries(), ElementsAre(kRdma, kTcp, kMount));
  registrar.Withdraw();
  EXPECT_THAT(table_.entries(), IsEmpty());
}

TEST_P(RegistrarTest, AnotherProgramOnThePortIsNotTheRegisteredOne) {
  StartRpcbind();
  OtherServer other(4711);
  table_.Add({100003, 3, "tcp", other.address()});
  EXPECT_TRUE(MakeRegistrar().Require());
  EXPECT_THAT(table_.entries(), ElementsAre(kRdma, kTcp, kMount));
}

TEST_P(RegistrarTest, APortOfThisServerLeadsToNoOtherServer) {
  StartRpcbind();
  // This server listens already, but does not answer yet. An earlier run has registered one address of the host.
  const auto own = rpc::tcp::Listener::Open({make_address("0.0.0.0"), 0});
  ASSERT_TRUE(own);
  const uint16_t port = own->local().port();
  table_.Add({100003, 3, "tcp", rpc::UniversalAddress({make_address("127.0.0.1"), port})});
  EXPECT_TRUE(MakeRegistrar({Nfs(TransportKind::kTcp, port)}).Require());
  EXPECT_THAT(table_.entries(),
              ElementsAre(FakeEntry{100003, 3, "tcp", rpc::UniversalAddress({make_address("0.0.0.0"), port})}));
}

TEST_P(RegistrarTest, LeavesAnEntryOfAnUnknownKind) {
  StartRpcbind();
  const FakeEntry strange{100003, 3, "local", "/run/nfs.sock"};
  table_.Add(strange);
  MakeRegistrar().Refresh();
  EXPECT_THAT(table_.entries(), ElementsAre(strange, kMount));
}

TEST_P(RegistrarTest, LeavesARegistrationThatHasBeenReplaced) {
  StartRpcbind();
  Registrar registrar = MakeRegistrar();
  registrar.Refresh();
  table_.Clear();
  const FakeEntry theirs{100003, 3, "tcp", "0.0.0.0.9.9"};
  table_.Add(theirs);
  registrar.Withdraw();
  EXPECT_THAT(table_.entries(), ElementsAre(theirs));
}

TEST_P(RegistrarTest, WarnsIfRpcbindRefuses) {
  StartRpcbind();
  table_.set_refuses(true);
  Registrar registrar = MakeRegistrar();
  registrar.Refresh();
  EXPECT_THAT(log_.text(), HasSubstr("rpcbind refuses to register NFS (program 100003), version 3, tcp"));
  const auto required = MakeRegistrar().Require();
  ASSERT_FALSE(required);
  EXPECT_THAT(required.error().message, HasSubstr("rpcbind refuses to register"));
}

// The highest version that rpcbind speaks.
INSTANTIATE_TEST_SUITE_P(Version, RegistrarTest, ::testing::Values(3u, 4u),
                         [](const auto& each) { return std::to_string(each.param); });

}  // namespace
}  // namespace penstock::rpcbind
