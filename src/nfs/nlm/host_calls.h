// Calls from the server to programs of hosts that lock files: to their lock managers (NLM) and status monitors (NSM).
// The interface keeps the lock manager free of sockets.
#pragma once

#include <cstdint>
#include <functional>

#include "base/address.h"
#include "base/cancellation.h"
#include "base/task.h"
#include "rpc/transport.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::nfs::nlm {

// The destination of a call, and its procedure.
struct HostCall {
  IpAddress host;
  IpAddress ours;  // the address of this server that the host uses; unspecified if any will do
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
  bool by_udp = false;
  // The host must not get the call twice, because it would answer differently.
  bool only_once = false;
  // Ends the call early. Null: nothing does. It outlives the call.
  Cancellation* cancellation = nullptr;
};

class HostCalls {
 public:
  virtual ~HostCalls() = default;

  enum class Outcome : uint8_t {
    kAnswered,
    kRefused,     // the host has answered, but has not executed the call, or the results are malformed
    kNotReached,  // the host has not got the call: its port is unknown or it accepts no connection
    kNoAnswer,    // the host may have got the call
    kEnded,       // the call was ended early, or the server stops: the host may have got it
  };
  // Finds the port of the program on the host, and sends one call; over UDP it may send it several times. `write`
  // encodes the arguments. `read` decodes the results, and returns false if they are malformed. Both may run later than
  // the call of this method, but not after it has returned. Must be called on the home loop, and returns there.
  //
  // A call lasts for some seconds at most. Before, it may wait for a place: the calls under way are limited. If
  // meanwhile the host does not answer another call, the outcome is kNotReached.
  virtual Task<Outcome> Call(HostCall call, std::function<void(xdr::Encoder&)> write,
                             std::function<bool(xdr::Decoder&)> read) = 0;
};

}  // namespace penstock::nfs::nlm
