// Open-owners and lock-owners, and in version 4.0 their sequence: requests of one owner come one after the other, and the reply to the
// last is kept for when it is sent again (RFC 7530 §9.1.7). Later versions have sessions for that.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "nfs/v4/state/ids.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

// What an operation answered, and what goes with it.
struct OwnerReply {
  std::variant<std::monostate, nfs4::OPEN4res, nfs4::OPEN_CONFIRM4res, nfs4::OPEN_DOWNGRADE4res, nfs4::CLOSE4res,
               nfs4::LOCK4res, nfs4::LOCKU4res>
      results;
  std::optional<FileHandle> opened{};  // of OPEN: the file that becomes the current one
  std::string denied_owner{};          // of LOCK: what its results refer to
};

// RFC 7530 §9.1.7: after these the client uses the same number again.
inline bool IsSequenced(nfs4::nfsstat4 status) {
  switch (status) {
    case nfs4::NFS4ERR_STALE_CLIENTID:
    case nfs4::NFS4ERR_STALE_STATEID:
    case nfs4::NFS4ERR_BAD_STATEID:
    case nfs4::NFS4ERR_BAD_SEQID:
    case nfs4::NFS4ERR_BADXDR:
    case nfs4::NFS4ERR_RESOURCE:
    case nfs4::NFS4ERR_NOFILEHANDLE:
    case nfs4::NFS4ERR_MOVED:
      return false;
    default:
      return true;
  }
}

class OwnerSequence {
 public:
  enum class Verdict : uint8_t {
    kRun,         // the next one, or the first that there is
    kReplay,      // last() is the answer
    kMisordered,  // NFS4ERR_BAD_SEQID
    kBusy,        // the one before is still under way
  };

  // What to do with a request whose results would be `Results`.
  template <class Results>
  Verdict Judge(SequenceId given) const {
    if (busy_) return Verdict::kBusy;
    if (!last_ || given == Next(*last_) || given.value() == last_->value() + 1) return Verdict::kRun;
    const bool again = given == *last_ && reply_ && std::holds_alternative<Results>(reply_->results);
    return again ? Verdict::kReplay : Verdict::kMisordered;
  }

  // Between these the owner is busy.
  void Start() { busy_ = true; }
  template <class Results>
  void Finish(SequenceId given, const Results& results, std::optional<FileHandle> opened = {},
              std::string denied_owner = {}) {
    busy_ = false;
    if (!IsSequenced(results.status())) return;
    last_ = given;
    reply_ = std::make_unique<OwnerReply>(results, opened, std::move(denied_owner));
  }

  bool busy() const { return busy_; }
  bool used() const { return busy_ || last_; }
  const OwnerReply& last() const { return *reply_; }  // requires a verdict of kReplay

 private:
  // Numbers wrap around to one (RFC 7530 §9.1.3); there are clients whose wrap around to zero.
  static SequenceId Next(SequenceId last) { return SequenceId(last.value() == UINT32_MAX ? 1 : last.value() + 1); }

  std::optional<SequenceId> last_;
  bool busy_ = false;
  std::unique_ptr<OwnerReply> reply_;
};

}  // namespace penstock::nfs::v4
