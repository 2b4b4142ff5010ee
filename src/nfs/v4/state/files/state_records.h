// The state records of all files and clients, and the stateids that name them: the table that opens, locks and
// delegations share.
//
// A record belongs to one client and, unless it has ended, to one file. The table has a file while the file has an open
// or a delegation. It has a client from the client's first request for state until ForgetClient().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/steady_map.h"
#include "base/timer.h"
#include "nfs/v4/state/files/records.h"
#include "nfs/v4/state/files/state_ids.h"
#include "nfs/v4/state/ids.h"

namespace penstock::nfs::v4 {

struct StateLimits {
  // Opens, lock stateids and delegations. A table that is three quarters full gives no more delegations, and a table
  // that is nearly full recalls them: in the end, opens and locks can use all of it.
  size_t states = 1 << 20;
  size_t states_per_client = 1 << 16;
  size_t owners = 1 << 20;  // open-owners
  size_t owners_per_client = 1 << 16;
  size_t ranges = 1 << 20;  // locked ranges
  size_t ranges_per_client = 1 << 16;
  size_t delegations = 1 << 17;
  size_t revoked_per_client = 1 << 12;
  // The lease time. A recalled delegation may stay out for this time (in version 4.0 for twice the time). A client that
  // waits for a lock must ask again within it. An owner without opens is remembered for this time.
  Duration lease = std::chrono::seconds(90);
  Duration conflict_memory = std::chrono::seconds(30);
};

class StateRecords {
 public:
  // `instance` differs each time the server starts, and is neither zero nor all ones. `secret` is random: see
  // StateIdTable.
  StateRecords(uint32_t instance, const SipKey& secret, const StateLimits& limits)
      : limits_(limits), ids_(instance, secret) {}
  StateRecords(const StateRecords&) = delete;
  StateRecords& operator=(const StateRecords&) = delete;

  // ---- files and clients

  // Returns null if the file has no state.
  FileState* FindFile(const NamedFile& name) const;
  FileState& GetFile(const NamedFile& name);
  void ForgetFileIfUnused(FileState& file);
  // Returns null if the client never asked for state.
  ClientFiles* FindClient(ClientId client) const;
  ClientFiles& GetClient(ClientId client);
  // Requires that the client has no record left.
  void ForgetClient(ClientId client);

  // ---- records

  template <class Record>
  Record& AddState(std::unique_ptr<Record> record) {
    ClientFiles& client = *record->client;
    ++kinds_[static_cast<size_t>(record->kind)];
    record->in_client = client.states.insert(client.states.end(), record.get());
    return ids_.Add(std::move(record));
  }
  // If an operator has revoked the state, or the server has because a delegation was not returned, the loss is noted
  // until the client acknowledges it. There is no such note for a client of a version without FREE_STATEID, or with as
  // many losses as StateLimits::revoked_per_client.
  void RemoveState(StateRecord& record, Ending ending);
  // An operator has revoked the state, whose record stays until the client acknowledges the loss.
  void NoteRevokedByOperator(const StateRecord& record) { AddLoss(record, true); }
  // The client acknowledges the loss that the stateid names. Returns false if there is none.
  bool Acknowledge(ClientId client, const nfs4::stateid4& id);
  nfs4::stateid4 IdOf(const StateRecord& record) const { return ids_.IdOf(record); }
  // Finds the record that a stateid names. Also finds records that have ended and whose stateids are still known.
  Result<StateRecord*, nfs4::nfsstat4> FindAny(const Presenter& who, const nfs4::stateid4& id) const {
    return ids_.Find(who, id);
  }
  // Finds the record that a stateid names, without a check of the presenter. Returns null if there is none.
  StateRecord* RecordOf(const nfs4::stateid4& id) const { return ids_.RecordOf(id); }
  // StateIdTable::Visit()
  template <class Look>
  std::optional<size_t> Visit(size_t first, size_t slots, Look look) const {
    return ids_.Visit(first, slots, std::move(look));
  }
  // Finds the record that a stateid names, if it was given for `file`, by this handle; for any file if `file` is null.
  // The errors are those of StateIdTable::Find(), and NFS4ERR_DELEG_REVOKED (in version 4.0: NFS4ERR_ADMIN_REVOKED).
  Result<StateRecord*, nfs4::nfsstat4> FindRecord(const Presenter& who, const nfs4::stateid4& id,
                                                  const FileHandle* file) const;

  // ---- room

  bool HasRoom(const ClientFiles& client) const {
    return ids_.size() < limits_.states && client.states.size() < limits_.states_per_client;
  }
  bool IsFull() const { return ids_.size() >= limits_.states; }
  const StateLimits& limits() const { return limits_; }
  size_t size() const { return ids_.size(); }
  // The number of records of a kind.
  size_t count(StateKind kind) const { return kinds_[static_cast<size_t>(kind)]; }

  using AllFiles = SteadyMap<NamedFile, std::unique_ptr<FileState>, NamedFileHash>;
  using AllClients = SteadyMap<ClientId, std::unique_ptr<ClientFiles>>;
  const AllFiles& files() const { return files_; }
  const AllClients& clients() const { return clients_; }
  // Describes the first inconsistency; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;

 private:
  void AddLoss(const StateRecord& record, bool by_operator);
  static void EraseLoss(ClientFiles& client, std::map<uint32_t, Loss>::iterator at);
  void EraseLossesUnder(ClientFiles& client, uint32_t open);

  StateLimits limits_;
  StateIdTable ids_;
  std::array<size_t, 3> kinds_{};
  AllFiles files_;  // by identity: a file that has two names, or two exports, has one entry
  AllClients clients_;
};

}  // namespace penstock::nfs::v4
