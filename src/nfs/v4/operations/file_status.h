// The error of minor version 2's data operations for an object without data, which is the same for all of them (RFC
// 7862 §15.1.3, §15.2.3, §15.4.3, §15.13.3).
#pragma once

#include <optional>

#include "nfs/v4/attributes/convert.h"

namespace penstock::nfs::v4 {

inline nfs4::nfsstat4 FileStatus(fs::Error error, const std::optional<fs::Attributes>& attributes) {
  const bool other_type = error == fs::Error::kIsDir || error == fs::Error::kInvalid;
  if (other_type && attributes && attributes->type != fs::FileType::kRegular) return nfs4::NFS4ERR_WRONG_TYPE;
  return ToStatus(error);
}

template <class T>
nfs4::nfsstat4 FileStatus(const fs::Changed<T>& changed) {
  return changed.result ? nfs4::NFS4_OK : FileStatus(changed.result.error(), changed.object.after);
}
template <class T>
nfs4::nfsstat4 FileStatus(const fs::Observed<T>& observed) {
  return observed.result ? nfs4::NFS4_OK : FileStatus(observed.result.error(), observed.attributes);
}

}  // namespace penstock::nfs::v4
