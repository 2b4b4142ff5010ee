// What was written to an open file and is perhaps not yet on the server's stable storage (RFC 1813 §4.11).
#pragma once

#include <optional>

#include "client/mount.h"

namespace penstock::library {

class Unsynced {
 public:
  // Notes the verifier of a WRITE reply.
  void Note(const client::Verifier& verifier) {
    if (verifier_ && *verifier_ != verifier) lost_ = true;
    verifier_ = verifier;
  }
  // Adds what another one has noted before this one.
  void AddEarlier(const Unsynced& earlier) {
    lost_ = lost_ || earlier.lost_ || (verifier_ && earlier.verifier_ && *verifier_ != *earlier.verifier_);
    if (!verifier_) verifier_ = earlier.verifier_;
  }
  bool empty() const { return !verifier_; }
  // Whether a COMMIT with this verifier, which was sent after the WRITEs, has made everything stable.
  bool IsStableAfter(const client::Verifier& committed) const {
    return !lost_ && (!verifier_ || *verifier_ == committed);
  }

 private:
  std::optional<client::Verifier> verifier_;
  bool lost_ = false;  // the server has restarted between two WRITEs
};

}  // namespace penstock::library
