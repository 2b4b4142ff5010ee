// Traces two endpoints on the simulated network to one file each, and checks the contents of the files.
#include <gmock/gmock.h>

#include "base/address.h"
#include "rdma/endpoint_suite.h"
#include "rdma/sim/network.h"
#include "rdma/trace/provider.h"
#include "rdma/trace/trace_reader_test_support.h"

namespace penstock::rdma::trace {
namespace {

using iwarp::Opcode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Duration kEpoch = std::chrono::hours(24);

std::vector<std::byte> Octets(std::string_view text) {
  const ConstBytes bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> Pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

Gather GatherOf(ConstBytes bytes) { return {Slice::Borrowed(bytes)}; }

class TraceTest : public testing::Test {
 protected:
  struct Host {
    std::string path;
    std::unique_ptr<File> file;
    std::unique_ptr<rdma::Provider> provider;
    std::unique_ptr<SuitePeer> peer;
  };

  void SetUp() override {
    for (Host* host : {&client_, &server_}) {
      host->path = testing::TempDir() + "/trace_test." + (host == &client_ ? "client" : "server") + "." +
                   testing::UnitTest::GetInstance()->current_test_info()->name() + ".pcapng";
      host->file = File::Open(host->path, kEpoch).value();
      host->provider = std::make_unique<Provider>(network_.MakeProvider(), *host->file, world_);
    }
    listener_ = server_.provider->Listen(Address(asio::ip::address_v4::any(), 20049)).value();
  }
  void TearDown() override {
    EXPECT_THAT(network_.violations(), IsEmpty());
    for (Host* host : {&client_, &server_}) std::filesystem::remove(host->path);
  }

  static Task<void> AcceptOne(TraceTest& test, bool accept) {
    auto request = co_await test.listener_->Next();
    if (!accept) {
      request->Reject(Octets("not you"));
      co_return;
    }
    ConnectOptions options{.private_data = Octets("from server"), .ird = 3, .ord = 5, .receives = Receives()};
    auto endpoint = co_await request->Accept(std::move(options));
    test.server_.peer = std::make_unique<SuitePeer>(*std::move(endpoint), kReceives);
  }
  static Task<void> ConnectOne(TraceTest& test) {
    ConnectOptions options{.private_data = Octets("from client"), .receives = Receives()};
    auto endpoint = co_await test.client_.provider->Connect(test.listener_->local(), std::move(options));
    if (endpoint) test.client_.peer = std::make_unique<SuitePeer>(*std::move(endpoint), kReceives);
  }
  static std::vector<ReceiveRequest> Receives() {
    std::vector<ReceiveRequest> receives;
    for (Context context = 1; context <= kReceives; ++context) {
      receives.push_back({context, 1024});
    }
    return receives;
  }
  void Connect(bool accept = true) {
    Spawn(AcceptOne(*this, accept));
    Spawn(ConnectOne(*this));
    ASSERT_TRUE(world_.Run());
    ASSERT_EQ(client_.peer != nullptr, accept);
    if (!accept) return;
    client_.peer->Start();
    server_.peer->Start();
  }
  void Run() { ASSERT_TRUE(world_.Run()); }

  // Destroys the peer and the file of a host, and returns the one connection in the file.
  TracedConnection Traced(Host& host) {
    host.peer.reset();
    host.file.reset();
    const Capture capture = ReadCapture(host.path);
    EXPECT_TRUE(capture.whole);
    EXPECT_EQ(capture.received, capture.packets.size());
    auto connections = Connections(capture);
    if (connections.size() != 1) throw std::runtime_error("not one connection");
    return connections.front();
  }

  static constexpr Context kReceives = 4;
  sim::World world_{1};
  sim::Network network_{world_};
  Host client_, server_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(TraceTest, FileHoldsTheSetUpWithThePrivateDataOfBothSides) {
  Connect();
  for (Host* host : {&client_, &server_}) {
    const TracedConnection connection = Traced(*host);
    EXPECT_EQ(connection.request->private_data, Octets("from client"));
    EXPECT_EQ(connection.reply->private_data, Octets("from server"));
    EXPECT_FALSE(connection.reply->rejected);
    EXPECT_TRUE(connection.request->crc && connection.reply->crc);
  }
}

TEST_F(TraceTest, FileDescribesItselfAndTimesItsPackets) {
  Connect();
  const TimePoint now = world_.Now();
  client_.peer->PostSend("hello");
  client_.peer.reset();
  client_.file.reset();
  const Capture capture = ReadCapture(client_.path);
  EXPECT_EQ(capture.application, "penstock");
  EXPECT_EQ(capture.interface_name, "rdma");
  EXPECT_THAT(capture.interface_comment, HasSubstr("not seen here"));
  EXPECT_THAT(capture.packets.front().comment,
              HasSubstr("connection 1: sim, up to 3 RDMA Reads from here and 5 of the peer"));
  EXPECT_EQ(capture.packets.back().stamp, static_cast<uint64_t>((now.time_since_epoch() + kEpoch).count()));
}

TEST_F(TraceTest, RecordsARejectionInTheFileOfTheRejectingSide) {
  Connect(false);
  const TracedConnection connection = Traced(server_);
  EXPECT_EQ(connection.request->private_data, Octets("from client"));
  EXPECT_EQ(connection.reply->private_data, Octets("not you"));
  EXPECT_TRUE(connection.reply->rejected);
  EXPECT_THAT(connection.end->comment, HasSubstr("rejected"));
}

TEST_F(TraceTest, RecordsSendsOfBothSidesInBothFiles) {
  Connect();
  std::vector<std::byte> memory(100);
  auto region = client_.peer->endpoint().Register(memory, Access::kRemoteRead);
  client_.peer->PostSend("call");
  Run();
  server_.peer->PostSend(GatherOf(AsBytes("reply")), false, region->stag());
  Run();
  server_.peer->PostSend(GatherOf(AsBytes("look")), true);
  server_.peer->PostSend("");
  Run();
  for (Host* host : {&client_, &server_}) {
    const TracedConnection connection = Traced(*host);
    std::vector<std::tuple<From, Opcode, uint32_t, std::string>> sends;
    for (const Segment& segment : connection.segments) {
      EXPECT_EQ(segment.untagged.queue, iwarp::kSendQueue);
      EXPECT_TRUE(segment.control.last);
      sends.emplace_back(segment.from, segment.opcode(), segment.untagged.msn.value(), segment.text());
    }
    EXPECT_THAT(sends, ElementsAre(std::tuple(From::kClient, Opcode::kSend, 1, "call"),
                                   std::tuple(From::kServer, Opcode::kSendInvalidate, 1, "reply"),
                                   std::tuple(From::kServer, Opcode::kSendSolicited, 2, "look"),
                                   std::tuple(From::kServer, Opcode::kSend, 3, "")));
    EXPECT_EQ(connection.segments[1].untagged.invalidate, region->stag());
  }
}

TEST_F(TraceTest, RecordsTheSegmentsOfAWriteInTheFileOfTheWriter) {
  Connect();
  std::vector<std::byte> memory(200000);
  const std::vector<std::byte> data = Pattern(memory.size());
  auto region = client_.peer->endpoint().Register(memory, Access::kRemoteWrite);
  server_.peer->PostWrite(GatherOf(data), region->Segment(0, data.size()));
  Run();
  const TracedConnection connection = Traced(server_);
  std::vector<std::byte> written;
  for (const Segment& segment : connection.Of(Opcode::kWrite)) {
    EXPECT_EQ(segment.from, From::kServer);
    EXPECT_EQ(segment.tagged.stag, region->stag());
    EXPECT_EQ(segment.tagged.offset, region->offset() + written.size());
    written.insert(written.end(), segment.payload.begin(), segment.payload.end());
    EXPECT_EQ(segment.control.last, written.size() == data.size());
  }
  EXPECT_EQ(written, data);
  EXPECT_THAT(Traced(client_).segments, IsEmpty()) << "the interface does not show the peer's Writes";
}

TEST_F(TraceTest, RecordsAReadWithTheOctetsThatItFetched) {
  Connect();
  std::vector<std::byte> memory = Pattern(100000);
  auto region = client_.peer->endpoint().Register(memory, Access::kRemoteRead);
  std::vector<std::byte> first(100), second(memory.size());
  server_.peer->PostRead(first, region->Segment(50, first.size()));
  server_.peer->PostRead(second, region->Segment(0, second.size()));
  Run();
  const TracedConnection connection = Traced(server_);
  const auto requests = connection.Of(Opcode::kReadRequest);
  ASSERT_THAT(requests, SizeIs(2));
  std::map<Stag, std::vector<std::byte>> fetched;
  for (const Segment& segment : connection.Of(Opcode::kReadResponse)) {
    EXPECT_EQ(segment.from, From::kClient);
    auto& bytes = fetched[segment.tagged.stag];
    EXPECT_EQ(segment.tagged.offset, bytes.size());
    bytes.insert(bytes.end(), segment.payload.begin(), segment.payload.end());
  }
  const std::vector<std::byte>* expected[] = {&first, &second};
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(requests[i].untagged.queue, iwarp::kReadRequestQueue);
    EXPECT_EQ(requests[i].untagged.msn, iwarp::Msn(static_cast<uint32_t>(i + 1)));
    const auto read = iwarp::ReadRequestHeader::Parse(requests[i].payload.data());
    EXPECT_EQ(read.source_stag, region->stag());
    EXPECT_EQ(read.source_offset, region->offset() + (i == 0 ? 50 : 0));
    EXPECT_EQ(read.size, expected[i]->size());
    EXPECT_EQ(fetched[read.sink_stag], *expected[i]);
  }
  EXPECT_EQ(second, memory);
}

TEST_F(TraceTest, RecordsTheEndOfAConnectionInBothFiles) {
  Connect();
  client_.peer->endpoint().Disconnect();
  client_.peer->PostSend("too late");
  Run();
  const TracedConnection at_client = Traced(client_);
  EXPECT_TRUE(at_client.end->has(TcpStream::kFin));
  EXPECT_NE(at_client.end->source(), 20049);
  EXPECT_THAT(at_client.end->comment, HasSubstr("connection 1: closed from here"));
  EXPECT_THAT(at_client.segments, IsEmpty());
  const TracedConnection at_server = Traced(server_);
  EXPECT_TRUE(at_server.end->has(TcpStream::kFin));
  EXPECT_NE(at_server.end->source(), 20049);
  EXPECT_THAT(at_server.end->comment, HasSubstr("closed by the peer"));
}

TEST_F(TraceTest, BrokenConnectionEndsWithAReset) {
  Connect();
  network_.LoseAll();
  Run();
  const TracedConnection connection = Traced(server_);
  EXPECT_TRUE(connection.end->has(TcpStream::kReset));
  EXPECT_THAT(connection.end->comment, HasSubstr("broken"));
}

TEST_F(TraceTest, FailedReadHasNoResponse) {
  Connect();
  std::vector<std::byte> memory(100), local(100);
  auto region = client_.peer->endpoint().Register(memory, Access::kRemoteWrite);
  const Context read = server_.peer->PostRead(local, region->Segment(0, local.size()));
  Run();
  EXPECT_EQ(server_.peer->StatusOf(read), Status::kRemoteAccess);
  const TracedConnection connection = Traced(server_);
  EXPECT_THAT(connection.Of(Opcode::kReadRequest), SizeIs(1));
  EXPECT_THAT(connection.Of(Opcode::kReadResponse), IsEmpty());
  EXPECT_THAT(connection.end->comment, HasSubstr("terminated by the peer"));
}

}  // namespace
}  // namespace penstock::rdma::trace
