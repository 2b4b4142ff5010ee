// Tests of established connections: nudges, files, stalled peers and the end of a connection. The test plays the peer
// on a plain TCP socket.
#include <unistd.h>

#include <cstdio>
#include <tuple>

#include "rdma/iwarp/provider_test_fixture.h"

namespace penstock::rdma::iwarp {
namespace {

class SocketDriverTest : public ProviderTest {};

// Like siw, the peer has the first FPDU and does not read it until more octets arrive.
TEST_F(SocketDriverTest, NudgesAPeerThatDoesNotAnswer) {
  Options options;
  options.crc = false;
  options.nudge_after = std::chrono::milliseconds(5);
  Use(options);
  tcp::acceptor acceptor = ListenByHand();
  auto result = StartConnect(acceptor.local_endpoint());
  tcp::socket peer = acceptor.accept();
  const MpaFrame request = ReadRequest(peer);
  Write(peer, AcceptRequest({.crc = false}, request, {}).reply.Serialize());
  ASSERT_TRUE(RunUntil([&] { return result->has_value(); }));
  auto& endpoint = ***result;
  endpoint->Start([] {});
  endpoint->PostSend({1, GatherOf(AsBytes("abcd")), false, {}});
  EXPECT_EQ(Read(peer, 28), FromHex("0016 41 43 00000000 00000000 00000001 00000000 61626364 00000000"));
  // The endpoint sends three nudges.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Read(peer, 20), FromHex("000e c1 40 00000000 0000000000000000 00000000"));
  TurnFor(loop_, std::chrono::milliseconds(30));
  EXPECT_EQ(Poll(*endpoint).size(), 1u) << "only the Send; nudges have no completion";
}

TEST_F(SocketDriverTest, ResetAtAnyOctetLosesNoCompletion) {
  Forge forge(Framing{});
  Octets stream = forge.Segment(Untagged(Opcode::kSend, kSendQueue, 1), AsBytes("abc"));
  for (size_t size = 0; size <= stream.size(); ++size) {
    tcp::socket peer = Dial();
    auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
    endpoint->PostReceive({1, 512});
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

// The peer can work on the first requests of a long turn while this side makes the next.
TEST_F(SocketDriverTest, SendsBeforeTheEndOfATurnIfManyOctetsArePosted) {
  tcp::socket peer = Dial();
  Endpoint* owned = nullptr;
  const Octets part = Pattern(20000);
  std::vector<size_t> waiting;  // octets that the peer can read, after each Send
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}), [&] {
    for (auto& completion : Poll(*owned)) {
      if (completion.operation != Operation::kReceive) continue;
      for (Context context = 1; context <= 4; ++context) {
        owned->PostSend({context, GatherOf(part), false, {}});
        waiting.push_back(peer.available());
      }
    }
  });
  owned = endpoint.get();
  endpoint->PostReceive({.size = 64});
  Write(peer, Forge(Framing{}).Segment(Untagged(Opcode::kSend, kSendQueue, 1), AsBytes("go")));
  ASSERT_TRUE(RunUntil([&] { return waiting.size() == 4; }));
  EXPECT_EQ(waiting[2], 0u) << "60,000 octets leave together with what follows";
  EXPECT_GT(waiting[3], 60000u);
}

TEST_F(SocketDriverTest, SendsBeforeTheEndOfATurnIfManyMessagesArePosted) {
  constexpr size_t kEarly = 8, kMessages = 20;
  tcp::socket peer = Dial();
  Endpoint* owned = nullptr;
  std::vector<size_t> waiting;  // octets that the peer can read, after each Send
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}), [&] {
    for (auto& completion : Poll(*owned)) {
      if (completion.operation != Operation::kReceive) continue;
      for (Context context = 1; context <= kMessages; ++context) {
        owned->PostSend({context, GatherOf(AsBytes("reply")), false, {}});
        waiting.push_back(peer.available());
      }
    }
  });
  owned = endpoint.get();
  endpoint->PostReceive({.size = 64});
  Write(peer, Forge(Framing{}).Segment(Untagged(Opcode::kSend, kSendQueue, 1), AsBytes("go")));
  ASSERT_TRUE(RunUntil([&] { return waiting.size() == kMessages; }));
  EXPECT_EQ(waiting[kEarly - 2], 0u);
  EXPECT_GT(waiting[kEarly - 1], 0u);
  EXPECT_EQ(waiting.back(), waiting[kEarly - 1]) << "the others leave together";
}

