#include "client/nfs4/complete_directories.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace penstock::client::v4 {
namespace {

using namespace std::chrono_literals;
using Advice = CompleteDirectories::Advice;

Handle HandleOf(uint8_t number) {
  const std::array octets{std::byte{number}};
  return Handle(octets);
}

class CompleteDirectoriesTest : public testing::Test {
 protected:
  Advice AdviceOn(std::string_view name, TimePoint now = kStart) { return known.AdviceOn(kDirectory, name, now); }
  // This client makes a file. Nobody else changes the directory.
  void Make(std::string_view name, TimePoint asked = kStart) {
    Make(kDirectory, name, {.atomic = true, .before = change, .after = change + 1}, asked);
    ++change;
  }
  void Make(const Handle& directory, std::string_view name, const nfs4::change_info4& info, TimePoint asked = kStart) {
    CompleteDirectories::Creation(known, directory, name, asked).HandleMade(info);
  }
  void List(const std::vector<std::string_view>& names, bool ends = true) {
    CompleteDirectories::Listing(known, kDirectory, kStart).HandleListed(change, names, ends);
  }
  void MakeTwoAndList() {
    Make("one");
    Make("two");
    List({"one", "two", "Old"});
  }

  static constexpr TimePoint kStart{1h};
  static constexpr Duration kTrusted = 100ms;
  const Handle kDirectory = HandleOf(1);
  CompleteDirectories known{kTrusted};
  uint64_t change = 7;
};

TEST_F(CompleteDirectoriesTest, AdvisesToListADirectoryInWhichTheClientMakesFiles) {
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
  Make("one");
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
  Make("two");
  EXPECT_EQ(AdviceOn("name"), Advice::kList);
  EXPECT_EQ(known.AdviceOn(HandleOf(2), "name", kStart), Advice::kAsk);
}

TEST_F(CompleteDirectoriesTest, NamesThatAreNotListedAreAbsent) {
  MakeTwoAndList();
  EXPECT_EQ(AdviceOn("name"), Advice::kAbsent);
  EXPECT_EQ(AdviceOn("one"), Advice::kAsk);
  Make("name");
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
  EXPECT_EQ(AdviceOn("other"), Advice::kAbsent);
}

TEST_F(CompleteDirectoriesTest, AnAnswerOfTheServerCountsForALimitedTime) {
  MakeTwoAndList();
  EXPECT_EQ(AdviceOn("name", kStart + kTrusted), Advice::kAbsent);
  EXPECT_EQ(AdviceOn("name", kStart + kTrusted + 1ms), Advice::kAsk);
  Make("three", kStart + 1s);
  EXPECT_EQ(AdviceOn("name", kStart + 1s + kTrusted), Advice::kAbsent);
}

TEST_F(CompleteDirectoriesTest, AChangeByAnotherClientEndsTheKnowledge) {
  MakeTwoAndList();
  ++change;
  Make("three");
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
}

TEST_F(CompleteDirectoriesTest, AChangeThatIsNotAtomicEndsTheKnowledge) {
  MakeTwoAndList();
  Make(kDirectory, "three", {.atomic = false, .before = change, .after = change + 1});
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
}

TEST_F(CompleteDirectoriesTest, AFileThatExistedIsNoChange) {
  MakeTwoAndList();
  Make(kDirectory, "Old", {.atomic = false, .before = change, .after = change}, kStart + 1s);
  EXPECT_EQ(AdviceOn("name"), Advice::kAbsent);
  EXPECT_EQ(AdviceOn("name", kStart + 1s), Advice::kAsk) << "it tells nothing new";
}

TEST_F(CompleteDirectoriesTest, ACreationWithoutAReplyEndsTheKnowledge) {
  MakeTwoAndList();
  {
    const CompleteDirectories::Creation creation(known, kDirectory, "three", kStart);
  }
  EXPECT_EQ(AdviceOn("three"), Advice::kAsk);
}

TEST_F(CompleteDirectoriesTest, AnotherChangeByThisClientEndsTheKnowledge) {
  MakeTwoAndList();
  known.HandleChange(kDirectory);
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
}

// The listing may lack the name.
TEST_F(CompleteDirectoriesTest, AListingDuringAChangeDoesNotCount) {
  Make("one");
  Make("two");
  {
    CompleteDirectories::Listing listing(known, kDirectory, kStart);
    EXPECT_EQ(AdviceOn("name"), Advice::kAsk) << "one listing at a time";
    Make("three");
    listing.HandleListed(change - 1, {"one", "two"}, true);
  }
  EXPECT_EQ(AdviceOn("three"), Advice::kAsk);
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk) << "the next listing waits for more files";
}

