// The record of one client ID: the identity of the client, its lease, and the path of its callbacks.
//
// A visit to the client's shard may change `renewed`, `by_renewal` and `requests`, and read all fields. A visit to
// another shard may read the other fields. See State.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/host.h"
#include "base/timer.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/origin.h"
#include "nfs/v4/state/clients/principal.h"
#include "nfs/v4/state/clients/state_protection.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/stable/recovery.h"

namespace penstock::nfs::v4 {

// The protection of calls to a client of version 4.0 that uses RPCSEC_GSS with Kerberos (RFC 7530 §3.3.3). The server
// calls with the name by which the client has called it.
struct CallbackSecurity {
  rpc::GssService service{};
  std::string client{};  // principals
  std::string server{};

  bool operator==(const CallbackSecurity&) const = default;
};

// The address where a client of minor version 0 listens for callbacks (RFC 7530 §16.33).
struct CallbackAddress {
  uint32_t program = 0;
  std::optional<SocketAddress> endpoint{};  // empty: the server does not call the client
  uint32_t identifier = 0;
  std::optional<CallbackSecurity> security{};  // empty: calls have AUTH_SYS

  bool operator==(const CallbackAddress&) const = default;
};

// Whether callbacks reach the client.
enum class PathState : uint8_t { kUnknown, kWorks, kDown };

struct Client {
  ClientId id;
  const Dialect& dialect;
  std::string owner;
  nfs4::verifier4 verifier{};
  Principal principal;
  bool confirmed = false;
  // The server is removing the state of the client: no request renews the lease, and the client gets the errors of a
  // client that was removed.
  bool doomed = false;
  // The recovery store has a record that this run of the server has made.
  bool recorded = false;
  // The time of the last renewal of the lease, or the time when an unconfirmed record was made.
  TimePoint renewed{};
  std::list<Client*>::iterator by_renewal{};  // the place in Clients::by_renewal_
  PathState path = PathState::kUnknown;

  // ---- fields of a client without sessions (RFC 7530) ----
  nfs4::verifier4 confirmation{};
  CallbackAddress callback{};
  IpAddress address{};  // the machine that set the client ID
  // A new callback address for a confirmed record. It takes effect when the client confirms it.
  struct CallbackUpdate {
    nfs4::verifier4 confirmation;
    CallbackAddress callback;
    IpAddress address;
  };
  std::optional<CallbackUpdate> update{};

  // ---- fields of a client with sessions ----
  StateProtection protection{};
  bool reclaim_complete = false;
  // The slot of CREATE_SESSION: its last sequence ID and reply (RFC 8881 §18.36.4).
  SequenceId create_sequence{0};
  std::optional<nfs4::CREATE_SESSION4res> create_reply{};
  // A session is being created, and its reply is not known yet: the reply store is making room for the session's
  // replies.
  bool creating = false;
  std::vector<SessionId> sessions{};
  size_t requests = 0;  // the requests under way in all sessions
  // The session of a client of the sessions of 2004, which exists as long as the client.
  std::optional<uint64_t> bound_session{};

  // Whether a call of minor version 0 comes from the client's machine.
  bool IsFromMachine(const Origin& origin) const {
    return HostOf(address) == HostOf(origin.address) || (origin.is_authentic() && origin.principal == principal);
  }
  // Whether a call may change state of this client that was made by `makers`: the client's machine and these principals
  // may. In minor version 0 the call must also come from the client's machine, unless its principal is authentic.
  bool MayChange(const Makers& makers, const Origin& origin) const {
    if (origin.principal != principal && !makers.Has(origin.principal)) return false;
    return dialect.has_sessions() || origin.is_authentic() || HostOf(address) == HostOf(origin.address);
  }

  // Whether the sender uses the machine credential.
  bool IsMachine(const Sender& sender) const {
    return protection.by_machine && sender.is_protected && sender.principal == principal;
  }
  bool Permits(nfs4::nfs_opnum4 operation, const Sender& sender) const {
    return !protection.enforced.Has(operation) || IsMachine(sender);
  }

  // The sequence ID of the next CREATE_SESSION.
  SequenceId NextCreate() const { return SequenceId(create_sequence.value() + 1); }

  std::string key() const { return OwnerKey(dialect, owner); }
};

}  // namespace penstock::nfs::v4
