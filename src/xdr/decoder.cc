#include "xdr/decoder.h"

namespace penstock::xdr {

std::string_view ErrorName(Error error) {
  switch (error) {
    case Error::kNone:
      return "no error";
    case Error::kTruncated:
      return "truncated";
    case Error::kTooLong:
      return "length exceeds its bound";
    case Error::kBadBool:
      return "invalid bool";
    case Error::kBadEnum:
      return "invalid enum";
    case Error::kBadUnion:
      return "discriminant without an arm";
    case Error::kPayloadMismatch:
      return "payload length differs from the stream";
    case Error::kStrayPayload:
      return "payload at a place without a payload";
    case Error::kTrailing:
      return "trailing octets";
  }
  return "unknown";
}

bool Decoder::Payload(Data& data, size_t max) {
  size_t size;
  if (!Length(size, max)) return false;
  const size_t index = payloads_++;

  if (next_item_ < message_.items.size()) {
    const Item& item = message_.items[next_item_];
    if (item.offset < reduced_position()) return Fail(Error::kStrayPayload);
    if (item.offset == reduced_position()) {
      ++next_item_;
      return Beside(data, size, item.data);
    }
  }
  // An empty chunk in the reply means an empty result. A result with octets must be in its Write chunk if the call had
  // one (RFC 8166 §6.1).
  if (index < message_.placed.size() && message_.placed[index]) {
    return Beside(data, size, *message_.placed[index]);
  }

  const size_t pad = message_.padding.PadAt(reduced_position(), size);
  if (remaining() < pad) return Fail(Error::kTruncated);
  at_ += pad;
  pads_ += pad;

  ConstBytes bytes;
  if (!Fixed(bytes, size)) return false;
  data = Slice(message_.stream.owner(), bytes);
  return true;
}

// Takes a payload of `size` octets from a chunk. The chunk may include the padding: senders should not send it, but
// receivers must accept it (RFC 8166 §3.4.5.2).
bool Decoder::Beside(Data& data, size_t size, const Data& source) {
  if (source.size() == size) {
    data = source;
  } else if (source.size() == RoundUp(size, 4)) {
    data = source.Sub(0, size);
  } else {
    return Fail(Error::kPayloadMismatch);
  }
  beside_ += RoundUp(size, 4);
  return true;
}

bool Decoder::Finish() {
  if (error_ != Error::kNone) return false;
  if (remaining() != 0) return Fail(Error::kTrailing);
  if (next_item_ != message_.items.size()) return Fail(Error::kStrayPayload);
  for (size_t i = payloads_; i < message_.placed.size(); ++i) {
    if (message_.placed[i] && !message_.placed[i]->empty()) return Fail(Error::kStrayPayload);
  }
  return true;
}

}  // namespace penstock::xdr
