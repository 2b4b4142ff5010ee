// The probe that asks a server to begin TLS on a connection, and the answer to it (RFC 9289 §4.1). Both go over the
// connection in plain text: a NULL call of the flavor AUTH_TLS, and a reply whose verifier has the text "STARTTLS".
#pragma once

#include <optional>

#include "rpc/transport.h"
#include "rpc/xid.h"

namespace penstock::rpc {

// Returns true if `call` is a well-formed probe: procedure 0, an empty AUTH_TLS credential and an empty AUTH_NONE
// verifier. Other calls with AUTH_TLS are for the dispatcher, which denies them.
bool IsTlsProbe(ConstBytes call);

// Returns the same call with an AUTH_NONE credential, for the program that the probe names. Requires IsTlsProbe().
Message WithoutTlsFlavor(BufferPool& buffers, ConstBytes probe);

// Returns the reply with the text "STARTTLS" in its verifier. Returns nothing if the reply is malformed, denies the
// call, or has a verifier.
std::optional<Message> WithStartTls(BufferPool& buffers, const Message& reply);

// Makes a probe with procedure 0 of a program.
Message MakeTlsProbe(BufferPool& buffers, Xid xid, uint32_t program, uint32_t version);

enum class TlsAnswer : uint8_t {
  kStartTls,  // the server waits for the TLS handshake
  kNoTls,     // a reply without the text: the server has no TLS on this port
  kMalformed  // not a reply to this probe
};
// Reads the reply to the probe with this XID.
TlsAnswer ParseTlsAnswer(ConstBytes reply, Xid xid);

}  // namespace penstock::rpc
