#include "rpc/gss/data_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "rpc/client_key.h"

namespace penstock::rpc::gss {
namespace {

SealingPlace PlaceOf(const Peer& peer, Workers* pool) {
  return {.buffers = *peer.buffers, .loop = peer.loop, .pool = pool, .client = ClientKeyOf(peer)};
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
  const SealingPlace place = PlaceOf(peer, pool_);
  Result<Message> unsealed =
      co_await gss::Unseal(*context_->protection, credential_.service, sequence_, behind, 0, place);
  if (!unsealed) {
    log::debug("arguments of {}: {}", context_->initiator.names.display, unsealed.error().text);
    co_return false;
  }
  arguments_ = *std::move(unsealed);
  co_return true;
}

// RFC 2203 §5.3.3.2: the verifier covers the sequence number of this call.
Result<Mic> DataCall::MakeVerifier() const {
  std::array<std::byte, 4> number;
  StoreBig(number.data(), sequence_);
  Mic mic;
  PENSTOCK_CHECK(context_->protection->mechanism->GetMic(number, mic));
  return mic;
}

Task<Message> DataCall::Seal(Message plain, const Peer& peer) {
  if (!IsAccepted(plain)) co_return plain;  // a denial has no seal (RFC 2203 §5.3.3.3)
  const SealingPlace place = PlaceOf(peer, pool_);
  const auto make_verifier = [&] { return MakeVerifier(); };
  const Result<Mic> verifier = co_await InTurn(*context_->protection, place.loop, place.pool, false, make_verifier);
  if (!verifier) {
    // RFC 2203 §5.3.3.4.1
    xdr::Encoder denial(*peer.buffers);
    EncodeAuthError(denial, xid_, AuthStatus::RPCSEC_GSS_CTXPROBLEM);
    co_return denial.Finish();
  }
  const Head head = ReplyHead(plain, *verifier);
  const Message results = BehindHead(plain);
  if (credential_.service == GssService::kNone || !HasResults(plain)) co_return Joined(*peer.buffers, head, results);
  Result<Message> sealed =
      co_await gss::Seal(*context_->protection, credential_.service, sequence_, head, results, place);
  if (sealed) co_return *std::move(sealed);
  // RFC 2203 §5.3.3.4.1, §5.3.3.4.4: the server sends no reply.
  log::warn("the reply to {} cannot be sealed: {}", context_->initiator.names.display, sealed.error().text);
  co_return Message();
}

}  // namespace penstock::rpc::gss
