#include "cli/shell_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/parser.h"
#include "cli/test_parser.h"
#include "cli/url_path.h"

namespace penstock::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ShellWords, SplitsAtSpacesOutsideOfQuotes) {
  EXPECT_THAT(*SplitWords("ls  -l a\tb"), ElementsAre("ls", "-l", "a", "b"));
  EXPECT_THAT(*SplitWords(R"(rm 'a b' "c \"d" e\ f '')"), ElementsAre("rm", "a b", "c \"d", "e f", ""));
  EXPECT_THAT(*SplitWords("ls # a comment"), ElementsAre("ls"));
  EXPECT_THAT(*SplitWords("rm a#b"), ElementsAre("rm", "a#b"));
  EXPECT_THAT(*SplitWords("   "), IsEmpty());
  EXPECT_EQ(SplitWords("rm 'a").error(), "the quote ' does not end");
}

TEST(ShellWords, PathsBeginAtTheDirectory) {
  EXPECT_EQ(AbsolutePath("/a/b", "c"), "/a/b/c");
  EXPECT_EQ(AbsolutePath("/a/b", "../../../c/."), "/c");
  EXPECT_EQ(AbsolutePath("/a/b", "/c//d/"), "/c/d");
  EXPECT_EQ(AbsolutePath("/a", ".."), "/");
  const ShellPlace place("nfs://host:1/a%20b?vers=3", "/a b");
  EXPECT_EQ(place.UrlOf("x?"), "nfs://host:1/a%20b/x%3F?vers=3");
  EXPECT_EQ(place.UrlOf("/"), "nfs://host:1/?vers=3");
  EXPECT_EQ(place.UrlOf("nfs://other/"), "nfs://other/");
  EXPECT_EQ(ShellPlace("nfs://host", "/").UrlOf("a"), "nfs://host/a");
}

std::vector<std::string> Words(const std::string& line) {
  const Parser parser = MakeParser("version");
  const ShellPlace place("nfs://h/d", "/d");
  return ProgramWords(*SplitWords(line), place, FactsOf(*parser.program)).value_or(std::vector<std::string>());
}

TEST(ShellWords, TurnsPathsIntoUrlsAndLeavesOptionsAndOtherArguments) {
  EXPECT_THAT(Words("ls -l a /b"), ElementsAre("ls", "-l", "nfs://h/d/a", "nfs://h/b"));
  EXPECT_THAT(Words("ls"), ElementsAre("ls", "nfs://h/d"));
  EXPECT_THAT(Words("chmod 644 a"), ElementsAre("chmod", "644", "nfs://h/d/a"));
  EXPECT_THAT(Words("head -n 3 a"), ElementsAre("head", "-n", "3", "nfs://h/d/a"));
  EXPECT_THAT(Words("head --lines=3 a"), ElementsAre("head", "--lines=3", "nfs://h/d/a"));
  EXPECT_THAT(Words("tail -qn 3 a"), ElementsAre("tail", "-qn", "3", "nfs://h/d/a"));
  EXPECT_THAT(Words("rm -- -f"), ElementsAre("rm", "--", "nfs://h/d/-f"));
  EXPECT_THAT(Words("mv a b"), ElementsAre("mv", "nfs://h/d/a", "nfs://h/d/b"));
  EXPECT_THAT(Words("ln -sf text name"), ElementsAre("ln", "-sf", "text", "nfs://h/d/name"));
  EXPECT_THAT(Words("cmp a b"), ElementsAre("cmp", "nfs://h/d/a", "nfs://h/d/b"));
}

TEST(ShellWords, LeavesCommandsThatDoNotWorkOnFiles) {
  EXPECT_THAT(Words("serve a"), IsEmpty());
  EXPECT_THAT(Words("nonsense"), IsEmpty());
  EXPECT_THAT(Words("devices"), IsEmpty());
}

}  // namespace
}  // namespace penstock::cli
