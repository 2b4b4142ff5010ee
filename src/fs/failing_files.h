// A file system that fails on demand, for tests.
#pragma once

#include <fcntl.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "fs/forwarding_files.h"

namespace penstock::fs {

class FailingFiles final : public ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;

  // Operations of this kind end with the error from now on, and are not done; or are done all the same.
  void Fail(FileOperation operation, Error error) { before_[operation] = error; }
  void FailAfter(FileOperation operation, Error error) { after_[operation] = error; }
  // Read gives ranges of a file that cannot be read, as a disk does that fails after the first look.
  void BreakReads() { unreadable_ = std::make_shared<const FileDescriptor>(::open("/", O_RDONLY | O_DIRECTORY)); }
  void Mend() {
    before_.clear();
    after_.clear();
    unreadable_ = nullptr;
  }
  // What OpenLease gives from now on.
  void OfferLeases(std::function<LeaseReply()> open) { open_lease_ = std::move(open); }
  // What OpenLocks gives, asked for locks of both kinds or for shared ones.
  using LocksReply = Result<std::shared_ptr<LocalLocks>>;
  void OfferLocks(std::function<LocksReply(bool exclusive)> open) { open_locks_ = std::move(open); }

  Task<Observed<ReadReply>> Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint32_t count) override {
    Observed<ReadReply> reply = co_await ForwardingFiles::Read(context, file, offset, count);
    if (reply.result && unreadable_) {
      reply.result->data = Data(unreadable_, offset, reply.result->data.size());
    }
    co_return reply;
  }
  Task<LeaseReply> OpenLease(const RequestContext& context, const Handle& file) override {
    return open_lease_ ? Give(open_lease_()) : ForwardingFiles::OpenLease(context, file);
  }
  Task<LocksReply> OpenLocks(const RequestContext& context, const Handle& file, bool exclusive) override {
    return open_locks_ ? Give(open_locks_(exclusive)) : ForwardingFiles::OpenLocks(context, file, exclusive);
  }

 private:
  template <class Reply>
  static Task<Reply> Give(Reply reply) {
    co_return reply;
  }

  Task<std::optional<Error>> Before(FileOperation operation) override { co_return Find(before_, operation); }
  Task<std::optional<Error>> After(FileOperation operation) override { co_return Find(after_, operation); }

  using Faults = std::map<FileOperation, Error>;
  static std::optional<Error> Find(const Faults& faults, FileOperation operation) {
    const auto found = faults.find(operation);
    return found == faults.end() ? std::nullopt : std::optional(found->second);
  }

  Faults before_;
  Faults after_;
  std::shared_ptr<const FileDescriptor> unreadable_;
  std::function<LeaseReply()> open_lease_;
  std::function<LocksReply(bool)> open_locks_;
};

}  // namespace penstock::fs
