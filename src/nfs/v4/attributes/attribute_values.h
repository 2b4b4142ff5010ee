// The attributes of NFSv4 and their XDR, fattr4 (RFC 8881 §5.8, RFC 7862 §12.2). The code encodes and decodes a set of
// attributes by a table. A row of the table has the number of the attribute, the revision of the protocol that defines
// it, and the functions that encode and decode its value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fs/file_system.h"
#include "nfs/file_handle.h"
#include "nfs/v4/attributes/acl.h"
#include "nfs/v4/attributes/attribute_set.h"
#include "nfs/v4/attributes/file_system_locations.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/files/delegated_times.h"
#include "nfs/v4/state/settings.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

class OwnerTexts;

// The sources of the values of one object's attributes.
struct AttributeValues {
  const Settings& settings;
  const OwnerTexts& owners;
  const fs::Properties& properties;
  const Dialect& dialect;
  FileHandle handle;
  // The locations of the object's file system; empty if the operator has named none.
  std::optional<FileSystemLocations> locations{};
  fs::Attributes attributes{};
  uint64_t mounted_on_fileid = 0;
  // Valid only if the client asks for an attribute of kSpaceAttributes.
  fs::Space space{};
  // The quota that limits the object, if the client asks for an attribute of kQuotaAttributes, a quota limits the
  // object, and the caller may know it.
  std::optional<fs::QuotaUse> quota{};
  // Valid only if the client asks for an attribute of kAclAttributes.
  fs::Acls acls{};
  // In READDIR: the reason why the entry has no other attributes (RFC 8881 §5.8.1.12).
  nfs4::nfsstat4 error = nfs4::NFS4_OK;
};

// These attributes hold the locations of a file system. If a client asks for one of them, GETATTR succeeds in an absent
// file system (RFC 8881 §11.4.1).
inline constexpr AttributeSet kLocationAttributes{nfs4::FATTR4_FS_LOCATIONS, nfs4::FATTR4_FS_LOCATIONS_INFO};
// The attributes that an absent file system has (RFC 8881 §11.4.1, §11.15.2).
inline constexpr AttributeSet kAbsentAttributes =
    kLocationAttributes | AttributeSet{nfs4::FATTR4_FSID, nfs4::FATTR4_RDATTR_ERROR, nfs4::FATTR4_MOUNTED_ON_FILEID};

// supported_attrs: the attributes that the dialect defines and the file system supports. An export without locations
// does not support kLocationAttributes; a referral supports kAbsentAttributes only.
AttributeSet SupportedAttributes(const fs::Properties& properties, const Dialect& dialect,
                                 const Locations& locations = {});
// The attributes that a client may ask for, and those that a client may set, in all dialects.
AttributeSet ReadableAttributes();
AttributeSet WritableAttributes();
// suppattr_exclcreat: the attributes that a client may set by OPEN with EXCLUSIVE4_1.
AttributeSet ExclusiveCreateAttributes(const fs::Properties& properties, const Dialect& dialect);

// For these attributes, the file system must be asked for its space.
inline constexpr AttributeSet kSpaceAttributes{nfs4::FATTR4_FILES_AVAIL, nfs4::FATTR4_FILES_FREE,
                                               nfs4::FATTR4_FILES_TOTAL, nfs4::FATTR4_SPACE_AVAIL,
                                               nfs4::FATTR4_SPACE_FREE,  nfs4::FATTR4_SPACE_TOTAL};
inline constexpr AttributeSet kQuotaAttributes{nfs4::FATTR4_QUOTA_AVAIL_HARD, nfs4::FATTR4_QUOTA_AVAIL_SOFT,
                                               nfs4::FATTR4_QUOTA_USED};
// These attributes hold the access control list.
inline constexpr AttributeSet kAclAttributes{nfs4::FATTR4_ACL, nfs4::FATTR4_DACL};
// RFC 9754 §5: the times that the holder of a write delegation reports.
inline constexpr AttributeSet kDelegatedTimes{nfs4::FATTR4_TIME_DELEG_ACCESS, nfs4::FATTR4_TIME_DELEG_MODIFY};
inline constexpr AttributeSet kOwnerAttributes{nfs4::FATTR4_OWNER, nfs4::FATTR4_OWNER_GROUP};

// The supported attributes that have no value for this object: time_create if it is not known, and the attributes of
// quotas without a quota or a limit.
AttributeSet AttributesWithoutValue(const AttributeValues& values);
// Encodes the fattr4 of `set`, whose attributes are all supported and readable. Leaves out those without a value.
void EncodeAttributes(xdr::Encoder& encoder, const AttributeSet& set, const AttributeValues& values);

// The decoded values of attributes that a client sets. The names of owners are views of the attr_vals and not looked up
// yet.
struct DecodedAttributes {
  fs::NewAttributes values;
  std::optional<nfs4::mode_masked4> masked_mode;
  std::optional<std::string_view> owner;
  std::optional<std::string_view> owner_group;
  std::optional<std::vector<GivenEntry>> acl;
  DelegatedTimes delegated{};
};

// Decodes the values of `set`, whose attributes may all be set. Returns NFS4ERR_BADXDR or NFS4ERR_INVAL for bad values.
nfs4::nfsstat4 DecodeAttributes(const AttributeSet& set, ConstBytes values, DecodedAttributes& to);

// The protocol's name of a supported attribute, for logs and documents. Empty for other numbers.
std::string_view AttributeName(uint32_t number);

}  // namespace penstock::nfs::v4
