// Tests of a complete requester against replies that the tests make by hand.
#include "rpcrdma/requester.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "rpc/client.h"
#include "rpcrdma/requester_test_fixture.h"

namespace penstock::rpcrdma {
namespace {

using rpc::CallError;

TEST_F(RequesterTest, SendsACallWithoutChunksAsOneMessage) {
  Connect();
  CallResult result;
  Begin({.xid = kXid}, result);
  EXPECT_EQ(calls_[0], Words({kXid, 1, 64, kMsg, 0, 0, 0, kXid, 0, 0, 0, 0, 0}));
  Send(MessageOf(Procedure::kMsg, {}, Words({kXid, 1, 0, 0})));
  ASSERT_TRUE(result && *result);
  EXPECT_TRUE(IsReplyTo({.xid = kXid}, **result));
  EXPECT_EQ(rig_.client->requester().credits().granted(), 10u);
}

TEST_F(RequesterTest, OffersChunksForArgumentsAndResults) {
  Connect();
  CallResult result;
  Header call = Begin({.xid = kXid, .arguments = {5001, 5}, .reply_filler = 9000, .results = {0, 6001, 10, 0}}, result);
  ASSERT_EQ(call.chunks.reads.size(), 1u);
  EXPECT_EQ(call.chunks.reads[0].position % 4, 0u);
  EXPECT_EQ(call.chunks.reads[0].target.length, 5001u) << "the chunk has no padding";
  ASSERT_EQ(call.chunks.writes.size(), 3u);
  EXPECT_TRUE(call.chunks.writes.chunk(0).empty());
  EXPECT_EQ(TotalLength(std::as_const(call.chunks.writes).chunk(1)), 6001u);
  EXPECT_EQ(TotalLength(std::as_const(call.chunks.writes).chunk(2)), 10u);
  ASSERT_TRUE(call.chunks.has_reply);
  EXPECT_GE(TotalLength(call.chunks.reply), 9016u);
  rig_.client.reset();
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(result->error(), CallError::kDisconnected);
}

// RFC 8166 §3.5.3: the stream is at position zero. The positions of the items refer to the unreduced stream (§3.4.5).
TEST_F(RequesterTest, OffersALongCallAndItsArgumentsAtTheirPositions) {
  Connect();
  CallResult result;
  const TestCall call{.xid = kXid, .filler = 9000, .arguments = {5001, 6000}};
  const Header header = Begin(call, result);
  EXPECT_EQ(header.fixed.procedure, Procedure::kNomsg);
  ASSERT_EQ(header.chunks.reads.size(), 3u);
  const uint32_t words = 4 * 4, filler = 4 + 9000, count = 4, length = 4;
  const uint32_t first = words + filler + count + length;
  EXPECT_EQ(header.chunks.reads[0].position, 0u);
  EXPECT_EQ(header.chunks.reads[0].target.length, first + length);
  EXPECT_EQ(header.chunks.reads[1].position, first);
  EXPECT_EQ(header.chunks.reads[1].target.length, 5001u);
  EXPECT_EQ(header.chunks.reads[2].position, first + 5004 + length);
  EXPECT_EQ(header.chunks.reads[2].target.length, 6000u);
  rig_.client.reset();
  ASSERT_TRUE(rig_.world.RunUntil([&] { return result.has_value(); }));
}

// RFC 8166 §3.3.3
TEST_F(RequesterTest, SendsOnlyOneCallBeforeTheFirstReply) {
  Connect();
  std::vector<CallResult> results(3);
  for (uint32_t i = 0; i < 3; ++i) rig_.Begin({.xid = kXid + i}, results[i]);
  rig_.world.RunFor(std::chrono::seconds(1));
  ASSERT_EQ(calls_.size(), 1u);
  Send(Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid, 1, 0, 0}));
  EXPECT_EQ(calls_.size(), 3u);
  rig_.client.reset();
  ASSERT_TRUE(rig_.world.RunUntil([&] { return results[1].has_value() && results[2].has_value(); }));
}

