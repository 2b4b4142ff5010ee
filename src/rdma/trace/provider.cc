#include "rdma/trace/provider.h"

#include <algorithm>
#include <utility>

#include "base/released_socket.h"
#include "rdma/trace/endpoint.h"

namespace penstock::rdma::trace {
namespace {

// ConnectTraced() and AcceptTraced() must not use the provider or the request after the wait, because both may be
// destroyed by then (see rdma::Provider's destructor).
Task<ConnectResult> ConnectTraced(Task<ConnectResult> connecting, Sink sink, SetUp set_up) {
  ConnectResult result = co_await std::move(connecting);
  if (!result) co_return result;
  set_up.reply = (*result)->info().private_data;
  std::unique_ptr<rdma::Endpoint> endpoint = std::make_unique<Endpoint>(*std::move(result), sink, std::move(set_up));
  co_return endpoint;
}

// For a responder: the private data of the peer are those of the request.
Task<ConnectResult> AnswerTraced(Task<ConnectResult> answering, Sink sink, SetUp set_up) {
  ConnectResult result = co_await std::move(answering);
  if (!result) co_return result;
  set_up.request = (*result)->info().private_data;
  std::unique_ptr<rdma::Endpoint> endpoint = std::make_unique<Endpoint>(*std::move(result), sink, std::move(set_up));
  co_return endpoint;
}

Task<ConnectResult> AcceptTraced(Task<ConnectResult> accepting, Sink sink, SetUp set_up) {
  ConnectResult result = co_await std::move(accepting);
  if (!result) co_return result;
  std::unique_ptr<rdma::Endpoint> endpoint = std::make_unique<Endpoint>(*std::move(result), sink, std::move(set_up));
  co_return endpoint;
}

class TracedRequest : public ConnectionRequest {
 public:
  TracedRequest(std::unique_ptr<ConnectionRequest> inner, const Sink& sink, const Address& local)
      : inner_(std::move(inner)), sink_(sink), local_(local) {}
  ~TracedRequest() override {
    if (!answered_) RecordRejection({});
  }

  const Address& peer() const override { return inner_->peer(); }
  ConstBytes private_data() const override { return inner_->private_data(); }
  std::optional<ReadDepths> read_depths() const override { return inner_->read_depths(); }

  Task<ConnectResult> Accept(ConnectOptions options) override {
    answered_ = true;
    SetUp set_up = MakeSetUp(options.private_data);
    return AcceptTraced(inner_->Accept(std::move(options)), sink_, std::move(set_up));
  }

  void Reject(std::vector<std::byte> private_data) override {
    answered_ = true;
    RecordRejection(private_data);
    inner_->Reject(std::move(private_data));
  }

 private:
  SetUp MakeSetUp(std::vector<std::byte> reply) const {
    const ConstBytes request = inner_->private_data();
    return {.self = From::kServer,
            .client = inner_->peer(),
            .server = local_,
            .request = {request.begin(), request.end()},
            .reply = std::move(reply)};
  }
  void RecordRejection(std::vector<std::byte> reply) {
    reply.resize(std::min(reply.size(), iwarp::MpaFrame::kMaxPrivateData));
    SetUp set_up = MakeSetUp(std::move(reply));
    set_up.rejected = true;
    Recorder(sink_, set_up, "refused");
  }

  const std::unique_ptr<ConnectionRequest> inner_;
  const Sink sink_;
  const Address local_;
  bool answered_ = false;
};

// The wait may outlive the provider, but not its parts.
struct Parts {
  std::shared_ptr<const Recording> recording;
  const TimerService* clock;
  BufferPool* buffers;

