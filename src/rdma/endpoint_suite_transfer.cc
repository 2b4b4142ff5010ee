// Tests of data transfer and completions (endpoint.h).
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/failing_disk.h"
#include "rdma/endpoint_suite.h"

namespace penstock::rdma {
namespace {

// Returns a nameless file with `content`.
std::shared_ptr<const FileDescriptor> FileOf(ConstBytes content) {
  char name[] = "/tmp/penstock-suite-XXXXXX";
  FileDescriptor file(::mkstemp(name));
  EXPECT_TRUE(file);
  ::unlink(name);
  EXPECT_EQ(::write(file.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  return std::make_shared<const FileDescriptor>(std::move(file));
}

TEST_P(EndpointSuite, SendsArriveWholeAndInOrder) {
  Connect();
  const size_t max = std::min<size_t>(client_->endpoint().limits().max_message, 1 << 20);
  const std::vector<size_t> sizes = {0, 1, 2, 3, 511, 1024, 4095, 4096, 65537, max - 1, max, 0, 1};
  std::vector<std::vector<std::byte>> payloads;
  std::vector<Context> sends, receives;
  for (size_t size : sizes) {
    if (size > max) size = max;
    payloads.push_back(Pattern(size, static_cast<unsigned>(payloads.size())));
    receives.push_back(server_->PostReceive(std::max<size_t>(size, 1)));
  }
  for (const auto& payload : payloads) sends.push_back(client_->PostSend(One(Borrowed(payload))));
  RunUntil([&] { return server_->received() == sizes.size() && client_->outstanding() == 0; });
  for (size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_EQ(client_->StatusOf(sends[i]), Status::kSuccess);
    const Completion* got = server_->Find(receives[i]);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->status, Status::kSuccess);
    ASSERT_EQ(got->length, payloads[i].size());
    EXPECT_TRUE(Equal(got->buffer->bytes().first(got->length), payloads[i])) << "message " << i;
    EXPECT_FALSE(got->solicited);
    EXPECT_FALSE(got->invalidated);
  }
}

TEST_P(EndpointSuite, SendsAndReceivesCompleteInTheOrderOfPosting) {
  Connect();
  constexpr size_t kMessages = 200;
  server_->PostReceives(kMessages, 512);
  for (size_t i = 0; i < kMessages; ++i) client_->PostSend(std::to_string(i));
  RunUntil([&] { return server_->received() == kMessages && client_->outstanding() == 0; });
  for (SuitePeer* peer : {client_.get(), server_.get()}) {
    std::vector<Context> order;
    for (const Completion& completion : peer->completions()) order.push_back(completion.context);
    EXPECT_TRUE(std::ranges::is_sorted(order));
  }
  for (Context receive = 1; receive <= kMessages; ++receive) {
    EXPECT_EQ(server_->Text(receive), std::to_string(receive - 1));
  }
}

TEST_P(EndpointSuite, BothSidesSendAtOnce) {
  Connect();
  constexpr size_t kMessages = 50;
  Context at_client = client_->PostReceives(kMessages, 8192);
  Context at_server = server_->PostReceives(kMessages, 8192);
  for (size_t i = 0; i < kMessages; ++i) {
    client_->PostSend(std::string(100 * i, 'c'));
    server_->PostSend(std::string(100 * i, 's'));
  }
  RunUntil([&] { return client_->received() == kMessages && server_->received() == kMessages; });
  for (size_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(client_->Text(at_client + i), std::string(100 * i, 's'));
    EXPECT_EQ(server_->Text(at_server + i), std::string(100 * i, 'c'));
  }
}

TEST_P(EndpointSuite, ReceivesPostedWithConnectOptionsAreReadyFromTheStart) {
  ConnectOptions client, server;
  client.receives = Receives(2, 512);
  server.receives = Receives(2, 512);
  Connect(std::move(client), std::move(server));
  server_->PostSend("first");
  server_->PostSend("second");
  client_->PostSend("third");
  RunUntil([&] { return client_->received() == 2 && server_->received() == 1; });
  EXPECT_EQ(client_->Text(1), "first");
  EXPECT_EQ(client_->Text(2), "second");
  EXPECT_EQ(server_->Text(1), "third");
}

TEST_P(EndpointSuite, DeliversNoCompletionBeforeStart) {
  ConnectOptions server;
  server.receives = Receives(1, 512);
  Pair pair = MakePair({}, std::move(server));
  pair.client->Start();
  pair.client->PostSend("early");
  env_->Settle();
  EXPECT_EQ(pair.server->received(), 0u);
  pair.server->Start();
  RunUntilDone(*pair.server, 1);
  EXPECT_EQ(pair.server->Text(1), "early");
  Finish(*pair.client, *pair.server);
}

TEST_P(EndpointSuite, SendsOfThePeerWaitUntilStart) {
  if (!env_->holds_back()) GTEST_SKIP() << "an adapter receives before Start()";
  Pair pair = MakePair();
  pair.client->Start();
  pair.client->PostSend("early");
  env_->Settle();
  Context receive = pair.server->PostReceive(512);  // in time, because the server has not started
  pair.server->Start();
  RunUntilDone(*pair.server, receive);
  EXPECT_EQ(pair.server->Text(receive), "early");
  Finish(*pair.client, *pair.server);
}

TEST_P(EndpointSuite, SendsAndWritesJoinTheirGather) {
  Connect();
  const std::array<size_t, 7> sizes = {1, 0, 4096, 3, 512, 0, 7777};
  std::vector<std::byte> whole;
  std::vector<std::vector<std::byte>> pieces;
  for (size_t size : sizes) {
    pieces.push_back(Pattern(size, static_cast<unsigned>(size)));
    whole.insert(whole.end(), pieces.back().begin(), pieces.back().end());
  }
  Gather gather;
  for (const auto& piece : pieces) gather.push_back(Borrowed(piece));

  std::vector<std::byte> target(whole.size());
  auto region = Register(*server_, target, Access::kRemoteWrite);
  Context receive = server_->PostReceive(whole.size());
  client_->PostWrite(gather, region->Segment(0, target.size()));
  client_->PostSend(gather);
  RunUntilDone(*server_, receive);
  const Completion* got = server_->Find(receive);
  ASSERT_EQ(got->length, whole.size());
  EXPECT_TRUE(Equal(got->buffer->bytes().first(got->length), whole));
  EXPECT_TRUE(Equal(target, whole));
}

TEST_P(EndpointSuite, SendKeepsTheBufferOfItsSliceAlive) {
  Connect();
  Context receive = server_->PostReceive(4096);
  server_->PostReceive(512);
  auto pattern = Pattern(4096, 5);
  BufferRef buffer = client_->endpoint().buffers().Allocate(4096);
  CopyBytes(buffer->bytes(), pattern);
  client_->PostSend(One(Slice(buffer, buffer->bytes().first(4096))));
  buffer.Reset();
  // The next buffer of that size must be other memory as long as the Send may need the first.
  Context send = client_->PostSend("after");
  RunUntil([&] { return client_->Done(send) && server_->received() == 2; });
  EXPECT_TRUE(Equal(server_->Find(receive)->buffer->bytes().first(4096), pattern));
}

TEST_P(EndpointSuite, ReceiveReportsSolicitedSends) {
  if (!env_->tells_solicited()) GTEST_SKIP() << "this provider does not report solicited Sends";
  Connect();
  Context receive = server_->PostReceives(3, 512);
  auto text = Pattern(5);
  client_->PostSend(One(Borrowed(text)), false);
  client_->PostSend(One(Borrowed(text)), true);
  client_->PostSend(One(Borrowed(text)), false);
  RunUntil([&] { return server_->received() == 3; });
  EXPECT_FALSE(server_->Find(receive)->solicited);
  EXPECT_TRUE(server_->Find(receive + 1)->solicited);
  EXPECT_FALSE(server_->Find(receive + 2)->solicited);
}

TEST_P(EndpointSuite, SendWithInvalidateInvalidatesTheRegionOfThePeer) {
  if (!server_provider_->remote_invalidation()) GTEST_SKIP() << "no remote invalidation";
  Connect();
  std::vector<std::byte> memory(100);
  auto region = Register(*server_, memory, Access::kRemoteRead);
  auto other = Register(*server_, memory, Access::kRemoteRead);
  Context receive = server_->PostReceive(512);
  client_->PostSend(One(Borrowed(memory)), true, region->stag());
  RunUntilDone(*server_, receive);
  EXPECT_EQ(server_->Find(receive)->invalidated, region->stag());
  EXPECT_EQ(server_->Find(receive)->solicited, env_->tells_solicited());
  EXPECT_FALSE(region->valid());
  EXPECT_TRUE(other->valid());
}

TEST_P(EndpointSuite, SendsAndWritesFileRanges) {
  Connect();
  if (!client_->endpoint().limits().file_data) GTEST_SKIP() << "no file data";
  auto content = Pattern(300'000, 9);
  auto file = FileOf(content);
  auto head = Pattern(11, 1), tail = Pattern(13, 2);
  auto expected = head;
  expected.insert(expected.end(), content.begin() + 4097, content.begin() + 4097 + 200'001);
  expected.insert(expected.end(), tail.begin(), tail.end());
  Gather gather;
  gather.push_back(Borrowed(head));
  gather.push_back(Data(file, 4097, 200'001));
  gather.push_back(Borrowed(tail));

  std::vector<std::byte> target(expected.size());
  auto region = Register(*server_, target, Access::kRemoteWrite);
  Context receive = server_->PostReceives(2, 4096);
  client_->PostWrite(gather, region->Segment(0, target.size()));
  client_->PostSend("written");
  client_->PostSend(One(Data(file, 100, 3000)));
  file.reset();  // the request keeps the file open
  RunUntil([&] { return server_->received() == 2; });
  EXPECT_TRUE(Equal(target, expected));
  EXPECT_EQ(server_->Text(receive + 1), AsText(ConstBytes(content).subspan(100, 3000)));
}

TEST_P(EndpointSuite, PadsAShortenedFileWithZeros) {
  Connect();
  if (!client_->endpoint().limits().file_data) GTEST_SKIP() << "no file data";
  auto content = Pattern(1000, 9);
  auto file = FileOf(content);
  auto expected = content;
  expected.resize(100'000);
  std::vector<std::byte> target(expected.size(), std::byte{0xFF});
  auto region = Register(*server_, target, Access::kRemoteWrite);
  Context receive = server_->PostReceive(512);
  client_->PostWrite(One(Data(file, 0, expected.size())), region->Segment(0, target.size()));
  client_->PostSend("written");
  RunUntilDone(*server_, receive);
  EXPECT_TRUE(Equal(target, expected));
}

// The peer must not get zeros instead of octets that cannot be read, nor the later Send that announces these octets.
TEST_P(EndpointSuite, FileReadErrorEndsTheConnection) {
  Connect();
  if (!client_->endpoint().limits().file_data) GTEST_SKIP() << "no file data";
  const auto content = Pattern(300'000, 9);
  const auto file = FileOf(content);
  FailingDisk disk;
  const std::string path = "/proc/self/fd/" + std::to_string(file->get());
  disk.Fail({.call = DiskCall::kRead, .path = path, .error = EIO, .from = 200'000});
  disk.Fail({.call = DiskCall::kSendFile, .path = path, .error = EIO, .from = 200'000});
  std::vector<std::byte> target(content.size(), std::byte{0xFF});
  auto region = Register(*server_, target, Access::kRemoteWrite);
  server_->PostReceive(512);
  const Context write = client_->PostWrite(One(Data(file, 0, content.size())), region->Segment(0, target.size()));
  client_->PostSend("written");
  RunUntil([&] { return client_->disconnected() && server_->disconnected(); });
  EXPECT_EQ(client_->reason(), DisconnectReason::kFault);
  EXPECT_NE(client_->StatusOf(write), Status::kSuccess);
  EXPECT_EQ(server_->received(), 0u);
  for (size_t i = 0; i < target.size(); ++i) {
    ASSERT_TRUE(target[i] == content[i] || target[i] == std::byte{0xFF}) << i;
  }
}

TEST_P(EndpointSuite, WritesAreInPlaceWhenALaterSendIsReceived) {
  Connect();
  constexpr size_t kRounds = 20, kSize = 20'000;
  std::vector<std::byte> target(kSize);
  auto region = Register(*server_, target, Access::kRemoteWrite);
  for (unsigned round = 0; round < kRounds; ++round) {
    auto source = Pattern(kSize, round);
    Context receive = server_->PostReceive(512);
    // Three parts, not in the order of their addresses.
    for (auto [at, size] : {std::pair<size_t, size_t>{7001, 9000}, {0, 7001}, {16001, 3999}}) {
      client_->PostWrite(One(Borrowed(ConstBytes(source).subspan(at, size))), region->Segment(at, size));
    }
    Context send = client_->PostSend("written");
    RunUntil([&] { return server_->Done(receive) && client_->Done(send); });
    ASSERT_TRUE(Equal(target, source)) << "round " << round;
  }
}

TEST_P(EndpointSuite, TransfersLargeDataAtUnalignedAddresses) {
  Connect();
  constexpr size_t kSize = (4 << 20) - 5;
  auto source = Pattern(kSize + 3, 3);
  std::vector<std::byte> target(kSize + 9);
  auto source_region = Register(*client_, Bytes(source).subspan(3), Access::kRemoteRead);
  auto region = Register(*server_, Bytes(target).subspan(7, kSize), Access::kRemoteWrite);
  Context receive = server_->PostReceive(512);
  client_->PostWrite(One(Borrowed(ConstBytes(source).subspan(3))), region->Segment(0, kSize));
  client_->PostSend("written");
  RunUntilDone(*server_, receive);
  EXPECT_TRUE(Equal(ConstBytes(target).subspan(7, kSize), ConstBytes(source).subspan(3)));
  EXPECT_EQ(target[6], std::byte{0});
  EXPECT_EQ(target[7 + kSize], std::byte{0});

  std::vector<std::byte> back(kSize);
  Context read = server_->PostRead(back, source_region->Segment(0, kSize));
  RunUntilDone(*server_, read);
  EXPECT_EQ(server_->StatusOf(read), Status::kSuccess);
  EXPECT_TRUE(Equal(back, ConstBytes(source).subspan(3)));
}

TEST_P(EndpointSuite, ReadsPartsOfARegion) {
  Connect();
  auto source = Pattern(10'000, 4);
  auto region = Register(*server_, source, Access::kRemoteRead);
  for (auto [at, size] : {std::pair<size_t, size_t>{0, 1}, {0, 10'000}, {9'999, 1}, {1234, 4321}}) {
    std::vector<std::byte> local(size);
    Context read = client_->PostRead(local, region->Segment(at, size));
    RunUntilDone(*client_, read);
    EXPECT_EQ(client_->StatusOf(read), Status::kSuccess);
    EXPECT_TRUE(Equal(local, ConstBytes(source).subspan(at, size))) << at << "+" << size;
  }
}

TEST_P(EndpointSuite, QueuesReadsBeyondOrd) {
  ConnectOptions client, server;
  client.ord = 2;
  server.ird = 2;
  Connect(client, server);
  constexpr size_t kReads = 40, kSize = 3000;
  auto source = Pattern(kReads * kSize, 6);
  auto region = Register(*server_, source, Access::kRemoteRead);
  std::vector<std::byte> local(source.size());
  for (size_t i = 0; i < kReads; ++i) {
    client_->PostRead(Bytes(local).subspan(i * kSize, kSize), region->Segment(i * kSize, kSize));
  }
  RunUntil([&] { return client_->outstanding() == 0; });
  for (const Completion& completion : client_->completions()) EXPECT_EQ(completion.status, Status::kSuccess);
  EXPECT_TRUE(Equal(local, source));
}

TEST_P(EndpointSuite, BothSidesReadAndWriteAtOnce) {
  Connect();
  constexpr size_t kSize = 300'000;
  struct Half {
    std::vector<std::byte> source, written = std::vector<std::byte>(kSize), read = std::vector<std::byte>(kSize);
    std::unique_ptr<MemoryRegion> readable, writable;
  };
  std::array<Half, 2> halves;
  std::array<SuitePeer*, 2> peers = {client_.get(), server_.get()};
  for (unsigned i : {0u, 1u}) {
    halves[i].source = Pattern(kSize, i);
    halves[i].readable = Register(*peers[i], halves[i].source, Access::kRemoteRead);
    halves[i].writable = Register(*peers[i], halves[i].written, Access::kRemoteWrite);
    peers[i]->PostReceive(512);
  }
  for (unsigned i : {0u, 1u}) {
    Half& other = halves[1 - i];
    for (size_t at = 0; at < kSize; at += kSize / 10) {
      peers[i]->PostRead(Bytes(halves[i].read).subspan(at, kSize / 10), other.readable->Segment(at, kSize / 10));
      peers[i]->PostWrite(One(Borrowed(ConstBytes(halves[i].source).subspan(at, kSize / 10))),
                          other.writable->Segment(at, kSize / 10));
    }
    peers[i]->PostSend("done");
  }
  RunUntil([&] { return client_->outstanding() == 0 && server_->outstanding() == 0; });
  for (unsigned i : {0u, 1u}) {
    EXPECT_TRUE(Equal(halves[i].read, halves[1 - i].source));
    EXPECT_TRUE(Equal(halves[i].written, halves[1 - i].source));
  }
}

// Transfers of no octets are not checked and move no data (RFC 5041 §5.2).
TEST_P(EndpointSuite, EmptyTransfersSucceed) {
  Connect();
  std::vector<std::byte> memory(10, std::byte{7});
  auto writable = Register(*server_, memory, Access::kRemoteWrite);
  auto readable = Register(*server_, memory, Access::kRemoteRead);
  Context receive = server_->PostReceive(512);
  Context write = client_->PostWrite({}, writable->Segment(3, 0));
  Context at_end = client_->PostWrite({}, writable->Segment(10, 0));
  Context read = client_->PostRead({}, readable->Segment(3, 0));
  Context send = client_->PostSend(Gather{});
  RunUntil([&] { return client_->outstanding() == 0 && server_->Done(receive); });
  for (Context request : {write, at_end, read, send}) EXPECT_EQ(client_->StatusOf(request), Status::kSuccess);
  EXPECT_EQ(server_->Find(receive)->length, 0u);
  EXPECT_EQ(memory, std::vector<std::byte>(10, std::byte{7}));
}

// One side polls one completion at a time. No completion is lost, and on_completions runs again for later ones.
TEST_P(EndpointSuite, PollOneByOneReturnsAllCompletions) {
  Pair pair = MakePair();
  pair.client->Start(1);
  pair.server->Start(2);
  constexpr size_t kMessages = 40;
  pair.server->PostReceives(2 * kMessages, 512);
  for (size_t i = 0; i < kMessages; ++i) pair.client->PostSend("x");
  RunUntil([&] { return pair.server->received() == kMessages && pair.client->outstanding() == 0; });
  size_t calls = pair.server->calls();
  for (size_t i = 0; i < kMessages; ++i) pair.client->PostSend("x");
  RunUntil([&] { return pair.server->received() == 2 * kMessages && pair.client->outstanding() == 0; });
  EXPECT_GT(pair.server->calls(), calls);
  Finish(*pair.client, *pair.server);
}

// An owner that does not poll is not notified again. Its next Poll() returns all completions.
TEST_P(EndpointSuite, CallsOnCompletionsOnceUntilTheQueueIsPolledEmpty) {
  Pair pair = MakePair();
  size_t calls = 0;
  Endpoint& endpoint = pair.server->endpoint();
  for (Context context = 1; context <= 4; ++context) {
    endpoint.PostReceive({context, 512});
  }
  endpoint.Start([&calls] { ++calls; });
  pair.client->Start();
  pair.client->PostSend("one");
  RunUntil([&] { return calls == 1; });
  pair.client->PostSend("two");
  pair.client->PostSend("three");
  RunUntil([&] { return pair.client->outstanding() == 0; });
  env_->Settle();
  EXPECT_EQ(calls, 1u);

  std::array<Completion, 2> two;
  EXPECT_EQ(endpoint.Poll(two), 2u);
  EXPECT_EQ(two[1].context, 2u);
  env_->Settle();
  EXPECT_EQ(calls, 1u) << "the last Poll() was full, so that the owner must poll again first";
  EXPECT_EQ(endpoint.Poll(two), 1u);
  EXPECT_EQ(two[0].context, 3u);
  pair.client->PostSend("four");
  RunUntil([&] { return calls == 2; });
  EXPECT_EQ(endpoint.Poll(two), 1u);
  EXPECT_EQ(two[0].context, 4u);
}

}  // namespace
}  // namespace penstock::rdma
