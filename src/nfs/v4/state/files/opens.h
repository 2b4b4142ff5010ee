// The table of opens (RFC 8881 §9.7 to §9.11, RFC 7530 §9.1.7 to §9.1.11): it adds, downgrades and closes them.
//
// The invariants: no two opens of a file conflict by their shares; an open's share is the union of its OPENs; only
// files that are open are pinned. An open ends together with the locks that were taken under it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/timer.h"
#include "fs/file_system.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/files/locks.h"
#include "nfs/v4/state/files/open_owners.h"
#include "nfs/v4/state/files/room.h"
#include "nfs/v4/state/files/share.h"
#include "nfs/v4/state/files/state_records.h"
#include "nfs/v4/state/ids.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

class Opens {
 public:
  // All outlive this table.
  Opens(StateRecords& records, OpenOwners& owners, Locks& locks, Room& room)
      : records_(records), owners_(owners), locks_(locks), room_(room) {}

  // Returns the client whose open conflicts with another open with `share`; it may be the client that asks.
  std::optional<ClientId> FindShareConflict(const NamedFile& file, const Share& share) const;
  bool IsPinned(const NamedFile& file) const;
  // Returns the owner's open of the file by this export; null if there is none.
  OpenState* Find(const OpenOwner& owner, const NamedFile& file) const;

  struct OpenResult {
    nfs4::nfsstat4 status = nfs4::NFS4_OK;
    nfs4::stateid4 stateid{};
    bool is_new = false;                // false if an existing open got another share
    ShareHistory before{};              // of that existing open, for UndoOpen()
    std::optional<ClientId> blocker{};  // for NFS4ERR_SHARE_DENIED: the client whose open conflicts
  };
  // Adds an open, or adds `share` to the owner's open of the file. `dialect` selects the error for "no room": see
  // NoRoomToOpen(). The table keeps `pinned` if it has no pin of the file by this export yet.
  OpenResult AddOpen(OpenOwner& owner, const NamedFile& file, const Share& share, const fs::Pinned& pinned,
                     const Dialect& dialect, TimePoint now);
  // Undoes AddOpen(), unless the open was used since.
  void UndoOpen(const OpenResult& opened, TimePoint now);
  // NFS4ERR_INVAL if no set of the open's OPENs adds up to `share`.
  nfs4::nfsstat4 Downgrade(OpenState& open, const Share& share);
  // Closes an open and releases the locks that were taken under it. In version 4.0 the owner may use the stateid for
  // one more request.
  void Close(OpenState& open, const Dialect& dialect, TimePoint now);
  // If there are more locks under the open than Locks::kMostAtOnce allows: releases so many of them and returns true.
  // Otherwise does nothing; Close() then does the rest. In between, AddOpen() and Downgrade() return NFS4ERR_DELAY, so
  // that the open is closed as the CLOSE knew it.
  bool ClosePart(OpenState& open);
  // Removes locks under the open, and takes them off `left` as Locks::RemovePart() does. Returns true if none is left.
  bool RemoveLocksUnder(OpenState& open, Ending ending, size_t& left);
  // Removes an open, or the stateid of an open that was closed.
  void Remove(OpenState& open, Ending ending, TimePoint now) { RemoveOpen(open, ending, false, now); }
  // In version 4.0, an open-owner that was never confirmed sends another OPEN (RFC 7530 §16.18.5): the owner begins
  // anew.
  void RestartOwner(OpenOwner& owner, TimePoint now);

  // Whether the tables have no room for another open or lock of any client. If so, the caller forgets clients whose
  // lease is over before it refuses a request.
  bool IsFull() const { return records_.IsFull() || owners_.IsFull() || locks_.IsFull(); }
  // The error for an OPEN without room, also if GetOpenOwner() returned null: ErrorWords::no_room_until_close if the
  // client itself must close a file first, else ErrorWords::no_room.
  nfs4::nfsstat4 NoRoomToOpen(ClientId client, const Dialect& dialect) const;

  // The number of opens that deny access to other clients.
  size_t denials() const { return denials_; }
  // Describes the first inconsistency; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;

 private:
  void SetShare(OpenState& open, const Share& share);
  void RemoveOpen(OpenState& open, Ending ending, bool keep_stateid, TimePoint now);

  StateRecords& records_;
  OpenOwners& owners_;
  Locks& locks_;
  Room& room_;
  size_t denials_ = 0;
};

}  // namespace penstock::nfs::v4
