#include "rpc/gss/reverse_context.h"

#include "base/log.h"

namespace penstock::rpc::gss {

Task<penstock::Result<Message, CallError>> ReverseContext::Call(BackChannel& channel, Message call, ReplyShape shape) {
  const auto plain = ReadPlainCall(call);
  if (!plain) co_return std::unexpected(CallError::kNoContext);
  const uint32_t number = context_.protection->last_reverse_number.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number >= rpcsecgss::MAXSEQ) co_return std::unexpected(CallError::kNoContext);
  const SealingPlace place{.buffers = channel.buffers(), .loop = channel.loop(), .pool = pool_, .client = {}};
  CallOutcome outcome = co_await CallUnder(channel, context_, number, *plain, std::move(shape), place);
  if (!outcome.why.empty()) log::debug("a callback under RPCSEC_GSS: {}", outcome.why);
  if (outcome.forgotten) co_return std::unexpected(CallError::kNoContext);
  co_return std::move(outcome.reply);
}

}  // namespace penstock::rpc::gss
