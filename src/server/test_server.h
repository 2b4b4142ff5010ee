// For tests of a whole server: the server on ports of the loopback interface, and clients in the same process.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/descriptor_limit.h"
#include "base/state_directory.h"
#include "base/test_temporary_directory.h"
#include "base/workers.h"
#include "client/mount.h"
#include "fs/posix/served_directories.h"
#include "nfs/export_options.h"
#include "rdma/iwarp/provider.h"
#include "server/administration.h"
#include "server/listeners.h"
#include "server/server.h"

namespace penstock::server {

using client::Protocol;
using client::Version;

// Reserves a port of the loopback interface, so that no other process gets it while the server is stopped. This socket
// is bound to the port and does not listen; with SO_REUSEADDR on both sockets, the server can bind it as well.
class KeptPort {
 public:
  KeptPort() {
    // The server uses the port of MOUNT with UDP as well.
    do {
      socket_ = asio::ip::tcp::socket(context_, asio::ip::tcp::v4());
      socket_.set_option(asio::ip::tcp::socket::reuse_address(true));
      socket_.bind({asio::ip::address_v4::loopback(), 0});
    } while (IsTakenForUdp());
  }
  uint16_t get() const { return socket_.local_endpoint().port(); }

 private:
  bool IsTakenForUdp() {
    asio::ip::udp::socket probe(context_, asio::ip::udp::v4());
    asio::error_code error;
    probe.bind({asio::ip::address_v4::loopback(), get()}, error);
    return static_cast<bool>(error);
  }

