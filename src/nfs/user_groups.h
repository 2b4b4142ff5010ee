// The groups of users in this host's databases, which replace those of a credential. AUTH_SYS has room for sixteen
// groups (RFC 5531 appendix A), and a user may be in more; RPCSEC_GSS carries no groups.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/client_key.h"
#include "base/log_limit.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "base/users.h"
#include "base/workers.h"
#include "rpc/forwarding_program.h"

namespace penstock::nfs {

// A cache of the groups. Thread-safe.
class UserGroups {
 public:
  using List = std::shared_ptr<const std::vector<uint32_t>>;
  // Looks up a user's groups. May block. Returns no groups for an unknown user.
  using LookUp = std::function<Result<std::vector<uint32_t>, NoAnswer>(uint32_t uid)>;
  struct Settings {
    Duration known_for = std::chrono::minutes(5);
    // After a look-up without an answer: the next attempt for a user whose groups are known, and for others.
    Duration kept_for = std::chrono::minutes(1);
    Duration again_after = std::chrono::seconds(5);
    size_t users = 16384;
    // Whether to look up users of AUTH_SYS, too. Their credentials already name groups.
    bool of_everybody = true;
  };

  // `pool` must outlive this object. Without a pool, look-ups run at once.
  UserGroups(LookUp look_up, std::function<TimePoint()> now, Workers* pool)
      : UserGroups(std::move(look_up), std::move(now), pool, Settings{}) {}
  UserGroups(LookUp look_up, std::function<TimePoint()> now, Workers* pool, const Settings& settings)
      : look_up_(std::move(look_up)), now_(std::move(now)), pool_(pool), settings_(settings) {}

  // getgrouplist(3)
  static Result<std::vector<uint32_t>, NoAnswer> OfSystem(uint32_t uid);

  // Returns true if the groups of this credential's user come from this object.
  bool AreOf(const rpc::Credential& credential) const {
    return credential.flavor == rpc::AuthFlavor::RPCSEC_GSS ||
           (settings_.of_everybody && credential.flavor == rpc::AuthFlavor::AUTH_SYS);
  }

  // Returns true if Of() has a recent entry for the user. Otherwise call Load() first.
  bool Knows(uint32_t uid) const;
  // `client` shares the pool with others. If the database of users does not answer, the user keeps the groups that were
  // known, or has none, until the next attempt; other calls of the user do not wait for that one. (getgrouplist(3) does
  // not tell whether the database of groups has answered.)
  Task<> Load(Loop* loop, uint32_t uid, ClientKey client = {});
  // Returns null if there is no entry.
  List Of(uint32_t uid) const;

 private:
  struct Entry {
    List groups;
    TimePoint until;
    bool has_failed = false;  // the last look-up

    bool has_groups() const { return groups && !groups->empty(); }
  };
  void Keep(uint32_t uid, Result<std::vector<uint32_t>, NoAnswer> found);

  const LookUp look_up_;
  const std::function<TimePoint()> now_;
  Workers* const pool_;
  const Settings settings_;
  mutable std::mutex mutex_;  // guards the following members; held briefly
  std::unordered_map<uint32_t, Entry> known_;
  LogLimit told_;
};

// Looks up the caller's groups before it calls a program: see ExportOptions::groups.
class WithGroups final : public rpc::ForwardingProgram {
 public:
  // Both must outlive this object.
  WithGroups(rpc::Program& program, UserGroups& groups) : ForwardingProgram(program), groups_(groups) {}

  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  Task<rpc::AcceptStatus> LoadAndCall(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results);

  UserGroups& groups_;
};

}  // namespace penstock::nfs
