#include "rpc/tcp/server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "base/descriptor_shortage.h"
#include "base/log.h"
#include "base/result.h"
#include "base/ticket.h"
#include "rpc/header.h"
#include "rpc/tcp/awaiters.h"
#include "rpc/tcp/held_buffers.h"
#include "rpc/tcp/requester.h"

namespace penstock::rpc::tcp {
namespace {

// The number of sweeps within the stall limit.
constexpr int kSweepsPerLimit = 4;
// The pause before the next accept after a lack of file descriptors.
constexpr Duration kAcceptPause = std::chrono::milliseconds(200);

// A connection lets the other connections of the loop continue after this many octets of calls. Each call counts with
// its size and with the memory for its execution.
constexpr size_t kTurn = 512 << 10;

std::unexpected<SetupError> Failure(const SocketAddress& endpoint, int error) {
  std::string message = fmt::format("cannot listen on {} port {}: {}", endpoint.address().to_string(), endpoint.port(),
                                    DescribeErrno(error));
  if (error == EADDRINUSE) message += "; is another server running there?";
  if (error == EACCES) message += "; ports below 1024 need root or CAP_NET_BIND_SERVICE";
  return std::unexpected(SetupError{std::move(message)});
}

}  // namespace

SetupResult<Listener> Listener::Open(const SocketAddress& endpoint) {
  FileDescriptor fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Failure(endpoint, errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    return Failure(endpoint, errno);
  }
  return Listener(std::move(fd));
}

SocketAddress Listener::local() const {
  SocketAddress endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  const int result = ::getsockname(fd(), endpoint.data(), &size);
  assert(result == 0);
  (void)result;
  endpoint.resize(size);
  return endpoint;
}

// A connection of the server, from its acceptance until its last call and its last reply have ended.
class Server::ServedConnection final : public RecordSocket::Owner {
 public:
  ServedConnection(Server& server, asio::ip::tcp::socket socket, Peer peer,
                   std::unique_ptr<ConnectionTable::Place> place)
      : server_(server),
        peer_(std::move(peer)),
        place_(std::move(place)),
        memory_(server.options_.memory->Open(peer_.address.address())),
        socket_(std::make_shared<RecordSocket>(server.loop_, std::move(socket), server.options_.max_record, *this)),
        back_channel_(std::make_shared<Back>(*this)) {
    peer_.back_channel = back_channel_;
    peer_.memory = memory_.get();
    place_->set_on_evicted([&loop = server.loop_, weak = std::weak_ptr(socket_)] {
      PostClose(loop, weak, "it was idle, and another connection needed its place");
    });
    memory_->set_on_room([&loop = server.loop_, weak = std::weak_ptr(self_)] { PostChange(loop, weak); });
    TellIdle();
  }
  ~ServedConnection() {
    back_channel_->Detach();
    socket_->Abandon();
  }

  // Receives calls and starts them until the connection ends. Then waits until the last reply has left.
  Task<void> Run() {
    for (;;) {
      bool may = MayTakeCall();
      if (!may) may = co_await Wait(&ServedConnection::MayTakeCall);
      if (!may) break;
      auto record = socket_->TakeReceived();
      if (!record) record = co_await socket_->Receive();
      if (draining_) break;
      if (record) {
        turn_ += record->size() + MemoryBudget::kCall;
        Handle(std::move(*record));
        if (turn_ < kTurn) continue;
        turn_ = 0;
        socket_->Flush();
        NextTurn next(server_.loop_);
        co_await next;
        continue;
      }
      if (socket_->awaited() == 0) break;
      may = MayTakeRecord();
      if (!may) may = co_await Wait(&ServedConnection::MayTakeRecord);
      if (!may) break;
    }
    memory_->StopWaiting();
    if (requester_) requester_->HandleEnd();
    back_channel_->Detach();
    socket_->Flush();
    while (calls_ > 0 || (!socket_->closed() && socket_->queued_octets() > 0)) co_await changed_;
    socket_->Close();
  }

