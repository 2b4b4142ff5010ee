#include "nfs/v4/callback/wire.h"

#include <gtest/gtest.h>

#include "nfs/v4/attributes/attribute_set.h"
#include "nfs/v4/callback/test_client.h"

namespace penstock::nfs::v4 {
namespace {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

constexpr rpc::Xid kXid{0x1234};

class CallbackWireTest : public testing::Test {
 protected:
  CallbackWireTest() {
    stateid4 delegation;
    delegation.seqid = 3;
    recall_ =
        CallbackOperation::Of(OP_CB_RECALL, CB_RECALL4args{delegation, true, nfs_fh4(EncodedHandle(kFile).bytes())});
    sequence_.csa_sequenceid = 9;
    sequence_.csa_slotid = 2;
    sequence_.csa_highest_slotid = 4;
  }
  CallbackCall InSession(const CallbackOperation& operation) const {
    return {.program = 0x40000001, .minor_version = MinorVersion(2), .sequence = sequence_, .operation = &operation};
  }
  ReceivedCallback Sent(const CallbackCall& call) { return Receive(EncodeCallback(buffers_, kXid, call)); }
  Result<CallbackAnswer, CallbackProblem> Answered(const CallbackCall& call, const CallbackReply& reply) {
    return DecodeCallbackReply(ReplyTo(buffers_, Sent(call), reply), kXid, call);
  }

  BufferPool buffers_;
  CallbackOperation recall_;
  CB_SEQUENCE4args sequence_{};
};

TEST_F(CallbackWireTest, ACallInASessionBeginsWithCbSequence) {
  const ReceivedCallback sent = Sent(InSession(recall_));
  EXPECT_EQ(sent.header.xid, kXid);
  EXPECT_EQ(sent.header.program, 0x40000001u);
  EXPECT_EQ(sent.header.version, 1u);
  EXPECT_EQ(sent.header.procedure, 1u);
  EXPECT_EQ(sent.head.minorversion, 2u);
  EXPECT_EQ(sent.head.count, 2u);
  EXPECT_EQ(sent.sequence, sequence_);
  EXPECT_EQ(sent.operation, OP_CB_RECALL);
  EXPECT_EQ(sent.recall.stateid.seqid, 3u);
  EXPECT_TRUE(sent.recall.truncate);
  EXPECT_EQ(FileHandle::Parse(sent.recall.fh.bytes()), kFile);
}

TEST_F(CallbackWireTest, ACallOfMinorVersionZeroHasACallbackIdent) {
  const CallbackCall call{.program = 5, .identifier = 77, .operation = &recall_};
  const ReceivedCallback sent = Sent(call);
  EXPECT_EQ(sent.head.minorversion, 0u);
  EXPECT_EQ(sent.head.callback_ident, 77u);
  EXPECT_EQ(sent.head.count, 1u);
  EXPECT_EQ(sent.sequence, std::nullopt);
  EXPECT_EQ(Answered(call, {.status = NFS4ERR_BADHANDLE})->status, NFS4ERR_BADHANDLE);
}

TEST_F(CallbackWireTest, CbNullHasNoArguments) {
  const CallbackCall call{.program = 5};
  EXPECT_EQ(Sent(call).header.procedure, 0u);
  EXPECT_TRUE(Answered(call, {}));
}

TEST_F(CallbackWireTest, ReturnsTheStatusOfTheOperation) {
  const auto answer = Answered(InSession(recall_), {.status = NFS4ERR_BAD_STATEID});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->opener, NFS4_OK);
  EXPECT_EQ(answer->status, NFS4ERR_BAD_STATEID);
}

TEST_F(CallbackWireTest, ReturnsTheStatusOfAFailedCbSequence) {
  const auto answer = Answered(InSession(recall_), {.sequence = NFS4ERR_SEQ_MISORDERED});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->opener, NFS4ERR_SEQ_MISORDERED);
}

TEST_F(CallbackWireTest, AReplyWithoutResultsIsNotSuccess) {
  const CallbackCall call = InSession(recall_);
  const auto head_only = [&](nfsstat4 status) {
    xdr::Encoder encoder(buffers_);
    rpc::EncodeAccepted(encoder, kXid, rpc::AcceptStatus::SUCCESS);
    xdr::Encode(encoder, CB_COMPOUND4res_head{.status = status, .tag = {}, .count = 0});
    return DecodeCallbackReply(encoder.Finish(), kXid, call);
  };
  EXPECT_EQ(head_only(NFS4ERR_MINOR_VERS_MISMATCH)->opener, NFS4ERR_MINOR_VERS_MISMATCH);
  EXPECT_EQ(head_only(NFS4_OK).error(), CallbackProblem::kMalformed);
}

