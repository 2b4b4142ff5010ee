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

DataCall::DataCall(std::shared_ptr<SecurityContext> context, GssService service, uint32_t sequence, Xid xid,
                   Workers* pool)
    : context_(std::move(context)), sequence_(sequence), xid_(xid), pool_(pool) {
  credential_.flavor = AuthFlavor::RPCSEC_GSS;
  credential_.uid = context_->initiator.uid;
  credential_.gid = context_->initiator.gid;
  credential_.initiator = &context_->initiator.names;
  if (context_->conjunction) credential_.mechanism = GssMechanism::kConjunction;
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
  // RFC 8166 §8.2.2.3: sealed data is not reduced.
  if (!behind.items.empty()) co_return false;
  const size_t size = behind.stream.size();
  const bool is_private = credential_.service == GssService::kPrivacy;
  const BufferRef room = is_private ? peer.buffers->Allocate(size) : BufferRef();
  const auto unseal = [&] {
    return is_private ? UnsealPrivacy(*context_, sequence_, behind, room)
                      : UnsealIntegrity(*context_, sequence_, behind);
  };
  std::optional<Message> unsealed = co_await InTurn(context_, peer.loop, pool_, size >= kLong, unseal);
  if (!unsealed) co_return false;
  arguments_ = *std::move(unsealed);
  co_return true;
}

DataCall::Prepared DataCall::Prepare(const Message& plain) const {
  // RFC 2203 §5.3.3.2: the verifier covers the sequence number of this call.
  std::array<std::byte, 4> number;
  StoreBig(number.data(), sequence_);
  Mic mic;
  if (const auto signed_ = context_->mechanism->GetMic(number, mic); !signed_) {
    return {.verifier = std::unexpected(signed_.error()), .plan = SealPlan()};
  }
  if (credential_.service == GssService::kNone || !HasResults(plain)) return {.verifier = mic, .plan = SealPlan()};
  return {.verifier = mic, .plan = PlanSeal(*context_, credential_.service, plain, mic)};
}

Task<Message> DataCall::Seal(Message plain, const Peer& peer) {
  if (!IsAccepted(plain)) co_return plain;  // a denial has no seal (RFC 2203 §5.3.3.3)
  const auto prepare = [&] { return Prepare(plain); };
  const Prepared prepared = co_await InTurn(context_, peer.loop, pool_, false, prepare);
  const auto& [verifier, plan] = prepared;
  if (!verifier) {
    // RFC 2203 §5.3.3.4.1
    xdr::Encoder denial(*peer.buffers);
    EncodeAuthError(denial, xid_, AuthStatus::RPCSEC_GSS_CTXPROBLEM);
    co_return denial.Finish();
  }
  if (credential_.service == GssService::kNone || !HasResults(plain)) {
    co_return WithVerifier(*peer.buffers, plain, *verifier);
  }
  Result<Message> sealed = std::unexpected(plan ? Failure() : plan.error());
  if (plan) {
    const BufferRef room = peer.buffers->Allocate(plan->size);
    const bool takes_long = plan->size >= kLong;
    const auto write = [&] { return WriteResults(*plan, sequence_, plain, *verifier, room); };
    // Reads files without the context's turn, so that its other calls do not wait for the disk.
    const bool reads = HasFiles(plain);
    Result<void> written;
    if (reads) written = co_await Offload(peer.loop, pool_, write, ClientKeyOf(peer), WorkKind::kData);
    const auto seal = [&]() -> Result<Message> {
      if (!reads) PENSTOCK_CHECK(write());
      return SealResults(*context_, *plan, *verifier, room);
    };
    if (!written) {
      sealed = std::unexpected(written.error());
    } else {
      sealed = co_await InTurn(context_, peer.loop, pool_, takes_long, seal);
    }
  }
  if (sealed) co_return *std::move(sealed);
  // RFC 2203 §5.3.3.4.1, §5.3.3.4.4: the server sends no reply.
  log::warn("the reply to {} cannot be sealed: {}", context_->initiator.names.display, sealed.error().text);
  co_return Message();
}

}  // namespace penstock::rpc::gss
