#include "rpcbind/port_mapper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "protocol/rpcb.h"
#include "rpc/client.h"
#include "rpc/dispatch.h"

namespace penstock::rpcbind {
namespace {

using namespace pmap;  // NOLINT: the protocol's own names, RFC 1833
using asio::ip::make_address;
using rpc::TransportKind;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// Calls a dispatcher in the name of a peer.
class DirectChannel final : public rpc::Channel {
 public:
  DirectChannel(rpc::Dispatcher& dispatcher, const rpc::Peer& peer) : dispatcher_(dispatcher), peer_(peer) {}
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape /*shape*/) override {
    rpc::Message reply = co_await dispatcher_.HandleCall(std::move(call), peer_);
    co_return reply;
  }

 private:
  rpc::Dispatcher& dispatcher_;
  const rpc::Peer& peer_;
};

class PortMapperTest : public ::testing::Test {
 protected:
  PortMapperTest() {
    Add(100003, 3, TransportKind::kTcp, "0.0.0.0", 2049);
    Add(100003, 4, TransportKind::kTcp, "0.0.0.0", 2050);
    Add(100003, 3, TransportKind::kTcp, "::", 2051);
    Add(100003, 3, TransportKind::kRdma, "0.0.0.0", 20049);
    Add(100005, 3, TransportKind::kUdp, "192.0.2.1", 20048);
    dispatcher.Add(version2);
    dispatcher.Add(version4);
    peer.buffers = &buffers;
    CallOver(TransportKind::kTcp, "127.0.0.1");
  }

  void Add(uint32_t program, uint32_t version, TransportKind transport, const char* address, uint16_t port) {
    const IpAddress ip = make_address(address);
    services.push_back({program, version, {transport, ip.is_v6()}, SocketAddress(ip, port)});
  }
  void CallOver(TransportKind transport, const char* local) {
    peer.transport = transport;
    peer.local = SocketAddress(make_address(local), 111);
  }

  template <class Procedure>
  Result<rpc::Reply<typename Procedure::Results>, rpc::Error> Call(typename Procedure::Arguments arguments = {}) {
    std::optional<Result<rpc::Reply<typename Procedure::Results>, rpc::Error>> result;
    Spawn([](rpc::Client& caller, typename Procedure::Arguments with, auto& out) -> Task<void> {
      out.emplace(co_await caller.Call<Procedure>(with));
    }(client, arguments, result));
    return *std::move(result);
  }
  uint32_t PortOf(uint32_t program, uint32_t version, uint32_t protocol) {
    return Call<PMAPPROC_GETPORT>({program, version, protocol, 0})->results;
  }
  template <class Procedure>
  std::string AddressOf(uint32_t program, uint32_t version, std::string_view netid = "") {
    return std::string(Call<Procedure>({.r_prog = program, .r_vers = version, .r_netid = netid})->results);
  }