// RFC 8881 §20.9.3
TEST_F(CallbackWireTest, RejectsAReplyToAnotherCall) {
  const CallbackCall call = InSession(recall_);
  CallbackCall other = call;
  other.sequence->csa_sequenceid = 10;
  const rpc::Message reply = ReplyTo(buffers_, Sent(other), {});
  EXPECT_EQ(DecodeCallbackReply(reply, kXid, call).error(), CallbackProblem::kMalformed);
  EXPECT_EQ(DecodeCallbackReply(reply, rpc::Xid(1), other).error(), CallbackProblem::kMalformed);
  EXPECT_TRUE(DecodeCallbackReply(reply, kXid, other));
}

TEST_F(CallbackWireTest, ACallThatRpcRefusesIsNotExecuted) {
  xdr::Encoder encoder(buffers_);
  rpc::EncodeAccepted(encoder, kXid, rpc::AcceptStatus::PROG_UNAVAIL);
  EXPECT_EQ(DecodeCallbackReply(encoder.Finish(), kXid, InSession(recall_)).error(), CallbackProblem::kRefused);
  rpc::EncodeAuthError(encoder, kXid, rpc::AuthStatus::AUTH_TOOWEAK);
  EXPECT_EQ(DecodeCallbackReply(encoder.Finish(), kXid, InSession(recall_)).error(), CallbackProblem::kRefused);
}

TEST_F(CallbackWireTest, ACallThatFailsInTheClientMayHaveBeenExecuted) {
  xdr::Encoder encoder(buffers_);
  rpc::EncodeAccepted(encoder, kXid, rpc::AcceptStatus::SYSTEM_ERR);
  EXPECT_EQ(DecodeCallbackReply(encoder.Finish(), kXid, InSession(recall_)).error(), CallbackProblem::kMalformed);
}

TEST_F(CallbackWireTest, RejectsAMalformedReply) {
  for (size_t size : {0, 4, 12, 23}) {
    const rpc::Message whole = ReplyTo(buffers_, Sent(InSession(recall_)), {});
    const rpc::Message cut = rpc::Message::Whole(whole.stream.Sub(0, size));
    EXPECT_EQ(DecodeCallbackReply(cut, kXid, InSession(recall_)).error(), CallbackProblem::kMalformed) << size;
  }
}

class CallbackAttributesTest : public CallbackWireTest {
 protected:
  Result<CallbackAnswer, CallbackProblem> Answered(const AttributeSet& set, ConstBytes values,
                                                   bool with_times = false) {
    const CallbackOperation operation = MakeGetAttributes(kFile, with_times);
    const fattr4 attributes{.attrmask = set.ToBitmap(), .attr_vals = attrlist4(values)};
    return CallbackWireTest::Answered(InSession(operation), {.attributes = attributes});
  }
};

TEST_F(CallbackAttributesTest, DecodesChangeAndSize) {
  std::array<std::byte, 16> values{};
  StoreBig<uint64_t>(&values[0], 11);
  StoreBig<uint64_t>(&values[8], 22);
  const auto both = Answered({FATTR4_CHANGE, FATTR4_SIZE}, values);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->attributes.change, 11u);
  EXPECT_EQ(both->attributes.size, 22u);
  const auto size = Answered({FATTR4_SIZE}, ConstBytes(values).subspan(8));
  ASSERT_TRUE(size);
  EXPECT_EQ(size->attributes.change, std::nullopt);
  EXPECT_EQ(size->attributes.size, 22u);
  EXPECT_TRUE(Answered({}, {}));
}

// RFC 9754 §5
TEST_F(CallbackAttributesTest, DecodesTheTimesThatItAskedFor) {
  constexpr AttributeSet kTimes{FATTR4_TIME_DELEG_ACCESS, FATTR4_TIME_DELEG_MODIFY};
  std::array<std::byte, 24> values{};
  StoreBig<uint64_t>(&values[0], 11);
  StoreBig<uint32_t>(&values[8], 22);
  StoreBig<uint64_t>(&values[12], 33);
  StoreBig<uint32_t>(&values[20], 999'999'999);
  const auto answered = Answered(kTimes, values, true);
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->attributes.times.access, (fs::Timestamp{11, 22}));
  EXPECT_EQ(answered->attributes.times.modify, (fs::Timestamp{33, 999'999'999}));
  EXPECT_FALSE(Answered(kTimes, values)) << "it did not ask for them";
  StoreBig<uint32_t>(&values[20], 1'000'000'000);
  EXPECT_FALSE(Answered(kTimes, values, true)) << "too many nanoseconds";
  EXPECT_TRUE(Answered({}, {}, true));
}

TEST_F(CallbackAttributesTest, RejectsOtherAttributes) {
  const std::array<std::byte, 24> values{};
  const ConstBytes bytes(values);
  EXPECT_FALSE(Answered({FATTR4_TYPE}, bytes.first(4)));
  EXPECT_FALSE(Answered({FATTR4_SIZE}, bytes.first(4)));
  EXPECT_FALSE(Answered({FATTR4_SIZE}, bytes.first(16)));
}

}  // namespace
}  // namespace penstock::nfs::v4
