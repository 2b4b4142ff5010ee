// The connections over which the server calls clients of version 4.0.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/cancellation.h"
#include "base/log_limit.h"
#include "base/loop.h"
#include "base/workers.h"
#include "nfs/v4/callback/callback_sender.h"

namespace penstock::server {

// Connects to clients by TCP. Calls to a client that uses Kerberos have its protection: the server is the initiator
// then, with the keys of its own keytab (RFC 7530 §3.3.3). Belongs to its loop.
class CallbackConnections {
 public:
  struct Parts {
    Loop& loop;
    Workers& pool;        // seals long messages
    Duration call_limit;  // a call that is not answered in this time fails, and its connection is closed
    // The path of the server's keytab. Nothing: the server does not call clients that use Kerberos.
    std::optional<std::string> keytab{};
  };
  // The loop and the pool outlive the connections.
  explicit CallbackConnections(Parts parts) : parts_(std::move(parts)) {}

  // Returns null if there is no connection. This object outlives the connection.
  Task<std::shared_ptr<rpc::Channel>> To(const nfs::v4::CallbackAddress& client);
  // Calls that are under way fail, also those that wait for a connection or a KDC.
  void Stop() { stopping_.Cancel(); }

 private:
  class Connection;

  const Parts parts_;
  Cancellation stopping_;
  // The KDC may not answer. Then clients that use Kerberos get no callbacks, and nobody else waits.
  std::shared_ptr<Workers> token_threads_;
  LogLimit about_contexts_;
};

}  // namespace penstock::server
