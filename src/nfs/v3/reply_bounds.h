// How large the reply to a call of NFSv3 can be: what a client must know before it sends the call over RDMA, to provide
// the chunks that the reply may need (RFC 8267 §3 and §4.1). rpc::Client adds what the types bound by themselves. Needs
// the protocol's definition alone, no server.
#pragma once

#include <concepts>
#include <cstddef>

#include "protocol/nfs3.h"
#include "rpc/client.h"

namespace penstock::nfs::v3 {

// READLINK's path has no bound in the protocol: this is the longest that a Linux server can have.
inline constexpr size_t kMaxPath = 4096;

namespace internal {

// What a count of READDIR or READDIRPLUS adds to the results' own size. It is the most that the whole resok may take
// (RFC 1813 §3.3.16, §3.3.17), of which the types know the part that is not entries.
template <class ResOk>
constexpr size_t OpenOctets(uint32_t count) {
  constexpr size_t kKnown = xdr::MaxSize<ResOk>();
  return count > kKnown ? count - kKnown : 0;
}

}  // namespace internal

// client.Call<Procedure>(arguments, ReplyBoundsOf<Procedure>(arguments)). `destination`: where the DDP-eligible result,
// of the two procedures that have one, is to go; empty leaves that to the transport.
template <class Procedure>
rpc::ReplyBounds ReplyBoundsOf(const typename Procedure::Arguments& arguments, Bytes destination = {}) {
  using Results = typename Procedure::Results;
  rpc::ReplyBounds bounds;
  if constexpr (std::same_as<Procedure, nfs3::NFSPROC3_READ>) {
    bounds.results.push_back({.max_length = arguments.count, .destination = destination});
  } else if constexpr (std::same_as<Procedure, nfs3::NFSPROC3_READLINK>) {
    bounds.results.push_back({.max_length = kMaxPath, .destination = destination});
  } else if constexpr (std::same_as<Procedure, nfs3::NFSPROC3_READDIR>) {
    bounds.open = internal::OpenOctets<nfs3::READDIR3resok>(arguments.count);
  } else if constexpr (std::same_as<Procedure, nfs3::NFSPROC3_READDIRPLUS>) {
    bounds.open = internal::OpenOctets<nfs3::READDIRPLUS3resok>(arguments.maxcount);
  } else {
    static_assert(!xdr::kExtent<Results>.open && xdr::kExtent<Results>.payloads == 0);
  }
  return bounds;
}

}  // namespace penstock::nfs::v3
