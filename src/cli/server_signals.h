// The signals that `penstock serve` handles.
#pragma once

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <functional>
#include <utility>

#include "server/server.h"

namespace penstock::cli {

// SIGINT and SIGTERM stop the context. SIGHUP has the configuration read again. Before the server runs and while it
// ends, SIGHUP has no effect.
class StopSignals {
 public:
  explicit StopSignals(asio::io_context& context) : context_(context), signals_(context, SIGINT, SIGTERM, SIGHUP) {
    Wait();
  }
  // From now on SIGHUP calls `reload`, on this thread, unless it is empty.
  void ReloadBy(std::function<void()> reload) { reload_ = std::move(reload); }
  // Gives SIGINT and SIGTERM their default effect again. SIGHUP stays ignored.
  void Forget();

 private:
  void Wait();

  asio::io_context& context_;
  asio::signal_set signals_;
  std::function<void()> reload_;
};

// SIGIO says that a program of this host waits for a file that the server has delegated to a client
// (fs/posix/local_lease.h). One thread takes the signal, and passes it to the server, so that no other thread is
// interrupted: the constructor blocks the signal in the calling thread and so in the threads that this thread starts.
// The signal is handled as long as this object lives.
class LeaseSignals {
 public:
  explicit LeaseSignals(asio::io_context& context);
  // From now on this thread takes the signal, while the context runs.
  void TellTo(server::Server& server);

 private:
  void Wait(server::Server& server);

  asio::signal_set signals_;
};

}  // namespace penstock::cli
