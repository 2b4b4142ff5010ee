#include "cli/on_interrupt.h"

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <utility>

namespace penstock::cli {

class OnInterrupt::Signals {
 public:
  explicit Signals(Loop& loop) : set_(loop.context()) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action{};
      if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) set_.add(number);
    }
  }

  void Wait(std::function<void(std::function<void()>)> clean_up) {
    set_.async_wait([this, clean_up = std::move(clean_up)](const asio::error_code& error, int number) {
      if (error) return;
      const auto end = [number] {
        std::signal(number, SIG_DFL);
        ::raise(number);
      };
      Wait([](const std::function<void()>& end_at_once) { end_at_once(); });
      clean_up(end);
    });
  }

 private:
  asio::signal_set set_;
};

OnInterrupt::OnInterrupt(Loop& loop, std::function<void()> clean_up) : signals_(std::make_unique<Signals>(loop)) {
  signals_->Wait([clean_up = std::move(clean_up)](const std::function<void()>& end) {
    clean_up();
    end();
  });
}
OnInterrupt::OnInterrupt(Loop& loop, std::function<void(std::function<void()> end)> clean_up)
    : signals_(std::make_unique<Signals>(loop)) {
  signals_->Wait(std::move(clean_up));
}
OnInterrupt::~OnInterrupt() = default;

}  // namespace penstock::cli
