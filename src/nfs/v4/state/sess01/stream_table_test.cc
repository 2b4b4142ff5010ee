#include "nfs/v4/state/sess01/stream_table.h"

#include <gtest/gtest.h>

#include "base/buffer.h"

namespace penstock::nfs::v4::sess01 {
namespace {

using nfs4::NFS4_OK;
using nfs4::NFS4ERR_SESS01_BADSTREAM;
using nfs4::NFS4ERR_SESS01_STREAM_INUSE;
using nfs4::NFS4ERR_SESS01_UNKNOWN_FATE;
using Execution = StreamTable::Execution;
using Outcome = StreamTable::Outcome;
using Standing = ChannelState::Standing;

struct Sent {
  uint32_t stream = 0;
  uint32_t xid = 0;
  uint32_t own = 1;
  uint32_t named = 0;  // 0: the same as `own`
  uint64_t digest = 0;
};

class StreamTableTest : public testing::Test {
 protected:
  void Close(uint32_t channel) { closed_[channel].emplace(); }
  void Forget(uint32_t channel) { forgotten_ = channel; }

  Result<StreamTable::Started, nfs4::nfsstat4> Start(Sent sent) {
    if (sent.named == 0) sent.named = sent.own;
    ChannelState named{.standing = Standing::kLive};
    if (closed_[sent.named]) named = {Standing::kClosed, &*closed_[sent.named]};
    if (forgotten_ == sent.named) named = {Standing::kForgotten};
    return table_.Start(
        {StreamId(sent.stream), ChannelId(sent.own), ChannelId(sent.named), rpc::Xid(sent.xid), sent.digest}, named);
  }
  // Starts a request that must run, and returns its execution.
  Execution Run(const Sent& sent) {
    const auto started = Start(sent);
    EXPECT_TRUE(started) << XdrName(started.error());
    if (!started) return {};
    EXPECT_EQ(started->outcome, Outcome::kRun);
    return started->execution;
  }
  void Finish(uint32_t stream, Execution execution, std::optional<std::string_view> text = "done",
              bool changed = true) {
    table_.Finish(StreamId(stream), execution, text ? std::optional(Reply(*text)) : std::nullopt, changed);
  }
  void Execute(const Sent& sent, std::optional<std::string_view> text = "done", bool changed = true) {
    Finish(sent.stream, Run(sent), text, changed);
  }
  nfs4::nfsstat4 Refusal(const Sent& sent) {
    const auto started = Start(sent);
    return started ? NFS4_OK : started.error();
  }
  bool Waits(const Sent& sent) {
    const auto started = Start(sent);
    return started && started->outcome == Outcome::kWait;
  }
  // Returns the reply with which the table answers a retry.
  std::string Replayed(const Sent& sent) {
    const auto started = Start(sent);
    if (!started) return std::string(XdrName(started.error()));
    return started->outcome == Outcome::kReplay ? std::string(AsText(started->reply.stream.bytes())) : "no replay";
  }
  xdr::Message Reply(std::string_view text) {
    BufferRef buffer = pool_.Allocate(text.size());
    CopyBytes(buffer->bytes(), AsBytes(text));
    const ConstBytes bytes(buffer->data(), text.size());
    return xdr::Message::Whole(Slice(std::move(buffer), bytes));
  }

