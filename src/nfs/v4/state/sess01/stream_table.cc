#include "nfs/v4/state/sess01/stream_table.h"

#include <cassert>

namespace penstock::nfs::v4::sess01 {

using State = StreamTable::Entry::State;

StreamTable::StreamTable(uint32_t count, bool keeps_replies) : entries_(count), keeps_replies_(keeps_replies) {
  assert(count > 0);
}

Result<StreamTable::Started, nfs4::nfsstat4> StreamTable::Start(const Request& request, const ChannelState& named,
                                                                Moment now) {
  using enum ChannelState::Standing;
  const bool is_new = request.named == request.own;
  assert(is_new || named.standing == kClosed || named.standing == kForgotten);
  if (request.stream.value() >= count()) return std::unexpected(nfs4::NFS4ERR_SESS01_BADSTREAM);

  Entry& entry = entries_[request.stream.value()];
  if (entry.state != State::kUnused && entry.channel == request.named && entry.xid == request.xid) {
    return StartAgain(entry, request, now);
  }
  // A repetition does not hold up the next request: a late retry may cause one after its client has had the answer.
  if (entry.state == State::kRunning) return std::unexpected(nfs4::NFS4ERR_SESS01_STREAM_INUSE);
  const bool never_received = named.standing == kClosed && entry.accepted < named.closed;
  if (!is_new && !never_received) return std::unexpected(nfs4::NFS4ERR_SESS01_STREAM_INUSE);

  Replace(entry, {.state = State::kRunning,
                  .channel = request.named,
                  .xid = request.xid,
                  .digest = request.digest,
                  .accepted = now,
                  .started = now});
  return Started{Outcome::kRun};
}

Result<StreamTable::Started, nfs4::nfsstat4> StreamTable::StartAgain(Entry& entry, const Request& request, Moment now) {
  if (entry.digest != request.digest) return std::unexpected(nfs4::NFS4ERR_SESS01_STREAM_INUSE);
  switch (entry.state) {
    case State::kRunning:
    case State::kRepeating:
      return Started{Outcome::kWait};
    case State::kKept:
      return Started{Outcome::kReplay, entry.reply};
    case State::kUnknownFate:
      return std::unexpected(nfs4::NFS4ERR_SESS01_UNKNOWN_FATE);
    case State::kUnkept:
      // §2.5 forbids retries over a live channel.
      if (request.named == request.own) return std::unexpected(nfs4::NFS4ERR_SESS01_STREAM_INUSE);
      entry.state = State::kRepeating;
      break;
    case State::kWithdrawn:
      entry.state = State::kRunning;
      break;
    case State::kUnused:
      assert(false);
      break;
  }
  entry.started = now;
  ++busy_;
  return Started{Outcome::kRun};
}

StreamTable::Entry* StreamTable::Executing(StreamId stream, Moment started) {
  if (stream.value() >= count()) return nullptr;
  Entry& entry = entries_[stream.value()];
  return entry.busy() && entry.started == started ? &entry : nullptr;
}

void StreamTable::Finish(StreamId stream, Moment started, std::optional<xdr::Message> reply, bool changed) {
  Entry* entry = Executing(stream, started);
  if (!entry) return;
  --busy_;
  if (!keeps_replies_) {
    entry->state = State::kUnkept;
  } else if (reply) {
    entry->state = State::kKept;
    entry->reply = *std::move(reply);
    kept_octets_ += entry->reply.flat_size();
  } else {
    entry->state = changed ? State::kUnknownFate : State::kUnkept;
  }
}

void StreamTable::Withdraw(StreamId stream, Moment started) {
  Entry* entry = Executing(stream, started);
  if (!entry) return;
  --busy_;
  entry->state = entry->state == State::kRunning ? State::kWithdrawn : State::kUnkept;
}

bool StreamTable::IsLast(StreamId stream, ChannelId named, rpc::Xid xid) const {
  if (stream.value() >= count()) return false;
  const Entry& entry = entries_[stream.value()];
  return entry.state != State::kUnused && entry.channel == named && entry.xid == xid;
}

bool StreamTable::Restore(StreamId stream, ChannelId named, rpc::Xid xid, uint64_t digest,
                          std::optional<xdr::Message> reply) {
  if (stream.value() >= count()) return false;
  Entry& entry = entries_[stream.value()];
  Replace(entry, {.state = State::kUnknownFate, .channel = named, .xid = xid, .digest = digest});
  if (reply) {
    entry.state = State::kKept;
    entry.reply = *std::move(reply);
    kept_octets_ += entry.reply.flat_size();
  }
  return true;
}

void StreamTable::Replace(Entry& entry, Entry with) {
  if (entry.busy()) --busy_;
  if (with.busy()) ++busy_;
  if (entry.state == State::kKept) kept_octets_ -= entry.reply.flat_size();
  entry = std::move(with);
}

void StreamTable::Raise(uint32_t count) {
  assert(count >= this->count());
  // A new streamid may be one that was dropped. A late retry of its last request must still be stale.
  entries_.resize(count, Entry{.accepted = lowered_});
}

void StreamTable::Lower(uint32_t target, Moment now) {
  assert(target > 0 && target <= count());
  for (size_t stream = target; stream < entries_.size(); ++stream) Replace(entries_[stream], {});
  entries_.resize(target);
  lowered_ = now;
}

}  // namespace penstock::nfs::v4::sess01
