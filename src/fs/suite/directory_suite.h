// Tests of listing directories.
#pragma once

#include <algorithm>
#include <set>

#include "fs/suite/fixture.h"

namespace penstock::fs::suite {

class DirectorySuite : public FileSystemSuite {};

TEST_P(DirectorySuite, EmptyDirectoryListsDotAndDotDot) {
  const Handle directory = MakeDirectory(root_, "directory");
  const std::vector<Listed> entries = List(directory);
  EXPECT_EQ(CountNames(entries), (std::map<std::string, int>{{".", 1}, {"..", 1}}));
  for (const Listed& entry : entries) {
    EXPECT_EQ(entry.fileid, Stat(entry.name == "." ? directory : root_).fileid);
    EXPECT_FALSE(entry.handle || entry.attributes || entry.error) << "they were not requested";
  }
}

TEST_P(DirectorySuite, ListsTheRootAsItsOwnParent) {
  for (const Listed& entry : List(root_, 10, true)) {
    EXPECT_EQ(entry.fileid, Stat(root_).fileid) << entry.name;
    EXPECT_EQ(entry.handle, root_) << entry.name;
  }
}

TEST_P(DirectorySuite, GivesAttributesAndHandlesOnRequest) {
  std::map<std::string, Handle> made;
  made["file"] = Make(root_, "file", 0600);
  made["directory"] = MakeDirectory(root_, "directory");
  made["link"] = MakeSymlink(root_, "link", "/etc");
  made["fifo"] = Await(fs().MakeNode(caller_, root_, "fifo", {}, {})).result->handle;
  size_t seen = 0;
  for (const Listed& entry : List(root_, 2, true)) {
    ASSERT_TRUE(entry.handle && entry.attributes) << entry.name;
    EXPECT_FALSE(entry.error) << entry.name;
    EXPECT_EQ(entry.attributes->fileid, entry.fileid) << entry.name;
    if (!made.contains(entry.name)) continue;
    ++seen;
    EXPECT_EQ(*entry.handle, made[entry.name]) << entry.name;
    EXPECT_EQ(entry.attributes->type, Stat(made[entry.name]).type) << entry.name;
  }
  EXPECT_EQ(seen, made.size());
}

TEST_P(DirectorySuite, ListsAllEntriesForAnyRoomPerCall) {
  std::set<std::string> names{".", ".."};
  for (int i = 0; i < 25; ++i) {
    const std::string name = "entry" + std::to_string(i) + std::string(static_cast<size_t>(i), 'x');
    Make(root_, name);
    names.insert(name);
  }
  for (const size_t room : {1, 2, 3, 26, 27, 100}) {
    const std::map<std::string, int> counts = CountNames(List(root_, room));
    EXPECT_EQ(counts.size(), names.size());
    for (const auto& [name, count] : counts) EXPECT_EQ(count, 1) << name;
  }
}

TEST_P(DirectorySuite, ReturnsNoEntriesAndNoEndWithoutRoom) {
  Collector collector(0);
  const auto reply = Await(fs().ReadDirectory(caller_, root_, {}, collector));
  ASSERT_TRUE(reply.result);
  EXPECT_FALSE(reply.result->eof);
  EXPECT_TRUE(collector.entries.empty());
}

TEST_P(DirectorySuite, EarlierCookieRepeatsTheEntriesAfterIt) {
  for (int i = 0; i < 10; ++i) Make(root_, "entry" + std::to_string(i));
  const std::vector<Listed> all = List(root_);
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Listed> rest{all[i]};
    while (!ListSome(root_, rest, 3)) {
    }
    ASSERT_EQ(rest.size(), all.size() - i);
    for (size_t j = 0; j < rest.size(); ++j) EXPECT_EQ(rest[j].name, all[i + j].name);
  }
}

// Between two calls entries are added and removed, including the last entry of the earlier call. Each entry that
// remains is listed once.
TEST_P(DirectorySuite, ListsRemainingEntriesOnceWhileOthersAreAddedAndRemoved) {
  constexpr int kStaying = 150;
  const Handle directory = MakeDirectory(root_, "directory");
  for (int i = 0; i < kStaying; ++i) {
    Make(directory, "stays" + std::to_string(i));
    Make(directory, "goes" + std::to_string(i));
  }
  std::vector<Listed> entries;
  int added = 0;
  while (!ListSome(directory, entries, 7)) {
    ASSERT_LT(entries.size(), 10'000u) << "the listing has no end";
    // Removes the entries that were listed last and one that was not listed yet, and adds a new one.
    for (auto last = entries.rbegin(); last != entries.rend() && last != entries.rbegin() + 7; ++last) {
      if (last->name.starts_with("goes")) Remove(directory, last->name);
    }
    Remove(directory, "goes" + std::to_string(added * 5));
    if (added < 40) Make(directory, "new" + std::to_string(added));
    ++added;
  }
  std::map<std::string, int> counts = CountNames(entries);
  for (int i = 0; i < kStaying; ++i) EXPECT_EQ(counts["stays" + std::to_string(i)], 1) << i;
  for (const auto& [name, count] : counts) EXPECT_EQ(count, 1) << name;
}

TEST_P(DirectorySuite, ListsTenThousandEntries) {
#ifdef PENSTOCK_SANITIZED
  constexpr int kEntries = 3'000;
#else
  constexpr int kEntries = 10'000;
#endif
  const Handle directory = MakeDirectory(root_, "directory");
  for (int i = 0; i < kEntries; ++i) Make(directory, "entry-" + std::to_string(i));
  const std::vector<Listed> entries = List(directory, 100, true);
  EXPECT_EQ(entries.size(), kEntries + 2u);
  std::set<std::string> names;
  std::set<uint64_t> fileids;
  for (const Listed& entry : entries) {
    names.insert(entry.name);
    fileids.insert(entry.fileid);
    EXPECT_TRUE(entry.handle);
  }
  EXPECT_EQ(names.size(), entries.size());
  EXPECT_EQ(fileids.size(), entries.size());
}

TEST_P(DirectorySuite, ReturnsNamesOnlyWithoutSearchPermission) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  const Handle directory = MakeDirectory(root_, "directory", 0744);
  Make(directory, "file");
  caller_ = As(1001, 1001);
  const std::vector<Listed> entries = List(directory, 10, true);
  EXPECT_EQ(CountNames(entries).count("file"), 1u);
  for (const Listed& entry : entries) {
    EXPECT_FALSE(entry.handle || entry.attributes) << entry.name;
    EXPECT_EQ(entry.error, Error::kAccess) << entry.name;
  }
  for (const Listed& entry : List(directory, 10)) EXPECT_FALSE(entry.error) << "they were not requested";
}

}  // namespace penstock::fs::suite
