// Memory that the peer of a Connection may reach: opened, and closed again.
#include <fmt/core.h>

#include <cassert>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "rdma/verbs/connection.h"
#include "rdma/verbs/set_up_errors.h"

namespace penstock::rdma::verbs {

// The operator's business: the limit on locked memory, most likely.
void Connection::FailToRegister() {
  const std::string why = CannotRegister(traits_.name, errno).message;
  if (!fate_) log::warn("{}", why);
  Fail(DisconnectReason::kFault, why);
}

std::shared_ptr<Exposed> Connection::Register(Bytes memory, Access access) {
  auto exposed = std::make_shared<Exposed>();
  exposed->offset = reinterpret_cast<uintptr_t>(memory.data());
  exposed->length = memory.size();
  if (state_ == State::kLost || fate_) return exposed;
  if (ExposureFor(traits_) == Exposure::kRegistration) {
    const int local = access == Access::kRemoteWrite ? IBV_ACCESS_LOCAL_WRITE : 0;
    exposed->registration = domain_->Register(memory, local | RemoteAccess(access));
    if (!exposed->registration) {
      FailToRegister();
      return exposed;
    }
    exposed->stag = Stag(exposed->registration->rkey);
  } else {
    exposed->window = domain_->TakeWindow(entropy_());
    if (!exposed->window) {
      Fail(DisconnectReason::kFault, fmt::format("{} has no more memory windows", traits_.name));
      return exposed;
    }
    // The key's last octet is ours to choose: never the one before.
    const uint32_t last = exposed->window->rkey & 0xFF;
    exposed->stag = Stag((exposed->window->rkey & ~0xFFu) | ((last + 1 + entropy_() % 255) & 0xFF));
    Work bind;
    bind.operation = Operation::kInvalidate;
    bind.silent = true;
    bind.opcode = IBV_WR_BIND_MW;
    bind.access = access;
    bind.exposed = exposed;
    bind.local = memory;
    Post(std::move(bind));
  }
  exposed->valid = true;
  exposed_.emplace(exposed->stag.value(), exposed);
  return exposed;
}

void Connection::PostInvalidate(Context context, const std::shared_ptr<Exposed>& exposed) {
  if (!exposed->valid) {
    Complete(Operation::kInvalidate, context, Status::kSuccess);
    return Touch();
  }
  if (!exposed->window) {
    // Done when the call returns.
    Complete(Operation::kInvalidate, context, Retire(*exposed) ? Status::kSuccess : Status::kFlushed);
    return Touch();
  }
  assert(!exposed->closing);
  PostUnbind(exposed, context, false);
}

void Connection::Close(const std::shared_ptr<Exposed>& exposed) {
  if (!exposed->valid || exposed->closing) return;
  if (exposed->window) return PostUnbind(exposed, 0, true);
  Retire(*exposed);
}

void Connection::PostUnbind(const std::shared_ptr<Exposed>& exposed, Context context, bool silent) {
  exposed->closing = true;
  Work work;
  work.operation = Operation::kInvalidate;
  work.context = context;
  work.silent = silent;
  work.opcode = IBV_WR_LOCAL_INV;
  work.exposed = exposed;
  Post(std::move(work));
}

// After this the peer cannot reach the memory. False: the connection has ended to make sure of that (RFC 8166 §4.5.4).
bool Connection::Retire(Exposed& exposed) {
  exposed.valid = false;
  if (exposed.window) {
    exposed.window->rkey = exposed.stag.value();
    domain_->ReturnWindow(std::exchange(exposed.window, nullptr));
  }
  if (exposed.registration) {
    if (const int error = ::ibv_dereg_mr(exposed.registration); error != 0) {
      const std::string why =
          fmt::format("{} cannot invalidate a memory region: {}", traits_.name, DescribeErrno(error));
      if (!fate_) log::warn("{}", why);
      StopQueuePair();
      Fail(DisconnectReason::kFault, why);
      return false;  // Release() tries again
    }
    exposed.registration = nullptr;
  }
  exposed_.erase(exposed.stag.value());
  return true;
}

}  // namespace penstock::rdma::verbs
