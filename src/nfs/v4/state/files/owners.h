// The sequence of an open-owner or lock-owner in version 4.0: the requests of one owner come one after another, and the
// reply to the last one is kept for a retry (RFC 7530 §9.1.7). Later versions have sessions instead.
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

// The results of an operation, and the data that they refer to.
struct OwnerReply {
  std::variant<std::monostate, nfs4::OPEN4res, nfs4::OPEN_CONFIRM4res, nfs4::OPEN_DOWNGRADE4res, nfs4::CLOSE4res,
               nfs4::LOCK4res, nfs4::LOCKU4res>
      results;
  std::optional<FileHandle> opened{};  // for OPEN: the file that becomes the current one
  std::string denied_owner{};          // for LOCK: the owner that its results refer to
};

// RFC 7530 §9.1.7: after these errors the client uses the same seqid again.
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
    kRun,         // the next request, or the first one of the owner
    kReplay,      // a retry: last() is the reply
    kMisordered,  // NFS4ERR_BAD_SEQID
    kBusy,        // the request before is still under way
  };

  // Decides what to do with a request whose results would be of the type `Results`.
  template <class Results>
  Verdict Judge(SequenceId given) const {
    if (busy_) return Verdict::kBusy;
    if (!last_ || given == Next(*last_) || given.value() == last_->value() + 1) return Verdict::kRun;
    const bool again = given == *last_ && reply_ && std::holds_alternative<Results>(reply_->results);
    return again ? Verdict::kReplay : Verdict::kMisordered;
  }

  // Between Start() and Finish() the owner is busy.
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
  // Seqids wrap around to one (RFC 7530 §9.1.3); those of some clients wrap around to zero.
  static SequenceId Next(SequenceId last) { return SequenceId(last.value() == UINT32_MAX ? 1 : last.value() + 1); }

  std::optional<SequenceId> last_;
  bool busy_ = false;
  std::unique_ptr<OwnerReply> reply_;
};

}  // namespace penstock::nfs::v4
