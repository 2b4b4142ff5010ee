// For tests of NFSACL: lists, and a server with one export, "/", that NFS version 3 and NFSACL serve. The caller is
// root.
#pragma once

#include <memory>
#include <vector>

#include "fs/faulty/file_system.h"
#include "nfs/acl/lists.h"
#include "nfs/acl/program.h"
#include "nfs/v3/nfs_test.h"
#include "protocol/nfsacl.h"

namespace penstock::nfs::acl {

using namespace nfs3;    // NOLINT: the protocol's own names, RFC 1813
using namespace nfsacl;  // NOLINT: the protocol's own names

using Entries = std::vector<aclent>;

// Lists as clients send and receive them.
class SampleLists {
 protected:
  static secattr Lists(uint32_t mask, const Entries& access, const Entries& defaults = {}) {
    secattr lists{.mask = mask};
    lists.aclcnt = static_cast<uint32_t>(access.size());
    lists.dfaclcnt = static_cast<uint32_t>(defaults.size());
    for (const aclent& each : access) lists.access.push_back(each);
    for (const aclent& each : defaults) lists.defaults.push_back(each);
    return lists;
  }
  static Entries AsDefaults(Entries entries) {
    for (aclent& each : entries) each.type |= NA_ACL_DEFAULT;
    return entries;
  }
  // The list of a mode, with the mask that the server adds.
  static Entries OfMode(uint32_t mode) {
    return {{NA_USER_OBJ, 0, mode >> 6 & 7},
            {NA_GROUP_OBJ, 0, mode >> 3 & 7},
            {NA_CLASS_OBJ, 0, mode >> 3 & 7},
            {NA_OTHER_OBJ, 0, mode & 7}};
  }

  // The user 1003 may read; the owning group may not.
  const Entries shared_{
      {NA_USER_OBJ, 0, 6}, {NA_USER, 1003, 4}, {NA_GROUP_OBJ, 0, 0}, {NA_CLASS_OBJ, 0, 4}, {NA_OTHER_OBJ, 0, 0}};
  // The user 1003 may do everything, except where a mode limits the mask.
  const Entries inherited_{
      {NA_USER_OBJ, 0, 7}, {NA_USER, 1003, 7}, {NA_GROUP_OBJ, 0, 5}, {NA_CLASS_OBJ, 0, 7}, {NA_OTHER_OBJ, 0, 1}};
};

// A file system whose files have only modes.
class WithoutAcls : public fs::faulty::FileSystem {
 public:
  explicit WithoutAcls(const std::shared_ptr<fs::FileSystem>& files)
      : fs::faulty::FileSystem(files), properties_(files->GetProperties()) {
    properties_.acls = false;
  }
  const fs::Properties& GetProperties() const override { return properties_; }

 private:
  fs::Properties properties_;
};

class AclTest : public v3::NfsTest, protected SampleLists {
 protected:
  AclTest() { memory.dispatcher.Add(secured_); }

  GETACL3res Get(const nfs_fh3& object, uint32_t mask = kAllParts) { return Call<ACLPROC3_GETACL>({object, mask}); }
  // The entries of the access list as a client receives them.
  Entries AccessOf(const nfs_fh3& object) {
    const auto got = Get(object);
    EXPECT_EQ(got.status(), NFS3_OK);
    const auto& list = got.resok().acl.access;
    return {list.begin(), list.end()};
  }
  Entries DefaultsOf(const nfs_fh3& object) {
    const auto got = Get(object);
    EXPECT_EQ(got.status(), NFS3_OK);
    const auto& list = got.resok().acl.defaults;
    return {list.begin(), list.end()};
  }
  SETACL3res Set(const nfs_fh3& object, const secattr& lists) { return Call<ACLPROC3_SETACL>({object, lists}); }
  nfsstat3 SetAccess(const nfs_fh3& object, const Entries& access) {
    return Set(object, Lists(NA_ACL, access)).status();
  }
  nfsstat3 SetDefaults(const nfs_fh3& object, const Entries& defaults) {
    return Set(object, Lists(NA_DFACL, {}, defaults)).status();
  }

 private:
  Program program_{memory.exports};
  CalledBy secured_{program_, memory.secured};
};

}  // namespace penstock::nfs::acl
