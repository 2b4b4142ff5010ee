// Begins TLS on a new TCP connection of a client (RFC 9289 §4.1): the probe, its answer, and the handshake.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/cancellation.h"
#include "base/loop.h"
#include "base/result.h"
#include "rpc/tls/session.h"

namespace penstock::rpc::tcp {

// The protection that a client wants for its connections.
struct ClientSecurity {
  std::shared_ptr<const tls::Context> context;  // not null
  // The name in the server's certificate, and whether this client shows a certificate of its own.
  tls::ClientTerms terms;
  // Fail if the server has no TLS. Otherwise the connection then stays in plain text. A handshake that fails is an
  // error in any case (RFC 9289 §4.1).
  bool required = true;
  // The program and version of the probe, a NULL call.
  uint32_t program = 0;
  uint32_t version = 0;
  // Called when the server has answered that it has TLS, before the handshake. Empty: nobody is told.
  std::function<void()> on_starttls{};
};

struct SecureLimits {
  Duration time = std::chrono::seconds(10);  // for the answer and the handshake together
  Cancellation* cancellation = nullptr;      // ends it early, unless null
};

// Secures `socket`, which must be connected, not blocking, and otherwise unused. Nothing but the probe is sent in plain
// text. Returns the session, or null if the connection stays in plain text. After an error, the caller closes the
// socket. The error is EACCES if the client and the server do not agree on TLS.
Task<SetupResult<std::unique_ptr<tls::Session>>> SecureClient(Loop& loop, asio::ip::tcp::socket& socket,
                                                              ClientSecurity security, SecureLimits limits);

}  // namespace penstock::rpc::tcp
