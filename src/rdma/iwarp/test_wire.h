// Helpers for tests that play the peer of an RdmapStream octet by octet.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "rdma/iwarp/rdmap_stream.h"

namespace penstock::rdma::iwarp {

using Octets = std::vector<std::byte>;

// Returns the octets of text like "00 2a 41 43". Blanks are ignored.
inline Octets FromHex(std::string_view text) {
  Octets octets;
  int digits = 0;
  unsigned value = 0;
  for (char c : text) {
    if (c == ' ' || c == '\n') continue;
    value = value << 4 | static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
    if (++digits % 2 == 0) octets.push_back(std::byte(value & 0xff));
  }
  return octets;
}

inline Octets Pattern(size_t size, uint32_t seed = 1) {
  Octets octets(size);
  for (std::byte& octet : octets) octet = std::byte((seed = seed * 1664525 + 1013904223) >> 24);
  return octets;
}

inline Gather GatherOf(ConstBytes bytes) {
  Gather gather;
  gather.push_back(Slice::Borrowed(bytes));
  return gather;
}

inline Entropy TestEntropy(uint64_t seed = 1) {
  return [state = seed]() mutable {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  };
}

// Appends the octets of a part that is in memory to `out`, at most `at_most`.
inline void Drain(FpduWriter::Part part, size_t at_most, Octets& out) {
  for (const iovec& piece : part.memory) {
    const auto* at = static_cast<const std::byte*>(piece.iov_base);
    const size_t size = std::min(piece.iov_len, at_most);
    out.insert(out.end(), at, at + size);
    at_most -= size;
  }
}

// Takes all octets that the stream sends, at most `at_most_per_call` at a time.
inline Octets TakeOutput(RdmapStream& stream, size_t at_most_per_call = ~size_t{0}) {
  Octets all;
  for (;;) {
    Octets some;
    Drain(stream.NextToSend(), at_most_per_call, some);
    if (some.empty()) return all;
    stream.HandleSent(some.size());
    all.insert(all.end(), some.begin(), some.end());
  }
}

// Hands `bytes` to the stream as a socket does, `step(left)` octets at a time.
template <class Step>
void Feed(RdmapStream& stream, ConstBytes bytes, const Step& step) {
  Octets staging(kMaxUlpdu + 1000);
  while (!bytes.empty()) {
    const FpduReader::Places places = stream.Wants(staging);
    const size_t size =
        std::min({bytes.size(), places.direct.size() + places.staging.size(), std::max<size_t>(step(bytes.size()), 1)});
    const size_t direct = std::min(size, places.direct.size());
    CopyBytes(places.direct, bytes.first(direct));
    CopyBytes(places.staging, bytes.subspan(direct, size - direct));
    stream.HandleReceived(size, staging);
    bytes = bytes.subspan(size);
  }
}
inline void Feed(RdmapStream& stream, ConstBytes bytes) {
  Feed(stream, bytes, [](size_t left) { return left; });
}

inline std::vector<rdma::Completion> PollAll(RdmapStream& stream) {
  std::vector<rdma::Completion> all(1000);
  all.resize(stream.Poll(all));
  return all;
}

// Makes FPDUs with any header and any payload.
class Forge {
 public:
  explicit Forge(Framing framing = {.crc = false, .markers = false}) : writer_(framing, pool_) {}

  template <class Header>
  Octets Segment(const Header& header, ConstBytes payload = {}) {
    std::array<std::byte, Header::kSize> bytes;
    header.Serialize(bytes.data());
    const Data data = Slice::Borrowed(payload);
    GatherCursor cursor(std::span(&data, 1));
    writer_.Add(bytes, {}, &cursor, payload.size());
    Octets out;
    Drain(writer_.Next(), ~size_t{0}, out);
    writer_.HandleSent(out.size());
    return out;
  }

 private:
  BufferPool pool_;
  FpduWriter writer_;
};

inline TaggedHeader Tagged(Opcode opcode, Stag stag, uint64_t offset, bool last = true) {
  TaggedHeader header;
  header.control.last = last;
  header.control.opcode = static_cast<uint8_t>(opcode);
  header.stag = stag;
  header.offset = offset;
  return header;
}

inline UntaggedHeader Untagged(Opcode opcode, uint32_t queue, uint32_t msn, uint32_t offset = 0, bool last = true) {
  UntaggedHeader header;
  header.control.last = last;
  header.control.opcode = static_cast<uint8_t>(opcode);
  header.queue = queue;
  header.msn = Msn(msn);
  header.offset = offset;
  return header;
}

inline RdmapStream::Options PlainOptions(bool initiator) {
  RdmapStream::Options options;
  options.agreement = {.crc = false, .ird = 2, .ord = 2};
  options.initiator = initiator;
  return options;
}

}  // namespace penstock::rdma::iwarp
