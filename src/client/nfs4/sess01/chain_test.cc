#include "client/nfs4/sess01/chain.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace penstock::client::v4::sess01 {
namespace {

using Counts = std::vector<uint32_t>;
using nfs4::ChainFlags;

// Returns the number of operations in each part, after it has checked that the parts follow each other.
Counts CountsOf(const std::vector<Size>& sizes, const Size& room) {
  Counts counts;
  uint32_t next = 0;
  for (const Part& part : Split(sizes, room)) {
    EXPECT_EQ(part.first, next);
    next += part.count;
    counts.push_back(part.count);
  }
  EXPECT_EQ(next, sizes.size());
  return counts;
}

TEST(Split, KeepsWhatFitsInOneRequest) {
  EXPECT_EQ(CountsOf({{10, 10}, {20, 20}, {30, 30}}, {60, 60}), Counts{3});
  EXPECT_EQ(CountsOf({{10, 10}}, kUnlimited), Counts{1});
  EXPECT_EQ(CountsOf({}, {60, 60}), Counts{});
}

TEST(Split, BeginsANewRequestWhereTheRequestWouldBeTooLarge) {
  EXPECT_EQ(CountsOf({{10, 0}, {20, 0}, {30, 0}}, {59, 60}), (Counts{2, 1}));
  EXPECT_EQ(CountsOf({{30, 0}, {30, 0}, {30, 0}}, {59, 60}), (Counts{1, 1, 1}));
}

TEST(Split, BeginsANewRequestWhereTheReplyWouldBeTooLarge) {
  EXPECT_EQ(CountsOf({{0, 10}, {0, 51}, {0, 9}}, {60, 60}), (Counts{1, 2}));
}

TEST(Split, GivesAnOperationThatIsTooLargeARequestOfItsOwn) {
  EXPECT_EQ(CountsOf({{10, 0}, {100, 0}, {10, 0}}, {60, 60}), (Counts{1, 1, 1}));
  EXPECT_EQ(CountsOf({{100, 0}}, {60, 60}), Counts{1});
}

TEST(FlagOf, MarksTheBeginningAndTheEnd) {
  EXPECT_EQ(FlagOf(0, 1), ChainFlags::NOCHAIN);
  EXPECT_EQ(FlagOf(0, 2), ChainFlags::CHAINBEGIN);
  EXPECT_EQ(FlagOf(1, 2), ChainFlags::CHAINEND);
  EXPECT_EQ(FlagOf(1, 3), ChainFlags::CHAINCONTINUE);
}

TEST(TypedParts, EncodesAndBoundsAnyOperations) {
  BufferPool pool;
  const std::tuple operations(PutRootHandle(), nfs4::REMOVE4args{"name"}, nfs4::GETATTR4args());
  CompoundReply<PutRootHandle, nfs4::REMOVE4args, nfs4::GETATTR4args> reply;
  const TypedParts parts(operations, {}, reply);
  const auto size_of = [&](Part part) {
    xdr::Encoder encoder(pool);
    parts.Encode(encoder, part);
    return encoder.reduced_size();
  };
  EXPECT_EQ(size_of({0, 3}), size_of({0, 1}) + size_of({1, 1}) + size_of({2, 1}));
  EXPECT_EQ(size_of({1, 1}), 12u);
  EXPECT_EQ(size_of({1, 0}), 0u);
  EXPECT_GE(parts.Shape({2, 1}).max_stream, kMaxAttributes);
  EXPECT_LT(parts.Shape({0, 2}).max_stream, kMaxAttributes);
  EXPECT_TRUE(parts.ChangesOnce({0, 2}));
  EXPECT_FALSE(parts.ChangesOnce({0, 1}));
  EXPECT_FALSE(parts.ChangesOnce({2, 1}));
}

}  // namespace
}  // namespace penstock::client::v4::sess01
