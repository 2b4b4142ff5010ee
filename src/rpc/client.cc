#include "rpc/client.h"

#include <fmt/core.h>

#include <span>

#include "base/random.h"

namespace penstock::rpc {

Xid RandomXid() {
  uint32_t number = 0;
  FillRandomly(std::as_writable_bytes(std::span(&number, 1)));
  return Xid(number);
}

Error ErrorOf(const ReplyHeader& header) {
  using Kind = Error::Kind;
  if (header.body.is_rreply()) {
    const rpcmsg::rejected_reply& rejected = header.body.rreply();
    if (rejected.is_why()) return {.kind = Kind::kAuthentication, .auth = rejected.why()};
    return {.kind = Kind::kRpcMismatch, .versions = rejected.mismatch_info()};
  }
  const rpcmsg::accepted_data& accepted = header.body.areply().reply_data;
  switch (accepted.discriminant()) {
    case AcceptStatus::PROG_UNAVAIL:
      return {.kind = Kind::kProgramUnavailable};
    case AcceptStatus::PROG_MISMATCH:
      return {.kind = Kind::kProgramMismatch, .versions = accepted.mismatch_info()};
    case AcceptStatus::PROC_UNAVAIL:
      return {.kind = Kind::kProcedureUnavailable};
    case AcceptStatus::GARBAGE_ARGS:
      return {.kind = Kind::kGarbageArguments};
    case AcceptStatus::SYSTEM_ERR:
      return {.kind = Kind::kSystemError};
    case AcceptStatus::SUCCESS:
      break;
  }
  return {};
}

std::string Describe(const Error& error) {
  switch (error.kind) {
    case Error::Kind::kTransport:
      switch (error.transport) {
        case CallError::kDisconnected:
          return "the connection was lost";
        case CallError::kTimedOut:
          return "the server did not answer in time";
        case CallError::kCancelled:
          return "the call was cancelled";
        case CallError::kTooLarge:
          return "the call or its reply is too large for the connection";
        case CallError::kRefused:
          return "the server's transport refused the call";
        case CallError::kMalformed:
          return "the server's reply is malformed";
        case CallError::kUnreadable:
          return "the data to be sent cannot be read from its file";
        case CallError::kNoContext:
          return "there is no security context";
        case CallError::kNotAuthentic:
          return "the reply is not authentic: it is not from the server, or was changed on its way";
      }
      break;
    case Error::Kind::kProgramUnavailable:
      return "the server does not offer this service";
    case Error::Kind::kProgramMismatch:
      return fmt::format("the server offers versions {} to {} of this service only", error.versions.low,
                         error.versions.high);
    case Error::Kind::kProcedureUnavailable:
      return "the server does not offer this procedure";
    case Error::Kind::kGarbageArguments:
      return "the server did not understand the arguments";
    case Error::Kind::kSystemError:
      return "the server failed to execute the call";
    case Error::Kind::kRpcMismatch:
      return fmt::format("the server speaks versions {} to {} of RPC only", error.versions.low, error.versions.high);
    case Error::Kind::kAuthentication: {
      const std::string_view name = XdrName(error.auth);
      return name.empty()
                 ? fmt::format("the server rejects our credentials (auth_stat {})", static_cast<int>(error.auth))
                 : fmt::format("the server rejects our credentials ({})", name);
    }
    case Error::Kind::kMalformedReply:
      return "the server's reply is malformed";
  }
  return "unknown error";
}

}  // namespace penstock::rpc
