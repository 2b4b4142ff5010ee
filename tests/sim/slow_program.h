// SlowProgram wraps an RPC program and imitates the timing of a real server: calls take random times, end in any order,
// and the server can hang for a while. It counts the executions of each call.
#pragma once

#include <map>
#include <utility>

#include "base/address.h"
#include "base/signal.h"
#include "findings.h"
#include "rpc/forwarding_program.h"

namespace penstock::simulation {

class SlowProgram final : public rpc::ForwardingProgram {
 public:
  // With sessions, a duplicate call reaches this program, and the session's slots detect it. Without sessions, the
  // duplicate request cache must stop a duplicate earlier: a second execution is then an error.
  SlowProgram(rpc::Program& inner, bool sessions, rdma::sim::World& world, Findings& findings, Duration max_delay)
      : ForwardingProgram(inner), sessions_(sessions), world_(world), findings_(findings), max_delay_(max_delay) {}

  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override {
    ++running_;
    world_.Trace("server: call {:08x} of procedure {}", context.xid.value(), context.procedure);
    co_await Dawdle();
    if (killed_) {
      --running_;
      co_return rpc::AcceptStatus::SYSTEM_ERR;
    }
    if (!sessions_ && context.keep == rpc::Keep::kChange) {
      const unsigned times = ++executions_[{context.peer.address.address(), context.xid.value()}];
      if (times > 1)
        findings_.Add("call {:08x} of procedure {} was executed twice", context.xid.value(), context.procedure);
    }
    const rpc::AcceptStatus status = co_await inner().Call(context, arguments, results);
    co_await Dawdle();
    world_.Trace("server: call {:08x} is executed", context.xid.value());
    --running_;
    co_return status;
  }

  // Calls that are not executed yet fail from now on.
  void Kill() { killed_ = true; }
  void HangFor(Duration duration) { hung_until_ = world_.Now() + duration; }
  size_t running() const { return running_; }

 private:
  Task<void> Dawdle() {
    if (hung_until_ > world_.Now()) co_await Sleep(world_, hung_until_ - world_.Now());
    if (max_delay_ > Duration::zero() && world_.random().Chance(0.7)) {
      co_await Sleep(world_, world_.random().UpTo(max_delay_));
    }
  }

  const bool sessions_;
  rdma::sim::World& world_;
  Findings& findings_;
  const Duration max_delay_;
  TimePoint hung_until_{};
  size_t running_ = 0;
  bool killed_ = false;
  std::map<std::pair<IpAddress, uint32_t>, unsigned> executions_;
};

}  // namespace penstock::simulation
