#include "nfs/nlm/program.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "protocol/nlm.h"
#include "protocol/nlm4.h"
#include "rpc/handle.h"

namespace penstock::nfs::nlm {

using v4::HostLocks;
using v4::LockRange;

namespace {

// The messages of version 4, and those of versions 1 and 3, under common names.
struct Version4 {
  using TestArguments = nlm4::nlm4_testargs;
  using LockArguments = nlm4::nlm4_lockargs;
  using CancelArguments = nlm4::nlm4_cancargs;
  using UnlockArguments = nlm4::nlm4_unlockargs;
  using ShareArguments = nlm4::nlm4_shareargs;
  using Notify = nlm4::nlm4_notify;
  using TestResults = nlm4::nlm4_testres;
  using Results = nlm4::nlm4_res;
  using ShareResults = nlm4::nlm4_shareres;
  using TestReply = nlm4::nlm4_testrply;
  using Holder = nlm4::nlm4_holder;
  using Offset = uint64_t;

  static nlm4::nlm4_stats ToStatus(Status status) { return status; }
};

struct Version3 {
  using TestArguments = nlm1::nlm_testargs;
  using LockArguments = nlm1::nlm_lockargs;
  using CancelArguments = nlm1::nlm_cancargs;
  using UnlockArguments = nlm1::nlm_unlockargs;
  using ShareArguments = nlm1::nlm_shareargs;
  using Notify = nlm1::nlm_notify;
  using TestResults = nlm1::nlm_testres;
  using Results = nlm1::nlm_res;
  using ShareResults = nlm1::nlm_shareres;
  using TestReply = nlm1::nlm_testrply;
  using Holder = nlm1::nlm_holder;
  using Offset = uint32_t;

  static nlm1::nlm_stats ToStatus(Status status) {
    switch (status) {
      case nlm4::NLM4_GRANTED:
      case nlm4::NLM4_DENIED:
      case nlm4::NLM4_DENIED_NOLOCKS:
      case nlm4::NLM4_BLOCKED:
      case nlm4::NLM4_DENIED_GRACE_PERIOD:
      case nlm4::NLM4_DEADLCK:
        return static_cast<nlm1::nlm_stats>(status);
      default:
        return nlm1::LCK_DENIED;
    }
  }
};

// A length of zero means a range without end.
std::optional<LockRange> ToRange(uint64_t offset, uint64_t length) {
  return LockRange::From(offset, length == 0 ? UINT64_MAX : length);
}

template <class Lock>
CalledLock ToLock(const Lock& lock, bool exclusive) {
  return {.caller_name = lock.caller_name,
          .fh = lock.fh.bytes(),
          .oh = lock.oh.bytes(),
          .process = static_cast<uint32_t>(lock.svid),
          .range = ToRange(lock.l_offset, lock.l_len),
          .exclusive = exclusive};
}

template <class V>
CalledShare ToShare(const typename V::ShareArguments& arguments) {
  const auto& share = arguments.share;
  // The bits of both protocols are the same: 1 for reading, 2 for writing.
  return {.caller_name = share.caller_name,
          .fh = share.fh.bytes(),
          .oh = share.oh.bytes(),
          .share = {.access = static_cast<uint32_t>(share.access), .deny = static_cast<uint32_t>(share.mode)}};
}

// The holder, in offsets that the version can express. The result is a view of `holder`.
template <class V>
typename V::Holder ToHolder(const HostLocks::Holder& holder) {
  using Offset = typename V::Offset;
  constexpr uint64_t kLargest = std::numeric_limits<Offset>::max();
  const uint64_t first = std::min(holder.range.first, kLargest);
  const bool has_end = holder.range.last < kLargest;
  return {.exclusive = holder.exclusive,
          .svid = static_cast<int32_t>(holder.process),
          .oh = AsBytes(holder.name),
          .l_offset = static_cast<Offset>(first),
          .l_len = has_end ? static_cast<Offset>(holder.range.last - first + 1) : Offset{0}};
}

template <class V>
typename V::TestReply ToReply(const LockManager::Tested& tested) {
  const auto status = V::ToStatus(tested.status);
  if (!tested.holder) {
    // A denial without a holder cannot be expressed.
    return typename V::TestReply(tested.status == nlm4::NLM4_DENIED ? V::ToStatus(nlm4::NLM4_DENIED_NOLOCKS) : status);
  }
  return typename V::TestReply(status, ToHolder<V>(*tested.holder));
}

using Done = Task<rpc::AcceptStatus>;

// The execution of one call, in the messages of version V. Each procedure has a form whose reply has the results, and
// an asynchronous form (_MSG): its reply is empty, and the results follow in a call to the host (_RES).
template <class V>
class Execution {
 public:
  Execution(LockManager& manager, const rpc::CallContext& call, xdr::Decoder& arguments, xdr::Encoder& results)
      : manager_(manager), call_(call), decoder_(arguments), encoder_(results) {}

