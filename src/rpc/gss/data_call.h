// A call under an established context.
#pragma once

#include <memory>

#include "base/workers.h"
#include "rpc/gss/context.h"
#include "rpc/gss/sealing.h"
#include "rpc/security_flavor.h"

namespace penstock::rpc::gss {

// Messages from this size on are processed by the pool, not by the loop. Processing them takes longer than switching to
// another thread and back.
inline constexpr size_t kLong = 32 << 10;

class DataCall final : public SecuredCall {
 public:
  DataCall(std::shared_ptr<SecurityContext> context, GssService service, uint32_t sequence, Xid xid, Workers* pool);

  // Unseals the arguments, which begin at `arguments_at` of `call`. Returns false if the seal is wrong.
  Task<bool> Unseal(const Message& call, size_t arguments_at, const Peer& peer);

  size_t reply_overhead() const override { return SealOverhead(*context_, credential_.service); }
  Task<Message> Seal(Message plain, const Peer& peer) override;

 private:
  // The data that Seal() gets from the mechanism before it knows the size of the reply.
  struct Prepared {
    Result<Mic> verifier;
    Result<SealPlan> plan;  // if the results are sealed
  };
  Prepared Prepare(const Message& plain) const;

  const std::shared_ptr<SecurityContext> context_;
  const uint32_t sequence_;
  const Xid xid_;
  Workers* const pool_;
};

}  // namespace penstock::rpc::gss
