// The hosts that lock files through the Network Lock Manager (NLM), which accompanies NFS versions 2 and 3.
//
// A host has no lease. Its locks and shares stay until it gives them up, or until it has started again and says so
// (SM_NOTIFY). The recovery store records a host before the host gets its first lock, so that the server can tell the
// host after a restart to reclaim.
//
// This table knows hosts only. Their locks and shares are records of Files, under the host's ID: see StateTables.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/host_shares.h"
#include "base/steady_map.h"
#include "base/timer.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/stable/recovery.h"

namespace penstock::nfs::v4 {

// The name of a host: the address of its calls, and the name that it gives itself (caller_name). Hosts behind one
// translated address have different names.
struct LockHostName {
  IpAddress address;  // not IPv4-mapped
  std::string name;

  bool operator==(const LockHostName&) const = default;
  // By address, then by name.
  bool operator<(const LockHostName& other) const {
    return address == other.address ? name < other.name : address < other.address;
  }
};

// The record of a host in the recovery store, under a key that differs from those of clients (OwnerKey()). `ours` is
// the address of this server that the host uses.
std::string LockHostKey(const LockHostName& host);
RecoveryRecord LockHostRecord(const LockHostName& host, const IpAddress& ours);

struct RememberedHost {
  LockHostName name;
  IpAddress ours;
};
// Returns nothing if the record is not one of a host.
std::optional<RememberedHost> ParseLockHostRecord(const RecoveryRecord& record);

struct LockHost {
  LockHostName name;
  ClientId id;
  bool recorded = false;  // in the recovery store
  TimePoint used;         // the time of the host's last request for a lock or a share
  std::list<LockHost*>::iterator by_use{};
};

class LockHosts {
 public:
  struct Limits {
    size_t hosts = 1 << 14;  // see HostShares for those of one IPv6 /64
    size_t hosts_per_address = 64;
  };

  LockHosts() : LockHosts(Limits()) {}
  explicit LockHosts(const Limits& limits) : limits_(limits), shares_({limits.hosts, limits.hosts}) {}
  LockHosts(const LockHosts&) = delete;
  LockHosts& operator=(const LockHosts&) = delete;

  // Return null if the host is not known.
  LockHost* Find(const LockHostName& name);
  LockHost* Find(ClientId id);
  bool Has(ClientId id) const { return by_id_.contains(id); }
  // Adds a host. Requires that it is not known, and that there is room.
  LockHost& Add(const LockHostName& name, TimePoint now);
  bool HasRoom(const IpAddress& address) const {
    return shares_.HasRoom(address) && CountAt(address) < limits_.hosts_per_address;
  }
  void Use(LockHost& host, TimePoint now);
  // Requires that the host has no locks and no shares.
  void Remove(LockHost& host);

  // The hosts with this address.
  std::vector<LockHost*> At(const IpAddress& address);
  // All hosts. The host that was used longest ago comes first.
  const std::list<LockHost*>& by_use() const { return by_use_; }
  size_t size() const { return by_id_.size(); }
  // Describes the first inconsistency; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;

 private:
  size_t CountAt(const IpAddress& address) const;

  Limits limits_;
  HostShares shares_;
  uint32_t last_ = 0;
  SteadyMap<ClientId, LockHost> by_id_;
  std::map<LockHostName, LockHost*> by_name_;
  std::map<IpAddress, size_t> at_;  // the number of hosts with each address
  std::list<LockHost*> by_use_;
};

}  // namespace penstock::nfs::v4
