#include "stream_server.h"

#include <cassert>
#include <limits>
#include <utility>
#include <vector>

#include "rpc/call_order.h"
#include "rpc/header.h"

namespace penstock::simulation {

// The server has it until it is closed and its last call has ended, or until it has stepped up.
class StreamServer::Connection final : public rpc::ConnectionControl, public std::enable_shared_from_this<Connection> {
 public:
  Connection(StreamServer& server, std::unique_ptr<rdma::sim::StreamSocket> socket,
             std::unique_ptr<rpc::ConnectionTable::Place> place)
      : server_(server), place_(std::move(place)), memory_(server.options_.memory->Open(socket->peer().address())) {
    peer_.address = socket->peer();
    peer_.local = socket->local();
    peer_.connection = rpc::NewConnectionNumber();
    peer_.buffers = &server.buffers_;
    peer_.order = &order_;
    peer_.memory = memory_.get();
    peer_.control = this;
    calls_ = std::make_shared<StreamCalls>(server.network_.world(), server.buffers_, std::move(socket),
                                           std::chrono::seconds(15));
    back_channel_ = std::make_shared<Back>(*this);
    peer_.back_channel = back_channel_;
  }
  ~Connection() override {
    if (back_channel_) back_channel_->HandleLost();
  }

  void Start() {
    const std::weak_ptr<Connection> weak = weak_from_this();
    calls_->Start(
        [weak](rpc::Message call) {
          if (const auto self = weak.lock()) Spawn(Serve(self, std::move(call)));
        },
        [weak] {
          if (const auto self = weak.lock()) self->HandleClosed();
        });
  }
  void Close() { calls_->Close(); }

  // ConnectionControl
  rpc::ConnectionLimits Offer(const rpc::ConnectionLimits& asked) const override {
    const uint32_t size = server_.options_.max_message;
    return rpc::Grant(asked, {.max_request = size, .max_response = size, .credits = server_.options_.max_calls});
  }
  void Bind(rpc::Xid /*call*/, const rpc::ConnectionLimits& limits) override { credits_ = limits.credits; }
  size_t ReplyRoom(rpc::Xid /*call*/) const override { return std::numeric_limits<size_t>::max(); }
  std::optional<rpc::ConnectionLimits> OfferStepUp(rpc::Xid /*call*/,
                                                   const rpc::ConnectionLimits& asked) const override {
    if (!server_.options_.step_up || executing_ != 1 || !calls_->idle() || calls_->closed()) return std::nullopt;
    return server_.options_.step_up_limits.Grant(asked);
  }
  void StepUp(rpc::Xid call, const rpc::ConnectionLimits& limits) override {
    if (!OfferStepUp(call, limits)) return Close();
    stepping_ = limits;
    back_channel_->BeginChange();
  }

 private:
  // The channel for calls to the client. The rest of the program holds it, also after the connection has stepped up.
  class Back final : public rpc::LastingBackChannel, public std::enable_shared_from_this<Back> {
   public:
    explicit Back(Connection& connection)
        : LastingBackChannel(connection.peer_),
          world_(connection.server_.network_.world()),
          calls_(connection.calls_) {}

    Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
      const auto self = shared_from_this();
      while (changing_) co_await changed_;
      if (next_) {
        const std::shared_ptr<rpc::BackChannel> next = next_;
        co_return co_await next->Call(std::move(call), std::move(shape));
      }
      if (!calls_) co_return std::unexpected(rpc::CallError::kDisconnected);
      const std::shared_ptr<StreamCalls> calls = calls_;
      co_return co_await calls->Call(std::move(call));
    }
    void CloseConnection(std::string why) override {
      world_.Trace("the server closes a stream: {}", why);
      world_.Schedule(Duration::zero(), [weak = weak_from_this(), why] {
        if (const auto self = weak.lock()) self->CloseNow(why);
      });
    }
    void BeginChange() { changing_ = true; }
    void HandleHandedOver() { calls_ = nullptr; }
    void Continue(std::shared_ptr<rpc::BackChannel> next) override {
      next_ = std::move(next);
      if (closing_) next_->CloseConnection("closed while it stepped up");
      EndChange();
    }
    void HandleLost() override {
      calls_ = nullptr;
      set_disconnected();
      EndChange();
    }

