// For tests: the client's side of RPCSEC_GSS (RFC 2203) over any mechanism.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/rpcsec_gss.h"
#include "rpc/auth.h"
#include "rpc/header.h"
#include "xdr/decode.h"
#include "xdr/encode.h"
#include "xdr/flatten.h"

namespace penstock::rpc::gss::testing {

using Octets = std::vector<std::byte>;
using Message = xdr::Message;

inline Octets Copied(ConstBytes bytes) { return {bytes.begin(), bytes.end()}; }

// The initiator's side of a mechanism, like GSS-API.
class InitiatorMechanism {
 public:
  virtual ~InitiatorMechanism() = default;
  // Returns the next token, given the acceptor's last one. Returns nullopt if that one is wrong, and an empty token if
  // no more is needed.
  virtual std::optional<Octets> Step(ConstBytes token) = 0;
  virtual Octets GetMic(ConstBytes message) = 0;
  virtual bool VerifyMic(ConstBytes message, ConstBytes mic) = 0;
  virtual Octets Wrap(ConstBytes message) = 0;
  virtual std::optional<Octets> Unwrap(ConstBytes message) = 0;
};

struct Target {
  uint32_t program;
  uint32_t version;
  uint32_t procedure;
};

// The deliberate errors in a call.
struct Spoil {
  std::optional<uint32_t> version{};
  std::optional<uint32_t> gss_procedure{};
  std::optional<uint32_t> service{};
  std::optional<uint32_t> sequence_within{};
  std::optional<Octets> handle{};
  std::optional<AuthFlavor> verifier_flavor{};
  bool verifier = false;
  bool seal = false;
};

class Initiator {
 public:
  Initiator(InitiatorMechanism& mechanism, BufferPool& pool) : mechanism_(mechanism), pool_(pool) {}

  // ---- a context ----

  // Makes RPCSEC_GSS_INIT or RPCSEC_GSS_CONTINUE_INIT with the next token.
  Message Create(Xid xid, const Target& target, const Spoil& spoil = {}) {
    if (!token_) token_ = mechanism_.Step({});
    xdr::Encoder encoder(pool_);
    const auto procedure = handle_.empty() ? rpcsecgss::RPCSEC_GSS_INIT : rpcsecgss::RPCSEC_GSS_CONTINUE_INIT;
    EncodeHeader(encoder, xid, target, Credential(procedure, GssService{}, 0, spoil));
    xdr::Encode(encoder, OpaqueAuth{.flavor = spoil.verifier_flavor.value_or(AuthFlavor::AUTH_NONE), .body = {}});
    xdr::Encode(encoder, rpcsecgss::rpc_gss_init_arg{.gss_token = ConstBytes(*token_)});
    return encoder.Finish();
  }
  // Returns the results, which refer to `reply`, or nullopt if it is malformed. Afterwards established() is true, or
  // Create() must be called again.
  std::optional<rpcsecgss::rpc_gss_init_res> HandleCreated(const Message& reply) {
    xdr::Decoder decoder(reply);
    ReplyHeader header;
    rpcsecgss::rpc_gss_init_res results;
    if (!DecodeReplyHeader(decoder, header) || !IsSuccess(header) || !xdr::Decode(decoder, results) ||
        !decoder.Finish()) {
      return std::nullopt;
    }
    if (results.gss_major > 1) return results;
    handle_ = Copied(results.handle.bytes());
    token_ = mechanism_.Step(results.gss_token.bytes());
    // RFC 2203 §5.2.3.1: the verifier covers the window's size. The mechanism can check it now.
    if (results.gss_major == 0) established_ = token_ && IsVerified(header, results.seq_window);
    return results;
  }
  bool established() const { return established_; }
  const Octets& handle() const { return handle_; }

  // ---- calls ----

  // Makes a call with `arguments`. Their payloads stay separate unless the call is sealed.
  Message Call(Xid xid, const Target& target, GssService service, uint32_t sequence, const Message& arguments,
               const Spoil& spoil = {}) {
    return Call(rpcsecgss::RPCSEC_GSS_DATA, xid, target, service, sequence, arguments, spoil);
  }
  Message Destroy(Xid xid, Target target, GssService service, uint32_t sequence, const Spoil& spoil = {}) {
    target.procedure = 0;
    return Call(rpcsecgss::RPCSEC_GSS_DESTROY, xid, target, service, sequence, Message(), spoil);
  }

  // Returns the results of a reply to such a call, or nullopt if the reply is malformed, or if its verifier or seal is
  // wrong. Placed results stay placed.
  std::optional<Message> Open(const Message& reply, GssService service, uint32_t sequence) {
    xdr::Decoder decoder(reply);
    ReplyHeader header;
    if (!DecodeReplyHeader(decoder, header) || !IsSuccess(header) || !IsVerified(header, sequence)) return std::nullopt;
    const size_t at = decoder.reduced_position();
    Message results;
    results.stream = reply.stream.Sub(at, reply.stream.size() - at);
    if (service == GssService::kNone) {
      for (const xdr::Item& item : reply.items) results.items.push_back({item.offset - at, item.data});
      results.placed = reply.placed;
      return results;
    }
    for (const xdr::PlacedResult& placed : reply.placed) {
      if (placed && !placed->empty()) return std::nullopt;
    }
    if (!reply.items.empty()) return std::nullopt;
    const auto data = service == GssService::kIntegrity ? OpenIntegrity(results) : OpenPrivacy(results);
    if (!data || data->size() < 4 || LoadBig<uint32_t>(data->data()) != sequence) return std::nullopt;
    return Owned(ConstBytes(*data).subspan(4));
  }
  // Returns true if the reply has the verifier of the call. Does not check the contents of the reply.
  bool IsVerified(const Message& reply, uint32_t sequence) {
    xdr::Decoder decoder(reply);
    ReplyHeader header;
    return DecodeReplyHeader(decoder, header) && IsVerified(header, sequence);
  }

