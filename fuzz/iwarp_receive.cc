// Feeds a peer's octets to MPA negotiation, and then to a connection with posted receives, registered regions and Reads
// under way. The input decides the agreement, the splits of the stream, and the time at which a region is invalidated.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "rdma/iwarp/mpa_negotiation.h"
#include "rdma/iwarp/rdmap_stream.h"

using namespace penstock;               // NOLINT: a program of its own
using namespace penstock::rdma;         // NOLINT
using namespace penstock::rdma::iwarp;  // NOLINT

namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

// Uses small STags and offsets, so that the fuzzer finds them.
Entropy CountingEntropy() {
  return [next = uint64_t{0}]() mutable { return ++next; };
}

void TakeOutput(RdmapStream& stream) {
  for (;;) {
    size_t size = 0;
    for (const iovec& piece : stream.NextToSend().memory) size += piece.iov_len;
    if (size == 0) return;
    stream.HandleSent(size);
  }
}

void Negotiate(ConstBytes frame) {
  for (auto kind : {MpaFrame::Kind::kRequest, MpaFrame::Kind::kReply}) {
    if (frame.size() < MpaFrame::kHeaderSize) return;
    auto size = MpaFrame::PrivateDataSize(frame, kind);
    if (!size || frame.size() < MpaFrame::kHeaderSize + *size) continue;
    auto parsed = MpaFrame::Parse(frame.first(MpaFrame::kHeaderSize + *size), kind);
    if (!parsed) continue;
    Check(!parsed->ToString().empty());
    if (kind == MpaFrame::Kind::kRequest) {
      MpaAnswer answer = AcceptRequest({}, *parsed, {});
      Check(MpaFrame::Parse(answer.reply.Serialize(), MpaFrame::Kind::kReply) == answer.reply);
    } else if (!parsed->rejected) {
      MpaPreferences preferences{.peer_to_peer = true};
      auto agreement = HandleReply(preferences, MakeRequest(preferences, {}), *parsed);
      if (agreement) Check(agreement->ord <= preferences.ord);
    }
  }
}

void Converse(unsigned options, ConstBytes octets, ConstBytes cuts) {
  BufferPool pool;
  std::vector<std::byte> writable_memory(4096), readable_memory(4096), sink(512);
  {
    RdmapStream::Options agreed;
    agreed.agreement.crc = options & 1;
    agreed.agreement.receive_markers = options & 2;
    agreed.agreement.send_markers = options & 4;
    agreed.agreement.absorb_rtr_send = options & 8;
    agreed.agreement.ird = agreed.agreement.ord = 2;
    agreed.initiator = options & 16;
    RdmapStream stream(agreed, pool, CountingEntropy());
    size_t posted = 0;
    for (; posted < 4; ++posted) stream.PostReceive({posted, 1000});
    auto writable = stream.Register(writable_memory, Access::kRemoteWrite);
    auto readable = stream.Register(readable_memory, Access::kRemoteRead);
    if (agreed.initiator) {
      for (int i = 0; i < 3; ++i, ++posted) stream.PostRead({posted, sink, {}, {Stag(1), 512, 0}});
    }
    TakeOutput(stream);

    std::vector<std::byte> staging(2000);
    size_t turn = 0;
    while (!octets.empty()) {
      const unsigned cut = cuts.empty() ? 255 : std::to_integer<unsigned>(cuts[turn % cuts.size()]);
      ++turn;
      const FpduReader::Places places = stream.Wants(staging);
      const size_t size = std::min({octets.size(), places.direct.size() + places.staging.size(), size_t{cut} + 1});
      const size_t direct = std::min(size, places.direct.size());
      CopyBytes(places.direct, octets.first(direct));
      CopyBytes(places.staging, octets.subspan(direct, size - direct));
      stream.HandleReceived(size, staging);
      octets = octets.subspan(size);
      if (cut == 77) writable.reset();
      if (cut == 78) readable.reset();
      if (cut % 3 == 0) TakeOutput(stream);
    }
    TakeOutput(stream);
    stream.HandleEndOfStream();
    // Each posted request must have completed once, before the end was reported.
    std::vector<rdma::Completion> done(posted + 2);
    Check(stream.Poll(done) == posted + 1);
    Check(done[posted].operation == Operation::kDisconnected);
  }
  Check(pool.outstanding() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const ConstBytes input = std::as_bytes(std::span(data, size));
  const size_t cuts = std::min<size_t>(data[1] % 32, size - 2);
  if (data[0] & 0x80) {
    Negotiate(input.subspan(1));
  } else {
    Converse(data[0], input.subspan(2 + cuts), input.subspan(2, cuts));
  }
  return 0;
}
