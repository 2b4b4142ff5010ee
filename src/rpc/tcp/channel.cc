#include "rpc/tcp/channel.h"

#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <utility>

#include "rpc/tcp/record_socket.h"

namespace penstock::rpc::tcp {
namespace {

using asio::ip::tcp;

// The ticks that call_limit is counted in.
constexpr uint64_t kTicksPerLimit = 8;

// asio's own category does not compare with std::errc.
std::error_code Portable(const asio::error_code& error) {
  return error.category() == asio::error::get_system_category()
             ? std::error_code(error.value(), std::generic_category())
             : error;
}

// co_await ConnectTo(socket, server)
class ConnectTo {
 public:
  ConnectTo(tcp::socket& socket, const tcp::endpoint& server) : socket_(socket), server_(server) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    socket_.async_connect(server_, [this, waiter](const asio::error_code& error) {
      error_ = error;
      waiter.resume();
    });
  }
  asio::error_code await_resume() const noexcept { return error_; }

 private:
  tcp::socket& socket_;
  tcp::endpoint server_;
  asio::error_code error_;
};

// The ports that rresvport(3) draws from.
constexpr uint16_t kFirstPrivileged = 600;
constexpr uint16_t kPrivilegedPorts = 1024 - kFirstPrivileged;
constexpr int kPrivilegedTries = 16;

// Binds to the first privileged port that is free from the `start`-th on; `start` then names the one after it.
asio::error_code BindPrivileged(tcp::socket& socket, const tcp& protocol, uint16_t& start) {
  asio::error_code error = asio::error::address_in_use;
  for (uint16_t tries = 0; tries < kPrivilegedPorts && error == asio::error::address_in_use; ++tries) {
    const auto port = static_cast<uint16_t>(kFirstPrivileged + start++ % kPrivilegedPorts);
    socket.bind(tcp::endpoint(protocol, port), error);
  }
  return error;
}

}  // namespace

class Channel::Connection final : public std::enable_shared_from_this<Connection>, public RecordSocket::Owner {
 public:
  Connection(Loop& loop, tcp::socket socket, const ChannelOptions& options)
      : socket_(std::make_shared<RecordSocket>(loop, std::move(socket), options.max_record, *this)),
        local_(socket_->local()),
        tick_length_(options.call_limit / kTicksPerLimit),
        timer_(loop.MakeTimer([this] { Tick(); })) {}
  ~Connection() { socket_->Abandon(); }

  static Task<void> Run(std::shared_ptr<Connection> self) {
    for (;;) {
      auto record = self->socket_->TakeReceived();
      if (!record) record = co_await self->socket_->Receive();
      if (!record) break;
      self->HandleReply(std::move(*record));
    }
    self->socket_->Close();
  }

  static Task<Result<Message, CallError>> Call(std::shared_ptr<Connection> self, Message call) {
    const size_t size = call.flat_size();
    if (size < 4 || size >= kLastFragment) co_return std::unexpected(CallError::kTooLarge);
    if (self->socket_->closed()) co_return std::unexpected(CallError::kDisconnected);
    Pending pending;
    pending.xid = LoadBig<uint32_t>(call.stream.data());
    pending.started = self->tick_;
    self->Insert(pending);
    pending.number = self->socket_->Send(std::move(call));
    co_return co_await pending.reply;
  }

  bool connected() const { return !socket_->closed(); }
  const tcp::endpoint& local() const { return local_; }
  void Close() {
    auto self = shared_from_this();
    socket_->Close();
  }

 private:
  // A call that waits for its reply; in its coroutine's frame.
  struct Pending {
    uint32_t xid = 0;
    uint64_t number = 0;  // of the message, in the socket
    uint64_t started = 0;
    Pending* next = nullptr;  // in its bucket
    Completion<Result<Message, CallError>> reply;
  };

  Pending** BucketOf(uint32_t xid) { return &buckets_[xid % buckets_.size()]; }
  void Insert(Pending& pending) {
    assert(!*Find(pending.xid));
    Pending** bucket = BucketOf(pending.xid);
    pending.next = std::exchange(*bucket, &pending);
    if (pending_count_++ == 0) timer_->ExpireAfter(tick_length_);
  }
  Pending** Find(uint32_t xid) {
    Pending** link = BucketOf(xid);
    while (*link && (*link)->xid != xid) link = &(*link)->next;
    return link;
  }
  Pending* Unlink(Pending** link) {
    --pending_count_;
    return std::exchange(*link, (*link)->next);
  }

