#include "rpc/gss/sealing.h"

#include <array>
#include <cassert>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "protocol/rpcsec_gss.h"
#include "rpc/header.h"
#include "xdr/decode.h"
#include "xdr/flatten.h"

namespace penstock::rpc::gss {
namespace {

// The size of an accepted reply up to its verifier (XID, direction, accepted), and the size of an empty verifier with
// the status.
constexpr size_t kVerifierAt = 12;
constexpr size_t kStatusAt = 20;
constexpr size_t kResultsAt = 24;
constexpr size_t kWord = 4;

uint32_t WordAt(const Message& message, size_t at) { return LoadBig<uint32_t>(message.stream.data() + at); }

// Decodes rpc_gss_data_t: the sequence number of the seal, then the arguments.
bool BeginsWith(ConstBytes body, uint32_t sequence) {
  return body.size() >= kWord && LoadBig<uint32_t>(body.data()) == sequence;
}

// Writes into a buffer that must be large enough.
class Writer {
 public:
  explicit Writer(Bytes room) : room_(room) {}

  void U32(size_t value) { StoreBig(Skip(kWord).data(), static_cast<uint32_t>(value)); }
  void Octets(ConstBytes octets) { CopyBytes(Skip(octets.size()), octets); }
  void Opaque(ConstBytes octets) {
    U32(octets.size());
    Octets(octets);
    Pad();
  }
  void Pad() {
    while (done_ % kWord != 0) Skip(1)[0] = std::byte{0};
  }
  Bytes Skip(size_t count) {
    assert(room_.size() - done_ >= count);
    const Bytes skipped = room_.subspan(done_, count);
    done_ += count;
    return skipped;
  }
  size_t done() const { return done_; }

