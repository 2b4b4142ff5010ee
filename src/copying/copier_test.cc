#include "copying/copier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/failing_disk.h"
#include "base/signal.h"
#include "base/test_loop.h"
#include "client/mount_test_support.h"
#include "copying/local_tree.h"
#include "copying/remote_tree.h"
#include "fs/faulty/fault.h"

namespace penstock::copying {
namespace {

namespace files = std::filesystem;
using client::Version;

// Remembers what a copy has told.
struct Log final : Observer {
  std::vector<std::string> done;  // like "copy /to/name"
  std::vector<std::string> failed;

  void Done(Action action, const std::string&, const std::string& to, uint64_t) override {
    static constexpr const char* kWords[] = {"copy",  "same",   "mkdir", "symlink", "link",
                                             "mknod", "delete", "acl",   "xattrs"};
    done.push_back(std::string(kWords[static_cast<size_t>(action)]) + " " + to.substr(to.rfind('/') + 1));
    std::ranges::sort(done);
  }
  void Failed(const std::string& from, const std::string& to, const Error& error) override {
    failed.push_back(from + " -> " + to + ": " + error.message);
  }
};

class CopierTest : public client::VersionedMountTest {
 protected:
  CopierTest() {
    remote.emplace(*mount, "nfs://host");
    options.recursive = true;
    files::create_directories(source);
    files::create_directories(target);
  }
  ~CopierTest() override {
    remote.reset();
    files::remove_all(folder);
  }

