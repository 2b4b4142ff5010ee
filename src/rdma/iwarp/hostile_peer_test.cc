// Tests of protocol violations and of the Terminate for each (RFC 5041 §7, RFC 5040 §4.8 and §7, RFC 5044 §8).
#include <gtest/gtest.h>

#include "rdma/iwarp/test_wire.h"

namespace penstock::rdma::iwarp {
namespace {

class HostilePeerTest : public testing::Test {
 protected:
  HostilePeerTest() : HostilePeerTest(PlainOptions(false)) {}
  explicit HostilePeerTest(const RdmapStream::Options& options) : stream_(options, pool_, TestEntropy()) {
    stream_.PostReceive({1, 512});
    writable_ = stream_.Register(memory_, Access::kRemoteWrite);
    readable_ = stream_.Register(memory_, Access::kRemoteRead);
  }

  // Checks that the connection ends with this Terminate, and that nothing follows it.
  void ExpectTerminate(TerminateCode code, std::optional<size_t> ddp_header_size = {}, bool read_request = false) {
    const Octets out = TakeOutput(stream_);
    ASSERT_GE(out.size(), 2 + UntaggedHeader::kSize + 4 + 4);
    const size_t ulpdu = LoadBig<uint16_t>(out.data());
    ASSERT_EQ(out.size(), 2 + ulpdu + PadSize(ulpdu) + kCrcSize) << "the output must be one FPDU";
    EXPECT_EQ(UntaggedHeader::Parse(&out[2]), Untagged(Opcode::kTerminate, kTerminateQueue, 1));
    auto message = TerminateMessage::Parse(ConstBytes(out).subspan(2 + 18, ulpdu - 18));
    ASSERT_TRUE(message);
    EXPECT_EQ(message->code, code) << message->ToString();
    if (ddp_header_size) {
      EXPECT_EQ(message->ddp_header_size, *ddp_header_size);
    }
    EXPECT_EQ(message->read_request.has_value(), read_request);
    EXPECT_TRUE(stream_.lost());
    EXPECT_EQ(stream_.ending(), RdmapStream::Ending::kShutdown);
    EXPECT_FALSE(writable_->valid());
    auto completions = PollAll(stream_);
    ASSERT_FALSE(completions.empty());
    EXPECT_EQ(completions.back().operation, Operation::kDisconnected);
    EXPECT_EQ(completions.back().reason, DisconnectReason::kProtocolError);
    EXPECT_EQ(memory_, Octets(256)) << "no payload may be placed";
    // Later segments are dropped without an answer (RFC 5041 §7.1).
    Feed(stream_, forge_.Segment(Untagged(Opcode::kSend, kSendQueue, 1), Octets(3)));
    EXPECT_TRUE(TakeOutput(stream_).empty());
    EXPECT_TRUE(PollAll(stream_).empty());
  }

  template <class Header>
  void Send(const Header& header, ConstBytes payload = {}) {
    Feed(stream_, forge_.Segment(header, payload));
  }
  void SendReadRequest(const ReadRequestHeader& request, uint32_t msn = 1) {
    Octets body(ReadRequestHeader::kSize);
    request.Serialize(body.data());
    Send(Untagged(Opcode::kReadRequest, kReadRequestQueue, msn), body);
  }
  ReadRequestHeader Request(uint32_t size) { return {Stag(9), 0, size, readable_->stag(), readable_->offset()}; }

