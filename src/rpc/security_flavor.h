// A security flavor that is more than a credential to be read: one that keeps contexts with clients by calls of its
// own, proves calls and replies by verifiers, and may seal what they carry. That is RPCSEC_GSS (RFC 2203); rpc/gss
// implements it.
//
// What a program executes, and what is remembered of it, is free of all that: a call is admitted and its arguments
// unsealed before, and its reply is sealed after. So a call that comes again, under another sequence number or another
// context of the same initiator, is the same call, and the reply that was remembered is sealed anew for it (RFC 2203
// §5.3.3.1).
#pragma once

#include <memory>
#include <utility>

#include "rpc/auth.h"
#include "rpc/header.h"
#include "rpc/transport.h"

namespace penstock::rpc {

// A call that was admitted. Lives until its reply has been sealed.
class SecuredCall {
 public:
  virtual ~SecuredCall() = default;

  // Refers to what lives as long as this object.
  const Credential& credential() const { return credential_; }
  // The arguments alone, as they are without the flavor. Once.
  Message TakeArguments() { return std::move(arguments_); }
  // Octets that the flavor takes in the reply, at most, whatever the results are.
  virtual size_t reply_overhead() const = 0;

  // Makes of a reply with an empty verifier the one to be sent. An empty message: none is to be sent.
  virtual Task<Message> Seal(Message plain, const Peer& peer) = 0;

 protected:
  Credential credential_;
  Message arguments_;
};

class SecurityFlavor {
 public:
  virtual ~SecurityFlavor() = default;

  // Either a call to be executed, or, without one, what is answered in its place: nothing, if the reply is empty.
  struct Admission {
    std::unique_ptr<SecuredCall> call;
    Message reply;
  };
  // `header` has been decoded from `call`, whose arguments follow at `arguments_at` of its stream. Both outlive the
  // task, and the call outlives the SecuredCall. Any loop.
  virtual Task<Admission> Admit(const Message& call, const CallHeader& header, size_t arguments_at,
                                const Peer& peer) = 0;
};

}  // namespace penstock::rpc
