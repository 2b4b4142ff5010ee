#include "fuse/inodes.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"
#include "fuse/open_file.h"
#include "fuse/test_file.h"

namespace penstock::fuse {
namespace {

using std::chrono::seconds;

client::Node NodeOf(std::string_view handle, uint64_t change = 1, client::FileType type = client::FileType::kRegular) {
  client::Node node;
  node.handle = client::Handle(AsBytes(handle));
  node.attributes.type = type;
  node.attributes.change = change;
  return node;
}

class InodesTest : public LoopFixture {
 protected:
  Inodes inodes{NodeOf("root", 1, client::FileType::kDirectory), CacheTimes()};
};

TEST_F(InodesTest, TheRootStays) {
  EXPECT_EQ(inodes.root().number, Inodes::kRoot);
  inodes.Forget(Inodes::kRoot, 100);
  EXPECT_TRUE(inodes.Find(Inodes::kRoot));
}

TEST_F(InodesTest, TwoNamesOfAFileAreOneInode) {
  Inode& first = inodes.Add(NodeOf("a"), 1, "x");
  Inode& second = inodes.Add(NodeOf("a"), 1, "y");
  EXPECT_EQ(&first, &second);
  EXPECT_EQ(inodes.FindName(1, "y"), &first);
}

TEST_F(InodesTest, AnInodeEndsWithItsLastReference) {
  const uint64_t number = inodes.Add(NodeOf("a"), 1, "x").number;
  inodes.Add(NodeOf("a"), 1, "x");
  inodes.Forget(number, 1);
  EXPECT_TRUE(inodes.Find(number));
  {
    const Inodes::Pin pin(inodes, *inodes.Find(number));
    inodes.Forget(number, 1);
    EXPECT_TRUE(inodes.Find(number)) << "a request uses it";
  }
  EXPECT_FALSE(inodes.Find(number));
  EXPECT_FALSE(inodes.FindName(1, "x"));
  EXPECT_NE(inodes.Add(NodeOf("a"), 1, "x").number, number) << "numbers are not used again";
}

// A test lists the root.
class ListingTest : public InodesTest {
 protected:
  ListingTest() { inodes.BeginListing(inodes.root()); }
  ~ListingTest() override { inodes.EndListing(inodes.root()); }
  // An entry of the page that was asked for at `asked`.
  Inode* Listed(std::string_view handle, const std::string& name, uint64_t change = 1) {
    return inodes.AddListed(NodeOf(handle, change), inodes.root(), name, asked);
  }

