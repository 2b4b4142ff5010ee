#include "rdma/iwarp/rdmap_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "rdma/iwarp/test_wire.h"

namespace penstock::rdma::iwarp {
namespace {

struct Agreed {
  bool crc = false;
  bool markers_to_server = false;
  bool markers_to_client = false;
  size_t max_ulpdu = kMaxUlpdu;
  uint16_t depth = 2;
  std::optional<Rtr> rtr = {};
};

// Two connected streams: the test moves the octets between them.
class RdmapStreamTest : public testing::Test {
 protected:
  void Connect(const Agreed& agreed = {}) {
    RdmapStream::Options client, server;
    client.agreement = {.crc = agreed.crc,
                        .send_markers = agreed.markers_to_server,
                        .receive_markers = agreed.markers_to_client,
                        .ird = agreed.depth,
                        .ord = agreed.depth,
                        .send_rtr = agreed.rtr,
                        .absorb_rtr_send = false};
    server.agreement = {.crc = agreed.crc,
                        .send_markers = agreed.markers_to_client,
                        .receive_markers = agreed.markers_to_server,
                        .ird = agreed.depth,
                        .ord = agreed.depth,
                        .send_rtr = {},
                        .absorb_rtr_send = agreed.rtr == Rtr::kSend};
    client.initiator = true;
    client.max_ulpdu = server.max_ulpdu = agreed.max_ulpdu;
    client_ = std::make_unique<RdmapStream>(client, pool_, TestEntropy(1));
    server_ = std::make_unique<RdmapStream>(server, pool_, TestEntropy(2));
  }
  // Moves octets in both directions until no octets are left to send. Returns the number of octets to the server.
  size_t Run(const std::function<size_t(size_t)>& step = [](size_t left) { return left; }) {
    size_t to_server = 0;
    for (;;) {
      const Octets up = TakeOutput(*client_, 5000);
      Feed(*server_, up, step);
      const Octets down = TakeOutput(*server_);
      Feed(*client_, down, step);
      to_server += up.size();
      if (up.empty() && down.empty()) return to_server;
    }
  }
  // Sends the first message of the client, before which the server must not send.
  void Greet() {
    server_->PostReceive({900, 512});
    client_->PostSend({900, GatherOf(AsBytes("hello")), false, {}});
    Run();
    EXPECT_EQ(PollAll(*server_).size(), 1u);
    EXPECT_EQ(PollAll(*client_).size(), 1u);
  }

  BufferPool pool_;
  std::unique_ptr<RdmapStream> client_, server_;
};

TEST_F(RdmapStreamTest, SendsTheSameOctetsAsLinux) {
  Connect();
  client_->PostSend({1, GatherOf(AsBytes("abcd")), false, {}});
  EXPECT_EQ(TakeOutput(*client_), FromHex("0016 41 43 00000000 00000000 00000001 00000000 61626364 00000000"));
}

TEST_F(RdmapStreamTest, DeliversEveryKindOfSend) {
  Connect();
  Octets memory(10);
  for (Context context = 1; context <= 4; ++context) server_->PostReceive({context, 512});
  auto one = server_->Register(memory, Access::kRemoteRead);
  auto two = server_->Register(memory, Access::kRemoteWrite);
  client_->PostSend({1, GatherOf(AsBytes("plain")), false, {}});
  client_->PostSend({2, GatherOf(AsBytes("solicited")), true, {}});
  client_->PostSend({3, GatherOf(AsBytes("invalidating")), false, one->stag()});
  client_->PostSend({4, {}, true, two->stag()});
  Run([](size_t) { return 3; });
  auto received = PollAll(*server_);
  ASSERT_EQ(received.size(), 4u);
  EXPECT_EQ(AsText(received[0].buffer->bytes().first(received[0].length)), "plain");
  EXPECT_FALSE(received[0].solicited || received[0].invalidated);
  EXPECT_TRUE(received[1].solicited);
  EXPECT_EQ(received[2].invalidated, one->stag());
  EXPECT_EQ(received[3].invalidated, two->stag());
  EXPECT_TRUE(received[3].solicited);
  EXPECT_EQ(received[3].length, 0u);
  EXPECT_FALSE(one->valid() || two->valid());
  EXPECT_EQ(PollAll(*client_).size(), 4u);
}

TEST_F(RdmapStreamTest, AReceiveTakesNoMoreMemoryThanItsMessage) {
  Connect({.max_ulpdu = 1024});
  const size_t before = pool_.outstanding();
  for (Context context = 1; context <= 64; ++context) server_->PostReceive({context, 65536});
  EXPECT_EQ(pool_.outstanding(), before) << "no message has come";
  const Octets octets = Pattern(5000);
  client_->PostSend({1, GatherOf(ConstBytes(octets).first(700)), false, {}});
  client_->PostSend({2, GatherOf(octets), false, {}});
  Run();
  const auto received = PollAll(*server_);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].buffer->capacity(), 1024u) << "one segment, which tells the size of the message";
  EXPECT_EQ(received[1].buffer->capacity(), 65536u) << "several segments, of which the first does not tell it";
  EXPECT_TRUE(Equal(received[1].buffer->bytes().first(received[1].length), octets));
}

