#include "rdma/endpoint_suite.h"

#include <algorithm>

namespace penstock::rdma {

SuitePeer::SuitePeer(std::unique_ptr<Endpoint> endpoint, size_t receives) : endpoint_(std::move(endpoint)) {
  for (size_t i = 0; i < receives; ++i) Account(Operation::kReceive);
}

void SuitePeer::Start(size_t batch) {
  endpoint_->Start([this, batch] {
    ++calls_;
    EXPECT_FALSE(in_call_) << "on_completions runs inside a call to the endpoint";
    EXPECT_FALSE(polling_) << "on_completions runs again before Poll() has returned less than out.size()";
    polling_ = true;
    std::vector<Completion> out(batch);
    size_t count;
    do {
      Guarded([&](Endpoint& endpoint) { count = endpoint.Poll(out); });
      ASSERT_LE(count, batch);
      if (count < batch) polling_ = false;
      for (size_t i = 0; i < count; ++i) Take(std::move(out[i]));
    } while (count == batch);
  });
}

Context SuitePeer::Account(Operation operation) {
  posted_[next_context_] = {operation, std::nullopt};
  return next_context_++;
}

void SuitePeer::Take(Completion completion) {
  if (completion.operation == Operation::kDisconnected) {
    EXPECT_EQ(disconnected(), nullptr) << "a second kDisconnected";
    EXPECT_EQ(completion.context, 0u);
    EXPECT_NE(completion.reason, DisconnectReason::kNone);
  } else {
    auto found = posted_.find(completion.context);
    ASSERT_NE(found, posted_.end()) << "no posted request has the context of this completion: " << completion.context;
    auto& [operation, answer] = found->second;
    EXPECT_EQ(completion.operation, operation);
    EXPECT_FALSE(answer) << "a second completion of request " << completion.context;
    if (!answer) ++answered_;
    answer = completions_.size();
    if (operation == Operation::kReceive) {
      EXPECT_TRUE(completion.buffer || completion.status != Status::kSuccess) << "a message has a buffer";
    }
  }
  completions_.push_back(std::move(completion));
}

Context SuitePeer::PostReceive(size_t size) {
  Context context = Account(Operation::kReceive);
  Guarded([&](Endpoint& endpoint) { endpoint.PostReceive({context, size}); });
  return context;
}

Context SuitePeer::PostReceives(size_t count, size_t size) {
  Context first = next_context_;
  for (size_t i = 0; i < count; ++i) PostReceive(size);
  return first;
}

Context SuitePeer::PostSend(Gather gather, bool solicited, std::optional<Stag> invalidate) {
  Context context = Account(Operation::kSend);
  Guarded([&](Endpoint& endpoint) { endpoint.PostSend({context, std::move(gather), solicited, invalidate}); });
  return context;
}

Context SuitePeer::PostSend(std::string_view text) {
  BufferRef buffer = endpoint_->buffers().Allocate(text.size());
  CopyBytes(buffer->bytes(), AsBytes(text));
  Gather gather;
  gather.push_back(Slice(buffer, buffer->bytes().first(text.size())));
  return PostSend(std::move(gather));
}

Context SuitePeer::PostWrite(Gather gather, RemoteSegment remote) {
  Context context = Account(Operation::kWrite);
  Guarded([&](Endpoint& endpoint) { endpoint.PostWrite({context, std::move(gather), remote}); });
  return context;
}

Context SuitePeer::PostRead(Bytes local, RemoteSegment remote) {
  Context context = Account(Operation::kRead);
  Guarded([&](Endpoint& endpoint) { endpoint.PostRead({context, local, {}, remote}); });
  return context;
}

Context SuitePeer::PostInvalidate(MemoryRegion& region) {
  Context context = Account(Operation::kInvalidate);
  Guarded([&](Endpoint& endpoint) { endpoint.PostInvalidate(context, region); });
  return context;
}

const Completion* SuitePeer::Find(Context context) const {
  auto found = posted_.find(context);
  if (found == posted_.end() || !found->second.second) return nullptr;
  return &completions_[*found->second.second];
}

std::optional<Status> SuitePeer::StatusOf(Context context) const {
  const Completion* completion = Find(context);
  return completion ? std::optional(completion->status) : std::nullopt;
}

std::string SuitePeer::Text(Context context) const {
  const Completion* completion = Find(context);
  if (!completion || completion->status != Status::kSuccess || !completion->buffer) return "(nothing received)";
  return std::string(AsText(completion->buffer->bytes().first(completion->length)));
}

size_t SuitePeer::received() const {
  return std::ranges::count_if(completions_, [](const Completion& completion) {
    return completion.operation == Operation::kReceive && completion.status == Status::kSuccess;
  });
}

const Completion* SuitePeer::disconnected() const {
  auto found = std::ranges::find(completions_, Operation::kDisconnected, &Completion::operation);
  return found == completions_.end() ? nullptr : &*found;
}

DisconnectReason SuitePeer::reason() const {
  const Completion* completion = disconnected();
  return completion ? completion->reason : DisconnectReason::kNone;
}

void EndpointSuite::SetUp() {
  env_ = GetParam().make();
  server_provider_ = env_->MakeProvider();
  client_provider_ = env_->MakeProvider();
  auto listener = server_provider_->Listen(env_->ListenAddress());
  ASSERT_TRUE(listener) << listener.error().message;
  listener_ = *std::move(listener);
}

void EndpointSuite::TearDown() {
  if (client_ && server_) Finish(*client_, *server_);
  client_.reset();
  server_.reset();
  listener_.reset();
  if (env_) env_->Settle();
  client_provider_.reset();
  server_provider_.reset();
  env_.reset();
}

std::vector<ReceiveRequest> EndpointSuite::Receives(size_t count, size_t size) {
  std::vector<ReceiveRequest> receives;
  for (Context context = 1; context <= count; ++context) {
    receives.push_back({context, size});
  }
  return receives;
}

EndpointSuite::Pair EndpointSuite::MakePair(ConnectOptions client, ConnectOptions server) {
  size_t client_receives = client.receives.size();
  size_t server_receives = server.receives.size();
  auto next = Begin(listener_->Next());
  auto connecting = Begin(client_provider_->Connect(listener_->local(), std::move(client)));
  std::unique_ptr<ConnectionRequest> request = Await(next);
  if (!request) throw std::runtime_error("no connection request");
  auto accepting = Begin(request->Accept(std::move(server)));
  ConnectResult accepted = Await(accepting);
  if (!accepted) throw std::runtime_error("not accepted: " + accepted.error().detail);
  ConnectResult connected = Await(connecting);
  if (!connected) throw std::runtime_error("not connected: " + connected.error().detail);
  return {std::make_unique<SuitePeer>(*std::move(connected), client_receives),
          std::make_unique<SuitePeer>(*std::move(accepted), server_receives)};
}

void EndpointSuite::Connect(ConnectOptions client, ConnectOptions server) {
  Pair pair = MakePair(std::move(client), std::move(server));
  client_ = std::move(pair.client);
  server_ = std::move(pair.server);
  client_->Start();
  server_->Start();
}

std::unique_ptr<MemoryRegion> EndpointSuite::Register(SuitePeer& peer, Bytes memory, Access access) {
  auto region = peer.endpoint().Register(memory, access);
  env_->Publish();
  return region;
}

void EndpointSuite::RunUntilLost(SuitePeer& a, SuitePeer& b) {
  RunUntil([&] { return a.disconnected() && b.disconnected(); });
}

void EndpointSuite::ExpectRefused(SuitePeer& initiator, SuitePeer& target, Context request) {
  RunUntilLost(initiator, target);
  if (env_->tells_refusal()) {
    EXPECT_EQ(initiator.reason(), DisconnectReason::kPeerTerminated);
    EXPECT_EQ(target.reason(), DisconnectReason::kProtocolError);
  }
  const Completion* completion = initiator.Find(request);
  ASSERT_NE(completion, nullptr);
  // A Send or Write may complete (its memory is free) before the peer refuses it.
  if (completion->operation == Operation::kRead) {
    EXPECT_NE(completion->status, Status::kSuccess);
  }
}

void EndpointSuite::ExpectPrivateData(ConstBytes arrived, ConstBytes sent) {
  ASSERT_GE(arrived.size(), sent.size());
  EXPECT_TRUE(Equal(arrived.first(sent.size()), sent));
  const ConstBytes behind = arrived.subspan(sent.size());
  EXPECT_TRUE(std::ranges::all_of(behind, [](std::byte byte) { return byte == std::byte{0}; }));
  if (env_->exact_private_data()) {
    EXPECT_TRUE(behind.empty());
  }
}

void EndpointSuite::Finish(SuitePeer& client, SuitePeer& server) {
  if (!client.destroyed() && !client.disconnected()) client.endpoint().Disconnect();
  RunUntil(
      [&] { return (client.destroyed() || client.disconnected()) && (server.destroyed() || server.disconnected()); });
  env_->Settle();
  for (SuitePeer* peer : {&client, &server}) {
    if (peer->destroyed()) continue;
    EXPECT_EQ(peer->outstanding(), 0u) << (peer == &client ? "client" : "server") << ": requests without a completion";
  }
}

std::vector<std::byte> EndpointSuite::Pattern(size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = std::byte(state >> 24);
  }
  return bytes;
}

}  // namespace penstock::rdma
