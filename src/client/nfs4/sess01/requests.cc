// The requests of a session of 2004: streamids, OPERATION_CONTROL and chains (draft-talpey-nfsv4-rdma-sess-01 §2.7,
// §3.2, §6.4).
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "client/nfs4/sess01/bound_session.h"

namespace penstock::client::v4::sess01 {

using nfs4::ChainFlags;
using nfs4::nfsstat4;

namespace {

// Octets of a call without its operations: the RPC header with the longest AUTH_SYS credential of this client, the head
// of the COMPOUND, and OPERATION_CONTROL.
constexpr size_t kAroundRequest = 512;
// Octets of a reply without the results of its operations.
constexpr size_t kAroundReply = 64;

}  // namespace

// ---- single requests ----

Task<std::optional<uint32_t>> BoundSession::TakeStream(uint64_t generation) {
  while (!ended() && generation == lease_.generation() && lease_.has_session()) {
    if (const auto stream = streams_.Take()) co_return stream;
    co_await changed_;
  }
  co_return std::nullopt;
}

Link* BoundSession::FindLink() const {
  Link* best = nullptr;
  const auto is_better = [](const Link& one, const Link& other) {
    if (one.connected() != other.connected()) return one.connected();
    // The share of the credits that is in use.
    return uint64_t{one.in_use} * other.limits().credits < uint64_t{other.in_use} * one.limits().credits;
  };
  for (const auto& link : links_) {
    if (!link->chained && (!best || is_better(*link, *best))) best = link.get();
  }
  return best;
}

Task<std::optional<BoundSession::Request>> BoundSession::StartRequest(uint64_t generation) {
  const auto stream = co_await TakeStream(generation);
  if (!stream) co_return std::nullopt;
  Link* link = FindLink();
  // An unchained request would end a chain (§2.7), so it waits until the chain's last request has left.
  while (!link) {
    co_await changed_;
    link = FindLink();
  }
  ++link->in_use;
  co_return Request{.stream = *stream, .link = link, .generation = generation};
}

Task<Result<BoundSession::Answer>> BoundSession::Send(Request request, ChainFlags flag, CompoundParts& parts, Part part,
                                                      std::string_view what) {
  Link& link = *request.link;
  const nfs4::OPERATIONCONTROL4args control{link.operations_channel(), request.stream, flag};
  rpc::ReplyShape shape = parts.Shape(part);
  AddBounds(control, {}, shape);
  const auto encode = [&](xdr::Encoder& encoder) {
    xdr::Encode(encoder, nfs4::COMPOUND4args_head{{}, dialect().minor_version, part.count + 1});
    EncodeOperation(encoder, control);
    parts.Encode(encoder, part);
  };
  nfs4::COMPOUND4res_head head;
  nfs4::OPERATIONCONTROL4res result;
  const auto decode = [&](xdr::Decoder& decoder) {
    if (!DecodeHead(decoder, part.count + 1, head) || head.count == 0) return false;
    if (!DecodeOperation<nfs4::OPERATIONCONTROL4args>(decoder, result)) return false;
    const bool is_ours = result.status() == nfsstat4::NFS4_OK ? result.streamid() == request.stream : head.count == 1;
    return is_ours && parts.Decode(decoder, {part.first, head.count - 1});
  };
  const TimePoint sent = timers_.Now();
  const uint64_t epoch = lease_.epoch();
  auto message = co_await link.client().CallWith<nfs4::NFSPROC4_COMPOUND>(encode, std::move(shape), decode);
  answered_ = message.has_value();
  const bool was_lost = message && link.lost_calls().Has(*message);
  if (--link.in_use == 0) link.lost_calls().Clear();
  const bool is_retry = link.operations_channel() != control.channelid;
  const bool in_use_elsewhere = message && result.status() == nfsstat4::NFS4ERR_SESS01_STREAM_INUSE && !is_retry;
  if (message && !in_use_elsewhere) {
    streams_.HandleAnswered(request.stream);
  } else {
    streams_.HandleDoubtful(request.stream);
  }
  changed_.Notify();
  if (!message) {
    const auto trouble = link.TroubleOf(message.error());
    if (trouble) co_return std::unexpected(Error{fmt::format("{}: {}", what, trouble->message), {}, trouble->number});
    co_return std::unexpected(v4::ErrorOf(message.error(), what));
  }
  // Any request renews the lease (§3.5).
  if (result.status() == nfsstat4::NFS4_OK) lease_.HandleExecuted(request.generation, sent);
  nfsstat4 control_status = result.status();
  const bool is_gone =
      control_status == nfsstat4::NFS4ERR_SESS01_BADSESSION || control_status == nfsstat4::NFS4ERR_SESS01_NOT_BOUND;
  if (is_gone) {
    LoseSession(request.generation);
    // The server has forgotten which requests it has executed over the lost connection.
    if (was_lost && parts.ChangesFiles(part)) control_status = head.status = nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE;
  }
  co_return Answer{.message = *std::move(message),
                   .control = control_status,
                   .status = head.status,
                   .count = head.count - 1,
                   .is_retry = is_retry,
                   .restarted = lease_.epoch() != epoch};
}

CompoundCaller::Fate BoundSession::HandleControl(const Answer& answer, const CompoundParts& parts, Part part) {
  switch (answer.control) {
    case nfsstat4::NFS4ERR_SESS01_BADSESSION:
    case nfsstat4::NFS4ERR_SESS01_NOT_BOUND:
      return Fate::kAgain;
    case nfsstat4::NFS4ERR_DELAY:
      return Fate::kLater;
    case nfsstat4::NFS4ERR_SESS01_STREAM_INUSE:
      // Another request has the streamid, perhaps one that the client has given up. This one was not executed, unless
      // it is a retry: then nobody knows.
      return answer.is_retry && parts.ChangesOnce(part) ? Fate::kDone : Fate::kLater;
    case nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE:
      // Opens and locks have ended with a restart of the server, so that only a change of files may be there. Without a
      // restart, the server has dropped the replies of a client that was silent for a lease time.
      return (answer.restarted ? parts.ChangesFiles(part) : parts.ChangesOnce(part)) ? Fate::kDone : Fate::kLater;
    default:
      return Fate::kDone;
  }
}

Task<Result<CompoundCaller::Executed>> BoundSession::Execute(Compound& compound, std::string_view what) {
  const uint64_t generation = lease_.generation();
  if (session_options_.chain) {
    std::vector<Part> parts = PartsOf(compound);
    if (parts.size() > 1) co_return co_await ExecuteChain(compound, std::move(parts), what);
  }
  const auto request = co_await StartRequest(generation);
  // The session is lost, and the next one must reclaim all state first. The stateids of the request may be out of date.
  if (!request) co_return Executed{.message = {}, .status = nfsstat4::NFS4ERR_DELAY, .fate = Fate::kAgain};
  auto answer = co_await Send(*request, ChainFlags::NOCHAIN, compound.parts, {0, compound.count}, what);
  if (!answer) co_return std::unexpected(std::move(answer).error());
  Executed executed{std::move(answer->message), answer->status, answer->count, Fate::kDone};
  if (answer->control != nfsstat4::NFS4_OK) {
    executed.fate = HandleControl(*answer, compound.parts, {0, compound.count});
  } else if (answer->status != nfsstat4::NFS4_OK) {
    executed.fate = FateOf(answer->status, compound, answer->count);
  }
  co_return executed;
}

CompoundCaller::Fate BoundSession::FateOf(nfsstat4 status, const Compound& compound, uint32_t count) const {
  // An operation before the one that failed has changed something.
  if (count > 1 && compound.parts.ChangesFiles({0, count - 1})) return Fate::kDone;
  // RFC 7530 §13.1.1.3, §13.1.5.4
  if (status == nfsstat4::NFS4ERR_DELAY || status == nfsstat4::NFS4ERR_GRACE) return Fate::kLater;
  // An operation with a stateid goes back to its caller, because the reclaim replaces or loses the stateid.
  return !lease_.ready() && !recovering() && !compound.has_state_id ? Fate::kAgain : Fate::kDone;
}

// ---- chains ----

Size BoundSession::Room() const {
  Size room = kUnlimited;
  for (const auto& link : links_) {
    const rpc::ConnectionLimits& limits = link->limits();
    room.request =
        std::min<size_t>(room.request, limits.max_request - std::min<size_t>(limits.max_request, kAroundRequest));
    // Over RDMA, a Reply chunk takes a long reply.
    if (link->is_rdma()) continue;
    room.reply =
        std::min<size_t>(room.reply, limits.max_response - std::min<size_t>(limits.max_response, kAroundReply));
  }
  return room;
}

std::vector<Part> BoundSession::PartsOf(const Compound& compound) const {
  const bool counts_payloads = std::ranges::any_of(links_, [](const auto& link) { return !link->is_rdma(); });
  const auto size_of = [&](Part part) {
    xdr::Encoder encoder(buffers_);
    compound.parts.Encode(encoder, part);
    const rpc::ReplyShape shape = compound.parts.Shape(part);
    Size size{.request = encoder.reduced_size(), .reply = shape.max_stream};
    if (counts_payloads) {
      for (const rpc::ResultSink& sink : shape.results) size.reply += sink.max_length;
      size.request = encoder.Finish().flat_size();
    }
    return size;
  };
  const Size room = Room();
  if (size_of({0, compound.count}).Fits(room)) return {};
  std::vector<Size> sizes;
  sizes.reserve(compound.count);
  for (uint32_t i = 0; i < compound.count; ++i) sizes.push_back(size_of({i, 1}));
  return Split(sizes, room);
}

struct BoundSession::Chained {
  Compound& compound;
  const std::vector<Part> parts;
  const std::string_view what;
  const uint64_t generation;
  Link* link = nullptr;
  std::vector<std::optional<Result<Answer>>> answers = std::vector<std::optional<Result<Answer>>>(parts.size());
  size_t running = 0;

