#include "copying/temporary_name.h"

#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"

namespace penstock::copying {
namespace {

client::Attributes SourceOf(uint64_t size, int64_t seconds) {
  client::Attributes attributes;
  attributes.size = size;
  attributes.modified = {seconds, 5};
  return attributes;
}

TEST(TemporaryNameTest, ParsesItsText) {
  TemporaryName name = TemporaryName::For("disk.img", "/a/disk.img", SourceOf(10, 20));
  EXPECT_EQ(TemporaryName::Parse(name.Text()), name);
  name.complete = 0xabcdef0123456789;
  EXPECT_EQ(TemporaryName::Parse(name.Text()), name);
  EXPECT_TRUE(name.Text().starts_with(".disk.img.penstock-")) << name.Text();
  EXPECT_TRUE(name.Text().ends_with("-abcdef0123456789")) << name.Text();
}

TEST(TemporaryNameTest, TellsTheStatesOfASourceApart) {
  const TemporaryName one = TemporaryName::For("f", "/a/f", SourceOf(10, 20));
  const TemporaryName again = TemporaryName::For("f", "/a/f", SourceOf(10, 20));
  EXPECT_TRUE(one.IsOfSameCopy(again));
  EXPECT_EQ(one.version, again.version);
  EXPECT_NE(one.Text(), again.Text()) << "two copies at the same time need two files";
  EXPECT_NE(one.version, TemporaryName::For("f", "/a/f", SourceOf(11, 20)).version);
  EXPECT_NE(one.version, TemporaryName::For("f", "/a/f", SourceOf(10, 21)).version);
  EXPECT_FALSE(one.IsOfSameCopy(TemporaryName::For("f", "/b/f", SourceOf(10, 20))));
  EXPECT_FALSE(one.IsOfSameCopy(TemporaryName::For("g", "/a/f", SourceOf(10, 20))));
}

TEST(TemporaryNameTest, FitsIntoADirectory) {
  std::string target;
  while (target.size() < 254) target += "\xc3\xa4";
  TemporaryName name = TemporaryName::For(target, "/a", SourceOf(1, 2));
  name.complete = ~uint64_t{0};
  EXPECT_LE(name.Text().size(), 255u);
  EXPECT_TRUE(IsUtf8(name.Text()));
  EXPECT_EQ(TemporaryName::Parse(name.Text()), name);
  // The part that is cut off distinguishes the files, too.
  const TemporaryName other = TemporaryName::For(target + "x", "/a", SourceOf(1, 2));
  EXPECT_EQ(other.target, name.target);
  EXPECT_FALSE(name.IsOfSameCopy(other));
}

TEST(TemporaryNameTest, RejectsOtherNames) {
  const std::string good = TemporaryName::For("f", "/f", SourceOf(1, 2)).Text();
  ASSERT_TRUE(TemporaryName::Parse(good));
  for (const std::string& bad :
       {std::string(), std::string("f"), good.substr(1), good.substr(0, good.size() - 1), good + "0", good + "-",
        good + "-0", good + "-012", good + "-G", good + "-11111111111111111", good + "-1-1", "." + good.substr(2),
        std::string(".f.penstock-1234abcd")}) {
    EXPECT_FALSE(TemporaryName::Parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace penstock::copying
