// The security flavors that a server of version 4 accepts for an object (RFC 8881 §18.29, §18.45).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/nfs4/compound_caller.h"
#include "nfs_protocol/security_flavors.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {

// Flavors in the server's order of preference, without those that the client does not speak.
using Flavors = std::vector<nfs_protocol::SecurityFlavor>;

Flavors FlavorsIn(const nfs4::SECINFO4resok& list);
// Returns the names for users: "krb5i, krb5p".
std::string TextOf(const Flavors& flavors);

// Ask for the flavors of `name` in `directory`, and of the root of the server. Minor version 0 has no operation for the
// root: the list is then empty.
Task<Result<Flavors>> GetFlavors(CompoundCaller& caller, const Handle& directory, std::string_view name);
Task<Result<Flavors>> GetRootFlavors(CompoundCaller& caller, std::string_view what);

}  // namespace penstock::client::v4
