#include "nfs/v4/state/offloads.h"

#include <gtest/gtest.h>

namespace penstock::nfs::v4 {
namespace {

constexpr ClientId kClient{1};
constexpr ClientId kOtherClient{2};

FileHandle FileOf(std::string_view name) { return {ExportId(1), *fs::Handle::FromBytes(AsBytes(name))}; }

using Order = Offloads::Order;
using Cancelled = Offloads::Cancelled;

class OffloadsTest : public testing::Test {
 protected:
  std::optional<nfs4::stateid4> Start(ClientId client = kClient) {
    return offloads_.Start(client, file_, ++random_, now_);
  }

  // A copy runs to its end.
  nfs4::stateid4 RunOne(ClientId client = kClient) {
    const nfs4::stateid4 id = *Start(client);
    EXPECT_TRUE(offloads_.End(id, nfs4::NFS4_OK, now_));
    offloads_.Leave(id);
    return id;
  }

  Offloads offloads_{
      {.per_client = 2, .of_all = 3, .memory = std::chrono::seconds(90), .results_per_client = 2, .results_of_all = 3}};
  const FileHandle file_ = FileOf("file");
  TimePoint now_{};
  uint64_t random_ = 0;
};

TEST_F(OffloadsTest, FindsACopyByStateidFileAndClient) {
  const nfs4::stateid4 id = *Start();
  EXPECT_NE(id.seqid, 0u);
  EXPECT_TRUE(offloads_.Find(kClient, file_, id));
  EXPECT_FALSE(offloads_.Find(kOtherClient, file_, id));
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
  EXPECT_EQ(offloads_.Cancel(kOtherClient, file_, id), Cancelled::kUnknown);
  EXPECT_EQ(offloads_.Advance(id, 1), Order::kContinue);
  EXPECT_EQ(offloads_.Cancel(kClient, file_, id), Cancelled::kYes);
  EXPECT_FALSE(offloads_.BeginWrite(id));
  EXPECT_EQ(offloads_.Advance(id, 2), Order::kAbandon);
  EXPECT_FALSE(offloads_.End(id, nfs4::NFS4_OK, now_));
  offloads_.Leave(id);
  EXPECT_EQ(offloads_.Cancel(kClient, file_, id), Cancelled::kUnknown);
}

// The client may write to the file once the copy is cancelled.
TEST_F(OffloadsTest, ACopyIsCancelledWhenItWritesNoMore) {
  const nfs4::stateid4 id = *Start();
  EXPECT_TRUE(offloads_.BeginWrite(id));
  EXPECT_EQ(offloads_.Cancel(kClient, file_, id), Cancelled::kWriting);
  EXPECT_EQ(offloads_.Cancel(kClient, file_, id), Cancelled::kWriting);
  EXPECT_EQ(offloads_.Advance(id, 1), Order::kAbandon);
  EXPECT_EQ(offloads_.Cancel(kClient, file_, id), Cancelled::kYes);
}

TEST_F(OffloadsTest, CopiesEndWithTheirClient) {
  const nfs4::stateid4 id = *Start();
  const nfs4::stateid4 other = *Start(kOtherClient);
  offloads_.ForgetClient(kClient);
  EXPECT_EQ(offloads_.Advance(id, 1), Order::kAbandon);
  EXPECT_EQ(offloads_.Advance(other, 1), Order::kContinue);
}

TEST_F(OffloadsTest, EndAllEndsAllCopiesAndStartsNoMore) {
  const nfs4::stateid4 id = *Start();
  const nfs4::stateid4 other = *Start(kOtherClient);
  EXPECT_EQ(offloads_.running(), 2u);
  EXPECT_TRUE(offloads_.End(other, nfs4::NFS4_OK, now_));
  offloads_.Leave(other);
  offloads_.EndAll();
  EXPECT_EQ(offloads_.running(), 1u);
  EXPECT_EQ(offloads_.Advance(id, 1), Order::kEnd);
  EXPECT_EQ(offloads_.Cancel(kClient, file_, id), Cancelled::kYes);
  EXPECT_EQ(offloads_.Advance(id, 2), Order::kAbandon);
  EXPECT_EQ(offloads_.running(), 1u);
  offloads_.Leave(id);
  EXPECT_EQ(offloads_.running(), 0u);
  EXPECT_FALSE(Start());
  EXPECT_EQ(offloads_.running(), 0u);
}

TEST_F(OffloadsTest, LimitsTheCopiesOfAClientAndOfAllClients) {
  EXPECT_TRUE(Start() && Start());
  EXPECT_FALSE(Start());
  EXPECT_TRUE(Start(kOtherClient));
  EXPECT_FALSE(Start(kOtherClient));
}

// The copying coroutine goes on to the end of its step, and uses the files and the disk.
TEST_F(OffloadsTest, ACancelledCopyKeepsItsPlaceUntilItLeaves) {
  const nfs4::stateid4 id = *Start();
  EXPECT_TRUE(Start());
  EXPECT_EQ(offloads_.Cancel(kClient, file_, id), Cancelled::kYes);
  EXPECT_FALSE(offloads_.Find(kClient, file_, id));
  EXPECT_FALSE(Start());
  offloads_.Leave(id);
  EXPECT_TRUE(Start());
}

TEST_F(OffloadsTest, ACopyKeepsItsPlaceWhenItsClientHasGone) {
  const nfs4::stateid4 id = *Start();
  EXPECT_TRUE(Start() && Start(kOtherClient));
  offloads_.ForgetClient(kClient);
  EXPECT_FALSE(offloads_.Find(kClient, file_, id));
  EXPECT_EQ(offloads_.running(), 3u);
  EXPECT_FALSE(Start(kOtherClient));
  offloads_.Leave(id);
  EXPECT_TRUE(Start(kOtherClient));
}

TEST_F(OffloadsTest, RemembersTheResultOfACopyForALimitedTime) {
  const nfs4::stateid4 id = RunOne();
  const nfs4::stateid4 running = *Start();
  now_ += std::chrono::seconds(89);
  EXPECT_TRUE(Start(kOtherClient));
  EXPECT_TRUE(offloads_.Find(kClient, file_, id));
  now_ += std::chrono::seconds(1);
  EXPECT_TRUE(Start());
  EXPECT_FALSE(offloads_.Find(kClient, file_, id));
  EXPECT_TRUE(offloads_.Find(kClient, file_, running));
}

// A client that copies one file after the other never waits for the end of its results.
TEST_F(OffloadsTest, NewResultsTakeThePlaceOfTheOldest) {
  const nfs4::stateid4 first = RunOne();
  now_ += std::chrono::seconds(1);
  const nfs4::stateid4 second = RunOne();
  const nfs4::stateid4 of_other = RunOne(kOtherClient);
  now_ += std::chrono::seconds(1);
  const nfs4::stateid4 third = RunOne();
  EXPECT_FALSE(offloads_.Find(kClient, file_, first));
  EXPECT_TRUE(offloads_.Find(kClient, file_, second));
  EXPECT_TRUE(offloads_.Find(kClient, file_, third));
  EXPECT_TRUE(offloads_.Find(kOtherClient, file_, of_other));
  RunOne(kOtherClient);
  EXPECT_FALSE(offloads_.Find(kClient, file_, second)) << "the oldest of all";
  EXPECT_TRUE(offloads_.Find(kOtherClient, file_, of_other));
  EXPECT_TRUE(Start() && Start());
}

}  // namespace
}  // namespace penstock::nfs::v4
