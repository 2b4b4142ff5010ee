// The file handles of an export of CephFS. Every server of the export understands them, because their key is kept in
// the file system.
#pragma once

#include "base/result.h"
#include "base/siphash.h"
#include "fs/ceph/client.h"
#include "fs/types.h"

namespace penstock::fs::ceph {

// The extended attribute of the exported directory that keeps the key. Only root reads and writes "trusted" ones, and
// NFS shows none of them.
inline constexpr const char* kHandleKey = "trusted.penstock.handle-key";

// Returns the key of the exported directory, and makes it on first use: of several servers that do so at the same
// time, one succeeds, and the others take its key.
SetupResult<SipKey> LoadHandleKey(Client& client, Inode* root);

// Makes and checks handles. Any thread.
class Handles {
 public:
  // A handle is valid under one export name only, and while the export covers the same directories.
  // `fsid`: of the file system. `covered`: octets that differ for each set of covered paths; empty if there is none.
  Handles(const SipKey& kept, std::string_view export_name, const InodeNumber& root, uint64_t fsid,
          ConstBytes covered = {});

  Handle Of(const InodeNumber& number) const;
  // Fails with kBadHandle for a handle that no server of this export gave, and with kStale if its object may be in a
  // directory that is covered now.
  Result<InodeNumber> NumberOf(const Handle& handle) const;
  Result<Identity> Identify(const Handle& handle) const;

 private:
  const uint64_t fsid_;
  const SipKey key_;
  const uint32_t covered_;  // a digest of the covered directories; zero if there are none
};

}  // namespace penstock::fs::ceph
