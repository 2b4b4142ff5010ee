#include "rpcrdma/padding.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "rpc/connection_control.h"
#include "rpcrdma/payload.h"

namespace penstock::rpcrdma {
namespace {

// Calls visit(item, size of the pad in front of its octets) for each item.
template <class Visitor>
void ForEachItem(const rpc::Message& call, const xdr::Padding& padding, Visitor visit) {
  size_t inserted = 0;  // octets of the earlier items and pads
  for (const xdr::Item& item : call.items) {
    const size_t pad = padding.PadAt(item.offset + inserted, item.data.size());
    visit(item, pad);
    inserted += pad + RoundUp(item.data.size(), 4);
  }
}

void AppendPad(size_t size, rdma::Gather& out) {
  static constexpr std::array<std::byte, rpc::kMostPadding> kZeros{};
  assert(size < kZeros.size());
  AppendPiece(Slice::Borrowed(ConstBytes(kZeros).first(size)), out);
}

}  // namespace

bool HasPads(const rpc::Message& call, const xdr::Padding& padding) {
  const auto is_long = [&](const xdr::Item& item) { return item.data.size() >= padding.threshold; };
  return padding.boundary != 0 && std::ranges::any_of(call.items, is_long);
}

size_t PaddedSize(const rpc::Message& call, const xdr::Padding& padding) {
  size_t size = call.stream.size();
  ForEachItem(call, padding, [&](const xdr::Item& item, size_t pad) { size += pad + RoundUp(item.data.size(), 4); });
  return size;
}

void AppendPadded(const rpc::Message& call, const xdr::Padding& padding, rdma::Gather& out) {
  size_t done = 0;
  ForEachItem(call, padding, [&](const xdr::Item& item, size_t pad) {
    AppendPiece(call.stream.Sub(done, item.offset - done), out);
    AppendPad(pad, out);
    AppendPiece(item.data, out);
    AppendPadding(item.data.size(), out);
    done = item.offset;
  });
  AppendPiece(call.stream.Sub(done, call.stream.size() - done), out);
}

}  // namespace penstock::rpcrdma
