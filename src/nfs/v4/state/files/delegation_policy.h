// Whether a client is given a delegation: one decision, made of facts (RFC 8881 §10.4, §18.16.3).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/timer.h"
#include "nfs/v4/state/files/share.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

// What a client says that it wants (OPEN4_SHARE_ACCESS_WANT_*). Nothing in version 4.0.
enum class Want : uint8_t { kNoPreference, kRead, kWrite, kAny, kNone, kCancel };

struct DelegationFacts {
  Want want = Want::kNoPreference;
  Share share{};               // of the OPEN that asks
  bool offered = true;         // by the operator, for this file, at this time
  bool can_call_back = false;  // it could be recalled
  bool writable = true;        // the export is
  bool recent_conflict = false;
  bool changing = false;  // somebody is just about it: a delegation would be violated as soon as it is given
  bool room = true;
  // What there is on the file already.
  bool others_open = false;
  bool others_write = false;  // some of others' opens do
  bool others_hold = false;   // a delegation of any kind
  bool others_hold_write = false;
  std::optional<bool> own_is_write{};  // the client holds one, of that kind
};

struct DelegationDecision {
  nfs4::open_delegation_type4 type = nfs4::OPEN_DELEGATE_NONE;  // OPEN_DELEGATE_READ or _WRITE where there is one
  nfs4::why_no_delegation4 why = nfs4::WND4_NOT_WANTED;         // where there is none
};

DelegationDecision Decide(const DelegationFacts& facts);

// Files whose delegations had to be recalled: giving out another one soon would only be recalled again. A table of fixed size, in
// which files may take each other's place or be taken for each other: neither does harm.
class RecentConflicts {
 public:
  explicit RecentConflicts(Duration memory) : memory_(memory) {}
  void Note(size_t file_hash, TimePoint now) { places_[file_hash % kPlaces] = {file_hash, now}; }
  bool Has(size_t file_hash, TimePoint now) const {
    const Place& place = places_[file_hash % kPlaces];
    return place.at && place.file_hash == file_hash && now - *place.at < memory_;
  }

 private:
  static constexpr size_t kPlaces = 1024;
  struct Place {
    size_t file_hash = 0;
    std::optional<TimePoint> at;
  };
  Duration memory_;
  std::array<Place, kPlaces> places_{};
};

}  // namespace penstock::nfs::v4
