// Helpers that make octets for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "rdma/provider.h"
#include "xdr/message.h"

namespace penstock::rpcrdma {

using ByteVector = std::vector<std::byte>;

// 32-bit words in network byte order.
inline ByteVector Words(std::initializer_list<uint32_t> words) {
  ByteVector out(words.size() * 4);
  std::byte* at = out.data();
  for (uint32_t word : words) {
    StoreBig(at, word);
    at += 4;
  }
  return out;
}

// Joins `parts`.
inline ByteVector Concat(std::initializer_list<ConstBytes> parts) {
  ByteVector out;
  for (ConstBytes part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// Returns `size` octets of a pattern that depends on `seed`. A misplaced octet does not match the pattern.
inline ByteVector Pattern(size_t size, unsigned seed = 1) {
  ByteVector out(size);
  uint32_t word = seed * 2654435761u;
  for (size_t at = 0; at < size; at += sizeof(word)) {
    word = word * 1664525 + 1013904223;
    std::memcpy(out.data() + at, &word, std::min(sizeof(word), size - at));
  }
  return out;
}

// Joins the pieces of `gather`, which are in memory.
inline ByteVector Flat(const rdma::Gather& gather) {
  ByteVector out;
  for (const Data& piece : gather) {
    const ConstBytes bytes = piece.bytes();
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

// An item that borrows `bytes`.
inline xdr::Item ItemAt(size_t offset, ConstBytes bytes) { return {offset, Data(Slice::Borrowed(bytes))}; }

}  // namespace penstock::rpcrdma
