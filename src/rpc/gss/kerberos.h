// Kerberos V5 (RFC 4121), implemented by this host's GSS-API library.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/users.h"
#include "rpc/gss/mechanism.h"

namespace penstock::rpc::gss {

// The acceptor uses all keys of the service nfs in the keytab, for any host name: a server may have several names, and
// clients choose one. It ignores keys of other services. It reads the keytab again for each context, so that keys can
// be renewed.
class Kerberos final : public Mechanism {
 public:
  // Looks up a user of this host by name. May block; thread-safe.
  using LookUp = std::function<Found<User>(const std::string& name)>;

  // Uses the keytab `path`. If that is empty, uses the one of the environment (KRB5_KTNAME) or of the host's
  // configuration. The error is a message to the operator.
  static SetupResult<std::unique_ptr<Kerberos>> Open(const std::string& path, LookUp look_up = &FindUserNamed);
  ~Kerberos() override;

  std::unique_ptr<MechanismContext> Begin() override;

 private:
  class KerberosContext;
  struct Credential;

  Kerberos(std::unique_ptr<Credential> credential, LookUp look_up);

  const std::unique_ptr<Credential> credential_;
  const LookUp look_up_;
};

}  // namespace penstock::rpc::gss