  BufferPool pool_;
  Octets memory_ = Octets(256);
  RdmapStream stream_;
  std::unique_ptr<MemoryRegion> writable_, readable_;
  Forge forge_;
  const Octets payload_ = Pattern(16);
};

TEST_F(HostilePeerTest, RefusesWriteToUnknownStag) {
  Send(Tagged(Opcode::kWrite, Stag(writable_->stag().value() ^ 0x80000000), writable_->offset()), payload_);
  ExpectTerminate(terminate::kInvalidStag, TaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesWriteToRegionOfAnotherConnection) {
  RdmapStream other(PlainOptions(false), pool_, TestEntropy(2));
  auto region = other.Register(memory_, Access::kRemoteWrite);
  Send(Tagged(Opcode::kWrite, region->stag(), region->offset()), payload_);
  ExpectTerminate(terminate::kInvalidStag, TaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesWriteToInvalidatedRegion) {
  stream_.PostInvalidate(5, *writable_);
  Send(Tagged(Opcode::kWrite, writable_->stag(), writable_->offset()), payload_);
  ExpectTerminate(terminate::kInvalidStag, TaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesWriteToRegionForReading) {
  Send(Tagged(Opcode::kWrite, readable_->stag(), readable_->offset()), payload_);
  ExpectTerminate(terminate::kInvalidStag, TaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesWriteBeforeTheRegion) {
  Send(Tagged(Opcode::kWrite, writable_->stag(), writable_->offset() - 1), payload_);
  ExpectTerminate(terminate::kBounds, TaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesWriteOneOctetBeyondTheRegion) {
  Send(Tagged(Opcode::kWrite, writable_->stag(), writable_->offset() + 256 - 15), payload_);
  ExpectTerminate(terminate::kBounds, TaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesWriteWhoseOffsetWraps) {
  Send(Tagged(Opcode::kWrite, writable_->stag(), ~uint64_t{0} - 3), payload_);
  ExpectTerminate(terminate::kWrap, TaggedHeader::kSize);
}

TEST_F(HostilePeerTest, AcceptsEmptyWriteToAnyStag) {
  Send(Tagged(Opcode::kWrite, Stag(0), ~uint64_t{0}));
  EXPECT_FALSE(stream_.lost());
}

TEST_F(HostilePeerTest, RefusesWrongDdpVersionInTaggedHeader) {
  TaggedHeader header = Tagged(Opcode::kWrite, writable_->stag(), writable_->offset());
  header.control.ddp_version = 2;
  Send(header, payload_);
  ExpectTerminate(terminate::kTaggedVersion, TaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesWrongDdpVersionInUntaggedHeader) {
  UntaggedHeader header = Untagged(Opcode::kSend, kSendQueue, 1);
  header.control.ddp_version = 0;
  Send(header, payload_);
  ExpectTerminate(terminate::kUntaggedVersion, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesWrongRdmapVersion) {
  UntaggedHeader header = Untagged(Opcode::kSend, kSendQueue, 1);
  header.control.rdmap_version = 2;
  Send(header, payload_);
  ExpectTerminate(terminate::kRdmapVersion, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, AcceptsTheVersionOfTheRdmaConsortium) {
  UntaggedHeader header = Untagged(Opcode::kSend, kSendQueue, 1);
  header.control.rdmap_version = 0;
  Send(header, payload_);
  EXPECT_FALSE(stream_.lost());
}

// Reserved bits, the STag of a Send without Invalidate, the pad, and a check value that is not agreed on.
TEST_F(HostilePeerTest, IgnoresReservedAndUnusedFields) {
  Octets fpdu = forge_.Segment(Untagged(Opcode::kSend, kSendQueue, 1), Octets(15));
  fpdu[2] |= std::byte{0x3c};
  fpdu[3] |= std::byte{0x30};
  StoreBig(&fpdu[4], writable_->stag().value());
  ASSERT_EQ(fpdu.size(), 2 + UntaggedHeader::kSize + 15 + 1 + kCrcSize);
  std::fill(fpdu.end() - 1 - kCrcSize, fpdu.end(), std::byte{0xee});
  Feed(stream_, fpdu);
  const auto received = PollAll(stream_);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, Status::kSuccess);
  EXPECT_EQ(received[0].length, 15u);
  EXPECT_FALSE(received[0].invalidated);
  EXPECT_TRUE(writable_->valid());
}

TEST_F(HostilePeerTest, RefusesEveryOpcodeOnTheWrongQueue) {
  for (bool tagged : {false, true}) {
    for (uint8_t opcode = 0; opcode < 16; ++opcode) {
      for (uint32_t queue = 0; queue < (tagged ? 1u : 4u); ++queue) {
        const bool is_tagged_kind = opcode == 0 || opcode == 2;
        const bool fits = tagged ? is_tagged_kind
                                 : (queue == 0 && opcode >= 3 && opcode <= 6) || (queue == 1 && opcode == 1) ||
                                       (queue == 2 && opcode == 7);
        if (fits) continue;
        RdmapStream fresh(PlainOptions(false), pool_, TestEntropy());
        Forge forge;
        Feed(fresh, tagged ? forge.Segment(Tagged(Opcode{opcode}, Stag(1), 0), payload_)
                           : forge.Segment(Untagged(Opcode{opcode}, queue, 1), payload_));
        const Octets out = TakeOutput(fresh);
        ASSERT_GT(out.size(), 24u);
        auto message = TerminateMessage::Parse(ConstBytes(out).subspan(20));
        EXPECT_EQ(message->code, queue == 3 ? terminate::kInvalidQueue : terminate::kUnexpectedOpcode)
            << unsigned{opcode} << " on " << queue;
      }
    }
  }
}

TEST_F(HostilePeerTest, RefusesSendWithoutAReceive) {
  Send(Untagged(Opcode::kSend, kSendQueue, 1), payload_);
  PollAll(stream_);
  Send(Untagged(Opcode::kSend, kSendQueue, 2), payload_);
  ExpectTerminate(terminate::kNoBuffer, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesSendWithWrongMsn) {
  Send(Untagged(Opcode::kSend, kSendQueue, 2), payload_);
  ExpectTerminate(terminate::kMsnRange, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesRepeatedSend) {
  Send(Untagged(Opcode::kSend, kSendQueue, 1), payload_);
  PollAll(stream_);
  Send(Untagged(Opcode::kSend, kSendQueue, 1), payload_);
  ExpectTerminate(terminate::kMsnRange, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesSendLongerThanItsReceive) {
  Send(Untagged(Opcode::kSend, kSendQueue, 1), Octets(513));
  ExpectTerminate(terminate::kTooLong, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesSendWhoseLaterSegmentIsTooLong) {
  Send(Untagged(Opcode::kSend, kSendQueue, 1, 0, false), Octets(512));
  Send(Untagged(Opcode::kSend, kSendQueue, 1, 512), Octets(1));
  ExpectTerminate(terminate::kTooLong, UntaggedHeader::kSize);
}

// With a hole, the old contents of the buffer would count as data of the peer.
TEST_F(HostilePeerTest, RefusesSendWithAHole) {
  Send(Untagged(Opcode::kSend, kSendQueue, 1, 0, false), Octets(8));
  Send(Untagged(Opcode::kSend, kSendQueue, 1, 9), Octets(8));
  ExpectTerminate(terminate::kInvalidOffset, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesSendThatChangesItsOpcode) {
  Send(Untagged(Opcode::kSend, kSendQueue, 1, 0, false), Octets(8));
  Send(Untagged(Opcode::kSendSolicited, kSendQueue, 1, 8), Octets(8));
  ExpectTerminate(terminate::kUnexpectedOpcode, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesInvalidationOfUnknownStag) {
  UntaggedHeader header = Untagged(Opcode::kSendInvalidate, kSendQueue, 1);
  header.invalidate = Stag(12345);
  Send(header, payload_);
  ExpectTerminate(terminate::kCannotInvalidate, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesReadResponseWithoutARead) {
  Send(Tagged(Opcode::kReadResponse, Stag(1), 0), payload_);
  ExpectTerminate(terminate::kUnexpectedOpcode, TaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesReadOfUnknownStag) {
  ReadRequestHeader request = Request(16);
  request.source_stag = Stag(77);
  SendReadRequest(request);
  ExpectTerminate(terminate::kSourceInvalidStag, UntaggedHeader::kSize, true);
}

TEST_F(HostilePeerTest, RefusesReadOfRegionForWriting) {
  ReadRequestHeader request = Request(16);
  request.source_stag = writable_->stag();
  request.source_offset = writable_->offset();
  SendReadRequest(request);
  ExpectTerminate(terminate::kSourceAccess, UntaggedHeader::kSize, true);
}

TEST_F(HostilePeerTest, RefusesReadOutOfBounds) {
  SendReadRequest(Request(257));
  ExpectTerminate(terminate::kSourceBounds, UntaggedHeader::kSize, true);
}

TEST_F(HostilePeerTest, RefusesReadWhoseOffsetWraps) {
  ReadRequestHeader request = Request(16);
  request.source_offset = ~uint64_t{0} - 3;
  SendReadRequest(request);
  ExpectTerminate(terminate::kSourceWrap, UntaggedHeader::kSize, true);
}

TEST_F(HostilePeerTest, AnswersEmptyReadOfAnyStag) {
  SendReadRequest({Stag(9), 5, 0, Stag(77), ~uint64_t{0}});
  const Octets out = TakeOutput(stream_);
  ASSERT_EQ(out.size(), 2 + TaggedHeader::kSize + kCrcSize);
  EXPECT_EQ(TaggedHeader::Parse(&out[2]), Tagged(Opcode::kReadResponse, Stag(9), 5));
}

TEST_F(HostilePeerTest, RefusesReadRequestThatIsTooShort) {
  Send(Untagged(Opcode::kReadRequest, kReadRequestQueue, 1), Octets(27));
  ExpectTerminate(terminate::kUnspecified, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesReadRequestThatIsTooLong) {
  Send(Untagged(Opcode::kReadRequest, kReadRequestQueue, 1), Octets(29));
  ExpectTerminate(terminate::kTooLong, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesMoreReadsThanIrd) {
  // All requests arrive at once, before one can be answered.
  Octets all;
  for (uint32_t msn = 1; msn <= 3; ++msn) {
    Octets body(ReadRequestHeader::kSize);
    Request(16).Serialize(body.data());
    const Octets one = forge_.Segment(Untagged(Opcode::kReadRequest, kReadRequestQueue, msn), body);
    all.insert(all.end(), one.begin(), one.end());
  }
  Feed(stream_, all);
  ExpectTerminate(terminate::kNoBuffer, UntaggedHeader::kSize);
}

// RFC 5042 §6.4.3.3
TEST_F(HostilePeerTest, ReadsOfOneConnectionLeaveTheIrdOfOthersFree) {
  RdmapStream other(PlainOptions(false), pool_, TestEntropy(2));
  const Octets memory = Pattern(16);
  Octets exposed = memory;
  auto region = other.Register(exposed, Access::kRemoteRead);
  for (uint32_t msn = 1; msn <= 2; ++msn) SendReadRequest(Request(16), msn);
  // These are all Reads that it may have at once, and its peer does not receive the responses.
  ASSERT_FALSE(stream_.lost());
  Forge others;
  for (uint32_t msn = 1; msn <= 2; ++msn) {
    Octets body(ReadRequestHeader::kSize);
    ReadRequestHeader{Stag(9), 0, 16, region->stag(), region->offset()}.Serialize(body.data());
    Feed(other, others.Segment(Untagged(Opcode::kReadRequest, kReadRequestQueue, msn), body));
  }
  ASSERT_FALSE(other.lost());
  const Octets answers = TakeOutput(other);
  const Octets one = Forge().Segment(Tagged(Opcode::kReadResponse, Stag(9), 0), memory);
  EXPECT_EQ(answers.size(), 2 * one.size());
  EXPECT_TRUE(Equal(ConstBytes(answers).first(one.size()), one));
}

TEST_F(HostilePeerTest, RefusesTerminateThatIsTooLong) {
  Send(Untagged(Opcode::kTerminate, kTerminateQueue, 1), Octets(TerminateMessage::kMaxSize + 1));
  ExpectTerminate(terminate::kTooLong, UntaggedHeader::kSize);
}

TEST_F(HostilePeerTest, RefusesFpduTooShortForItsHeader) {
  for (unsigned length : {0u, 1u, 13u}) {
    RdmapStream fresh(PlainOptions(false), pool_, TestEntropy());
    Octets bytes(32);
    StoreBig(bytes.data(), static_cast<uint16_t>(length));
    bytes[2] = std::byte{0xc1};
    Feed(fresh, bytes);
    EXPECT_TRUE(fresh.lost()) << length;
  }
  Send(Tagged(Opcode::kWrite, Stag(0), 0));  // a responder may send only after a valid FPDU (RFC 5044 §7.1.2)
  Octets bytes(32);
  StoreBig<uint16_t>(bytes.data(), 17);  // enough for a tagged header, but this header is untagged
  bytes[2] = std::byte{0x41};
  Feed(stream_, bytes);
  ExpectTerminate(terminate::kUnspecified, 0);
}

TEST_F(HostilePeerTest, MalformedTerminateEndsTheConnection) {
  Send(Untagged(Opcode::kTerminate, kTerminateQueue, 1), Octets(3));
  EXPECT_TRUE(stream_.lost());
  EXPECT_TRUE(TakeOutput(stream_).empty());
  EXPECT_EQ(PollAll(stream_).back().reason, DisconnectReason::kPeerTerminated);
}

// Reads of this side, and the responses that the peer may send.
class HostileReadTest : public HostilePeerTest {
 protected:
  HostileReadTest() : HostilePeerTest(PlainOptions(true)) {
    stream_.PostRead({7, sink_, {}, {Stag(0x1234), 64, 0x1000}});
    const Octets out = TakeOutput(stream_);
    request_ = ReadRequestHeader::Parse(&out[2 + UntaggedHeader::kSize]);
  }
  Octets sink_ = Octets(64);
  ReadRequestHeader request_;
};

TEST_F(HostileReadTest, SendsTheRequestedRead) {
  EXPECT_EQ(request_.size, 64u);
  EXPECT_EQ(request_.source_stag, Stag(0x1234));
  EXPECT_EQ(request_.source_offset, 0x1000u);
}

TEST_F(HostileReadTest, RefusesResponseToAnotherStag) {
  Send(Tagged(Opcode::kReadResponse, Stag(request_.sink_stag.value() + 1), request_.sink_offset), Octets(64));
  ExpectTerminate(terminate::kInvalidStag, TaggedHeader::kSize);
}

TEST_F(HostileReadTest, RefusesResponseThatIsTooLong) {
  Send(Tagged(Opcode::kReadResponse, request_.sink_stag, request_.sink_offset), Octets(65));
  ExpectTerminate(terminate::kBounds, TaggedHeader::kSize);
}

TEST_F(HostileReadTest, RefusesResponseThatIsTooShort) {
  Send(Tagged(Opcode::kReadResponse, request_.sink_stag, request_.sink_offset), Octets(63));
  ExpectTerminate(terminate::kBounds, TaggedHeader::kSize);
}

TEST_F(HostileReadTest, RefusesEmptyResponse) {
  Send(Tagged(Opcode::kReadResponse, request_.sink_stag, request_.sink_offset));
  ExpectTerminate(terminate::kBounds, TaggedHeader::kSize);
}

TEST_F(HostileReadTest, RefusesResponseWithAHole) {
  Send(Tagged(Opcode::kReadResponse, request_.sink_stag, request_.sink_offset + 1), Octets(63));
  ExpectTerminate(terminate::kBounds, TaggedHeader::kSize);
}

TEST_F(HostileReadTest, RefusesResponseWhoseOffsetWraps) {
  Send(Tagged(Opcode::kReadResponse, request_.sink_stag, ~uint64_t{0}), Octets(64));
  ExpectTerminate(terminate::kWrap, TaggedHeader::kSize);
}

TEST_F(HostileReadTest, RefusesWriteToTheSinkOfARead) {
  Send(Tagged(Opcode::kWrite, request_.sink_stag, request_.sink_offset), Octets(64));
  ExpectTerminate(terminate::kInvalidStag, TaggedHeader::kSize);
}

TEST_F(HostileReadTest, TerminateNamesTheFailedRead) {
  Octets body(TerminateMessage::kMaxSize);
  body.resize(MakeTerminate(terminate::kSourceInvalidStag, {}, 0, request_).Serialize(body.data()));
  Send(Untagged(Opcode::kTerminate, kTerminateQueue, 1), body);
  auto completions = PollAll(stream_);
  ASSERT_EQ(completions.size(), 3u);
  EXPECT_EQ(completions[0].context, 7u);
  EXPECT_EQ(completions[0].status, Status::kRemoteAccess);
  EXPECT_EQ(completions[1].status, Status::kFlushed);
  EXPECT_EQ(completions[2].reason, DisconnectReason::kPeerTerminated);
  EXPECT_EQ(completions[2].detail,
            "the peer: RDMAP remote protection: invalid STag, reading 64 octets of 0x00001234+0x1000");
  EXPECT_EQ(stream_.ending(), RdmapStream::Ending::kClose);
}

class WrongCheckValueTest : public HostilePeerTest {
 protected:
  static RdmapStream::Options Checked() {
    RdmapStream::Options options = PlainOptions(false);
    options.agreement.crc = true;
    return options;
  }
  WrongCheckValueTest() : HostilePeerTest(Checked()) {}
};

TEST_F(WrongCheckValueTest, PlacesNoPayloadIfTheWholeFpduHasArrived) {
  Forge forge(Framing{});
  Feed(stream_, forge.Segment(Tagged(Opcode::kWrite, Stag(0), 0), {}));
  Octets fpdu = forge.Segment(Tagged(Opcode::kWrite, writable_->stag(), writable_->offset()), payload_);
  fpdu[20] ^= std::byte{1};
  Feed(stream_, fpdu);
  ExpectTerminate(terminate::kCrc, 0);
}

TEST_F(WrongCheckValueTest, DetectsDamageToAnyOctet) {
  const Octets good = Forge(Framing{}).Segment(Untagged(Opcode::kSend, kSendQueue, 1), payload_);
  for (size_t i = 0; i < good.size(); ++i) {
    for (size_t step : {1000, 1, 7}) {
      // A larger length field makes the receiver wait for more octets, so that more follow.
      Octets bad = good;
      bad[i] ^= std::byte{4};
      bad.resize(70000);
      RdmapStream fresh(Checked(), pool_, TestEntropy());
      fresh.PostReceive({1, 512});
      Feed(fresh, bad, [&](size_t) { return step; });
      ASSERT_TRUE(fresh.lost()) << i;
      const auto completions = PollAll(fresh);
      EXPECT_EQ(completions.front().status, Status::kFlushed) << i;
      // An FPDU whose length is less than a header has no check value.
      if (i > 1) {
        EXPECT_EQ(completions.back().detail, terminate::kCrc.ToString()) << i;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::rdma::iwarp
