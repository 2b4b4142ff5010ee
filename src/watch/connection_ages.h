// Ends HTTP connections that last too long: those that send the head of a request octet by octet, and readers that do
// not end.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/timer.h"

namespace penstock::watch {

// Any thread. It has a thread of its own.
class ConnectionAges {
 public:
  struct Limits {
    Duration head = std::chrono::seconds(5);    // until the head of the request has arrived
    Duration whole = std::chrono::seconds(30);  // of the connection, which has one request
  };

  explicit ConnectionAges(Limits limits);
  ~ConnectionAges();
  ConnectionAges(const ConnectionAges&) = delete;
  ConnectionAges& operator=(const ConnectionAges&) = delete;

  // The socket of a new connection. It is shut down when its time is over; its owner closes it after Forget().
  void Begin(int socket);
  // The head of the request has arrived.
  void HasHead(int socket);
  void Forget(int socket);

 private:
  void Run();

  const Limits limits_;
  std::mutex mutex_;  // guards the following members
  struct Connection {
    TimePoint began;
    bool has_head = false;
  };
  std::map<int, Connection> connections_;
  bool stops_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace penstock::watch
