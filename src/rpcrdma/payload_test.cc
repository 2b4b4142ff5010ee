#include "rpcrdma/payload.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "rpcrdma/test_bytes.h"

namespace penstock::rpcrdma {
namespace {

class PayloadTest : public testing::Test {
 protected:
  PayloadTest() {
    message_.stream = Slice::Borrowed(stream_);
    message_.items = {ItemAt(8, a_), ItemAt(16, empty_), ItemAt(20, b_)};
  }
  const ByteVector stream_ = Pattern(24, 1), a_ = Pattern(5, 2), empty_, b_ = Pattern(4, 3), pad_ = ByteVector(3);
  rpc::Message message_;
};

TEST_F(PayloadTest, InsertsItemsThatAreNotReducedWithTheirPadding) {
  auto none = [](size_t) { return false; };
  rdma::Gather gather;
  AppendPayload(message_, none, gather);
  ConstBytes stream = stream_;
  EXPECT_EQ(Flat(gather), Concat({stream.first(8), a_, pad_, stream.subspan(8, 12), b_, stream.subspan(20)}));
  EXPECT_EQ(PayloadSize(message_, none), Flat(gather).size());
}

TEST_F(PayloadTest, LeavesOutReducedItemsAndTheirPadding) {
  auto first = [](size_t n) { return n == 0; };
  rdma::Gather gather;
  AppendPayload(message_, first, gather);
  ConstBytes stream = stream_;
  EXPECT_EQ(Flat(gather), Concat({stream.first(20), b_, stream.subspan(20)}));
  EXPECT_EQ(PayloadSize(message_, first), Flat(gather).size());

  auto all = [](size_t) { return true; };
  gather.clear();
  AppendPayload(message_, all, gather);
  EXPECT_EQ(gather.size(), 1u);
  EXPECT_EQ(Flat(gather), stream_);
}

TEST_F(PayloadTest, CursorCutsPartsOfAnySize) {
  rdma::Gather gather;
  AppendPayload(message_, [](size_t) { return false; }, gather);
  const ByteVector whole = Flat(gather);
  for (size_t portion = 1; portion <= whole.size(); ++portion) {
    GatherCursor cursor(gather);
    ByteVector out;
    for (size_t done = 0; done < whole.size(); done += portion) {
      out = Concat({out, Flat(cursor.Take(std::min(portion, whole.size() - done)))});
    }
    EXPECT_EQ(out, whole) << portion;
  }
}

}  // namespace
}  // namespace penstock::rpcrdma
