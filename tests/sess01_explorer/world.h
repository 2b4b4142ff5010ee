// A world of one client, one server and the network between them: its states, and what may happen in each of them.
//
// The client sends requests, gives up connections, binds new ones, and sends requests without an answer again over
// another connection, as the draft asks (§2.5, §3.2). A connection lives and dies at its two ends independently: the
// client may believe in a connection that the server has closed, and the server in one that the client has given up.
// Octets that the client sent over a connection may arrive as long as the server believes in it, in any order. The loss
// of octets is the loss of their connection.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server_states.h"

namespace penstock::explorer {

struct Size {
  int channels = 3;  // all that the client may bind
  int at_once = 2;   // those that it binds at the beginning; the next one when it has given up one
  int streams = 2;
  int requests = 3;
  bool executes_once = true;  // no request is executed twice; otherwise not at the same time, and not too late
};

struct State {
  struct Request {
    uint8_t copies = 0;   // the channels over which the client has sent it, a bit for each
    uint8_t pending = 0;  // the copies that the server has not judged for good
    uint8_t replies = 0;  // the channels on which its reply is under way
    uint8_t original = 0;
    uint8_t stream = 0;
    bool answered = false;
    bool executed = false;
    bool operator==(const Request&) const = default;
  };
  uint32_t server = 0;
  uint8_t opened = 0;    // how many channels the client has bound
  uint8_t given_up = 0;  // the channels that the client has given up, a bit for each
  std::array<Request, kMostRequests> requests{};
  bool operator==(const State&) const = default;
};

struct Event {
  enum class Kind : uint8_t {
    kSend,      // the client sends a new request
    kRetry,     // the client sends a request again
    kGiveUp,    // the client sees, or decides, that a connection is lost
    kRebind,    // the client binds a new connection
    kLose,      // the server sees that a connection is lost
    kReceive,   // the server judges a copy
    kFinish,    // the server has executed a copy, and sends the reply
    kWithdraw,  // the server takes back a copy, because its connection is closed
    kReply,     // the client receives a reply
  };
  Kind kind{};
  uint8_t channel = 0;
  uint8_t request = 0;
  uint8_t stream = 0;  // kSend
};

class World {
 public:
  World(const Size& size, std::unique_ptr<Server> server);

  const State& first() const { return first_; }
  // Lists what may happen. Of events that lead to the same world but for the names of channels or streamids, it lists
  // one.
  void ListEvents(const State& state, std::vector<Event>& events) const;

  struct Outcome {
    State next;
    std::string wrong{};      // what must not happen, and has happened
    Verdict verdict{};        // kReceive
    uint8_t closed = 0;       // the channels that the server closes in this event
    bool reply_lost = false;  // kFinish, kReceive: the reply goes nowhere
  };
  Outcome Happen(const State& state, const Event& event);

  bool IsDone(const State& state) const;
  // Whether the client has a connection that works at both ends, or may still bind one.
  bool IsLive(const State& state) const;
  // Whether the event is the loss of a connection that works.
  bool LosesConnection(const State& state, const Event& event) const;

  const Size& size() const { return size_; }
  const ServerStates& servers() const { return servers_; }

 private:
  uint8_t Bound(const State& state) const { return servers_.FactsOf(state.server).bound; }
  uint8_t Working(const State& state) const {
    return static_cast<uint8_t>(((1u << state.opened) - 1) & ~state.given_up);
  }
  bool IsStreamFree(const State& state, int stream) const;
  bool IsUnused(const State& state, int channel) const;
  Copy CopyOf(const State& state, int request, int channel) const;
  void Receive(Outcome& outcome, const Event& event);
  void Finish(Outcome& outcome, const Event& event);
  std::string WrongStart(const State& state, const Event& event) const;
  void Reply(Outcome& outcome, const Event& event);

  Size size_;
  ServerStates servers_;
  State first_;
};

}  // namespace penstock::explorer
