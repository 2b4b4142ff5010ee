// The protection of a client's state from other callers (RFC 8881 §2.10.8.3): none (SP4_NONE), or the client's machine
// credential (SP4_MACH_CRED). That is the principal that made the client ID, under RPCSEC_GSS with integrity or
// privacy.
#pragma once

#include "nfs_protocol/number_set.h"
#include "protocol/nfs4_1.h"

namespace penstock::nfs::v4 {

using OperationSet = nfs_protocol::NumberSet<nfs4::nfs_opnum4>;

struct StateProtection {
  bool by_machine = false;  // SP4_MACH_CRED
  OperationSet enforced{};  // only the machine credential may do these
  OperationSet allowed{};   // the machine credential may do these for any owner of the object

  // Returns the protection that the server grants for a client's request.
  //
  // The operations that maintain clients and sessions are enforced, even if the client does not ask for that (RFC 8881
  // §2.10.8.3, §18.34.3, §18.35.3, §18.37.3). The server enforces other operations on request if they need
  // no filehandle; §18.35.3 lets a client ask for no more.
  //
  // The operations that give state back or ask about it are allowed. WRITE and COMMIT are not: a client that may send
  // them with the machine credential always does so (Linux 6.1), and then they come from another user than the one that
  // writes, with the protection that suits the machine instead of the one that the export asks for.
  static StateProtection ByMachine(const nfs4::state_protect_ops4& wishes) {
    constexpr OperationSet kAlways{nfs4::OP_EXCHANGE_ID, nfs4::OP_CREATE_SESSION, nfs4::OP_DESTROY_SESSION,
                                   nfs4::OP_BIND_CONN_TO_SESSION, nfs4::OP_DESTROY_CLIENTID};
    constexpr OperationSet kWhereWished{nfs4::OP_DELEGPURGE, nfs4::OP_BACKCHANNEL_CTL};
    constexpr OperationSet kAllowed{nfs4::OP_CLOSE,        nfs4::OP_LOCKU,       nfs4::OP_OPEN_DOWNGRADE,
                                    nfs4::OP_DELEGRETURN,  nfs4::OP_SECINFO,     nfs4::OP_SECINFO_NO_NAME,
                                    nfs4::OP_FREE_STATEID, nfs4::OP_TEST_STATEID};
    return {.by_machine = true,
            .enforced = kAlways | (kWhereWished & OperationSet(wishes.spo_must_enforce)),
            .allowed = kAllowed & OperationSet(wishes.spo_must_allow)};
  }

  bool operator==(const StateProtection&) const = default;
};

}  // namespace penstock::nfs::v4
