// A channel whose calls RPCSEC_GSS protects. The layers above see plain calls and replies.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "rpc/gss/client_context.h"
#include "rpc/transport.h"

namespace penstock::rpc::gss {

// Protects each call with a credential of RPCSEC_GSS (see rpc::ClientCredential), and passes other calls on as they
// are. A call is sealed for each time that it is sent: a repeated one must have another sequence number (RFC 2203
// §5.3.3.1). So this channel belongs to one connection, below the layer that repeats calls over another connection.
//
// A call that the server denies because it does not know the context is repeated with another one. A reply that is not
// authentic fails with kNotAuthentic. Belongs to its loop.
class SecuredChannel final : public Channel {
 public:
  SecuredChannel(std::shared_ptr<Channel> channel, std::shared_ptr<ClientContext> context)
      : channel_(std::move(channel)), context_(std::move(context)) {}

  Task<penstock::Result<Message, CallError>> Call(Message call, ReplyShape shape) override;
  void Close() override { channel_->Close(); }

 private:
  // Gives contexts back to the server, the one of `use` and others that are no longer needed (RFC 2203 §5.4), by calls
  // of the program and version of `header`, with its ControlXid().
  Task<void> GiveBack(std::optional<ClientContext::Use> use, const CallHeader& header);

  const std::shared_ptr<Channel> channel_;
  const std::shared_ptr<ClientContext> context_;
};

}  // namespace penstock::rpc::gss
