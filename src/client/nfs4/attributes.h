// The attributes of NFSv4 that this library makes use of: RFC 8881 §5.8.
#pragma once

#include <optional>
#include <vector>

#include "client/mount.h"
#include "protocol/nfs4_attributes.h"
#include "protocol/nfs4_types.h"

namespace penstock::client::v4 {

// What Attributes has, as a request.
const nfs4::bitmap4& FileAttributes();
// The same of a directory's entries: what cannot be told of one is left out (RFC 8881 §18.23.3).
const nfs4::bitmap4& EntryAttributes();
// Nothing where it cannot be decoded, has attributes that EntryAttributes() does not ask for, or is not there.
std::optional<Attributes> DecodeAttributes(const nfs4::fattr4& encoded);

struct ServerLimits {
  uint32_t lease_seconds = 0;
  uint64_t max_read = 0;
  uint64_t max_write = 0;
};
const nfs4::bitmap4& LimitAttributes();
std::optional<ServerLimits> DecodeLimits(const nfs4::fattr4& encoded);

// These refer to `octets`.
nfs4::fattr4 EncodeAttributes(const NewAttributes& attributes, std::vector<std::byte>& octets);
// What of it is asked for (RFC 8881 §20.1).
nfs4::fattr4 EncodeChange(const nfs4::bitmap4& asked, uint64_t change, uint64_t size, std::vector<std::byte>& octets);
nfs4::fattr4 EncodeType(nfs4::nfs_ftype4 type, std::vector<std::byte>& octets);

}  // namespace penstock::client::v4
