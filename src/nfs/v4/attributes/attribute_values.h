// fattr4 as a table (RFC 8881 §5.8, RFC 7862 §12.2): for each attribute that we have, its number, since which minor
// version it is there, what may be done with it, what its value is taken from, and how that is written and read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fs/file_system.h"
#include "nfs/file_handle.h"
#include "nfs/v4/attributes/acl.h"
#include "nfs/v4/attributes/attribute_set.h"
#include "nfs/v4/state/settings.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

class OwnerNames;

// Where the values of an object's attributes are.
struct AttributeValues {
  const Settings& settings;
  const OwnerNames& owners;
  const fs::Properties& properties;
  const uint32_t minor_version;
  FileHandle handle;
  fs::Attributes attributes{};
  uint64_t mounted_on_fileid = 0;
  // Only where an attribute of kSpaceAttributes is asked for.
  fs::Space space{};
  // Only where acl is.
  fs::Acls acls{};
  // In READDIR: why there is nothing else (RFC 8881 §5.8.1.12).
  nfs4::nfsstat4 error = nfs4::NFS4_OK;
};

// What is supported for the objects of a file system: supported_attrs.
AttributeSet SupportedAttributes(const fs::Properties& properties, uint32_t minor_version);
// Of these: what may be asked for, and what may be set.
AttributeSet ReadableAttributes();
AttributeSet WritableAttributes();
// suppattr_exclcreat.
AttributeSet ExclusiveCreateAttributes(const fs::Properties& properties, uint32_t minor_version);

// What asks the file system for more than an object's attributes.
inline constexpr AttributeSet kSpaceAttributes{nfs4::FATTR4_FILES_AVAIL, nfs4::FATTR4_FILES_FREE,
                                               nfs4::FATTR4_FILES_TOTAL, nfs4::FATTR4_SPACE_AVAIL,
                                               nfs4::FATTR4_SPACE_FREE,  nfs4::FATTR4_SPACE_TOTAL};
inline constexpr AttributeSet kOwnerAttributes{nfs4::FATTR4_OWNER, nfs4::FATTR4_OWNER_GROUP};

// fattr4 of `set`, all of which is supported and readable. time_create is left out where nobody knows it.
void EncodeAttributes(xdr::Encoder& encoder, const AttributeSet& set, const AttributeValues& values);

// What the values of attributes say that are to be set, names of owners not looked up yet (views of the attr_vals).
struct DecodedAttributes {
  fs::NewAttributes values;
  std::optional<nfs4::mode_masked4> masked_mode;
  std::optional<std::string_view> owner;
  std::optional<std::string_view> owner_group;
  std::optional<std::vector<GivenEntry>> acl;
};

// Of attributes all of which may be set. NFS4ERR_BADXDR, NFS4ERR_INVAL.
nfs4::nfsstat4 DecodeAttributes(const AttributeSet& set, ConstBytes values, DecodedAttributes& to);

// For logs and documents: the protocol's name of an attribute that we have.
std::string_view AttributeName(uint32_t number);

}  // namespace penstock::nfs::v4
