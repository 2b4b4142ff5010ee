// For tests: hosts whose programs others call.
#pragma once

#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/test_loop.h"
#include "rpc/dispatch.h"
#include "rpc/tcp/server.h"
#include "rpc/test_program.h"
#include "rpc/udp/server.h"
#include "rpcbind/port_mapper.h"

namespace penstock::rpcbind {

// A host with a port mapper and a program, at one port over both transports.
class TestHost {
 public:
  // `port` 0 is any free one.
  TestHost(Loop& on, const std::string& at, uint16_t wanted_port = 0) : address(asio::ip::make_address(at)), loop(on) {
    auto listener = rpc::tcp::Listener::Open({address, wanted_port});
    EXPECT_TRUE(listener) << listener.error().message;
    tcp_listener.emplace(*std::move(listener));
    port = tcp_listener->local().port();
    for (const auto transport : {rpc::TransportKind::kTcp, rpc::TransportKind::kUdp}) {
      services.push_back({.program = rpc::testing::kTestProgram,
                          .version = 3,
                          .netid = {.transport = transport, .v6 = address.is_v6()},
                          .address = SocketAddress(address, port)});
    }
    dispatcher.Add(version2);
    dispatcher.Add(version4);
    dispatcher.Add(program);
    auto datagrams = rpc::udp::Listener::Open({address, port});
    EXPECT_TRUE(datagrams) << datagrams.error().message;
    EXPECT_TRUE(tcp.Start(*tcp_listener));
    EXPECT_TRUE(udp.Start(*std::move(datagrams)));
  }
  ~TestHost() {
    program.Release();
    unsigned stopped = 0;
    Spawn(Count(tcp.Stop(std::chrono::seconds(1)), stopped));
    Spawn(Count(udp.Stop(), stopped));
    EXPECT_TRUE(TurnUntil(loop, [&] { return stopped == 2; }));
  }

  const IpAddress address;
  uint16_t port = 0;
  std::vector<Service> services;
  rpc::testing::TestProgram program;

 private:
  static Task<void> Count(Task<void> task, unsigned& done) {
    co_await std::move(task);
    ++done;
  }

  Loop& loop;
  PortMapper2 version2{services};
  PortMapper4 version4{services, "superuser", [] { return 0u; }};
  rpc::Dispatcher dispatcher;
  std::optional<rpc::tcp::Listener> tcp_listener;
  rpc::tcp::Server tcp{loop, dispatcher};
  rpc::udp::Server udp{loop, dispatcher};
};

// A host that receives calls at a port over both transports, and does not answer.
class SilentHost {
 public:
  SilentHost(Loop& loop, const std::string& at, uint16_t wanted_port = 0)
      : address(asio::ip::make_address(at)),
        context_(loop.context()),
        listener_(context_, {address, wanted_port}),
        datagrams_(context_, {address, port()}) {
    listener_.non_blocking(true);
  }

  uint16_t port() const { return listener_.local_endpoint().port(); }
  // The number of calls that have arrived.
  size_t calls() {
    asio::error_code error;
    asio::ip::tcp::socket socket(context_);
    listener_.accept(socket, error);
    if (!error) connections_.push_back(std::move(socket));
    std::array<char, 1 << 12> buffer{};
    while (datagrams_.available() > 0) {
      datagrams_.receive(asio::buffer(buffer));
      ++calls_;
    }
    for (asio::ip::tcp::socket& each : connections_) {
      if (each.available() == 0) continue;
      each.receive(asio::buffer(buffer));
      ++calls_;
    }
    return calls_;
  }

  const IpAddress address;

 private:
  asio::io_context& context_;
  asio::ip::tcp::acceptor listener_;
  asio::ip::udp::socket datagrams_;
  std::list<asio::ip::tcp::socket> connections_;
  size_t calls_ = 0;
};

// A port at which connections are not accepted and not refused, since its queue is full.
class FullListener {
 public:
  FullListener(Loop& loop, const std::string& at)
      : address(asio::ip::make_address(at)), listener_(loop.context(), asio::ip::tcp::v4()) {
    listener_.bind({address, 0});
    listener_.listen(0);
    for (int i = 0; i < kFillers; ++i) {
      asio::ip::tcp::socket& filler = fillers_.emplace_back(loop.context(), asio::ip::tcp::v4());
      filler.async_connect({address, port()}, [](const asio::error_code&) {});
    }
  }

  uint16_t port() const { return listener_.local_endpoint().port(); }

  const IpAddress address;

 private:
  static constexpr int kFillers = 4;

  asio::ip::tcp::acceptor listener_;
  std::list<asio::ip::tcp::socket> fillers_;
};

}  // namespace penstock::rpcbind
