#include "rdma/verbs/removal_watch.h"

#include <gtest/gtest.h>

namespace penstock::rdma::verbs {
namespace {

using namespace std::string_view_literals;

TEST(RemovalWatch, ParsesTheNameOfARemovedDevice) {
  EXPECT_EQ(RemovedDevice("remove@/devices/virtual/infiniband_verbs/uverbs0\0ACTION=remove\0SEQNUM=7\0"sv), "uverbs0");
  EXPECT_EQ(RemovedDevice("remove@/devices/pci0000:00/0000:00:03.0/infiniband_verbs/uverbs12"), "uverbs12");
}

TEST(RemovalWatch, IgnoresOtherAnnouncements) {
  for (std::string_view other :
       {""sv, "\0"sv, "add@/devices/virtual/infiniband_verbs/uverbs0"sv, "remove@/devices/virtual/infiniband/rxe0"sv,
        "remove@/devices/virtual/net/eth1\0x@/infiniband_verbs/uverbs0"sv,
        "libudev\0remove@/infiniband_verbs/uverbs0"sv, "remove@/devices/virtual/infiniband_verbs/"sv}) {
    EXPECT_EQ(RemovedDevice(other), "") << other;
  }
}

TEST(RemovalWatch, EndsItsThreadWhenDestroyed) {
  for (int i = 0; i < 20; ++i) RemovalWatch watch([](std::string_view) {});
}

}  // namespace
}  // namespace penstock::rdma::verbs