  Moment asked = 0;
};

TEST_F(ListingTest, AnEntryOfAPageIsAdded) {
  Inode* const listed = Listed("a", "x");
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->lookups, 1u);
  EXPECT_EQ(inodes.FindName(1, "x"), listed);
}

TEST_F(ListingTest, ALatePageDoesNotBringBackANamesEarlierFile) {
  inodes.Add(NodeOf("old"), 1, "x");
  Inode& renamed = inodes.Add(NodeOf("new"), 1, "y");
  inodes.Add(NodeOf("gone"), 1, "z");
  asked = inodes.now();
  inodes.HandleRenamed(1, "y", 1, "x");
  inodes.HandleRemoved(1, "z");
  EXPECT_FALSE(Listed("old", "x"));
  EXPECT_FALSE(Listed("new", "y"));
  EXPECT_FALSE(Listed("gone", "z"));
  EXPECT_EQ(inodes.FindName(1, "x"), &renamed);
  EXPECT_FALSE(inodes.FindName(1, "y"));
  EXPECT_FALSE(inodes.FindName(1, "z"));
  EXPECT_EQ(renamed.lookups, 1u);
  EXPECT_EQ(Listed("new", "x"), &renamed) << "it is the file that has the name";
  EXPECT_TRUE(Listed("another", "w"));

  asked = inodes.now();
  EXPECT_TRUE(Listed("old", "x")) << "another client has renamed";
}

TEST_F(ListingTest, ALatePageBringsNoFileForANameThatWasNotKnown) {
  inodes.HandleRemoved(1, "unknown");
  inodes.HandleRenamed(1, "from", 1, "to");
  inodes.Add(NodeOf("made"), 1, "replaced");
  for (const char* const name : {"unknown", "from", "to", "replaced"}) EXPECT_FALSE(Listed("old", name)) << name;
}

TEST_F(ListingTest, ALatePageIsNotTrustedAfterVeryManyChanges) {
  for (int i = 0; i < 10'000; ++i) inodes.HandleRemoved(1, std::to_string(i));
  for (const int i : {0, 5000, 9999}) EXPECT_FALSE(Listed("old", std::to_string(i))) << i;
  asked = inodes.now();
  for (const int i : {0, 5000, 9999}) EXPECT_TRUE(Listed("old", std::to_string(i))) << i;
}

TEST_F(ListingTest, ALatePageDoesNotBringBackEarlierAttributes) {
  Inode& file = inodes.Add(NodeOf("a", 1), 1, "x");
  asked = inodes.now();
  inodes.Update(file, NodeOf("a", 2).attributes);
  EXPECT_EQ(Listed("a", "x", 1), &file);
  EXPECT_EQ(file.attributes.change, 2u);
  asked = inodes.now();
  inodes.HandleWritten(file);
  EXPECT_EQ(Listed("a", "x", 3), &file);
  EXPECT_EQ(file.attributes.change, 2u);
  asked = inodes.now();
  EXPECT_EQ(Listed("a", "x", 4), &file);
  EXPECT_EQ(file.attributes.change, 4u);
}

TEST_F(InodesTest, AttributesThatStayTheSameAreValidForLonger) {
  Inode& file = inodes.Add(NodeOf("a"), 1, "x");
  EXPECT_EQ(file.validity, seconds(3));
  inodes.Update(file, NodeOf("a").attributes);
  EXPECT_EQ(file.validity, seconds(6));
  for (int i = 0; i < 10; ++i) inodes.Update(file, NodeOf("a").attributes);
  EXPECT_EQ(file.validity, seconds(60));
  inodes.Update(file, NodeOf("a", 2).attributes);
  EXPECT_EQ(file.validity, seconds(3));
}

TEST_F(InodesTest, ARenamedFileIsFoundByItsNewName) {
  Inode& file = inodes.Add(NodeOf("a"), 1, "x");
  EXPECT_FALSE(inodes.FindOpen(1, "x"));
  OpenFile open;
  inodes.HandleOpened(file, open);
  EXPECT_EQ(inodes.FindOpen(1, "x"), &file);
  inodes.HandleRenamed(1, "x", 1, "y");
  EXPECT_FALSE(inodes.FindOpen(1, "x"));
  EXPECT_EQ(inodes.FindOpen(1, "y"), &file);
  inodes.HandleClosed(file, open);
  EXPECT_FALSE(inodes.FindOpen(1, "y"));
  file.opening = 1;
  EXPECT_EQ(inodes.FindOpen(1, "y"), &file) << "the name must not go while the file is being opened";
}

TEST_F(InodesTest, AFileIsFoundByEachOfItsNamesUntilTheNameEnds) {
  client::Node node = NodeOf("a");
  node.attributes.links = 3;
  Inode& file = inodes.Add(node, 1, "x");
  inodes.Add(node, 1, "y");
  inodes.Add(node, 2, "z");
  for (const auto& [parent, name] :
       {std::pair(uint64_t{1}, "x"), std::pair(uint64_t{1}, "y"), std::pair(uint64_t{2}, "z")}) {
    EXPECT_EQ(inodes.FindName(parent, name), &file) << name;
  }
  inodes.HandleRemoved(2, "z");
  EXPECT_FALSE(inodes.FindName(2, "z"));
  EXPECT_TRUE(file.name == "x" || file.name == "y") << "one that it still has";
  inodes.HandleRenamed(1, "y", 1, "w");
  EXPECT_FALSE(inodes.FindName(1, "y"));
  EXPECT_EQ(inodes.FindName(1, "w"), &file);
  EXPECT_EQ(inodes.FindName(1, "x"), &file);
  inodes.Add(NodeOf("b"), 1, "c");
  inodes.HandleRenamed(1, "c", 1, "x");
  EXPECT_NE(inodes.FindName(1, "x"), &file) << "another file has replaced it";
  node.attributes.links = 1;
  inodes.Add(node, 1, "v");
  EXPECT_FALSE(inodes.FindName(1, "w")) << "another client has removed it";
  inodes.Forget(file.number, 4);
  EXPECT_FALSE(inodes.FindName(1, "v"));
}

TEST_F(InodesTest, TellsTheNamesOfWhatTheKernelKnows) {
  const client::Handle directory = NodeOf("d").handle;
  const client::Handle file = NodeOf("f").handle;
  const uint64_t number = inodes.Add(NodeOf("d", 1, client::FileType::kDirectory), 1, "dir").number;
  inodes.Add(NodeOf("f"), number, "x");
  auto place = inodes.PlaceOf(file);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->directory, directory);
  EXPECT_EQ(place->name, "x");
  EXPECT_EQ(place->type, client::FileType::kRegular);
  EXPECT_EQ(inodes.ObjectAt(directory, "x"), file);
  EXPECT_EQ(inodes.ObjectAt(inodes.root().handle, "dir"), directory);
  EXPECT_FALSE(inodes.ObjectAt(directory, "y"));
  EXPECT_FALSE(inodes.ObjectAt(file, "x"));
  EXPECT_FALSE(inodes.PlaceOf(NodeOf("unknown").handle));

  inodes.HandleRenamed(number, "x", 1, "y");
  place = inodes.PlaceOf(file);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->directory, inodes.root().handle);
  EXPECT_EQ(place->name, "y");
  inodes.HandleRemoved(1, "y");
  EXPECT_FALSE(inodes.PlaceOf(file)) << "it has no name any more";
  EXPECT_EQ(inodes.PlaceOf(inodes.root().handle)->name, "");
}

TEST_F(InodesTest, TellsAnotherNameIfTheKernelHasForgottenADirectory) {
  client::Node node = NodeOf("f");
  node.attributes.links = 2;
  const uint64_t number = inodes.Add(NodeOf("d", 1, client::FileType::kDirectory), 1, "dir").number;
  inodes.Add(node, 1, "x");
  inodes.Add(node, number, "y");
  EXPECT_EQ(inodes.PlaceOf(node.handle)->name, "y");
  inodes.Forget(number, 1);
  ASSERT_TRUE(inodes.PlaceOf(node.handle));
  EXPECT_EQ(inodes.PlaceOf(node.handle)->name, "x");
  EXPECT_EQ(inodes.PlaceOf(node.handle)->directory, inodes.root().handle);
}

// RFC 8881 §11.11.5
TEST_F(InodesTest, TheChangeAttributeOfAnotherServerSaysNothing) {
  Inode& inode = inodes.Add(NodeOf("a", 7), 1, "x");
  inodes.Update(inode, inode.attributes);
  const Duration trusted = inode.validity;
  inode.cached_change = 7;
  client::Attributes elsewhere = inode.attributes;
  elsewhere.file_system = 2;
  inodes.Update(inode, elsewhere);
  EXPECT_FALSE(inode.cached_change);
  EXPECT_LT(inode.validity, trusted);
}

}  // namespace
}  // namespace penstock::fuse
