// Tests of mounts whose session has connections over RDMA and over TCP (proto=rdma+tcp, RFC 8881 §2.10.3.1).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "client/mount_test_support.h"
#include "client/pieces.h"
#include "rdma/iwarp/provider.h"
#include "rpc/transport.h"

namespace penstock::client {
namespace {

using nfs4::nfs_opnum4;
using rpc::TransportKind;
using testing::HasSubstr;

constexpr unsigned kAtOnce = 8;

std::string NameOf(TransportKind transport) { return transport == TransportKind::kTcp ? "Tcp" : "Rdma"; }
TransportKind Other(TransportKind transport) {
  return transport == TransportKind::kTcp ? TransportKind::kRdma : TransportKind::kTcp;
}

// The calls that match and have come over this transport.
CallMatcher Over(TransportKind transport, const CallMatcher& matches) {
  return [transport, matches](const SeenCall& call) { return call.transport == transport && matches(call); };
}

class BothTransportsTest : public MountTestBase {
 protected:
  explicit BothTransportsTest(Version version, TestService::Options service_options = {.rdma = true})
      : MountTestBase(std::move(service_options)), version_(version) {
    options.provider = &provider_;
  }
  ~BothTransportsTest() override { End(); }

  Url UrlOfBoth(uint32_t connections) const {
    Url url = UrlOf(version_);
    url.protocol = Protocol::kRdma;
    url.port = service.rdma_port();
    url.tcp_port = service.port();
    url.nconnect = connections;
    return url;
  }
  // Opens a mount and a file with `pieces` pieces of the largest size, and three octets more.
  void OpenFile(const Url& url, size_t pieces) {
    Open(url);
    EXPECT_EQ(mount->sizes().read, 1u << 20);
    EXPECT_EQ(mount->sizes().write, 1u << 20);
    contents_.resize(pieces * mount->sizes().write + 3);
    std::minstd_rand random(1);
    for (char& each : contents_) each = static_cast<char>(random());
    file_ = Create("file");
  }
  void End() {
    if (file_) Do(file_->Close());
    file_.reset();
    Unmount();
  }

  void WriteAll() {
    const auto write = [this](uint64_t offset, uint32_t count) -> Task<Result<void>> {
      PENSTOCK_CO_TRY(const auto written, co_await file_->Write(offset, AsBytes(contents_).subspan(offset, count)));
      EXPECT_EQ(written.count, count);
      co_return Result<void>();
    };
    Do(MovePieces(contents_.size(), mount->sizes().write, kAtOnce, write));
    Do(file_->Commit());
  }
  void ExpectToReadAll() {
    std::string got(contents_.size(), '\0');
    const auto read = [this, &got](uint64_t offset, uint32_t count) -> Task<Result<void>> {
      const Bytes piece = std::as_writable_bytes(std::span(got)).subspan(offset, count);
      PENSTOCK_CO_TRY(const auto read_now, co_await file_->Read(offset, piece));
      EXPECT_EQ(read_now.count, count);
      co_return Result<void>();
    };
    Do(MovePieces(contents_.size(), mount->sizes().read, kAtOnce, read));
    EXPECT_TRUE(got == contents_);
  }

  static CallMatcher Reads() { return CompoundsWith(nfs_opnum4::OP_READ); }
  static CallMatcher Writes() { return CompoundsWith(nfs_opnum4::OP_WRITE); }
  size_t Count(TransportKind transport, const CallMatcher& matches) const {
    return service.CountCalls(Over(transport, matches));
  }
  size_t Count(nfs_opnum4 operation) const { return service.CountCalls(CompoundsWith(operation)); }
  // Reads the file again and again until done() is true.
  template <class Done>
  void ReadUntil(const Done& done) {
    const TimePoint limit = loop.Now() + kTestPatience;
    while (!done()) {
      ASSERT_LT(loop.Now(), limit);
      ExpectToReadAll();
    }
  }
  // Waits until reads come over this transport from now on.
  void ReadUntilUsed(TransportKind transport) {
    const size_t before = Count(transport, Reads());
    ReadUntil([&] { return Count(transport, Reads()) > before; });
  }

