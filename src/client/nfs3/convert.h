// Handles and attributes as version 3 writes them.
#pragma once

#include "client/mount.h"
#include "protocol/nfs3.h"

namespace penstock::client::v3 {

Attributes AttributesOf(const nfs3::fattr3& a);
// The error: an owner or a group that is no number.
Result<nfs3::sattr3> ToSattr3(const NewAttributes& attributes, std::string_view what);

// A handle that a user of the mount has kept is one that we gave: it fits.
inline nfs3::nfs_fh3 ToHandle3(const Handle& handle) { return {xdr::Opaque<nfs3::NFS3_FHSIZE>(handle.bytes())}; }
inline Handle FromHandle3(const nfs3::nfs_fh3& handle) { return Handle(handle.data.bytes()); }

}  // namespace penstock::client::v3
