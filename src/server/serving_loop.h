// One event loop of a server, with the servers for TCP, RDMA and UDP that run on it, and its thread. It has a server
// for each address.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/accept_turns.h"
#include "base/descriptor_shortage.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "metrics/counts.h"
#include "rdma/choice/choice.h"
#include "rdma/iwarp/provider.h"
#include "rdma/provider.h"
#include "rdma/trace/provider.h"
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
  // The provider that MakeProvider() has made for the kind.
  rdma::Provider& provider(rdma::Kind kind) { return *providers_.at(kind).all; }

  // The functions below are called once each, in this order, if they do not say otherwise. `tls` may be null.
  //
  // Once for each kind of RDMA: makes its provider.
  SetupResult<void> MakeProvider(const rdma::Chosen& rdma, std::shared_ptr<rdma::verbs::Registry> registry,
                                 std::shared_ptr<const rdma::trace::Recording> recording);
  // Makes a listener of software iWARP of a listening socket, whose listeners share `turns`.
  SetupResult<std::unique_ptr<rdma::Listener>> AdoptIwarp(int socket, std::shared_ptr<AcceptTurns> turns);
  // `handler` offers all programs.
  void Prepare(rpc::CallHandler& handler, const std::shared_ptr<rpc::ConnectionTable>& connections,
               const std::shared_ptr<rpc::MemoryBudget>& memory, const std::shared_ptr<rpc::MemoryBudget>& messages,
               std::shared_ptr<rpc::tls::Credentials> tls);
  // Any number of times after Prepare(), each for one address. NFS over TCP; a connection may step up.
  SetupResult<void> ServeNfs(const rpc::tcp::Listener& listener);
  // NFS over RDMA, by the provider of this kind.
  void ServeRdma(rdma::Kind kind, std::unique_ptr<rdma::Listener> listener);
  // Other programs. A handler for datagrams offers only programs whose replies are short and have no file data.
  SetupResult<void> ServeStreams(rpc::CallHandler& handler, const rpc::tcp::Listener& listener);
  SetupResult<void> ServeDatagrams(rpc::CallHandler& handler, rpc::udp::Listener listener);
  void Start();
  // Ends serving on the loop, and then calls `on_ended` on it. The loop goes on, because calls on other loops may still
  // post to it.
  void StopServing(Duration drain_limit, std::function<void()> on_ended);
  // Any thread, after serving has ended on all loops. Join() returns soon after.
  void Stop();
  void Join() { thread_.join(); }

  // Whether Prepare() was called.
  bool prepared() const { return handler_ != nullptr; }

 private:
  Task<void> Drain(Duration drain_limit, std::function<void()> on_ended);
  rdma::iwarp::Options IwarpOptions() const;
  rpcrdma::ServerOptions RdmaOptions(const rdma::Provider& provider);
  // Returns `provider` behind a tracing one.
  std::unique_ptr<rdma::Provider> Traced(std::unique_ptr<rdma::Provider> provider);
  // The provider for connections that step up. The first call makes it.
  rdma::Provider& StepUpProvider();

  const Options& options_;
  const std::shared_ptr<DescriptorShortage> shortage_;
  const metrics::Recorder recorder_;
  Loop loop_;
  std::shared_ptr<const rdma::trace::Recording> recording_;
  struct MadeProvider {
    std::unique_ptr<rdma::Provider> all;
    rdma::iwarp::Provider* iwarp = nullptr;  // part of `all`, if that is software iWARP
    rdma::trace::Provider* trace = nullptr;  // likewise
  };
  std::map<rdma::Kind, MadeProvider> providers_;
  std::unique_ptr<rdma::Provider> step_up_provider_;
  // These are set by Prepare().
  rpc::CallHandler* handler_ = nullptr;
  std::shared_ptr<rpc::ConnectionTable> connections_;
  std::shared_ptr<rpc::MemoryBudget> memory_;
  std::shared_ptr<rpc::MemoryBudget> messages_;
  rpc::tcp::ServerOptions stream_options_;    // of ServeStreams()
  rpc::tcp::ServerOptions nfs_options_;       // of ServeNfs()
  std::unique_ptr<rpcrdma::Server> step_up_;  // for connections that step up; null without Options::step_up
  std::vector<std::unique_ptr<rpcrdma::Server>> rdma_;
  std::vector<std::unique_ptr<rpc::tcp::Server>> streams_;
  std::vector<std::unique_ptr<rpc::udp::Server>> datagrams_;
  std::thread thread_;
  bool started_ = false;
};

}  // namespace penstock::server
