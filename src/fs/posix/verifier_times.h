// Where an exclusive Create keeps its verifier.
#pragma once

#include "fs/types.h"

namespace penstock::fs::posix {

// The times in which an exclusive Create stores its verifier until the client sets the file's times (RFC 1813
// §3.3.8): 31 bits in the seconds of each time, which every file system can store, and the remaining two in their
// nanoseconds.
struct VerifierTimes {
  SetTime atime, mtime;

  explicit VerifierTimes(CreateVerifier verifier) {
    atime = mtime = SetTime{SetTime::How::kGiven, {}};
    atime.time = Half(static_cast<uint32_t>(verifier.value()));
    mtime.time = Half(static_cast<uint32_t>(verifier.value() >> 32));
  }
  bool Match(const Attributes& file) const { return file.atime == atime.time && file.mtime == mtime.time; }

 private:
  static Timestamp Half(uint32_t bits) { return {bits & 0x7fffffff, bits >> 31}; }
};

}  // namespace penstock::fs::posix
