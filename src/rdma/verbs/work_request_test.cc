#include "rdma/verbs/work_request.h"

#include <gmock/gmock.h>

#include <array>

namespace penstock::rdma::verbs {
namespace {

std::array<std::byte, 64> payload_memory;

Data Piece(size_t size) { return Slice::Borrowed(ConstBytes(payload_memory).first(size)); }

TEST(WorkRequest, SendWithInvalidateCarriesTheSteeringTag) {
  SendRequest send{.context = 7, .gather = {Piece(3)}, .solicited = true, .invalidate = Stag(9)};
  const WorkRequest work = ToWorkRequest(std::move(send));
  EXPECT_EQ(work.operation, Operation::kSend);
  EXPECT_EQ(work.context, 7u);
  EXPECT_EQ(work.opcode, IBV_WR_SEND_WITH_INV);
  EXPECT_EQ(work.remote.stag, Stag(9));
  EXPECT_TRUE(work.solicited);
  EXPECT_EQ(SizeOf(work.gather), 3u);
  EXPECT_EQ(ToWorkRequest(SendRequest()).opcode, IBV_WR_SEND);
}

TEST(WorkRequest, WriteLeavesOutEmptyPieces) {
  const WorkRequest work =
      ToWorkRequest(WriteRequest{.context = 1, .gather = {Piece(0), Piece(5), Piece(0)}, .remote = {}});
  EXPECT_EQ(work.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(work.gather.size(), 1u);
}

TEST(WorkRequest, ReadKeepsItsSink) {
  const WorkRequest work = ToWorkRequest(
      ReadRequest{.context = 2, .local = Bytes(payload_memory), .owner = {}, .remote = {Stag(5), 64, 100}});
  EXPECT_EQ(work.opcode, IBV_WR_RDMA_READ);
  EXPECT_EQ(work.local.data(), payload_memory.data());
  EXPECT_EQ(work.remote, (RemoteSegment{Stag(5), 64, 100}));
}

TEST(SplitWrite, MakesConsecutiveWritesAndOnlyTheLastOneCompletes) {
  WriteRequest write{
      .context = 3, .gather = {Piece(1), Piece(2), Piece(3), Piece(4), Piece(5)}, .remote = {Stag(8), 15, 1000}};
  const std::vector<WorkRequest> parts = SplitWrite(ToWorkRequest(std::move(write)), 2);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].remote, (RemoteSegment{Stag(8), 3, 1000}));
  EXPECT_EQ(parts[1].remote, (RemoteSegment{Stag(8), 7, 1003}));
  EXPECT_EQ(parts[2].remote, (RemoteSegment{Stag(8), 5, 1010}));
  EXPECT_TRUE(parts[0].silent);
  EXPECT_TRUE(parts[1].silent);
  EXPECT_FALSE(parts[2].silent);
  for (const WorkRequest& part : parts) {
    EXPECT_EQ(part.context, 3u);
    EXPECT_EQ(part.operation, Operation::kWrite);
    EXPECT_EQ(part.opcode, IBV_WR_RDMA_WRITE);
    EXPECT_LE(part.gather.size(), 2u);
  }
}

}  // namespace
}  // namespace penstock::rdma::verbs
