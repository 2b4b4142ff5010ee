// One call under a security context, sent by the end that calls: a client, or a server that calls back (RFC 8881
// §2.10.8.2).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/rpcsec_gss.h"
#include "rpc/gss/sealing.h"
#include "rpc/header.h"
#include "rpc/transport.h"

namespace penstock::rpc::gss {

// The longest handle that fits into a credential (RFC 5531 §8.2).
inline constexpr size_t kLongestHandle = rpcmsg::MAX_AUTH_BYTES - 5 * 4;

// A context for calls that this end makes.
struct CallingContext {
  std::shared_ptr<ProtectedContext> protection = std::make_shared<ProtectedContext>();
  std::vector<std::byte> handle;  // that the other end knows: at most kLongestHandle octets
};

// A call without its protection. The header and the arguments refer to the message.
struct PlainCall {
  CallHeader header;
  rpcsecgss::rpc_gss_proc_t procedure{};
  GssService service{};
  Message arguments;
};
// Reads a call with a credential of rpc::ClientCredential. Returns nothing if its credential is not of RPCSEC_GSS.
std::optional<PlainCall> ReadPlainCall(const Message& call);

struct CallOutcome {
  // The plain reply, with the verifier of the other end or an empty one.
  penstock::Result<Message, CallError> reply;
  bool forgotten = false;  // the other end does not accept the context any more
  std::string why{};       // for the log: the reason for an error that the mechanism has found
};
// Makes the call over `channel` with the sequence number `number`, and checks the reply (RFC 2203 §5.3). `shape` is
// that of the plain reply. `context` and `plain` outlive the task.
Task<CallOutcome> CallUnder(Channel& channel, const CallingContext& context, uint32_t number, const PlainCall& plain,
                            ReplyShape shape, SealingPlace place);

}  // namespace penstock::rpc::gss