  const Version version_;
  rdma::iwarp::Provider provider_{loop};
  std::string contents_;
  std::unique_ptr<File> file_;
};

class BothTransportsOfAMountTest : public BothTransportsTest, public testing::WithParamInterface<Version> {
 protected:
  BothTransportsOfAMountTest() : BothTransportsTest(GetParam()) {}

  // How often the client has asked who `server` is.
  static size_t Questions(const TestService& server) {
    return server.CountCalls(CompoundsWith(nfs_opnum4::OP_EXCHANGE_ID));
  }
  // Without a connection over RDMA there is no other way than to `another`, and still the mount does not go there.
  void ExpectToWaitForRdmaBeside(const TestService& another) {
    service.Refuse(TransportKind::kRdma);
    const size_t before = Questions(another);
    std::optional<Result<Attributes>> attributes;
    Spawn([](Mount& m, std::optional<Result<Attributes>>& out) -> Task<void> {
      out.emplace(co_await m.GetAttributes(m.root(), "root"));
    }(*mount, attributes));
    ASSERT_TRUE(TurnUntil(loop, [&] { return Questions(another) > before; }));
    EXPECT_FALSE(attributes);
    service.Listen(TransportKind::kRdma);
    ASSERT_TRUE(TurnUntil(loop, [&] { return attributes.has_value(); }));
    EXPECT_TRUE(*attributes) << attributes->error().message;
    ExpectToReadAll();
    EXPECT_EQ(another.CountCalls(AllCalls()), Questions(another)) << "and nothing else";
    End();
  }
};
INSTANTIATE_TEST_SUITE_P(Version, BothTransportsOfAMountTest, testing::Values(Version::k41, Version::k42),
                         [](const auto& test) { return client::NameOf(test.param); });

TEST_P(BothTransportsOfAMountTest, OnlyTheLastConnectionIsOverTcp) {
  OpenFile(UrlOfBoth(4), 16);
  WriteAll();
  ReadUntil([&] { return service.ConnectionsOf(Reads()).size() == 4; });
  WriteAll();
  EXPECT_EQ(service.ConnectionsOf(Over(TransportKind::kRdma, AllCalls())).size(), 3u);
  EXPECT_EQ(service.ConnectionsOf(Over(TransportKind::kTcp, AllCalls())).size(), 1u);
  // Writes of the largest size as well.
  for (const auto transport : {TransportKind::kTcp, TransportKind::kRdma}) EXPECT_GT(Count(transport, Writes()), 0u);
  EXPECT_EQ(Count(nfs_opnum4::OP_CREATE_SESSION), 1u);
  EXPECT_EQ(mount->reconnections(), 0u);
}

// RFC 8881 §2.10.3.1, §18.34
TEST_P(BothTransportsOfAMountTest, BindsEachConnectionBeforeItsFirstRequest) {
  OpenFile(UrlOfBoth(3), 16);
  WriteAll();
  ReadUntil([&] { return service.ConnectionsOf(Reads()).size() == 3; });
  std::set<uint64_t> bound = service.ConnectionsOf(CompoundsWith(nfs_opnum4::OP_CREATE_SESSION));
  std::set<uint64_t> used_unbound;
  (void)service.CountCalls([&](const SeenCall& call) {
    if (CompoundsWith(nfs_opnum4::OP_BIND_CONN_TO_SESSION)(call)) bound.insert(call.connection);
    const bool is_request = CompoundsWith(nfs_opnum4::OP_SEQUENCE)(call);
    if (is_request && !bound.contains(call.connection)) used_unbound.insert(call.connection);
    return false;
  });
  EXPECT_EQ(bound.size(), 3u);
  EXPECT_EQ(used_unbound.size(), 0u);
}

TEST_P(BothTransportsOfAMountTest, RefusedRdmaAtTheStartEndsTheMount) {
  service.Refuse(TransportKind::kRdma);
  EXPECT_THAT(ErrorOfOpening(UrlOfBoth(2)).message, HasSubstr("refused"));
  EXPECT_EQ(Count(TransportKind::kTcp, AllCalls()), 0u);
}

TEST_P(BothTransportsOfAMountTest, RefusedTcpAtTheStartIsTriedAgain) {
  service.Refuse(TransportKind::kTcp);
  OpenFile(UrlOfBoth(2), 8);
  WriteAll();
  ExpectToReadAll();
  service.Listen(TransportKind::kTcp);
  ReadUntilUsed(TransportKind::kTcp);
  EXPECT_EQ(Count(nfs_opnum4::OP_CREATE_SESSION), 1u);
}

// For example the server of the kernel (RFC 8881 §2.10.5).
TEST_P(BothTransportsOfAMountTest, AnotherServerAtTheTcpPortIsOnlyAskedWhoItIs) {
  TestService another(loop, {.identity = "another"});
  Url url = UrlOfBoth(2);
  url.tcp_port = another.port();
  OpenFile(url, 8);
  WriteAll();
  ReadUntil([&] { return Questions(another) > 0; });
  ExpectToWaitForRdmaBeside(another);
}

// The server has stopped, and another one has got its TCP port.
TEST_P(BothTransportsOfAMountTest, AServerThatReplacesTheKnownOneAtTheTcpPortIsOnlyAskedWhoItIs) {
  OpenFile(UrlOfBoth(2), 8);
  WriteAll();
  ReadUntil([&] { return service.ConnectionsOf(Reads()).size() == 2; });
  service.Refuse(TransportKind::kTcp);
  TestService another(loop, {.port = service.port(), .identity = "another"});
  service.Restart();
  ExpectToWaitForRdmaBeside(another);
}

// Over TCP the mount still reaches the server that it knows.
TEST_P(BothTransportsOfAMountTest, AServerThatReplacesTheKnownOneAtTheRdmaPortIsOnlyAskedWhoItIs) {
  OpenFile(UrlOfBoth(2), 8);
  WriteAll();
  ReadUntil([&] { return service.ConnectionsOf(Reads()).size() == 2; });
  service.Refuse(TransportKind::kRdma);
  TestService another(loop, {.rdma = true, .rdma_port = service.rdma_port(), .identity = "another"});
  ReadUntil([&] { return Questions(another) >= 2; });
  EXPECT_EQ(another.CountCalls(AllCalls()), Questions(another)) << "and nothing else";
  End();
}

TEST_P(BothTransportsOfAMountTest, AServerThatDelaysTheAnswerWhoItIsIsAskedAgain) {
  service.FailOperation(nfs_opnum4::OP_EXCHANGE_ID, nfs4::nfsstat4::NFS4ERR_DELAY);
  OpenFile(UrlOfBoth(2), 8);
  WriteAll();
  ReadUntil([&] { return service.ConnectionsOf(Reads()).size() == 2; });
}

// For example an adapter whose connection management works, and whose data path does not.
TEST_P(BothTransportsOfAMountTest, RdmaThatConnectsAndLosesEachCallGivesWayToTcp) {
  Open(UrlOfBoth(2));
  service.LoseCall(Over(TransportKind::kRdma, AllCalls()), 1u << 20);
  Do(mount->GetAttributes(mount->root(), "root"));
  EXPECT_GT(Count(TransportKind::kTcp, AllCalls()), 0u);
  End();
}

TEST_P(BothTransportsOfAMountTest, RdmaThatLosesAllReadsGivesWayToTcp) {
  OpenFile(UrlOfBoth(2), 8);
  WriteAll();
  service.LoseCall(Over(TransportKind::kRdma, Reads()), 1u << 20);
  ExpectToReadAll();
}

// One call at a time needs no connection over TCP.
TEST_P(BothTransportsOfAMountTest, TcpIsEnoughForANewSessionAlsoIfItWasNotUsedBefore) {
  Open(UrlOfBoth(2));
  ASSERT_EQ(Count(TransportKind::kTcp, AllCalls()), 0u);
  service.Refuse(TransportKind::kRdma);
  service.Restart();
  Do(mount->GetAttributes(mount->root(), "root"));
  EXPECT_GT(Count(TransportKind::kTcp, AllCalls()), 0u);
  End();
}

TEST_P(BothTransportsOfAMountTest, ALossOfStateIsRepairedOnce) {
  OpenFile(UrlOfBoth(3), 16);
  WriteAll();
  ReadUntil([&] { return service.ConnectionsOf(Reads()).size() == 3; });
  const size_t clients = Count(nfs_opnum4::OP_EXCHANGE_ID), binds = Count(nfs_opnum4::OP_BIND_CONN_TO_SESSION);
  service.Restart();
  ExpectToReadAll();
  EXPECT_EQ(Count(nfs_opnum4::OP_EXCHANGE_ID), clients + 1);
  EXPECT_EQ(Count(nfs_opnum4::OP_BIND_CONN_TO_SESSION), binds + 3);
  EXPECT_EQ(mount->reconnections(), 0u);
}

class BothTransportsOfVersion3Test : public BothTransportsTest {
 protected:
  BothTransportsOfVersion3Test() : BothTransportsTest(Version::k41, {.nfs4 = false, .rdma = true}) {}
};

// Version 3 has no sessions, so the mount would be over RDMA alone.
TEST_F(BothTransportsOfVersion3Test, AreNotIgnored) {
  Url url = UrlOfBoth(2);
  url.version.reset();
  const Error error = ErrorOfOpening(url);
  EXPECT_EQ(error.status, Status::kVersionMismatch);
  EXPECT_THAT(error.message, HasSubstr("; proto=rdma+tcp needs version 4.1 or 4.2"));
  EXPECT_EQ(service.CountCalls(AllCalls()), 1u) << "the question who the server is";
}

// The version and the transport that fails.
class LossOfATransportTest : public BothTransportsTest,
                             public testing::WithParamInterface<std::tuple<Version, TransportKind>> {
 protected:
  explicit LossOfATransportTest(TestService::Options service_options = {.rdma = true})
      : BothTransportsTest(std::get<0>(GetParam()), std::move(service_options)) {}
  static TransportKind lost() { return std::get<1>(GetParam()); }
  static TransportKind left() { return Other(lost()); }

  // Uses both transports.
  void OpenUsed(uint32_t connections, size_t pieces) {
    OpenFile(UrlOfBoth(connections), pieces);
    WriteAll();
    ReadUntil([&] { return service.ConnectionsOf(Reads()).size() == connections; });
  }
};
INSTANTIATE_TEST_SUITE_P(All, LossOfATransportTest,
                         testing::Combine(testing::Values(Version::k41, Version::k42),
                                          testing::Values(TransportKind::kTcp, TransportKind::kRdma)),
                         [](const auto& test) {
                           return client::NameOf(std::get<0>(test.param)) + NameOf(std::get<1>(test.param));
                         });

TEST_P(LossOfATransportTest, NoOctetOfAReadIsLost) {
  OpenUsed(3, 16);
  service.LoseCall(Over(lost(), Reads()), 1, 1);
  ReadUntil([&] { return mount->reconnections() == 1; });
  service.LoseReply(Over(lost(), Reads()), 1, 2);
  ReadUntil([&] { return mount->reconnections() == 2; });
  ExpectToReadAll();
}

TEST_P(LossOfATransportTest, NoOctetOfAWriteIsLost) {
  OpenUsed(3, 16);
  for (uint64_t losses = 1; losses <= 2; ++losses) {
    std::ranges::reverse(contents_);
    if (losses == 1) service.LoseCall(Over(lost(), Writes()), 1, 1);
    if (losses == 2) service.LoseReply(Over(lost(), Writes()), 1, 2);
    const TimePoint limit = loop.Now() + kTestPatience;
    while (mount->reconnections() < losses) {
      ASSERT_LT(loop.Now(), limit);
      WriteAll();
    }
    ExpectToReadAll();
  }
}

TEST_P(LossOfATransportTest, AConnectionOfTheSameTransportReplacesTheLostOne) {
  OpenUsed(2, 8);
  const std::set<uint64_t> kept = service.ConnectionsOf(Over(left(), Reads()));
  const std::set<uint64_t> before = service.ConnectionsOf(Over(lost(), Reads()));
  service.LoseCall(Over(lost(), Reads()));
  ReadUntil([&] { return service.ConnectionsOf(Over(lost(), Reads())).size() > before.size(); });
  EXPECT_EQ(mount->reconnections(), 1u);
  EXPECT_EQ(service.ConnectionsOf(Over(left(), Reads())), kept);
}

// Directories that exist already would be errors. The slot knows a call that comes over the other transport.
TEST_P(LossOfATransportTest, ACallWhoseReplyIsLostIsExecutedOnce) {
  OpenUsed(2, 8);
  const auto makers = CompoundsWith(nfs_opnum4::OP_CREATE);
  constexpr size_t kDirectories = 16;
  const size_t left_before = Count(left(), makers);
  service.LoseReply(Over(lost(), makers), 1, 3);
  size_t done = 0, failed = 0;
  for (size_t i = 0; i < kDirectories; ++i) {
    Spawn([](Mount& m, std::string name, size_t& ends, size_t& failures) -> Task<void> {
      const Result<Node> made = co_await m.MakeDirectory(m.root(), name, 0755);
      if (!made) ++failures;
      ++ends;
    }(*mount, "d" + std::to_string(i), done, failed));
  }
  ASSERT_TRUE(TurnUntil(loop, [&] { return done == kDirectories; }));
  EXPECT_EQ(failed, 0u);
  EXPECT_EQ(List().size(), kDirectories + 1);
  EXPECT_GT(service.CountCalls(makers), kDirectories) << "a call was repeated";
  EXPECT_GT(Count(left(), makers), left_before + kDirectories / 2) << "over the other transport";
}

TEST_P(LossOfATransportTest, TheMountGoesOnOverTheOtherOneUntilItComesBack) {
  OpenUsed(3, 16);
  const size_t sessions = Count(nfs_opnum4::OP_CREATE_SESSION);
  service.Refuse(lost());
  const size_t before = Count(lost(), AllCalls());
  std::ranges::reverse(contents_);
  WriteAll();
  ExpectToReadAll();
  EXPECT_EQ(Count(lost(), AllCalls()), before);
  service.Listen(lost());
  ReadUntilUsed(lost());
  ReadUntilUsed(left());
  EXPECT_EQ(Count(nfs_opnum4::OP_CREATE_SESSION), sessions) << "the session is the same";
}

// The server has restarted, and only one transport has come back so far.
TEST_P(LossOfATransportTest, OneTransportIsEnoughForANewSession) {
  OpenUsed(2, 8);
  service.Refuse(TransportKind::kTcp);
  service.Refuse(TransportKind::kRdma);
  service.Restart();
  service.Listen(left());
  ExpectToReadAll();
  service.Listen(lost());
  ReadUntilUsed(lost());
}

class RecallAfterALossTest : public LossOfATransportTest {
 protected:
  RecallAfterALossTest() : LossOfATransportTest({.delegations = 8, .rdma = true}) {}
};
INSTANTIATE_TEST_SUITE_P(All, RecallAfterALossTest,
                         testing::Combine(testing::Values(Version::k41, Version::k42),
                                          testing::Values(TransportKind::kTcp, TransportKind::kRdma)),
                         [](const auto& test) {
                           return client::NameOf(std::get<0>(test.param)) + NameOf(std::get<1>(test.param));
                         });

// Each connection is bound to the backchannel as well.
TEST_P(RecallAfterALossTest, TheServerRecallsADelegationOverTheTransportThatIsLeft) {
  OpenUsed(2, 8);
  ASSERT_EQ(service.delegations(), 1u);
  service.Refuse(lost());
  Url url = UrlOfBoth(1);
  url.tcp_port.reset();
  if (left() == TransportKind::kTcp) {
    url.protocol = Protocol::kTcp;
    url.port = service.port();
  }
  auto other = TryToOpen(url);
  ASSERT_TRUE(other) << other.error().message;
  const size_t returned = Count(nfs_opnum4::OP_DELEGRETURN);
  auto opened = Do((*other)->OpenFile(Do((*other)->Lookup(root(), "file")), "file", Access::kBoth));
  EXPECT_GT(Count(nfs_opnum4::OP_DELEGRETURN), returned) << "the client has heard of the recall";
  Do(opened->Close());
  opened.reset();
  ExpectToReadAll();
  Run((*other)->Unmount());
  TurnFor(loop, Duration::zero());
  other->reset();
  TurnFor(loop, Duration::zero());
}

}  // namespace
}  // namespace penstock::client
