// Checks of file names. A name is one component of a path; every file system checks it before any other use.
#pragma once

#include <string_view>

#include "fs/types.h"

namespace penstock::fs {

inline bool IsDots(std::string_view name) { return name == "." || name == ".."; }

// For lookups, which also accept "." and "..".
inline Result<void> CheckName(std::string_view name, size_t name_max) {
  if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos) {
    return std::unexpected(Error::kBadName);
  }
  if (name.size() > name_max) return std::unexpected(Error::kNameTooLong);
  return {};
}

// For methods that create or remove a name. `dots` is the error for "." and "..".
inline Result<void> CheckOrdinaryName(std::string_view name, size_t name_max, Error dots) {
  if (IsDots(name)) return std::unexpected(dots);
  return CheckName(name, name_max);
}

// Extended attributes have names without a prefix. Linux stores them with the prefix "user.", which shortens the
// longest name.
inline constexpr size_t kXattrNameMax = 255 - 5;
inline Result<void> CheckXattrName(std::string_view name) {
  if (name.empty() || name.find('\0') != name.npos) return std::unexpected(Error::kInvalid);
  if (name.size() > kXattrNameMax) return std::unexpected(Error::kNameTooLong);
  return {};
}

// RFC 1813 §3.3.8 to §3.3.11, §3.3.15: both names exist already.
inline constexpr Error kDotsWhenCreating = Error::kExist;
// RFC 1813 §3.3.14.
inline constexpr Error kDotsWhenRenaming = Error::kInvalid;
// RFC 1813 §3.3.13 has a different error for each of the two names. A plain Remove finds a directory.
inline Error DotsWhenRemovingDirectory(std::string_view name) { return name == "." ? Error::kInvalid : Error::kExist; }
inline constexpr Error kDotsWhenRemoving = Error::kIsDir;

}  // namespace penstock::fs