TEST_F(RdmapStreamTest, AMessageOfOneOctetMoreThanTheReceiveEndsTheConnection) {
  Connect();
  server_->PostReceive({1, 600});
  server_->PostReceive({2, 600});
  const Octets octets = Pattern(601);
  client_->PostSend({1, GatherOf(ConstBytes(octets).first(600)), false, {}});
  client_->PostSend({2, GatherOf(octets), false, {}});
  Run();
  const auto received = PollAll(*server_);
  ASSERT_EQ(received.size(), 3u);
  EXPECT_EQ(received[0].status, Status::kSuccess);
  EXPECT_EQ(received[1].status, Status::kLocalError);
  EXPECT_EQ(received[2].reason, DisconnectReason::kProtocolError);
}

class FramingTest : public RdmapStreamTest, public testing::WithParamInterface<std::tuple<bool, int, size_t>> {
 protected:
  void Connect() {
    auto [crc, markers, max_ulpdu] = GetParam();
    RdmapStreamTest::Connect({.crc = crc,
                              .markers_to_server = (markers & 1) != 0,
                              .markers_to_client = (markers & 2) != 0,
                              .max_ulpdu = max_ulpdu,
                              .depth = 2,
                              .rtr = {}});
  }
};

// Writes, Reads and Sends of many sizes have the same result for any cut of the stream.
TEST_P(FramingTest, CutsOfTheStreamDoNotChangeTheResult) {
  std::mt19937 random(5);
  const std::function<size_t(size_t)> steps[] = {[](size_t left) { return left; }, [](size_t) { return 1; },
                                                 [&](size_t) { return random() % 100 + 1; },
                                                 [&](size_t) { return random() % 70000 + 1; }};
  for (const auto& step : steps) {
    Connect();
    const Octets data = Pattern(100000);
    Octets target(100000), sink(100000);
    auto writable = server_->Register(target, Access::kRemoteWrite);
    auto readable = server_->Register(target, Access::kRemoteRead);
    for (Context context = 1; context <= 3; ++context) server_->PostReceive({context, 70000});
    client_->PostWrite({11, GatherOf(ConstBytes(data).first(1)), writable->Segment(0, 1)});
    client_->PostSend({12, GatherOf(ConstBytes(data).first(66000)), false, {}});
    client_->PostWrite({13, GatherOf(ConstBytes(data).subspan(1)), writable->Segment(1, 99999)});
    client_->PostSend({14, GatherOf(AsBytes("written")), false, {}});
    for (Context context = 21; context <= 25; ++context) {
      const size_t at = (context - 21) * 20000;
      client_->PostRead({context, Bytes(sink).subspan(at, 20000), {}, readable->Segment(at, 20000)});
    }
    client_->PostSend({15, {}, false, {}});
    Run(step);
    EXPECT_EQ(target, data);
    EXPECT_EQ(sink, data);
    auto received = PollAll(*server_);
    ASSERT_EQ(received.size(), 3u);
    EXPECT_TRUE(Equal(received[0].buffer->bytes().first(66000), ConstBytes(data).first(66000)));
    EXPECT_EQ(received[0].length, 66000u);
    auto done = PollAll(*client_);
    EXPECT_EQ(done.size(), 10u);
    for (const auto& completion : done) EXPECT_EQ(completion.status, Status::kSuccess);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FramingTest,
                         testing::Combine(testing::Bool(), testing::Values(0, 1, 2, 3),
                                          testing::Values(size_t{128}, size_t{1442}, kMaxUlpdu)));

TEST_F(RdmapStreamTest, ReceivesLargePayloadsDirectlyAtTheirDestination) {
  for (bool crc : {false, true}) {
    Connect({.crc = crc});
    const Octets data = Pattern(4 << 20);
    Octets target(data.size()), sink(data.size());
    auto writable = server_->Register(target, Access::kRemoteWrite);
    auto readable = server_->Register(target, Access::kRemoteRead);
    client_->PostWrite({1, GatherOf(data), writable->Segment(0, data.size())});
    client_->PostRead({2, sink, {}, readable->Segment(0, data.size())});
    // Each step moves 200 KiB, like a socket whose buffer has this size.
    Run([](size_t) { return 200 << 10; });
    EXPECT_EQ(sink, data);
    EXPECT_GT(server_->reader().octets_direct(), data.size() * 95 / 100);
    EXPECT_GT(client_->reader().octets_direct(), data.size() * 95 / 100);
  }
}

TEST_F(RdmapStreamTest, WriteAndFollowingSendLeaveInOneCall) {
  Connect();
  client_->PostWrite({1, GatherOf(Octets(0)), {Stag(1), 0, 0}});
  client_->PostSend({2, GatherOf(AsBytes("done")), false, {}});
  Octets out;
  Drain(client_->NextToSend(), ~size_t{0}, out);
  client_->HandleSent(out.size());
  EXPECT_TRUE(client_->NextToSend().memory.empty());
  EXPECT_EQ(PollAll(*client_).size(), 2u);
}

TEST_F(RdmapStreamTest, SendCompletesWhenItsLastOctetIsSent) {
  Connect();
  const Octets data(100);
  client_->PostSend({1, GatherOf(data), false, {}});
  Octets out;
  Drain(client_->NextToSend(), 123, out);
  client_->HandleSent(123);
  EXPECT_FALSE(client_->has_completions());
  client_->NextToSend();
  client_->HandleSent(1);
  EXPECT_TRUE(client_->has_completions());
}

// RFC 5044 §3 has this limit, although the length field allows more.
TEST_F(RdmapStreamTest, UlpdusHaveAtMost64768Octets) {
  Connect();
  const Octets data(66000);
  for (size_t size : {64750, 64751, 65517, 66000}) {
    client_->PostSend({size, GatherOf(ConstBytes(data).first(size)), false, {}});
  }
  client_->PostWrite({1, GatherOf(ConstBytes(data).first(65521)), {Stag(1), 65521, 0}});
  const Octets out = TakeOutput(*client_);
  EXPECT_EQ(LoadBig<uint16_t>(out.data()), 64768);
  for (size_t at = 0; at < out.size();) {
    const size_t ulpdu = LoadBig<uint16_t>(&out[at]);
    EXPECT_LE(ulpdu, 64768u);
    at += kLengthSize + ulpdu + PadSize(ulpdu) + kCrcSize;
  }
}

TEST_F(RdmapStreamTest, OutstandingReadsNeverExceedOrd) {
  Connect();
  Octets memory = Pattern(10), sink(10);
  auto region = server_->Register(memory, Access::kRemoteRead);
  for (Context context = 1; context <= 5; ++context) client_->PostRead({context, sink, {}, region->Segment(0, 10)});
  client_->PostSend({6, {}, false, {}});
  constexpr size_t kRequest = 2 + UntaggedHeader::kSize + ReadRequestHeader::kSize + kCrcSize;
  EXPECT_EQ(TakeOutput(*client_).size(), 2 * kRequest);
  // The test drops these octets, so no Read is answered. Later requests must not leave before that.
  EXPECT_TRUE(TakeOutput(*client_).empty());
}

TEST_F(RdmapStreamTest, ResponderDoesNotSendFirst) {
  Connect();
  client_->PostReceive({1, 512});
  server_->PostSend({1, GatherOf(AsBytes("hi")), false, {}});
  EXPECT_TRUE(TakeOutput(*server_).empty());
  EXPECT_TRUE(client_->unanswered());
  client_->Nudge();
  EXPECT_EQ(Run(), 2 + TaggedHeader::kSize + kCrcSize);
  EXPECT_EQ(PollAll(*client_).size(), 1u) << "only the receive; the nudge has no completion";
  EXPECT_EQ(PollAll(*server_).size(), 1u);
  EXPECT_FALSE(client_->unanswered());
}

// RFC 5044 §7.1.2 rule 4 requires a valid FPDU before the responder sends. An FPDU with a wrong check value is not
// valid.
TEST_F(RdmapStreamTest, ResponderSendsNothingAfterAnInvalidFirstFpdu) {
  Connect({.crc = true});
  server_->PostReceive({1, 512});
  client_->PostSend({1, GatherOf(AsBytes("hi")), false, {}});
  std::vector<std::byte> octets = TakeOutput(*client_);
  ASSERT_FALSE(octets.empty());
  octets.back() ^= std::byte{1};
  Feed(*server_, octets);
  EXPECT_TRUE(server_->lost());
  EXPECT_TRUE(TakeOutput(*server_).empty());
}

TEST_F(RdmapStreamTest, ReadinessIndicationsHaveNoCompletion) {
  for (Rtr rtr : {Rtr::kSend, Rtr::kWrite, Rtr::kRead}) {
    Connect({.rtr = rtr});
    server_->PostReceive({1, 512});
    client_->PostReceive({2, 512});
    server_->PostSend({3, GatherOf(AsBytes("hi")), false, {}});
    Run();
    EXPECT_EQ(PollAll(*client_).size(), 1u);
    EXPECT_EQ(PollAll(*server_).size(), 1u);
    client_->PostSend({4, GatherOf(AsBytes("there")), false, {}});
    Run();
    auto received = PollAll(*server_);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].length, 5u);
  }
}

