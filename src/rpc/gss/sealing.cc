#include "rpc/gss/sealing.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <type_traits>
#include <utility>

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

// Decodes rpc_gss_data_t: the sequence number of the seal, then the arguments or results.
bool BeginsWith(ConstBytes body, uint32_t sequence) {
  return body.size() >= kWord && LoadBig<uint32_t>(body.data()) == sequence;
}

bool HasFiles(const Message& message) {
  return std::ranges::any_of(message.items, [](const xdr::Item& item) { return item.data.is_file(); });
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

// The sizes of a sealed message.
struct SealPlan {
  GssService service = GssService::kIntegrity;
  size_t head = 0;
  size_t data = 0;  // octets of the sequence number and the body, with payloads in their stream
  WrapRoom wrap;    // for privacy
  size_t size = 0;  // the maximum size of the message
};

// Requires the context's turn.
Result<SealPlan> PlanSeal(ProtectedContext& context, GssService service, size_t head, size_t body) {
  SealPlan plan{.service = service, .head = head, .data = kWord + body, .wrap = {}, .size = 0};
  if (service == GssService::kIntegrity) {
    plan.size = head + kWord + RoundUp(plan.data, kWord) + kWord + Mic().room.size();
  } else {
    PENSTOCK_TRY(plan.wrap, context.mechanism->RoomToWrap(plan.data));
    plan.size = head + kWord + RoundUp(plan.wrap.before + plan.data + plan.wrap.behind, kWord);
  }
  return plan;
}

// Writes the message without its seal. Reads payloads from files, so it may block, and fails if a file cannot be read.
// Any thread, without the context's turn.
Result<void> WritePlain(const SealPlan& plan, uint32_t sequence, const Head& head, const Message& body,
                        const BufferRef& room) {
  Writer writer(room->bytes());
  writer.Octets(head.bytes());
  writer.U32(plan.wrap.before + plan.data + plan.wrap.behind);
  writer.Skip(plan.wrap.before);
  Result<void> written;
  writer.U32(sequence);
  xdr::ForEachPiece(body, [&writer, &written](const auto& piece) {
    if constexpr (std::is_same_v<std::decay_t<decltype(piece)>, Data>) {
      const auto read = piece.CopyTo(writer.Skip(piece.size()));
      if (!read) written = std::unexpected(Failure{.text = "cannot read its file: " + read.error().message()});
    } else {
      writer.Octets(piece);
    }
  });
  return written;
}

// Seals the message that WritePlain() has written. May take as long as encryption; requires the context's turn.
Result<Message> SealPlain(ProtectedContext& context, const SealPlan& plan, const BufferRef& room) {
  Writer writer(room->bytes());
  writer.Skip(plan.head + kWord);
  const Bytes body = writer.Skip(plan.wrap.before + plan.data + plan.wrap.behind);
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

// They may take as long as decryption, and require the context's turn. `room` begins `room_before` octets before the
// place for the sealed data.

Result<ConstBytes> Verified(ProtectedContext& context, const Message& sealed) {
  const auto data = xdr::DecodeWhole<rpcsecgss::rpc_gss_integ_data>(sealed);
  if (!data) return std::unexpected(Failure{.text = "the sealed data is malformed"});
  PENSTOCK_CHECK(context.mechanism->VerifyMic(data->databody_integ.bytes(), data->checksum.bytes()));
  return data->databody_integ.bytes();
}

Result<ConstBytes> Decrypted(ProtectedContext& context, const Message& sealed, Bytes room) {
  const auto data = xdr::DecodeWhole<rpcsecgss::rpc_gss_priv_data>(sealed);
  if (!data) return std::unexpected(Failure{.text = "the sealed data is malformed"});
  const Bytes body = room.first(data->databody_priv.size());
  CopyBytes(body, data->databody_priv.bytes());
  return context.mechanism->Unwrap(body);
}

}  // namespace

void Head::Append(ConstBytes octets) {
  assert(room.size() - size >= octets.size());
  CopyBytes(Bytes(room).subspan(size), octets);
  size += octets.size();
}

void Head::AppendVerifier(const Mic& mic) {
  Writer writer(Bytes(room).subspan(size));
  writer.U32(static_cast<size_t>(AuthFlavor::RPCSEC_GSS));
  writer.Opaque(mic.bytes());
  size += writer.done();
}

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

Message Joined(BufferPool& buffers, const Head& head, const Message& body) {
  BufferRef buffer = buffers.Allocate(head.size + body.stream.size());
  CopyBytes(buffer->bytes(), head.bytes());
  CopyBytes(buffer->bytes().subspan(head.size), body.stream.bytes());
  Message whole;
  const ConstBytes stream = buffer->bytes().first(head.size + body.stream.size());
  whole.stream = Slice(std::move(buffer), stream);
  for (const xdr::Item& item : body.items) whole.items.push_back({item.offset + head.size, item.data});
  return whole;
}

Task<Result<Message>> Seal(ProtectedContext& context, GssService service, uint32_t sequence, const Head& head,
                           const Message& body, SealingPlace place) {
  const auto make_plan = [&] { return PlanSeal(context, service, head.size, body.flat_size()); };
  const Result<SealPlan> plan = co_await InTurn(context, place.loop, place.pool, false, make_plan);
  if (!plan) co_return std::unexpected(plan.error());
  const BufferRef room = place.buffers.Allocate(plan->size);
  const auto write = [&] { return WritePlain(*plan, sequence, head, body, room); };
  // Reads files without the context's turn, so that its other calls do not wait for the disk.
  const bool reads = HasFiles(body);
  if (reads) {
    const Result<void> written = co_await Offload(place.loop, place.pool, write, place.client, WorkKind::kData);
    if (!written) co_return std::unexpected(written.error());
  }
  const auto seal = [&]() -> Result<Message> {
    if (!reads) PENSTOCK_CHECK(write());
    return SealPlain(context, *plan, room);
  };
  co_return co_await InTurn(context, place.loop, place.pool, plan->size >= kLong, seal);
}

Task<Result<Message>> Unseal(ProtectedContext& context, GssService service, uint32_t sequence, const Message& sealed,
                             size_t room_before, SealingPlace place) {
  const size_t size = sealed.stream.size();
  // Verified data is copied only to get the room before it.
  const bool copies = service == GssService::kPrivacy || room_before > 0;
  const BufferRef room = copies ? place.buffers.Allocate(room_before + size) : BufferRef();
  const auto unseal = [&]() -> Result<Message> {
    if (service == GssService::kPrivacy) {
      PENSTOCK_TRY(const ConstBytes text, Decrypted(context, sealed, room->bytes().subspan(room_before)));
      if (!BeginsWith(text, sequence)) return std::unexpected(Failure{.text = "the seal is of another message"});
      return Message::Whole(Slice(room, text.subspan(kWord)));
    }
    PENSTOCK_TRY(const ConstBytes text, Verified(context, sealed));
    if (!BeginsWith(text, sequence)) return std::unexpected(Failure{.text = "the seal is of another message"});
    const ConstBytes body = text.subspan(kWord);
    if (!copies) return Message::Whole(Slice(sealed.stream.owner(), body));
    const Bytes copy = room->bytes().subspan(room_before, body.size());
    CopyBytes(copy, body);
    return Message::Whole(Slice(room, copy));
  };
  co_return co_await InTurn(context, place.loop, place.pool, size >= kLong, unseal);
}

size_t SealOverhead(const ProtectedContext& context, GssService service) {
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

bool IsAccepted(const Message& plain) {
  return plain.stream.size() >= kResultsAt && WordAt(plain, 8) == static_cast<uint32_t>(rpcmsg::MSG_ACCEPTED);
}

bool HasResults(const Message& plain) {
  return IsAccepted(plain) && WordAt(plain, kStatusAt) == static_cast<uint32_t>(AcceptStatus::SUCCESS);
}

Head ReplyHead(const Message& plain, const Mic& verifier) {
  assert(IsAccepted(plain) && WordAt(plain, kVerifierAt + kWord) == 0);
  Head head;
  head.Append(plain.stream.bytes().first(kVerifierAt));
  head.AppendVerifier(verifier);
  head.Append(plain.stream.bytes().subspan(kStatusAt, kWord));
  return head;
}

Message BehindHead(const Message& plain) { return Behind(plain, kResultsAt); }

}  // namespace penstock::rpc::gss