   private:
    void EndChange() {
      changing_ = false;
      changed_.Notify();
    }
    void CloseNow(const std::string& why) {
      const std::shared_ptr<StreamCalls> calls = calls_;
      if (next_) return next_->CloseConnection(why);
      if (calls) return calls->Close();
      closing_ = changing_;
    }

    rdma::sim::World& world_;
    std::shared_ptr<StreamCalls> calls_;
    bool changing_ = false;
    bool closing_ = false;
    std::shared_ptr<rpc::BackChannel> next_;
    Signal changed_;
  };

  static Task<void> Serve(std::shared_ptr<Connection> self, rpc::Message call) {
    if (self->stepping_) {
      self->Close();  // octets behind the call that steps up
      co_return;
    }
    ++self->executing_;
    // draft-talpey-nfsv4-rdma-sess-01 §2.4
    if (self->credits_ && self->executing_ > *self->credits_) {
      self->server_.findings_.Add("a client has {} calls under way over TCP with {} credits", self->executing_,
                                  *self->credits_);
    }
    std::optional<rpc::CallOrder::Place> place;
    if (self->back_channel_->bound()) {
      const rpc::Xid xid(LoadBig<uint32_t>(call.stream.data()));
      place.emplace(self->order_.Enter(xid, rpc::CallOrder::Lateness::kArguments));
    }
    rpc::Message reply = co_await self->server_.handler_.HandleCall(std::move(call), self->peer_);
    if (reply.empty()) {
      self->Close();
    } else if (self->stepping_ && !self->calls_->closed()) {
      self->HandOver(std::move(reply));
    } else {
      self->calls_->Reply(std::move(reply));
    }
    place.reset();
    --self->executing_;
    self->CheckEnd();
  }

  void HandOver(rpc::Message reply) {
    std::vector<std::byte> octets = calls_->OctetsOf(std::move(reply));
    back_channel_->HandleHandedOver();
    place_->HandleBusy();
    rpc::SteppingConnection connection{.socket = calls_->Release(),
                                       .last_octets = std::move(octets),
                                       .limits = *stepping_,
                                       .number = peer_.connection,
                                       .place = std::move(place_),
                                       .memory = std::move(memory_),
                                       .back_channel = std::move(back_channel_)};
    server_.options_.step_up(std::move(connection));
  }
  void HandleClosed() {
    if (back_channel_) back_channel_->HandleLost();
    CheckEnd();
  }
  // Leaves the server if nothing is under way any more.
  void CheckEnd() {
    if (executing_ > 0 || !calls_->closed()) return;
    const auto self = shared_from_this();
    server_.connections_.erase(self);
    server_.changed_.Notify();
  }

  StreamServer& server_;
  rpc::Peer peer_;
  rpc::CallOrder order_;
  // HandOver() gives the next two and the back channel away.
  std::unique_ptr<rpc::ConnectionTable::Place> place_;
  std::unique_ptr<rpc::MemoryAccount> memory_;
  std::shared_ptr<StreamCalls> calls_;
  std::shared_ptr<Back> back_channel_;
  size_t executing_ = 0;
  std::optional<uint32_t> credits_;  // once it is bound
  std::optional<rpc::ConnectionLimits> stepping_;
};

StreamServer::StreamServer(rdma::sim::Network& network, BufferPool& buffers, rpc::CallHandler& handler,
                           Findings& findings, Options options)
    : network_(network), buffers_(buffers), handler_(handler), findings_(findings), options_(std::move(options)) {}

StreamServer::~StreamServer() { assert(connections_.empty()); }

void StreamServer::Start(const rdma::Address& local) {
  listener_.emplace(network_, local, [this](auto socket) { Accept(std::move(socket)); });
}

void StreamServer::Accept(std::unique_ptr<rdma::sim::StreamSocket> socket) {
  auto admission = options_.connections->Admit(socket->peer().address(), network_.world().Now());
  if (!admission.place) return;
  const auto connection = std::make_shared<Connection>(*this, std::move(socket), std::move(admission.place));
  connections_.insert(connection);
  connection->Start();
}

Task<void> StreamServer::Stop() {
  listener_.reset();
  const auto all = connections_;
  for (const auto& connection : all) connection->Close();
  while (!connections_.empty()) co_await changed_;
}

}  // namespace penstock::simulation
