// Tests of access to memory (endpoint.h): the peer can access registered memory and no other. RFC 5040 §7.2 and RFC
// 5041 §7.1 list the checks, RFC 5042 §6 the reasons.
#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "rdma/endpoint_suite.h"

namespace penstock::rdma {
namespace {

constexpr size_t kTargetSize = 64;
constexpr std::byte kUntouched{0x77};

}  // namespace

void EndpointSuite::ExpectAccessRefused(const std::function<RemoteSegment(AccessTrial&)>& spoil,
                                        const std::vector<Access>& accesses) {
  for (Access access : accesses) {
    SCOPED_TRACE(access == Access::kRemoteWrite ? "Write" : "Read");
    AccessTrial trial;
    trial.pair = MakePair();
    SuitePeer& client = *trial.pair.client;
    SuitePeer& server = *trial.pair.server;
    client.Start();
    server.Start();
    Context waiting = client.PostReceive(512);
    Context at_server = server.PostReceives(2, 512);
    trial.access = access;
    trial.memory.assign(3 * kTargetSize, kUntouched);
    trial.region = Register(server, Bytes(trial.memory).subspan(kTargetSize, kTargetSize), access);
    trial.whole = trial.region->Segment(0, kTargetSize);
    RemoteSegment remote = spoil(trial);
    env_->Publish();

    auto local = Pattern(remote.length);
    Context request =
        access == Access::kRemoteWrite ? client.PostWrite(One(local), remote) : client.PostRead(local, remote);
    ExpectRefused(client, server, request);
    EXPECT_EQ(trial.memory, std::vector<std::byte>(3 * kTargetSize, kUntouched));
    EXPECT_EQ(client.StatusOf(waiting), Status::kFlushed);
    EXPECT_EQ(server.StatusOf(at_server + 1), Status::kFlushed);
    EXPECT_FALSE(trial.region && trial.region->valid()) << "the connection is lost";
    Finish(client, server);
  }
}

TEST_P(EndpointSuite, RefusesUnknownStag) {
  ExpectAccessRefused([](AccessTrial& trial) {
    RemoteSegment remote = trial.whole;
    remote.stag = Stag(~remote.stag.value());
    return remote;
  });
}

TEST_P(EndpointSuite, RefusesLengthOneOctetTooLong) {
  ExpectAccessRefused([](AccessTrial& trial) {
    RemoteSegment remote = trial.whole;
    ++remote.length;
    return remote;
  });
}

TEST_P(EndpointSuite, RefusesOffsetOneOctetTooLow) {
  ExpectAccessRefused([](AccessTrial& trial) {
    RemoteSegment remote = trial.whole;
    --remote.offset;
    return remote;
  });
}

TEST_P(EndpointSuite, RefusesOffsetOneOctetTooHigh) {
  ExpectAccessRefused([](AccessTrial& trial) {
    RemoteSegment remote = trial.whole;
    ++remote.offset;
    return remote;
  });
}

TEST_P(EndpointSuite, RefusesTheOctetAfterTheRegion) {
  ExpectAccessRefused(
      [](AccessTrial& trial) { return RemoteSegment{trial.whole.stag, 1, trial.whole.offset + kTargetSize}; });
}

TEST_P(EndpointSuite, RefusesOffsetFarOutOfBounds) {
  ExpectAccessRefused([](AccessTrial& trial) {
    return RemoteSegment{trial.whole.stag, kTargetSize, trial.whole.offset + (uint64_t{1} << 40)};
  });
}

TEST_P(EndpointSuite, RefusesRangeWhoseEndOverflows) {
  ExpectAccessRefused([](AccessTrial& trial) {
    // If the sum of offset and length overflows, the last octet seems to be in the region.
    return RemoteSegment{trial.whole.stag, kTargetSize, std::numeric_limits<uint64_t>::max() - kTargetSize / 2};
  });
}

TEST_P(EndpointSuite, RefusesAccessThatTheRegionDoesNotAllow) {
  std::vector<Access> accesses = {Access::kRemoteWrite};
  if (env_->checks_right_to_read()) accesses.push_back(Access::kRemoteRead);
  const auto other_access = [this](AccessTrial& trial) {
    Access other = trial.access == Access::kRemoteRead ? Access::kRemoteWrite : Access::kRemoteRead;
    trial.region = Register(*trial.pair.server, Bytes(trial.memory).subspan(kTargetSize, kTargetSize), other);
    return trial.region->Segment(0, kTargetSize);
  };
  ExpectAccessRefused(other_access, accesses);
}

TEST_P(EndpointSuite, RefusesStagOfAnotherConnection) {
  Connect();
  std::vector<std::byte> memory(kTargetSize, kUntouched);
  std::unique_ptr<MemoryRegion> region;
  ExpectAccessRefused([&](AccessTrial& trial) {
    region = Register(*server_, memory, trial.access);
    return region->Segment(0, kTargetSize);
  });
  EXPECT_EQ(memory, std::vector<std::byte>(kTargetSize, kUntouched));
  EXPECT_TRUE(region->valid()) << "the other connection is still open";
}

TEST_P(EndpointSuite, RefusesAccessAfterInvalidation) {
  ExpectAccessRefused([&](AccessTrial& trial) {
    SuitePeer& server = *trial.pair.server;
    Context invalidate = server.PostInvalidate(*trial.region);
    RunUntilDone(server, invalidate);
    EXPECT_EQ(server.StatusOf(invalidate), Status::kSuccess);
    EXPECT_FALSE(trial.region->valid());
    return trial.whole;
  });
}

TEST_P(EndpointSuite, RefusesAccessAfterRemoteInvalidation) {
  if (!server_provider_->remote_invalidation()) GTEST_SKIP() << "no remote invalidation";
  ExpectAccessRefused([&](AccessTrial& trial) {
    trial.pair.client->PostSend(Gather{}, false, trial.whole.stag);
    return trial.whole;
  });
}

TEST_P(EndpointSuite, RefusesAccessAfterTheRegionIsDestroyed) {
  ExpectAccessRefused([](AccessTrial& trial) {
    trial.region.reset();
    return trial.whole;
  });
}

// A Send with Invalidate may name only a valid region of the peer on this connection.
TEST_P(EndpointSuite, RefusesRemoteInvalidationOfUnknownStag) {
  Connect();
  server_->PostReceive(512);
  std::vector<std::byte> memory(kTargetSize);
  auto region = Register(*server_, memory, Access::kRemoteRead);
  ExpectRefused(*client_, *server_, client_->PostSend(Gather{}, false, Stag(~region->stag().value())));
}

TEST_P(EndpointSuite, InvalidatesARegionAgainAfterRemoteInvalidation) {
  if (!server_provider_->remote_invalidation()) GTEST_SKIP() << "no remote invalidation";
  Connect();
  std::vector<std::byte> memory(kTargetSize);
  auto region = Register(*server_, memory, Access::kRemoteRead);
  Context receive = server_->PostReceive(512);
  client_->PostSend(Gather{}, false, region->stag());
  RunUntilDone(*server_, receive);
  Context invalidate = server_->PostInvalidate(*region);
  RunUntilDone(*server_, invalidate);
  EXPECT_EQ(server_->StatusOf(invalidate), Status::kSuccess);
}

// Two regions may cover the same memory. Invalidating one leaves the other valid.
TEST_P(EndpointSuite, InvalidationLeavesOtherRegionsOfTheSameMemoryValid) {
  Connect();
  auto memory = Pattern(kTargetSize);
  auto first = Register(*server_, memory, Access::kRemoteRead);
  auto second = Register(*server_, Bytes(memory).subspan(8), Access::kRemoteRead);
  EXPECT_NE(first->stag(), second->stag());
  EXPECT_EQ(second->length(), kTargetSize - 8);
  Context invalidate = server_->PostInvalidate(*first);
  RunUntilDone(*server_, invalidate);
  EXPECT_TRUE(second->valid());
  std::vector<std::byte> local(8);
  Context read = client_->PostRead(local, second->Segment(0, 8));
  RunUntilDone(*client_, read);
  EXPECT_EQ(client_->StatusOf(read), Status::kSuccess);
  EXPECT_TRUE(Equal(local, ConstBytes(memory).subspan(8, 8)));
}

// RFC 5042 §6.1.1: a stag must not allow a guess at the next one.
TEST_P(EndpointSuite, StagsAreUnpredictable) {
  Connect();
  std::vector<std::byte> memory(kTargetSize);
  std::set<uint32_t> stags;
  std::set<uint32_t> steps;
  uint32_t last = 0;
  for (int i = 0; i < 100; ++i) {
    auto region = Register(*server_, memory, Access::kRemoteRead);
    uint32_t stag = region->stag().value();
    stags.insert(stag);
    steps.insert(stag - last);
    last = stag;
  }
  EXPECT_GE(stags.size(), env_->chooses_stags() ? 100u : 91u) << "no stag, or few of them, may be used again soon";
  EXPECT_GT(steps.size(), 90u) << "the distances between stags must differ";
}

TEST_P(EndpointSuite, RegionMayOutliveItsEndpoint) {
  Connect();
  std::vector<std::byte> memory(kTargetSize);
  auto region = Register(*server_, memory, Access::kRemoteRead);
  server_->Destroy();
  EXPECT_FALSE(region->valid());
  RunUntil([&] { return client_->disconnected() != nullptr; });
  region.reset();
}

}  // namespace penstock::rdma
