#include "server/serving_loop.h"

#include <algorithm>
#include <utility>

#include "base/thread.h"
#include "rpc/step_up.h"

namespace penstock::server {
namespace {

// All loops together keep at most this part of the memory for calls as idle memory.
constexpr size_t kIdlePart = 8;
// The credits of a new connection over an adapter. With 4 more receives, and 8 for the replies to its own calls, an
// idle connection keeps 96 KiB.
constexpr uint32_t kFirstCredits = 12;

Task<void> Count(Task<void> task, size_t& left, OneShot<>& all) {
  co_await std::move(task);
  if (--left == 0) all.Set();
}

}  // namespace

SetupResult<void> ServingLoop::MakeProvider(const rdma::Chosen& rdma, std::shared_ptr<rdma::verbs::Registry> registry,
                                            std::shared_ptr<const rdma::trace::Recording> recording) {
  recording_ = std::move(recording);
  MadeProvider made;
  PENSTOCK_TRY(made.all, rdma::MakeProvider(rdma, options_.rdma, loop_, IwarpOptions(), std::move(registry)));
  made.iwarp = dynamic_cast<rdma::iwarp::Provider*>(made.all.get());
  made.all = Traced(std::move(made.all));
  made.trace = dynamic_cast<rdma::trace::Provider*>(made.all.get());
  providers_.emplace(rdma.kind, std::move(made));
  return {};
}

SetupResult<std::unique_ptr<rdma::Listener>> ServingLoop::AdoptIwarp(int socket, std::shared_ptr<AcceptTurns> turns) {
  const MadeProvider& made = providers_.at(rdma::Kind::kIwarp);
  auto listener = made.iwarp->Adopt(socket, std::move(turns));
  return made.trace ? made.trace->Traced(std::move(listener)) : std::move(listener);
}

rdma::iwarp::Options ServingLoop::IwarpOptions() const {
  rdma::iwarp::Options iwarp = options_.iwarp;
  iwarp.stall_limit = options_.stall_limit;
  iwarp.shortage = shortage_;
  return iwarp;
}

std::unique_ptr<rdma::Provider> ServingLoop::Traced(std::unique_ptr<rdma::Provider> provider) {
  return std::make_unique<rdma::trace::Provider>(std::move(provider), recording_, loop_);
}

rdma::Provider& ServingLoop::StepUpProvider() {
  if (!step_up_provider_) {
    step_up_provider_ = Traced(std::make_unique<rdma::iwarp::Provider>(loop_, IwarpOptions()));
  }
  return *step_up_provider_;
}

void ServingLoop::Prepare(rpc::CallHandler& handler, const std::shared_ptr<rpc::ConnectionTable>& connections,
                          const std::shared_ptr<rpc::MemoryBudget>& memory,
                          const std::shared_ptr<rpc::MemoryBudget>& messages,
                          std::shared_ptr<rpc::tls::Credentials> tls) {
  handler_ = &handler;
  connections_ = connections;
  memory_ = memory;
  messages_ = messages;
  const size_t idle = std::min(BufferPool::kKeptOctets, memory->octets() / kIdlePart / options_.threads);
  loop_.buffers().set_kept_octets(idle);
  for (auto& [kind, made] : providers_) made.all->buffers().set_kept_octets(idle);
  stream_options_.connections = connections;
  stream_options_.memory = memory;
  stream_options_.stall_limit = options_.stall_limit;
  stream_options_.back_call_limit = options_.nfs4.callback_limit();
  stream_options_.shortage = shortage_;
  stream_options_.tls = std::move(tls);
  stream_options_.recorder = recorder_;
  nfs_options_ = stream_options_;
  if (!options_.step_up) return;
  rdma::Provider& provider = StepUpProvider();
  step_up_ = std::make_unique<rpcrdma::Server>(loop_, handler, RdmaOptions(provider));
  nfs_options_.step_up_limits = step_up_->agreed_limits();
  nfs_options_.step_up = [this](rpc::SteppingConnection connection) {
    step_up_->StepUp(StepUpProvider(), std::move(connection));
  };
}

rpcrdma::ServerOptions ServingLoop::RdmaOptions(const rdma::Provider& provider) {
  rpcrdma::ServerOptions options;
  options.connections = connections_;
  options.memory = memory_;
  options.messages = messages_;
  options.loop = &loop_;
  options.recorder = recorder_;
  options.padding = options_.padding;
  options.requester.call_timeout = options_.nfs4.callback_limit();
  // Such a connection agrees on its sizes later.
  if (!options_.one_receive_first) {
    options.private_data = rpcrdma::PrivateData::ForInlineData(options_.inline_data.value_or(provider.inline_data()));
  }
  options.private_data.remote_invalidation = provider.remote_invalidation();
  if (provider.receives_hold_memory()) options.responder.first_credits = kFirstCredits;
  options.max_agreed_size = options_.max_agreed_size;
  options.longest_agreed_call = options_.longest_agreed_call;
  if (options_.one_receive_first) {
    options.responder.one_receive_first = true;
    options.ird = 0;
  }
  return options;
}

SetupResult<void> ServingLoop::ServeNfs(const rpc::tcp::Listener& listener) {
  auto& server = *streams_.emplace_back(std::make_unique<rpc::tcp::Server>(loop_, *handler_, nfs_options_));
  return server.Start(listener);
}

void ServingLoop::ServeRdma(rdma::Kind kind, std::unique_ptr<rdma::Listener> listener) {
  rdma::Provider& by = provider(kind);
  rdma_.push_back(std::make_unique<rpcrdma::Server>(loop_, *handler_, RdmaOptions(by)));
  rdma_.back()->Start(std::move(listener));
}

SetupResult<void> ServingLoop::ServeStreams(rpc::CallHandler& handler, const rpc::tcp::Listener& listener) {
  auto& server = *streams_.emplace_back(std::make_unique<rpc::tcp::Server>(loop_, handler, stream_options_));
  return server.Start(listener);
}

SetupResult<void> ServingLoop::ServeDatagrams(rpc::CallHandler& handler, rpc::udp::Listener listener) {
  rpc::udp::ServerOptions options;
  options.recorder = recorder_;
  auto& server = *datagrams_.emplace_back(std::make_unique<rpc::udp::Server>(loop_, handler, std::move(options)));
  return server.Start(std::move(listener));
}

void ServingLoop::Start() {
  started_ = true;
  thread_ = StartThread("penstock-loop", [this] { loop_.Run(); });
}

void ServingLoop::StopServing(Duration drain_limit, std::function<void()> on_ended) {
  loop_.Post(
      [this, drain_limit, ended = std::move(on_ended)]() mutable { Spawn(Drain(drain_limit, std::move(ended))); });
  // If set-up failed half-way, the loop must still run to close the listeners.
  if (!started_) Start();
}

void ServingLoop::Stop() {
  loop_.Post([this] { loop_.Stop(); });
}

Task<void> ServingLoop::Drain(Duration drain_limit, std::function<void()> on_ended) {
  // Stop all at the same time, because a peer can use up the whole limit of each.
  std::vector<rpcrdma::Server*> rdma;
  for (const auto& each : rdma_) rdma.push_back(each.get());
  if (step_up_) rdma.push_back(step_up_.get());
  size_t left = rdma.size() + streams_.size() + datagrams_.size();
  OneShot<> all;
  if (left == 0) all.Set();
  for (rpcrdma::Server* const each : rdma) Spawn(Count(each->Stop(drain_limit), left, all));
  for (const auto& each : streams_) Spawn(Count(each->Stop(drain_limit), left, all));
  for (const auto& each : datagrams_) Spawn(Count(each->Stop(), left, all));
  co_await all;
  // Post, so that the code of the closed connections ends in this turn of the loop, before `on_ended` runs.
  loop_.Post(std::move(on_ended));
}

}  // namespace penstock::server
