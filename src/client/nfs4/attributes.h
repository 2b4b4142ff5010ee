// The attributes of NFSv4 that the client library uses (RFC 8881 §5.8): which ones it requests, and how they are
// encoded.
#pragma once

#include <optional>
#include <vector>

#include "client/mount.h"
#include "client/nfs4/dialect.h"
#include "client/nfs4/locations.h"
#include "protocol/nfs4_attributes.h"
#include "protocol/nfs4_types.h"

namespace penstock::client::v4 {

// Requests the attributes that client::Attributes has.
const nfs4::bitmap4& FileAttributes();
// Requests the same for entries of a directory. An entry whose attributes cannot be read has only an error (RFC 8881
// §18.23.3).
const nfs4::bitmap4& EntryAttributes(ListContent content);
// Returns nothing if `encoded` is malformed, has attributes that EntryAttributes() does not request, or has an error.
// Stores the filehandle, if there is one and `handle` is not null.
std::optional<Attributes> DecodeAttributes(const nfs4::fattr4& encoded, std::optional<Handle>* handle = nullptr);
// Returns the error of an entry that has nothing else but an fsid, as EntryAttributes() requests it.
std::optional<nfs4::nfsstat4> DecodeError(const nfs4::fattr4& encoded);

// Requests fs_locations. Each server that answers NFS4ERR_MOVED has it, in every version (RFC 8881 §11.3). The client
// does not need fs_locations_info, which adds priorities, the age of copies and flags: it tries the servers in the
// order of the list.
const nfs4::bitmap4& LocationsAttribute();
// Returns what LocationsOf() makes of the attribute; no locations if the server did not return it. Returns nothing if
// `encoded` is malformed or has other attributes.
std::optional<std::vector<Location>> DecodeLocations(const nfs4::fattr4& encoded);

struct ServerLimits {
  uint32_t lease_seconds = 0;
  uint64_t max_read = 0;
  uint64_t max_write = 0;
  // OPEN may give a delegation instead of an open (RFC 9754 §4).
  bool opens_or_delegates = false;
};
const nfs4::bitmap4& LimitAttributes(const Dialect& dialect);
std::optional<ServerLimits> DecodeLimits(const nfs4::fattr4& encoded);

// Requests the attributes that client::Space has.
const nfs4::bitmap4& SpaceAttributes();
std::optional<Space> DecodeSpace(const nfs4::fattr4& encoded);

// Requests the access control list.
const nfs4::bitmap4& AclAttribute();
// Returns an empty list if the server has no such attribute for the object.
std::optional<std::vector<Ace>> DecodeAcl(const nfs4::fattr4& encoded);

// The results of these functions refer to `octets`.
nfs4::fattr4 EncodeAcl(const std::vector<Ace>& acl, std::vector<std::byte>& octets);
nfs4::fattr4 EncodeAttributes(const NewAttributes& attributes, std::vector<std::byte>& octets);
// Encodes `change` and `size` if they are in `asked`, the request of CB_GETATTR (RFC 8881 §20.1).
nfs4::fattr4 EncodeChange(const nfs4::bitmap4& asked, uint64_t change, uint64_t size, std::vector<std::byte>& octets);
nfs4::fattr4 EncodeType(nfs4::nfs_ftype4 type, std::vector<std::byte>& octets);

}  // namespace penstock::client::v4