 private:
  const Bytes room_;
  size_t done_ = 0;
};

void WriteHeader(Writer& writer, const Message& plain, const Mic& verifier) {
  writer.Octets(plain.stream.bytes().first(kVerifierAt));
  writer.U32(static_cast<size_t>(AuthFlavor::RPCSEC_GSS));
  writer.Opaque(verifier.bytes());
  writer.Octets(plain.stream.bytes().subspan(kStatusAt, kWord));
}

size_t HeaderSize(size_t mic) { return kResultsAt + RoundUp(mic, kWord); }

Result<void> WriteData(Writer& writer, uint32_t sequence, const Message& results) {
  Result<void> written;
  writer.U32(sequence);
  xdr::ForEachPiece(results, [&writer, &written](const auto& piece) {
    if constexpr (std::is_same_v<std::decay_t<decltype(piece)>, Data>) {
      const auto read = piece.CopyTo(writer.Skip(piece.size()));
      if (!read) written = std::unexpected(Failure{.text = "cannot read its file: " + read.error().message()});
    } else {
      writer.Octets(piece);
    }
  });
  return written;
}

}  // namespace

Message Behind(const Message& message, size_t count) {
  Message rest;
  rest.stream = message.stream.Sub(count, message.stream.size() - count);
  rest.items.reserve(message.items.size());
  for (const xdr::Item& item : message.items) {
    assert(item.offset >= count);
    rest.items.push_back({item.offset - count, item.data});
  }
  rest.padding = message.padding;
  rest.padding.offset += static_cast<uint32_t>(count);
  return rest;
}

std::optional<Message> UnsealIntegrity(SecurityContext& context, uint32_t sequence, const Message& sealed) {
  const auto data = xdr::DecodeWhole<rpcsecgss::rpc_gss_integ_data>(sealed);
  if (!data) return std::nullopt;
  const ConstBytes body = data->databody_integ.bytes();
  if (const auto verified = context.mechanism->VerifyMic(body, data->checksum.bytes()); !verified) {
    log::debug("arguments of {}: {}", context.initiator.names.display, verified.error().text);
    return std::nullopt;
  }
  if (!BeginsWith(body, sequence)) return std::nullopt;
  return Message::Whole(Slice(sealed.stream.owner(), body.subspan(kWord)));
}

std::optional<Message> UnsealPrivacy(SecurityContext& context, uint32_t sequence, const Message& sealed,
                                     const BufferRef& room) {
  const auto data = xdr::DecodeWhole<rpcsecgss::rpc_gss_priv_data>(sealed);
  if (!data) return std::nullopt;
  const Bytes body = room->bytes().first(data->databody_priv.size());
  CopyBytes(body, data->databody_priv.bytes());
  const auto text = context.mechanism->Unwrap(body);
  if (!text) {
    log::debug("arguments of {}: {}", context.initiator.names.display, text.error().text);
    return std::nullopt;
  }
  if (!BeginsWith(*text, sequence)) return std::nullopt;
  return Message::Whole(Slice(room, text->subspan(kWord)));
}

bool IsAccepted(const Message& plain) {
  return plain.stream.size() >= kResultsAt && WordAt(plain, 8) == static_cast<uint32_t>(rpcmsg::MSG_ACCEPTED);
}

bool HasResults(const Message& plain) {
  return IsAccepted(plain) && WordAt(plain, kStatusAt) == static_cast<uint32_t>(AcceptStatus::SUCCESS);
}

Message WithVerifier(BufferPool& pool, const Message& plain, const Mic& verifier) {
  assert(IsAccepted(plain) && WordAt(plain, kVerifierAt + kWord) == 0);
  const size_t header = HeaderSize(verifier.size);
  BufferRef buffer = pool.Allocate(header + plain.stream.size() - kResultsAt);
  Writer writer(buffer->bytes());
  WriteHeader(writer, plain, verifier);
  writer.Octets(plain.stream.bytes().subspan(kResultsAt));
  Message reply;
  const ConstBytes stream = buffer->bytes().first(writer.done());
  reply.stream = Slice(std::move(buffer), stream);
  for (const xdr::Item& item : plain.items) reply.items.push_back({item.offset - kResultsAt + header, item.data});
  return reply;
}

Result<SealPlan> PlanSeal(SecurityContext& context, GssService service, const Message& plain, const Mic& verifier) {
  SealPlan plan{.service = service, .results = plain.flat_size() - kResultsAt, .wrap = {}, .size = 0};
  const size_t data = kWord + plan.results;
  if (service == GssService::kIntegrity) {
    plan.size = HeaderSize(verifier.size) + kWord + data + kWord + verifier.room.size();
  } else {
    PENSTOCK_TRY(plan.wrap, context.mechanism->RoomToWrap(data));
    plan.size = HeaderSize(verifier.size) + kWord + RoundUp(plan.wrap.before + data + plan.wrap.behind, kWord);
  }
  return plan;
}

Result<void> WriteResults(const SealPlan& plan, uint32_t sequence, const Message& plain, const Mic& verifier,
                          const BufferRef& room) {
  Writer writer(room->bytes());
  WriteHeader(writer, plain, verifier);
  const Message results = Behind(plain, kResultsAt);
  const size_t data = kWord + plan.results;
  writer.U32(plan.wrap.before + data + plan.wrap.behind);
  writer.Skip(plan.wrap.before);
  return WriteData(writer, sequence, results);
}

Result<Message> SealResults(SecurityContext& context, const SealPlan& plan, const Mic& verifier,
                            const BufferRef& room) {
  Writer writer(room->bytes());
  writer.Skip(HeaderSize(verifier.size) + kWord);
  const Bytes body = writer.Skip(plan.wrap.before + kWord + plan.results + plan.wrap.behind);
  writer.Pad();
  if (plan.service == GssService::kIntegrity) {
    Mic checksum;
    PENSTOCK_CHECK(context.mechanism->GetMic(body, checksum));
    writer.Opaque(checksum.bytes());
  } else {
    PENSTOCK_CHECK(context.mechanism->Wrap(body, plan.wrap));
  }
  return Message::Whole(Slice(room, room->bytes().first(writer.done())));
}

size_t SealOverhead(const SecurityContext& context, GssService service) {
  const size_t mic = RoundUp(context.mic_size, kWord);
  switch (service) {
    case GssService::kNone:
      return mic;
    case GssService::kIntegrity:
      return mic + 3 * kWord + mic;
    case GssService::kPrivacy:
      return mic + 2 * kWord + RoundUp(context.wrap_room.before + context.wrap_room.behind, kWord);
  }
  return 0;
}

}  // namespace penstock::rpc::gss
