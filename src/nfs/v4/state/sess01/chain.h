// The chains of an operations channel (draft-talpey-nfsv4-rdma-sess-01 §2.7): requests that execute strictly in the
// sequence in which they arrived, and share the current and the saved filehandle. The first request that is incomplete
// breaks the chain: the server executes none of the requests that follow in it.
//
// A channel has at most one open chain. The next one may begin as soon as the last request of a chain has arrived, so
// requests of several chains may be under way. Each chain has a ChainRun, which its requests share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "nfs/file_handle.h"
#include "protocol/nfs4_sess01.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4::sess01 {

// The execution of one chain. Its size does not depend on the length of the chain. Without locks, like Chain.
class ChainRun {
 public:
  // The number of a request in its chain, from 0.
  using Place = uint64_t;
  struct Filehandles {
    std::optional<FileHandle> current{};
    std::optional<FileHandle> saved{};
    bool operator==(const Filehandles&) const = default;
  };

  enum class Turn : uint8_t {
    kWait,    // a request before this one has not finished
    kRun,     // execute the request, then call Finish()
    kBroken,  // do not execute the request: the answer is NFS4ERR_SESS01_CHAIN_BROKEN
  };
  // Ask again after each Finish() and Break().
  Turn TurnOf(Place place) const;

  // Ends the execution of the request whose turn it is. `complete` is false if an operation failed, or wrote or read
  // fewer octets than it was asked to before the end of the file. This breaks the chain. `left`: the filehandles at the
  // end of the request.
  void Finish(Place place, bool complete, const Filehandles& left);
  // Breaks the chain: its channel is lost, or one of its requests was taken back before its execution. The request
  // under way goes on.
  void Break() { BreakFrom(0); }

  bool broken() const { return broken_from_ != kNowhere; }
  // The filehandles with which the next request begins.
  const Filehandles& filehandles() const { return filehandles_; }

 private:
  friend class Chain;
  static constexpr Place kNowhere = std::numeric_limits<Place>::max();
  // Requests at this place and behind it are not executed.
  void BreakFrom(Place place) { broken_from_ = std::min(broken_from_, place); }

  Place places_ = 0;  // the places that were given
  Place turn_ = 0;
  Place broken_from_ = kNowhere;
  Filehandles filehandles_;
};

class Chain {
 public:
  // A request that may run. It is in a chain if `run` is not null.
  struct Judged {
    std::shared_ptr<ChainRun> run{};
    ChainRun::Place place = 0;
  };

  // Judges a request by its flag. Call it in the order of arrival, and only for a request that StreamTable::Start()
  // lets run. `retry`: the request names another channel than its own. A retry does not concern the chain of the
  // channel over which it comes: it runs alone, or gets an error. Errors:
  //   - NFS4ERR_SESS01_CHAIN_INVALID: CHAINBEGIN inside a chain, CHAINCONTINUE or CHAINEND outside;
  //   - NFS4ERR_SESS01_CHAIN_BROKEN: CHAINCONTINUE or CHAINEND of a broken chain, and as a retry: the loss of the
  //     channel broke the chain.
  // CHAINEND and NOCHAIN end the chain, also when it is broken. CHAIN_INVALID leaves the chain unchanged.
  Result<Judged, nfs4::nfsstat4> Judge(nfs4::ChainFlags flag, bool retry);

  // A request that has arrived over the channel will never be judged: it was malformed, or its arguments were lost. It
  // may have been one of the open chain, so the requests behind it are not executed. The earlier ones are.
  void Miss() {
    if (open_) open_->BreakFrom(open_->places_);
  }
  // The same for a request with this flag that was refused before Judge().
  void Refuse(nfs4::ChainFlags flag);

  // The channel is lost: breaks the open chain. The caller breaks the chains whose requests it takes back.
  void Lose() {
    if (open_) open_->Break();
  }

  bool open() const { return open_ != nullptr; }

 private:
  Judged Join() { return {open_, open_->places_++}; }

  std::shared_ptr<ChainRun> open_;
};

}  // namespace penstock::nfs::v4::sess01
