// The Channel Conjunction Mechanism (CCM): §3.6 of draft-talpey-nfsv4-rdma-sess-01. An initiator makes a CCM context
// from an established context of another mechanism, the inner context, over a connection whose network is protected, as
// by IPsec. Messages under a CCM context have no cryptography of their own. docs/sessions-2004.md describes the tokens.
//
// This file has the tokens, and the protection of messages. Acceptor::Conjoin() makes the contexts.
#pragma once

#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "base/bytes.h"
#include "rpc/gss/context.h"
#include "rpc/gss/host_pair.h"
#include "rpc/gss/mechanism.h"
#include "xdr/message.h"

namespace penstock::rpc::gss {

// The contents of an initiator's token. They refer to the token.
struct ConjunctionToken {
  ConstBytes cookie;  // the handle of the inner context
  uint32_t number;    // a sequence number of the inner context
  HostPair hosts;
  ConstBytes claim;  // the octets that `mic` covers
  ConstBytes mic;
};

// Returns the body of an initial token (RFC 2743 §3.1) of CCM. Returns nullopt for tokens of other mechanisms, and for
// tokens without a correct frame.
std::optional<ConstBytes> BodyOfConjunction(ConstBytes token);

// Fails with kDefectiveToken if the body is malformed or of an unknown version. Does not verify the checksum.
Result<ConjunctionToken> ParseConjunction(ConstBytes body);

// Returns the octets whose checksum under the inner context is the acceptor's token. The token proves to the initiator
// that the acceptor has the inner context, and that `handle` belongs to this claim.
xdr::Message ConjunctionConfirmation(BufferPool& pool, const Handle& handle, ConstBytes claim);

// The protection by the channel alone: checksums are empty, and wrapping changes nothing.
class ChannelProtection final : public MessageProtection {
 public:
  // Fails unless `mic` is empty.
  Result<void> VerifyMic(ConstBytes message, ConstBytes mic) override;
  Result<void> GetMic(ConstBytes, Mic& mic) override;
  Result<WrapRoom> RoomToWrap(size_t) override { return WrapRoom(); }
  Result<void> Wrap(Bytes, const WrapRoom&) override { return {}; }
  Result<Bytes> Unwrap(Bytes message) override { return message; }
};

}  // namespace penstock::rpc::gss