  asio::io_context context_;
  asio::ip::tcp::socket socket_{context_, asio::ip::tcp::v4()};
};

inline void WriteFile(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ostringstream text;
  // Stream iterators would take a second for some megabytes under the sanitizers.
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

// The protocol as a part of a test's name.
inline std::string NameOf(Protocol protocol) {
  switch (protocol) {
    case Protocol::kTcp:
      return "Tcp";
    case Protocol::kRdma:
      return "Rdma";
    case Protocol::kStepUp:
      return "StepUp";
  }
  return "";
}

// The version as a part of a test's name.
inline std::string NameOf(Version version) {
  switch (version) {
    case Version::k3:
      return "3";
    case Version::k40:
      return "40";
    case Version::k41:
      return "41";
    case Version::k42:
      return "42";
    case Version::kSess01:
      return "Sess01";
  }
  return "";
}

// A server's options, and the directories that it exports.
struct TestOptions : Options {
  std::vector<nfs::ExportSpec> exports;
  std::filesystem::path state_directory;
};

// The options of an export that has the same ones for all clients.
inline nfs::ExportOptions& TermsOf(nfs::ExportSpec& spec) { return spec.admissions.front().options; }

// Makes a server of directories as `penstock serve` does, but without leases, which need a handler of SIGIO.
inline SetupResult<std::unique_ptr<Server>> MakeServer(const TestOptions& options) {
  RaiseDescriptorLimit();
  PENSTOCK_TRY(auto state_directory, StateDirectory::Open(options.state_directory));
  Parts parts{.state_directory = std::move(state_directory), .pool = std::make_shared<Workers>(64)};
  std::vector<fs::posix::DirectoryToServe> directories;
  for (const nfs::ExportSpec& spec : options.exports) {
    if (!spec.is_referral()) directories.push_back({spec.path, spec.directory});
  }
  fs::posix::ServedDirectories served(
      *parts.pool, {.state_directory = options.state_directory,
                    .other_descriptors = options.connections.connections + ListeningDescriptors(options)});
  PENSTOCK_TRY(const auto file_systems, served.Open(directories));
  parts.open_files = served.open_files();
  size_t opened = 0;
  for (const nfs::ExportSpec& spec : options.exports) {
    std::shared_ptr<fs::FileSystem> file_system;
    if (!spec.is_referral()) file_system = file_systems[opened++];
    parts.exports.push_back({spec.path, spec.admissions, std::move(file_system), spec.is_root});
  }
  return Server::Make(options, std::move(parts));
}

class ServerTest : public testing::TestWithParam<std::tuple<Protocol, Version>> {
 protected:
  ServerTest() { std::filesystem::create_directory(tree()); }

  static Protocol protocol() { return std::get<0>(GetParam()); }
  static Version version() { return std::get<1>(GetParam()); }

  std::filesystem::path tree() const { return directory_.path() / "tree"; }

  TestOptions ServerOptions() const {
    TestOptions options;
    options.exports.push_back({.path = "/tree", .directory = tree()});
    TermsOf(options.exports.back()).squash = nfs::Squash::kNone;
    options.listen =
        Addresses::At(asio::ip::address_v4::loopback(), tcp_port_.get(), rdma_port_.get(), mount_port_.get());
    options.threads = 2;
    options.state_directory = directory_.path() / "state";
    options.nfs4.lease = options.nfs4.grace = grace_;
    options.nfs4.bound_sessions = version() == Version::kSess01;
    options.step_up = protocol() == Protocol::kStepUp;
    options.one_receive_first = version() == Version::kSess01;
    return options;
  }

  // Starts the server on the same ports each time.
  void StartServer() { StartServer(ServerOptions()); }
  void StartServer(const TestOptions& options) {
    auto made = MakeServer(options);
    ASSERT_TRUE(made) << made.error().message;
    server_ = *std::move(made);
    server_->Start();
  }

  // The URL of `path` on the server that runs now.
  client::Url Url(std::string path) const {
    client::Url url;
    url.host = "127.0.0.1";
    url.protocol = protocol();
    url.version = version();
    const Addresses& at = server_->addresses();
    url.port = (protocol() == Protocol::kRdma ? at.rdma : at.tcp).front().port();
    url.mount_port = at.mount.front().port();
    url.path = std::move(path);
    url.session = session_;
    url.nconnect = nconnect_;
    if (both_transports_) url.tcp_port = at.tcp.front().port();
    return url;
  }

  // Runs `use` with a mount of the export. Returns the error of mounting or of `use`, or nothing.
  using Use = std::function<Task<client::Result<void>>(client::Mount&, Workers&)>;
  std::optional<client::Error> WithMount(Use use) {
    Loop loop;
    Workers workers(2);
    rdma::iwarp::Provider provider(loop);
    const client::Url url = Url("/tree");
    const client::MountOptions options{
        .retry = {.first_delay = std::chrono::milliseconds(5), .longest_delay = std::chrono::milliseconds(50)},
        .provider = &provider,
        .delegations = delegations_};
    std::optional<client::Error> error;
    Spawn([](Loop& l, Workers& w, const client::Url& u, const client::MountOptions& o, Use& f,
             std::optional<client::Error>& out) -> Task<void> {
      auto mount = co_await client::Mount::Open(l, w, u, o);
      if (!mount) {
        out = mount.error();
      } else {
        const auto used = co_await f(**mount, w);
        if (!used) out = used.error();
        co_await (*mount)->Unmount();
        mount->reset();
      }
      l.Finish();
    }(loop, workers, url, options, use, error));
    loop.Run();
    workers.Join();
    return error;
  }

  void StopServer() {
    server_->Stop();
    server_.reset();
  }
  void RestartServer() {
    StopServer();
    StartServer();
  }

  // Expects so many sessions, each with all connections to the server, and with a back channel.
  void ExpectAllConnectionsIn(size_t sessions) const {
    Administration administration(*server_);
    std::set<uint64_t> connections;
    for (const auto& each : administration.Connections()) connections.insert(each.number);
    const auto made = administration.Sessions();
    EXPECT_EQ(made.size(), sessions);
    for (const auto& each : made) {
      EXPECT_EQ(std::set<uint64_t>(each.connections.begin(), each.connections.end()), connections);
      EXPECT_TRUE(each.back_channel);
    }
  }

  // Runs `use` with the mount of a second client, on the loop of the first. Returns the result of `use`.
  Task<client::Result<void>> WithAnotherMount(client::Mount& first, Workers& workers, Use use) const {
    rdma::iwarp::Provider provider(first.loop());
    const client::Url url = Url("/tree");
    const client::MountOptions options{.retry = {}, .provider = &provider};
    PENSTOCK_CO_TRY(const auto mount, co_await client::Mount::Open(first.loop(), workers, url, options));
    const client::Result<void> used = co_await use(*mount, workers);
    co_await mount->Unmount();
    co_await Sleep(first.loop(), Duration::zero());
    co_return used;
  }

  const TemporaryDirectory directory_;
  Duration grace_ =
      std::chrono::seconds(90);  // of the lease as well: the grace period lasts at least as long as the previous lease
  client::BoundSessionOptions session_;  // of clients with a session of 2004
  uint32_t nconnect_ = 1;                // of clients
  bool both_transports_ = false;         // of clients over RDMA, whose last connection is over TCP
  size_t delegations_ = client::MountOptions().delegations;
  const KeptPort tcp_port_, rdma_port_, mount_port_;
  std::unique_ptr<Server> server_;
};

// Looks up `path` below the root of the export.
inline Task<client::Result<client::Node>> Find(client::Mount& mount, std::string path, bool follow = true) {
  co_return co_await mount.Resolve(mount.path() + "/" + path, follow);
}

// Reads a file of at most 100 octets.
inline Task<client::Result<std::string>> ReadAll(client::File& file) {
  std::string text(100, '\0');
  PENSTOCK_CO_TRY(const auto read,
                  co_await file.Read(0, Bytes(reinterpret_cast<std::byte*>(text.data()), text.size())));
  text.resize(read.count);
  co_return text;
}

template <class T>
Task<> ExpectRefusal(Task<client::Result<T>> task, client::Status status) {
  const auto result = co_await std::move(task);
  EXPECT_TRUE(!result && result.error().status == status) << (result ? "done" : result.error().message);
}

}  // namespace penstock::server
