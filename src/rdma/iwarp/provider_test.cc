// Set-up and sockets against peers that are not our own: plain TCP sockets played by the test.
#include "rdma/iwarp/provider.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <cstdio>

#include "base/address.h"
#include "base/descriptor_shortage.h"
#include "base/test_descriptors.h"
#include "base/test_loop.h"
#include "rdma/iwarp/mpa_negotiation.h"
#include "rdma/iwarp/test_wire.h"

namespace penstock::rdma::iwarp {
namespace {

using asio::ip::tcp;

class ProviderTest : public testing::Test {
 protected:
  ProviderTest() { Use({}); }
  ~ProviderTest() override {
    listener_.reset();
    provider_.reset();
    TurnFor(loop_, std::chrono::milliseconds(5));
  }

  void Use(const Options& options) {
    listener_.reset();
    provider_ = std::make_unique<Provider>(loop_, options);
    listener_ = *provider_->Listen(Address(asio::ip::address_v4::loopback(), 0));
  }
  template <class Done>
  bool RunUntil(Done done) {
    return TurnUntil(loop_, done);
  }
  template <class T>
  T Await(Task<T> task) {
    auto result = std::make_shared<std::optional<T>>();
    Spawn(Store(std::move(task), result));
    EXPECT_TRUE(RunUntil([&] { return result->has_value(); }));
    return std::move(**result);
  }
  template <class T>
  static Task<void> Store(Task<T> task, std::shared_ptr<std::optional<T>> result) {
    T value = co_await std::move(task);
    result->emplace(std::move(value));
  }

  // A peer by hand, on a blocking socket.
  tcp::socket Dial() {
    tcp::socket socket(loop_.context());
    socket.connect(listener_->local());
    return socket;
  }
  tcp::socket DialFrom(const IpAddress& address) {
    tcp::socket socket(loop_.context(), tcp::v4());
    socket.bind(tcp::endpoint(address, 0));
    socket.connect(listener_->local());
    return socket;
  }
  void Write(tcp::socket& socket, ConstBytes bytes) { asio::write(socket, asio::buffer(bytes.data(), bytes.size())); }
  // What has come within a moment.
  Octets Read(tcp::socket& socket, size_t size) {
    Octets bytes(size);
    size_t have = 0;
    bool ended = false;
    RunUntil([&] {
      const ssize_t n = ::recv(socket.native_handle(), bytes.data() + have, size - have, MSG_DONTWAIT);
      if (n > 0) have += static_cast<size_t>(n);
      ended = n == 0 || (n < 0 && errno != EAGAIN);
      return have == size || ended;
    });
    bytes.resize(have);
    return bytes;
  }
  bool Closes(tcp::socket& socket) { return Read(socket, 1).empty(); }