  // Accepts no more calls. Run() ends when the running calls have ended and their replies have left.
  void Drain() {
    draining_ = true;
    socket_->StopReceiving();
    PostChange(server_.loop_, self_);
  }
  void Close() { socket_->Close(); }
  int StalledIntervals() { return socket_->StalledIntervals(); }
  const Peer& peer() const { return peer_; }

 private:
  // The channel for calls to the client. The rest of the program holds it.
  class Back final : public BackChannel {
   public:
    explicit Back(ServedConnection& connection)
        : BackChannel(connection.peer_), connection_(&connection), socket_(connection.socket_) {}

    Task<Result<Message, CallError>> Call(Message call, ReplyShape /*shape*/) override {
      if (!connection_) co_return std::unexpected(CallError::kDisconnected);
      // The limit on calls is now twice as high: Run() may read more calls, and the reply after them.
      if (connection_->waiting_) PostChange(connection_->server_.loop_, connection_->self_);
      co_return co_await connection_->requester().Call(std::move(call));
    }
    void CloseConnection(std::string why) override { PostClose(*loop(), socket_, std::move(why)); }
    // The connection receives nothing more, so that calls fail from now on.
    void Detach() {
      connection_ = nullptr;
      set_disconnected();
    }

   private:
    ServedConnection* connection_;
    const std::weak_ptr<RecordSocket> socket_;
  };

  // Closes the socket from the loop. Any thread may call this.
  static void PostClose(Loop& loop, std::weak_ptr<RecordSocket> weak, std::string why) {
    loop.Post([weak = std::move(weak), why = std::move(why)] {
      const auto live = weak.lock();
      if (!live || live->closed()) return;
      log::debug("closed a connection: {}", why);
      live->Close();
    });
  }

  // Wakes Run() from the loop. Any thread may call this.
  static void PostChange(Loop& loop, std::weak_ptr<ServedConnection*> weak) {
    loop.Post([weak = std::move(weak)] {
      if (const auto self = weak.lock()) (*self)->changed_.Notify();
    });
  }

  // Waits until the condition holds. Returns false if the connection accepts no more calls.
  Task<bool> Wait(bool (ServedConnection::*condition)()) {
    waiting_ = true;
    bool holds = false;
    while (!draining_ && !socket_->closed()) {
      holds = (this->*condition)();
      if (holds) break;
      socket_->Flush();
      // The flush may have made room, or ended the connection.
      if (socket_->closed()) break;
      holds = (this->*condition)();
      if (holds) break;
      co_await changed_;
    }
    waiting_ = false;
    co_return holds;
  }

