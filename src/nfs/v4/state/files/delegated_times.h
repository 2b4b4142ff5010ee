// The times of a file whose holder of a write delegation is the authority for them (RFC 9754 §5).
#pragma once

#include <algorithm>
#include <optional>

#include "fs/types.h"

namespace penstock::nfs::v4 {

struct DelegatedTimes {
  std::optional<fs::Timestamp> access;
  std::optional<fs::Timestamp> modify;
};

// Returns the times to believe of those that a holder reports. A time before `original`, the file's times when the
// delegation was given, is left out. A time after `now` becomes `now`.
inline DelegatedTimes Vet(const DelegatedTimes& reported, const DelegatedTimes& original, const fs::Timestamp& now) {
  const auto vet = [&](const std::optional<fs::Timestamp>& time,
                       const std::optional<fs::Timestamp>& first) -> std::optional<fs::Timestamp> {
    if (!time || (first && *time < *first)) return std::nullopt;
    return std::min(*time, now);
  };
  return {vet(reported.access, original.access), vet(reported.modify, original.modify)};
}

// Sets `values` to the vetted times that the file does not have yet. The access time is set only beside a modify time:
// RFC 9754 §5 does not let it advance time_metadata, and a file system cannot set it otherwise.
inline void SetTimes(const DelegatedTimes& vetted, const fs::Attributes& file, fs::NewAttributes& values) {
  if (!vetted.modify || *vetted.modify == file.mtime) return;
  values.mtime = {fs::SetTime::How::kGiven, *vetted.modify};
  if (vetted.access) values.atime = {fs::SetTime::How::kGiven, *vetted.access};
}

}  // namespace penstock::nfs::v4
