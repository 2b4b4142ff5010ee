// The exports that a change of the configuration has ended, until nothing uses them any more. Then their opens, locks
// and delegations end, and their file systems are closed, so that an operator can unmount them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/loop.h"
#include "base/timer.h"
#include "base/workers.h"
#include "nfs/exports.h"

namespace penstock::server {

class RetiredExports {
 public:
  // `revoke` revokes the state of the file handles that it is given a predicate of. All objects outlive this.
  RetiredExports(const nfs::Exports& current, Loop& home, Workers& pool,
                 std::function<void(const std::function<bool(const nfs::FileHandle&)>& is_gone)> revoke);

  // Takes a table that was just replaced, and should be its last holder but for calls that still run. Any thread.
  void Add(std::shared_ptr<const nfs::ExportTable> table);
  // On the home loop, before it ends.
  void Stop() { timer_.reset(); }

 private:
  void Look();
  bool HasEnded(const nfs::ExportTable& old) const;
  bool IsGone(const nfs::ExportTable& old, const nfs::FileHandle& handle) const;

  const nfs::Exports& current_;
  Loop& home_;
  Workers& pool_;
  const std::function<void(const std::function<bool(const nfs::FileHandle&)>&)> revoke_;
  // The rest belongs to the home loop.
  std::vector<std::shared_ptr<const nfs::ExportTable>> tables_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace penstock::server
