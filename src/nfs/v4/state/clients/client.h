// What is known of one client, under one client ID.
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

// Where a client of minor version 0 listens for callbacks (RFC 7530 §16.33).
struct CallbackAddress {
  uint32_t program = 0;
  std::optional<SocketAddress> endpoint{};  // none: it is not called
  uint32_t identifier = 0;

  bool operator==(const CallbackAddress&) const = default;
};

// Whether calls reach the client.
enum class PathState : uint8_t { kUnknown, kWorks, kDown };

struct Client {
  ClientId id;
  const Dialect& dialect;
  std::string owner;
  nfs4::verifier4 verifier{};
  Principal principal;
  bool confirmed = false;
  // Its state is being given away: nothing renews it any more, and it is answered as if it were gone.
  bool doomed = false;
  // The recovery store has it, of this run of the server.
  bool recorded = false;
  // When the lease was last renewed; of an unconfirmed record, when it was made.
  TimePoint renewed{};
  std::list<Client*>::iterator by_renewal{};  // its place in Clients::by_renewal_
  PathState path = PathState::kUnknown;

  // ---- of a client without sessions (RFC 7530) ----
  nfs4::verifier4 confirmation{};
  CallbackAddress callback{};
  IpAddress address{};  // of the machine that has set the client ID
  // Of a confirmed record whose client wants its callbacks elsewhere: not before it has confirmed that.
  struct CallbackUpdate {
    nfs4::verifier4 confirmation;
    CallbackAddress callback;
    IpAddress address;
  };
  std::optional<CallbackUpdate> update{};

  // ---- of a client with sessions ----
  StateProtection protection{};
  bool reclaim_complete = false;
  // The one slot of CREATE_SESSION (RFC 8881 §18.36.4).
  SequenceId create_sequence{0};
  std::optional<nfs4::CREATE_SESSION4res> create_reply{};
  // It is not there yet: room is being made for the replies of the session.
  bool creating = false;
  std::vector<SessionId> sessions{};
  size_t requests = 0;  // under way, in all of its sessions

  // Minor version 0: whether a call comes from the client's machine.
  bool IsFromMachine(const Origin& origin) const {
    return HostOf(address) == HostOf(origin.address) || (origin.is_authentic() && origin.principal == principal);
  }
  // Whether a call may change state of this client that was made by `makers`: the machine may, and those principals.
  // In minor version 0 from that machine, unless who they are is authentic.
  bool MayChange(const Makers& makers, const Origin& origin) const {
    if (origin.principal != principal && !makers.Has(origin.principal)) return false;
    return dialect.has_sessions() || origin.is_authentic() || HostOf(address) == HostOf(origin.address);
  }

  // Whether the sender is the machine credential.
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
