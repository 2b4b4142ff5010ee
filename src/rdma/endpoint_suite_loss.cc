// Tests of the end of a connection and of the requests that it flushes (endpoint.h).
#include <gmock/gmock.h>

#include <array>

#include "rdma/endpoint_suite.h"

namespace penstock::rdma {
namespace {

using testing::AnyOf;

TEST_P(EndpointSuite, DisconnectTellsBothSidesTheReason) {
  Connect();
  Context receive = server_->PostReceive(512);
  client_->endpoint().Disconnect();
  RunUntilLost(*client_, *server_);
  EXPECT_EQ(client_->reason(), DisconnectReason::kLocal);
  EXPECT_EQ(server_->reason(), DisconnectReason::kPeerClosed);
  EXPECT_EQ(server_->StatusOf(receive), Status::kFlushed);
  client_->endpoint().Disconnect();  // has no effect
  env_->Settle();
}

TEST_P(EndpointSuite, RequestsPostedBeforeDisconnectArrive) {
  Connect();
  constexpr size_t kMessages = 50, kSize = 100'000;
  server_->PostReceives(kMessages + 1, 4096);
  auto source = Pattern(kSize);
  std::vector<std::byte> target(kSize);
  auto region = Register(*server_, target, Access::kRemoteWrite);
  Context write = client_->PostWrite(One(source), region->Segment(0, kSize));
  for (size_t i = 0; i < kMessages; ++i) client_->PostSend(std::string(i * 40, 'm'));
  client_->endpoint().Disconnect();
  RunUntilLost(*client_, *server_);
  EXPECT_EQ(client_->StatusOf(write), Status::kSuccess);
  EXPECT_EQ(client_->outstanding(), 0u);
  for (const Completion& completion : client_->completions()) EXPECT_EQ(completion.status, Status::kSuccess);
  EXPECT_EQ(server_->received(), kMessages);
  EXPECT_TRUE(Equal(target, source));
  EXPECT_FALSE(region->valid());
}

TEST_P(EndpointSuite, BothSidesDisconnectAtOnce) {
  Connect();
  client_->PostReceive(512);
  server_->PostReceive(512);
  client_->endpoint().Disconnect();
  server_->endpoint().Disconnect();
  RunUntilLost(*client_, *server_);
  for (SuitePeer* peer : {client_.get(), server_.get()}) {
    EXPECT_THAT(peer->reason(), AnyOf(DisconnectReason::kLocal, DisconnectReason::kPeerClosed));
  }
}

TEST_P(EndpointSuite, RequestsPostedAfterDisconnectComplete) {
  Connect();
  std::vector<std::byte> memory(64), local(64);
  auto region = Register(*server_, memory, Access::kRemoteRead);
  client_->endpoint().Disconnect();
  client_->PostReceive(512);
  client_->PostSend("late");
  client_->PostRead(local, region->Segment(0, 64));
  RunUntilLost(*client_, *server_);
  RunUntil([&] { return client_->outstanding() == 0; });
  EXPECT_EQ(client_->reason(), DisconnectReason::kLocal);
}

TEST_P(EndpointSuite, RequestsPostedAfterTheLossAreFlushed) {
  Connect();
  std::vector<std::byte> memory(64);
  auto region = Register(*server_, memory, Access::kRemoteRead);
  RemoteSegment remote = region->Segment(0, 64);
  client_->endpoint().Disconnect();
  RunUntilLost(*client_, *server_);
  for (SuitePeer* peer : {client_.get(), server_.get()}) {
    auto late = Register(*peer, memory, Access::kRemoteRead);
    std::vector<Context> requests = {peer->PostReceive(512), peer->PostSend("late"), peer->PostSend(Gather{}),
                                     peer->PostWrite(One(memory), remote), peer->PostRead(memory, remote)};
    Context invalidate = peer->PostInvalidate(*late);
    RunUntil([&] { return peer->outstanding() == 0; });
    for (Context request : requests) EXPECT_EQ(peer->StatusOf(request), Status::kFlushed) << request;
    EXPECT_THAT(peer->StatusOf(invalidate), AnyOf(Status::kFlushed, Status::kSuccess));
    EXPECT_FALSE(late->valid());
  }
}

// kDisconnected tells the owner that all memory is fenced, so that it must be the last completion.
TEST_P(EndpointSuite, DisconnectedIsTheLastCompletion) {
  Connect();
  std::vector<std::byte> memory(10'000), local(10'000);
  auto region = Register(*server_, memory, Access::kRemoteRead);
  auto own = Register(*client_, memory, Access::kRemoteWrite);
  client_->PostReceives(10, 512);
  for (int i = 0; i < 20; ++i) client_->PostRead(Bytes(local).first(100), region->Segment(0, 100));
  client_->PostInvalidate(*own);
  client_->PostSend(One(memory));  // the server has no receive for it
  RunUntilLost(*client_, *server_);
  EXPECT_EQ(client_->outstanding(), 0u);
  EXPECT_EQ(client_->completions().back().operation, Operation::kDisconnected);
  EXPECT_FALSE(own->valid());
}

TEST_P(EndpointSuite, DestroyingAnEndpointDisconnectsThePeer) {
  Connect();
  Context receive = client_->PostReceive(512);
  std::vector<std::byte> memory(64), local(64);
  auto region = Register(*server_, memory, Access::kRemoteRead);
  RemoteSegment remote = region->Segment(0, 64);
  server_->Destroy();
  client_->PostRead(local, remote);
  client_->PostSend("the peer is gone");
  RunUntil([&] { return client_->disconnected() != nullptr; });
  EXPECT_THAT(client_->reason(), AnyOf(DisconnectReason::kPeerReset, DisconnectReason::kPeerClosed));
  EXPECT_EQ(client_->StatusOf(receive), Status::kFlushed);
}

TEST_P(EndpointSuite, EndpointCanBeDestroyedWithRequestsInFlight) {
  Connect();
  constexpr size_t kSize = 1 << 20;
  auto memory = std::make_unique<std::vector<std::byte>>(kSize);
  std::vector<std::byte> target(kSize);
  auto region = Register(*server_, target, Access::kRemoteWrite);
  auto readable = Register(*server_, target, Access::kRemoteRead);
  client_->PostReceives(5, 512);
  client_->PostWrite(One(*memory), region->Segment(0, kSize));
  client_->PostRead(*memory, readable->Segment(0, kSize));
  client_->Destroy();
  memory.reset();  // the endpoint must not access it any more
  RunUntil([&] { return server_->disconnected() != nullptr; });
}

TEST_P(EndpointSuite, EndpointCanBeDestroyedWithoutStart) {
  ConnectOptions options;
  options.receives = Receives(3, 512);
  Pair pair = MakePair(std::move(options));
  pair.server->Start();
  pair.client->Destroy();
  RunUntil([&] { return pair.server->disconnected() != nullptr; });
}

TEST_P(EndpointSuite, SendWithoutAReceiveEndsTheConnection) {
  Connect();
  Context receive = server_->PostReceive(512);
  client_->PostSend("expected");
  Context send = client_->PostSend("one too many");
  ExpectRefused(*client_, *server_, send);
  EXPECT_EQ(server_->Text(receive), "expected");
  EXPECT_EQ(server_->received(), 1u);
}

TEST_P(EndpointSuite, SendLongerThanItsReceiveEndsTheConnection) {
  Connect();
  Context small = server_->PostReceive(512);
  Context next = server_->PostReceive(1 << 16);
  size_t capacity = server_->endpoint().buffers().Allocate(512)->capacity();
  auto too_long = Pattern(capacity + 1);
  Context send = client_->PostSend(One(too_long));
  ExpectRefused(*client_, *server_, send);
  EXPECT_THAT(server_->StatusOf(small), AnyOf(Status::kLocalError, Status::kFlushed));
  EXPECT_EQ(server_->StatusOf(next), Status::kFlushed);
}

TEST_P(EndpointSuite, ReceivesASendThatFillsTheBuffer) {
  Connect();
  size_t capacity = server_->endpoint().buffers().Allocate(512)->capacity();
  Context receive = server_->PostReceive(512);
  auto fits = Pattern(capacity);
  client_->PostSend(One(fits));
  RunUntilDone(*server_, receive);
  EXPECT_EQ(server_->Find(receive)->length, capacity);
}

TEST_P(EndpointSuite, LossOfAConnectionLeavesOthersIntact) {
  Connect();
  Pair other = MakePair();
  other.client->Start();
  other.server->Start();
  Context receive = server_->PostReceive(512);
  other.client->PostSend("no receive for it");
  RunUntilLost(*other.client, *other.server);
  client_->PostSend("still here");
  RunUntilDone(*server_, receive);
  EXPECT_EQ(server_->Text(receive), "still here");
  EXPECT_EQ(client_->disconnected(), nullptr);
  Finish(*other.client, *other.server);
}

TEST_P(EndpointSuite, DeliversMessagesReceivedBeforeTheLoss) {
  Connect();
  Context first = server_->PostReceives(3, 512);
  client_->PostSend("one");
  client_->PostSend("two");
  client_->PostSend("three");
  client_->endpoint().Disconnect();
  RunUntilLost(*client_, *server_);
  EXPECT_EQ(server_->Text(first), "one");
  EXPECT_EQ(server_->Text(first + 1), "two");
  EXPECT_EQ(server_->Text(first + 2), "three");
}

TEST_P(EndpointSuite, ReadWithOrdZeroFailsLocally) {
  ConnectOptions client;
  client.ord = 0;
  Connect(client);
  if (client_->endpoint().info().ord > 0) GTEST_SKIP() << "this provider always allows a Read";
  std::vector<std::byte> memory(64), local(64);
  auto region = Register(*server_, memory, Access::kRemoteRead);
  Context read = client_->PostRead(local, region->Segment(0, 64));
  RunUntilLost(*client_, *server_);
  EXPECT_EQ(client_->StatusOf(read), Status::kLocalError);
  EXPECT_EQ(client_->reason(), DisconnectReason::kFault);
}

TEST_P(EndpointSuite, SendBeyondMaxMessageFailsLocally) {
  Connect();
  size_t max = client_->endpoint().limits().max_message;
  if (max > (8 << 20)) GTEST_SKIP() << "the limit is too large to test";
  std::vector<std::byte> memory(max + 1);
  Context before = client_->PostSend(One(ConstBytes(memory).first(1)));
  Context send = client_->PostSend(One(memory));
  RunUntilLost(*client_, *server_);
  EXPECT_EQ(client_->StatusOf(send), Status::kLocalError);
  EXPECT_NE(client_->StatusOf(before), Status::kLocalError);
  EXPECT_EQ(client_->reason(), DisconnectReason::kFault);
}

}  // namespace
}  // namespace penstock::rdma