// RFC 8166 §4.3.2.2: a responder may have written to a chunk that it returns as unused.
TEST_F(RequesterTest, IgnoresOctetsInAnUnusedChunk) {
  Connect();
  CallResult result;
  ByteVector destination(5000, std::byte{0xaa});
  const TestCall call{.xid = kXid, .results = {5000}};
  rpc::ReplyShape shape = rig_.ShapeOf(call);
  shape.results[0].destination = destination;
  Header reply = Begin(call, result, shape);
  Write(reply.chunks.writes.chunk(0)[0], Pattern(5000, 3));
  reply.chunks.writes.chunk(0)[0].length = 0;
  Send(MessageOf(Procedure::kMsg, reply.chunks, Words({kXid, 1, 0, 1, 0})));
  ASSERT_TRUE(result && *result);
  EXPECT_EQ(destination, Pattern(5000, 3));
  EXPECT_TRUE(IsReplyTo({.xid = kXid, .results = {0}}, **result));
}

// RFC 8166 §4.5: the requester ignores them and also their credits (RFC 8167 §4.1). The call continues.
TEST_F(RequesterTest, DiscardsMalformedReplies) {
  Connect();
  CallResult result;
  Begin({.xid = kXid}, result);
  for (const ByteVector& message : {
           Words({kXid, 1, 10, kMsg, 0, 0}),                            // too short for a header
           Words({kXid, 2, 10, kMsg, 0, 0, 0, kXid, 1, 0, 0}),          // unknown version
           Words({kXid, 2, 10, kError, 1, 1, 1}),                       //
           Words({kXid, 1, 10, kMsgp, 0, 0, 0, 0, 0, kXid, 1, 0, 0}),   //
           Words({kXid, 1, 10, kDone, 0, 0, 0}),                        //
           Words({kXid, 1, 10, 7, 0, 0, 0, kXid, 1, 0, 0}),             //
           Words({kXid, 1, 10, kMsg, 0, 0, 2, kXid, 1, 0, 0}),          //
           Words({kXid, 1, 10, kMsg, 0, 0, 0}),                         //
           Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid + 1, 1, 0, 0}),      // the stream has another XID
           Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid, 0, 0, 0}),          // a call
           Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid, 2, 0, 0}),          // neither call nor reply
           Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid}),                   //
           Words({kXid, 1, 10, kNomsg, 0, 0, 0}),                       //
           Words({kXid, 1, 10, kError, 3, 0, 0}),                       // unknown error
           Words({kXid, 1, 10, kError, 1, 1}),                          //
           Words({kXid + 1, 1, 10, kMsg, 0, 0, 0, kXid + 1, 1, 0, 0}),  // no call has this XID
           Words({kXid + 1, 1, 10, kError, 2}),
       }) {
    Send(message);
    ASSERT_FALSE(result) << "the requester must discard the message";
    ASSERT_FALSE(rig_.client->lost());
  }
  EXPECT_EQ(calls_.size(), 1u) << "a requester sends no errors";
  EXPECT_EQ(rig_.client->requester().credits().granted(), 1u);
  Send(MessageOf(Procedure::kMsg, {}, Words({kXid, 1, 0, 0})));
  ASSERT_TRUE(result && *result);
  // Send the same reply again.
  Send(MessageOf(Procedure::kMsg, {}, Words({kXid, 1, 0, 0})));
  EXPECT_EQ(rig_.client->requester().credits().in_flight(), 0u);
}

TEST_F(RequesterTest, AnErrorReplyEndsTheCall) {
  Connect();
  for (const ByteVector& error : {Words({kXid, 1, 10, kError, 2}), Words({kXid, 1, 10, kError, 1, 2, 3})}) {
    CallResult result;
    Begin({.xid = kXid, .results = {5000}}, result);
    Send(error);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->error(), CallError::kRefused);
    EXPECT_EQ(rig_.network.Inspect(rig_.client->endpoint()).valid_regions, 0u);
  }
}

