// The answers that ReadOnlyFileSystem gives for the file systems that are derived from it.
#include "fs/read_only_file_system.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <utility>

#include "fs/test_one_file.h"

namespace penstock::fs {
namespace {

class ReadOnlyFileSystemTest : public testing::Test {
 protected:
  // No method of OneFile waits, so the task is done at once.
  template <class T>
  static T Run(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> t, std::optional<T>& out) -> Task<> { out.emplace(co_await std::move(t)); }(std::move(task),
                                                                                                 result));
    return *std::move(result);
  }
  template <class T>
  static Error ErrorOf(const T& reply) {
    return reply.result.error();
  }

  OneFile files_;
  const RequestContext context_{.credentials = {.uid = 1, .gid = 1, .groups = {}}};
  const Handle root_ = files_.Root(), file_ = files_.file(), gone_ = *Handle::FromBytes(AsBytes("gone"));
};

TEST_F(ReadOnlyFileSystemTest, ReportsThatItIsReadOnly) { EXPECT_TRUE(files_.GetProperties().read_only); }

TEST_F(ReadOnlyFileSystemTest, RefusesEveryChangeWithTheAttributesOfTheObject) {
  const auto written = Run(files_.Write(context_, file_, 0, {}, Stability::kUnstable));
  EXPECT_EQ(ErrorOf(written), Error::kReadOnly);
  EXPECT_TRUE(written.object.before && written.object.before->change == 5);
  EXPECT_TRUE(written.object.after && written.object.after->size == 7);
  EXPECT_EQ(ErrorOf(Run(files_.SetAttributes(context_, file_, {}, {}))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.Commit(context_, file_))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.Create(context_, root_, "new", {}))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.MakeDirectory(context_, root_, "new", {}))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.MakeSymlink(context_, root_, "new", "text", {}))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.MakeNode(context_, root_, "new", {}, {}))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.Remove(context_, root_, "file"))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.RemoveDirectory(context_, root_, "directory"))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.Rename(context_, root_, "file", root_, "new"))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.Link(context_, file_, root_, "new"))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.Allocate(context_, file_, 0, 1))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.Deallocate(context_, file_, 0, 1))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.Copy(context_, file_, 0, file_, 8, 1))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.Clone(context_, file_, 0, file_, 8, 1))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.SetXattr(context_, file_, "name", {}, XattrMode::kEither))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.RemoveXattr(context_, file_, "name"))), Error::kReadOnly);
  EXPECT_EQ(ErrorOf(Run(files_.SetAcls(context_, file_, {}))), Error::kReadOnly);
}

TEST_F(ReadOnlyFileSystemTest, ReturnsTheErrorOfAStaleHandle) {
  const auto written = Run(files_.Write(context_, gone_, 0, {}, Stability::kUnstable));
  EXPECT_EQ(ErrorOf(written), Error::kStale);
  EXPECT_FALSE(written.object.after);
  EXPECT_EQ(ErrorOf(Run(files_.Access(context_, gone_, kAccessRead))), Error::kStale);
}

TEST_F(ReadOnlyFileSystemTest, GrantsNoRightToChangeAnything) {
  const RequestContext as_root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  EXPECT_EQ(Run(files_.Access(context_, file_, ~0u)).result.value(), kAccessRead | kAccessXattrRead | kAccessXattrList);
  EXPECT_EQ(Run(files_.Access(as_root, root_, ~0u)).result.value(),
            kAccessRead | kAccessLookup | kAccessXattrRead | kAccessXattrList);
}

TEST_F(ReadOnlyFileSystemTest, FindsDataUpToTheEndOfTheFile) {
  const auto data = Run(files_.Seek(context_, file_, 3, SeekWhat::kData)).result;
  EXPECT_TRUE(data && data->found && data->offset == 3);
  const auto none = Run(files_.Seek(context_, file_, 7, SeekWhat::kData)).result;
  EXPECT_TRUE(none && !none->found && none->offset == 7);
  const auto hole = Run(files_.Seek(context_, file_, 3, SeekWhat::kHole)).result;
  EXPECT_TRUE(hole && hole->found && hole->offset == 7);
  EXPECT_EQ(ErrorOf(Run(files_.Seek(context_, file_, 8, SeekWhat::kHole))), Error::kNxIo);
}

TEST_F(ReadOnlyFileSystemTest, PinsRegularFilesOnly) {
  EXPECT_TRUE(Run(files_.Pin(context_, file_)).value());
  EXPECT_EQ(Run(files_.Pin(context_, root_)).error(), Error::kIsDir);
}

TEST_F(ReadOnlyFileSystemTest, DerivesTheAccessControlListFromTheMode) {
  const auto list = Run(files_.GetAcls(context_, file_)).result;
  EXPECT_TRUE(list && list->access == AclOfMode(0644) && list->defaults.empty());
  EXPECT_EQ(ErrorOf(Run(files_.ListXattrs(context_, file_))), Error::kNotSupported);
}

}  // namespace
}  // namespace penstock::fs
