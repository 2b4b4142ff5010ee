// The policy that decides whether a client gets a delegation (RFC 8881 §10.4, §18.16.3). It is a pure function of facts
// about the request and the file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/timer.h"
#include "nfs/v4/state/files/share.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

// The client's preference for a delegation (OPEN4_SHARE_ACCESS_WANT_*). In version 4.0 it is always kNoPreference.
enum class Want : uint8_t { kNoPreference, kRead, kWrite, kAny, kNone, kCancel };

struct DelegationFacts {
  Want want = Want::kNoPreference;
  Share share{};               // of the OPEN that asks
  bool offered = true;         // the settings and the request allow a delegation
  bool can_call_back = false;  // callbacks reach the client, so the delegation can be recalled
  bool writable = true;        // the client may write the file
  bool recent_conflict = false;
  bool changing = false;  // a request is changing the file now, which would violate the delegation
  bool room = true;
  // The state that clients already have of the file.
  bool others_open = false;
  bool others_write = false;  // other clients have it open for writing
  bool others_hold = false;   // other clients hold a delegation of any kind
  bool others_hold_write = false;
  std::optional<bool> own_is_write{};  // if the client holds a delegation: whether it is for writing
};

struct DelegationDecision {
  nfs4::open_delegation_type4 type = nfs4::OPEN_DELEGATE_NONE;  // OPEN_DELEGATE_READ or _WRITE if one is given
  nfs4::why_no_delegation4 why = nfs4::WND4_NOT_WANTED;         // if none is given
};

DelegationDecision Decide(const DelegationFacts& facts);

// Files whose delegations were recalled lately: another delegation would soon be recalled, too. The table has a fixed
// size. A file may displace another one, and two files with the same hash count as one file; neither does harm.
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