  // Whether all answers so far let the chain go on.
  bool goes_on() const {
    return std::ranges::all_of(
        answers, [](const auto& answer) { return !answer || (*answer && (*answer)->status == nfsstat4::NFS4_OK); });
  }
  // Returns the answer to a request that may have changed something which must not change twice, though the answer does
  // not tell; null if there is none. The server may have executed it although an earlier request of the chain has to be
  // sent again.
  Result<Answer>* FindDoubtful() {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!answers[i]) continue;
      Result<Answer>& answer = *answers[i];
      const bool is_doubtful = !answer ? compound.parts.ChangesFiles(parts[i])
                                       : (answer->control == nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE ||
                                          answer->control == nfsstat4::NFS4ERR_SESS01_STREAM_INUSE) &&
                                             HandleControl(*answer, compound.parts, parts[i]) == Fate::kDone;
      if (is_doubtful) return &answer;
    }
    return nullptr;
  }
};

Task<Result<CompoundCaller::Executed>> BoundSession::ExecuteChain(Compound& compound, std::vector<Part> parts,
                                                                  std::string_view what) {
  Chained chain{.compound = compound, .parts = std::move(parts), .what = what, .generation = lease_.generation()};
  log::debug("{}: a chain of {} requests", what, chain.parts.size());
  co_await SendChain(chain);
  while (chain.running > 0) co_await changed_;
  co_return ResultOf(chain);
}

