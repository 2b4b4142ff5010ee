// LOOKUP, READLINK; and handles.
#include "base/test_log.h"
#include "fs/faulty/file_system.h"
#include "nfs/v2/nfs_test.h"

namespace penstock::nfs::v2 {
namespace {

using testing::HasSubstr;

class LookupTest : public NfsTest {};

TEST_F(LookupTest, FindsNames) {
  const fhandle file = MakeFile("file", "hello");
  const auto found = Lookup("file");
  ASSERT_EQ(found.status(), NFS_OK);
  EXPECT_EQ(found.ok().file, file);
  EXPECT_EQ(found.ok().attributes, AttributesOf(file));
  EXPECT_EQ(Lookup(".").ok().file, root);
  EXPECT_EQ(Lookup("..").ok().file, root);
  EXPECT_EQ((Call<NFSPROC_LOOKUP>({MakeDirectory("directory"), ".."}).ok().file), root);
}

TEST_F(LookupTest, ReportsErrors) {
  const fhandle file = MakeFile("file");
  EXPECT_EQ(Lookup("missing").status(), NFSERR_NOENT);
  EXPECT_EQ(Lookup("").status(), NFSERR_ACCES);
  EXPECT_EQ((Call<NFSPROC_LOOKUP>({file, "below"}).status()), NFSERR_NOTDIR);
  EXPECT_EQ((Call<NFSPROC_LOOKUP>({StaleHandle(), "name"}).status()), NFSERR_STALE);
  MakeDirectory("closed", 0700);
  const fhandle closed = Lookup("closed").ok().file;
  memory.SetUser(1000);
  EXPECT_EQ((Call<NFSPROC_LOOKUP>({closed, "name"}).status()), NFSERR_ACCES);
}

// All versions name the same file.
TEST_F(LookupTest, TheHandleContainsThatOfVersion3) {
  const fhandle file = MakeFile("file");
  const auto found = memory.Call<nfs3::NFSPROC3_LOOKUP>({{memory.RootOf("/"), "file"}});
  EXPECT_EQ(FromPadded(file), FileHandle::Parse(found.resok().object.data.bytes()));
}

TEST_F(LookupTest, ReadLinkRejectsAPathThatIsTooLong) {
  Now(tree->MakeSymlink(root_context, tree->Root(), "long", std::string(NFS_MAXPATHLEN + 1, 'p'), {}));
  EXPECT_EQ(Call<NFSPROC_READLINK>(Lookup("long").ok().file).status(), NFSERR_NAMETOOLONG);
  EXPECT_NE(Call<NFSPROC_READLINK>(MakeFile("file")).status(), NFS_OK);
}

// A file system whose files have longer handles than its root.
class LongHandles final : public fs::faulty::FileSystem {
 public:
  using fs::faulty::FileSystem::FileSystem;

  Task<fs::Observed<fs::Node>> Lookup(const fs::RequestContext& context, const fs::Handle& directory,
                                      std::string_view name) override {
    auto observed = co_await fs::faulty::FileSystem::Lookup(context, directory, name);
    if (observed.result) observed.result->handle = *fs::Handle::FromBytes(std::vector<std::byte>(28));
    co_return observed;
  }
};

TEST_F(LookupTest, AHandleThatDoesNotFitIsAnErrorAndLoggedOnce) {
  const auto inner = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{.instance = 99});
  Now(inner->Create(root_context, inner->Root(), "file", {}));
  ASSERT_TRUE(memory.exports.Add("/long", std::make_shared<LongHandles>(inner), {.squash = Squash::kNone}));
  const CapturedLog log;
  const fhandle directory = RootOf("/long");
  EXPECT_EQ(log.text(), "");
  EXPECT_EQ((Call<NFSPROC_LOOKUP>({directory, "file"}).status()), NFSERR_IO);
  const std::string once = log.text();
  EXPECT_THAT(once, HasSubstr("/long"));
  EXPECT_EQ((Call<NFSPROC_LOOKUP>({directory, "file"}).status()), NFSERR_IO);
  EXPECT_EQ(log.text(), once);
}

}  // namespace
}  // namespace penstock::nfs::v2
