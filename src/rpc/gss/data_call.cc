#include "rpc/gss/data_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "base/loop.h"
#include "rpc/client_key.h"

namespace penstock::rpc::gss {
namespace {

bool HasFiles(const Message& message) {
  return std::ranges::any_of(message.items, [](const xdr::Item& item) { return item.data.is_file(); });
}

}  // namespace

DataCall::DataCall(std::shared_ptr<Context> context, GssService service, uint32_t sequence, Xid xid, Workers* pool)
    : context_(std::move(context)), sequence_(sequence), xid_(xid), pool_(pool) {
  credential_.flavor = AuthFlavor::RPCSEC_GSS;
  credential_.uid = context_->initiator.uid;
  credential_.gid = context_->initiator.gid;
  credential_.initiator = &context_->initiator.names;
  credential_.service = service;
}

Task<bool> DataCall::Unseal(const Message& call, size_t arguments_at, const Peer& peer) {
  const bool among_header =
      std::ranges::any_of(call.items, [=](const xdr::Item& i) { return i.offset < arguments_at; });
  if (among_header) co_return false;
  Message behind = Behind(call, arguments_at);
  if (credential_.service == GssService::kNone) {
    arguments_ = std::move(behind);
    co_return true;
  }
  // RFC 8166 §8.2.2.3: what is sealed is not reduced.
  if (!behind.items.empty()) co_return false;
  const size_t size = behind.stream.size();
  const bool is_private = credential_.service == GssService::kPrivacy;
  const BufferRef room = is_private ? peer.buffers->Allocate(size) : BufferRef();
  const auto unseal = [&] {
    return is_private ? UnsealPrivacy(*context_, sequence_, behind, room)
                      : UnsealIntegrity(*context_, sequence_, behind);
  };
  std::optional<Message> unsealed =
      co_await Offload(peer.loop, size >= kLong ? pool_ : nullptr, unseal, ClientKeyOf(peer));
  if (!unsealed) co_return false;
  arguments_ = *std::move(unsealed);
  co_return true;
}

// RFC 2203 §5.3.3.2: of the sequence number of this call.
Result<Mic> DataCall::Verifier() const {
  std::array<std::byte, 4> number;
  StoreBig(number.data(), sequence_);
  Mic mic;
  const std::lock_guard lock(context_->mutex);
  PENSTOCK_CHECK(context_->mechanism->GetMic(number, mic));
  return mic;
}

Task<Message> DataCall::Seal(Message plain, const Peer& peer) {
  if (!IsAccepted(plain)) co_return plain;  // denied: formulated as usual (RFC 2203 §5.3.3.3)
  const Result<Mic> verifier = Verifier();
  if (!verifier) {
    // RFC 2203 §5.3.3.4.1
    xdr::Encoder denial(*peer.buffers);
    EncodeAuthError(denial, xid_, AuthStatus::RPCSEC_GSS_CTXPROBLEM);
    co_return denial.Finish();
  }
  if (credential_.service == GssService::kNone || !HasResults(plain)) {
    co_return WithVerifier(*peer.buffers, plain, *verifier);
  }
  const Result<SealPlan> plan = PlanSeal(*context_, credential_.service, plain, *verifier);
  Result<Message> sealed = std::unexpected(plan ? Failure() : plan.error());
  if (plan) {
    const BufferRef room = peer.buffers->Allocate(plan->size);
    const auto seal = [&] { return SealResults(*context_, *plan, sequence_, plain, *verifier, room); };
    const bool takes_long = plan->size >= kLong || HasFiles(plain);
    sealed = co_await Offload(peer.loop, takes_long ? pool_ : nullptr, seal, ClientKeyOf(peer));
  }
  if (sealed) co_return *std::move(sealed);
  // RFC 2203 §5.3.3.4.1, §5.3.3.4.4: then there is no reply.
  log::warn("the reply to {} cannot be sealed: {}", context_->initiator.names.display, sealed.error().text);
  co_return Message();
}

}  // namespace penstock::rpc::gss
