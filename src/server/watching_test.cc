// What a server counts, and the pages that it shows, over real sockets.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <asio/ip/tcp.hpp>
#include <atomic>
#include <semaphore>
#include <string>
#include <thread>

#include "base/log.h"
#include "client/copy.h"
#include "server/statistics.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using metrics::Families;
using metrics::Labels;
using testing::HasSubstr;
using testing::StartsWith;

// The sum of the samples that have these labels, and perhaps others.
double SumOf(const Families& families, std::string_view name, const Labels& labels = {}) {
  double sum = 0;
  for (const metrics::Family& family : families) {
    if (family.name != name) continue;
    for (const metrics::Sample& sample : family.samples) {
      const bool matches = std::ranges::all_of(
          labels, [&](const auto& label) { return std::ranges::find(sample.labels, label) != sample.labels.end(); });
      if (!matches) continue;
      const auto* const latency = std::get_if<metrics::LatencyCounts>(&sample.value);
      sum += latency ? static_cast<double>(latency->count()) : std::get<double>(sample.value);
    }
  }
  return sum;
}

std::string GetPage(const SocketAddress& server, const std::string& path) {
  asio::io_context context;
  asio::ip::tcp::socket socket(context);
  asio::error_code error;
  socket.connect(server, error);
  if (error) return error.message();
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  socket.write_some(asio::buffer(request), error);
  std::string answer;
  char part[4096];
  for (size_t size; (size = socket.read_some(asio::buffer(part), error)) > 0;) answer.append(part, size);
  return answer;
}