TEST_F(RequesterTest, AReplyWithOtherChunkListsEndsTheCall) {
  Connect();
  const TestCall call{.xid = kXid, .reply_filler = 9000, .results = {6000}};
  for (void (*change)(Header&) : {
           +[](Header& reply) { reply.chunks.reads = {{0, {}}}; },
           +[](Header& reply) { reply.chunks.writes.Clear(); },
           +[](Header& reply) { reply.chunks.writes.Add({}); },
           +[](Header& reply) { reply.chunks.writes.chunk(0)[0].length = 6001; },
           +[](Header& reply) { reply.chunks.writes.chunk(0)[0].length = 0xffffffff; },
           +[](Header& reply) { reply.chunks.writes.chunk(0)[0].offset += 1; },
           +[](Header& reply) { reply.chunks.writes.chunk(0)[0].stag = rdma::Stag(1); },
           +[](Header& reply) { reply.chunks.reply[0].length = 16; },
           +[](Header& reply) {
             reply.fixed.procedure = Procedure::kNomsg;
             reply.chunks.reply[0].length = 0;
           },
           +[](Header& reply) {
             reply.fixed.procedure = Procedure::kNomsg;
             reply.chunks.reply[0].length = 0xffffff;
           },
       }) {
    CallResult result;
    Header reply = Begin(call, result);
    reply.chunks.reads.clear();
    reply.chunks.writes.chunk(0)[0].length = 0;
    reply.chunks.reply[0].length = 0;
    change(reply);
    const bool has_payload = reply.fixed.procedure == Procedure::kMsg;
    const bool is_call = !reply.chunks.reads.empty();
    Send(MessageOf(reply.fixed.procedure, reply.chunks, has_payload ? Words({kXid, 1, 0, 0}) : ByteVector()));
    if (is_call) {  // the requester ignores calls
      ASSERT_FALSE(result);
      rig_.client->requester().Cancel(rpc::Xid(kXid));
      rig_.world.RunFor(std::chrono::milliseconds(10));
      Send(Words({kXid, 1, 10, kError, 2}));
      continue;
    }
    ASSERT_TRUE(result);
    EXPECT_EQ(result->error(), CallError::kMalformed);
    EXPECT_EQ(rig_.network.Inspect(rig_.client->endpoint()).valid_regions, 0u);
    EXPECT_FALSE(rig_.client->lost());
  }
}

TEST_F(RequesterTest, ChecksTheXidOfALongReply) {
  Connect();
  for (uint32_t xid : {kXid, kXid + 1}) {
    CallResult result;
    TestCall call{.xid = kXid, .reply_filler = 9000};
    Header reply = Begin(call, result);
    const ByteVector stream = Concat({Words({xid, 1, 9000}), Pattern(9000, kXid), Words({0})});
    Write(reply.chunks.reply[0], stream);
    reply.chunks.reply[0].length = static_cast<uint32_t>(stream.size());
    Send(MessageOf(Procedure::kNomsg, reply.chunks, {}));
    ASSERT_TRUE(result);
    if (xid == kXid) {
      ASSERT_TRUE(*result);
      EXPECT_TRUE(IsReplyTo(call, **result));
    } else {
      EXPECT_EQ(result->error(), CallError::kMalformed);
    }
  }
}

// A procedure with two results: string name<>, which is not DDP-eligible, and opaque data<>, which is. The second
// result follows only if the name is not empty.
struct NameAndData {
  static constexpr uint32_t kProgram = 400'000, kVersion = 1, kNumber = 1;
};

