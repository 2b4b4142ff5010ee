#include "rpcrdma/server.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/loop.h"
#include "rpc/call_order.h"
#include "rpc/memory_budget.h"
#include "rpc/step_up.h"

namespace penstock::rpcrdma {

// The channel for calls to a client. The rest of the program holds it. The first call makes a requester for it.
class Server::BackChannel final : public rpc::BackChannel {
 public:
  BackChannel(const rpc::Peer& peer, Connection& connection, const RequesterOptions& options, PostToLink post)
      : rpc::BackChannel(peer), connection_(&connection), options_(options), post_(std::move(post)) {}

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    if (!connected()) co_return std::unexpected(rpc::CallError::kDisconnected);
    if (!requester_) {
      requester_.emplace(*connection_, options_);
      connection_->set_requester(*requester_);
    }
    co_return co_await requester_->Call(std::move(call), std::move(shape));
  }
  void CloseConnection(std::string why) override;
  void Withdraw(uint32_t credits, Duration limit) override;

  void HandleLost() { set_disconnected(); }
  // The connection is about to be destroyed. No call is under way on it.
  void Detach() {
    set_disconnected();
    requester_.reset();
    connection_ = nullptr;
  }

 private:
  Connection* connection_;
  const RequesterOptions options_;
  std::optional<Requester> requester_;
  const PostToLink post_;
};

// The parts of a connection that exist before the server adopts it.
struct Server::Origin {
  uint64_t number = rpc::NewConnectionNumber();
  Place place;
  std::unique_ptr<rpc::MemoryAccount> memory{};    // null: the connection gets a new account
  std::unique_ptr<rpc::MemoryAccount> messages{};  // see ReserveMessages()
  // For a connection that has stepped up.
  std::optional<rpc::ConnectionLimits> limits{};
  std::shared_ptr<rpc::LastingBackChannel> back_channel{};
};

// A connection of the server, with its roles and accounts.
class Server::Link final : public rpc::ConnectionControl {
 public:
  Link(std::unique_ptr<rdma::Endpoint> endpoint, rpc::Peer peer, Origin origin, const ServerOptions& options,
       TimerService& timers, rpc::CallHandler& handler, RefusedCalls& refused, PostToLink post,
       std::function<void()> on_finished)
      : peer_(std::move(peer)),
        place_(std::move(origin.place)),
        messages_(std::move(origin.messages)),
        memory_(origin.memory ? std::move(origin.memory) : options.memory->Open(peer_.address.address())),
        room_(timers.MakeTimer([this] { responder_.HandleRoom(); })),
        credits_due_(timers.MakeTimer([this] {
          if (!responder_.credits().withdrawing()) return;
          End(metrics::ConnectionEnd::kServer, "the client has not returned its credits");
        })),
        most_(LimitsOf(options)),
        connection_(std::move(endpoint), options.private_data, options.responder.first_receives(), options.limits,
                    timers, std::move(on_finished), origin.limits.transform(&ClientDataOf)),
        responder_(connection_, handler, peer_, options.responder, &refused, memory_.get()),
        back_channel_(std::make_shared<BackChannel>(peer_, connection_, options.requester, std::move(post))),
        lasting_(std::move(origin.back_channel)) {
    peer_.back_channel = back_channel_;
    if (lasting_) peer_.back_channel = lasting_;
    peer_.order = &order_;
    peer_.memory = memory_.get();
    peer_.control = this;
    connection_.set_receive_size(FirstReceiveSize(options));
    if (origin.limits) responder_.BeginBound(*origin.limits);
    connection_.set_responder(responder_);
    connection_.set_on_lost([this] {
      back_channel_->HandleLost();
      if (lasting_) lasting_->HandleLost();
    });
    connection_.set_number(peer_.connection);
    connection_.set_on_activity([this, &timers](bool active) {
      if (active) {
        place_->HandleBusy();
      } else {
        place_->HandleIdle(timers.Now());
      }
    });
    place_->Describe(peer_);
    place_->HandleIdle(timers.Now());
  }
  ~Link() override {
    if (lasting_) lasting_->HandleLost();
    back_channel_->Detach();
  }

