#include "nfs/v4/state/offloads.h"

#include <gtest/gtest.h>

namespace penstock::nfs::v4 {
namespace {

constexpr ClientId kClient{1};
constexpr ClientId kOther{2};

FileHandle FileOf(std::string_view name) { return {ExportId(1), *fs::Handle::FromBytes(AsBytes(name))}; }

using Order = Offloads::Order;

class OffloadsTest : public testing::Test {
 protected:
  std::optional<nfs4::stateid4> Start(ClientId client = kClient) {
    return offloads_.Start(client, file_, ++random_, now_);
  }

  Offloads offloads_{{.per_client = 2, .of_all = 3, .memory = std::chrono::seconds(90)}};
  const FileHandle file_ = FileOf("file");
  TimePoint now_{};
  uint64_t random_ = 0;
};

TEST_F(OffloadsTest, FindsACopyByStateidFileAndClient) {
  const nfs4::stateid4 id = *Start();
  EXPECT_NE(id.seqid, 0u);
  EXPECT_TRUE(offloads_.Find(kClient, file_, id));
  EXPECT_FALSE(offloads_.Find(kOther, file_, id));
  EXPECT_FALSE(offloads_.Find(kClient, FileOf("other"), id));
  EXPECT_FALSE(offloads_.Find(kClient, file_, *Start())->stateid == id);
}

TEST_F(OffloadsTest, RecordsTheProgressAndTheResult) {
  const nfs4::stateid4 id = *Start();
  EXPECT_EQ(offloads_.Advance(id, 100), Order::kContinue);
  EXPECT_EQ(offloads_.Find(kClient, file_, id)->done, 100u);
  EXPECT_FALSE(offloads_.Find(kClient, file_, id)->result);
  EXPECT_TRUE(offloads_.End(id, nfs4::NFS4ERR_NOSPC, now_));
  EXPECT_EQ(offloads_.Find(kClient, file_, id)->result, nfs4::NFS4ERR_NOSPC);
}

TEST_F(OffloadsTest, ACancelledCopyMustStop) {
  const nfs4::stateid4 id = *Start();
  EXPECT_FALSE(offloads_.Cancel(kOther, file_, id));
  EXPECT_EQ(offloads_.Advance(id, 1), Order::kContinue);
  EXPECT_TRUE(offloads_.Cancel(kClient, file_, id));
  EXPECT_EQ(offloads_.Advance(id, 2), Order::kAbandon);
  EXPECT_FALSE(offloads_.End(id, nfs4::NFS4_OK, now_));
  EXPECT_FALSE(offloads_.Cancel(kClient, file_, id));
}

TEST_F(OffloadsTest, CopiesEndWithTheirClient) {
  const nfs4::stateid4 id = *Start();
  const nfs4::stateid4 other = *Start(kOther);
  offloads_.ForgetClient(kClient);
  EXPECT_EQ(offloads_.Advance(id, 1), Order::kAbandon);
  EXPECT_EQ(offloads_.Advance(other, 1), Order::kContinue);
}

TEST_F(OffloadsTest, EndAllEndsAllCopiesAndStartsNoMore) {
  const nfs4::stateid4 id = *Start();
  const nfs4::stateid4 other = *Start(kOther);
  EXPECT_EQ(offloads_.running(), 2u);
  EXPECT_TRUE(offloads_.End(other, nfs4::NFS4_OK, now_));
  offloads_.Leave();
  offloads_.EndAll();
  EXPECT_EQ(offloads_.running(), 1u);
  EXPECT_EQ(offloads_.Advance(id, 1), Order::kEnd);
  EXPECT_TRUE(offloads_.Cancel(kClient, file_, id));
  EXPECT_EQ(offloads_.Advance(id, 2), Order::kAbandon);
  offloads_.Leave();
  EXPECT_EQ(offloads_.running(), 0u);
  EXPECT_FALSE(Start());
  EXPECT_EQ(offloads_.running(), 0u);
}

TEST_F(OffloadsTest, LimitsTheCopiesOfAClientAndOfAllClients) {
  EXPECT_TRUE(Start() && Start());
  EXPECT_FALSE(Start());
  EXPECT_TRUE(Start(kOther));
  EXPECT_FALSE(Start(kOther));
}

TEST_F(OffloadsTest, RemembersTheResultOfACopyForALimitedTime) {
  const nfs4::stateid4 id = *Start();
  const nfs4::stateid4 running = *Start();
  offloads_.End(id, nfs4::NFS4_OK, now_);
  now_ += std::chrono::seconds(89);
  EXPECT_FALSE(Start());
  EXPECT_TRUE(offloads_.Find(kClient, file_, id));
  now_ += std::chrono::seconds(1);
  EXPECT_TRUE(Start());
  EXPECT_FALSE(offloads_.Find(kClient, file_, id));
  EXPECT_TRUE(offloads_.Find(kClient, file_, running));
}

}  // namespace
}  // namespace penstock::nfs::v4
