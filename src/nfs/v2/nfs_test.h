// For tests of the procedures: a server with one export, "/". The caller is root.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "nfs/test_server.h"
#include "nfs/v2/program.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

// Attributes of which none is to be set.
inline sattr Unset() {
  constexpr uint32_t kNone = UINT32_MAX;
  return {.mode = kNone, .uid = kNone, .gid = kNone, .size = kNone, .atime = {kNone, kNone}, .mtime = {kNone, kNone}};
}
inline sattr Mode(uint32_t mode) {
  sattr values = Unset();
  values.mode = mode;
  return values;
}
inline sattr Size(uint32_t size) {
  sattr values = Unset();
  values.size = size;
  return values;
}

class NfsTest : public testing::Test {
 protected:
  NfsTest() {
    memory.dispatcher.Add(secured_nfs2);
    tree = &memory.Export("/");
    root = RootOf("/");
  }

  fhandle RootOf(std::string_view path) const {
    const Export& found = *memory.exports.table().Resolve(path).found;
    return *found.PaddedHandleOf(found.file_system().Root());
  }

  template <class Procedure>
  typename Procedure::Results Call(const typename Procedure::Arguments& arguments) {
    return memory.Call<Procedure>(arguments);
  }

  fhandle MakeFile(std::string_view name, std::string_view contents = {}, uint32_t mode = 0644) {
    return MakeFileIn(root, name, contents, mode);
  }
  fhandle MakeFileIn(const fhandle& directory, std::string_view name, std::string_view contents = {},
                     uint32_t mode = 0644) {
    const auto made = Call<NFSPROC_CREATE>({{directory, name}, Mode(0100000 | mode)});
    EXPECT_EQ(made.status(), NFS_OK);
    if (!contents.empty()) {
      EXPECT_EQ(Write(made.ok().file, contents), NFS_OK);
    }
    return made.ok().file;
  }
  nfsstat Write(const fhandle& file, std::string_view contents, uint32_t offset = 0) {
    return Call<NFSPROC_WRITE>({file, 0, offset, 0, xdr::Payload<NFS_MAXDATA>::Borrowed(contents)}).status();
  }
  std::string ReadAll(const fhandle& file) {
    const auto read = Call<NFSPROC_READ>({file, 0, NFS_MAXDATA, 0});
    EXPECT_EQ(read.status(), NFS_OK);
    return std::string(read.ok().data.text());
  }
  fhandle MakeDirectory(std::string_view name, uint32_t mode = 0755) {
    const auto made = Call<NFSPROC_MKDIR>({{root, name}, Mode(mode)});
    EXPECT_EQ(made.status(), NFS_OK);
    return made.ok().file;
  }
  nfsstat MakeSymlink(std::string_view name, std::string_view target) {
    return Call<NFSPROC_SYMLINK>({{root, name}, xdr::Payload<NFS_MAXPATHLEN>::Borrowed(target), Mode(0777)});
  }
  nfsstat Remove(std::string_view name) { return Call<NFSPROC_REMOVE>({root, name}); }
  fattr AttributesOf(const fhandle& object) {
    const auto got = Call<NFSPROC_GETATTR>(object);
    EXPECT_EQ(got.status(), NFS_OK);
    return got.is_attributes() ? got.attributes() : fattr{};
  }
  diropres Lookup(std::string_view name) { return Call<NFSPROC_LOOKUP>({root, name}); }

  // Returns a well-formed handle of a removed object.
  fhandle StaleHandle() {
    const fhandle handle = MakeFile("to be removed");
    EXPECT_EQ(Remove("to be removed"), NFS_OK);
    return handle;
  }
  // Makes a file of any size, which the calls of version 2 cannot make.
  fhandle MakeLargeFile(std::string_view name, uint64_t size) {
    fs::CreateHow how;
    how.attributes.mode = 0644;
    how.attributes.size = size;
    const auto made = Now(tree->Create(root_context, tree->Root(), name, how));
    EXPECT_TRUE(made.result);
    return *memory.exports.table().Resolve("/").found->PaddedHandleOf(made.result->handle);
  }

  const fs::RequestContext root_context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  TestServer memory;
  Program nfs2{memory.exports};
  CalledBy secured_nfs2{nfs2, memory.secured};
  fs::memory::FileSystem* tree = nullptr;
  fhandle root;
};

}  // namespace penstock::nfs::v2
