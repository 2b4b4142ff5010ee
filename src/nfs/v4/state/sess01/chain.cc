#include "nfs/v4/state/sess01/chain.h"

#include <cassert>

namespace penstock::nfs::v4::sess01 {

ChainRun::Turn ChainRun::TurnOf(Place place) const {
  assert(place < places_ && place >= turn_);
  if (place >= broken_from_) return Turn::kBroken;
  return place == turn_ ? Turn::kRun : Turn::kWait;
}

void ChainRun::Finish(Place place, bool complete, const Filehandles& left) {
  assert(place == turn_ && place < places_);
  ++turn_;
  if (!complete) BreakFrom(turn_);
  filehandles_ = left;
}

Result<Chain::Judged, nfs4::nfsstat4> Chain::Judge(nfs4::ChainFlags flag, bool retry) {
  const std::unexpected invalid(nfs4::NFS4ERR_SESS01_CHAIN_INVALID);
  const std::unexpected broken(nfs4::NFS4ERR_SESS01_CHAIN_BROKEN);
  const bool alone = flag == nfs4::NOCHAIN || flag == nfs4::CHAINBEGIN;
  if (retry) return alone ? Result<Judged, nfs4::nfsstat4>(Judged{}) : broken;
  switch (flag) {
    case nfs4::NOCHAIN:
      open_ = nullptr;
      return Judged{};
    case nfs4::CHAINBEGIN:
      if (open_) return invalid;
      open_ = std::make_shared<ChainRun>();
      return Join();
    case nfs4::CHAINCONTINUE:
      if (!open_) return invalid;
      if (open_->broken()) return broken;
      return Join();
    case nfs4::CHAINEND: {
      if (!open_) return invalid;
      const std::shared_ptr<ChainRun> run = std::exchange(open_, nullptr);
      if (run->broken()) return broken;
      return Judged{run, run->places_++};
    }
  }
  return invalid;
}

void Chain::Refuse(nfs4::ChainFlags flag) {
  if (flag == nfs4::CHAINCONTINUE || flag == nfs4::CHAINEND) Miss();
  if (flag == nfs4::CHAINEND || flag == nfs4::NOCHAIN) open_ = nullptr;
}

}  // namespace penstock::nfs::v4::sess01