  BufferPool pool_;
  StreamTable table_{4, /*keeps_replies=*/true};
  std::optional<Retries> closed_[10];
  uint32_t forgotten_ = 0;
};

TEST_F(StreamTableTest, RunsNewRequestsOneAfterAnother) {
  Execute({.xid = 1});
  Execute({.xid = 2});
  Execute({.stream = 3, .xid = 3});
  Execute({.xid = UINT32_MAX});
  Execute({.xid = 0});
  EXPECT_EQ(table_.busy(), 0u);
}

TEST_F(StreamTableTest, RunsRequestsOfSeveralStreamidsAtOnce) {
  const Execution first = Run({.stream = 0, .xid = 1}), second = Run({.stream = 1, .xid = 2, .own = 2});
  EXPECT_EQ(table_.busy(), 2u);
  Finish(1, second);
  EXPECT_EQ(table_.busy(), 1u);
  Finish(0, first);
  EXPECT_EQ(table_.busy(), 0u);
}

TEST_F(StreamTableTest, RefusesAStreamIdOutOfBounds) {
  EXPECT_EQ(Refusal({.stream = 4, .xid = 1}), NFS4ERR_SESS01_BADSTREAM);
  EXPECT_EQ(Refusal({.stream = UINT32_MAX, .xid = 1}), NFS4ERR_SESS01_BADSTREAM);
  Close(1);
  EXPECT_EQ(Refusal({.stream = 4, .xid = 1, .own = 2, .named = 1}), NFS4ERR_SESS01_BADSTREAM);
}

TEST_F(StreamTableTest, RefusesANewRequestOnABusyStreamId) {
  const Execution first = Run({.xid = 1});
  EXPECT_EQ(Refusal({.xid = 2}), NFS4ERR_SESS01_STREAM_INUSE);
  EXPECT_EQ(Refusal({.xid = 2, .own = 2}), NFS4ERR_SESS01_STREAM_INUSE);
  Finish(0, first);
  Execute({.xid = 2, .own = 2});
}

TEST_F(StreamTableTest, ReplaysTheReplyToARetryOverAnotherChannel) {
  Execute({.xid = 1}, "first");
  Close(1);
  for (const uint32_t own : {2u, 3u}) EXPECT_EQ(Replayed({.xid = 1, .own = own, .named = 1}), "first");
  EXPECT_EQ(table_.busy(), 0u);
}

TEST_F(StreamTableTest, ReplaysTheReplyToAForbiddenResend) {
  Execute({.xid = 1}, "first");
  EXPECT_EQ(Replayed({.xid = 1}), "first");
}

TEST_F(StreamTableTest, NeverExecutesAForbiddenResend) {
  Execute({.xid = 1}, std::nullopt, /*changed=*/false);
  EXPECT_EQ(Refusal({.xid = 1}), NFS4ERR_SESS01_STREAM_INUSE);
  table_ = StreamTable(4, /*keeps_replies=*/false);
  Execute({.xid = 1});
  EXPECT_EQ(Refusal({.xid = 1}), NFS4ERR_SESS01_STREAM_INUSE);
}

TEST_F(StreamTableTest, ARetryOfTheRequestUnderWayWaits) {
  const Execution first = Run({.xid = 1});
  EXPECT_TRUE(Waits({.xid = 1}));
  Close(1);
  EXPECT_TRUE(Waits({.xid = 1, .own = 2, .named = 1}));
  EXPECT_EQ(table_.busy(), 1u);
  Finish(0, first, "late");
  EXPECT_EQ(Replayed({.xid = 1, .own = 2, .named = 1}), "late");
}

TEST_F(StreamTableTest, RefusesAnotherRequestWithTheSameChannelAndXid) {
  const Execution first = Run({.xid = 1, .digest = 7});
  EXPECT_EQ(Refusal({.xid = 1, .digest = 8}), NFS4ERR_SESS01_STREAM_INUSE);
  Finish(0, first);
  EXPECT_EQ(Refusal({.xid = 1, .digest = 8}), NFS4ERR_SESS01_STREAM_INUSE);
  Close(1);
  EXPECT_EQ(Refusal({.xid = 1, .own = 2, .named = 1, .digest = 8}), NFS4ERR_SESS01_STREAM_INUSE);
  EXPECT_EQ(Replayed({.xid = 1, .own = 2, .named = 1, .digest = 7}), "done");
}

TEST_F(StreamTableTest, TheSameXidOverAnotherChannelIsAnotherRequest) {
  Execute({.xid = 1, .own = 1});
  Execute({.xid = 1, .own = 2});
}

TEST_F(StreamTableTest, ExecutesARetryThatWasNeverReceived) {
  Close(1);
  Execute({.xid = 1, .own = 2, .named = 1}, "unused streamid");
  EXPECT_EQ(Replayed({.xid = 1, .own = 2, .named = 1}), "unused streamid");
  Execute({.xid = 2, .own = 2});
  Close(2);
  Execute({.xid = 3, .own = 3, .named = 2}, "used streamid");
  EXPECT_EQ(Replayed({.xid = 3, .own = 4, .named = 2}), "used streamid");
}

// X13 b: the answer came over a third channel, and the client has used the streamid again.
TEST_F(StreamTableTest, RefusesALateCopyOfAnAnsweredRequest) {
  Execute({.xid = 1});
  Close(1);
  EXPECT_EQ(Replayed({.xid = 1, .own = 3, .named = 1}), "done");
  Execute({.xid = 2, .own = 3}, "second");
  EXPECT_EQ(Refusal({.xid = 1, .own = 2, .named = 1}), NFS4ERR_SESS01_STREAM_INUSE);
  Close(3);
  EXPECT_EQ(Replayed({.xid = 2, .own = 4, .named = 3}), "second") << "the late copy changed nothing";
}

TEST_F(StreamTableTest, RefusesALateCopyOfARequestThatWasNeverReceivedOverItsChannel) {
  Close(1);
  Execute({.xid = 1, .own = 3, .named = 1});
  Execute({.xid = 2, .own = 3});
  EXPECT_EQ(Refusal({.xid = 1, .own = 2, .named = 1}), NFS4ERR_SESS01_STREAM_INUSE);
}

TEST_F(StreamTableTest, RefusesARetryWhileAnotherRequestIsUnderWay) {
  Run({.xid = 2, .own = 2});
  Close(1);
  EXPECT_EQ(Refusal({.xid = 1, .own = 2, .named = 1}), NFS4ERR_SESS01_STREAM_INUSE);
}

// The server closes a connection while the client still believes in it.
TEST_F(StreamTableTest, ExecutesARequestThatTheClientSentOverAClosedConnection) {
  Close(1);
  Execute({.xid = 1, .own = 2});
  Execute({.xid = 2, .own = 2, .named = 1}, "sent over channel 1 after it had closed");
  Execute({.xid = 3, .own = 2});
  EXPECT_EQ(Refusal({.xid = 2, .own = 3, .named = 1}), NFS4ERR_SESS01_STREAM_INUSE);
  Execute({.stream = 1, .xid = 4, .own = 2, .named = 1}, "another streamid");
}

TEST_F(StreamTableTest, ARetryOverAForgottenChannelIsStaleUnlessItMatches) {
  Execute({.xid = 1});
  Forget(1);
  EXPECT_EQ(Replayed({.xid = 1, .own = 2, .named = 1}), "done");
  EXPECT_EQ(Refusal({.xid = 2, .own = 2, .named = 1}), NFS4ERR_SESS01_STREAM_INUSE);
  EXPECT_EQ(Refusal({.stream = 1, .xid = 2, .own = 2, .named = 1}), NFS4ERR_SESS01_STREAM_INUSE);
}

// X12
TEST_F(StreamTableTest, ExecutesARetryAgainIfItChangedNothingAndItsReplyWasNotKept) {
  Execute({.xid = 1}, std::nullopt, /*changed=*/false);
  Close(1);
  const Execution again = Run({.xid = 1, .own = 2, .named = 1});
  EXPECT_TRUE(Waits({.xid = 1, .own = 3, .named = 1}));
  Finish(0, again, std::nullopt, false);
  Execute({.xid = 1, .own = 3, .named = 1}, "kept this time", false);
  EXPECT_EQ(Replayed({.xid = 1, .own = 3, .named = 1}), "kept this time");
}

TEST_F(StreamTableTest, NeverExecutesAChangeAgainWhoseReplyIsLost) {
  Execute({.xid = 1}, std::nullopt, /*changed=*/true);
  Close(1);
  EXPECT_EQ(Refusal({.xid = 1, .own = 2, .named = 1}), NFS4ERR_SESS01_UNKNOWN_FATE);
  Execute({.xid = 2, .own = 2});
}

TEST_F(StreamTableTest, ARepetitionDoesNotHoldUpTheNextRequest) {
  Execute({.xid = 1}, std::nullopt, /*changed=*/false);
  Close(1);
  Execute({.xid = 1, .own = 3, .named = 1}, std::nullopt, false);  // the client gets this answer
  const Execution late = Run({.xid = 1, .own = 2, .named = 1});    // a late copy
  const Execution next = Run({.xid = 2, .own = 3});
  EXPECT_EQ(table_.busy(), 1u);
  Finish(0, late, "of the late copy", false);
  EXPECT_TRUE(Waits({.xid = 2, .own = 3}));
  Finish(0, next, "second");
  EXPECT_EQ(Replayed({.xid = 2, .own = 3}), "second");
}

TEST_F(StreamTableTest, ARepetitionDoesNotMakeTheNextRetryStale) {
  Execute({.xid = 1}, std::nullopt, /*changed=*/false);
  Close(1);
  Execute({.xid = 1, .own = 3, .named = 1}, std::nullopt, false);
  Close(3);                                                        // loses the next request of the client
  Execute({.xid = 1, .own = 2, .named = 1}, std::nullopt, false);  // a late copy
  const Execution late = Run({.xid = 1, .own = 2, .named = 1});    // another one is still under way
  Execute({.xid = 2, .own = 4, .named = 3}, "second");
  table_.Withdraw(StreamId(0), late);
  EXPECT_EQ(Replayed({.xid = 2, .own = 4, .named = 3}), "second");
}

TEST_F(StreamTableTest, WithoutKeptRepliesARetryExecutesAgainWhenTheFirstHasEnded) {
  table_ = StreamTable(4, /*keeps_replies=*/false);
  const Execution first = Run({.xid = 1});
  Close(1);
  EXPECT_TRUE(Waits({.xid = 1, .own = 2, .named = 1}));
  Finish(0, first, "not kept");
  EXPECT_EQ(table_.kept_octets(), 0u);
  EXPECT_EQ(pool_.outstanding(), 0u);
  Execute({.xid = 1, .own = 2, .named = 1}, "not kept either");
  Execute({.xid = 1, .own = 3, .named = 1});
  EXPECT_EQ(table_.busy(), 0u);
}

// X15
TEST_F(StreamTableTest, AWithdrawnRequestCountsAsNeverReceived) {
  const Execution first = Run({.xid = 1});
  table_.Withdraw(StreamId(0), first);
  EXPECT_EQ(table_.busy(), 0u);
  Close(1);
  Execute({.xid = 1, .own = 2, .named = 1}, "executed");
  EXPECT_EQ(Replayed({.xid = 1, .own = 3, .named = 1}), "executed");
}

TEST_F(StreamTableTest, AWithdrawnRetryCountsAsNeverReceived) {
  Close(1);
  table_.Withdraw(StreamId(0), Run({.xid = 1, .own = 2, .named = 1}));
  Close(2);
  Execute({.xid = 1, .own = 3, .named = 1});
  Execute({.xid = 2, .own = 3});
  EXPECT_EQ(Refusal({.xid = 1, .own = 4, .named = 1}), NFS4ERR_SESS01_STREAM_INUSE);
}

TEST_F(StreamTableTest, AnotherRequestReplacesAWithdrawnOne) {
  table_.Withdraw(StreamId(0), Run({.xid = 1}));
  Execute({.xid = 2});
}

TEST_F(StreamTableTest, AWithdrawnRepetitionCanBeRepeated) {
  Execute({.xid = 1}, std::nullopt, /*changed=*/false);
  Close(1);
  table_.Withdraw(StreamId(0), Run({.xid = 1, .own = 2, .named = 1}));
  EXPECT_EQ(table_.busy(), 0u);
  Execute({.xid = 1, .own = 3, .named = 1});
}

TEST_F(StreamTableTest, IgnoresTheEndOfAnExecutionThatIsOver) {
  const Execution first = Run({.xid = 1});
  Finish(0, first, "first");
  Finish(0, first, "again");
  table_.Withdraw(StreamId(0), first);
  Finish(7, first);
  table_.Withdraw(StreamId(7), first);
  EXPECT_EQ(table_.busy(), 0u);
  EXPECT_EQ(Replayed({.xid = 1}), "first");
}

TEST_F(StreamTableTest, KnowsTheLastRequestOfAStreamId) {
  const auto is_last = [&](uint32_t stream, uint32_t named, uint32_t xid) {
    return table_.IsLast(StreamId(stream), ChannelId(named), rpc::Xid(xid));
  };
  EXPECT_FALSE(is_last(0, 0, 0)) << "the streamid is unused";
  const Execution first = Run({.xid = 5});
  EXPECT_TRUE(is_last(0, 1, 5));
  EXPECT_FALSE(is_last(0, 1, 6));
  EXPECT_FALSE(is_last(0, 2, 5));
  EXPECT_FALSE(is_last(1, 1, 5));
  EXPECT_FALSE(is_last(UINT32_MAX, 1, 5));
  Finish(0, first);
  EXPECT_TRUE(is_last(0, 1, 5));
  Run({.xid = 6});
  EXPECT_FALSE(is_last(0, 1, 5)) << "the client has seen the reply";
}

// A reply takes a whole buffer of the pool.
constexpr size_t kBuffer = BufferPool::kSmallest;

TEST_F(StreamTableTest, KeepsOneReplyForEachStreamId) {
  Execute({.stream = 0, .xid = 1}, "four");
  Execute({.stream = 1, .xid = 2}, "eightoct");
  EXPECT_EQ(table_.kept_octets(), 2 * kBuffer);
  Execute({.stream = 0, .xid = 3}, "eightoct");
  EXPECT_EQ(table_.kept_octets(), 2 * kBuffer);
  Run({.stream = 0, .xid = 4});
  EXPECT_EQ(table_.kept_octets(), kBuffer);
  EXPECT_EQ(pool_.outstanding(), 1u);
}

TEST_F(StreamTableTest, TheFateOfARequestIsUnknownWhoseReplyWasForgotten) {
  Execute({.stream = 0, .xid = 1}, "kept");
  const Execution running = Run({.stream = 1, .xid = 2});
  table_.ForgetReplies();
  EXPECT_EQ(table_.kept_octets(), 0u);
  EXPECT_EQ(pool_.outstanding(), 0u);
  Finish(1, running, "later");
  Close(1);
  EXPECT_EQ(Refusal({.stream = 0, .xid = 1, .own = 2, .named = 1}), NFS4ERR_SESS01_UNKNOWN_FATE);
  EXPECT_EQ(Replayed({.stream = 1, .xid = 2, .own = 2, .named = 1}), "later");
}

// X10
TEST_F(StreamTableTest, LowerDropsTheStreamIdsFromTheTargetOn) {
  Execute({.stream = 1, .xid = 1}, "kept");
  Execute({.stream = 3, .xid = 2}, "dropped!");
  table_.Lower(2);
  EXPECT_EQ(table_.count(), 2u);
  EXPECT_EQ(table_.kept_octets(), kBuffer);
  EXPECT_EQ(Refusal({.stream = 2, .xid = 3}), NFS4ERR_SESS01_BADSTREAM);
  EXPECT_EQ(Refusal({.stream = 3, .xid = 2}), NFS4ERR_SESS01_BADSTREAM);
  EXPECT_EQ(Replayed({.stream = 1, .xid = 1}), "kept");
}

TEST_F(StreamTableTest, LowerDropsARequestUnderWay) {
  const Execution request = Run({.stream = 3, .xid = 1});
  table_.Lower(1);
  EXPECT_EQ(table_.busy(), 0u);
  Finish(3, request, "to nobody");
  table_.Raise(4);
  Finish(3, request, "to nobody");
  EXPECT_EQ(table_.kept_octets(), 0u);
  EXPECT_EQ(pool_.outstanding(), 0u);
}

TEST_F(StreamTableTest, RaiseGivesMoreStreamIds) {
  table_.Raise(6);
  EXPECT_EQ(table_.count(), 6u);
  Execute({.stream = 5, .xid = 1});
  Close(1);
  Execute({.stream = 4, .xid = 1, .own = 2, .named = 1});
}

TEST_F(StreamTableTest, ARaisedStreamIdRefusesLateCopiesFromBeforeItWasDropped) {
  Close(1);
  Execute({.stream = 3, .xid = 1, .own = 3, .named = 1});
  table_.Lower(2);
  table_.Raise(4);
  EXPECT_EQ(Refusal({.stream = 3, .xid = 1, .own = 2, .named = 1}), NFS4ERR_SESS01_STREAM_INUSE);
  Close(3);
  Execute({.stream = 3, .xid = 2, .own = 4, .named = 3}, "sent after the raise");
}

// X14
TEST_F(StreamTableTest, ReplaysARestoredReply) {
  EXPECT_TRUE(table_.Restore(StreamId(2), ChannelId(1), rpc::Xid(5), 7, Reply("kept")));
  EXPECT_EQ(table_.kept_octets(), kBuffer);
  Close(1);
  EXPECT_EQ(Replayed({.stream = 2, .xid = 5, .own = 2, .named = 1, .digest = 7}), "kept");
  Execute({.stream = 2, .xid = 6, .own = 2});
}

TEST_F(StreamTableTest, ARestoredIntentWithoutAReplyHasAnUnknownFate) {
  EXPECT_TRUE(table_.Restore(StreamId(2), ChannelId(1), rpc::Xid(5), 7, std::nullopt));
  EXPECT_EQ(table_.busy(), 0u);
  Close(1);
  const Sent retry{.stream = 2, .xid = 5, .own = 2, .named = 1, .digest = 7};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Refusal(retry), NFS4ERR_SESS01_UNKNOWN_FATE);
  Execute({.stream = 2, .xid = 6, .own = 2});
  EXPECT_EQ(Refusal(retry), NFS4ERR_SESS01_STREAM_INUSE);
}

TEST_F(StreamTableTest, ExecutesARequestThatIsNotRestored) {
  EXPECT_TRUE(table_.Restore(StreamId(2), ChannelId(1), rpc::Xid(5), 7, Reply("kept")));
  Close(1);
  Execute({.stream = 2, .xid = 6, .own = 2, .named = 1});
  Execute({.stream = 3, .xid = 7, .own = 2, .named = 1});
}

TEST_F(StreamTableTest, RestoresNoStreamIdOutOfBounds) {
  EXPECT_FALSE(table_.Restore(StreamId(4), ChannelId(1), rpc::Xid(5), 7, Reply("kept")));
  EXPECT_EQ(pool_.outstanding(), 0u);
}

}  // namespace
}  // namespace penstock::nfs::v4::sess01