 private:
  static bool IsSuccess(const ReplyHeader& header) {
    return header.body.is_areply() && header.body.areply().reply_data.discriminant() == AcceptStatus::SUCCESS;
  }
  bool IsVerified(const ReplyHeader& header, uint32_t number) {
    if (!header.body.is_areply()) return false;
    const OpaqueAuth& verifier = header.body.areply().verf;
    return verifier.flavor == AuthFlavor::RPCSEC_GSS && mechanism_.VerifyMic(Word(number), verifier.body.bytes());
  }

  static void Alter(Octets& octets) {
    if (octets.empty()) octets.resize(4);
    octets.back() ^= std::byte{1};
  }
  static Octets Word(uint32_t number) {
    Octets octets(4);
    StoreBig(octets.data(), number);
    return octets;
  }
  Message Owned(ConstBytes octets) {
    BufferRef buffer = pool_.Allocate(octets.size());
    CopyBytes(buffer->bytes(), octets);
    const ConstBytes bytes = buffer->bytes().first(octets.size());
    return Message::Whole(Slice(std::move(buffer), bytes));
  }

  Octets Credential(rpcsecgss::rpc_gss_proc_t procedure, GssService service, uint32_t sequence, const Spoil& spoil) {
    xdr::Encoder encoder(pool_);
    encoder.U32(spoil.version.value_or(rpcsecgss::RPCSEC_GSS_VERS_1));
    encoder.U32(spoil.gss_procedure.value_or(static_cast<uint32_t>(procedure)));
    encoder.U32(sequence);
    encoder.U32(spoil.service.value_or(static_cast<uint32_t>(service)));
    encoder.Opaque(spoil.handle.value_or(handle_));
    return Copied(encoder.Finish().stream.bytes());
  }
  // Encodes the header up to and including the credential.
  static void EncodeHeader(xdr::Encoder& encoder, Xid xid, const Target& target, const Octets& credential) {
    for (const uint32_t word : {xid.value(), 0u, 2u, target.program, target.version, target.procedure})
      encoder.U32(word);
    xdr::Encode(encoder, OpaqueAuth{.flavor = AuthFlavor::RPCSEC_GSS, .body = ConstBytes(credential)});
  }

  Message Call(rpcsecgss::rpc_gss_proc_t procedure, Xid xid, const Target& target, GssService service,
               uint32_t sequence, const Message& arguments, const Spoil& spoil) {
    xdr::Encoder start(pool_);
    EncodeHeader(start, xid, target, Credential(procedure, service, sequence, spoil));
    const Message header = start.Finish();
    Octets verifier = mechanism_.GetMic(header.stream.bytes());
    if (spoil.verifier) Alter(verifier);
    xdr::Encoder encoder(pool_);
    encoder.Fixed(header.stream.bytes());
    xdr::Encode(encoder, OpaqueAuth{.flavor = spoil.verifier_flavor.value_or(AuthFlavor::RPCSEC_GSS),
                                    .body = ConstBytes(verifier)});
    encoder.Append(service == GssService::kNone ? arguments : Sealed(service, sequence, arguments, spoil));
    return encoder.Finish();
  }

  Message Sealed(GssService service, uint32_t sequence, const Message& arguments, const Spoil& spoil) {
    Octets data = Word(spoil.sequence_within.value_or(sequence));
    const Slice flat = xdr::Unreduce(pool_, arguments);
    data.insert(data.end(), flat.bytes().begin(), flat.bytes().end());
    xdr::Encoder encoder(pool_);
    if (service == GssService::kIntegrity) {
      Octets mic = mechanism_.GetMic(data);
      if (spoil.seal) Alter(mic);
      encoder.Opaque(data);
      encoder.Opaque(mic);
    } else {
      Octets wrapped = mechanism_.Wrap(data);
      if (spoil.seal) Alter(wrapped);
      encoder.Opaque(wrapped);
    }
    return encoder.Finish();
  }

  std::optional<Octets> OpenIntegrity(const Message& results) {
    const auto data = xdr::DecodeWhole<rpcsecgss::rpc_gss_integ_data>(results);
    if (!data || !mechanism_.VerifyMic(data->databody_integ.bytes(), data->checksum.bytes())) return std::nullopt;
    return Copied(data->databody_integ.bytes());
  }
  std::optional<Octets> OpenPrivacy(const Message& results) {
    const auto data = xdr::DecodeWhole<rpcsecgss::rpc_gss_priv_data>(results);
    if (!data) return std::nullopt;
    return mechanism_.Unwrap(data->databody_priv.bytes());
  }

  InitiatorMechanism& mechanism_;
  BufferPool& pool_;
  std::optional<Octets> token_;
  Octets handle_;
  bool established_ = false;
};

}  // namespace penstock::rpc::gss::testing
