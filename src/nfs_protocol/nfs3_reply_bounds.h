// How large the reply to a call of NFSv3 or NFSACL can be. A client must know this before it sends the call over RDMA,
// because it provides the chunks that the reply may need (RFC 8267 §3, §4.1, §5.2). rpc::Client adds the part that the
// types bound.
#pragma once

#include <concepts>
#include <cstddef>

#include "nfs_protocol/path_limit.h"
#include "protocol/nfs3.h"
#include "rpc/client.h"

namespace penstock::nfs_protocol {

namespace internal {

// The octets that a count of READDIR or READDIRPLUS adds to the results' own size. The count limits the whole resok
// (RFC 1813 §3.3.16, §3.3.17); the types bound the part of resok that is not a list of entries.
template <class ResOk>
constexpr size_t OpenOctets(uint32_t count) {
  constexpr size_t kKnown = xdr::MaxSize<ResOk>();
  return count > kKnown ? count - kKnown : 0;
}

}  // namespace internal

// Returns the bounds for client.Call<Procedure>(arguments, bounds). READ and READLINK have a DDP-eligible result. It is
// placed at `destination`; an empty `destination` lets the transport choose the place.
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

}  // namespace penstock::nfs_protocol
