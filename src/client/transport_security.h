// The protection by TLS that a client asks of its connections (RFC 9289): "xprtsec=" of a URL.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "rpc/tls/context.h"

namespace penstock::client {

enum class TransportSecurity : uint8_t {
  kNone,
  // TLS if the server has it, otherwise plain text. Somebody between client and server can pretend that the server has
  // no TLS (RFC 9289 §6.1.1).
  kOpportunistic,
  kTls,        // the server must authenticate itself
  kMutualTls,  // the client as well
};
// Parses "none", "opportunistic", "tls" or "mtls".
std::optional<TransportSecurity> ParseTransportSecurity(std::string_view text);
// The name in "xprtsec=".
std::string_view NameOf(TransportSecurity security);

// The files of certificates, and the servers that had TLS, for all connections of a mount.
// Belongs to the loop of the mount.
class TlsClient {
 public:
  TlsClient() = default;
  explicit TlsClient(rpc::tls::Files files) : files_(std::move(files)) {}

  // Returns the context with the files, which the first call reads.
  SetupResult<std::shared_ptr<const rpc::tls::Context>> Context();

  // Whether a connection to this server had TLS: then an opportunistic client requires it from then on.
  bool HadTls(const std::string& host, uint16_t port) const { return had_tls_.contains({host, port}); }
  void NoteTls(const std::string& host, uint16_t port) { had_tls_.emplace(host, port); }

 private:
  const rpc::tls::Files files_;
  std::shared_ptr<const rpc::tls::Context> context_;
  std::set<std::pair<std::string, uint16_t>> had_tls_;
};

}  // namespace penstock::client