  rpc::ConnectionLimits Offer(const rpc::ConnectionLimits& asked) const override;
  void Bind(rpc::Xid call, const rpc::ConnectionLimits& limits) override {
    connection_.SetPadding(limits.padding);
    responder_.Bind(call, limits);
  }
  void KeepLimitsOpen(rpc::Xid call) override { responder_.KeepLimitsOpen(call); }
  size_t ReplyRoom(rpc::Xid call) const override { return responder_.ReplyRoom(call); }
  std::optional<size_t> PayloadRoom(rpc::Xid call, size_t n) const override { return responder_.PayloadRoom(call, n); }
  std::optional<rpc::ConnectionLimits> OfferStepUp(rpc::Xid, const rpc::ConnectionLimits&) const override {
    return std::nullopt;
  }
  void StepUp(rpc::Xid, const rpc::ConnectionLimits&) override { assert(false); }

  // Disconnects, and tells the counters why.
  void End(metrics::ConnectionEnd reason, std::string why) {
    if (peer_.counts && !connection_.lost()) peer_.counts->SetEnd(reason);
    connection_.Disconnect(std::move(why));
  }

  rpc::Peer peer_;
  const Place place_;
  const std::unique_ptr<rpc::MemoryBudget::Account> messages_;
  const std::unique_ptr<rpc::MemoryBudget::Account> memory_;
  // Calls HandleRoom() from the loop, because the call that gives memory back may be in the middle of its work.
  const std::unique_ptr<Timer> room_;
  // Ends the time in which the client must return the credits that are withdrawn.
  const std::unique_ptr<Timer> credits_due_;
  rpc::CallOrder order_;
  const rpc::AgreedLimits most_;
  Connection connection_;
  Responder responder_;
  const std::shared_ptr<BackChannel> back_channel_;
  // The channel of a connection that has stepped up, which leads to `back_channel_`. Null for other connections.
  const std::shared_ptr<rpc::LastingBackChannel> lasting_;
};

rpc::ConnectionLimits Server::Link::Offer(const rpc::ConnectionLimits& asked) const {
  rpc::ConnectionLimits granted = most_.Grant(asked);
  const rdma::Endpoint& endpoint = connection_.endpoint();
  granted.reads = std::min<uint32_t>(granted.reads, endpoint.info().ord);
  if (responder_.sizes_are_open()) {
    const uint32_t longest = endpoint.limits().max_message;
    granted.max_request = std::min(granted.max_request, longest);
    granted.max_response = std::min(granted.max_response, longest);
  } else {
    granted.max_request = connection_.thresholds().receive;
    granted.max_response = connection_.thresholds().send;
  }
  return granted;
}

void Server::BackChannel::CloseConnection(std::string why) {
  post_([why = std::move(why)](Link& link) { link.End(metrics::ConnectionEnd::kServer, why); });
}

void Server::BackChannel::Withdraw(uint32_t credits, Duration limit) {
  post_.Run([credits, limit](Link& link) {
    link.responder_.Withdraw(credits);
    link.credits_due_->ExpireAfter(limit);
  });
}

Server::Server(TimerService& timers, rpc::CallHandler& handler, ServerOptions options)
    : timers_(timers), handler_(handler), options_(std::move(options)) {
  if (!options_.connections) options_.connections = std::make_shared<rpc::ConnectionTable>();
  if (!options_.memory) options_.memory = std::make_shared<rpc::MemoryBudget>();
}

Server::~Server() { assert(links_.empty() && accepting_ == 0); }

void Server::Start(std::unique_ptr<rdma::Listener> listener) {
  listener_ = std::move(listener);
  Spawn(AcceptAll());
}