  void HandleReply(Slice record) {
    if (record.size() < 4) return;
    Pending** link = Find(LoadBig<uint32_t>(record.data()));
    if (!*link) return;  // of a call that has timed out
    // An answer to a call that it has not seen the end of: the caller's memory is still being read from.
    if (!socket_->IsSent((*link)->number)) return socket_->Close();
    Pending* pending = Unlink(link);
    Message reply;
    reply.stream = std::move(record);
    pending->reply.Set(std::move(reply));
  }

  // Once in tick_length_ while calls wait.
  void Tick() {
    auto self = shared_from_this();
    ++tick_;
    Pending* expired = nullptr;
    bool unsent = false;
    for (Pending*& bucket : buckets_) {
      for (Pending** link = &bucket; *link;) {
        if (tick_ - (*link)->started <= kTicksPerLimit) {
          link = &(*link)->next;
          continue;
        }
        Pending* pending = Unlink(link);
        unsent |= !socket_->IsSent(pending->number);
        pending->next = std::exchange(expired, pending);
      }
    }
    if (pending_count_ > 0) timer_->ExpireAfter(tick_length_);
    // The server does not even take calls; the caller's memory must not be read from any more.
    if (unsent) socket_->Close();
    FailAll(expired, CallError::kTimedOut);
  }

  static void FailAll(Pending* list, CallError error) {
    while (list) {
      Pending* pending = std::exchange(list, list->next);
      pending->reply.Set(std::unexpected(error));
    }
  }

  void OnClosed() override {
    timer_->Cancel();
    Pending* all = nullptr;
    for (Pending*& bucket : buckets_) {
      while (bucket) {
        Pending* pending = Unlink(&bucket);
        pending->next = std::exchange(all, pending);
      }
    }
    FailAll(all, CallError::kDisconnected);
  }

  std::shared_ptr<RecordSocket> socket_;
  std::array<Pending*, 256> buckets_{};
  size_t pending_count_ = 0;
  const tcp::endpoint local_;
  const Duration tick_length_;
  uint64_t tick_ = 0;
  std::unique_ptr<Timer> timer_;
};

Task<Result<std::unique_ptr<Channel>, std::error_code>> Channel::Connect(Loop& loop, tcp::endpoint server,
                                                                         ChannelOptions options) {
  tcp::socket socket(loop.context());
  bool timed_out = false;
  auto limit = loop.MakeTimer([&] {
    timed_out = true;
    asio::error_code ignored;
    socket.close(ignored);
  });
  limit->ExpireAfter(options.connect_limit);
  auto next_port = static_cast<uint16_t>(::getpid() % kPrivilegedPorts);
  asio::error_code error;
  // A local port that an earlier connection to the same server has left in TIME_WAIT can be bound to, but not used.
  for (int tries = 0; tries < kPrivilegedTries && !timed_out; ++tries) {
    socket.open(server.protocol(), error);
    if (!error && options.privileged_port) error = BindPrivileged(socket, server.protocol(), next_port);
    if (error) break;
    ConnectTo connect(socket, server);
    error = co_await connect;
    const bool port_taken = error == asio::error::address_in_use || error.value() == EADDRNOTAVAIL;
    if (!options.privileged_port || !port_taken) break;
    asio::error_code ignored;
    socket.close(ignored);
  }
  limit->Cancel();
  if (timed_out) co_return std::unexpected(std::make_error_code(std::errc::timed_out));
  if (error) co_return std::unexpected(Portable(error));
  Configure(socket);
  auto connection = std::make_shared<Connection>(loop, std::move(socket), options);
  Spawn(Connection::Run(connection));
  co_return std::unique_ptr<Channel>(new Channel(std::move(connection)));
}

Channel::~Channel() { Close(); }

Task<Result<Message, CallError>> Channel::Call(Message call, ReplyShape /*shape*/) {
  return Connection::Call(connection_, std::move(call));
}

bool Channel::connected() const { return connection_->connected(); }
tcp::endpoint Channel::local() const { return connection_->local(); }
void Channel::Close() { connection_->Close(); }

}  // namespace penstock::rpc::tcp
