// Awaitable events of a TCP server: the next connection.
#pragma once

#include <asio/error_code.hpp>
#include <asio/ip/tcp.hpp>
#include <coroutine>
#include <utility>

#include "base/loop.h"

namespace penstock::rpc::tcp {

struct Accepted {
  asio::error_code error;
  asio::ip::tcp::socket socket;
};

// co_await AcceptOne(acceptor): waits for the next connection.
class AcceptOne {
 public:
  explicit AcceptOne(asio::ip::tcp::acceptor& acceptor)
      : acceptor_(acceptor), accepted_{{}, asio::ip::tcp::socket(acceptor.get_executor())} {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    acceptor_.async_accept(accepted_.socket, [this, waiter](const asio::error_code& error) {
      accepted_.error = error;
      waiter.resume();
    });
  }
  Accepted await_resume() { return std::move(accepted_); }

 private:
  asio::ip::tcp::acceptor& acceptor_;
  Accepted accepted_;
};

}  // namespace penstock::rpc::tcp