// RFC 8166 §6.1: the call fails permanently. Other calls continue.
TEST_F(RequesterTest, RejectsAReplyThatReducesAnIneligibleResult) {
  Connect();
  rpc::Client client(*rig_.client, rig_.client_provider->buffers(), rpc::Xid(kXid));
  const ByteVector name = Pattern(8, 1), data = Pattern(5000, 2);
  const ByteVector accepted = Words({1, 0, 0, 0, 0});
  struct Case {
    ByteVector stream;  // after the RPC header of the reply
    ByteVector placed;
    bool good = false;
  };
  uint32_t xid = kXid;
  for (const Case& each : {
           Case{Concat({Words({8}), name, Words({5000})}), data, true},
           Case{Concat({Words({8, 8}), name}), name},                     // the chunk has the name instead of the data
           Case{Words({8, 5000}), Concat({name, data})},                  // the chunk has both
           Case{Concat({Words({8}), name, Words({0})}), Pattern(12, 3)},  // the data are empty, but the chunk is not
           Case{Words({0}), name},  // the reply has no data, but the chunk has octets
           Case{Concat({Words({8}), name, Words({5000})}), data, true},
       }) {
    calls_.clear();
    std::optional<Result<rpc::Message, rpc::Error>> result;
    Spawn([](rpc::Client& calling, auto& out) -> Task<void> {
      const auto encode = [](xdr::Encoder&) {};
      const auto decode = [](xdr::Decoder& decoder) {
        ConstBytes text;
        Data octets;
        return decoder.Opaque(text, 255) && (text.empty() || decoder.Payload(octets, 1 << 20));
      };
      rpc::ReplyShape shape{.max_stream = 300, .results = {{.max_length = 1 << 16, .destination = {}}}};
      auto answer = co_await calling.CallWith<NameAndData>(encode, std::move(shape), decode);
      out.emplace(std::move(answer));
    }(client, result));
    ASSERT_TRUE(rig_.world.RunUntil([&] { return !calls_.empty(); }));
    Header header;
    ASSERT_TRUE(header.Parse(*FixedHeader::Parse(calls_[0]), calls_[0], {}));
    ASSERT_EQ(header.chunks.writes.size(), 1u);
    Write(header.chunks.writes.chunk(0)[0], each.placed);
    header.chunks.writes.chunk(0)[0].length = static_cast<uint32_t>(each.placed.size());
    header.fixed.procedure = Procedure::kMsg;
    Send(Concat({OctetsOf(header), Words({xid++}), accepted, each.stream}));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->has_value(), each.good);
    if (!each.good) {
      EXPECT_EQ(result->error().kind, rpc::Error::Kind::kMalformedReply);
    }
    EXPECT_FALSE(rig_.client->lost());
  }
}

TEST_F(RequesterTest, AcceptsRemoteInvalidation) {
  Connect();
  CallResult result;
  TestCall call{.xid = kXid, .arguments = {5000}, .results = {5000}};
  Header reply = Begin(call, result);
  EXPECT_EQ(rig_.network.Inspect(rig_.client->endpoint()).valid_regions, 2u);
  Write(reply.chunks.writes.chunk(0)[0], ResultOctets(kXid, 0, 5000));
  reply.chunks.reads.clear();
  Send(MessageOf(Procedure::kMsg, reply.chunks, Words({kXid, 1, 0, 1, 5000})), reply.chunks.writes.chunk(0)[0].stag);
  ASSERT_TRUE(result && *result);
  EXPECT_TRUE(IsReplyTo(call, **result));
  EXPECT_EQ(rig_.network.Inspect(rig_.client->endpoint()).valid_regions, 0u);
}