// Sends the requests of a chain one behind the other, without waiting for replies as long as there are streamids. The
// chain has its link for itself until its last request has left.
Task<void> BoundSession::SendChain(Chained& chain) {
  co_await chain_turn_.Take();
  const Turn::Guard guard(chain_turn_);
  auto stream = co_await TakeStream(chain.generation);
  if (!stream) co_return;
  Link& link = *FindLink();  // no other chain has a link
  chain.link = &link;
  link.chained = true;
  const uint32_t channel = link.operations_channel();
  size_t next = 0;
  for (; next < chain.parts.size() && stream && chain.goes_on() && link.operations_channel() == channel; ++next) {
    ++chain.running;
    ++link.in_use;
    Spawn(RunPart(chain, next,
                  {.stream = *std::exchange(stream, std::nullopt), .link = &link, .generation = chain.generation}));
    if (next + 1 < chain.parts.size()) stream = co_await TakeStream(chain.generation);
  }
  if (stream) {
    // The chain ends early. Its end must be told, or the next chain on this channel could not begin.
    if (link.operations_channel() == channel) {
      ++chain.running;
      ++link.in_use;
      Spawn(EndChain(chain, {.stream = *stream, .link = &link, .generation = chain.generation}));
    } else {
      streams_.HandleAnswered(*stream);
    }
  }
  link.chained = false;
  changed_.Notify();
}

Task<void> BoundSession::RunPart(Chained& chain, size_t index, Request request) {
  auto answer =
      co_await Send(request, FlagOf(index, chain.parts.size()), chain.compound.parts, chain.parts[index], chain.what);
  chain.answers[index].emplace(std::move(answer));
  --chain.running;
  changed_.Notify();
}

Task<void> BoundSession::EndChain(Chained& chain, Request request) {
  (void)co_await Send(request, ChainFlags::CHAINEND, chain.compound.parts, {0, 0}, chain.what);
  --chain.running;
  changed_.Notify();
}

// The results of the requests one after the other, up to the first operation that failed.
Result<CompoundCaller::Executed> BoundSession::ResultOf(Chained& chain) {
  Executed executed{.message = {}, .status = nfsstat4::NFS4_OK, .count = 0, .fate = Fate::kDone};
  for (size_t i = 0; i < chain.answers.size(); ++i) {
    auto& answer = chain.answers[i];
    if (answer && !*answer) return std::unexpected(std::move(*answer).error());
    const bool was_executed = answer && (*answer)->control == nfsstat4::NFS4_OK;
    if (was_executed) {
      executed.count += (*answer)->count;
      executed.status = (*answer)->status;
      executed.more_messages.push_back(std::move((*answer)->message));
      if (executed.status == nfsstat4::NFS4_OK) continue;
      executed.fate = FateOf(executed.status, chain.compound, executed.count);
      return executed;
    }
    // This request was not executed, so the operations before it are all that was.
    const bool is_broken = !answer || (*answer)->control == nfsstat4::NFS4ERR_SESS01_CHAIN_BROKEN ||
                           (*answer)->control == nfsstat4::NFS4ERR_SESS01_CHAIN_INVALID;
    const Fate fate = is_broken ? Fate::kLater : HandleControl(**answer, chain.compound.parts, chain.parts[i]);
    if (fate == Fate::kDone) {
      executed.status = (*answer)->control;
      return executed;
    }
    if (Result<Answer>* const doubtful = chain.FindDoubtful()) {
      if (!*doubtful) return std::unexpected(std::move(*doubtful).error());
      executed.status = nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE;
      return executed;
    }
    executed.status = nfsstat4::NFS4ERR_SESS01_CHAIN_BROKEN;
    // If nothing has changed, the whole COMPOUND can be executed again.
    const bool can_repeat = !chain.compound.parts.ChangesOnce({0, executed.count});
    executed.fate = can_repeat ? fate : Fate::kDone;
    return executed;
  }
  return executed;
}

}  // namespace penstock::client::v4::sess01
