#include "nfs/v4/state/stable/reply_writer.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/test_loop.h"

namespace penstock::nfs::v4 {
namespace {

// Replies on a disk that hangs until Continue().
class HangingReplies : public SessionReplies {
 public:
  bool Keep(SlotId, const KeptReply&, bool) override {
    continues_.wait(false);
    return true;
  }
  void Remove() override {}
  void Continue() {
    continues_ = true;
    continues_.notify_all();
  }

 private:
  std::atomic<bool> continues_ = false;
};

class QuickReplies : public SessionReplies {
 public:
  bool Keep(SlotId, const KeptReply&, bool) override { return true; }
  void Remove() override {}
};

TEST(ReplyWriter, RepliesOfOneClientThatHangDoNotHoldUpThoseOfAnother) {
  Loop loop;
  Workers pool(8);
  MemoryReplyStore store;
  MemoryStreamStore streams;
  ReplyWriter writer(store, streams, &pool);
  HangingReplies hanging;
  QuickReplies quick;
  const KeptReply reply;
  size_t kept = 0;
  bool other_kept = false;
  const auto keep = [&](SessionReplies& session, ClientKey client, auto then) -> Task<void> {
    EXPECT_TRUE(co_await writer.Keep(&loop, client, session, SlotId(0), reply, true));
    then();
  };
  for (int i = 0; i < 100; ++i) Spawn(keep(hanging, {.host = 1, .connection = 1}, [&] { ++kept; }));
  Spawn(keep(quick, {.host = 2, .connection = 2}, [&] { other_kept = true; }));
  EXPECT_TRUE(TurnUntil(loop, [&] { return other_kept; }));
  EXPECT_EQ(kept, 0u);
  hanging.Continue();
  EXPECT_TRUE(TurnUntil(loop, [&] { return kept == 100; }));
}

}  // namespace
}  // namespace penstock::nfs::v4
