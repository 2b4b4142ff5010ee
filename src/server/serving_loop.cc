#include "server/serving_loop.h"

#include <algorithm>
#include <utility>

#include "rdma/iwarp/provider.h"
#include "rdma/trace/provider.h"
#include "rpc/step_up.h"

namespace penstock::server {
namespace {

// All loops together keep at most this part of the memory for calls as idle memory.
constexpr size_t kIdlePart = 8;

Task<void> Count(Task<void> task, size_t& left, OneShot<>& all) {
  co_await std::move(task);
  if (--left == 0) all.Set();
}

}  // namespace

SetupResult<void> ServingLoop::MakeProvider(const rdma::Chosen& rdma, std::shared_ptr<rdma::verbs::Registry> registry,
                                            std::shared_ptr<const rdma::trace::Recording> recording) {
  PENSTOCK_TRY(provider_, rdma::MakeProvider(rdma, options_.rdma, loop_, IwarpOptions(), std::move(registry)));
  recording_ = std::move(recording);
  provider_ = Traced(std::move(provider_));
  return {};
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

SetupResult<void> ServingLoop::Prepare(rpc::CallHandler& handler,
                                       const std::shared_ptr<rpc::ConnectionTable>& connections,
                                       const std::shared_ptr<rpc::MemoryBudget>& memory,
                                       std::shared_ptr<rpc::tls::Credentials> tls, const rpc::tcp::Listener& tcp,
                                       const rpc::tcp::Listener& mount, std::unique_ptr<rdma::Listener> rdma) {
  const size_t idle = memory->octets() / kIdlePart / options_.threads;
  for (BufferPool* pool : {&loop_.buffers(), &provider_->buffers()}) {
    pool->set_kept_octets(std::min(BufferPool::kKeptOctets, idle));
  }
  rpc::tcp::ServerOptions tcp_options;
  tcp_options.connections = connections;
  tcp_options.memory = memory;
  tcp_options.stall_limit = options_.stall_limit;
  tcp_options.back_call_limit = options_.nfs4.callback_limit();
  tcp_options.shortage = shortage_;
  tcp_options.tls = std::move(tls);
  tcp_options.recorder = recorder_;
  stream_options_ = tcp_options;
  mount_.emplace(loop_, handler, tcp_options);
  rpcrdma::ServerOptions options;
  options.connections = connections;
  options.memory = memory;
  options.loop = &loop_;
  options.recorder = recorder_;
  options.padding = options_.padding;
  options.requester.call_timeout = options_.nfs4.callback_limit();
  options.private_data.remote_invalidation = provider_->remote_invalidation();
  options.max_agreed_size = options_.max_agreed_size;
  options.longest_agreed_call = options_.longest_agreed_call;
  if (options_.one_receive_first) {
    options.responder.one_receive_first = true;
    options.ird = 0;
  }
  rdma_.emplace(*provider_, loop_, handler, std::move(options));
  if (options_.step_up) {
    tcp_options.step_up_limits = rdma_->agreed_limits();
    tcp_options.step_up = [this](rpc::SteppingConnection connection) {
      rdma_->StepUp(StepUpProvider(), std::move(connection));
    };
  }
  tcp_.emplace(loop_, handler, tcp_options);
  PENSTOCK_CHECK(tcp_->Start(tcp));
  PENSTOCK_CHECK(mount_->Start(mount));
  rdma_->Start(std::move(rdma));
  return {};
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
  thread_ = std::thread([this] { loop_.Run(); });
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
  size_t left = 3 + streams_.size() + datagrams_.size();
  OneShot<> all;
  Spawn(Count(tcp_->Stop(drain_limit), left, all));
  Spawn(Count(mount_->Stop(drain_limit), left, all));
  Spawn(Count(rdma_->Stop(drain_limit), left, all));
  for (const auto& each : streams_) Spawn(Count(each->Stop(drain_limit), left, all));
  for (const auto& each : datagrams_) Spawn(Count(each->Stop(), left, all));
  co_await all;
  // Post, so that the code of the closed connections ends in this turn of the loop, before `on_ended` runs.
  loop_.Post(std::move(on_ended));
}

}  // namespace penstock::server
