#include "rpc/gss/callback_acceptor.h"

#include "base/random.h"

namespace penstock::rpc::gss {
namespace {

// The contexts that are accepted: the present one, and those before it, whose calls may be on their way.
constexpr size_t kContexts = 4;

std::unexpected<Failure> Refuse() {
  return std::unexpected(Failure{.major = kBadMechanism, .text = "a server makes no contexts with its client"});
}

class RefusedContext final : public MechanismContext {
 public:
  Result<Step> Accept(ConstBytes) override { return Refuse(); }
  Result<gss::Initiator> GetInitiator() override { return Refuse(); }
  Result<void> VerifyMic(ConstBytes, ConstBytes) override { return Refuse(); }
  Result<void> GetMic(ConstBytes, Mic&) override { return Refuse(); }
  Result<WrapRoom> RoomToWrap(size_t) override { return Refuse(); }
  Result<void> Wrap(Bytes, const WrapRoom&) override { return Refuse(); }
  Result<Bytes> Unwrap(Bytes) override { return Refuse(); }
};

}  // namespace

std::unique_ptr<MechanismContext> CallbackAcceptor::NoMechanism::Begin() { return std::make_unique<RefusedContext>(); }

CallbackAcceptor::CallbackAcceptor(const TimerService& clock, Workers* pool)
    : clock_(clock),
      acceptor_({.mechanism = no_mechanism_,
                 .clock = clock,
                 .random = &FillRandomly,
                 .pool = pool,
                 .negotiators = pool,
                 .limits = {.established = kContexts}}) {}

std::optional<Handle> CallbackAcceptor::Adopt(const ClientContext::Established& context, const std::string& server) {
  Initiator caller;
  caller.names = {.name = server, .display = server};
  if (context.expires != TimePoint::max()) caller.lifetime = context.expires - clock_.Now();
  return acceptor_.Adopt(context.protection, std::move(caller));
}

}  // namespace penstock::rpc::gss
