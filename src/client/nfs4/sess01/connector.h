// Makes the connections of a session of 2004.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "base/cancellation.h"
#include "base/result.h"
#include "base/task.h"
#include "base/timer.h"
#include "base/workers.h"
#include "client/url.h"
#include "protocol/nfs4_sess01.h"
#include "rdma/provider.h"
#include "rpc/connection_control.h"
#include "rpc/transport.h"

namespace penstock {
class Loop;
}

namespace penstock::client::v4::sess01 {

class Connector {
 public:
  using Opened = SetupResult<std::unique_ptr<rpc::Channel>>;

  struct Ends {
    // Executes the server's calls over the connection; null: it accepts none. It outlives the connection and its calls.
    rpc::CallHandler* handler = nullptr;
    // Called once when the connection is lost. It must not destroy the connection.
    std::function<void()> on_lost{};
  };

  virtual ~Connector() = default;

  // The mode to ask for when a connection becomes an operations channel or a back channel (§6.2). A connection that
  // carries both takes the mode of the operations channel.
  virtual nfs4::ConnectionMode mode(nfs4::ChannelType type) const = 0;
  // The largest message to ask for, and the largest call if it may be longer.
  virtual uint32_t max_message() const = 0;
  virtual uint32_t max_call() const { return max_message(); }
  // The most calls at once to ask for. A server that keeps a receive for each call allows longer calls if they are few.
  virtual uint32_t max_calls() const { return std::numeric_limits<uint32_t>::max(); }
  // Whether connections are RDMA connections from the start, so that they cannot step up (§2.3.3).
  virtual bool starts_in_rdma_mode() const = 0;

  virtual Task<Opened> Open(Duration time_limit, Ends ends) = 0;
  // Changes a connection that Open() has made into an RDMA connection with these limits (§2.3.2). `tcp` is idle.
  virtual Task<Opened> StepUp(std::unique_ptr<rpc::Channel> tcp, rpc::ConnectionLimits limits, Ends ends) = 0;
  // The server has granted these limits to a connection that was an RDMA connection from the start (§2.3.3).
  virtual void SetLimits(rpc::Channel& rdma, const rpc::ConnectionLimits& limits) = 0;
  // Returns credits of an RDMA connection to the server until `target` of them are left (§2.4). Returns false if the
  // connection is lost.
  virtual Task<bool> ReturnCredits(rpc::Channel& rdma, uint32_t target) = 0;
  // The credits that the last reply over an RDMA connection has granted.
  virtual uint32_t Credits(rpc::Channel& rdma) const = 0;
};

// Connects to the server that a URL names.
class UrlConnector final : public Connector {
 public:
  // The arguments outlive it. `provider` may be null over TCP.
  // `ending` ends attempts to connect; null: nothing does.
  UrlConnector(Loop& loop, Workers& workers, const Url& url, rdma::Provider* provider, Cancellation* ending = nullptr)
      : loop_(loop), workers_(workers), url_(url), provider_(provider), ending_(ending) {}

  nfs4::ConnectionMode mode(nfs4::ChannelType type) const override;
  uint32_t max_message() const override;
  uint32_t max_call() const override;
  uint32_t max_calls() const override;
  bool starts_in_rdma_mode() const override { return url_.protocol == Protocol::kRdma; }
  Task<Opened> Open(Duration time_limit, Ends ends) override;
  Task<Opened> StepUp(std::unique_ptr<rpc::Channel> tcp, rpc::ConnectionLimits limits, Ends ends) override;
  void SetLimits(rpc::Channel& rdma, const rpc::ConnectionLimits& limits) override;
  Task<bool> ReturnCredits(rpc::Channel& rdma, uint32_t target) override;
  uint32_t Credits(rpc::Channel& rdma) const override;

 private:
  // The size of a call whose data go inline, as the URL asks (inline=).
  uint32_t inline_call() const;

  Loop& loop_;
  Workers& workers_;
  const Url& url_;
  rdma::Provider* const provider_;
  Cancellation* const ending_;
};

}  // namespace penstock::client::v4::sess01