  // Writes a local file and gives it a time.
  static void Make(const files::path& path, const std::string& content, time_t time = 1000) {
    std::ofstream(path, std::ios::binary) << content;
    const timespec times[2] = {{time, 5}, {time, 7}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  static std::string ContentOf(const files::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string RandomText(size_t size) {
    std::string text(size, '\0');
    std::minstd_rand random(7);
    for (char& octet : text) octet = static_cast<char>(random());
    return text;
  }
  static std::vector<std::string> NamesIn(const files::path& path) {
    std::vector<std::string> names;
    for (const auto& each : files::directory_iterator(path)) names.push_back(each.path().filename());
    std::ranges::sort(names);
    return names;
  }

  static client::CallMatcher Commits() {
    return is_version_3() ? client::CallsOf<nfs3::NFSPROC3_COMMIT>()
                          : client::CompoundsWith(nfs4::nfs_opnum4::OP_COMMIT);
  }
  Task<std::vector<std::string>> Names() {
    std::vector<std::string> names;
    const auto take = [&names](const client::Entry& entry) { names.push_back(entry.name); };
    EXPECT_TRUE(co_await mount->List(root(), "/", take));
    co_return names;
  }

  std::shared_ptr<Directory> Local(const files::path& path) { return Do(local.Open(path)); }
  std::shared_ptr<Directory> Root() { return remote->Open(root(), ""); }

  Log Copy(Tree& tree, std::shared_ptr<Directory> from, std::shared_ptr<Directory> to) {
    Log log;
    {
      Copier copier(loop, tree, options, log);
      copier.AddContents(std::move(from), std::move(to));
      const Result<void> result = Run(copier.Run());
      if (!result) log.failed.push_back(result.error().message);
      totals = copier.totals();
    }
    return log;
  }
  // Uploads, and returns how many WRITEs the server has got when the first of them have no replies yet.
  size_t WritesAtATime(size_t writes) {
    bool may_come = false;
    Signal come;
    for (size_t i = 0; i < writes; ++i) {
      service.DelayReply(Writes(), [&]() -> Task<void> {
        while (!may_come) co_await come;
      });
    }
    const size_t before = service.CountCalls(Writes());
    const auto count = [&] { return service.CountCalls(Writes()) - before; };
    Log log;
    Copier copier(loop, *remote, options, log);
    copier.AddContents(Local(source), Root());
    std::optional<Result<void>> result;
    Spawn([](Copier& of, std::optional<Result<void>>& out) -> Task<void> { out = co_await of.Run(); }(copier, result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return count() > 0; }));
    TurnFor(loop, std::chrono::milliseconds(200));
    const size_t first = count();
    may_come = true;
    come.Notify();
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    EXPECT_TRUE(log.failed.empty()) << log.failed[0];
    EXPECT_EQ(count(), writes);
    return first;
  }
  Log Upload() { return Copy(*remote, Local(source), Root()); }
  Log Download() { return Copy(local, Root(), Local(target)); }

  const files::path folder = files::temp_directory_path() /
                             ("penstock-copier-" + std::to_string(::getpid()) + std::to_string(std::random_device()()));
  const files::path source = folder / "source", target = folder / "target";
  LocalTree local{loop, workers};
  std::optional<RemoteTree> remote;
  Options options;
  Totals totals;
};

INSTANTIATE_TEST_SUITE_P(Versions, CopierTest, testing::Values(Version::k3, Version::k40, Version::k42),
                         [](const auto& info) { return client::NameOf(info.param); });

TEST_P(CopierTest, CopiesATreeToAServerAndBack) {
  options.keep_modes = options.keep_times = true;
  files::create_directories(source / "a/b");
  Make(source / "empty", "");
  Make(source / "a/small", "text", 2000);
  const std::string large = RandomText((2 << 20) + 17);
  Make(source / "a/b/large", large, 3000);
  files::create_symlink("../small", source / "a/b/link");
  files::permissions(source / "a/small", files::perms(0640));
  files::permissions(source / "a/b", files::perms(0555));

  Log log = Upload();
  EXPECT_TRUE(log.failed.empty()) << log.failed[0];
  EXPECT_EQ(log.done,
            (std::vector<std::string>{"copy empty", "copy large", "copy small", "mkdir a", "mkdir b", "symlink link"}));
  log = Download();
  EXPECT_TRUE(log.failed.empty()) << log.failed[0];
  EXPECT_EQ(NamesIn(target), (std::vector<std::string>{"a", "empty"}));
  EXPECT_EQ(NamesIn(target / "a/b"), (std::vector<std::string>{"large", "link"}));
  EXPECT_EQ(ContentOf(target / "a/small"), "text");
  EXPECT_TRUE(ContentOf(target / "a/b/large") == large);
  EXPECT_EQ(files::read_symlink(target / "a/b/link"), "../small");
  struct stat status{};
  ASSERT_EQ(::stat((target / "a/small").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(status.st_mtim.tv_sec, 2000);
  EXPECT_EQ(status.st_mtim.tv_nsec, 7);
  ASSERT_EQ(::stat((target / "a/b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0555u) << "the mode is set when the directory is complete";
  EXPECT_EQ(totals.files, 3u);
  EXPECT_EQ(totals.octets, large.size() + 4);
  files::permissions(source / "a/b", files::perms(0755));
  files::permissions(target / "a/b", files::perms(0755));
}

TEST_P(CopierTest, SmallFilesUnderWayFitIntoTheMemory) {
  for (int i = 0; i < 8; ++i) Make(source / std::to_string(i), std::string(100'000, 'x'));
  options.memory = 350'000;
  EXPECT_EQ(WritesAtATime(8), 3u);
}

TEST_P(CopierTest, PiecesUnderWayFitIntoTheMemory) {
  Make(source / "large", RandomText(8 << 20));
  options.memory = 3 << 20;
  EXPECT_EQ(WritesAtATime(8), 3u);
}

TEST_P(CopierTest, CopiesNoMoreFilesAtATimeThanItMay) {
  for (int i = 0; i < 8; ++i) Make(source / std::to_string(i), "text");
  options.jobs = 2;
  EXPECT_EQ(WritesAtATime(8), 2u);
}

TEST_P(CopierTest, LeavesOutWhatIsTheSame) {
  options.keep_modes = options.keep_times = options.skip_same = true;
  Make(source / "one", "1", 1000);
  Make(source / "two", "2", 1000);
  EXPECT_TRUE(Upload().failed.empty());
  Make(source / "two", "3", 2000);
  files::permissions(source / "one", files::perms(0600));
  EXPECT_EQ(Upload().done, (std::vector<std::string>{"copy two", "same one"}));
  Log log = Download();
  EXPECT_EQ(ContentOf(target / "two"), "3");
  struct stat status{};
  ASSERT_EQ(::stat((target / "one").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u) << "the attributes of a file that is the same are mended";

  // The same size and time, but another content.
  Make(source / "two", "4", 2000);
  EXPECT_EQ(Upload().done, (std::vector<std::string>{"same one", "same two"}));
  options.compare_contents = true;
  EXPECT_EQ(Upload().done, (std::vector<std::string>{"copy two", "same one"}));
}

TEST_P(CopierTest, DeletesAndReplacesOnlyWhatItMay) {
  options.keep_times = options.skip_same = true;
  files::create_directories(source / "kind");
  Make(source / "file", "new");
  files::create_directories(target / "gone/deep");
  Make(target / "gone/deep/file", "old");
  Make(target / "kept.log", "log");
  Make(target / "kind", "a file where the source has a directory");
  files::create_directories(target / "file");
  ASSERT_TRUE(Copy(*remote, Local(source), Root()).failed.empty());

  Log log = Download();
  EXPECT_EQ(log.failed.size(), 2u) << "neither kind is replaced";
  EXPECT_EQ(NamesIn(target), (std::vector<std::string>{"file", "gone", "kept.log", "kind"}));

  options.replace_others = options.delete_others = options.dry_run = true;
  options.filter.Add(false, "*.log");
  log = Download();
  EXPECT_TRUE(log.failed.empty()) << log.failed[0];
  const std::vector<std::string> expected = {"copy file",   "delete deep", "delete file", "delete file",
                                             "delete gone", "delete kind", "mkdir kind"};
  EXPECT_EQ(log.done, expected);
  EXPECT_EQ(NamesIn(target), (std::vector<std::string>{"file", "gone", "kept.log", "kind"})) << "a dry run";

  options.dry_run = false;
  EXPECT_EQ(Download().done, expected);
  EXPECT_EQ(NamesIn(target), (std::vector<std::string>{"file", "kept.log", "kind"}));
  EXPECT_EQ(ContentOf(target / "file"), "new");
  EXPECT_TRUE(files::is_directory(target / "kind"));
}

TEST_P(CopierTest, KeepsHardLinks) {
  options.hard_links = true;
  Make(source / "one", "text");
  files::create_directories(source / "sub");
  files::create_hard_link(source / "one", source / "two");
  files::create_hard_link(source / "one", source / "sub/three");
  Log log = Upload();
  EXPECT_TRUE(log.failed.empty()) << log.failed[0];
  EXPECT_EQ(std::ranges::count_if(log.done, [](const auto& each) { return each.starts_with("link "); }), 2);
  log = Download();
  EXPECT_TRUE(log.failed.empty()) << log.failed[0];
  EXPECT_EQ(files::hard_link_count(target / "one"), 3u);
  EXPECT_TRUE(files::equivalent(target / "one", target / "sub/three"));
}

// As after a kill: another name of the file may be the first in the next run.
TEST_P(CopierTest, LinksWhatIsTheSameWithoutALink) {
  options.keep_times = options.skip_same = true;
  Make(source / "one", "text");
  Make(source / "other", "text");
  for (const char* const name : {"two", "three", "four"}) files::create_hard_link(source / "one", source / name);
  ASSERT_TRUE(Upload().failed.empty());
  files::remove(source / "four");
  options.hard_links = true;
  const std::vector<std::string> linked = {"link", "link", "same", "same"};
  Log log = Upload();
  EXPECT_TRUE(log.failed.empty()) << log.failed[0];
  for (std::string& each : log.done) each = each.substr(0, 4);
  EXPECT_EQ(log.done, linked);
  EXPECT_EQ(Run(Names()).size(), 5u) << "no temporary name stays";
  EXPECT_EQ(Upload().done, (std::vector<std::string>{"same one", "same other", "same three", "same two"}));

  // The target has other contents, and a directory, where the source has names of one file.
  options.replace_others = true;
  Make(target / "one", "old", 2000);
  files::create_directories(target / "two");
  Make(target / "three", "text");
  ASSERT_TRUE(Download().failed.empty());
  EXPECT_EQ(files::hard_link_count(target / "three"), 3u);
  EXPECT_TRUE(files::equivalent(target / "one", target / "two"));
  EXPECT_EQ(ContentOf(target / "two"), "text");
}

TEST_P(CopierTest, MendsTheAttributesOfALinkThatIsTheSame) {
  options.keep_times = options.skip_same = true;
  options.keep_owners = options.keep_groups = ::geteuid() == 0;
  const auto change = [](const files::path& link, time_t time, uid_t owner) {
    const timespec times[2] = {{time, 0}, {time, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, link.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
    if (::geteuid() == 0) ASSERT_EQ(::lchown(link.c_str(), owner, owner), 0);
  };
  const auto expect = [](const files::path& link, time_t time, uid_t owner) {
    struct stat status{};
    ASSERT_EQ(::lstat(link.c_str(), &status), 0);
    EXPECT_EQ(status.st_mtime, time);
    if (::geteuid() == 0) EXPECT_EQ(status.st_uid, owner);
  };
  files::create_symlink("nowhere", source / "link");
  change(source / "link", 1000, 5);
  EXPECT_EQ(Upload().done, std::vector<std::string>{"symlink link"});
  EXPECT_EQ(Download().done, std::vector<std::string>{"symlink link"});
  expect(target / "link", 1000, 5);
  change(source / "link", 3000, 6);
  EXPECT_EQ(Upload().done, std::vector<std::string>{"same link"});
  EXPECT_EQ(Download().done, std::vector<std::string>{"same link"});
  expect(target / "link", 3000, 6);
}

TEST_P(CopierTest, KeepsHoles) {
  const files::path path = source / "sparse";
  Make(path, "");
  constexpr uint64_t kSize = 9 << 20;
  ASSERT_EQ(::truncate(path.c_str(), kSize), 0);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(3 << 20);
    file << "data in the middle";
  }
  ASSERT_TRUE(Upload().failed.empty());
  ASSERT_TRUE(Download().failed.empty());
  struct stat status{};
  ASSERT_EQ(::stat((target / "sparse").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(kSize)) << "the hole at the end belongs to the file";
  EXPECT_LT(status.st_blocks * 512, 2 << 20);
  EXPECT_TRUE(ContentOf(target / "sparse") == ContentOf(path));
}

TEST_P(CopierTest, GoesOnAfterAFileThatFails) {
  for (const char* const name : {"a", "b", "c"}) Make(source / name, name);
  ASSERT_TRUE(Upload().failed.empty());
  service.files().Add({.operation = fs::faulty::Operation::kRead,
                       .when = fs::faulty::Nth(1),
                       .effect = fs::faulty::FailWith(fs::Error::kIo)});
  const Log log = Download();
  ASSERT_EQ(log.failed.size(), 1u);
  EXPECT_TRUE(log.failed[0].starts_with("nfs://host/")) << log.failed[0];
  EXPECT_NE(log.failed[0].find(" -> " + target.native()), std::string::npos) << log.failed[0];
  EXPECT_EQ(log.done.size(), 2u);
  EXPECT_EQ(NamesIn(target).size(), 2u) << "nothing partial is left";
}

TEST_P(CopierTest, StopsWhenTheServerIsFull) {
  options.jobs = 1;
  for (int i = 0; i < 20; ++i) Make(source / std::to_string(i), "content");
  service.files().Add(
      {.operation = fs::faulty::Operation::kWrite, .effect = fs::faulty::FailWith(fs::Error::kNoSpace)});
  const Log log = Upload();
  EXPECT_EQ(log.failed.size(), 1u) << "further files are not tried";
  EXPECT_TRUE(log.done.empty());
  EXPECT_TRUE(List().empty()) << "nothing partial is left";
}

TEST_P(CopierTest, ADirectoryThatCannotBeMadeStableIsAnError) {
  Make(source / "file", "content");
  ASSERT_TRUE(Upload().failed.empty());
  FailingDisk disk;
  disk.Fail({.call = DiskCall::kSync, .path = target, .error = EIO});
  EXPECT_EQ(Download().failed.size(), 1u);
}

TEST_P(CopierTest, SurvivesLostReplies) {
  for (int i = 0; i < 5; ++i) Make(source / std::to_string(i), RandomText(3000));
  service.LoseReply(Writes(), 2, 1);
  const Log log = Upload();
  EXPECT_TRUE(log.failed.empty()) << log.failed[0];
  ASSERT_TRUE(Download().failed.empty());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ContentOf(target / std::to_string(i)), RandomText(3000));
}

TEST_P(CopierTest, WritesAgainWhatARestartedServerLost) {
  // Its clients do not tell that they have reclaimed all, so that the server waits for as long as a lease.
  if (GetParam() == Version::k40) return;
  Make(source / "large", RandomText(600 << 10));
  service.LoseReplyInRestart(Commits());
  const Log log = Upload();
  EXPECT_TRUE(log.failed.empty()) << log.failed[0];
  ASSERT_TRUE(Download().failed.empty());
  EXPECT_TRUE(ContentOf(target / "large") == RandomText(600 << 10));
}

// The COMMIT of a part is under way while the next one is written: another verifier says that both may be lost.
TEST_P(CopierTest, WritesBothPartsAgainThatARestartedServerLost) {
  if (!is_version_3()) return;  // the answer is one of version 3
  options.checkpoint = 1 << 20;
  Make(source / "large", RandomText(4 << 20));
  const nfs3::COMMIT3resok other{.file_wcc = {}, .verf = {std::byte{0xff}, std::byte{0xee}}};
  for (const size_t lost : {0u, 1u, 3u}) {
    service.Answer<nfs3::NFSPROC3_COMMIT>(nfs3::COMMIT3res(nfs3::NFS3_OK, other), 1, lost);
    const size_t writes = service.CountCalls(Writes());
    const Log log = Upload();
    EXPECT_TRUE(log.failed.empty()) << log.failed[0];
    // The last COMMIT has no part beside it.
    EXPECT_EQ(service.CountCalls(Writes()) - writes, lost == 3 ? 5u : 6u);
    EXPECT_EQ(totals.octets, (lost == 3 ? 5u : 6u) << 20);
  }
  ASSERT_TRUE(Download().failed.empty());
  EXPECT_TRUE(ContentOf(target / "large") == RandomText(4 << 20));
}

// A server that has restarted answers a repeated change with "exists already" or "no such file".
TEST_P(CopierTest, RepeatsChangesWhoseRepliesARestartLost) {
  if (GetParam() == Version::k40) return;  // as above
  using enum nfs4::nfs_opnum4;
  options.keep_times = options.skip_same = options.hard_links = options.delete_others = true;
  options.checkpoint = 1 << 20;
  const auto copies = [this](const std::string& what) {
    const Log log = Upload();
    EXPECT_TRUE(log.failed.empty()) << what << ": " << log.failed[0];
    Log again = Upload();
    std::erase_if(again.done, [](const std::string& each) { return each.starts_with("same "); });
    EXPECT_TRUE(again.done.empty()) << what << ": " << again.done[0];
  };
  const auto lose = [this](client::CallMatcher three, nfs4::nfs_opnum4 four) {
    service.LoseReplyInRestart(is_version_3() ? std::move(three) : client::CompoundsWith(four));
  };
  files::create_directories(source / "d/deep");
  Make(source / "d/deep/file", "text");
  lose(client::CallsOf<nfs3::NFSPROC3_MKDIR>(), OP_CREATE);
  copies("mkdir");
  files::create_symlink("nowhere", source / "link");
  lose(client::CallsOf<nfs3::NFSPROC3_SYMLINK>(), OP_CREATE);
  copies("symlink");
  Make(source / "small", "text");
  lose(client::CallsOf<nfs3::NFSPROC3_RENAME>(), OP_SAVEFH);
  copies("rename of a small file");
  Make(source / "large", RandomText(600 << 10));
  lose(client::CallsOf<nfs3::NFSPROC3_RENAME>(), OP_SAVEFH);
  const size_t writes = service.CountCalls(Writes());
  copies("rename of a large file");
  EXPECT_EQ(service.CountCalls(Writes()) - writes, 1u) << "it is not copied twice";
  Make(source / "larger", RandomText(3 << 20));
  lose(client::CallsOf<nfs3::NFSPROC3_RENAME>(), OP_SAVEFH);
  copies("record of what is complete");
  files::create_hard_link(source / "small", source / "twin");
  lose(client::CallsOf<nfs3::NFSPROC3_LINK>(), OP_SAVEFH);
  copies("link");
  files::remove(source / "link");
  lose(client::CallsOf<nfs3::NFSPROC3_REMOVE>(), OP_REMOVE);
  copies("remove");
  options.delete_others = false;
  ASSERT_TRUE(Download().failed.empty());
  EXPECT_EQ(NamesIn(target), (std::vector<std::string>{"d", "large", "larger", "small", "twin"}));
  EXPECT_TRUE(ContentOf(target / "larger") == RandomText(3 << 20));
  EXPECT_EQ(ContentOf(target / "d/deep/file"), "text");
}

TEST_P(CopierTest, ResumesALargeFile) {
  options.keep_times = options.keep_partial = true;
  options.checkpoint = 256 << 10;
  options.in_flight = 1;
  const std::string content = RandomText(1 << 20);
  Make(source / "large", content);
  ASSERT_TRUE(Upload().failed.empty());
  // The third part fails.
  service.files().Add({.operation = fs::faulty::Operation::kRead,
                       .when = fs::faulty::Nth(3),
                       .effect = fs::faulty::FailWith(fs::Error::kIo)});
  EXPECT_EQ(Download().failed.size(), 1u);
  const auto left = NamesIn(target);
  ASSERT_EQ(left.size(), 1u);
  const auto name = TemporaryName::Parse(left[0]);
  ASSERT_TRUE(name) << left[0];
  EXPECT_EQ(name->complete, 512u << 10);

  const size_t before = service.CountCalls(Reads());
  const Log log = Download();
  EXPECT_TRUE(log.failed.empty()) << log.failed[0];
  EXPECT_EQ(NamesIn(target), std::vector<std::string>{"large"});
  EXPECT_TRUE(ContentOf(target / "large") == content);
  EXPECT_EQ(service.CountCalls(Reads()) - before, 3u) << "two parts and the check of the last complete octets";
}

TEST_P(CopierTest, DoesNotResumeAnotherStateOfTheSource) {
  options.keep_times = options.keep_partial = true;
  options.checkpoint = 256 << 10;
  options.in_flight = 1;
  Make(source / "large", RandomText(768 << 10));
  service.files().Add({.operation = fs::faulty::Operation::kWrite,
                       .when = fs::faulty::Nth(3),
                       .effect = fs::faulty::FailWith(fs::Error::kIo)});
  EXPECT_EQ(Upload().failed.size(), 1u);
  ASSERT_EQ(List().size(), 1u);
  std::string changed = RandomText(768 << 10);
  changed[0] = static_cast<char>(changed[0] + 1);
  Make(source / "large", changed, 5000);
  ASSERT_TRUE(Upload().failed.empty());
  EXPECT_EQ(List(), std::vector<std::string>{"large"}) << "the older part is removed";
  ASSERT_TRUE(Download().failed.empty());
  EXPECT_TRUE(ContentOf(target / "large") == changed);
}

TEST_P(CopierTest, RemovesWhatAKilledCopyLeftBesideACompleteFile) {
  options.keep_times = options.skip_same = true;
  Make(source / "file", "content");
  ASSERT_TRUE(Upload().failed.empty());
  ASSERT_TRUE(Download().failed.empty());
  const Attributes attributes = Do(Root()->Find("file")).attributes;
  const std::string of_this = TemporaryName::For("file", "nfs://host/file", attributes).Text();
  const std::string of_another = TemporaryName::For("file", "nfs://other/file", attributes).Text();
  Make(target / of_this, "con");
  Make(target / of_another, "con");
  EXPECT_EQ(Download().done, std::vector<std::string>{"same file"});
  EXPECT_EQ(NamesIn(target), (std::vector<std::string>{of_another, "file"})) << "another copy may be under way";
}

TEST_P(CopierTest, VerifiesWhatItWrote) {
  options.verify = true;
  Make(source / "large", RandomText(600 << 10));
  Make(source / "small", "small");
  EXPECT_TRUE(Upload().failed.empty());
  EXPECT_TRUE(Download().failed.empty());
  // Somebody changes the copy before it is read back.
  service.DelayReply(Writes(), [this]() -> Task<void> {
    for (const std::string& name : co_await Names()) {
      if (!TemporaryName::Parse(name)) continue;
      const auto node = co_await mount->Lookup(root(), name);
      const auto file = co_await mount->OpenFile(*node, name, client::Access::kBoth);
      EXPECT_TRUE(co_await (*file)->Write(0, AsBytes("X")));
      EXPECT_TRUE(co_await (*file)->Close());
    }
  });
  files::remove(source / "large");
  const Log log = Upload();
  ASSERT_EQ(log.failed.size(), 1u);
  EXPECT_NE(log.failed[0].find("differs from its source"), std::string::npos) << log.failed[0];
}

TEST_P(CopierTest, ANewFileHasTheAccessOfTheOldOne) {
  Make(source / "file", "new");
  Make(target / "file", "old");
  files::permissions(target / "file", files::perms(0640));
  ASSERT_TRUE(Upload().failed.empty());
  const client::NewAttributes mode{.mode = 0604};
  Do(mount->SetAttributes(Do(mount->Lookup(root(), "file")).handle, "file", mode));
  ASSERT_TRUE(Download().failed.empty());
  EXPECT_EQ(ContentOf(target / "file"), "new");
  struct stat status{};
  ASSERT_EQ(::stat((target / "file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  ASSERT_TRUE(Upload().failed.empty());
  EXPECT_EQ(Do(mount->Lookup(root(), "file")).attributes.mode, 0604u);
}

TEST_P(CopierTest, NeverFollowsALinkOutOfTheTarget) {
  files::create_directories(folder / "outside");
  Make(folder / "outside/file", "outside");
  files::create_directories(source / "d");
  Make(source / "d/file", "from the server");
  Make(source / "f", "from the server");
  ASSERT_TRUE(Upload().failed.empty());
  files::create_symlink("../outside", target / "d");
  files::create_symlink("../outside/file", target / "f");
  const Log log = Download();
  EXPECT_EQ(log.failed.size(), 1u) << "a link to a directory is no directory of the target";
  EXPECT_EQ(ContentOf(folder / "outside/file"), "outside");
  EXPECT_FALSE(files::is_symlink(target / "f")) << "the link itself is replaced";
  EXPECT_EQ(ContentOf(target / "f"), "from the server");
}

TEST_P(CopierTest, RefusesToCopyADirectoryIntoItself) {
  files::create_directories(source / "in");
  Make(source / "file", "x");
  const Log log = Copy(local, Local(source), Local(source / "in"));
  ASSERT_EQ(log.failed.size(), 1u);
  EXPECT_NE(log.failed[0].find("into itself"), std::string::npos) << log.failed[0];
  EXPECT_EQ(NamesIn(source / "in"), std::vector<std::string>{"file"});
}

}  // namespace
}  // namespace penstock::copying
