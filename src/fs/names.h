// Which names are names: one component of a path, as every backend checks it before anything else sees it.
#pragma once

#include <string_view>

#include "fs/types.h"

namespace penstock::fs {

inline bool IsDots(std::string_view name) { return name == "." || name == ".."; }

// For looking up: "." and ".." are names too.
inline Result<void> CheckName(std::string_view name, size_t name_max) {
  if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos) {
    return std::unexpected(Error::kBadName);
  }
  if (name.size() > name_max) return std::unexpected(Error::kNameTooLong);
  return {};
}

// For everything that makes or takes away a name; `dots` is what "." and ".." are answered with.
inline Result<void> CheckOrdinaryName(std::string_view name, size_t name_max, Error dots) {
  if (IsDots(name)) return std::unexpected(dots);
  return CheckName(name, name_max);
}

// Of an extended attribute, whose name stands alone: "user." goes before it where it is kept.
inline constexpr size_t kXattrNameMax = 255 - 5;
inline Result<void> CheckXattrName(std::string_view name) {
  if (name.empty() || name.find('\0') != name.npos) return std::unexpected(Error::kInvalid);
  if (name.size() > kXattrNameMax) return std::unexpected(Error::kNameTooLong);
  return {};
}

// RFC 1813 §3.3.8 to §3.3.11, §3.3.15: both are there already.
inline constexpr Error kDotsWhenCreating = Error::kExist;
// RFC 1813 §3.3.14.
inline constexpr Error kDotsWhenRenaming = Error::kInvalid;
// RFC 1813 §3.3.13 has one error for each of the two; a plain Remove meets directories.
inline Error DotsWhenRemovingDirectory(std::string_view name) { return name == "." ? Error::kInvalid : Error::kExist; }
inline constexpr Error kDotsWhenRemoving = Error::kIsDir;

}  // namespace penstock::fs
