// What must happen to the tables and to the recovery store together: a client is recorded before it holds anything, and
// what it held goes to nobody else before its record has gone (RFC 8881 §8.4.3).
#pragma once

#include "base/task.h"
#include "nfs/v4/engine/compound.h"

namespace penstock::nfs::v4 {

// When `client` has said that it is done with reclaiming, or, in minor version 0, before its first open. Before every open
// as well, where it costs little if it has been done. NFS4ERR_SERVERFAULT where the store cannot be written (RFC 8881
// §15.1.1.6): what could not be reclaimed is not given. NFS4ERR_DELAY would have the client wait for ever, and say nothing,
// for as long as the disk is full.
Task<nfs4::nfsstat4> RecordClient(const Services& services, Loop* loop, ClientId client);

// Where a client's state stands in the way of another's and its lease is over: takes all of it away. True where it is
// gone now, and the operation may try again; false where the client came back just before, or the store could not be
// written (NFS4ERR_DELAY then).
Task<bool> ForgetExpired(const Services& services, Loop* loop, ClientId client);

// Where the tables of opens and locks are full: forgets, of the clients whose lease is over, the one that has been silent longest. True where
// one has gone, and the operation may try again.
Task<bool> MakeRoomForState(const Services& services, Loop* loop);

// Ends the grace period where it is over or nobody is waited for. NFS4ERR_GRACE is the answer until the store has
// forgotten those who did not come.
Task<void> EndGraceIfDue(const Services& services, Loop* loop);

// Ends the grace period when it is due, and forgets the clients whose courtesy is over and the replies of sessions that
// have ended, and delegations that local programs wait for. No courtesy is shown to clients whose locks local programs see. To be
// done from time to time.
Task<void> KeepLeases(const Services& services, Loop* loop);

}  // namespace penstock::nfs::v4
