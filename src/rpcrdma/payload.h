// Builds the Payload stream of a message as a list of pieces for an RDMA Send or Write. The provider gathers the
// pieces, so that no octets are copied.
#pragma once

#include <cstddef>
#include <functional>

#include "rdma/endpoint.h"
#include "rpc/transport.h"

namespace penstock::rpcrdma {

// A predicate: true if the n-th item of a message is reduced, that is, travels in a chunk and not in the stream.
template <class F>
concept ReducedPredicate = std::predicate<F, size_t>;

// The size of the Payload stream: the message's stream, and the items that are not reduced, with their padding.
template <ReducedPredicate Reduced>
size_t PayloadSize(const rpc::Message& message, Reduced reduced) {
  size_t size = message.stream.size();
  for (size_t n = 0; n < message.items.size(); ++n) {
    if (!reduced(n)) size += RoundUp(message.items[n].data.size(), 4);
  }
  return size;
}

// Appends `data` to `out`, unless it is empty.
void AppendPiece(Data data, rdma::Gather& out);
// Appends the XDR padding of an item of `size` octets.
void AppendPadding(size_t size, rdma::Gather& out);

// Appends the Payload stream of `message` to `out`. See PayloadSize().
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

// Cuts a Gather into consecutive parts of any size, such as the segments of a chunk.
class GatherCursor {
 public:
  explicit GatherCursor(const rdma::Gather& gather) : gather_(gather) {}
  // Returns the next `size` octets. Requires that the Gather has that many left.
  rdma::Gather Take(size_t size);

 private:
  const rdma::Gather& gather_;
  size_t piece_ = 0;
  size_t offset_ = 0;  // within that piece
};

}  // namespace penstock::rpcrdma