TEST_F(RdmapStreamTest, DropsPayloadForARegionInvalidatedDuringTheMessage) {
  for (bool crc : {false, true}) {
    Connect({.crc = crc});
    const Octets data = Pattern(60000);
    Octets target(60000);
    auto region = server_->Register(target, Access::kRemoteWrite);
    client_->PostWrite({1, GatherOf(data), region->Segment(0, 60000)});
    const Octets out = TakeOutput(*client_);
    Feed(*server_, ConstBytes(out).first(30000));
    server_->PostInvalidate(2, *region);
    const Octets before = target;
    EXPECT_TRUE(Equal(ConstBytes(before).first(20000), ConstBytes(data).first(20000)));
    Feed(*server_, ConstBytes(out).subspan(30000));
    EXPECT_EQ(target, before);
    EXPECT_TRUE(server_->lost());
    EXPECT_EQ(PollAll(*server_).back().detail.substr(0, 33), "DDP tagged buffer: invalid STag (");
    Run();
    EXPECT_EQ(PollAll(*client_).back().reason, DisconnectReason::kPeerTerminated);
  }
}

TEST_F(RdmapStreamTest, InvalidatingARegionDuringAReadEndsTheConnection) {
  Connect();
  Greet();
  Octets memory = Pattern(3 << 20), sink(3 << 20);
  const Octets before = memory;
  auto region = server_->Register(memory, Access::kRemoteRead);
  client_->PostRead({1, sink, {}, region->Segment(0, memory.size())});
  Feed(*server_, TakeOutput(*client_));
  Octets some;
  Drain(server_->NextToSend(), 100000, some);
  server_->HandleSent(some.size());
  server_->PostInvalidate(2, *region);
  memory.assign(memory.size(), std::byte{0xee});  // the owner reuses the memory
  Octets rest = TakeOutput(*server_);
  some.insert(some.end(), rest.begin(), rest.end());
  Feed(*client_, some);
  EXPECT_EQ(std::count(sink.begin(), sink.end(), std::byte{0xee}),
            std::count(before.begin(), before.begin() + 18 * 61440, std::byte{0xee}))
      << "no octet of the new contents may leave";
  auto done = PollAll(*client_);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, Status::kRemoteAccess);
  EXPECT_EQ(done[1].reason, DisconnectReason::kPeerTerminated);
}

