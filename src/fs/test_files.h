// For tests: a faulty file system whose local programs are test doubles (test_leases.h, test_locks.h).
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "fs/faulty/file_system.h"

namespace penstock::fs {

class TestFiles final : public faulty::FileSystem {
 public:
  using faulty::FileSystem::FileSystem;

  // Replaces the results of OpenLease.
  void OfferLeases(std::function<LeaseReply()> open) { open_lease_ = std::move(open); }
  // Replaces the results of OpenLocks.
  using LocksReply = Result<std::shared_ptr<LocalLocks>>;
  void OfferLocks(std::function<LocksReply(bool exclusive)> open) { open_locks_ = std::move(open); }

  Task<LeaseReply> OpenLease(const RequestContext& context, const Handle& file) override {
    return open_lease_ ? Give(open_lease_()) : faulty::FileSystem::OpenLease(context, file);
  }
  Task<LocksReply> OpenLocks(const RequestContext& context, const Handle& file, bool exclusive) override {
    return open_locks_ ? Give(open_locks_(exclusive)) : faulty::FileSystem::OpenLocks(context, file, exclusive);
  }

 private:
  template <class Reply>
  static Task<Reply> Give(Reply reply) {
    co_return reply;
  }

  std::function<LeaseReply()> open_lease_;
  std::function<LocksReply(bool)> open_locks_;
};

}  // namespace penstock::fs
