#include "cli/walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/mounts_test_support.h"
#include "protocol/nfs3.h"

namespace penstock::cli {
namespace {

using client::Version;
using testing::ElementsAre;

class WalkTest : public MountsTestBase {
 protected:
  // What a walk calls, in order: "name" or "name/" for an entry, "-name" for the end of a directory, "!message".
  std::vector<std::string> WalkOf(const std::string& path, WalkOptions options = {}) {
    std::vector<std::string> seen;
    const Mounted at = At(path);
    const client::Node node = Do(at.Resolve());
    const WalkHandlers handlers{.visit = [&](const WalkedEntry& found) -> Task<void> {
                                  const auto& attributes = found.entry.attributes;
                                  const bool directory = attributes && attributes->type == client::FileType::kDirectory;
                                  seen.push_back(found.path + (directory ? "/" : ""));
                                  co_return;
                                },
                                .leave = [&](const WalkedEntry& left) -> Task<void> {
                                  seen.push_back("-" + left.path);
                                  co_return;
                                },
                                .report = [&](const client::Error& error) { seen.push_back("!" + error.message); }};
    Run([](const Mounted& start, client::Node root, WalkOptions how, const WalkHandlers& what) -> Task<bool> {
      co_await Walk(start, std::move(root), "start", std::move(how), what);
      co_return true;
    }(at, node, std::move(options), handlers));
    return seen;
  }
};
INSTANTIATE_TEST_SUITE_P(Version, WalkTest, kVersionsOfCommands, NameOfVersion);

TEST_P(WalkTest, VisitsDirectoriesBeforeTheirEntriesInTheOrderOfNames) {
  for (const char* name : {"/t", "/t/b", "/t/b/deep", "/t/d"}) MakeDirectory(name);
  for (const char* name : {"/t/a", "/t/c", "/t/b/x", "/t/b/deep/y", "/t/d/z"}) MakeFile(name);
  MakeSymlink("/t/e", "b");
  for (const unsigned jobs : {1u, 8u}) {
    EXPECT_THAT(WalkOf("/t", {.jobs = jobs}), ElementsAre("/", "a", "b/", "b/deep/", "b/deep/y", "-b/deep", "b/x", "-b",
                                                          "c", "d/", "d/z", "-d", "e", "-"));
  }
}

TEST_P(WalkTest, DescendsOnlyWhereItIsAllowed) {
  for (const char* name : {"/t", "/t/b", "/t/b/deep", "/t/d"}) MakeDirectory(name);
  const auto descend = [](const client::Entry& entry, unsigned depth) { return entry.name != "d" && depth < 2; };
  EXPECT_THAT(WalkOf("/t", {.descend = descend}), ElementsAre("/", "b/", "b/deep/", "-b", "d/", "-"));
}

TEST_P(WalkTest, AFileIsTheOnlyEntryOfItsWalk) {
  MakeFile("/file");
  EXPECT_THAT(WalkOf("/file"), ElementsAre(""));
}

TEST_P(WalkTest, GoesOnBehindADirectoryThatCannotBeListed) {
  for (const char* name : {"/t", "/t/a", "/t/b"}) MakeDirectory(name);
  MakeFile("/t/b/file");
  MakeFile("/t/a/file");
  using fs::faulty::Operation;
  service.files().Add({.operation = Operation::kReadDirectory,
                       .when = fs::faulty::Nth(2),
                       .effect = fs::faulty::FailWith(fs::Error::kAccess)});
  EXPECT_THAT(WalkOf("/t", {.jobs = 1}), ElementsAre("/", "a/", "!" + NameOfPath("/t/a") + ": permission denied", "-a",
                                                     "b/", "b/file", "-b", "-"));
}

TEST_P(WalkTest, ListsADirectoryWithManySubdirectories) {
  MakeDirectory("/t");
  std::vector<std::string> expected{"/"};
  for (int i = 100; i < 150; ++i) {
    const std::string name = std::to_string(i);
    MakeDirectory("/t/" + name);
    MakeFile("/t/" + name + "/f");
    for (const std::string& line : {name + "/", name + "/f", "-" + name}) expected.push_back(line);
  }
  expected.emplace_back("-");
  EXPECT_EQ(WalkOf("/t", {.jobs = 16}), expected);
}

}  // namespace
}  // namespace penstock::cli
