#include "cli/server_signals.h"

#include <csignal>

namespace penstock::cli {
namespace {

void SetMaskOfSigIo(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGIO);
  ::pthread_sigmask(how, &set, nullptr);
}

}  // namespace

void StopSignals::Forget() {
  signals_.clear();
  std::signal(SIGHUP, SIG_IGN);
}

void StopSignals::Wait() {
  signals_.async_wait([this](const asio::error_code& error, int signal) {
    if (error) return;
    if (signal != SIGHUP) return context_.stop();
    if (reload_) reload_();
    Wait();
  });
}

LeaseSignals::LeaseSignals(asio::io_context& context) : signals_(context, SIGIO) { SetMaskOfSigIo(SIG_BLOCK); }

void LeaseSignals::TellTo(server::Server& server) {
  SetMaskOfSigIo(SIG_UNBLOCK);
  Wait(server);
}

void LeaseSignals::Wait(server::Server& server) {
  signals_.async_wait([this, &server](const asio::error_code& error, int) {
    if (error) return;
    server.LookAtLocalLeases();
    Wait(server);
  });
}

}  // namespace penstock::cli
