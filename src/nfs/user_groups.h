// The groups of users as this host knows them, in place of those that a credential names: AUTH_SYS has room for sixteen (RFC 5531
// appendix A), and a user may be in more; RPCSEC_GSS names none at all.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "rpc/forwarding_program.h"

namespace penstock::nfs {

// Any thread.
class UserGroups {
 public:
  using List = std::shared_ptr<const std::vector<uint32_t>>;
  // May block. No groups where the user is not known.
  using LookUp = std::function<std::vector<uint32_t>(uint32_t uid)>;
  struct Settings {
    Duration known_for = std::chrono::minutes(5);
    size_t users = 16384;
    // Also of users whose credentials name their groups.
    bool of_everybody = true;
  };

  // `pool` outlives it. Without a pool, look-ups are made at once.
  UserGroups(LookUp look_up, std::function<TimePoint()> now, Workers* pool)
      : UserGroups(std::move(look_up), std::move(now), pool, Settings{}) {}
  UserGroups(LookUp look_up, std::function<TimePoint()> now, Workers* pool, const Settings& settings)
      : look_up_(std::move(look_up)), now_(std::move(now)), pool_(pool), settings_(settings) {}

  // getgrouplist(3)
  static std::vector<uint32_t> OfSystem(uint32_t uid);

  // Whether the groups of who comes with such a credential are taken from here.
  bool AreOf(const rpc::Credential& credential) const {
    return credential.flavor == rpc::AuthFlavor::RPCSEC_GSS ||
           (settings_.of_everybody && credential.flavor == rpc::AuthFlavor::AUTH_SYS);
  }

  // Whether Of() is what the host said not long ago. Where not: Load() first.
  bool Knows(uint32_t uid) const;
  Task<> Load(Loop* loop, uint32_t uid);
  // Null where nothing is known.
  List Of(uint32_t uid) const;

 private:
  struct Entry {
    List groups;
    TimePoint until;
  };
  void Keep(uint32_t uid, List groups);

  const LookUp look_up_;
  const std::function<TimePoint()> now_;
  Workers* const pool_;
  const Settings settings_;
  mutable std::mutex mutex_;  // guards what follows; held for a look at it
  std::unordered_map<uint32_t, Entry> known_;
};

// A program whose callers' groups are known when it is called: see ExportOptions::groups.
class WithGroups final : public rpc::ForwardingProgram {
 public:
  // Both outlive it.
  WithGroups(rpc::Program& program, UserGroups& groups) : ForwardingProgram(program), groups_(groups) {}

  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  UserGroups& groups_;
};

}  // namespace penstock::nfs
