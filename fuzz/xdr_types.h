// The check of the XDR fuzz targets, applied to every type of a protocol.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "base/buffer.h"
#include "xdr/xdr.h"

namespace penstock::fuzz {

inline void Require(bool condition) {
  if (!condition) std::abort();
}

// If `message` decodes as a T, encodes it again. The result must decode to the same value, have the length EncodedSize,
// and not exceed MaxSize, both reduced and flat.
template <class T>
void CheckType(const xdr::Message& message) {
  static BufferPool pool;
  const auto value = xdr::DecodeWhole<T>(message);
  if (!value) {
    Require(value.error() != xdr::Error::kNone);
    return;
  }
  Require(xdr::Print(*value).size() <= 1024 + 3);

  xdr::Encoder encoder(pool);
  xdr::Encode(encoder, *value);
  Require(encoder.size() == xdr::EncodedSize(*value));
  Require(xdr::kExtent<T>.open || encoder.reduced_size() <= xdr::MaxSize<T>());
  Require(encoder.reduced_size() >= xdr::kExtent<T>.min);
  Require(encoder.payload_count() <= xdr::kExtent<T>.payloads);

  const xdr::Message again = encoder.Finish();
  Require(xdr::DecodeWhole<T>(again) == value);
  const xdr::Message flat = xdr::Message::Whole(xdr::Unreduce(pool, again));
  Require(flat.stream.size() == again.flat_size());
  Require(xdr::DecodeWhole<T>(flat) == value);
}

// Checks the arguments and results of the procedure that `which` selects.
template <class Procedures>
void CheckProcedure(uint8_t which, const xdr::Message& message) {
  uint8_t index = 0;
  Procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
    if (index++ == which % (2 * Procedures::kCount)) CheckType<typename Procedure::Arguments>(message);
    if (index++ == which % (2 * Procedures::kCount)) CheckType<typename Procedure::Results>(message);
  });
}

inline xdr::Message AsMessage(const uint8_t* data, size_t size) {
  return xdr::Message::Whole(Slice::Borrowed(std::as_bytes(std::span(data, size))));
}

}  // namespace penstock::fuzz
