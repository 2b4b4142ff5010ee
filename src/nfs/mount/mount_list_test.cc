#include "nfs/mount/mount_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace penstock::nfs::mount {
namespace {

using Entry = MountList::Entry;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(MountList, KeepsEachHostAndDirectoryOnce) {
  MountList list;
  list.Add("192.0.2.1", "/data");
  list.Add("192.0.2.1", "/data");
  list.Add("192.0.2.2", "/data");
  EXPECT_THAT(list.Entries(), ElementsAre(Entry{"192.0.2.1", "/data"}, Entry{"192.0.2.2", "/data"}));
}

TEST(MountList, RemovesOnePairOrAllOfAHost) {
  MountList list;
  list.Add("192.0.2.1", "/a");
  list.Add("192.0.2.1", "/b");
  list.Add("192.0.2.2", "/a");
  list.Remove("192.0.2.1", "/a");
  EXPECT_THAT(list.Entries(), ElementsAre(Entry{"192.0.2.1", "/b"}, Entry{"192.0.2.2", "/a"}));
  list.Remove("192.0.2.9", "/a");
  list.RemoveAll("192.0.2.1");
  EXPECT_THAT(list.Entries(), ElementsAre(Entry{"192.0.2.2", "/a"}));
}

TEST(MountList, ForgetsTheOldestBeyondItsLimit) {
  MountList list(2);
  for (const char* directory : {"/a", "/b", "/c"}) list.Add("192.0.2.1", directory);
  EXPECT_THAT(list.Entries(), ElementsAre(Entry{"192.0.2.1", "/b"}, Entry{"192.0.2.1", "/c"}));
}

TEST(MountList, SupportsConcurrentThreads) {
  MountList list(8);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&list, host = std::to_string(t)] {
      for (int i = 0; i < 200; ++i) {
        list.Add(host, "/" + std::to_string(i));
        EXPECT_LE(list.Entries().size(), 8u);
      }
      list.RemoveAll(host);
    });
  }
  threads.clear();
  EXPECT_THAT(list.Entries(), IsEmpty());
}

}  // namespace
}  // namespace penstock::nfs::mount
