#include "cli/bench_operation.h"

#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

using Kind = Operation::Kind;
using Order = Operation::Order;

TEST(BenchOperation, EachHasAName) {
  for (const std::string_view name :
       {"null",     "getattr",    "setattr", "lookup",    "stat",        "readdir",    "open",        "create",
        "remove",   "rename",     "mkdir",   "read1m",    "write1m",     "read1k",     "read4k",      "write4k",
        "write64k", "write1023k", "mix4k",   "seqread4k", "seqwrite64k", "randread1m", "randwrite1m", "seqmix8k"})
    EXPECT_EQ(OperationOf(name).transform(NameOf), name);
  EXPECT_EQ(OperationOf("write64k"), (Operation{Kind::kWrite, 64 << 10}));
  EXPECT_EQ(OperationOf("seqread4k"), (Operation{Kind::kRead, 4 << 10, Order::kSequential}));
  EXPECT_EQ(OperationOf("read1024k").transform(NameOf), "read1m");
}

TEST(BenchOperation, ANameThatIsNoneIsRefused) {
  for (const std::string_view name : {"",        "erase",    "nul",           "null4k",  "getattr1",         "read",
                                      "write",   "readk",    "read0k",        "read4",   "read4K",           "read-4k",
                                      "read 4k", "read4kk",  "read1025k",     "write2m", "write4294967297k", "seq",
                                      "seqnull", "randopen", "seqrandread4k", "mix",     "readdir4k"})
    EXPECT_EQ(OperationOf(name), std::nullopt) << name;
}

TEST(BenchOperation, TheLargestGoesThroughTheFileUnlessItsNameSaysRandom) {
  for (const std::string_view name : {"read1m", "write1m", "mix1m", "seqread4k", "seqwrite1m"})
    EXPECT_TRUE(OperationOf(name)->is_sequential()) << name;
  for (const std::string_view name : {"read4k", "write512k", "randread1m", "randwrite4k"})
    EXPECT_FALSE(OperationOf(name)->is_sequential()) << name;
}

}  // namespace
}  // namespace penstock::cli