  Done Test(std::optional<uint32_t> results_by) {
    typename V::TestArguments arguments;
    if (!Decode(arguments)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
    const LockManager::Tested tested = co_await manager_.Test(call_, ToLock(arguments.alock, arguments.exclusive));
    if (results_by) {
      manager_.SendResults(call_, *results_by, [cookie = Copy(arguments.cookie), tested](xdr::Encoder& encoder) {
        xdr::Encode(encoder, typename V::TestResults{.cookie = AsBytes(cookie), .test_stat = ToReply<V>(tested)});
      });
    } else {
      xdr::Encode(encoder_, typename V::TestResults{.cookie = arguments.cookie, .test_stat = ToReply<V>(tested)});
    }
    co_return rpc::AcceptStatus::SUCCESS;
  }

  Done Lock(std::optional<uint32_t> results_by) {
    typename V::LockArguments arguments;
    if (!Decode(arguments)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
    const Status status =
        co_await manager_.Lock(call_, ToLock(arguments.alock, arguments.exclusive), arguments.block, arguments.reclaim);
    Answer(arguments.cookie, status, results_by);
    co_return rpc::AcceptStatus::SUCCESS;
  }

  Done Cancel(std::optional<uint32_t> results_by) {
    typename V::CancelArguments arguments;
    if (!Decode(arguments)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
    const Status status = co_await manager_.Cancel(call_, ToLock(arguments.alock, arguments.exclusive));
    Answer(arguments.cookie, status, results_by);
    co_return rpc::AcceptStatus::SUCCESS;
  }

  Done Unlock(std::optional<uint32_t> results_by) {
    typename V::UnlockArguments arguments;
    if (!Decode(arguments)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
    const Status status = co_await manager_.Unlock(call_, ToLock(arguments.alock, false));
    Answer(arguments.cookie, status, results_by);
    co_return rpc::AcceptStatus::SUCCESS;
  }

  Done SetShare() {
    typename V::ShareArguments arguments;
    if (!Decode(arguments)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
    AnswerShare(arguments, co_await manager_.SetShare(call_, ToShare<V>(arguments), arguments.reclaim));
    co_return rpc::AcceptStatus::SUCCESS;
  }

  Done RemoveShare() {
    typename V::ShareArguments arguments;
    if (!Decode(arguments)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
    AnswerShare(arguments, co_await manager_.RemoveShare(call_, ToShare<V>(arguments)));
    co_return rpc::AcceptStatus::SUCCESS;
  }

  Done EndWatchedHost() {
    nlm4::nlm4_sm_status arguments;
    if (!Decode(arguments)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
    co_await manager_.EndWatchedHost(call_, arguments.priv, arguments.state);
    co_return rpc::AcceptStatus::SUCCESS;
  }

  Done FreeAll() {
    typename V::Notify arguments;
    if (!Decode(arguments)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
    co_await manager_.EndHost(call_, arguments.name);
    co_return rpc::AcceptStatus::SUCCESS;
  }

 private:
  template <class Arguments>
  bool Decode(Arguments& arguments) {
    return xdr::Decode(decoder_, arguments) && decoder_.Finish();
  }

  template <class Cookie>
  static std::string Copy(const Cookie& cookie) {
    return std::string(AsText(cookie.bytes()));
  }

  template <class Cookie>
  void Answer(const Cookie& cookie, Status status, std::optional<uint32_t> results_by) {
    if (results_by) {
      manager_.SendResults(call_, *results_by, [copy = Copy(cookie), status](xdr::Encoder& encoder) {
        xdr::Encode(encoder, typename V::Results{.cookie = AsBytes(copy), .stat = V::ToStatus(status)});
      });
    } else {
      xdr::Encode(encoder_, typename V::Results{.cookie = cookie, .stat = V::ToStatus(status)});
    }
  }

  void AnswerShare(const typename V::ShareArguments& arguments, Status status) {
    xdr::Encode(encoder_, typename V::ShareResults{.cookie = arguments.cookie, .stat = V::ToStatus(status)});
  }

  LockManager& manager_;
  const rpc::CallContext& call_;
  xdr::Decoder& decoder_;
  xdr::Encoder& encoder_;
};

// The procedures have the same numbers in all versions.
template <class V>
Done Execute(LockManager& manager, rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  Execution<V> execution(manager, context, arguments, results);
  const bool has_shares = context.version != nlm1::NLM_VERS;
  switch (context.procedure) {
    case nlm4::NLMPROC4_NULL::kNumber:
      co_return co_await rpc::Handle<nlm4::NLMPROC4_NULL>(
          context, arguments, results, [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case nlm4::NLMPROC4_TEST::kNumber:
      co_return co_await execution.Test({});
    case nlm4::NLMPROC4_LOCK::kNumber:
      co_return co_await execution.Lock({});
    case nlm4::NLMPROC4_CANCEL::kNumber:
      co_return co_await execution.Cancel({});
    case nlm4::NLMPROC4_UNLOCK::kNumber:
      co_return co_await execution.Unlock({});
    case nlm4::NLMPROC4_TEST_MSG::kNumber:
      co_return co_await execution.Test(nlm4::NLMPROC4_TEST_RES::kNumber);
    case nlm4::NLMPROC4_LOCK_MSG::kNumber:
      co_return co_await execution.Lock(nlm4::NLMPROC4_LOCK_RES::kNumber);
    case nlm4::NLMPROC4_CANCEL_MSG::kNumber:
      co_return co_await execution.Cancel(nlm4::NLMPROC4_CANCEL_RES::kNumber);
    case nlm4::NLMPROC4_UNLOCK_MSG::kNumber:
      co_return co_await execution.Unlock(nlm4::NLMPROC4_UNLOCK_RES::kNumber);
    case nlm4::NLMPROC4_SM_NOTIFY::kNumber:
      if (context.version == nlm4::NLM4_VERS) co_return co_await execution.EndWatchedHost();
      break;
    case nlm4::NLMPROC4_SHARE::kNumber:
      if (has_shares) co_return co_await execution.SetShare();
      break;
    case nlm4::NLMPROC4_UNSHARE::kNumber:
      if (has_shares) co_return co_await execution.RemoveShare();
      break;
    case nlm4::NLMPROC4_NM_LOCK::kNumber:
      // The host does not watch the server. The server watches the host all the same.
      if (has_shares) co_return co_await execution.Lock({});
      break;
    case nlm4::NLMPROC4_FREE_ALL::kNumber:
      if (has_shares) co_return co_await execution.FreeAll();
      break;
    default:
      break;  // GRANTED and the like are for clients
  }
  co_return rpc::AcceptStatus::PROC_UNAVAIL;
}

}  // namespace

uint32_t Program::number() const { return nlm4::NLM4_PROGRAM; }

// A lock that is set again by a late copy of its call would stay after the process has unlocked it.
rpc::Classification Program::Classify(rpc::CallContext& context, xdr::Decoder& /*arguments*/) const {
  switch (context.procedure) {
    case nlm4::NLMPROC4_NULL::kNumber:
    case nlm4::NLMPROC4_TEST::kNumber:
    case nlm4::NLMPROC4_TEST_MSG::kNumber:
      return {};
    default:
      return {.keep = rpc::Keep::kChange};
  }
}

Done Program::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  if (version_ == nlm4::NLM4_VERS) return Execute<Version4>(manager_, context, arguments, results);
  return Execute<Version3>(manager_, context, arguments, results);
}

}  // namespace penstock::nfs::nlm
