// How owners and groups are written (RFC 8881 §5.9): as name@domain where the operator named a domain, else as plain
// numbers, which clients take and send with AUTH_SYS (RFC 7530 §5.9).
//
// Names are looked up in this host's databases, which may block (on a directory service): on a thread of the pool, once
// in a while for each.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v4 {

// This host's databases of users and groups. All of these may block.
struct IdentityDatabase {
  std::function<std::optional<std::string>(uint32_t uid)> user_name;
  std::function<std::optional<std::string>(uint32_t gid)> group_name;
  std::function<std::optional<uint32_t>(const std::string& name)> user_id;
  std::function<std::optional<uint32_t>(const std::string& name)> group_id;

  // getpwuid_r(3) and its like.
  static IdentityDatabase OfSystem();
};

// Any thread.
class OwnerNames {
 public:
  // Numbers alone.
  OwnerNames() = default;
  // `pool` and `clock` outlive it. Without a pool, look-ups are made at once.
  OwnerNames(std::string domain, IdentityDatabase database, const TimerService& clock, Workers* pool)
      : domain_(std::move(domain)), database_(std::move(database)), clock_(&clock), pool_(pool) {}

  // Whether what Encode* writes now is what they are called. Where not: Load() first.
  bool Knows(uint32_t uid, uint32_t gid) const;
  Task<> Load(Loop* loop, uint32_t uid, uint32_t gid);

  // The name where it is known, else the number.
  void EncodeUser(xdr::Encoder& to, uint32_t uid) const { Encode(to, users_, uid); }
  void EncodeGroup(xdr::Encoder& to, uint32_t gid) const { Encode(to, groups_, gid); }

  // Who is meant by an owner or group as a client writes it, numbers included. Nothing where nobody is called that.
  Task<std::optional<uint32_t>> UserOf(std::string_view owner, Loop* loop);
  Task<std::optional<uint32_t>> GroupOf(std::string_view group, Loop* loop);

 private:
  struct Name {
    std::string text;  // with its domain; empty where the number has no name
    TimePoint until;
  };
  using Names = std::unordered_map<uint32_t, Name>;

  bool Knows(const Names& names, uint32_t id) const;
  void Encode(xdr::Encoder& to, const Names& names, uint32_t id) const;
  // The name before our domain. Nothing where it has another.
  std::optional<std::string_view> WithoutDomain(std::string_view owner) const;

  const std::string domain_;
  const IdentityDatabase database_;
  const TimerService* clock_ = nullptr;
  Workers* pool_ = nullptr;
  mutable std::mutex mutex_;  // guards what follows; held for a look-up
  Names users_;
  Names groups_;
};

}  // namespace penstock::nfs::v4