  std::optional<Sink> SinkFor(const IpAddress& peer) const {
    std::shared_ptr<File> file = recording->FileFor(peer);
    if (!file) return std::nullopt;
    return Sink{std::move(file), clock, buffers};
  }
};

Task<std::unique_ptr<ConnectionRequest>> NextTraced(Task<std::unique_ptr<ConnectionRequest>> next, Parts parts,
                                                    Address local) {
  std::unique_ptr<ConnectionRequest> request = co_await std::move(next);
  if (!request) co_return request;
  if (const std::optional<Sink> sink = parts.SinkFor(request->peer().address())) {
    request = std::make_unique<TracedRequest>(std::move(request), *sink, local);
  }
  co_return request;
}

}  // namespace

class TracedListener : public Listener {
 public:
  TracedListener(std::unique_ptr<Listener> inner, Provider& provider) : inner_(std::move(inner)), provider_(provider) {}

  Address local() const override { return inner_->local(); }
  Task<std::unique_ptr<ConnectionRequest>> Next() override {
    return NextTraced(inner_->Next(), {provider_.recording_, &provider_.clock_, &provider_.buffers()}, local());
  }
  void Close() override { inner_->Close(); }
  SetupResult<std::unique_ptr<Listener>> Share(rdma::Provider& other) override {
    auto* traced = dynamic_cast<Provider*>(&other);
    if (!traced) return inner_->Share(other);
    return traced->Traced(inner_->Share(*traced->inner_));
  }

 private:
  const std::unique_ptr<Listener> inner_;
  Provider& provider_;
};

Provider::Provider(std::unique_ptr<rdma::Provider> inner, std::shared_ptr<const Recording> recording,
                   const TimerService& clock)
    : inner_(std::move(inner)), recording_(std::move(recording)), clock_(clock) {}

Provider::Provider(std::unique_ptr<rdma::Provider> inner, File& file, const TimerService& clock)
    : Provider(std::move(inner),
               std::make_shared<const Recording>(std::shared_ptr<File>(std::shared_ptr<File>(), &file)), clock) {}

std::optional<Sink> Provider::SinkFor(const IpAddress& peer) {
  return Parts{recording_, &clock_, &inner_->buffers()}.SinkFor(peer);
}

Task<ConnectResult> Provider::Connect(Address peer, ConnectOptions options) {
  const std::optional<Sink> sink = SinkFor(peer.address());
  if (!sink) return inner_->Connect(std::move(peer), std::move(options));
  SetUp set_up{.self = From::kClient, .client = {}, .server = {}, .request = options.private_data, .reply = {}};
  return ConnectTraced(inner_->Connect(std::move(peer), std::move(options)), *sink, std::move(set_up));
}

// The file does not hold the octets before RDMA mode. It shows the connection as one that was always in that mode.
Task<ConnectResult> Provider::StepUp(ReleasedSocket socket, StepUpRole role, std::vector<std::byte> last_octets,
                                     ConnectOptions options) {
  asio::error_code error;
  const std::optional<Sink> sink =
      SinkFor(socket.socket.is_open() ? socket.socket.remote_endpoint(error).address() : IpAddress());
  if (!sink) return inner_->StepUp(std::move(socket), role, std::move(last_octets), std::move(options));
  SetUp set_up{.self = role == StepUpRole::kInitiator ? From::kClient : From::kServer,
               .client = {},
               .server = {},
               .request = {},
               .reply = {}};
  (role == StepUpRole::kInitiator ? set_up.request : set_up.reply) = options.private_data;
  auto stepping = inner_->StepUp(std::move(socket), role, std::move(last_octets), std::move(options));
  if (role == StepUpRole::kInitiator) return ConnectTraced(std::move(stepping), *sink, std::move(set_up));
  return AnswerTraced(std::move(stepping), *sink, std::move(set_up));
}

SetupResult<std::unique_ptr<Listener>> Provider::Listen(Address local) {
  return Traced(inner_->Listen(std::move(local)));
}

SetupResult<std::unique_ptr<Listener>> Provider::Traced(SetupResult<std::unique_ptr<Listener>> listener) {
  if (!listener) return listener;
  return std::make_unique<TracedListener>(*std::move(listener), *this);
}

}  // namespace penstock::rdma::trace