  // Returns true if the server may read one more call. Memory for a small call is then reserved.
  bool MayTakeCall() {
    const ServerOptions& options = server_.options_;
    const bool awaiting = requester_ && !requester_->idle();
    if (calls_ >= options.max_calls * (awaiting ? 2 : 1) || held_.octets() >= options.max_call_octets ||
        socket_->queued_memory() >= options.max_queued_octets) {
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

  // Returns true if the server may receive the large record that has begun. Memory for it is then reserved.
  bool MayTakeRecord() {
    const size_t octets = socket_->awaited();
    if (held_.octets() > 0 && held_.octets() + octets > server_.options_.max_call_octets) return false;
    if (!memory_->Admit(octets)) return false;
    record_octets_ = octets;
    socket_->Admit();
    return true;
  }

  void Handle(Slice record) {
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

  // A CallTicket counts a running call and the buffer that holds it. The connection exists until all tickets are given
  // back.
  void EndCall(const Buffer* buffer) {
    --calls_;
    held_.Remove(buffer);
  }
  using CallTicket = Ticket<&ServedConnection::EndCall>;
  CallTicket BeginCall(const Buffer* buffer) {
    ++calls_;
    held_.Add(buffer);
    return CallTicket(*this, buffer);
  }

  // The buffer that holds `record`; null if there is none.
  static const Buffer* Behind(const Slice& record) { return record.owner() ? &*record.owner() : nullptr; }

  // Updates the memory account with the current use of the connection.
  void CountMemory() {
    memory_->Update((calls_ + (call_admitted_ ? 1 : 0)) * MemoryBudget::kCall + record_octets_ + held_.octets() +
                    socket_->queued_memory());
  }

  Task<void> Serve(Slice record, CallTicket ticket) {
    Message call;
    call.stream = std::move(record);
    Message reply = co_await server_.handler_.HandleCall(std::move(call), peer_);
    // The call counts until the end, so that Run() does not destroy this connection when Close() or Send() ends it.
    if (reply.empty()) {
      // Close the connection to tell the client that the call gets no reply (RFC 7530 §3.1.1, RFC 8881 §2.9.2).
      log::debug("closed a connection of {}: a call has no reply", peer_.address.address().to_string());
      socket_->Close();
    } else if (!socket_->closed()) {
      socket_->Send(std::move(reply));
    }
    ticket.GiveBack();
    CountMemory();
    TellIdle();
    changed_.Notify();  // must be last, because it may destroy the connection
  }

  Requester& requester() {
    if (!requester_) {
      requester_ = std::make_unique<Requester>(server_.loop_, *socket_, server_.options_.back_call_limit);
    }
    return *requester_;
  }

  // Marks the connection as idle if no call is running and all replies have left.
  void TellIdle() {
    if (calls_ == 0 && socket_->queued_octets() == 0) place_->HandleIdle(server_.loop_.Now());
  }

  void OnClosed() override {
    // HandleClosed() resumes the callers of the client. The ticket ensures that they do not destroy the connection
    // meanwhile.
    CallTicket open = BeginCall(nullptr);
    back_channel_->Detach();
    if (requester_) requester_->HandleClosed();
    open.GiveBack();
    CountMemory();
    changed_.Notify();
  }
  void OnSent() override {
    if (requester_) requester_->HandleSent();
    CountMemory();
    TellIdle();
    changed_.Notify();
  }

  Server& server_;
  Peer peer_;
  const std::unique_ptr<ConnectionTable::Place> place_;
  const std::unique_ptr<MemoryBudget::Account> memory_;
  std::shared_ptr<RecordSocket> socket_;
  const std::shared_ptr<Back> back_channel_;
  std::unique_ptr<Requester> requester_;  // made by the first call to the client
  Signal changed_;                        // wakes Run()
  size_t calls_ = 0;
  HeldBuffers held_;            // the buffers of these calls
  size_t record_octets_ = 0;    // memory reserved for the record that is being received
  bool call_admitted_ = false;  // memory for the next call is reserved
  size_t turn_ = 0;             // see kTurn
  bool waiting_ = false;        // Run() waits and reads no calls
  bool draining_ = false;
  // For functions that other threads post to the loop of the server.
  const std::shared_ptr<ServedConnection*> self_ = std::make_shared<ServedConnection*>(this);
};

Server::Server(Loop& loop, CallHandler& handler, ServerOptions options)
    : loop_(loop),
      handler_(handler),
      options_(Complete(std::move(options))),
      acceptor_(loop.context()),
      sweep_(loop.MakeTimer([this] { Sweep(); })),
      accept_again_(loop.MakeTimer([this] { accept_signal_.Notify(); })),
      shortage_(options_.shortage ? options_.shortage : std::make_shared<DescriptorShortage>()) {}

ServerOptions Server::Complete(ServerOptions options) {
  if (!options.connections) options.connections = std::make_shared<ConnectionTable>();
  if (!options.memory) options.memory = std::make_shared<MemoryBudget>();
  return options;
}

Server::~Server() { assert(!accepting_ && connections_.empty()); }

SetupResult<void> Server::Start(const Listener& listener) {
  const int duplicate = ::fcntl(listener.fd(), F_DUPFD_CLOEXEC, 0);
  const auto endpoint = listener.local();
  if (duplicate < 0) return Failure(endpoint, errno);
  asio::error_code error;
  acceptor_.assign(endpoint.protocol(), duplicate, error);
  if (error) {
    ::close(duplicate);
    return Failure(endpoint, error.value());
  }
  turn_ = listener.turns_->Join(loop_, [this] { accept_signal_.Notify(); });
  accepting_ = true;
  Spawn(Accept());
  return {};
}

Task<void> Server::Accept() {
  while (!stopping_) {
    if (!turn_->HasTurn()) {
      co_await accept_signal_;
      continue;
    }
    if (!shortage_->MayAccept(acceptor_.native_handle(), "TCP")) {
      accept_again_->ExpireAfter(kAcceptPause);
      co_await accept_signal_;
      continue;
    }
    AcceptOne next(acceptor_);
    Accepted accepted = co_await next;
    if (stopping_) break;
    const int error = accepted.error.value();
    if (!error) {
      turn_->EndTurn();
      Adopt(std::move(accepted.socket));
    } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      shortage_->Tell("TCP");
      accept_again_->ExpireAfter(kAcceptPause);
      co_await accept_signal_;
    }
  }
  accepting_ = false;
  changed_.Notify();
}

void Server::Adopt(asio::ip::tcp::socket socket) {
  Configure(socket);
  asio::error_code error;
  Peer peer;
  peer.transport = TransportKind::kTcp;
  peer.address = socket.remote_endpoint(error);
  if (error) return;  // the client has already disconnected
  peer.local = socket.local_endpoint(error);
  peer.connection = NewConnectionNumber();
  peer.buffers = &loop_.buffers();
  peer.loop = &loop_;
  if (options_.allow && !options_.allow(peer.address.address())) {
    log::info("refused a connection from {}: not allowed", peer.address.address().to_string());
    return;
  }
  // TCP cannot tell the client the reason for a refusal, so the socket is only closed.
  auto [place, refusal] = options_.connections->Admit(peer.address.address(), loop_.Now());
  if (!place) return;
  if (connections_.empty()) sweep_->ExpireAfter(options_.stall_limit / kSweepsPerLimit);
  Spawn(RunConnection(std::make_unique<ServedConnection>(*this, std::move(socket), std::move(peer), std::move(place))));
}

Task<void> Server::RunConnection(std::unique_ptr<ServedConnection> connection) {
  connections_.push_back(connection.get());
  co_await connection->Run();
  std::erase(connections_, connection.get());
  connection.reset();
  changed_.Notify();
}

void Server::Sweep() {
  if (connections_.empty()) return;
  sweep_->ExpireAfter(options_.stall_limit / kSweepsPerLimit);
  const std::vector<ServedConnection*> all = connections_;
  for (ServedConnection* connection : all) {
    // Close() may destroy this connection, but no other one.
    if (connection->StalledIntervals() < kSweepsPerLimit) continue;
    log::info("closed the connection of {}: it stalled in the middle of a message",
              connection->peer().address.address().to_string());
    connection->Close();
  }
}

Task<void> Server::Stop(Duration drain_limit) {
  stopping_ = true;
  asio::error_code ignored;
  acceptor_.close(ignored);
  turn_.reset();
  accept_again_->Cancel();
  accept_signal_.Notify();
  for (ServedConnection* connection : std::vector<ServedConnection*>(connections_)) connection->Drain();
  auto limit = loop_.MakeTimer([this] {
    for (ServedConnection* connection : std::vector<ServedConnection*>(connections_)) connection->Close();
  });
  limit->ExpireAfter(drain_limit);
  while (accepting_ || !connections_.empty()) co_await changed_;
  sweep_->Cancel();
}

}  // namespace penstock::rpc::tcp