  BufferPool buffers;
  std::vector<Service> services;
  PortMapper2 version2{services};
  PortMapper4 version4{services, "superuser", [] { return 123456u; }};
  rpc::Dispatcher dispatcher;
  rpc::Peer peer;
  DirectChannel channel{dispatcher, peer};
  rpc::Client client{channel, buffers, rpc::Xid(1)};
};

TEST_F(PortMapperTest, AClientLearnsTheAddressThatItHasAsked) {
  Add(100024, 1, TransportKind::kTcp, "192.0.2.1", 1);
  Add(100024, 1, TransportKind::kTcp, "192.0.2.2", 2);
  EXPECT_EQ(PortOf(100024, 1, 6), 1u) << "the first one, if there is none at this address";
  CallOver(TransportKind::kTcp, "192.0.2.2");
  EXPECT_EQ(PortOf(100024, 1, 6), 2u);
  EXPECT_EQ(PortOf(100024, 7, 6), 2u) << "in another version";
  EXPECT_EQ(AddressOf<RPCBPROC_GETADDR>(100024, 1), "192.0.2.2.0.2");
  CallOver(TransportKind::kTcp, "::ffff:192.0.2.2");
  EXPECT_EQ(PortOf(100024, 1, 6), 2u);
  Add(100024, 1, TransportKind::kTcp, "0.0.0.0", 3);
  EXPECT_EQ(PortOf(100024, 1, 6), 2u);
  CallOver(TransportKind::kTcp, "192.0.2.3");
  EXPECT_EQ(PortOf(100024, 1, 6), 3u);
}

TEST_F(PortMapperTest, AllVersionsAnswerTheNullCall) {
  EXPECT_TRUE(Call<PMAPPROC_NULL>());
  EXPECT_TRUE(Call<RPCBPROC_NULL>());
  EXPECT_TRUE(Call<RPCB4PROC_NULL>());
}

// ---- version 2 ----

TEST_F(PortMapperTest, Version2MapsToPortsOfIpv4) {
  EXPECT_EQ(PortOf(100003, 3, 6), 2049u);
  EXPECT_EQ(PortOf(100003, 4, 6), 2050u);
  EXPECT_EQ(PortOf(100005, 3, 17), 20048u);
}

TEST_F(PortMapperTest, Version2ReturnsZeroForWhatIsNotOffered) {
  EXPECT_EQ(PortOf(100003, 3, 17), 0u);
  EXPECT_EQ(PortOf(100021, 4, 6), 0u);
  EXPECT_EQ(PortOf(100003, 3, 0), 0u) << "RDMA and IPv6 have no number";
  EXPECT_EQ(PortOf(100003, 3, 132), 0u);
}

TEST_F(PortMapperTest, Version2LeadsToAnotherVersionOfTheProgram) { EXPECT_NE(PortOf(100003, 2, 6), 0u); }

TEST_F(PortMapperTest, Version2ListsPortsOfIpv4) {
  const auto list = Call<PMAPPROC_DUMP>();
  ASSERT_TRUE(list);
  EXPECT_THAT(list->results, ElementsAre(pmapnode{{100003, 3, 6, 2049}}, pmapnode{{100003, 4, 6, 2050}},
                                         pmapnode{{100005, 3, 17, 20048}}));
}

// ---- versions 3 and 4 ----

TEST_F(PortMapperTest, TheAddressIsTheOneThatTheClientHasReached) {
  CallOver(TransportKind::kTcp, "198.51.100.7");
  EXPECT_EQ(AddressOf<RPCBPROC_GETADDR>(100003, 3), "198.51.100.7.8.1");
  EXPECT_EQ(AddressOf<RPCB4PROC_GETADDR>(100003, 3), "198.51.100.7.8.1");
  CallOver(TransportKind::kTcp, "::ffff:198.51.100.7");
  EXPECT_EQ(AddressOf<RPCB4PROC_GETADDR>(100003, 3), "198.51.100.7.8.1");
  CallOver(TransportKind::kTcp, "2001:db8::1");
  EXPECT_EQ(AddressOf<RPCB4PROC_GETADDR>(100003, 3), "2001:db8::1.8.3");
}

TEST_F(PortMapperTest, AServiceAtOneAddressKeepsIt) {
  CallOver(TransportKind::kUdp, "198.51.100.7");
  EXPECT_EQ(AddressOf<RPCB4PROC_GETADDR>(100005, 3), "192.0.2.1.78.80");
}

TEST_F(PortMapperTest, TheNetworkIsThatOfTheCall) {
  EXPECT_EQ(AddressOf<RPCB4PROC_GETADDR>(100005, 3, "udp"), "") << "asked over TCP";
  CallOver(TransportKind::kUdp, "127.0.0.1");
  EXPECT_EQ(AddressOf<RPCB4PROC_GETADDR>(100005, 3, "tcp"), "192.0.2.1.78.80");
  EXPECT_EQ(AddressOf<RPCB4PROC_GETADDR>(100003, 3, "tcp"), "");
}

TEST_F(PortMapperTest, GetAddrLeadsToAnotherVersionAndGetVersAddrDoesNot) {
  EXPECT_NE(AddressOf<RPCB4PROC_GETADDR>(100003, 2), "");
  EXPECT_EQ(AddressOf<RPCB4PROC_GETVERSADDR>(100003, 2), "");
  EXPECT_EQ(AddressOf<RPCB4PROC_GETVERSADDR>(100003, 4), "127.0.0.1.8.2");
}

TEST_F(PortMapperTest, ListsAllNetworks) {
  const auto list = Call<RPCB4PROC_DUMP>();
  ASSERT_TRUE(list);
  const auto entry = [](uint32_t program, uint32_t version, const char* netid, const char* address) {
    return rpcbnode{{program, version, netid, address, "superuser"}};
  };
  EXPECT_THAT(list->results,
              UnorderedElementsAre(entry(100003, 3, "tcp", "0.0.0.0.8.1"), entry(100003, 4, "tcp", "0.0.0.0.8.2"),
                                   entry(100003, 3, "tcp6", "::.8.3"), entry(100003, 3, "rdma", "0.0.0.0.78.81"),
                                   entry(100005, 3, "udp", "192.0.2.1.78.80")));
  EXPECT_EQ(Call<RPCBPROC_DUMP>()->results, list->results);
}

TEST_F(PortMapperTest, TellsTheTime) {
  EXPECT_EQ(Call<RPCBPROC_GETTIME>()->results, 123456u);
  EXPECT_EQ(Call<RPCB4PROC_GETTIME>()->results, 123456u);
}

// ---- what is refused ----

TEST_F(PortMapperTest, RefusesSetAndUnset) {
  const auto before = services;
  EXPECT_FALSE(Call<PMAPPROC_SET>({100003, 2, 6, 4711})->results);
  EXPECT_FALSE(Call<PMAPPROC_UNSET>({100003, 3, 6, 2049})->results);
  const pmap::rpcb entry{100003, 3, "tcp", "0.0.0.0.8.1", "superuser"};
  EXPECT_FALSE(Call<RPCBPROC_SET>(entry)->results);
  EXPECT_FALSE(Call<RPCBPROC_UNSET>(entry)->results);
  EXPECT_FALSE(Call<RPCB4PROC_SET>(entry)->results);
  EXPECT_FALSE(Call<RPCB4PROC_UNSET>(entry)->results);
  EXPECT_EQ(services, before);
}

template <uint32_t kVersionNumber, uint32_t kProcedure>
struct Other {
  static constexpr uint32_t kProgram = PMAP_PROG;
  static constexpr uint32_t kVersion = kVersionNumber;
  static constexpr uint32_t kNumber = kProcedure;
  using Arguments = xdr::Void;
  using Results = xdr::Void;
};

TEST_F(PortMapperTest, MakesNoCallsForOthers) {
  const auto kind = [](const auto& result) { return result ? rpc::Error::Kind::kTransport : result.error().kind; };
  constexpr auto kUnavailable = rpc::Error::Kind::kProcedureUnavailable;
  EXPECT_EQ(kind(Call<Other<2, 5>>()), kUnavailable) << "CALLIT";
  EXPECT_EQ(kind(Call<Other<3, 5>>()), kUnavailable) << "CALLIT";
  EXPECT_EQ(kind(Call<Other<4, 5>>()), kUnavailable) << "BCAST";
  EXPECT_EQ(kind(Call<Other<4, 10>>()), kUnavailable) << "INDIRECT";
  EXPECT_EQ(kind(Call<Other<3, 9>>()), kUnavailable) << "GETVERSADDR is of version 4";
  EXPECT_EQ(kind(Call<Other<4, 12>>()), kUnavailable) << "GETSTAT";
}

TEST_F(PortMapperTest, RejectsOtherVersionsAndMalformedArguments) {
  const auto version = Call<Other<5, 0>>();
  ASSERT_FALSE(version);
  EXPECT_EQ(version.error().kind, rpc::Error::Kind::kProgramMismatch);
  EXPECT_EQ(version.error().versions, (rpc::VersionRange{2, 4}));
  EXPECT_EQ((Call<Other<4, 3>>()).error().kind, rpc::Error::Kind::kGarbageArguments);
  EXPECT_EQ((Call<Other<2, 3>>()).error().kind, rpc::Error::Kind::kGarbageArguments);
}

TEST(Owner, IsTheSuperuserOrANumber) {
  EXPECT_EQ(Owner(), ::geteuid() == 0 ? "superuser" : std::to_string(::geteuid()));
}

}  // namespace
}  // namespace penstock::rpcbind
