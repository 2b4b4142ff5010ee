#include "rpc/starttls.h"

#include <string_view>

#include "rpc/header.h"

namespace penstock::rpc {
namespace {

constexpr std::string_view kStartTls = "STARTTLS";
// The status stands behind XID, direction, reply_stat, and an empty verifier.
constexpr size_t kStatusAt = 20;

bool IsEmptyNone(const OpaqueAuth& auth) { return auth.flavor == AuthFlavor::AUTH_NONE && auth.body.bytes().empty(); }

}  // namespace

bool IsTlsProbe(ConstBytes call) {
  // Most calls are told apart by one word.
  if (call.size() < kCredentialFlavorAt + 4 ||
      LoadBig<uint32_t>(call.data() + kCredentialFlavorAt) != static_cast<uint32_t>(AuthFlavor::AUTH_TLS)) {
    return false;
  }
  const Message message = Message::Whole(Slice::Borrowed(call));
  xdr::Decoder decoder(message);
  CallHeader header;
  return DecodeCallHeader(decoder, header) == HeaderProblem::kNone && header.procedure == 0 &&
         header.credential.body.bytes().empty() && IsEmptyNone(header.verifier);
}

Message WithoutTlsFlavor(BufferPool& buffers, ConstBytes probe) {
  const BufferRef buffer = buffers.Allocate(probe.size());
  CopyBytes(buffer->bytes(), probe);
  StoreBig(buffer->data() + kCredentialFlavorAt, static_cast<uint32_t>(AuthFlavor::AUTH_NONE));
  return Message::Whole(Slice(buffer, ConstBytes(buffer->bytes().first(probe.size()))));
}

std::optional<Message> WithStartTls(BufferPool& buffers, const Message& reply) {
  xdr::Decoder decoder(reply);
  ReplyHeader header;
  if (!reply.items.empty() || !DecodeReplyHeader(decoder, header) || !header.body.is_areply() ||
      !IsEmptyNone(header.body.areply().verf)) {
    return std::nullopt;
  }
  const ConstBytes plain = reply.stream.bytes();
  const BufferRef buffer = buffers.Allocate(plain.size() + kStartTls.size());
  const Bytes octets = buffer->bytes().first(plain.size() + kStartTls.size());
  CopyBytes(octets, plain.first(kStatusAt));
  StoreBig(octets.data() + kStatusAt - 4, static_cast<uint32_t>(kStartTls.size()));
  CopyBytes(octets.subspan(kStatusAt), AsBytes(kStartTls));
  CopyBytes(octets.subspan(kStatusAt + kStartTls.size()), plain.subspan(kStatusAt));
  return Message::Whole(Slice(buffer, ConstBytes(octets)));
}

Message MakeTlsProbe(BufferPool& buffers, Xid xid, uint32_t program, uint32_t version) {
  xdr::Encoder encoder(buffers);
  EncodeCallHeader(encoder, {xid, program, version, 0, {AuthFlavor::AUTH_TLS, {}}, {}});
  return encoder.Finish();
}

TlsAnswer ParseTlsAnswer(ConstBytes reply, Xid xid) {
  const Message message = Message::Whole(Slice::Borrowed(reply));
  xdr::Decoder decoder(message);
  ReplyHeader header;
  if (!DecodeReplyHeader(decoder, header) || header.xid != xid) return TlsAnswer::kMalformed;
  if (!header.body.is_areply()) return TlsAnswer::kNoTls;
  // RFC 9289 §4.1: whatever the accept_stat is.
  const OpaqueAuth& verifier = header.body.areply().verf;
  const bool starts = verifier.flavor == AuthFlavor::AUTH_NONE && AsText(verifier.body.bytes()) == kStartTls;
  return starts ? TlsAnswer::kStartTls : TlsAnswer::kNoTls;
}

}  // namespace penstock::rpc