// RFC 8166 §4.5.4
TEST_F(RequesterTest, AFailedInvalidationEndsTheConnectionBeforeTheCallReturns) {
  Connect();
  CallResult result;
  TestCall call{.xid = kXid, .arguments = {5000}, .results = {5000}};
  Header reply = Begin(call, result);
  rig_.network.faults().fail_invalidations = true;
  Write(reply.chunks.writes.chunk(0)[0], ResultOctets(kXid, 0, 5000));
  reply.chunks.reads.clear();
  endpoint_->PostSend({.context = 0,
                       .gather = {Data(Owned(rig_.server_provider->buffers(),
                                             MessageOf(Procedure::kMsg, reply.chunks, Words({kXid, 1, 0, 1, 5000}))))},
                       .solicited = false,
                       .invalidate = {}});
  ASSERT_TRUE(rig_.world.RunUntil([&] { return result.has_value(); }));
  EXPECT_TRUE(rig_.client->lost());
  EXPECT_EQ(rig_.network.Inspect(rig_.client->endpoint()).valid_regions, 0u);
  ASSERT_TRUE(*result) << "the reply had arrived before";
  EXPECT_TRUE(IsReplyTo(call, **result));
}

TEST_F(RequesterTest, CancelFencesTheMemoryOfTheCall) {
  Connect();
  CallResult result;
  ByteVector destination(5000, std::byte{0xaa});
  TestCall call{.xid = kXid, .results = {5000}};
  rpc::ReplyShape shape = rig_.ShapeOf(call);
  shape.results[0].destination = destination;
  Header reply = Begin(call, result, shape);
  rig_.client->requester().Cancel(rpc::Xid(kXid));
  ASSERT_TRUE(rig_.world.RunUntil([&] { return result.has_value(); }));
  EXPECT_EQ(result->error(), CallError::kCancelled);
  EXPECT_EQ(rig_.network.stats().unfenced_regions, 0u);
  // The caller owns its memory again. The responder does not know that. Its access fails and ends the connection.
  destination.assign(5000, std::byte{0xaa});
  Write(reply.chunks.writes.chunk(0)[0], ResultOctets(kXid, 0, 5000));
  ASSERT_TRUE(rig_.world.RunUntil([&] { return rig_.client->lost(); }));
  EXPECT_EQ(destination, ByteVector(5000, std::byte{0xaa}));
}

TEST_F(RequesterTest, SurvivesAFloodOfUnexpectedReplies) {
  Connect();
  CallResult result;
  Begin({.xid = kXid}, result);
  for (uint32_t i = 0; i < 1000; ++i) Send(Words({i, 1, 0xffffffff, kMsg, 0, 0, 0, i, 1, 0, 0}));
  EXPECT_FALSE(result);
  Send(Words({kXid, 1, 0, kMsg, 0, 0, 0, kXid, 1, 0, 0}));
  ASSERT_TRUE(result && *result);
  EXPECT_EQ(rig_.client->requester().credits().limit(), 1u) << "a grant of zero counts as one";
}

// RFC 8267 §6.7.2: after a disconnect, a client repeats the calls without a reply, but not the refused ones.
TEST_F(RequesterTest, AnErrorReplyBeforeADisconnectEndsOnlyItsOwnCall) {
  Connect();
  CallResult first, second;
  Begin({.xid = kXid}, first);
  Send(MessageOf(Procedure::kMsg, {}, Words({kXid, 1, 0, 0})));
  rig_.Begin({.xid = kXid + 1, .results = {5000}}, first);
  rig_.Begin({.xid = kXid + 2, .results = {5000}}, second);
  rig_.world.RunFor(std::chrono::milliseconds(10));
  first.reset();
  endpoint_->PostSend({.context = 0,
                       .gather = {Data(Owned(rig_.server_provider->buffers(), Words({kXid + 1, 1, 10, kError, 2})))},
                       .solicited = false,
                       .invalidate = {}});
  endpoint_->Disconnect();
  ASSERT_TRUE(rig_.world.RunUntil([&] { return first.has_value() && second.has_value(); }));
  EXPECT_EQ(first->error(), CallError::kRefused);
  EXPECT_EQ(second->error(), CallError::kDisconnected);
}

}  // namespace
}  // namespace penstock::rpcrdma
