// The initiator's side of Kerberos V5 (RFC 4121), implemented by this host's GSS-API library.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "rpc/gss/mechanism.h"

namespace penstock::rpc::gss {

struct KerberosClientOptions {
  // The server's name; the acceptor is its service nfs. The host's configuration says whether DNS may change the name.
  std::string host{};
  // The acceptor's principal, if it is not the service nfs of `host`.
  std::string acceptor{};
  // The keytab from which the client gets its tickets, and renews them. Empty: it uses the tickets of the environment
  // (KRB5CCNAME) or of the host's configuration.
  std::string keytab{};
  // With a keytab: the principal. Empty: the first one of the keytab.
  std::string principal{};
};

// Returns the path of the keytab of the environment (KRB5_KTNAME) or of the host's configuration; nothing if that is
// not a file.
std::optional<std::string> DefaultKeytab();

// Reads the tickets again for each context, so that the user can renew them.
class KerberosClient final : public InitiatingMechanism {
 public:
  explicit KerberosClient(KerberosClientOptions options);
  ~KerberosClient() override;

  std::unique_ptr<InitiatingContext> Begin() override;
  std::string Initiator() const override;
  std::string Acceptor() const override;
  std::string Explain(uint32_t major, uint32_t minor) const override;

 private:
  class Context;

  const KerberosClientOptions options_;
  // The cache for tickets from the keytab, in the memory of this process.
  const std::string memory_;
};

}  // namespace penstock::rpc::gss
