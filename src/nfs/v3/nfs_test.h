// For tests of the procedures: a server with one export, "/". The caller is root.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "nfs/test_server.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

class NfsTest : public testing::Test {
 protected:
  NfsTest() { memory.Export("/"), root = memory.RootOf("/"); }

  template <class Procedure>
  typename Procedure::Results Call(const typename Procedure::Arguments& arguments) {
    return memory.Call<Procedure>(arguments);
  }

  nfs_fh3 MakeFile(std::string_view name, std::string_view contents = {}, uint32_t mode = 0644) {
    return MakeFileIn(root, name, contents, mode);
  }
  nfs_fh3 MakeFileIn(const nfs_fh3& directory, std::string_view name, std::string_view contents = {},
                     uint32_t mode = 0644) {
    const auto made = Call<NFSPROC3_CREATE>({{directory, name}, createhow3(GUARDED, sattr3{.mode = mode})});
    EXPECT_EQ(made.status(), NFS3_OK);
    if (!contents.empty()) WriteAll(*made.resok().obj, contents);
    return *made.resok().obj;
  }
  void WriteAll(const nfs_fh3& file, std::string_view contents, uint64_t offset = 0) {
    const auto count = static_cast<uint32_t>(contents.size());
    const auto written = Call<NFSPROC3_WRITE>({file, offset, count, FILE_SYNC, xdr::Payload<>::Borrowed(contents)});
    EXPECT_EQ(written.status(), NFS3_OK);
  }
  std::string ReadAll(const nfs_fh3& file) {
    const auto read = Call<NFSPROC3_READ>({file, 0, 4096});
    EXPECT_EQ(read.status(), NFS3_OK);
    return std::string(read.resok().data.text());
  }
  nfs_fh3 MakeDirectory(std::string_view name, uint32_t mode = 0755) {
    const auto made = Call<NFSPROC3_MKDIR>({{root, name}, {.mode = mode}});
    EXPECT_EQ(made.status(), NFS3_OK);
    return *made.resok().obj;
  }
  nfs_fh3 MakeSymlink(std::string_view name, std::string_view target) {
    const auto made = Call<NFSPROC3_SYMLINK>({{root, name}, {{}, xdr::Payload<>::Borrowed(target)}});
    EXPECT_EQ(made.status(), NFS3_OK);
    return *made.resok().obj;
  }
  void Remove(std::string_view name) { EXPECT_EQ(Call<NFSPROC3_REMOVE>({{root, name}}).status(), NFS3_OK); }
  fattr3 AttributesOf(const nfs_fh3& object) {
    const auto got = Call<NFSPROC3_GETATTR>({object});
    EXPECT_EQ(got.status(), NFS3_OK);
    return got.resok().obj_attributes;
  }
  nfsstat3 StatusOfLookup(std::string_view name) { return Call<NFSPROC3_LOOKUP>({{root, name}}).status(); }

  // Returns a well-formed handle of a removed object.
  nfs_fh3 StaleHandle() {
    const nfs_fh3 handle = MakeFile("to be removed");
    Remove("to be removed");
    return handle;
  }
  static nfs_fh3 ToHandle(const FileHandle& handle) { return {.data = xdr::Opaque<64>(EncodedHandle(handle).bytes())}; }
  // Returns bytes that are not a handle.
  static nfs_fh3 NoHandle() { return {.data = xdr::Opaque<64>(AsBytes("no handle of this server"))}; }

  TestServer memory;
  nfs_fh3 root;
};

// Matches consistency data without a change: the attributes before and after are present and equal.
MATCHER(IsUnchanged, "") {
  return arg.before && arg.after && arg.before->size == arg.after->size && arg.before->mtime == arg.after->mtime &&
         arg.before->ctime == arg.after->ctime;
}
// Matches consistency data with a change: the attributes before and after are present and differ.
MATCHER(ShowsAChange, "") { return arg.before && arg.after && arg.before->ctime != arg.after->ctime; }

// A tree on a read-only export, "/ro". The test fills its file system through fs::.
class ReadOnlyTest : public NfsTest {
 protected:
  ReadOnlyTest() {
    fs::memory::FileSystem& tree = memory.Export("/ro", {.read_only = true, .squash = Squash::kNone});
    const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    const fs::Handle top = tree.Root();
    Now(tree.Create(context, top, "file", {}));
    Now(tree.MakeDirectory(context, top, "directory", {}));
    directory = memory.RootOf("/ro");
    file = Call<NFSPROC3_LOOKUP>({{directory, "file"}}).resok().object;
  }
  nfs_fh3 directory;
  nfs_fh3 file;
};

}  // namespace penstock::nfs::v3
