#include "rpcrdma/payload.h"

#include <algorithm>
#include <array>

namespace penstock::rpcrdma {

void AppendPiece(Data data, rdma::Gather& out) {
  if (!data.empty()) out.push_back(std::move(data));
}

void AppendPadding(size_t size, rdma::Gather& out) {
  static constexpr std::array<std::byte, 3> kZeros{};
  const size_t padding = RoundUp(size, 4) - size;
  if (padding > 0) out.push_back(Slice::Borrowed(ConstBytes(kZeros).first(padding)));
}

rdma::Gather GatherCursor::Take(size_t size) {
  rdma::Gather taken;
  while (size > 0) {
    const Data& piece = gather_[piece_];
    const size_t part = std::min(size, piece.size() - offset_);
    taken.push_back(piece.Sub(offset_, part));
    size -= part;
    offset_ += part;
    if (offset_ == piece.size()) {
      ++piece_;
      offset_ = 0;
    }
  }
  return taken;
}

}  // namespace penstock::rpcrdma
