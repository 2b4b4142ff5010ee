// Tests of TCP connections that become RDMA connections: RFC 5044 §7.1.3.
#include <string_view>

#include "base/released_socket.h"
#include "rdma/iwarp/provider_test_fixture.h"

namespace penstock::rdma::iwarp {
namespace {

using Kind = ConnectError::Kind;
using PendingResult = std::shared_ptr<std::optional<ConnectResult>>;

class StepUpTest : public ProviderTest {
 protected:
  StepUpTest() {
    tcp::acceptor acceptor = ListenByHand();
    peer_.connect(acceptor.local_endpoint());
    acceptor.accept(own_);
    own_.native_non_blocking(true);
    options_.receives.push_back({7, 256});
  }

  // Starts to step up with `own_`.
  PendingResult Start(StepUpRole role, std::string_view last_octets = {}, std::string_view read_ahead = {}) {
    auto result = std::make_shared<std::optional<ConnectResult>>();
    const ConstBytes ahead = AsBytes(read_ahead), last = AsBytes(last_octets);
    ReleasedSocket socket{std::move(own_), {ahead.begin(), ahead.end()}};
    Spawn(Store(provider_->StepUp(std::move(socket), role, {last.begin(), last.end()}, std::move(options_)), result));
    return result;
  }
  std::unique_ptr<Endpoint> EndpointOf(const PendingResult& outcome) {
    EXPECT_TRUE(RunUntil([&] { return outcome->has_value(); }));
    EXPECT_TRUE(**outcome) << (*outcome)->error().detail;
    std::unique_ptr<Endpoint> endpoint = *std::move(**outcome);
    endpoint->Start([] {});
    return endpoint;
  }
  void ExpectFailure(const PendingResult& outcome, Kind kind) {
    ASSERT_TRUE(RunUntil([&] { return outcome->has_value(); }));
    ASSERT_FALSE(**outcome);
    EXPECT_EQ((*outcome)->error().kind, kind) << (*outcome)->error().detail;
    EXPECT_TRUE(Closes(peer_));
  }
  static void Send(Endpoint& from, ConstBytes message) {
    SendRequest request;
    request.gather.push_back(Slice::Borrowed(message));
    from.PostSend(std::move(request));
  }
  static std::string Text(ConstBytes bytes) { return std::string(AsText(bytes)); }
  static std::string Request() { return Text(MakeRequest({}, {}).Serialize()); }
  void Write(std::string_view octets) { ProviderTest::Write(peer_, AsBytes(octets)); }

