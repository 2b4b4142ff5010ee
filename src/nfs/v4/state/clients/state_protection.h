// How a client wants its state protected from others (RFC 8881 §2.10.8.3): not at all (SP4_NONE), or by its machine credential
// (SP4_MACH_CRED), which is the principal that made the client ID, under RPCSEC_GSS with integrity or privacy.
#pragma once

#include "nfs_protocol/number_set.h"
#include "protocol/nfs4_1.h"

namespace penstock::nfs::v4 {

using OperationSet = nfs_protocol::NumberSet<nfs4::nfs_opnum4>;

struct StateProtection {
  bool by_machine = false;  // SP4_MACH_CRED
  OperationSet enforced{};  // for the machine credential alone
  OperationSet allowed{};   // also for the machine credential, whosever the object is

  // What we make of a client's wishes.
  //
  // Enforced are those that maintain clients and sessions, wished or not: so it is with this protection (RFC 8881 §2.10.8.3,
  // §18.34.3, §18.35.3, §18.37.3). Of the others, those that need no filehandle: §18.35.3 has a client ask for no more.
  //
  // Allowed are those that give state back or ask about it. Not WRITE and COMMIT: a client that may send them so does it
  // always (Linux 6.1), as another user than the one who writes, and with the protection that suits its machine rather than
  // the one that the export asks for.
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