Task<void> Server::AcceptAll() {
  ++accepting_;
  for (;;) {
    std::unique_ptr<rdma::ConnectionRequest> request = co_await listener_->Next();
    if (!request) break;
    if (stopping_ || (options_.allow && !options_.allow(request->peer().address()))) {
      if (!stopping_) options_.recorder.Refuse(metrics::Transport::kRdma, metrics::ConnectionRefusal::kNotAllowed);
      request->Reject({});
      continue;
    }
    rpc::ConnectionTable::Admission admission = options_.connections->Admit(request->peer().address(), timers_.Now());
    if (!admission.place) {
      options_.recorder.Refuse(metrics::Transport::kRdma, rpc::CountedAs(admission.refusal));
      request->Reject(SerializeRejection(admission.refusal));
      continue;
    }
    Spawn(Accept(std::move(request), std::move(admission.place)));
  }
  --accepting_;
  CheckStopped();
}

Task<void> Server::Accept(std::unique_ptr<rdma::ConnectionRequest> request, Place place) {
  ++accepting_;
  // SetCredits() may change the options meanwhile, but not the number of receives that the endpoint has.
  ServerOptions options = options_;
  std::unique_ptr<rpc::MemoryBudget::Account> messages = ReserveMessages(*request, options);
  rdma::ConnectOptions accept;
  accept.private_data = options.private_data.Serialize();
  accept.ird = options.ird;
  accept.ord = options.ord;
  accept.receives = FirstReceives(options);
  rdma::ConnectResult endpoint = co_await request->Accept(std::move(accept));
  --accepting_;
  if (!endpoint) {
    log::debug("connection not set up: {}", endpoint.error().detail);
  } else if (!stopping_) {
    Origin origin{.place = std::move(place), .messages = std::move(messages)};
    const uint64_t number = origin.number;
    Adopt(*std::move(endpoint), std::move(origin), options);
    links_.at(number)->responder_.set_credits(options_.responder.credits);
  }
  CheckStopped();
}

std::unique_ptr<rpc::MemoryBudget::Account> Server::ReserveMessages(const rdma::ConnectionRequest& request,
                                                                    ServerOptions& options) {
  uint32_t& size = options.private_data.receive_size;
  size = std::min(size, std::max(PrivateData::Parse(request.private_data()).send_size, kUsualThreshold));
  if (size <= kUsualThreshold || !options.messages) return nullptr;
  auto account = options.messages->Open(request.peer().address());
  if (account->Reserve(options.responder.most_receives() * BufferPool::CapacityFor(size))) return account;
  size = kUsualThreshold;
  return nullptr;
}

std::vector<rdma::ReceiveRequest> Server::FirstReceives(const ServerOptions& options) {
  return Connection::MakeReceives(FirstReceiveSize(options), options.responder.first_receives());
}

uint32_t Server::FirstReceiveSize(const ServerOptions& options) {
  return Connection::FirstReceiveSize(options.private_data, options.responder.one_receive_first,
                                      LimitsOf(options).longest_call);
}

rpc::AgreedLimits Server::LimitsOf(const ServerOptions& options) {
  rpc::AgreedLimits limits;
  limits.most = {.max_request = std::max(options.max_agreed_size, options.private_data.receive_size),
                 .max_response = std::max(options.max_agreed_size, options.private_data.send_size),
                 .credits = options.responder.credits,
                 .padding = options.padding,
                 .reads = options.ord};
  limits.longest_call = std::max(options.longest_agreed_call, limits.most.max_request);
  return limits;
}

void Server::StepUp(rdma::Provider& provider, rpc::SteppingConnection connection) {
  Spawn(TakeOver(provider, std::move(connection)));
}