  // Accepts a hand-made request, and starts the endpoint.
  std::unique_ptr<Endpoint> AcceptFrom(tcp::socket& socket, const MpaFrame& request) {
    Write(socket, request.Serialize());
    auto incoming = Await(listener_->Next());
    auto endpoint = Await(incoming->Accept({}));
    EXPECT_TRUE(endpoint);
    const Octets head = Read(socket, MpaFrame::kHeaderSize);
    auto rest = MpaFrame::PrivateDataSize(head, MpaFrame::Kind::kReply);
    EXPECT_TRUE(rest);
    Octets whole = head;
    const Octets tail = Read(socket, rest.value_or(0));
    whole.insert(whole.end(), tail.begin(), tail.end());
    reply_ = MpaFrame::Parse(whole, MpaFrame::Kind::kReply).value();
    (*endpoint)->Start([] {});
    return *std::move(endpoint);
  }
  std::vector<rdma::Completion> Poll(Endpoint& endpoint) {
    std::vector<rdma::Completion> some(100);
    some.resize(endpoint.Poll(some));
    return some;
  }
  // Until the endpoint has told its end.
  std::vector<rdma::Completion> PollToTheEnd(Endpoint& endpoint) {
    std::vector<rdma::Completion> all;
    RunUntil([&] {
      for (auto& completion : Poll(endpoint)) all.push_back(std::move(completion));
      return !all.empty() && all.back().operation == Operation::kDisconnected;
    });
    return all;
  }

  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.context().get_executor()};
  std::unique_ptr<Provider> provider_;
  std::unique_ptr<Listener> listener_;
  MpaFrame reply_;
};

TEST_F(ProviderTest, ALinuxClientIsAnsweredInItsOwnWay) {
  Options options;
  options.crc = false;
  Use(options);
  tcp::socket peer = Dial();
  const Octets request = FromHex("4d504120494420526571204672616d65 10 02 000c 0080 0000 f6ab0e18 01 01 03 03");
  auto endpoint = AcceptFrom(peer, *MpaFrame::Parse(request, MpaFrame::Kind::kRequest));
  // Enhanced, revision 2; it reads nothing of ours, and we at most 16 at once of the 128 that it serves.
  EXPECT_EQ(reply_.revision, 2);
  EXPECT_FALSE(reply_.crc || reply_.markers || reply_.rejected);
  EXPECT_EQ(reply_.enhanced, (EnhancedData{.ird = 0, .ord = 16}));
  EXPECT_EQ(endpoint->info().ord, 16);
  EXPECT_TRUE(Equal(endpoint->info().private_data, FromHex("f6ab0e18 01010303")));

  endpoint->PostReceive(5, endpoint->buffers().Allocate(1024));
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

TEST_F(ProviderTest, MalformedRequestsAreClosedAndHoldUpNobody) {
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

TEST_F(ProviderTest, APeerThatDoesNotAskInTimeIsClosed) {
  Options options;
  options.request_timeout = std::chrono::milliseconds(20);
  Use(options);
  tcp::socket first = Dial(), second = Dial();
  EXPECT_TRUE(Closes(first));
  EXPECT_TRUE(Closes(second));
}

TEST_F(ProviderTest, AHostThatIsSilentKeepsNoOtherHostWaiting) {
  Options options;
  options.request_timeout = std::chrono::hours(1);
  options.max_pending = 3;
  Use(options);
  std::vector<tcp::socket> crowd;
  for (int i = 0; i < 10; ++i) crowd.push_back(DialFrom(asio::ip::make_address("127.0.0.2")));
  Write(crowd.back(), AsBytes("MPA ID R"));
  tcp::socket other = Dial();
  EXPECT_TRUE(AcceptFrom(other, MakeRequest({}, {})));
  // The places were the first ones'; the last ones have them now.
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(Closes(crowd[i])) << i;
  EXPECT_TRUE(AcceptFrom(crowd[8], MakeRequest({}, {})));
}

TEST_F(ProviderTest, RequestsThatNobodyTakesAreRejectedForThoseOfOtherHosts) {
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

TEST_F(ProviderTest, ARequestThatWasTakenNeedsNoPlace) {
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

TEST_F(ProviderTest, ARevisionOnePeerIsServed) {
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

  tcp::acceptor other(loop_.context(), Address(asio::ip::address_v4::loopback(), 0));
  auto result = std::make_shared<std::optional<ConnectResult>>();
  Spawn(Store(provider_->Connect(other.local_endpoint(), {}), result));
  tcp::socket asked = other.accept();
  Octets request = Read(asked, MpaFrame::kHeaderSize);
  const auto rest = MpaFrame::PrivateDataSize(request, MpaFrame::Kind::kRequest);
  ASSERT_TRUE(rest);
  const Octets tail = Read(asked, *rest);
  request.insert(request.end(), tail.begin(), tail.end());
  EXPECT_TRUE(MpaFrame::Parse(request, MpaFrame::Kind::kRequest)->crc);
  asked.close();
  other.close();
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
}

// RFC 6581 §10: an old responder takes an enhanced request for malformed.
TEST_F(ProviderTest, AResponderWithoutTheEnhancementsIsTriedWithRevisionOne) {
  tcp::acceptor old(loop_.context(), Address(asio::ip::address_v4::loopback(), 0));
  auto result = std::make_shared<std::optional<ConnectResult>>();
  Spawn(Store(provider_->Connect(old.local_endpoint(), {}), result));
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
  const Octets request = Read(second, MpaFrame::kHeaderSize);
  EXPECT_EQ(MpaFrame::Parse(request, MpaFrame::Kind::kRequest)->revision, 1);
  MpaFrame reply;
  reply.kind = MpaFrame::Kind::kReply;
  reply.crc = true;
  Write(second, reply.Serialize());
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  ASSERT_TRUE(**result) << (**result).error().detail;
  EXPECT_EQ((***result)->info().ord, 16);
}

TEST_F(ProviderTest, AResponderThatSaysNothingIsGivenUpInTime) {
  tcp::acceptor silent(loop_.context(), Address(asio::ip::address_v4::loopback(), 0));
  ConnectOptions options;
  options.time_limit = std::chrono::milliseconds(30);
  auto result = Await(provider_->Connect(silent.local_endpoint(), std::move(options)));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ConnectError::Kind::kTimedOut);
}

TEST_F(ProviderTest, AResponderMayAnswerLaterThanTcpMayTakeToConnect) {
  Options options;
  options.connect_timeout = std::chrono::seconds(1);
  Use(options);
  tcp::acceptor acceptor(loop_.context(), Address(asio::ip::address_v4::loopback(), 0));
  ConnectOptions patient;
  patient.time_limit = std::chrono::hours(1);
  auto result = std::make_shared<std::optional<ConnectResult>>();
  Spawn(Store(provider_->Connect(acceptor.local_endpoint(), std::move(patient)), result));
  tcp::socket peer = acceptor.accept();
  const MpaFrame request = MpaFrame::Parse(Read(peer, 24), MpaFrame::Kind::kRequest).value();
  TurnFor(loop_, options.connect_timeout + std::chrono::milliseconds(100));
  Write(peer, AcceptRequest({}, request, {}).reply.Serialize());
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  EXPECT_TRUE(**result) << (**result).error().detail;
}

TEST_F(ProviderTest, AReplyThatWillNotDoIsAnsweredByATerminate) {
  tcp::acceptor acceptor(loop_.context(), Address(asio::ip::address_v4::loopback(), 0));
  auto result = std::make_shared<std::optional<ConnectResult>>();
  Spawn(Store(provider_->Connect(acceptor.local_endpoint(), {}), result));
  tcp::socket peer = acceptor.accept();
  const Octets bytes = Read(peer, 24);
  const MpaFrame request = MpaFrame::Parse(bytes, MpaFrame::Kind::kRequest).value();
  MpaFrame reply = AcceptRequest({}, request, {}).reply;
  reply.enhanced->ord = 17;  // more than we serve
  Write(peer, reply.Serialize());
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  ASSERT_FALSE(**result);
  EXPECT_EQ((**result).error().detail, "MPA insufficient IRD");
  const Octets terminate = Read(peer, 2 + 18 + 4 + 4);
  ASSERT_EQ(terminate.size(), 28u);
  EXPECT_EQ(TerminateMessage::Parse(ConstBytes(terminate).subspan(20, 4))->code, terminate::kInsufficientIrd);
}

// RFC 6581 §9.1
TEST_F(ProviderTest, ARejectionSaysWhatDepthsThePeerWanted) {
  auto result = std::make_shared<std::optional<ConnectResult>>();
  ConnectOptions options;
  options.ird = 3, options.ord = 4;
  Spawn(Store(provider_->Connect(listener_->local(), options), result));
  auto request = Await(listener_->Next());
  EXPECT_EQ(request->read_depths(), (ReadDepths{.ird = 3, .ord = 4}));
  request->Reject({});
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  ASSERT_FALSE(**result);
  EXPECT_EQ((**result).error().kind, ConnectError::Kind::kRejected);
  EXPECT_EQ((**result).error().peer_depths, (ReadDepths{.ird = 16, .ord = 16}));
}

// RFC 5044 §7.1.2 rules 5 and 8: our own request comes back, the peer takes itself for the initiator.
TEST_F(ProviderTest, AMalformedReplyIsClosed) {
  Options options;
  options.fall_back_to_revision_1 = false;
  Use(options);
  tcp::acceptor acceptor(loop_.context(), Address(asio::ip::address_v4::loopback(), 0));
  auto result = std::make_shared<std::optional<ConnectResult>>();
  Spawn(Store(provider_->Connect(acceptor.local_endpoint(), {}), result));
  tcp::socket peer = acceptor.accept();
  Write(peer, Read(peer, 24));
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  ASSERT_FALSE(**result);
  EXPECT_EQ((**result).error().kind, ConnectError::Kind::kProtocol);
  EXPECT_TRUE(Closes(peer));
}

// The siw race: the peer has our first FPDU and does nothing about it until more octets come.
TEST_F(ProviderTest, APeerThatDoesNotAnswerIsNudged) {
  Options options;
  options.crc = false;
  options.nudge_after = std::chrono::milliseconds(5);
  Use(options);
  tcp::acceptor acceptor(loop_.context(), Address(asio::ip::address_v4::loopback(), 0));
  auto result = std::make_shared<std::optional<ConnectResult>>();
  Spawn(Store(provider_->Connect(acceptor.local_endpoint(), {}), result));
  tcp::socket peer = acceptor.accept();
  const Octets bytes = Read(peer, 24);
  const MpaFrame request = MpaFrame::Parse(bytes, MpaFrame::Kind::kRequest).value();
  Write(peer, AcceptRequest({.crc = false}, request, {}).reply.Serialize());
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  auto& endpoint = ***result;
  endpoint->Start([] {});
  endpoint->PostSend({1, GatherOf(AsBytes("abcd")), false, {}});
  EXPECT_EQ(Read(peer, 28), FromHex("0016 41 43 00000000 00000000 00000001 00000000 61626364 00000000"));
  // Three times, and no more.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Read(peer, 20), FromHex("000e c1 40 00000000 0000000000000000 00000000"));
  TurnFor(loop_, std::chrono::milliseconds(30));
  EXPECT_EQ(Poll(*endpoint).size(), 1u) << "the Send; nothing about nudges";
}

TEST_F(ProviderTest, AConnectionThatIsResetAtAnyOctetLosesNoCompletion) {
  Forge forge(Framing{});
  Octets stream = forge.Segment(Untagged(Opcode::kSend, kSendQueue, 1), AsBytes("abc"));
  for (size_t size = 0; size <= stream.size(); ++size) {
    tcp::socket peer = Dial();
    auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
    endpoint->PostReceive(1, endpoint->buffers().Allocate(512));
    endpoint->PostSend({2, GatherOf(AsBytes("abc")), false, {}});
    Write(peer, ConstBytes(stream).first(size));
    TurnFor(loop_, std::chrono::milliseconds(1));
    peer.set_option(asio::socket_base::linger(true, 0));
    peer.close();
    const auto done = PollToTheEnd(*endpoint);
    ASSERT_EQ(done.size(), 3u) << size;
    EXPECT_EQ(done.back().reason, DisconnectReason::kPeerReset);
  }
}

TEST_F(ProviderTest, ARefusedPeerGetsTheTerminateAndThenTheEnd) {
  tcp::socket peer = Dial();
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
  Forge forge(Framing{});
  Write(peer, forge.Segment(Tagged(Opcode::kWrite, Stag(1), 0), AsBytes("abc")));
  const auto done = PollToTheEnd(*endpoint);
  EXPECT_EQ(done.back().reason, DisconnectReason::kProtocolError);
  endpoint.reset();  // the farewell goes on without it
  const Octets terminate = Read(peer, 2 + 18 + 4 + 2 + 14 + 4);
  ASSERT_EQ(terminate.size(), 44u);
  EXPECT_EQ(TerminateMessage::Parse(ConstBytes(terminate).subspan(20, 20))->code, terminate::kInvalidStag);
  EXPECT_TRUE(Closes(peer));
}

TEST_F(ProviderTest, APeerThatNeverClosesItsHalfIsNotWaitedForLong) {
  Options options;
  options.close_timeout = std::chrono::milliseconds(20);
  Use(options);
  tcp::socket peer = Dial();
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
  endpoint->Disconnect();
  EXPECT_EQ(PollToTheEnd(*endpoint).back().reason, DisconnectReason::kLocal);
}

TEST_F(ProviderTest, APeerThatLeavesSomethingHalfDoneIsNotWaitedForLong) {
  Options options;
  options.stall_limit = std::chrono::milliseconds(80);
  Use(options);
  Forge forge({.crc = true, .markers = false});
  const Octets segment = forge.Segment(Untagged(Opcode::kSend, kSendQueue, 1), Octets(40));
  const Octets half_message = forge.Segment(Untagged(Opcode::kSend, kSendQueue, 1, 0, false), Octets(8));
  const std::pair<std::string_view, ConstBytes> cases[] = {
      {"one octet of a frame", ConstBytes(segment).first(1)},
      {"a header", ConstBytes(segment).first(20)},
      {"a frame without its check value", ConstBytes(segment).first(segment.size() - 4)},
      {"a message without its end", half_message},
  };
  for (const auto& [name, octets] : cases) {
    tcp::socket peer = Dial();
    auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
    endpoint->PostReceive(1, endpoint->buffers().Allocate(64));
    Write(peer, octets);
    EXPECT_EQ(PollToTheEnd(*endpoint).back().detail, "the peer stalled") << name;
  }

  // A Read of ours that is never answered; and octets that are never taken.
  for (bool read : {true, false}) {
    tcp::socket peer = Dial();
    auto endpoint = AcceptFrom(peer, MakeRequest({.ird = 4, .ord = 4}, {}));
    Octets memory(read ? 64 : 64 << 20);
    Write(peer,
          Forge({.crc = true, .markers = false}).Segment(Tagged(Opcode::kWrite, Stag(0), 0)));  // we may speak now
    if (read) {
      endpoint->PostRead({.context = 2, .local = memory, .owner = {}, .remote = {Stag(1), 64, 0}});
    } else {
      endpoint->PostWrite({2, GatherOf(memory), {Stag(1), static_cast<uint32_t>(memory.size()), 0}});
    }
    EXPECT_EQ(PollToTheEnd(*endpoint).back().detail, "the peer stalled") << read;
  }
}

TEST_F(ProviderTest, AnIdlePeerIsLeftAlone) {
  Options options;
  options.stall_limit = std::chrono::milliseconds(20);
  Use(options);
  tcp::socket peer = Dial();
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
  TurnFor(loop_, std::chrono::milliseconds(200));
  EXPECT_TRUE(Poll(*endpoint).empty());
}

TEST_F(ProviderTest, APeerThatTakesNothingDoesNotHoldUpTheEnd) {
  Options options;
  options.close_timeout = std::chrono::milliseconds(20);
  Use(options);
  tcp::socket peer = Dial();
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
  const Octets memory(64 << 20);
  Write(peer, Forge({.crc = true, .markers = false}).Segment(Tagged(Opcode::kWrite, Stag(0), 0)));
  endpoint->PostWrite({2, GatherOf(memory), {Stag(1), static_cast<uint32_t>(memory.size()), 0}});
  endpoint->Disconnect();
  EXPECT_EQ(PollToTheEnd(*endpoint).back().reason, DisconnectReason::kLocal);
}

class FileTest : public ProviderTest, public testing::WithParamInterface<std::tuple<bool, bool>> {};

TEST_P(FileTest, FilesAreSentWithZerosForWhatIsNotThere) {
  Options options;
  options.crc = std::get<0>(GetParam());
  options.markers = std::get<1>(GetParam());
  Use(options);
  const Octets contents = Pattern(200000);
  std::FILE* temporary = std::tmpfile();
  ASSERT_EQ(std::fwrite(contents.data(), 1, contents.size(), temporary), contents.size());
  std::fflush(temporary);
  auto file = std::make_shared<const FileDescriptor>(::dup(::fileno(temporary)));
  std::fclose(temporary);

  auto connecting = std::make_shared<std::optional<ConnectResult>>();
  Spawn(Store(provider_->Connect(listener_->local(), {}), connecting));
  auto request = Await(listener_->Next());
  auto server = *Await(request->Accept({}));
  ASSERT_TRUE(RunUntil([&] { return connecting->has_value(); }));
  auto client = **std::move(*connecting);
  client->Start([] {});
  server->Start([] {});

  Octets target(250020), expected(250020);
  std::ranges::copy(AsBytes("head: "), expected.begin());
  std::copy(contents.begin() + 1000, contents.end(), expected.begin() + 6);
  auto region = server->Register(target, Access::kRemoteWrite);
  server->PostReceive(1, server->buffers().Allocate(64));
  Gather gather = GatherOf(AsBytes("head: "));
  gather.push_back(Data(file, 1000, 250000));
  const Octets tail(14);
  gather.push_back(Slice::Borrowed(tail));
  client->PostWrite({2, std::move(gather), region->Segment(0, 250020)});
  client->PostSend({3, GatherOf(AsBytes("done")), false, {}});
  std::vector<rdma::Completion> received;
  ASSERT_TRUE(RunUntil([&] {
    received = Poll(*server);
    return !received.empty();
  }));
  EXPECT_EQ(received[0].context, 1u);
  EXPECT_EQ(target, expected);
  EXPECT_EQ(Poll(*client).size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Framings, FileTest, testing::Combine(testing::Bool(), testing::Bool()));

TEST_F(ProviderTest, APeerWaitsForADescriptorAndIsServedThen) {
  int told = 0;
  Options options;
  options.shortage = std::make_shared<DescriptorShortage>([&] { ++told; });
  Use(options);
  tcp::socket peer(loop_.context(), tcp::v4());
  {
    const NoFreeDescriptors few(8);
    peer.connect(listener_->local());
    EXPECT_TRUE(RunUntil([&] { return told >= 2; })) << "the last ones are for others";
    EXPECT_LT(told, 10) << "it is tried in pauses";
  }
  EXPECT_TRUE(AcceptFrom(peer, MakeRequest({}, {})));
}

TEST_F(ProviderTest, ASilentPeerGivesItsDescriptorUpWhereTheyAreShort) {
  Options options;
  options.request_timeout = std::chrono::hours(1);
  Use(options);
  tcp::socket silent = DialFrom(asio::ip::make_address("127.0.0.2"));
  tcp::socket other = Dial();
  const auto endpoint = AcceptFrom(other, MakeRequest({}, {}));  // so the silent one was accepted, too
  tcp::socket peer(loop_.context(), tcp::v4());
  // The numbers below the limit are in use, so that the silent one's is among the lowest.
  std::vector<std::unique_ptr<FileDescriptor>> others;
  for (int i = 0; i < 100; ++i) others.push_back(std::make_unique<FileDescriptor>(::dup(0)));
  const NoFreeDescriptors few(8);
  peer.connect(listener_->local());
  EXPECT_TRUE(AcceptFrom(peer, MakeRequest({}, {})));
  EXPECT_TRUE(Closes(silent));
}

}  // namespace
}  // namespace penstock::rdma::iwarp
