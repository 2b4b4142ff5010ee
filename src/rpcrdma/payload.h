// A message's bytes as pieces for an RDMA Send or Write, without putting them together first.
#pragma once

#include <cstddef>
#include <functional>

#include "rdma/endpoint.h"
#include "rpc/transport.h"

namespace penstock::rpcrdma {

// Whether the n-th item of a message travels apart from the stream.
template <class F>
concept ReducedPredicate = std::predicate<F, size_t>;

// Octets of `message`'s stream with the items that are not reduced, and their padding.
template <ReducedPredicate Reduced>
size_t PayloadSize(const rpc::Message& message, Reduced reduced) {
  size_t size = message.stream.size();
  for (size_t n = 0; n < message.items.size(); ++n) {
    if (!reduced(n)) size += RoundUp(message.items[n].data.size(), 4);
  }
  return size;
}

// Appends those octets to `out`.
void AppendPiece(Data data, rdma::Gather& out);
void AppendPadding(size_t size, rdma::Gather& out);

template <ReducedPredicate Reduced>
void AppendPayload(const rpc::Message& message, Reduced reduced, rdma::Gather& out) {
  size_t done = 0;
  for (size_t n = 0; n < message.items.size(); ++n) {
    const xdr::Item& item = message.items[n];
    if (reduced(n)) continue;
    AppendPiece(message.stream.Sub(done, item.offset - done), out);
    AppendPiece(item.data, out);
    AppendPadding(item.data.size(), out);
    done = item.offset;
  }
  AppendPiece(message.stream.Sub(done, message.stream.size() - done), out);
}

// Deals out a Gather in portions of any size.
class GatherCursor {
 public:
  explicit GatherCursor(const rdma::Gather& gather) : gather_(gather) {}
  // The next `size` octets. Requires that there are so many.
  rdma::Gather Take(size_t size);

 private:
  const rdma::Gather& gather_;
  size_t piece_ = 0;
  size_t offset_ = 0;  // in that piece
};

}  // namespace penstock::rpcrdma
