// A path to a server with a delay: a TCP proxy on loopback that passes octets on later, in both directions.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"

namespace penstock::bench {

// Runs on a thread of its own. Octets keep their order, and connections their ends. Rates are not limited. Thread-safe.
class DelayedPath {
 public:
  using Delay = std::chrono::nanoseconds;

  // A path to port `port` of `host`. Each direction has the delay. The error is a text for users.
  static SetupResult<std::unique_ptr<DelayedPath>> Open(const std::string& host, uint16_t port, Delay delay);
  // Closes all connections.
  ~DelayedPath();
  DelayedPath(const DelayedPath&) = delete;
  DelayedPath& operator=(const DelayedPath&) = delete;

  // The port on 127.0.0.1 where the path begins.
  uint16_t port() const { return port_; }

 private:
  class Forwarder;

  DelayedPath(std::unique_ptr<Forwarder> forwarder, uint16_t port, int stop);

  const std::unique_ptr<Forwarder> forwarder_;
  const uint16_t port_;
  const int stop_;  // a pipe's end: its closing ends the thread
  std::thread thread_;
};

}  // namespace penstock::bench
