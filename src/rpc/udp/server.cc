#include "rpc/udp/server.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/ready.h"
#include "rpc/header.h"

namespace penstock::rpc::udp {
namespace {

// Others on the loop have their turn after this number of datagrams.
constexpr int kDatagramsPerTurn = 32;
// The pause after the system could not receive, for lack of memory.
constexpr Duration kPause = std::chrono::milliseconds(100);

SipKey RandomKey() {
  SipKey key;
  FillRandomly(std::as_writable_bytes(std::span(key)));
  return key;
}

}  // namespace

Server::Server(Loop& loop, CallHandler& handler, ServerOptions options)
    : loop_(loop),
      handler_(handler),
      options_(options),
      readiness_(loop.context()),
      calls_(options.calls),
      allowance_(options.replies, RandomKey()),
      counts_(options.recorder.ForDatagrams()) {}

Server::~Server() { assert(!receiving_ && calls_.size() == 0); }

SetupResult<void> Server::Start(Listener listener) {
  listener_.emplace(std::move(listener));
  const int duplicate = ::fcntl(listener_->fd(), F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) return std::unexpected(SetupError{"cannot listen with UDP: " + DescribeErrno(errno)});
  asio::error_code error;
  readiness_.assign(listener_->local().address().is_v6() ? asio::ip::udp::v6() : asio::ip::udp::v4(), duplicate, error);
  if (error) {
    ::close(duplicate);
    return std::unexpected(SetupError{"cannot listen with UDP: " + error.message()});
  }
  receiving_ = true;
  Spawn(Receive());
  return {};
}

Task<void> Server::Receive() {
  // Start() may run on another thread than the loop, so this waits first.
  Received::Kind last = Received::Kind::kNone;
  while (!stopping_) {
    if (last == Received::Kind::kNone) {
      Ready readable(readiness_, asio::ip::udp::socket::wait_read);
      co_await readable;
    } else if (last == Received::Kind::kFailed) {
      co_await Sleep(loop_, kPause);
    } else {
      co_await NextTurn(loop_);
    }
    for (int i = 0; i < kDatagramsPerTurn && !stopping_; ++i) {
      last = TakeOne();
      if (last == Received::Kind::kNone || last == Received::Kind::kFailed) break;
    }
  }
  receiving_ = false;
  changed_.Notify();
}

Received::Kind Server::TakeOne() {
  if (!room_) room_ = loop_.buffers().Allocate(options_.max_call);
  Route route;
  const Received received = listener_->Receive(room_->bytes().first(options_.max_call), route);
  if (received.kind != Received::Kind::kDatagram) return received.kind;
  const ConstBytes octets = ConstBytes(room_->bytes()).first(received.size);
  // A reply, or anything else, gets no answer. Otherwise two servers could answer each other for ever.
  if (DirectionOf(octets) != Direction::kCall) return received.kind;
  const Xid xid(LoadBig<uint32_t>(octets.data()));
  if (calls_.Begin(route.from, xid) != CallsUnderWay::Verdict::kStart) return received.kind;
  BufferRef owner = std::exchange(room_, {});
  Spawn(Serve(Slice(std::move(owner), octets), route));
  return received.kind;
}

Task<void> Server::Serve(Slice record, Route route) {
  Peer peer;
  peer.transport = TransportKind::kUdp;
  peer.address = route.from;
  peer.local = route.to;
  peer.buffers = &loop_.buffers();
  peer.loop = &loop_;
  peer.counts = counts_;
  const Xid xid(LoadBig<uint32_t>(record.data()));
  const size_t octets = record.size();
  Message call = Message::Whole(std::move(record));
  Message reply = co_await handler_.HandleCall(std::move(call), peer);
  if (!reply.empty()) Answer(std::move(reply), xid, octets, route);
  calls_.End(route.from, xid);
  if (stopping_) changed_.Notify();  // must be last, because Stop() may end
}

void Server::Answer(Message reply, Xid xid, size_t call_octets, const Route& route) {
  if (reply.flat_size() > std::max(options_.max_reply, call_octets)) {
    xdr::Encoder refusal(loop_.buffers());
    EncodeAccepted(refusal, xid, AcceptStatus::SYSTEM_ERR);
    reply = refusal.Finish();
  }
  if (!allowance_.Spend(route.from.address(), call_octets, reply.flat_size(), loop_.Now())) {
    log::debug("a reply to {} over UDP was not sent: replies to this host exceed its calls by too much",
               route.from.address().to_string());
    return;
  }
  listener_->Reply(reply, route);
}

Task<void> Server::Stop() {
  stopping_ = true;
  asio::error_code ignored;
  readiness_.cancel(ignored);
  while (receiving_ || calls_.size() > 0) co_await changed_;
  readiness_.close(ignored);
  listener_.reset();
  room_.Reset();
}

}  // namespace penstock::rpc::udp
