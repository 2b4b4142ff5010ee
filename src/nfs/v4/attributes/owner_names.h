// Owners and groups as text (RFC 8881 §5.9). They have the form name@domain if the operator has named a domain.
// Otherwise they are decimal numbers, which clients use with AUTH_SYS (RFC 7530 §5.9).
//
// The names come from this host's databases. A look-up may block on a directory service, so it runs on a thread of the
// pool, and the result is remembered for a while.
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

// This host's databases of users and groups. All functions may block.
struct IdentityDatabase {
  std::function<std::optional<std::string>(uint32_t uid)> user_name;
  std::function<std::optional<std::string>(uint32_t gid)> group_name;
  std::function<std::optional<uint32_t>(const std::string& name)> user_id;
  std::function<std::optional<uint32_t>(const std::string& name)> group_id;

  // Uses getpwuid_r(3) and similar functions.
  static IdentityDatabase OfSystem();
};

// Any thread.
class OwnerNames {
 public:
  // Encodes numbers only.
  OwnerNames() = default;
  // `pool` and `clock` outlive the object. Without a pool, look-ups run on the calling thread.
  OwnerNames(std::string domain, IdentityDatabase database, const TimerService& clock, Workers* pool)
      : domain_(std::move(domain)), database_(std::move(database)), clock_(&clock), pool_(pool) {}

  // Whether the names are loaded and recent. If not, call Load() before Encode*().
  bool Knows(uint32_t uid, uint32_t gid) const;
  Task<> Load(Loop* loop, uint32_t uid, uint32_t gid);

  // Encodes the name if it is known, or else the number.
  void EncodeUser(xdr::Encoder& to, uint32_t uid) const { Encode(to, users_, uid); }
  void EncodeGroup(xdr::Encoder& to, uint32_t gid) const { Encode(to, groups_, gid); }

  // Looks up the id for an owner or group that a client sends, which may also be a number. The result is empty for an
  // unknown name.
  Task<std::optional<uint32_t>> UserOf(std::string_view owner, Loop* loop);
  Task<std::optional<uint32_t>> GroupOf(std::string_view group, Loop* loop);

 private:
  struct Name {
    std::string text;  // with its domain; empty if the number has no name
    TimePoint until;
  };
  using Names = std::unordered_map<uint32_t, Name>;

  bool Knows(const Names& names, uint32_t id) const;
  void Encode(xdr::Encoder& to, const Names& names, uint32_t id) const;
  // The name without the domain. Empty if the name has another domain.
  std::optional<std::string_view> WithoutDomain(std::string_view owner) const;

  const std::string domain_;
  const IdentityDatabase database_;
  const TimerService* clock_ = nullptr;
  Workers* pool_ = nullptr;
  mutable std::mutex mutex_;  // guards users_ and groups_, for the time of one access
  Names users_;
  Names groups_;
};

}  // namespace penstock::nfs::v4