// The directory is forgotten meanwhile, and known again.
TEST_F(CompleteDirectoriesTest, AListingOfADirectoryThatWasForgottenDoesNotCount) {
  Make("one");
  Make("two");
  CompleteDirectories::Listing listing(known, kDirectory, kStart);
  for (uint8_t i = 2; i < 20; ++i) Make(HandleOf(i), "file", {true, 1, 2});
  Make("three");
  Make("four");
  listing.HandleListed(change, {"one", "two"}, true);
  EXPECT_NE(AdviceOn("three"), Advice::kAbsent);
}

TEST_F(CompleteDirectoriesTest, AListingThatFailsIsNotRepeatedSoon) {
  Make("one");
  Make("two");
  {
    const CompleteDirectories::Listing fails(known, kDirectory, kStart);
  }
  Make("three");
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
  for (int i = 0; i < 8; ++i) Make("file" + std::to_string(i));
  EXPECT_EQ(AdviceOn("name"), Advice::kList);
}

// Two changes in one tick of the server's clock look like one.
TEST_F(CompleteDirectoriesTest, AServerThatDoesNotShowEachChangeIsNotTrusted) {
  MakeTwoAndList();
  Make(kDirectory, "three", {.atomic = true, .before = change, .after = change});
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
}

TEST_F(CompleteDirectoriesTest, ALongDirectoryIsListedOnce) {
  Make("one");
  Make("two");
  List({"one"}, false);
  Make("three");
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
}

TEST_F(CompleteDirectoriesTest, ListingsThatDoNotPayBecomeRare) {
  for (int i = 0; i < 100; ++i) {
    if (AdviceOn("name") == Advice::kList) List({});
    known.HandleChange(kDirectory);
    Make("file" + std::to_string(i));
  }
  size_t listings = 0;
  for (int i = 0; i < 100; ++i) {
    if (AdviceOn("name") == Advice::kList) {
      List({});
      ++listings;
    }
    known.HandleChange(kDirectory);
    Make("more" + std::to_string(i));
  }
  EXPECT_LE(listings, 1u);
}

// Servers with file systems of other systems.
TEST_F(CompleteDirectoriesTest, NamesThatAServerMayTakeForAnotherOneAreAskedFor) {
  MakeTwoAndList();
  for (const char* const name : {"old", "OLD", ".snapshot", "LONGNA~1", "two.", "two ", "\xc3\xa4", "a/b", ""}) {
    EXPECT_EQ(AdviceOn(name), Advice::kAsk) << name;
  }
  Make("\xc3\xa4");
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
}

TEST_F(CompleteDirectoriesTest, KnowsTheDirectoriesThatWereUsedLast) {
  MakeTwoAndList();
  for (uint8_t i = 2; i < 20; ++i) Make(HandleOf(i), "file", {true, 1, 2});
  EXPECT_EQ(AdviceOn("name"), Advice::kAsk);
}

TEST_F(CompleteDirectoriesTest, KnowsNothingIfItTrustsNothing) {
  CompleteDirectories none{Duration::zero()};
  for (uint64_t i = 1; i < 5; ++i) {
    CompleteDirectories::Creation(none, kDirectory, "file", kStart).HandleMade({true, i, i + 1});
  }
  EXPECT_EQ(none.AdviceOn(kDirectory, "name", kStart), Advice::kAsk);
}

}  // namespace
}  // namespace penstock::client::v4
