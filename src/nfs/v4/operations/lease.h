// Keeps the tables and the recovery store consistent: a client is recorded before it gets any state, and its record is
// removed before another client gets its state (RFC 8881 §8.4.3).
#pragma once

#include "base/task.h"
#include "nfs/v4/engine/compound.h"

namespace penstock::nfs::v4 {

// Records a client in the store. Call it at RECLAIM_COMPLETE, and before each open; it costs little if the client is
// recorded. Returns NFS4ERR_SERVERFAULT if the store cannot be written (RFC 8881 §15.1.1.6), because state that could
// not be reclaimed must not be granted. NFS4ERR_DELAY would make the client wait silently for as long as the disk is
// full.
Task<nfs4::nfsstat4> RecordClient(const Services& services, Loop* loop, ClientId client);

// Forgets nearly all state of a client that makes no more requests, in parts (Files::ForgetPart), so that others need
// not wait for it. StateTables::End() forgets the rest.
Task<void> ForgetInParts(const Services& services, Loop* loop, ClientId client, Ending ending);

// Removes all state of a client whose lease has expired and whose state conflicts with a request. Returns true if it is
// gone and the operation may be tried again. Returns false if the client has just returned, or if the store cannot be
// written; the operation then returns NFS4ERR_DELAY.
Task<bool> ForgetExpired(const Services& services, Loop* loop, ClientId client);

// Removes all state of a client because an operator wants it, whatever its lease. The client gets NFS4ERR_EXPIRED or
// NFS4ERR_BADSESSION, and may reclaim nothing. Returns false if there is no such confirmed client, or if the store
// cannot be written.
Task<bool> EvictClient(const Services& services, Loop* loop, ClientId client);

// If the tables of opens and locks are full, removes the expired client that has been silent longest. Returns true if
// one was removed and the operation may be tried again.
Task<bool> MakeRoomForState(const Services& services, Loop* loop);

// Ends the grace period if its time is over, or if every client has reclaimed. NFS4ERR_GRACE remains the answer until
// the store has removed the clients that did not reclaim.
Task<void> EndGraceIfDue(const Services& services, Loop* loop);

// Call it periodically. Ends the grace period when it is due. Takes back delegations if there are too many. Removes
// clients after their courtesy period, replies of ended sessions, and delegations that local programs wait for. Clients
// whose locks local programs see get no courtesy period.
Task<void> KeepLeases(const Services& services, Loop* loop);

}  // namespace penstock::nfs::v4
