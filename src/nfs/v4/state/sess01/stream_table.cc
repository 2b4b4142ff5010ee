#include "nfs/v4/state/sess01/stream_table.h"

#include <cassert>

namespace penstock::nfs::v4::sess01 {

using State = StreamTable::Entry::State;

StreamTable::StreamTable(uint32_t count, bool keeps_replies) : entries_(count), keeps_replies_(keeps_replies) {
  assert(count > 0);
}

Result<StreamTable::Started, nfs4::nfsstat4> StreamTable::Start(const Request& request, const ChannelState& named) {
  using enum ChannelState::Standing;
  const bool is_retry = request.named != request.own;
  assert(!is_retry || named.standing == kForgotten || (named.standing == kClosed && named.retries));
  if (request.stream.value() >= count()) return std::unexpected(nfs4::NFS4ERR_SESS01_BADSTREAM);

  Entry& entry = entries_[request.stream.value()];
  if (Recognizes(entry, request.named, request.xid)) {
    if (entry.digest != request.digest) return std::unexpected(nfs4::NFS4ERR_SESS01_STREAM_INUSE);
    if (is_retry && named.retries) named.retries->Add(request.stream);
    return StartAgain(entry, is_retry);
  }
  // A repetition does not hold up the next request: a late retry may cause one after the client has had its answer.
  if (entry.state == State::kRunning) return std::unexpected(nfs4::NFS4ERR_SESS01_STREAM_INUSE);
  if (is_retry) {
    const bool stale = !named.retries || named.retries->Has(request.stream);
    if (stale) return std::unexpected(nfs4::NFS4ERR_SESS01_STREAM_INUSE);
    named.retries->Add(request.stream);
  }
  Replace(entry, {.channel = request.named, .xid = request.xid, .digest = request.digest});
  return Begin(entry, State::kRunning);
}

Result<StreamTable::Started, nfs4::nfsstat4> StreamTable::StartAgain(Entry& entry, bool is_retry) {
  switch (entry.state) {
    case State::kUnused:
      break;  // not recognized
    case State::kRunning:
    case State::kRepeating:
      return Started{Outcome::kWait};
    case State::kKept:
      return Started{Outcome::kReplay, entry.reply};
    case State::kWithdrawn:
      return Begin(entry, State::kRunning);
    case State::kUnkept:
      if (!is_retry) return std::unexpected(nfs4::NFS4ERR_SESS01_STREAM_INUSE);
      return Begin(entry, State::kRepeating);
    case State::kUnknownFate:
      break;
  }
  return std::unexpected(nfs4::NFS4ERR_SESS01_UNKNOWN_FATE);
}

StreamTable::Started StreamTable::Begin(Entry& entry, Entry::State state) {
  entry.state = state;
  entry.execution = Execution(++executions_);
  ++busy_;
  return {
      .outcome = Outcome::kRun, .execution = entry.execution, .repeats = state == State::kRepeating && keeps_replies_};
}

bool StreamTable::Recognizes(const Entry& entry, ChannelId named, rpc::Xid xid) {
  return entry.state != State::kUnused && entry.channel == named && entry.xid == xid;
}

StreamTable::Entry* StreamTable::Executing(StreamId stream, Execution execution) {
  return IsUnderWay(stream, execution) ? &entries_[stream.value()] : nullptr;
}

void StreamTable::Finish(StreamId stream, Execution execution, std::optional<xdr::Message> reply, bool changed) {
  Entry* entry = Executing(stream, execution);
  if (!entry) return;
  --busy_;
  if (!keeps_replies_) {
    entry->state = State::kUnkept;
  } else if (reply) {
    entry->state = State::kKept;
    entry->reply = *std::move(reply);
    kept_octets_ += entry->reply.memory();
  } else {
    entry->state = changed ? State::kUnknownFate : State::kUnkept;
  }
}

void StreamTable::Withdraw(StreamId stream, Execution execution) {
  Entry* entry = Executing(stream, execution);
  if (!entry) return;
  --busy_;
  entry->state = entry->state == State::kRunning ? State::kWithdrawn : State::kUnkept;
}

bool StreamTable::IsUnderWay(StreamId stream, Execution execution) const {
  if (stream.value() >= count()) return false;
  const Entry& entry = entries_[stream.value()];
  return entry.busy() && entry.execution == execution;
}

bool StreamTable::IsLast(StreamId stream, ChannelId named, rpc::Xid xid) const {
  return stream.value() < count() && Recognizes(entries_[stream.value()], named, xid);
}

bool StreamTable::Restore(StreamId stream, ChannelId named, rpc::Xid xid, uint64_t digest,
                          std::optional<xdr::Message> reply) {
  if (stream.value() >= count()) return false;
  Entry& entry = entries_[stream.value()];
  Replace(entry, {.state = State::kUnknownFate, .channel = named, .xid = xid, .digest = digest});
  if (reply) {
    entry.state = State::kKept;
    entry.reply = *std::move(reply);
    kept_octets_ += entry.reply.memory();
  }
  return true;
}

void StreamTable::Replace(Entry& entry, Entry with) {
  if (entry.busy()) --busy_;
  if (entry.state == State::kKept) kept_octets_ -= entry.reply.memory();
  entry = std::move(with);
}

void StreamTable::ForgetReplies() {
  for (Entry& entry : entries_) {
    if (entry.state != State::kKept) continue;
    kept_octets_ -= entry.reply.memory();
    entry.state = State::kUnknownFate;
    entry.reply = {};
  }
}

void StreamTable::Raise(uint32_t count) {
  assert(count >= this->count());
  entries_.resize(count);
}

void StreamTable::Lower(uint32_t target) {
  assert(target > 0 && target <= count());
  for (size_t stream = target; stream < entries_.size(); ++stream) Replace(entries_[stream], {});
  entries_.resize(target);
}

}  // namespace penstock::nfs::v4::sess01
