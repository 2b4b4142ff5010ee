// Kerberos V5 (RFC 4121) by the library of this host.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/users.h"
#include "rpc/gss/mechanism.h"

namespace penstock::rpc::gss {

// The acceptor's keys are all of the service nfs that the keytab has, whatever host they name: a server may have
// several names, and clients choose by which they call it. Keys of other services are not for us. The keytab is read
// again for each context, so that keys may be renewed.
class Kerberos final : public Mechanism {
 public:
  // Users of this host by their names. May block; any thread.
  using LookUp = std::function<std::optional<User>(const std::string& name)>;

  // From the keytab `path`, or, where that is empty, from the one that the environment or the host's configuration
  // names (KRB5_KTNAME). The error is for the operator.
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
