#include "rpc/tcp/requester.h"

#include <cassert>

namespace penstock::rpc::tcp {
namespace {

// The number of ticks in call_limit.
constexpr uint64_t kTicksPerLimit = 8;

}  // namespace

Requester::Requester(Loop& loop, RecordSocket& socket, Duration call_limit)
    : socket_(socket), tick_length_(call_limit / kTicksPerLimit), timer_(loop.MakeTimer([this] { Tick(); })) {}

Requester::~Requester() { assert(idle()); }

Task<Result<Message, CallError>> Requester::Call(Message call) {
  const size_t size = call.flat_size();
  if (size < 4 || size >= kLastFragment) co_return std::unexpected(CallError::kTooLarge);
  if (ended_ || socket_.closed()) co_return std::unexpected(CallError::kDisconnected);
  Pending pending;
  pending.xid = LoadBig<uint32_t>(call.stream.data());
  pending.started = tick_;
  Insert(pending);
  pending.number = socket_.Send(std::move(call));
  co_return co_await pending.reply;
}

void Requester::Insert(Pending& pending) {
  assert(!*Find(pending.xid));
  Pending*& bucket = buckets_[pending.xid % buckets_.size()];
  pending.next = std::exchange(bucket, &pending);
  if (pending_count_++ == 0) timer_->ExpireAfter(tick_length_);
}

Requester::Pending** Requester::Find(uint32_t xid) {
  Pending** link = &buckets_[xid % buckets_.size()];
  while (*link && (*link)->xid != xid) link = &(*link)->next;
  return link;
}

Requester::Pending* Requester::Unlink(Pending** link) {
  --pending_count_;
  return std::exchange(*link, (*link)->next);
}

template <class Condition>
Requester::Pending* Requester::UnlinkAll(Condition condition) {
  Pending* list = nullptr;
  for (Pending*& bucket : buckets_) {
    for (Pending** link = &bucket; *link;) {
      if (!condition(**link)) {
        link = &(*link)->next;
        continue;
      }
      Pending* pending = Unlink(link);
      pending->next = std::exchange(list, pending);
    }
  }
  return list;
}

void Requester::FailAll(Pending* list, CallError error) {
  while (list) {
    Pending* pending = std::exchange(list, list->next);
    pending->reply.Set(std::unexpected(error));
  }
}

void Requester::HandleReply(Slice record) {
  if (record.size() < 4) return;
  Pending** link = Find(LoadBig<uint32_t>(record.data()));
  if (!*link) return;  // the call has timed out
  // The peer replies to a call that has not been sent completely. The call cannot return yet, because the socket still
  // reads the memory of its caller. Close the connection.
  if (!socket_.IsSent((*link)->number)) return socket_.Close();
  Pending* pending = Unlink(link);
  Message reply;
  reply.stream = std::move(record);
  pending->reply.Emplace(std::move(reply));
}

void Requester::HandleSent() {
  if (ended_) HandleEnd();
}

void Requester::HandleEnd() {
  ended_ = true;
  // The socket still reads the memory of calls that are not sent completely. They fail after they have been sent.
  FailAll(UnlinkAll([this](const Pending& pending) { return socket_.IsSent(pending.number); }),
          CallError::kDisconnected);
}

void Requester::HandleClosed() {
  timer_->Cancel();
  FailAll(UnlinkAll([](const Pending&) { return true; }), CallError::kDisconnected);
}

// Runs every tick_length_ while calls are pending.
void Requester::Tick() {
  ++tick_;
  Pending* expired = UnlinkAll([this](const Pending& pending) { return tick_ - pending.started > kTicksPerLimit; });
  bool unsent = false;
  for (const Pending* pending = expired; pending; pending = pending->next) unsent |= !socket_.IsSent(pending->number);
  if (pending_count_ > 0) timer_->ExpireAfter(tick_length_);
  // The peer has not read the whole call. Close the socket, so that it stops reading the memory of the caller.
  if (unsent) socket_.Close();
  FailAll(expired, CallError::kTimedOut);
}

}  // namespace penstock::rpc::tcp
