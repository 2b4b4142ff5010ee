// One event loop of a server, with the servers for TCP, MOUNT, RDMA and UDP that run on it, and its thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/descriptor_shortage.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "metrics/counts.h"
#include "rdma/choice/choice.h"
#include "rdma/provider.h"
#include "rdma/trace/recording.h"
#include "rpc/tcp/server.h"
#include "rpc/udp/server.h"
#include "rpcrdma/server.h"
#include "server/options.h"

namespace penstock::server {

// The thread that owns the Server sets it up and destroys it, while the loop does not run. In between, everything but
// loop() and Stop() belongs to the loop's thread.
class ServingLoop {
 public:
  // `options` must outlive this.
  ServingLoop(const Options& options, std::shared_ptr<DescriptorShortage> shortage, metrics::Recorder recorder)
      : options_(options), shortage_(std::move(shortage)), recorder_(std::move(recorder)) {}

  Loop& loop() { return loop_; }
  rdma::Provider& provider() { return *provider_; }

  // The functions below are called once each, in this order, if they do not say otherwise. `tls` may be null.
  SetupResult<void> MakeProvider(const rdma::Chosen& rdma, std::shared_ptr<rdma::verbs::Registry> registry,
                                 std::shared_ptr<const rdma::trace::Recording> recording);
  SetupResult<void> Prepare(rpc::CallHandler& handler, const std::shared_ptr<rpc::ConnectionTable>& connections,
                            const std::shared_ptr<rpc::MemoryBudget>& memory,
                            std::shared_ptr<rpc::tls::Credentials> tls, const rpc::tcp::Listener& tcp,
                            const rpc::tcp::Listener& mount, std::unique_ptr<rdma::Listener> rdma);
  // Any number of times after Prepare(): serves calls of another port as well. A handler for datagrams offers only
  // programs whose replies are short and have no file data.
  SetupResult<void> ServeStreams(rpc::CallHandler& handler, const rpc::tcp::Listener& listener);
  SetupResult<void> ServeDatagrams(rpc::CallHandler& handler, rpc::udp::Listener listener);
  void Start();
  // Ends serving on the loop, and then calls `on_ended` on it. The loop goes on, because calls on other loops may still
  // post to it.
  void StopServing(Duration drain_limit, std::function<void()> on_ended);
  // Any thread, after serving has ended on all loops. Join() returns soon after.
  void Stop();
  void Join() { thread_.join(); }

  // Whether Prepare() has succeeded.
  bool prepared() const { return rdma_.has_value(); }

 private:
  Task<void> Drain(Duration drain_limit, std::function<void()> on_ended);
  rdma::iwarp::Options IwarpOptions() const;
  // Returns `provider` behind a tracing one.
  std::unique_ptr<rdma::Provider> Traced(std::unique_ptr<rdma::Provider> provider);
  // The provider for connections that step up. The first call makes it.
  rdma::Provider& StepUpProvider();

  const Options& options_;
  const std::shared_ptr<DescriptorShortage> shortage_;
  const metrics::Recorder recorder_;
  Loop loop_;
  std::shared_ptr<const rdma::trace::Recording> recording_;
  std::unique_ptr<rdma::Provider> provider_;
  std::unique_ptr<rdma::Provider> step_up_provider_;
  std::optional<rpc::tcp::Server> tcp_;
  std::optional<rpc::tcp::Server> mount_;
  std::optional<rpcrdma::Server> rdma_;
  rpc::tcp::ServerOptions stream_options_;  // of ServeStreams()
  std::vector<std::unique_ptr<rpc::tcp::Server>> streams_;
  std::vector<std::unique_ptr<rpc::udp::Server>> datagrams_;
  std::thread thread_;
  bool started_ = false;
};

}  // namespace penstock::server
