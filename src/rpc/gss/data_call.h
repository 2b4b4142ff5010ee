// A call that came under an established context.
#pragma once

#include <memory>

#include "base/workers.h"
#include "rpc/gss/context.h"
#include "rpc/gss/sealing.h"
#include "rpc/security_flavor.h"

namespace penstock::rpc::gss {

// From how many octets on the loop is spared what the mechanism does with them: it takes longer than to go to another
// thread and back.
inline constexpr size_t kLong = 32 << 10;

class DataCall final : public SecuredCall {
 public:
  DataCall(std::shared_ptr<SecurityContext> context, GssService service, uint32_t sequence, Xid xid, Workers* pool);

  // Takes the arguments out of `call`, where they begin at `arguments_at`; false where they are not what the client has
  // sealed.
  Task<bool> Unseal(const Message& call, size_t arguments_at, const Peer& peer);

  size_t reply_overhead() const override { return SealOverhead(*context_, credential_.service); }
  Task<Message> Seal(Message plain, const Peer& peer) override;

 private:
  // What Seal() needs of the mechanism before it knows how large the reply is.
  struct Prepared {
    Result<Mic> verifier;
    Result<SealPlan> plan;  // where the results are sealed
  };
  Prepared Prepare(const Message& plain) const;

  const std::shared_ptr<SecurityContext> context_;
  const uint32_t sequence_;
  const Xid xid_;
  Workers* const pool_;
};

}  // namespace penstock::rpc::gss
