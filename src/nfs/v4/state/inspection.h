// What operators see of the state of version 4 and of the lock manager: values that were copied from the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/timer.h"
#include "nfs/file_handle.h"
#include "nfs/v4/state/clients/principal.h"
#include "nfs/v4/state/files/lock_ranges.h"
#include "nfs/v4/state/files/share.h"
#include "nfs/v4/state/files/state_ids.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// A client of version 4, or a host that locks through NLM.
struct ShownClient {
  ClientId id;
  bool is_lock_host = false;
  std::string_view version{};  // such as "4.1"; of a host: "nlm"
  std::string owner{};         // octets of the client, or the name that a host gives itself
  // Where it calls from, if its protocol says so (version 4.0, NLM). Others have connections.
  std::optional<IpAddress> address{};
  std::vector<uint64_t> connections{};   // rpc::Peer::connection, of all its sessions
  std::optional<Principal> principal{};  // of a client of version 4
  Duration since_renewal{};              // of the lease; of a host: since its last request for a lock
  bool confirmed = true;                 // a client that is not confirmed has no state
  bool lease_is_over = false;            // its state stays until another client asks for it
  size_t sessions = 0;
  size_t opens = 0, locks = 0, delegations = 0;
};

// The principal in words: "uid 1000", "alice@EXAMPLE.ORG" or "nobody".
std::string ForPeople(const Principal& principal);

struct ShownSession {
  std::string id{};  // hexadecimal
  ClientId client;
  std::string_view version{};
  uint32_t slots = 0, busy_slots = 0;          // of the sessions of 2004: streamids
  uint32_t max_request = 0, max_response = 0;  // octets; zero for the sessions of 2004, whose channels have limits
  size_t kept_octets = 0;                      // of replies
  bool back_channel = false;                   // callbacks reach the client
  bool persistent = false;
  std::vector<uint64_t> connections{};
};

// An open, the byte-range locks of one owner on one file, or a delegation.
struct ShownState {
  StateKind kind{};
  ClientId client;
  nfs4::stateid4 id{};
  FileHandle file;
  std::string owner{};                 // of an open or of locks: octets of the client
  Share share{};                       // of an open
  std::vector<LockedRange> ranges{};   // of locks
  bool write = false;                  // of a delegation
  std::optional<Duration> recalled{};  // of a delegation: how long ago
};

// All functions lock the tables. They run on any thread. The durations are those until `now`.

// The clients and hosts, without the counts of their states, in the order of their IDs.
std::vector<ShownClient> ListClients(State& state, TimePoint now);
std::vector<ShownSession> ListSessions(State& state);

struct StateFilter {
  StateKind kind{};
  std::optional<std::set<ClientId>> clients{};  // nothing: the states of all clients
};

// There may be a million states. The following functions visit them in steps. A step locks the tables for some hundred
// states. Between two steps the functions sleep for a moment: without that, threads that wait for the lock would not
// get it before the last step. So they must not run on a loop. They may miss states that come or go meanwhile.

// Sets the counts of states.
void CountStates(State& state, std::vector<ShownClient>& clients);
// Calls look(shown) for each state that is in effect and passes the filter, until `look` returns false. The tables are
// not locked then. The states come in no particular order.
void VisitStates(State& state, TimePoint now, const StateFilter& filter, const std::function<bool(ShownState)>& look);

}  // namespace penstock::nfs::v4
