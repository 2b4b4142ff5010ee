// Calls in the reverse direction, under a context that the other end has made (RFC 8881 §2.10.8.2, §18.36.3).
#pragma once

#include <utility>

#include "base/timer.h"
#include "base/workers.h"
#include "rpc/gss/secured_call.h"
#include "rpc/security_flavor.h"

namespace penstock::rpc::gss {

// Thread-safe: the calls of one context may go over connections of several loops.
class ReverseContext final : public ReverseProtection {
 public:
  // `context` has the handle by which the other end knows the reverse direction. `pool` outlives it, or is null.
  ReverseContext(CallingContext context, TimePoint expires, Workers* pool)
      : context_(std::move(context)), expires_(expires), pool_(pool) {}

  Task<penstock::Result<Message, CallError>> Call(BackChannel& channel, Message call, ReplyShape shape) override;
  TimePoint expires() const override { return expires_; }
  size_t handle_size() const override { return context_.handle.size(); }

 private:
  const CallingContext context_;
  const TimePoint expires_;
  Workers* const pool_;
};

}  // namespace penstock::rpc::gss
