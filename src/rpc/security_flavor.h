// The interface of a security flavor with contexts: it establishes contexts with clients by its own calls,
// authenticates calls and replies by verifiers, and may seal their contents. RPCSEC_GSS (RFC 2203) is such a flavor;
// rpc/gss implements it.
//
// Programs and the reply cache do not see the flavor. A call is admitted and unsealed before the program runs, and the
// reply is sealed afterwards. So a retransmitted call, with another sequence number or another context of the same
// initiator, is the same call, and its cached reply is sealed again (RFC 2203 §5.3.3.1).
#pragma once

#include <memory>
#include <utility>

#include "rpc/auth.h"
#include "rpc/header.h"
#include "rpc/transport.h"

namespace penstock::rpc {

// An admitted call. It lives until its reply is sealed.
class SecuredCall {
 public:
  virtual ~SecuredCall() = default;

  // The credential refers to data that lives as long as this object.
  const Credential& credential() const { return credential_; }
  // Returns the plain arguments. Call it once.
  Message TakeArguments() { return std::move(arguments_); }
  // The maximum number of octets that the flavor adds to the reply.
  virtual size_t reply_overhead() const = 0;

  // Converts a reply with an empty verifier into the reply to be sent. An empty message means that no reply is sent.
  virtual Task<Message> Seal(Message plain, const Peer& peer) = 0;

 protected:
  Credential credential_;
  Message arguments_;
};

// Protects calls to a client under a context that the client has made. Thread-safe.
class ReverseProtection {
 public:
  virtual ~ReverseProtection() = default;
  // Makes `call`, whose credential is that of ClientCredential(GssService), over `channel`, on the channel's loop.
  // Fails with kNotAuthentic or kNoContext as well. This object outlives the task.
  virtual Task<Result<Message, CallError>> Call(BackChannel& channel, Message call, ReplyShape shape) = 0;
  // When the context ends.
  virtual TimePoint expires() const = 0;
  // The size of the handle in each call.
  virtual size_t handle_size() const = 0;
};

class SecurityFlavor {
 public:
  virtual ~SecurityFlavor() = default;

  // Returns the protection for calls to `initiator`, under the context that the initiator knows by `handle`. The calls
  // carry `reverse_handle`. Returns null if the initiator has no such context, or if the second handle is too long for
  // a credential. Thread-safe.
  virtual std::shared_ptr<ReverseProtection> Reverse(ConstBytes handle, ConstBytes reverse_handle,
                                                     const GssInitiator& initiator) = 0;

  // Either a call to be executed, or, if `call` is null, the reply to send in its place. An empty reply means none.
  struct Admission {
    std::unique_ptr<SecuredCall> call;
    Message reply;
    // Without a call: the message was one of the flavor's own, which establishes or ends a context.
    bool is_control = false;
  };
  // `header` was decoded from `call`, whose arguments begin at `arguments_at` of its stream. Both must outlive the
  // task, and the call must outlive the SecuredCall. May be called on any loop.
  virtual Task<Admission> Admit(const Message& call, const CallHeader& header, size_t arguments_at,
                                const Peer& peer) = 0;
};

}  // namespace penstock::rpc
