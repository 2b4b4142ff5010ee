// Converts handles and attributes between the client library and version 3.
#pragma once

#include "client/mount.h"
#include "protocol/nfs3.h"

namespace penstock::client::v3 {

Attributes AttributesOf(const nfs3::fattr3& a);
// Fails if an owner or a group is not a number.
Result<nfs3::sattr3> ToSattr3(const NewAttributes& attributes, std::string_view what);

// The handle came from FromHandle3(), so it fits.
inline nfs3::nfs_fh3 ToHandle3(const Handle& handle) { return {xdr::Opaque<nfs3::NFS3_FHSIZE>(handle.bytes())}; }
inline Handle FromHandle3(const nfs3::nfs_fh3& handle) { return Handle(handle.data.bytes()); }

}  // namespace penstock::client::v3
