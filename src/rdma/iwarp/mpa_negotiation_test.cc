#include "rdma/iwarp/mpa_negotiation.h"

#include <gtest/gtest.h>

namespace penstock::rdma::iwarp {
namespace {

struct Outcome {
  MpaAnswer responder;
  Result<MpaAgreement, MpaRefusal> initiator;
};

Outcome Negotiate(const MpaPreferences& initiator, const MpaPreferences& responder) {
  const MpaFrame request = MakeRequest(initiator, {});
  MpaAnswer answer = AcceptRequest(responder, request, {});
  // Serializing and parsing must not change the frames.
  EXPECT_EQ(MpaFrame::Parse(request.Serialize(), MpaFrame::Kind::kRequest), request);
  EXPECT_EQ(MpaFrame::Parse(answer.reply.Serialize(), MpaFrame::Kind::kReply), answer.reply);
  auto result = HandleReply(initiator, request, answer.reply);
  return {std::move(answer), std::move(result)};
}

TEST(MpaNegotiationTest, CheckValuesAreUsedIfEitherSideAsks) {
  for (bool a : {false, true}) {
    for (bool b : {false, true}) {
      MpaPreferences initiator{.crc = a}, responder{.crc = b};
      Outcome outcome = Negotiate(initiator, responder);
      EXPECT_EQ(outcome.responder.agreement.crc, a || b);
      EXPECT_EQ(outcome.initiator->crc, a || b);
    }
  }
}

TEST(MpaNegotiationTest, EachSideChoosesMarkersForItsIncomingStream) {
  MpaPreferences initiator{.markers = true}, responder{.markers = false};
  Outcome outcome = Negotiate(initiator, responder);
  EXPECT_TRUE(outcome.initiator->receive_markers);
  EXPECT_FALSE(outcome.initiator->send_markers);
  EXPECT_TRUE(outcome.responder.agreement.send_markers);
  EXPECT_FALSE(outcome.responder.agreement.receive_markers);
}

TEST(MpaNegotiationTest, OrdNeverExceedsTheIrdOfThePeer) {
  for (uint16_t ird : {0, 1, 3, 200}) {
    for (uint16_t ord : {0, 1, 3, 200}) {
      MpaPreferences initiator{.ird = ird, .ord = ord}, responder{.ird = 5, .ord = 7};
      Outcome outcome = Negotiate(initiator, responder);
      ASSERT_TRUE(outcome.initiator);
      const MpaAgreement& ours = *outcome.initiator;
      const MpaAgreement& theirs = outcome.responder.agreement;
      EXPECT_EQ(ours.ord, std::min<uint16_t>(ord, 5));
      EXPECT_EQ(theirs.ord, std::min<uint16_t>(ird, 7));
      EXPECT_LE(ours.ord, theirs.ird);
      EXPECT_LE(theirs.ord, ours.ird);
    }
  }
}

TEST(MpaNegotiationTest, KeepsDepthsThatAreNotNegotiated) {
  MpaFrame request = MakeRequest({}, {});
  request.enhanced->ird = request.enhanced->ord = EnhancedData::kNoNegotiation;
  MpaAnswer answer = AcceptRequest({.ird = 5, .ord = 7}, request, {});
  EXPECT_EQ(answer.agreement.ird, 5);
  EXPECT_EQ(answer.agreement.ord, 7);
  EXPECT_EQ(answer.reply.enhanced->ird, EnhancedData::kNoNegotiation);
  EXPECT_EQ(answer.reply.enhanced->ord, EnhancedData::kNoNegotiation);
  auto agreement = HandleReply({.ird = 3, .ord = 9}, MakeRequest({.ird = 3, .ord = 9}, {}), answer.reply);
  ASSERT_TRUE(agreement);
  EXPECT_EQ(agreement->ird, 3);
  EXPECT_EQ(agreement->ord, 9);
}

TEST(MpaNegotiationTest, RefusesReplyWithOrdAboveTheRequestedIrd) {
  const MpaFrame request = MakeRequest({.ird = 3}, {});
  MpaAnswer answer = AcceptRequest({}, request, {});
  answer.reply.enhanced->ord = 4;
  auto agreement = HandleReply({.ird = 3}, request, answer.reply);
  ASSERT_FALSE(agreement);
  EXPECT_EQ(agreement.error().code, terminate::kInsufficientIrd);
}

TEST(MpaNegotiationTest, ChoosesACommonReadinessIndication) {
  for (int a = 1; a < 8; ++a) {
    for (int b = 1; b < 8; ++b) {
      MpaPreferences initiator, responder;
      initiator.peer_to_peer = true;
      initiator.rtr = {(a & 1) != 0, (a & 2) != 0, (a & 4) != 0};
      initiator.ord = 0;
      responder.rtr = {(b & 1) != 0, (b & 2) != 0, (b & 4) != 0};
      Outcome outcome = Negotiate(initiator, responder);
      EXPECT_TRUE(outcome.responder.reply.enhanced->peer_to_peer);
      if (a & b) {
        ASSERT_TRUE(outcome.initiator);
        const Rtr rtr = *outcome.initiator->send_rtr;
        EXPECT_TRUE(a & b & (rtr == Rtr::kSend ? 1 : rtr == Rtr::kWrite ? 2 : 4));
        if (rtr == Rtr::kSend) {
          EXPECT_TRUE(outcome.responder.agreement.absorb_rtr_send);
        }
        // RFC 6581 §9.1: the responder serves this Read even if neither side asks for others.
        if (rtr == Rtr::kRead) {
          EXPECT_GE(outcome.responder.agreement.ird, 1);
          EXPECT_GE(outcome.initiator->ord, 1) << "an ORD of 0 would hold the Read back forever";
        }
      } else {
        ASSERT_FALSE(outcome.initiator);
        EXPECT_EQ(outcome.initiator.error().code, terminate::kNoMatchingRtr);
      }
    }
  }
}

TEST(MpaNegotiationTest, AnswersRevisionOneWithRevisionOne) {
  MpaPreferences initiator{.revision = 1, .ird = 4, .ord = 6};
  Outcome outcome = Negotiate(initiator, {.ird = 5, .ord = 7});
  EXPECT_EQ(outcome.responder.reply.revision, 1);
  EXPECT_FALSE(outcome.responder.reply.enhanced);
  EXPECT_EQ(outcome.responder.agreement.ird, 5);
  EXPECT_EQ(outcome.initiator->ord, 6);
}

TEST(MpaNegotiationTest, AnswersAPlainRequestWithoutEnhancedData) {
  MpaFrame request = MakeRequest({.revision = 2}, {});
  request.enhanced.reset();
  EXPECT_FALSE(AcceptRequest({}, request, {}).reply.enhanced);
  EXPECT_FALSE(RejectRequest({}, request, {}).enhanced);
}

TEST(MpaNegotiationTest, AcceptsRevisionOneReplyToAnEnhancedRequest) {
  MpaFrame reply;
  reply.kind = MpaFrame::Kind::kReply;
  auto agreement = HandleReply({.ird = 4, .ord = 6}, MakeRequest({.ird = 4, .ord = 6}, {}), reply);
  ASSERT_TRUE(agreement);
  EXPECT_EQ(agreement->ird, 4);
  EXPECT_EQ(agreement->ord, 6);
}

TEST(MpaNegotiationTest, RejectionIsEnhancedIfTheRequestIs) {
  for (uint8_t revision : {1, 2}) {
    const MpaFrame request = MakeRequest({.revision = revision, .peer_to_peer = true}, {});
    const MpaFrame reply = RejectRequest({}, request, {std::byte{7}});
    EXPECT_TRUE(reply.rejected);
    EXPECT_EQ(reply.revision, revision);
    EXPECT_EQ(reply.enhanced.has_value(), revision == 2);
    EXPECT_EQ(MpaFrame::Parse(reply.Serialize(), MpaFrame::Kind::kReply), reply);
  }
}

}  // namespace
}  // namespace penstock::rdma::iwarp
