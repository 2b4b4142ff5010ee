#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class SlotBalanceTest : public ClientsTest {
 protected:
  SlotBalanceTest() {
    settings_.max_slots = 8;
    settings_.max_kept_octets = 100;
    connection_.back_channel = std::make_shared<TestBackChannel>(buffers_);
  }
  static xdr::Message Reply(size_t octets) {
    static const std::string text(1000, 'x');
    return xdr::Message::Whole(Slice::Borrowed(AsBytes(text).first(octets)));
  }
  void Keep(const SessionId& session, uint32_t slot, uint32_t sequence, size_t octets) {
    ASSERT_TRUE(Start(session, slot, sequence));
    Finish(session, slot, sequence, Reply(octets));
  }
  std::vector<SlotRecall> Balance() {
    tables_.BalanceReplies(now_);
    return tables_.TakeOwed().slot_recalls;
  }
  // Executes a request on slot 0 that names the highest slot in use. Returns the result of SEQUENCE.
  nfs4::SEQUENCE4resok Say(const SessionId& session, uint32_t sequence, uint32_t highest) {
    const auto started = Start(session, 0, sequence, {.size = 200, .operations = 1}, false, highest);
    EXPECT_TRUE(started);
    Finish(session, 0, sequence);
    return started->sequence;
  }

  BufferPool buffers_;
};

TEST_F(SlotBalanceTest, CountsTheOctetsOfKeptReplies) {
  const Opened client = Open("owner");
  Keep(client.session, 0, 1, 40);
  Keep(client.session, 1, 1, 20);
  EXPECT_EQ(sessions_.kept_octets(), 60u);
  Keep(client.session, 0, 2, 8);
  EXPECT_EQ(sessions_.kept_octets(), 28u);
  ASSERT_TRUE(Start(client.session, 1, 2));
  EXPECT_EQ(sessions_.kept_octets(), 8u);
  Finish(client.session, 1, 2);
  EXPECT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  EXPECT_EQ(sessions_.kept_octets(), 0u);
}

TEST_F(SlotBalanceTest, KeepsAllSlotsWhileMemorySuffices) {
  const Opened client = Open("owner");
  Keep(client.session, 0, 1, 100);
  EXPECT_THAT(Balance(), IsEmpty());
  EXPECT_EQ(Say(client.session, 2, 0).sr_target_highest_slotid, 7u);
}

TEST_F(SlotBalanceTest, TakesSlotsBackOnceTheClientFollowsTheTarget) {
  const Opened client = Open("owner");
  for (uint32_t slot = 0; slot < 8; ++slot) Keep(client.session, slot, 1, 20);
  const auto recalls = Balance();
  ASSERT_THAT(recalls, SizeIs(1));
  EXPECT_EQ(recalls[0].client, client.client);
  EXPECT_EQ(recalls[0].session, client.session);
  EXPECT_EQ(recalls[0].target_highest, SlotId(3));
  EXPECT_TRUE(sessions_.OwesSlots(recalls[0]));

  // The client learns the target from the first reply, and follows the target in the second request.
  const auto heard = Say(client.session, 2, 7);
  EXPECT_EQ(heard.sr_target_highest_slotid, 3u);
  EXPECT_EQ(heard.sr_highest_slotid, 7u);
  EXPECT_EQ(Say(client.session, 3, 3).sr_highest_slotid, 3u);
  EXPECT_EQ(sessions_.kept_octets(), 60u);
  EXPECT_FALSE(sessions_.OwesSlots(recalls[0]));
  EXPECT_EQ(Start(client.session, 5, 2).error(), nfs4::NFS4ERR_BADSLOT);
}

TEST_F(SlotBalanceTest, WaitsForClientsToFollowBeforeTheNextChange) {
  const Opened client = Open("owner");
  for (uint32_t slot = 0; slot < 8; ++slot) Keep(client.session, slot, 1, 20);
  EXPECT_THAT(Balance(), SizeIs(1));
  now_ += std::chrono::seconds(9);
  EXPECT_THAT(Balance(), IsEmpty());
  now_ += std::chrono::seconds(1);
  const auto recalls = Balance();
  ASSERT_THAT(recalls, SizeIs(1));
  EXPECT_EQ(recalls[0].target_highest, SlotId(1));
}

TEST_F(SlotBalanceTest, LeavesEachSessionOneSlot) {
  settings_.max_kept_octets = 10;
  const Opened client = Open("owner");
  Keep(client.session, 0, 1, 20);
  for (int i = 0; i < 6; ++i, now_ += std::chrono::seconds(10)) Balance();
  EXPECT_EQ(Say(client.session, 2, 0).sr_target_highest_slotid, 0u);
  EXPECT_EQ(Sequence(client.session, 0, 3), nfs4::NFS4_OK);
}

TEST_F(SlotBalanceTest, RestoresSlotsWhenMemoryIsFreeAgain) {
  const Opened client = Open("owner");
  for (uint32_t slot = 0; slot < 8; ++slot) Keep(client.session, slot, 1, 20);
  EXPECT_THAT(Balance(), SizeIs(1));
  Say(client.session, 2, 3);
  Say(client.session, 3, 3);
  now_ += std::chrono::seconds(10);
  EXPECT_THAT(Balance(), IsEmpty());  // the kept octets are between the two limits
  EXPECT_EQ(Say(client.session, 4, 3).sr_target_highest_slotid, 3u);
  for (uint32_t slot = 1; slot < 4; ++slot) Keep(client.session, slot, 2, 4);
  EXPECT_THAT(Balance(), IsEmpty());
  const auto said = Say(client.session, 5, 3);
  EXPECT_EQ(said.sr_target_highest_slotid, 7u);
  EXPECT_EQ(said.sr_highest_slotid, 7u);
}

TEST_F(SlotBalanceTest, ClientWithoutABackchannelLearnsTheTargetBySequence) {
  connection_.back_channel.reset();
  const Opened client = Open("owner");
  for (uint32_t slot = 0; slot < 8; ++slot) Keep(client.session, slot, 1, 20);
  EXPECT_THAT(Balance(), IsEmpty());
  EXPECT_EQ(Say(client.session, 2, 7).sr_target_highest_slotid, 3u);
}

}  // namespace
}  // namespace penstock::nfs::v4