TEST_F(RdmapStreamTest, DisconnectSendsPostedRequestsFirst) {
  Connect();
  Octets memory = Pattern(100), sink(100);
  auto region = server_->Register(memory, Access::kRemoteRead);
  server_->PostReceive({1, 512});
  client_->PostReceive({2, 512});
  client_->PostRead({3, sink, {}, region->Segment(0, 100)});
  client_->PostSend({4, GatherOf(AsBytes("bye")), false, {}});
  client_->Disconnect();
  client_->PostSend({5, GatherOf(AsBytes("too late")), false, {}});
  client_->PostReceive({6, 512});
  EXPECT_EQ(client_->ending(), RdmapStream::Ending::kNone);
  Run();
  EXPECT_EQ(sink, memory);
  EXPECT_EQ(client_->ending(), RdmapStream::Ending::kShutdown);
  server_->HandleEndOfStream();
  EXPECT_EQ(server_->ending(), RdmapStream::Ending::kClose);
  client_->HandleEndOfStream();
  EXPECT_EQ(client_->ending(), RdmapStream::Ending::kClose);
  EXPECT_EQ(PollAll(*server_).back().reason, DisconnectReason::kPeerClosed);
  auto done = PollAll(*client_);
  ASSERT_EQ(done.size(), 6u);
  EXPECT_EQ(done.back().reason, DisconnectReason::kLocal);
}

