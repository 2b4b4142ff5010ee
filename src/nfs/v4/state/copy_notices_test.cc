#include "nfs/v4/state/copy_notices.h"

#include <gtest/gtest.h>

namespace penstock::nfs::v4 {
namespace {

using std::chrono::seconds;

constexpr TimePoint kNow{seconds(1000)};
const FileHandle kFile{ExportId(1), *fs::Handle::FromBytes(AsBytes("file"))};
const FileHandle kOther{ExportId(1), *fs::Handle::FromBytes(AsBytes("other"))};

CopyNotices::Notice NoticeOf(uint64_t client, std::string destination = "tcp 192.0.2.1.8.1", uint32_t uid = 7) {
  rpc::Credential credential;
  credential.flavor = rpc::AuthFlavor::AUTH_SYS;
  credential.uid = credential.gid = uid;
  return {.client = ClientId(client),
          .file = kFile,
          .source = {},
          .destination = std::move(destination),
          .user = Caller(ExportOptions{}, credential, rpc::Peer{}),
          .until = kNow + seconds(90)};
}
bool Lasts(const CopyNotices::Notice&) { return true; }

TEST(CopyNoticesTest, IsValidForItsFileUntilItExpires) {
  CopyNotices notices;
  const auto id = notices.Give(NoticeOf(1), 5, kNow, Lasts);
  ASSERT_TRUE(id && CopyNotices::IsOne(*id));
  EXPECT_FALSE(notices.Use(*id, kOther, kNow));
  EXPECT_FALSE(notices.Use(*id, kFile, kNow + seconds(90)));
  EXPECT_TRUE(notices.Use(*id, kFile, kNow + seconds(89)));
}

TEST(CopyNoticesTest, HasNoEndInTimeOnceReadingHasBegun) {
  CopyNotices notices;
  const auto id = notices.Give(NoticeOf(1), 5, kNow, Lasts);
  EXPECT_TRUE(notices.Use(*id, kFile, kNow));
  notices.Give(NoticeOf(2), 6, kNow + seconds(1000), Lasts);
  EXPECT_TRUE(notices.Use(*id, kFile, kNow + seconds(1000)));
}

TEST(CopyNoticesTest, RenewsANoticeOfTheSameCopy) {
  CopyNotices notices;
  const auto id = notices.Give(NoticeOf(1), 5, kNow, Lasts);
  auto again = NoticeOf(1);
  again.until = kNow + seconds(150);
  EXPECT_EQ(notices.Give(std::move(again), 6, kNow + seconds(60), Lasts), id);
  EXPECT_TRUE(notices.Use(*id, kFile, kNow + seconds(149)));
  EXPECT_NE(notices.Give(NoticeOf(2), 7, kNow, Lasts), id) << "another client";
  EXPECT_NE(notices.Give(NoticeOf(1, "tcp 192.0.2.2.8.1"), 8, kNow, Lasts), id) << "another destination";
  EXPECT_NE(notices.Give(NoticeOf(1, "tcp 192.0.2.1.8.1", 8), 9, kNow, Lasts), id) << "another user";
}

TEST(CopyNoticesTest, OnlyItsClientCancelsANotice) {
  CopyNotices notices;
  const auto id = notices.Give(NoticeOf(1), 5, kNow, Lasts);
  EXPECT_FALSE(notices.Cancel(ClientId(2), kFile, *id));
  EXPECT_FALSE(notices.Cancel(ClientId(1), kOther, *id));
  EXPECT_TRUE(notices.Cancel(ClientId(1), kFile, *id));
  EXPECT_FALSE(notices.Use(*id, kFile, kNow));
  EXPECT_FALSE(notices.Cancel(ClientId(1), kFile, *id));
}

TEST(CopyNoticesTest, ForgetsTheNoticesOfAClient) {
  CopyNotices notices;
  const auto gone = notices.Give(NoticeOf(1), 5, kNow, Lasts);
  const auto stays = notices.Give(NoticeOf(2), 6, kNow, Lasts);
  notices.ForgetClient(ClientId(1));
  EXPECT_FALSE(notices.Use(*gone, kFile, kNow));
  EXPECT_TRUE(notices.Use(*stays, kFile, kNow));
}

TEST(CopyNoticesTest, LimitsEachClientAndMakesRoomForNewNoticesByThoseWithoutState) {
  CopyNotices notices({.per_client = 2, .of_all = 3});
  const auto old = notices.Give(NoticeOf(1, "a"), 1, kNow, Lasts);
  EXPECT_TRUE(notices.Give(NoticeOf(1, "b"), 2, kNow, Lasts));
  EXPECT_FALSE(notices.Give(NoticeOf(1, "c"), 3, kNow, Lasts)) << "the client has too many";
  EXPECT_TRUE(notices.Give(NoticeOf(2, "a"), 4, kNow, Lasts));
  EXPECT_FALSE(notices.Give(NoticeOf(3, "a"), 5, kNow, Lasts)) << "all have too many";
  const auto is_closed = [](const CopyNotices::Notice& notice) { return notice.destination != "a"; };
  EXPECT_TRUE(notices.Give(NoticeOf(1, "c"), 6, kNow, is_closed));
  EXPECT_FALSE(notices.Use(*old, kFile, kNow));
  EXPECT_EQ(notices.size(), 3u);
}

TEST(CopyNoticesTest, TheSearchForRoomAmongOtherClientsIsRare) {
  CopyNotices notices({.per_client = 2, .of_all = 2, .between_searches = seconds(1)});
  EXPECT_TRUE(notices.Give(NoticeOf(1), 1, kNow, Lasts));
  EXPECT_TRUE(notices.Give(NoticeOf(2), 2, kNow, Lasts));
  EXPECT_FALSE(notices.Give(NoticeOf(3), 3, kNow, Lasts));
  const auto lasts_no_more = [](const CopyNotices::Notice& notice) { return notice.client == ClientId(3); };
  EXPECT_FALSE(notices.Give(NoticeOf(3), 4, kNow, lasts_no_more));
  EXPECT_TRUE(notices.Give(NoticeOf(3), 5, kNow + seconds(1), lasts_no_more));
  EXPECT_EQ(notices.size(), 1u);
}

TEST(CopyNoticesTest, OtherStateIdsAreNone) {
  CopyNotices notices;
  const auto id = notices.Give(NoticeOf(1), 5, kNow, Lasts);
  auto other = *id;
  other.seqid = 0;
  EXPECT_FALSE(CopyNotices::IsOne(other) || CopyNotices::IsOne({}));
  other = *id;
  other.other.back() = std::byte{0xff};
  EXPECT_FALSE(notices.Use(other, kFile, kNow));
}

}  // namespace
}  // namespace penstock::nfs::v4