  tcp::socket peer_{loop_.context()};  // the test plays the peer
  tcp::socket own_{loop_.context()};
  ConnectOptions options_;
};

// A record of RPC, as a client sends it that has not understood the grant.
constexpr std::string_view kRecord("\x80\0\0\x28\0\0\0\1\0\0\0\0\0\0\0\2\0\1\x86\xa3\0\0\0\4\0\0\0\0", 28);

TEST_F(StepUpTest, TwoEndsOfATcpConnectionBecomeEndpoints) {
  for (const bool markers : {false, true}) {
    Use({.markers = markers});
    tcp::acceptor acceptor = ListenByHand();
    tcp::socket client(loop_.context()), server(loop_.context());
    client.connect(acceptor.local_endpoint());
    acceptor.accept(server);
    client.native_non_blocking(true);
    server.native_non_blocking(true);
    ConnectOptions options;
    options.ird = 0;
    options.ord = 3;
    options.receives.push_back({1, 256});
    auto responder = std::make_shared<std::optional<ConnectResult>>();
    const ConstBytes last = AsBytes("granted");
    Spawn(Store(provider_->StepUp(ReleasedSocket{std::move(server), {}}, StepUpRole::kResponder,
                                  {last.begin(), last.end()}, std::move(options)),
                responder));
    EXPECT_EQ(Text(Read(client, last.size())), "granted");

    ConnectOptions back;
    back.ird = 5;
    back.ord = 0;
    back.receives.push_back({2, 256});
    auto initiator = std::make_shared<std::optional<ConnectResult>>();
    Spawn(Store(provider_->StepUp(ReleasedSocket{std::move(client), {}}, StepUpRole::kInitiator, {}, std::move(back)),
                initiator));
    const auto at_client = EndpointOf(initiator), at_server = EndpointOf(responder);
    EXPECT_EQ(at_server->info().ord, 3);
    EXPECT_EQ(at_server->info().ird, 0);
    EXPECT_EQ(at_client->info().peer, at_server->info().local);

    const Octets message = Pattern(100);
    const auto send = [&](Endpoint& from) { Send(from, message); };
    const auto receives = [&](Endpoint& to) {
      std::vector<rdma::Completion> seen;
      RunUntil([&] {
        for (auto& each : Poll(to)) {
          if (each.operation == Operation::kReceive) seen.push_back(std::move(each));
        }
        return !seen.empty();
      });
      return seen.size() == 1 && Equal(seen[0].buffer->bytes().first(seen[0].length), message);
    };
    send(*at_client);
    EXPECT_TRUE(receives(*at_server));
    send(*at_server);
    EXPECT_TRUE(receives(*at_client));
  }
}

TEST_F(StepUpTest, TheResponderSendsNoFpduBeforeTheFirstOfTheInitiator) {
  const PendingResult outcome = Start(StepUpRole::kResponder);
  Write(Request());
  EXPECT_FALSE(ReadFrame(peer_, MpaFrame::Kind::kReply).rejected);
  const auto endpoint = EndpointOf(outcome);
  Send(*endpoint, AsBytes("callback"));
  TurnFor(loop_, std::chrono::milliseconds(20));
  EXPECT_EQ(peer_.available(), 0u);
  Write(Text(Forge({.crc = true, .markers = false}).Segment(Untagged(Opcode::kSend, kSendQueue, 1), Octets(4))));
  EXPECT_FALSE(Read(peer_, 8).empty());
}

TEST_F(StepUpTest, TakesARequestThatWasReadAhead) {
  const std::string request = Request();
  for (const size_t ahead : {size_t{3}, request.size()}) {
    tcp::acceptor acceptor = ListenByHand();
    tcp::socket peer(loop_.context()), own(loop_.context());
    peer.connect(acceptor.local_endpoint());
    acceptor.accept(own);
    peer_ = std::move(peer);
    own_ = std::move(own);
    const PendingResult outcome = Start(StepUpRole::kResponder, {}, std::string_view(request).substr(0, ahead));
    Write(std::string_view(request).substr(ahead));
    EXPECT_FALSE(ReadFrame(peer_, MpaFrame::Kind::kReply).rejected);
    EndpointOf(outcome);
  }
}

TEST_F(StepUpTest, RefusesOctetsBehindTheRequestBeforeItsReply) {
  ExpectFailure(Start(StepUpRole::kResponder, {}, Request() + "x"), Kind::kProtocol);
}

TEST_F(StepUpTest, RefusesARecordInsteadOfTheRequest) {
  const PendingResult outcome = Start(StepUpRole::kResponder);
  Write(kRecord);
  ExpectFailure(outcome, Kind::kProtocol);
}

TEST_F(StepUpTest, RefusesARecordThatWasReadAhead) {
  ExpectFailure(Start(StepUpRole::kResponder, {}, kRecord), Kind::kProtocol);
}

TEST_F(StepUpTest, RefusesAReplyInsteadOfTheRequest) {
  const PendingResult outcome = Start(StepUpRole::kResponder);
  MpaFrame reply = MakeRequest({}, {});
  reply.kind = MpaFrame::Kind::kReply;
  Write(Text(reply.Serialize()));
  ExpectFailure(outcome, Kind::kProtocol);
}

TEST_F(StepUpTest, AResetEndsTheWaitForTheRequest) {
  const PendingResult outcome = Start(StepUpRole::kResponder);
  peer_.set_option(asio::socket_base::linger(true, 0));
  peer_.close();
  ASSERT_TRUE(RunUntil([&] { return outcome->has_value(); }));
  EXPECT_EQ((*outcome)->error().kind, Kind::kProtocol);
}

TEST_F(StepUpTest, HalfARequestAndTheEndOfTheStreamAreAFailure) {
  const PendingResult outcome = Start(StepUpRole::kResponder);
  Write(Request().substr(0, 11));
  peer_.shutdown(tcp::socket::shutdown_send);
  ExpectFailure(outcome, Kind::kProtocol);
}

TEST_F(StepUpTest, ASilentPeerIsClosedAtTheTimeLimit) {
  for (const StepUpRole role : {StepUpRole::kResponder, StepUpRole::kInitiator}) {
    tcp::acceptor acceptor = ListenByHand();
    peer_ = tcp::socket(loop_.context());
    peer_.connect(acceptor.local_endpoint());
    own_ = acceptor.accept();
    options_ = {};
    options_.time_limit = std::chrono::milliseconds(30);
    const PendingResult outcome = Start(role, "granted");
    if (role == StepUpRole::kResponder) Write(Request().substr(0, 19));
    ASSERT_TRUE(RunUntil([&] { return outcome->has_value(); }));
    EXPECT_EQ((*outcome)->error().kind, Kind::kTimedOut);
    Read(peer_, 7 + (role == StepUpRole::kInitiator ? Request().size() : 0));
    EXPECT_TRUE(Closes(peer_));
  }
}

TEST_F(StepUpTest, ASecondRequestIsAnInvalidFpdu) {
  const PendingResult outcome = Start(StepUpRole::kResponder);
  Write(Request() + Request());
  EXPECT_FALSE(ReadFrame(peer_, MpaFrame::Kind::kReply).rejected);
  const auto endpoint = EndpointOf(outcome);
  // The second frame reads as an FPDU of more than 19000 octets.
  Write(std::string(20'000, 'x'));
  EXPECT_EQ(PollToTheEnd(*endpoint).back().reason, DisconnectReason::kProtocolError);
}

TEST_F(StepUpTest, TheInitiatorRefusesARecordInsteadOfTheReply) {
  const PendingResult outcome = Start(StepUpRole::kInitiator);
  EXPECT_TRUE(ReadRequest(peer_).private_data.empty());
  Write(kRecord);
  ExpectFailure(outcome, Kind::kProtocol);
}

TEST_F(StepUpTest, TheInitiatorRefusesOctetsInFrontOfTheReply) {
  const PendingResult outcome = Start(StepUpRole::kInitiator, {}, kRecord);
  ReadRequest(peer_);
  ExpectFailure(outcome, Kind::kProtocol);
}

TEST_F(StepUpTest, TheInitiatorLearnsThatTheResponderRejects) {
  const PendingResult outcome = Start(StepUpRole::kInitiator);
  const MpaFrame request = ReadRequest(peer_);
  Write(Text(RejectRequest({}, request, {}).Serialize()));
  ExpectFailure(outcome, Kind::kRejected);
}

TEST_F(StepUpTest, AStopEndsTheWait) {
  std::stop_source stop;
  options_.stop = stop.get_token();
  const PendingResult outcome = Start(StepUpRole::kResponder);
  EXPECT_FALSE(outcome->has_value());
  stop.request_stop();
  ExpectFailure(outcome, Kind::kCancelled);
}

TEST_F(StepUpTest, TheEndOfTheProviderEndsTheWait) {
  const PendingResult outcome = Start(StepUpRole::kResponder);
  listener_.reset();
  provider_.reset();
  ExpectFailure(outcome, Kind::kCancelled);
}

}  // namespace
}  // namespace penstock::rdma::iwarp