TEST_F(RdmapStreamTest, EndOfStreamInsideAFrameIsAReset) {
  Connect();
  client_->PostSend({1, GatherOf(AsBytes("abc")), false, {}});
  const Octets out = TakeOutput(*client_);
  for (size_t size = 0; size <= out.size(); ++size) {
    Connect();
    server_->PostReceive({1, 512});
    Feed(*server_, ConstBytes(out).first(size));
    server_->HandleEndOfStream();
    const auto done = PollAll(*server_);
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].status, size == out.size() ? Status::kSuccess : Status::kFlushed);
    EXPECT_EQ(done[1].reason,
              size == 0 || size == out.size() ? DisconnectReason::kPeerClosed : DisconnectReason::kPeerReset);
  }
}

TEST_F(RdmapStreamTest, BrokenConnectionCompletesAllRequests) {
  Connect();
  Octets sink(10);
  for (Context context = 1; context <= 4; ++context) client_->PostRead({context, sink, {}, {Stag(1), 10, 0}});
  client_->PostSend({5, GatherOf(AsBytes("abc")), false, {}});
  client_->PostWrite({6, GatherOf(AsBytes("abc")), {Stag(1), 3, 0}});
  client_->PostReceive({7, 512});
  TakeOutput(*client_);
  client_->HandleBroken("unplugged");
  auto done = PollAll(*client_);
  ASSERT_EQ(done.size(), 8u);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(done[i].status, Status::kFlushed);
  EXPECT_EQ(done[7].reason, DisconnectReason::kPeerReset);
  EXPECT_EQ(done[7].detail, "unplugged");
  EXPECT_EQ(client_->ending(), RdmapStream::Ending::kReset);
  client_->PostSend({8, {}, false, {}});
  EXPECT_EQ(PollAll(*client_).size(), 1u);
  EXPECT_TRUE(TakeOutput(*client_).empty());
}

TEST_F(RdmapStreamTest, ImpossibleRequestEndsTheConnection) {
  auto expect_fault = [&](auto post) {
    Connect();
    post();
    auto done = PollAll(*client_);
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].status, Status::kLocalError);
    EXPECT_EQ(done[1].reason, DisconnectReason::kFault);
    Run();
    EXPECT_EQ(PollAll(*server_).back().detail, "the peer: RDMAP local catastrophic error");
  };
  const Octets data(100);
  Octets sink(100);
  Gather huge;
  for (size_t i = 0; i <= RdmapStream::kMaxMessage / 100; ++i) huge.push_back(Slice::Borrowed(data));
  expect_fault([&] { client_->PostSend({1, std::move(huge), false, {}}); });
  expect_fault([&] { client_->PostWrite({1, GatherOf(data), {Stag(1), 99, 0}}); });
  expect_fault([&] { client_->PostRead({1, sink, {}, {Stag(1), 99, 0}}); });
}

TEST_F(RdmapStreamTest, RefuseTellsThePeerTheReason) {
  Connect();
  client_->Refuse(terminate::kInsufficientIrd);
  Run();
  EXPECT_EQ(PollAll(*server_).back().detail, "the peer: MPA insufficient IRD");
}

}  // namespace
}  // namespace penstock::rdma::iwarp