// The other connections of a loop wait for the end of a turn.
TEST_F(SocketDriverTest, ATurnSendsALimitedShareEvenIfThePeerReadsAllOfIt) {
  tcp::socket peer = Dial();
  Endpoint* owned = nullptr;
  const Octets part = Pattern(1 << 20);
  constexpr size_t kParts = 16;
  size_t read = 0;  // by the peer
  std::vector<char> memory(1 << 20);
  const auto read_all = [&] {
    while (peer.available() > 0) read += peer.read_some(asio::buffer(memory));
  };
  size_t in_turn = 0;
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}), [&] {
    for (auto& completion : Poll(*owned)) {
      if (completion.operation != Operation::kReceive) continue;
      for (Context context = 1; context <= kParts; ++context) {
        owned->PostSend({context, GatherOf(part), false, {}});
        read_all();
      }
      in_turn = read;
    }
  });
  owned = endpoint.get();
  endpoint->PostReceive({.size = 64});
  Write(peer, Forge(Framing{}).Segment(Untagged(Opcode::kSend, kSendQueue, 1), AsBytes("go")));
  ASSERT_TRUE(RunUntil([&] {
    read_all();
    return read >= kParts << 20;
  }));
  EXPECT_GT(in_turn, 0u);
  EXPECT_LE(in_turn, size_t{10} << 20);
}

TEST_F(SocketDriverTest, SendsATerminateBeforeClosing) {
  tcp::socket peer = Dial();
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
  Forge forge(Framing{});
  Write(peer, forge.Segment(Tagged(Opcode::kWrite, Stag(1), 0), AsBytes("abc")));
  const auto done = PollToTheEnd(*endpoint);
  EXPECT_EQ(done.back().reason, DisconnectReason::kProtocolError);
  endpoint.reset();  // the driver sends the Terminate without the endpoint
  const Octets terminate = Read(peer, 2 + 18 + 4 + 2 + 14 + 4);
  ASSERT_EQ(terminate.size(), 44u);
  EXPECT_EQ(TerminateMessage::Parse(ConstBytes(terminate).subspan(20, 20))->code, terminate::kInvalidStag);
  EXPECT_TRUE(Closes(peer));
}

TEST_F(SocketDriverTest, EndsSoonIfThePeerDoesNotCloseItsHalf) {
  Options options;
  options.close_timeout = std::chrono::milliseconds(20);
  Use(options);
  tcp::socket peer = Dial();
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
  endpoint->Disconnect();
  EXPECT_EQ(PollToTheEnd(*endpoint).back().reason, DisconnectReason::kLocal);
}

TEST_F(SocketDriverTest, EndsSoonIfThePeerStalls) {
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
      {"a message without its last segment", half_message},
  };
  for (const auto& [name, octets] : cases) {
    tcp::socket peer = Dial();
    auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
    endpoint->PostReceive({1, 64});
    Write(peer, octets);
    EXPECT_EQ(PollToTheEnd(*endpoint).back().detail, "the peer stalled") << name;
  }

  // The peer never answers a Read, and never receives the octets of a Write.
  for (bool read : {true, false}) {
    tcp::socket peer = Dial();
    auto endpoint = AcceptFrom(peer, MakeRequest({.ird = 4, .ord = 4}, {}));
    Octets memory(read ? 64 : 64 << 20);
    Write(peer, Forge({.crc = true, .markers = false})
                    .Segment(Tagged(Opcode::kWrite, Stag(0), 0)));  // after this FPDU the responder may send
    if (read) {
      endpoint->PostRead({.context = 2, .local = memory, .owner = {}, .remote = {Stag(1), 64, 0}});
    } else {
      endpoint->PostWrite({2, GatherOf(memory), {Stag(1), static_cast<uint32_t>(memory.size()), 0}});
    }
    EXPECT_EQ(PollToTheEnd(*endpoint).back().detail, "the peer stalled") << read;
  }
}

TEST_F(SocketDriverTest, KeepsAnIdlePeer) {
  Options options;
  options.stall_limit = std::chrono::milliseconds(20);
  Use(options);
  tcp::socket peer = Dial();
  auto endpoint = AcceptFrom(peer, MakeRequest({}, {}));
  TurnFor(loop_, std::chrono::milliseconds(200));
  EXPECT_TRUE(Poll(*endpoint).empty());
}

TEST_F(SocketDriverTest, DisconnectEndsSoonIfThePeerReceivesNothing) {
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

class FileTest : public SocketDriverTest, public testing::WithParamInterface<std::tuple<bool, bool>> {};

TEST_P(FileTest, PadsAShortFileWithZeros) {
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

  auto connecting = StartConnect(listener_->local());
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
  server->PostReceive({1, 64});
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

}  // namespace
}  // namespace penstock::rdma::iwarp
