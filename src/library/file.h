// penstock_file: an open file of the inner client.
#pragma once

#include <memory>
#include <string_view>

#include "base/signal.h"
#include "client/mount.h"
#include "library/activity.h"
#include "library/mount.h"
#include "library/transfer.h"
#include "library/unsynced.h"
#include "penstock/penstock.h"

struct penstock_file {
  penstock_file(penstock_mount& of_mount, std::unique_ptr<penstock::client::File> open, penstock::client::Access may,
                bool writes_stable)
      : mount(of_mount), file(std::move(open)), access(may), is_stable(writes_stable) {
    ++mount.files;
  }
  penstock_file(const penstock_file&) = delete;
  penstock_file& operator=(const penstock_file&) = delete;

  penstock_mount& mount;
  penstock::library::Activity activity;
  const std::unique_ptr<penstock::client::File> file;
  const penstock::client::Access access;
  const bool is_stable;  // O_SYNC or O_DSYNC: every write is made stable before it ends

  // The following members belong to the loop.

  penstock::library::Unsynced unsynced;
  bool is_syncing = false;
  penstock::Signal synced;
  // Calls for locks that were abandoned, and may have to give a lock back. Later calls wait, since a lock of the same
  // owner would be given back as well.
  size_t abandoned_locks = 0;
  penstock::Signal locks_given_back;
};

namespace penstock::library {

struct OpenHow {
  client::Access access = client::Access::kRead;
  bool creates = false;
  bool is_exclusive = false;
  bool truncates = false;
  bool follows = true;
  bool is_stable = false;
  uint32_t mode = 0;
};
// Opens a file by its path, which is below the root of the mount.
Task<client::Result<std::unique_ptr<client::File>>> OpenByPath(client::Mount& mount, std::string path, OpenHow how);

}  // namespace penstock::library
