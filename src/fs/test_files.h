// For tests: a faulty file system whose local programs (test_leases.h, test_locks.h) and quotas are test doubles.
#pragma once

#include <functional>
#include <memory>
#include <optional>
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

  // Calls `function` in each Pin, before the file is pinned.
  void OnPin(std::function<void()> function) { on_pin_ = std::move(function); }

  // Replaces the results of GetQuota.
  using QuotaReply = Result<std::optional<Quota>>;
  void OfferQuotas(std::function<QuotaReply(QuotaKind, uint32_t id)> get) {
    get_quota_ = std::move(get);
    ChangedProperties().quotas = true;
  }

  // GetProperties() returns the properties with all changes that were made to this result.
  Properties& ChangedProperties() {
    if (!properties_) properties_ = faulty::FileSystem::GetProperties();
    return *properties_;
  }
  const Properties& GetProperties() const override {
    return properties_ ? *properties_ : faulty::FileSystem::GetProperties();
  }
  Task<QuotaReply> GetQuota(const RequestContext& context, QuotaKind kind, uint32_t id) override {
    return get_quota_ ? Give(get_quota_(kind, id)) : faulty::FileSystem::GetQuota(context, kind, id);
  }
  Task<LeaseReply> OpenLease(const RequestContext& context, const Handle& file) override {
    return open_lease_ ? Give(open_lease_()) : faulty::FileSystem::OpenLease(context, file);
  }
  Task<LocksReply> OpenLocks(const RequestContext& context, const Handle& file, bool exclusive) override {
    return open_locks_ ? Give(open_locks_(exclusive)) : faulty::FileSystem::OpenLocks(context, file, exclusive);
  }
  Task<Result<Pinned>> Pin(const RequestContext& context, const Handle& file) override {
    if (on_pin_) on_pin_();
    return faulty::FileSystem::Pin(context, file);
  }

 private:
  template <class Reply>
  static Task<Reply> Give(Reply reply) {
    co_return reply;
  }

  std::function<QuotaReply(QuotaKind, uint32_t)> get_quota_;
  std::optional<Properties> properties_;
  std::function<LeaseReply()> open_lease_;
  std::function<void()> on_pin_;
  std::function<LocksReply(bool)> open_locks_;
};

}  // namespace penstock::fs