Task<void> Server::TakeOver(rdma::Provider& provider, rpc::SteppingConnection connection) {
  ++accepting_;
  ServerOptions options = options_;
  options.private_data = ServerDataOf(connection.limits);
  options.responder.credits = options.responder.first_credits = connection.limits.credits;
  options.responder.one_receive_first = false;
  options.limits.padding = connection.limits.padding;
  rdma::ConnectOptions step_up;
  step_up.ird = 0;  // the client reads no memory of the server
  step_up.ord = static_cast<uint16_t>(std::min<uint32_t>(connection.limits.reads, options.ord));
  step_up.receives = FirstReceives(options);
  step_up.time_limit = options.step_up_limit;
  step_up.stop = stop_.get_token();
  rdma::ConnectResult endpoint = co_await provider.StepUp(std::move(connection.socket), rdma::StepUpRole::kResponder,
                                                          std::move(connection.last_octets), std::move(step_up));
  --accepting_;
  if (!endpoint) log::debug("connection {} has not stepped up: {}", connection.number, endpoint.error().detail);
  if (!endpoint || stopping_) {
    connection.back_channel->HandleLost();
    // Before CheckStopped(), because the accounts may end with the server.
    connection.place.reset();
    connection.memory.reset();
  } else {
    Adopt(*std::move(endpoint),
          {.number = connection.number,
           .place = std::move(connection.place),
           .memory = std::move(connection.memory),
           .limits = connection.limits,
           .back_channel = std::move(connection.back_channel)},
          options);
  }
  CheckStopped();
}

void Server::Adopt(std::unique_ptr<rdma::Endpoint> endpoint, Origin origin, const ServerOptions& options) {
  rpc::Peer peer;
  peer.transport = rpc::TransportKind::kRdma;
  peer.stepped_up = origin.back_channel != nullptr;
  peer.address = endpoint->info().peer;
  peer.local = endpoint->info().local;
  peer.connection = origin.number;
  peer.buffers = &endpoint->buffers();
  peer.loop = options_.loop;
  peer.counts = options_.recorder.Connect(metrics::Transport::kRdma, peer.address.address());
  const uint64_t number = peer.connection;
  auto finished = [this, number] {
    auto link = links_.extract(number);
    log::debug("connection {} has ended: {}", number, link.mapped()->connection_.end());
    link = {};
    CheckStopped();
  };
  const PostToLink post{options_.loop, self_, number};
  origin.place->set_on_evicted([post] {
    post([](Link& each) {
      each.End(metrics::ConnectionEnd::kMadeRoom, "it was idle, and another connection needed its place");
    });
  });
  auto link = std::make_unique<Link>(std::move(endpoint), std::move(peer), std::move(origin), options, timers_,
                                     handler_, refused_, post, std::move(finished));
  link->memory_->set_on_room([post] { post([](Link& each) { each.room_->ExpireAfter(Duration::zero()); }); });
  Link& started = *link;
  links_.emplace(number, std::move(link));
  started.connection_.Start();
  if (started.lasting_) started.lasting_->Continue(started.back_channel_);
}

void Server::PostToLink::Run(const std::function<void(Link&)>& handle) const {
  const auto self = server.lock();
  if (!self) return;
  const auto link = (*self)->links_.find(number);
  if (link != (*self)->links_.end()) handle(*link->second);
}

void Server::PostToLink::operator()(std::function<void(Link&)> handle) const {
  if (!loop) return Run(handle);  // the program has only one thread
  loop->Post([self = *this, handle = std::move(handle)] { self.Run(handle); });
}

void Server::SetCredits(uint32_t credits) {
  options_.responder.credits = credits;
  for (auto& [number, link] : links_) {
    if (!link->responder_.bound()) link->responder_.set_credits(credits);
  }
}

Task<void> Server::Stop(Duration drain_limit) {
  stopping_ = true;
  stop_.request_stop();
  if (listener_) listener_->Close();
  for (auto& [number, link] : links_) {
    if (link->peer_.counts) link->peer_.counts->SetEnd(metrics::ConnectionEnd::kStop);
    link->responder_.Stop();
  }
  std::unique_ptr<Timer> limit = timers_.MakeTimer([this] {
    for (auto& [number, link] : links_) link->connection_.Disconnect("stopped");
  });
  limit->ExpireAfter(drain_limit);
  CheckStopped();
  co_await stopped_;
}

void Server::CheckStopped() {
  if (stopping_ && links_.empty() && accepting_ == 0 && !stopped_.is_set()) stopped_.Set();
}

}  // namespace penstock::rpcrdma
