// Tests of connection set-up. The test plays the peer on a plain TCP socket.
#include "rdma/iwarp/provider.h"

#include <unistd.h>

#include "base/descriptor_shortage.h"
#include "base/test_descriptors.h"
#include "rdma/iwarp/provider_test_fixture.h"

namespace penstock::rdma::iwarp {
namespace {

TEST_F(ProviderTest, AnswersALinuxClientWithItsOptions) {
  Options options;
  options.crc = false;
  Use(options);
  tcp::socket peer = Dial();
  const Octets request = FromHex("4d504120494420526571204672616d65 10 02 000c 0080 0000 f6ab0e18 01 01 03 03");
  auto endpoint = AcceptFrom(peer, *MpaFrame::Parse(request, MpaFrame::Kind::kRequest));
  // The reply is enhanced and has revision 2. The client issues no Reads. It serves 128 Reads, and this side uses 16 at
  // once.
  EXPECT_EQ(reply_.revision, 2);
  EXPECT_FALSE(reply_.crc || reply_.markers || reply_.rejected);
  EXPECT_EQ(reply_.enhanced, (EnhancedData{.ird = 0, .ord = 16}));
  EXPECT_EQ(endpoint->info().ord, 16);
  EXPECT_TRUE(Equal(endpoint->info().private_data, FromHex("f6ab0e18 01010303")));

  endpoint->PostReceive({5, 1024});
  Write(peer, FromHex("0016 41 43 00000000 00000000 00000001 00000000 61626364 00000000"));
  std::vector<rdma::Completion> received;
  RunUntil([&] {
    received = Poll(*endpoint);
    return !received.empty();
  });
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(AsText(received[0].buffer->bytes().first(received[0].length)), "abcd");
  endpoint->PostSend({6, GatherOf(AsBytes("efgh")), false, {}});
  EXPECT_EQ(Read(peer, 28), FromHex("0016 41 43 00000000 00000000 00000001 00000000 65666768 00000000"));
  peer.close();
  EXPECT_EQ(PollToTheEnd(*endpoint).back().reason, DisconnectReason::kPeerClosed);
}

TEST_F(ProviderTest, ClosesMalformedRequestsWithoutDelayToOthers) {
  tcp::socket silent = Dial(), slow = Dial(), garbage = Dial(), reply = Dial();
  Write(slow, AsBytes("MPA ID R"));
  Write(garbage, AsBytes("GET / HTTP/1.1\r\nHost: nobody\r\n\r\n"));
  MpaFrame wrong;
  wrong.kind = MpaFrame::Kind::kReply;
  Write(reply, wrong.Serialize());
  tcp::socket good = Dial();
  auto endpoint = AcceptFrom(good, MakeRequest({}, {}));
  EXPECT_TRUE(Closes(garbage));
  EXPECT_TRUE(Closes(reply));
}

TEST_F(ProviderTest, ClosesAPeerWhoseRequestIsLate) {
  Options options;
  options.request_timeout = std::chrono::milliseconds(20);
  Use(options);
  tcp::socket first = Dial(), second = Dial();
  EXPECT_TRUE(Closes(first));
  EXPECT_TRUE(Closes(second));
}

TEST_F(ProviderTest, SilentHostDoesNotDelayOtherHosts) {
  Options options;
  options.request_timeout = std::chrono::hours(1);
  options.max_pending = 3;
  Use(options);
  std::vector<tcp::socket> crowd;
  for (int i = 0; i < 10; ++i) crowd.push_back(DialFrom(asio::ip::make_address("127.0.0.2")));
  Write(crowd.back(), AsBytes("MPA ID R"));
  tcp::socket other = Dial();
  EXPECT_TRUE(AcceptFrom(other, MakeRequest({}, {})));
  // The first connections have lost their places to the later ones.
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(Closes(crowd[i])) << i;
  EXPECT_TRUE(AcceptFrom(crowd[8], MakeRequest({}, {})));
}

TEST_F(ProviderTest, RejectsWaitingRequestsInFavorOfOtherHosts) {
  Options options;
  options.max_pending = 2;
  Use(options);
  std::vector<tcp::socket> crowd;
  for (int i = 0; i < 3; ++i) {
    crowd.push_back(DialFrom(asio::ip::make_address("127.0.0.2")));
    Write(crowd.back(), MakeRequest({}, {}).Serialize());
  }
  const auto is_rejected = [&](tcp::socket& socket) {
    const size_t size = MpaFrame::kHeaderSize + EnhancedData::kSize;
    const Octets bytes = Read(socket, size);
    return bytes.size() == size && MpaFrame::Parse(bytes, MpaFrame::Kind::kReply)->rejected;
  };
  EXPECT_TRUE(is_rejected(crowd[0]));
  tcp::socket other = Dial();
  Write(other, MakeRequest({}, {}).Serialize());
  EXPECT_TRUE(is_rejected(crowd[1]));
  EXPECT_EQ(Await(listener_->Next())->peer().address(), asio::ip::make_address("127.0.0.2"));
  EXPECT_EQ(Await(listener_->Next())->peer().address(), asio::ip::address_v4::loopback());
}

TEST_F(ProviderTest, RequestTakenByTheConsumerFreesItsPlace) {
  Options options;
  options.max_pending = 1;
  Use(options);
  tcp::socket first = Dial();
  Write(first, MakeRequest({}, {}).Serialize());
  auto taken = Await(listener_->Next());
  tcp::socket second = Dial();
  EXPECT_TRUE(AcceptFrom(second, MakeRequest({}, {})));
  EXPECT_TRUE(Await(taken->Accept({})));
}

TEST_F(ProviderTest, ServesARevisionOnePeer) {
  tcp::socket peer = Dial();
  auto endpoint = AcceptFrom(peer, MakeRequest({.revision = 1}, {}));
  EXPECT_EQ(reply_.revision, 1);
  EXPECT_FALSE(reply_.enhanced);
  EXPECT_TRUE(reply_.crc);
}

// RFC 5044 §4.4
TEST_F(ProviderTest, BothSidesAskForCheckValuesByDefault) {
  tcp::socket peer = Dial();
  auto endpoint = AcceptFrom(peer, MakeRequest({.crc = false}, {}));
  EXPECT_TRUE(reply_.crc);

  tcp::acceptor other = ListenByHand();
  auto result = StartConnect(other.local_endpoint());
  tcp::socket asked = other.accept();
  EXPECT_TRUE(ReadRequest(asked).crc);
  asked.close();
  other.close();
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
}

// RFC 6581 §10: to an old responder an enhanced request is malformed.
TEST_F(ProviderTest, RetriesWithRevisionOneIfThePeerCloses) {
  tcp::acceptor old = ListenByHand();
  auto result = StartConnect(old.local_endpoint());
  tcp::socket first = old.accept();
  EXPECT_EQ(std::to_integer<int>(Read(first, 24)[17]), 2);
  first.close();
  tcp::socket second(loop_.context());
  old.non_blocking(true);
  asio::error_code error;
  ASSERT_TRUE(RunUntil([&] {
    old.accept(second, error);
    return !error;
  }));
  EXPECT_EQ(ReadRequest(second).revision, 1);
  MpaFrame reply;
  reply.kind = MpaFrame::Kind::kReply;
  reply.crc = true;
  Write(second, reply.Serialize());
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  ASSERT_TRUE(**result) << (**result).error().detail;
  EXPECT_EQ((***result)->info().ord, 16);
}

TEST_F(ProviderTest, ConnectTimesOutWithoutAReply) {
  tcp::acceptor silent = ListenByHand();
  ConnectOptions options;
  options.time_limit = std::chrono::milliseconds(30);
  auto result = Await(provider_->Connect(silent.local_endpoint(), std::move(options)));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ConnectError::Kind::kTimedOut);
}

TEST_F(ProviderTest, ReplyMayTakeLongerThanConnectTimeout) {
  Options options;
  options.connect_timeout = std::chrono::seconds(1);
  Use(options);
  tcp::acceptor acceptor = ListenByHand();
  ConnectOptions patient;
  patient.time_limit = std::chrono::hours(1);
  auto result = StartConnect(acceptor.local_endpoint(), std::move(patient));
  tcp::socket peer = acceptor.accept();
  const MpaFrame request = ReadRequest(peer);
  TurnFor(loop_, options.connect_timeout + std::chrono::milliseconds(100));
  Write(peer, AcceptRequest({}, request, {}).reply.Serialize());
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  EXPECT_TRUE(**result) << (**result).error().detail;
}

TEST_F(ProviderTest, AnswersAnUnacceptableReplyWithATerminate) {
  tcp::acceptor acceptor = ListenByHand();
  auto result = StartConnect(acceptor.local_endpoint());
  tcp::socket peer = acceptor.accept();
  const MpaFrame request = ReadRequest(peer);
  MpaFrame reply = AcceptRequest({}, request, {}).reply;
  reply.enhanced->ord = 17;  // more than the IRD of the request
  Write(peer, reply.Serialize());
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  ASSERT_FALSE(**result);
  EXPECT_EQ((**result).error().detail, "MPA insufficient IRD");
  const Octets terminate = Read(peer, 2 + 18 + 4 + 4);
  ASSERT_EQ(terminate.size(), 28u);
  EXPECT_EQ(TerminateMessage::Parse(ConstBytes(terminate).subspan(20, 4))->code, terminate::kInsufficientIrd);
}

// RFC 6581 §9.1
TEST_F(ProviderTest, RejectionReportsTheDepthsOfThePeer) {
  ConnectOptions options;
  options.ird = 3, options.ord = 4;
  auto result = StartConnect(listener_->local(), options);
  auto request = Await(listener_->Next());
  EXPECT_EQ(request->read_depths(), (ReadDepths{.ird = 3, .ord = 4}));
  request->Reject({});
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  ASSERT_FALSE(**result);
  EXPECT_EQ((**result).error().kind, ConnectError::Kind::kRejected);
  EXPECT_EQ((**result).error().peer_depths, (ReadDepths{.ird = 16, .ord = 16}));
}

// RFC 5044 §7.1.2 rules 5 and 8: the peer sends a request instead of a reply, as another initiator does.
TEST_F(ProviderTest, ClosesAfterAMalformedReply) {
  Options options;
  options.fall_back_to_revision_1 = false;
  Use(options);
  tcp::acceptor acceptor = ListenByHand();
  auto result = StartConnect(acceptor.local_endpoint());
  tcp::socket peer = acceptor.accept();
  Write(peer, Read(peer, 24));
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  ASSERT_FALSE(**result);
  EXPECT_EQ((**result).error().kind, ConnectError::Kind::kProtocol);
  EXPECT_TRUE(Closes(peer));
}

TEST_F(ProviderTest, ServesAPeerOnceADescriptorIsFree) {
  int told = 0;
  Options options;
  options.shortage = std::make_shared<DescriptorShortage>([&] { ++told; });
  Use(options);
  tcp::socket peer(loop_.context(), tcp::v4());
  {
    const NoFreeDescriptors few(8);
    peer.connect(listener_->local());
    EXPECT_TRUE(RunUntil([&] { return told >= 2; })) << "the last descriptors are for other uses";
    EXPECT_LT(told, 10) << "the listener pauses before it tries again";
  }
  EXPECT_TRUE(AcceptFrom(peer, MakeRequest({}, {})));
}

TEST_F(ProviderTest, DropsASilentPeerIfDescriptorsAreShort) {
  Options options;
  options.request_timeout = std::chrono::hours(1);
  Use(options);
  tcp::socket silent = DialFrom(asio::ip::make_address("127.0.0.2"));
  tcp::socket other = Dial();
  const auto endpoint = AcceptFrom(other, MakeRequest({}, {}));  // therefore the silent peer was accepted too
  tcp::socket peer(loop_.context(), tcp::v4());
  // Uses the numbers below the limit, so that the descriptor of the silent peer is among the lowest.
  std::vector<std::unique_ptr<FileDescriptor>> others;
  for (int i = 0; i < 100; ++i) others.push_back(std::make_unique<FileDescriptor>(::dup(0)));
  const NoFreeDescriptors few(8);
  peer.connect(listener_->local());
  EXPECT_TRUE(AcceptFrom(peer, MakeRequest({}, {})));
  EXPECT_TRUE(Closes(silent));
}

}  // namespace
}  // namespace penstock::rdma::iwarp