class WatchingTest : public ServerTest {
 protected:
  std::string_view transport() const { return protocol() == Protocol::kTcp ? "tcp" : "rdma"; }
  std::string version_label() const {
    return version() == Version::k3 ? "3" : version() == Version::k40 ? "4.0" : "4.2";
  }
  Labels Operation(std::string name) const {
    return {{"program", "NFS"}, {"version", version_label()}, {"operation", std::move(name)}};
  }
  TestOptions WatchedOptions() const {
    TestOptions options = ServerOptions();
    options.metrics = SocketAddress(asio::ip::address_v4::loopback(), 0);
    return options;
  }
  // Those of a server that refuses its client.
  TestOptions RefusingOptions() const {
    TestOptions options = WatchedOptions();
    options.exports.back().admissions.front().clients = nfs::ClientSpec(*nfs::Network::Parse("192.0.2.1"));
    return options;
  }
  std::optional<client::Error> Mount() {
    return WithMount([](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
      PENSTOCK_CO_TRY([[maybe_unused]] const client::Node root, co_await Find(mount, ""));
      co_return client::Result<void>();
    });
  }
  // Uploads a file and downloads it.
  std::optional<client::Error> MoveFile(const std::string& text) {
    WriteFile(directory_.path() / "source", text);
    return WithMount([&](client::Mount& mount, Workers& workers) -> Task<client::Result<void>> {
      const FileDescriptor source(::open((directory_.path() / "source").c_str(), O_RDONLY | O_CLOEXEC));
      const FileDescriptor target(
          ::open((directory_.path() / "target").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      PENSTOCK_CO_TRY(const client::Node root, co_await Find(mount, ""));
      PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(root.handle, "file", 0640));
      client::CopyOptions up, down;
      const auto sent = co_await client::Upload(mount, workers, source.get(), text.size(), *file, std::move(up));
      PENSTOCK_CO_CHECK(co_await file->Close());
      if (!sent) co_return std::unexpected(sent.error());
      PENSTOCK_CO_TRY(const client::Node node, co_await Find(mount, "file"));
      PENSTOCK_CO_TRY(const auto again, co_await mount.OpenFile(node, "file", client::Access::kRead));
      const auto got = co_await client::Download(mount, workers, *again, target.get(), std::move(down));
      PENSTOCK_CO_CHECK(co_await again->Close());
      if (!got) co_return std::unexpected(got.error());
      // A look-up that fails.
      const auto missing = co_await Find(mount, "missing");
      EXPECT_FALSE(missing);
      co_return client::Result<void>();
    });
  }
};

TEST_P(WatchingTest, CountsOperationsOctetsAndConnections) {
  StartServer(WatchedOptions());
  const std::string text(300'000, 'x');
  const auto error = MoveFile(text);
  ASSERT_FALSE(error) << error->message;
  const Families now = server_->CollectMetrics();

  Labels good = Operation("WRITE"), missing = Operation("LOOKUP");
  good.emplace_back("status", "OK");
  missing.emplace_back("status", version() == Version::k3 ? "NFS3ERR_NOENT" : "NFS4ERR_NOENT");
  EXPECT_GE(SumOf(now, "penstock_operations_total", good), 1);
  EXPECT_EQ(SumOf(now, "penstock_operations_total", missing), 1);
  EXPECT_GE(SumOf(now, "penstock_operations_total", Operation("READ")), 1);
  for (const char* name : {"READ", "WRITE", "LOOKUP"}) {
    EXPECT_EQ(SumOf(now, "penstock_operation_seconds", Operation(name)),
              SumOf(now, "penstock_operations_total", Operation(name)));
  }
  const Labels tree{{"export", "/tree"}};
  EXPECT_EQ(SumOf(now, "penstock_export_written_bytes_total", tree), text.size());
  EXPECT_EQ(SumOf(now, "penstock_export_read_bytes_total", tree), text.size());
  EXPECT_GE(SumOf(now, "penstock_export_operations_total", tree), 3);
  const Labels client{{"client", "127.0.0.1"}};
  EXPECT_EQ(SumOf(now, "penstock_client_written_bytes_total", client), text.size());
  EXPECT_EQ(SumOf(now, "penstock_client_read_bytes_total", client), text.size());
  EXPECT_GE(SumOf(now, "penstock_client_operations_total", client), 3);
  EXPECT_GE(SumOf(now, "penstock_connections_accepted_total", {{"transport", std::string(transport())}}), 1);
  EXPECT_EQ(SumOf(now, "penstock_disk_faults_total"), 0);
  EXPECT_EQ(SumOf(now, "penstock_loop_answers"), 2);
  EXPECT_EQ(SumOf(now, "penstock_ready"), 1);
  if (version() == Version::k3) EXPECT_GE(SumOf(now, "penstock_reply_cache_calls_total", {{"outcome", "new"}}), 2);
  if (protocol() != Protocol::kRdma) return;
  EXPECT_GE(SumOf(now, "penstock_rdma_chunks_total", {{"kind", "inline"}}), 1);
  EXPECT_GE(SumOf(now, "penstock_rdma_chunks_total", {{"kind", "read"}}), 1);
  EXPECT_GE(SumOf(now, "penstock_rdma_chunks_total", {{"kind", "write"}}), 1);
  EXPECT_EQ(SumOf(now, "penstock_rdma_bytes_total", {{"operation", "read"}}), text.size());
  EXPECT_EQ(SumOf(now, "penstock_rdma_bytes_total", {{"operation", "write"}}), text.size());
  EXPECT_GE(SumOf(now, "penstock_rdma_operations_total", {{"operation", "send"}}), 3);
  EXPECT_GE(SumOf(now, "penstock_rdma_credits_granted_total"), 3);
}

TEST_P(WatchingTest, ShowsPages) {
  StartServer(WatchedOptions());
  ASSERT_FALSE(MoveFile("text"));
  const SocketAddress at = *server_->metrics_address();
  EXPECT_THAT(GetPage(at, "/healthz"), HasSubstr("\r\n\r\nok\n"));
  EXPECT_THAT(GetPage(at, "/readyz"), HasSubstr("\r\n\r\nready"));
  const std::string metrics = GetPage(at, "/metrics");
  EXPECT_THAT(metrics, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(metrics, HasSubstr("\npenstock_ready 1\n"));
  EXPECT_THAT(metrics, HasSubstr("penstock_operation_seconds_bucket{program=\"NFS\",version=\"" + version_label()));
  EXPECT_THAT(GetPage(at, "/dashboard.json"), HasSubstr("\"ready\": true"));
  EXPECT_THAT(GetPage(at, "/"), HasSubstr("<!doctype html>"));
}

TEST_P(WatchingTest, IsAliveButNotReadyBeforeItServes) {
  auto made = MakeServer(WatchedOptions());
  ASSERT_TRUE(made) << made.error().message;
  const SocketAddress at = *(*made)->metrics_address();
  EXPECT_THAT(GetPage(at, "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(GetPage(at, "/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(GetPage(at, "/readyz"), HasSubstr("starting"));
  EXPECT_THAT(GetPage(at, "/metrics"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(GetPage(at, "/dashboard.json"), HasSubstr("\"ready\": false"));
}

// The sink of the log holds up the loop that refuses a client, as long as an instance lives.
class HungLoop {
 public:
  HungLoop() {
    log::SetSink([this](const log::Record& record) {
      if (record.message.find("is refused") == record.message.npos || once_.exchange(true)) return;
      hangs_.release();
      goes_on_.acquire();
    });
  }
  ~HungLoop() { log::SetSink({}); }
  void WaitFor() { hangs_.acquire(); }
  void End() { goes_on_.release(); }

 private:
  std::atomic<bool> once_ = false;
  std::binary_semaphore hangs_{0}, goes_on_{0};
};

TEST_P(WatchingTest, IsNeitherReadyNorHealthyWhileALoopHangs) {
  StartServer(RefusingOptions());
  const SocketAddress at = *server_->metrics_address();
  EXPECT_THAT(GetPage(at, "/readyz"), StartsWith("HTTP/1.1 200"));
  HungLoop loop;
  std::thread client([&] { EXPECT_TRUE(Mount()); });
  loop.WaitFor();
  EXPECT_THAT(GetPage(at, "/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(GetPage(at, "/readyz"), HasSubstr("has not answered"));
  EXPECT_THAT(GetPage(at, "/healthz"), StartsWith("HTTP/1.1 503"));
  loop.End();
  client.join();
  EXPECT_THAT(GetPage(at, "/readyz"), StartsWith("HTTP/1.1 200"));
}

TEST_P(WatchingTest, IsAliveButNotReadyWhileItDrains) {
  StartServer(RefusingOptions());
  const SocketAddress at = *server_->metrics_address();
  HungLoop loop;
  std::thread client([&] { EXPECT_TRUE(Mount()); });
  loop.WaitFor();
  std::thread stop([&] { server_->Stop(); });
  std::string ready;
  // Stop() begins with that.
  do {
    ready = GetPage(at, "/readyz");
  } while (ready.find("draining") == ready.npos && ready.find("has not answered") != ready.npos);
  EXPECT_THAT(ready, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(ready, HasSubstr("draining"));
  EXPECT_THAT(GetPage(at, "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(GetPage(at, "/healthz"), HasSubstr("alive, but draining"));
  loop.End();
  stop.join();
  server_.reset();
  StartServer(RefusingOptions());  // the client sends its call again until it has a reply
  client.join();
}

TEST_P(WatchingTest, RefusesToStartWithoutItsPort) {
  asio::io_context context;
  asio::ip::tcp::acceptor taken(context, SocketAddress(asio::ip::address_v4::loopback(), 0));
  TestOptions options = WatchedOptions();
  options.metrics = taken.local_endpoint();
  const auto made = MakeServer(options);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("--metrics: cannot listen on 127.0.0.1:"));
}

INSTANTIATE_TEST_SUITE_P(
    All, WatchingTest,
    testing::Values(std::tuple(Protocol::kTcp, Version::k3), std::tuple(Protocol::kRdma, Version::k3),
                    std::tuple(Protocol::kTcp, Version::k40), std::tuple(Protocol::kRdma, Version::k42)),
    [](const auto& tested) { return NameOf(std::get<0>(tested.param)) + NameOf(std::get<1>(tested.param)); });

}  // namespace
}  // namespace penstock::server
