// The part of a server that recognizes retries, as the explorer sees it. Each implementation drives the production
// tables of one protocol, so the explorer finds the errors of these tables and not those of a model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "protocol/nfs4_types.h"

namespace penstock::explorer {

// The largest world. Channels and requests are counted from 0 here; the tables and the stories count from 1.
constexpr int kMostChannels = 4;
constexpr int kMostRequests = 4;

// One copy of a request on its way to the server. A client sends at most one copy over each channel.
struct Copy {
  uint8_t request = 0;
  uint8_t over = 0;      // the channel that carries the copy
  uint8_t original = 0;  // the channel over which the client sent the request first
  uint8_t stream = 0;    // the streamid; the slot in RFC 8881
  uint8_t xid = 0;       // counted on the original channel
  uint8_t sequence = 0;  // counted on the stream; only RFC 8881 sends it
};

// The answer of the tables to a copy.
struct Verdict {
  enum class Kind : uint8_t {
    kRuns,     // the execution is under way until Finish() or Withdraw()
    kReplays,  // a kept reply answers it
    kWaits,    // the request is under way: the copy is judged again later
    kRefused,
  };
  Kind kind = Kind::kRefused;
  uint8_t reply_of = 0;  // kReplays: the request that the reply belongs to
  nfs4::nfsstat4 status{};
};

// A value: a step copies the server and changes the copy.
class Server {
 public:
  virtual ~Server() = default;
  virtual std::unique_ptr<Server> Clone() const = 0;

  // Binds a connection for a channel. The explorer binds the channels in the order of their numbers.
  virtual void Bind(int channel) = 0;
  // The server sees that a connection is lost.
  virtual void Lose(int channel) = 0;
  // Requires that the channel that carries the copy is bound.
  virtual Verdict Receive(const Copy& copy) = 0;
  // Ends the execution of a copy.
  virtual void Finish(const Copy& copy) = 0;
  // Takes back a copy that was not executed, because its channel is closed.
  virtual void Withdraw(const Copy& copy) = 0;
  virtual bool can_withdraw() const = 0;

  // The channels that are bound, a bit for each.
  virtual uint8_t bound() const = 0;
  // The executions under way: the bit of Place().
  uint32_t running() const { return running_; }
  static int Place(int request, int channel) { return request * kMostChannels + channel; }

  // All that decides what the server does from here on. Two servers with the same key are the same state.
  virtual std::string Key() const = 0;
  // Whether two servers with the same key also agree in what the key leaves out.
  virtual bool Matches(const Server& other) const = 0;
  // Describes a table that holds more than it may; returns null if there is none.
  virtual const char* FindExcess() const = 0;

 protected:
  Server() = default;
  Server(const Server&) = default;
  Server& operator=(const Server&) = default;

  uint32_t running_ = 0;
};

}  // namespace penstock::explorer
