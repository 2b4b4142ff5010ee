// A call under an established context.
#pragma once

#include <memory>

#include "base/workers.h"
#include "rpc/gss/context.h"
#include "rpc/gss/sealing.h"
#include "rpc/security_flavor.h"

namespace penstock::rpc::gss {

class DataCall final : public SecuredCall {
 public:
  DataCall(std::shared_ptr<SecurityContext> context, GssService service, uint32_t sequence, Xid xid, Workers* pool);

  // Unseals the arguments, which begin at `arguments_at` of `call`. Returns false if the seal is wrong.
  Task<bool> Unseal(const Message& call, size_t arguments_at, const Peer& peer);

  size_t reply_overhead() const override { return SealOverhead(*context_->protection, credential_.service); }
  Task<Message> Seal(Message plain, const Peer& peer) override;

 private:
  // Returns the verifier of the reply.
  Result<Mic> MakeVerifier() const;

  const std::shared_ptr<SecurityContext> context_;
  const uint32_t sequence_;
  const Xid xid_;
  Workers* const pool_;
};

}  // namespace penstock::rpc::gss
