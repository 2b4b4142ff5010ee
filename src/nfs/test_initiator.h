// For tests: calls as they reach a program under RPCSEC_GSS, without any contexts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rpc/forwarding_program.h"

namespace penstock::nfs {

// An initiator with a Kerberos ticket for "nfs/server".
class TestInitiator {
 public:
  // `uid` is the user of this host to which the initiator maps. A context of `mechanism` carries the calls.
  explicit TestInitiator(std::string_view name, uint32_t uid = rpc::kNobody,
                         rpc::GssMechanism mechanism = rpc::GssMechanism::kKerberos)
      : initiator_{.name = "krb5:" + std::string(name), .display = std::string(name), .acceptor = "nfs/server"},
        uid_(uid),
        mechanism_(mechanism) {}

  // Refers to this object.
  rpc::Credential With(rpc::GssService service) const {
    rpc::Credential credential;
    credential.flavor = rpc::AuthFlavor::RPCSEC_GSS;
    credential.uid = credential.gid = uid_;
    credential.initiator = &initiator_;
    credential.mechanism = mechanism_;
    credential.service = service;
    return credential;
  }

 private:
  const rpc::GssInitiator initiator_;
  const uint32_t uid_;
  const rpc::GssMechanism mechanism_;
};

// Calls a program with the test's credential instead of the call's own. Without one, the call keeps its own.
class CalledBy final : public rpc::ForwardingProgram {
 public:
  // Both arguments outlive this object.
  CalledBy(rpc::Program& program, const std::optional<rpc::Credential>& credential)
      : ForwardingProgram(program), credential_(credential) {}

  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override {
    if (credential_) context.credential = *credential_;
    return inner().Call(context, arguments, results);
  }

 private:
  const std::optional<rpc::Credential>& credential_;
};

}  // namespace penstock::nfs
