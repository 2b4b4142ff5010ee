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

}  // namespace
}  // namespace penstock::fuse
