// The connections over which the server calls clients of version 4.0.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/loop.h"
#include "base/workers.h"
#include "nfs/v4/callback/callback_sender.h"

namespace penstock::server {

// Connects to clients by TCP. Calls to a client that uses Kerberos have its protection: the server is the initiator
// then, with the keys of its own keytab (RFC 7530 §3.3.3).
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
  explicit CallbackConnections(Parts parts);

  // Returns null if there is no connection. On the loop.
  Task<std::shared_ptr<rpc::Channel>> To(const nfs::v4::CallbackAddress& client);

 private:
  const Parts parts_;
  // The KDC may not answer. Then clients that use Kerberos get no callbacks, and nobody else waits.
  const std::shared_ptr<Workers> token_threads_;
};

}  // namespace penstock::server
