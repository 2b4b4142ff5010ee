#include "rpc/tcp/served_connection.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/probes.h"
#include "rpc/header.h"
#include "rpc/tcp/awaiters.h"
#include "rpc/tcp/served_back_channel.h"
#include "xdr/flatten.h"

namespace penstock::rpc::tcp {
namespace {

// The buffer that holds `record`; null if there is none.
const Buffer* Behind(const Slice& record) { return record.owner() ? &*record.owner() : nullptr; }

// Returns the octets of the record with `message`. Returns none if a payload is in a file that cannot be read.
std::optional<std::vector<std::byte>> RecordOf(BufferPool& buffers, Message message) {
  if (!xdr::LoadFiles(message, buffers)) return std::nullopt;
  const Slice stream = xdr::Unreduce(buffers, message);
  std::vector<std::byte> record(kRecordHeaderSize + stream.size());
  StoreBig(record.data(), static_cast<uint32_t>(stream.size()) | kLastFragment);
  CopyBytes(Bytes(record).subspan(kRecordHeaderSize), stream.bytes());
  return record;
}

}  // namespace

ServedConnection::ServedConnection(Loop& loop, CallHandler& handler, const ServerOptions& options,
                                   HandshakeGate& handshakes, asio::ip::tcp::socket socket, Peer peer,
                                   std::unique_ptr<ConnectionTable::Place> place)
    : loop_(loop),
      handler_(handler),
      options_(options),
      handshakes_(handshakes),
      peer_(std::move(peer)),
      place_(std::move(place)),
      memory_(options.memory->Open(peer_.address.address())),
      back_channel_(std::make_shared<Back>(*this)),
      socket_(std::make_shared<RecordSocket>(loop, std::move(socket), options.max_record, *this)),
      max_calls_(options.max_calls) {
  peer_.back_channel = back_channel_;
  peer_.order = &order_;
  peer_.memory = memory_.get();
  peer_.control = this;
  place_->set_on_evicted([&loop, weak = std::weak_ptr(socket_), counts = std::weak_ptr(peer_.counts)] {
    loop.Post([counts] {
      if (const auto live = counts.lock()) live->SetEnd(metrics::ConnectionEnd::kMadeRoom);
    });
    PostClose(loop, weak, "it was idle, and another connection needed its place");
  });
  memory_->set_on_room([&loop, weak = std::weak_ptr(self_)] { PostChange(loop, weak); });
  place_->Describe(peer_);
  TellIdle();
}

ServedConnection::~ServedConnection() {
  if (back_channel_) back_channel_->HandleLost();
  socket_->Abandon();
}

Task<void> ServedConnection::Run() {
  for (;;) {
    bool may = MayTakeCall();
    if (!may) may = co_await Wait(&ServedConnection::MayTakeCall);
    if (!may) break;
    auto record = socket_->TakeReceived();
    if (!record) record = co_await socket_->Receive();
    if (!accepting()) break;
    if (record && IsTlsBegin(*record)) {
      const bool secured = co_await BeginTls(std::move(*record));
      if (!secured) break;
      continue;
    }
    if (record) {
      Handle(std::move(*record));
      if (socket_->EndsTurn(MemoryBudget::kCall)) {
        co_await NextTurn(loop_);
        socket_->BeginTurn();
      }
      continue;
    }
    if (socket_->awaited() == 0) break;
    may = MayTakeRecord();
    if (!may) may = co_await Wait(&ServedConnection::MayTakeRecord);
    if (!may) break;
  }
  memory_->StopWaiting();
  if (requester_) requester_->HandleEnd();
  if (!stepping_) back_channel_->HandleLost();
  socket_->Flush();
  while (calls_ > 0 || (!socket_->closed() && socket_->queued_octets() > 0)) co_await changed_;
  if (!last_reply_.empty() && !socket_->closed()) HandOver();
  socket_->Close();
}

void ServedConnection::Drain() {
  draining_ = true;
  SetEnd(metrics::ConnectionEnd::kStop);
  // A connection that was about to step up ends instead. Its reply leaves as usual.
  if (!last_reply_.empty() && !socket_->closed()) socket_->Send(std::exchange(last_reply_, {}));
  socket_->StopReceiving();
  PostChange(loop_, self_);
}

void ServedConnection::PostClose(Loop& loop, std::weak_ptr<RecordSocket> weak, std::string why) {
  loop.Post([weak = std::move(weak), why = std::move(why)] {
    const auto live = weak.lock();
    if (!live || live->closed()) return;
    log::debug("closed a connection: {}", why);
    live->Close();
  });
}

void ServedConnection::PostChange(Loop& loop, std::weak_ptr<ServedConnection*> weak) {
  loop.Post([weak = std::move(weak)] {
    if (const auto self = weak.lock()) (*self)->changed_.Notify();
  });
}

Task<bool> ServedConnection::Wait(bool (ServedConnection::*condition)()) {
  waiting_ = true;
  bool holds = false;
  while (accepting() && !socket_->closed()) {
    holds = (this->*condition)();
    if (holds) break;
    socket_->Flush();
    // The flush may have made room, or ended the connection.
    if (socket_->closed()) break;
    holds = (this->*condition)();
    if (holds) break;
    co_await changed_;
    socket_->BeginTurn();
  }
  waiting_ = false;
  co_return holds;
}

bool ServedConnection::MayTakeCall() {
  const bool awaiting = requester_ && !requester_->idle();
  if (calls_ >= max_calls_ * (awaiting ? 2 : 1) || held_.octets() >= options_.max_call_octets ||
      socket_->queued_memory() >= options_.max_queued_octets) {
    return false;
  }
  if (call_admitted_) return true;
  if (awaiting) {
    memory_->StopWaiting();
    memory_->Update(memory_->used() + MemoryBudget::kCall);
  } else if (!memory_->Admit(MemoryBudget::kCall)) {
    return false;
  }
  return call_admitted_ = true;
}

bool ServedConnection::MayTakeRecord() {
  const size_t octets = socket_->awaited();
  if (held_.octets() > 0 && held_.octets() + octets > options_.max_call_octets) return false;
  if (!memory_->Admit(octets)) return false;
  record_octets_ = octets;
  socket_->Admit();
  return true;
}

void ServedConnection::Handle(Slice record) {
  record_octets_ = 0;
  const Direction direction = DirectionOf(record.bytes());
  if (direction == Direction::kCall) {
    call_admitted_ = false;
    CallTicket call = BeginCall(Behind(record));
    CountMemory();
    place_->HandleBusy();
    Spawn(Serve(std::move(record), std::move(call)));
    return;
  }
  CountMemory();
  if (direction == Direction::kReply && requester_) requester_->HandleReply(std::move(record));
}

void ServedConnection::EndCall(const Buffer* buffer) {
  --calls_;
  held_.Remove(buffer);
}

ServedConnection::CallTicket ServedConnection::BeginCall(const Buffer* buffer) {
  ++calls_;
  held_.Add(buffer);
  return CallTicket(*this, buffer);
}

Task<void> ServedConnection::Serve(Slice record, CallTicket ticket) {
  const uint32_t xid = LoadBig<uint32_t>(record.data());
  PENSTOCK_PROBE(3, call__received, xid, peer_.connection, record.size());
  std::optional<CallOrder::Place> place;
  if (back_channel_->bound()) {
    place.emplace(order_.Enter(Xid(xid), CallOrder::Lateness::kArguments));
  }
  Message call;
  call.stream = std::move(record);
  Message reply = co_await handler_.HandleCall(std::move(call), peer_);
  // The call counts until the end, so that Run() does not destroy this connection when Close() or Send() ends it.
  if (reply.empty()) {
    // Close the connection to tell the client that the call gets no reply (RFC 7530 §3.1.1, RFC 8881 §2.9.2).
    log::debug("closed a connection of {}: a call has no reply", peer_.address.address().to_string());
    SetEnd(metrics::ConnectionEnd::kNoReply);
    socket_->Close();
  } else if (stepping_ && !draining_) {
    last_reply_ = std::move(reply);
  } else if (!socket_->closed()) {
    PENSTOCK_PROBE(2, reply__posted, xid, peer_.connection);
    socket_->Send(std::move(reply));
  }
  place.reset();
  ticket.GiveBack();
  CountMemory();
  TellIdle();
  changed_.Notify();  // must be last, because it may destroy the connection
}

void ServedConnection::CountMemory() {
  memory_->Update((calls_ + (call_admitted_ ? 1 : 0)) * MemoryBudget::kCall + record_octets_ + held_.octets() +
                  socket_->queued_memory());
}

void ServedConnection::TellIdle() {
  // A connection that steps up keeps its place, whatever it waits for.
  if (calls_ == 0 && socket_->queued_octets() == 0 && !stepping_) place_->HandleIdle(loop_.Now());
}

Requester& ServedConnection::requester() {
  if (!requester_) requester_ = std::make_unique<Requester>(loop_, *socket_, options_.back_call_limit);
  return *requester_;
}

void ServedConnection::OnClosed() {
  // HandleClosed() resumes the callers of the client. The ticket ensures that they do not destroy the connection
  // meanwhile.
  CallTicket open = BeginCall(nullptr);
  back_channel_->HandleLost();
  if (requester_) requester_->HandleClosed();
  open.GiveBack();
  CountMemory();
  changed_.Notify();
}

void ServedConnection::OnSent() {
  if (requester_) requester_->HandleSent();
  CountMemory();
  TellIdle();
  changed_.Notify();
}

// ---- the limits of the connection, and its change of transport ----

ConnectionLimits ServedConnection::Offer(const ConnectionLimits& asked) const {
  const auto own = [](size_t limit) {
    return static_cast<uint32_t>(std::min<size_t>(limit, std::numeric_limits<uint32_t>::max()));
  };
  const uint32_t size = own(options_.max_record);
  return Grant(asked, {.max_request = size, .max_response = size, .credits = own(options_.max_calls)});
}

// The sizes need no work here: the socket receives every record within ServerOptions::max_record, and the program
// refuses calls that are longer than it has agreed.
void ServedConnection::Bind(Xid /*call*/, const ConnectionLimits& limits) { max_calls_ = limits.credits; }

void ServedConnection::Withdraw(uint32_t credits) { max_calls_ = std::min(max_calls_, std::max<size_t>(credits, 1)); }

size_t ServedConnection::ReplyRoom(Xid /*call*/) const { return std::numeric_limits<size_t>::max(); }

bool ServedConnection::IsQuiet() const {
  return calls_ == 1 && (!requester_ || requester_->idle()) && socket_->quiet();
}

std::optional<ConnectionLimits> ServedConnection::OfferStepUp(Xid /*call*/, const ConnectionLimits& asked) const {
  if (!options_.step_up || !accepting() || !IsQuiet()) return std::nullopt;
  return options_.step_up_limits.Grant(asked);
}

void ServedConnection::StepUp(Xid call, const ConnectionLimits& limits) {
  if (!OfferStepUp(call, limits)) {
    log::debug("closed a connection of {}: it is busy and cannot become an RDMA connection",
               peer_.address.address().to_string());
    SetEnd(metrics::ConnectionEnd::kServer);
    return socket_->Close();
  }
  stepping_ = limits;
  back_channel_->BeginChange();
  // Run() takes no more calls, and ends after this one.
  socket_->StopReceiving();
}

void ServedConnection::HandOver() {
  std::optional<std::vector<std::byte>> record = RecordOf(loop_.buffers(), std::exchange(last_reply_, {}));
  if (!record) return;
  std::optional<ReleasedSocket> socket = socket_->Release();
  if (!socket) return;
  memory_->Update(0);
  SetEnd(metrics::ConnectionEnd::kSteppedUp);
  back_channel_->HandleHandedOver();
  options_.step_up({.socket = *std::move(socket),
                    .last_octets = *std::move(record),
                    .limits = *stepping_,
                    .number = peer_.connection,
                    .place = std::move(place_),
                    .memory = std::move(memory_),
                    .back_channel = std::move(back_channel_)});
}

}  // namespace penstock::rpc::tcp
