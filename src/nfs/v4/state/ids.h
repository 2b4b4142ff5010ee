// The identifiers of NFSv4 state.
#pragma once

#include <cstdint>
#include <functional>

#include "base/strong.h"
#include "nfs/file_handle.h"
#include "protocol/nfs4_1.h"

namespace penstock::nfs::v4 {

// clientid4. Its high half identifies the run of the server, so no client ID is ever given out twice.
using ClientId = Strong<struct ClientIdTag, uint64_t>;
// Hosts that lock through NLM (LockHosts) have IDs of the same type. Their high half is all ones, which is no run of
// the server.
inline ClientId LockHostId(uint32_t number) { return ClientId(uint64_t{UINT32_MAX} << 32 | number); }
inline bool IsLockHost(ClientId id) { return id.value() >> 32 == UINT32_MAX; }
using SlotId = Strong<struct SlotIdTag, uint32_t>;
// The sequence ID of a slot (RFC 8881 §2.10.6.1), or of an owner in version 4.0 (RFC 7530 §9.1.7).
using SequenceId = Strong<struct SequenceIdTag, uint32_t>;
using SessionId = nfs4::sessionid4;

// Names a request that a client has sent in a session (RFC 8881 §2.10.6.3).
struct RequestName {
  SessionId session;
  SlotId slot;
  SequenceId sequence;
  bool operator==(const RequestName&) const = default;
};

// A client that has state of a file through one export. A client sees a file of two exports as two files with separate
// caches and stateids (RFC 8881 §10.3.4), so its own state through another export conflicts like that of another
// client.
struct Party {
  ClientId client;
  ExportId by;
  auto operator<=>(const Party&) const = default;
};

struct PartyHash {
  size_t operator()(const Party& party) const {
    return std::hash<ClientId>{}(party.client) ^ (std::hash<ExportId>{}(party.by) * 0x9e3779b97f4a7c15u);
  }
};

}  // namespace penstock::nfs::v4
