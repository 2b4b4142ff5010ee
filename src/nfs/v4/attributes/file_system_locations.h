// The attributes fs_locations and fs_locations_info (RFC 8881 §11.16, §11.17; RFC 7530 §8.1).
#pragma once

#include <cstddef>
#include <string_view>

#include "nfs/locations.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v4 {

// The sources of both attributes. They outlive this object.
struct FileSystemLocations {
  const Locations& locations;
  std::string_view path;  // of the export, which is the root of the file system in the client's tree
  bool read_only = false;
};

// The longest value of either attribute in octets. In the text of an option, a server takes at least two octets ("+h"),
// and in fs_locations_info 28; a component of a path takes two ("/c"), and 8 in both attributes. The path of
// the export is there up to twice, with at most 4096 octets.
inline constexpr size_t kLongestLocations = Locations::kLongestText * 14 + 8448;

// Encodes the operator's list. Like Linux's server, it has no entry for this server.
void EncodeLocations(xdr::Encoder& to, const FileSystemLocations& of);
// Encodes the operator's list, in which nothing is claimed of other servers: the age of their copies is unknown, no
// flag is set, and all classes are zero, which match nothing. Unless the export is a referral, an entry for this server
// comes first (RFC 8881 §11.17.2). fli_valid_for is zero: the list changes at no known time.
void EncodeLocationsInfo(xdr::Encoder& to, const FileSystemLocations& of);

}  // namespace penstock::nfs::v4
