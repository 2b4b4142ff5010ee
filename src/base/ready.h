// Waits for an Asio socket to become ready.
#pragma once

#include <asio/error_code.hpp>
#include <coroutine>

namespace penstock {

// co_await Ready(socket, wait) waits until the socket is readable or writable, or has an error. It returns the error,
// also the one that close() causes. The socket may be destroyed meanwhile.
template <class Socket>
class Ready {
 public:
  Ready(Socket& socket, typename Socket::wait_type wait) : socket_(socket), wait_(wait) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    socket_.async_wait(wait_, [this, waiter](const asio::error_code& error) {
      error_ = error;
      waiter.resume();
    });
  }
  asio::error_code await_resume() const noexcept { return error_; }

 private:
  Socket& socket_;
  typename Socket::wait_type wait_;
  asio::error_code error_;
};

}  // namespace penstock
