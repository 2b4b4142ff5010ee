#include "nfs/v4/state/sessions/channel_attributes.h"

#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

TEST(ChannelAttributes, GrantsARequestWithinTheLimits) {
  const nfs4::channel_attrs4 asked = PlainChannel();
  Settings settings;
  settings.max_operations = 200;
  EXPECT_EQ(NegotiateFore(asked, settings), asked);
}

TEST(ChannelAttributes, NeverRaisesRequestedSizes) {
  Settings settings;
  const auto given = NegotiateFore(PlainChannel(), settings);
  ASSERT_TRUE(given);
  EXPECT_EQ(given->ca_maxrequestsize, 8192u);
  EXPECT_EQ(given->ca_maxresponsesize, 8192u);
}

TEST(ChannelAttributes, ReducesARequestToTheServersLimits) {
  const Settings settings{.max_request = 10'000,
                          .max_response = 9'000,
                          .max_cached_response = 2'000,
                          .max_operations = 32,
                          .max_slots = 16};
  nfs4::channel_attrs4 asked;
  asked.ca_headerpadsize = asked.ca_maxrequestsize = asked.ca_maxresponsesize = asked.ca_maxresponsesize_cached =
      asked.ca_maxoperations = asked.ca_maxrequests = 0xffffffff;
  const auto given = NegotiateFore(asked, settings);
  ASSERT_TRUE(given);
  EXPECT_EQ(given->ca_headerpadsize, 0u);
  EXPECT_EQ(given->ca_maxrequestsize, 10'000u);
  EXPECT_EQ(given->ca_maxresponsesize, 9'000u);
  EXPECT_EQ(given->ca_maxresponsesize_cached, 2'000u);
  EXPECT_EQ(given->ca_maxoperations, 32u);
  EXPECT_EQ(given->ca_maxrequests, 16u);
}

TEST(ChannelAttributes, CachedReplySizeIsAtMostTheReplySize) {
  nfs4::channel_attrs4 asked = PlainChannel();
  asked.ca_maxresponsesize = 1000;
  EXPECT_EQ(NegotiateFore(asked, Settings())->ca_maxresponsesize_cached, 1000u);
}

TEST(ChannelAttributes, RefusesAForeChannelTooSmallForSequence) {
  nfs4::channel_attrs4 asked = PlainChannel();
  asked.ca_maxrequestsize = kSmallestRequest - 1;
  EXPECT_EQ(NegotiateFore(asked, Settings()), std::unexpected(nfs4::NFS4ERR_TOOSMALL));
  asked.ca_maxrequestsize = kSmallestRequest;
  EXPECT_TRUE(NegotiateFore(asked, Settings()));
  asked.ca_maxresponsesize = kSmallestReply - 1;
  EXPECT_EQ(NegotiateFore(asked, Settings()), std::unexpected(nfs4::NFS4ERR_TOOSMALL));
}

TEST(ChannelAttributes, AllowsASessionThatKeepsNoReplies) {
  nfs4::channel_attrs4 asked = PlainChannel();
  asked.ca_maxresponsesize_cached = 0;
  EXPECT_EQ(NegotiateFore(asked, Settings())->ca_maxresponsesize_cached, 0u);
}

TEST(ChannelAttributes, GrantsAtLeastOneSlot) {
  EXPECT_EQ(NegotiateFore(PlainChannel(0), Settings())->ca_maxrequests, 1u);
}

// RFC 8881 §18.36.3: the server must not change ca_maxoperations and ca_maxrequests of the backchannel.
TEST(ChannelAttributes, AcceptsTheBackchannelThatTheClientOffers) {
  nfs4::channel_attrs4 asked = PlainChannel(1000);
  asked.ca_maxoperations = 2;
  EXPECT_EQ(NegotiateBack(asked, nullptr), asked);
}

TEST(ChannelAttributes, RefusesABackchannelTooSmallForARecall) {
  const auto refused = [](auto change) {
    nfs4::channel_attrs4 asked = PlainChannel();
    change(asked);
    return NegotiateBack(asked, nullptr) == std::unexpected(nfs4::NFS4ERR_TOOSMALL);
  };
  EXPECT_TRUE(refused([](auto& asked) { asked.ca_maxrequestsize = 10; }));
  EXPECT_TRUE(refused([](auto& asked) { asked.ca_maxresponsesize = 10; }));
  EXPECT_TRUE(refused([](auto& asked) { asked.ca_maxoperations = 1; }));
  EXPECT_TRUE(refused([](auto& asked) { asked.ca_maxrequests = 0; }));
  EXPECT_FALSE(refused([](auto&) {}));
}

// A protection with a handle of this size.
class Handled final : public rpc::ReverseProtection {
 public:
  explicit Handled(size_t size) : size_(size) {}
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::BackChannel&, rpc::Message, rpc::ReplyShape) override {
    co_return std::unexpected(rpc::CallError::kDisconnected);
  }
  TimePoint expires() const override { return TimePoint::max(); }
  size_t handle_size() const override { return size_; }

 private:
  const size_t size_;
};

TEST(ChannelAttributes, ABackchannelNeedsRoomForTheProtectionOfCallbacks) {
  const Handled handled(16), handled_long(300);
  nfs4::channel_attrs4 asked = PlainChannel();
  asked.ca_maxrequestsize = 280 + 140 + 16;
  asked.ca_maxresponsesize = 96 + 140;
  EXPECT_TRUE(NegotiateBack(asked, &handled));
  EXPECT_FALSE(NegotiateBack(asked, &handled_long));
  asked.ca_maxresponsesize -= 4;
  EXPECT_TRUE(NegotiateBack(asked, nullptr));
  EXPECT_FALSE(NegotiateBack(asked, &handled));
}

}  // namespace
}  // namespace penstock::nfs::v4
