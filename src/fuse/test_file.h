// A file of a server, for tests. It executes a call when the call is made, and answers in a later turn of the loop, the
// newest call first.
#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/buffer.h"
#include "base/loop.h"
#include "base/signal.h"
#include "base/task.h"
#include "base/test_loop.h"
#include "client/file.h"

namespace penstock::fuse {

class TestFile final : public client::File {
 public:
  struct Call {
    uint64_t offset = 0;
    size_t size = 0;
    bool operator==(const Call&) const = default;
  };

  explicit TestFile(Loop& loop) : client::File(client::Node(), "file"), loop_(loop) {}

  std::string data;    // as a READ gets it
  std::string stable;  // what a restart leaves
  std::vector<Call> reads;
  std::vector<Call> writes;
  int commits = 0;
  // Whether the server stores a WRITE at once that asks for it. It may also do so with others.
  bool obeys = true;
  std::function<bool()> stores_more;
  bool holds_replies = false;           // until LetGo()
  bool restarts_before_commit = false;  // the server restarts before each COMMIT
  int fails = 0;                        // errno of all calls

  void Restart() {
    data = stable;
    ++life_;
  }
  void LetGo() {
    holds_replies = false;
    released_.Notify();
  }

  // The data of READs come in memory of the transport, each in a buffer of so many octets. Zero: where they are wanted.
  size_t receive_buffer = 0;
  std::vector<BufferRef> received;
  Task<client::Result<FetchReply>> Fetch(uint64_t offset, Bytes into) override {
    reads.push_back({offset, into.size()});
    const size_t from = std::min<size_t>(offset, data.size());
    const size_t count = std::min(into.size(), data.size() - from);
    BufferRef own;
    if (receive_buffer > 0) own = received.emplace_back(loop_.buffers().Allocate(receive_buffer));
    const Bytes at = own ? own->bytes().first(count) : into.first(count);
    CopyBytes(at, AsBytes(data).subspan(from, count));
    const FetchReply reply{Slice(own, at), from + count == data.size()};
    const auto error = Failure();
    co_await Reply();
    if (error) co_return std::unexpected(*error);
    co_return reply;
  }
  Task<client::Result<WriteReply>> Write(uint64_t offset, ConstBytes from, Stability stability) override {
    writes.push_back({offset, from.size()});
    const auto error = Failure();
    const bool stores = (obeys && stability == Stability::kStable) || (stores_more && stores_more());
    for (std::string* const each : {&data, &stable}) {
      if (error || (each == &stable && !stores)) continue;
      each->resize(std::max<size_t>(each->size(), offset + from.size()));
      std::ranges::copy(AsText(from), each->begin() + static_cast<ptrdiff_t>(offset));
    }
    const WriteReply reply{static_cast<uint32_t>(from.size()), verifier(), stores};
    co_await Reply();
    if (error) co_return std::unexpected(*error);
    co_return reply;
  }
  Task<client::Result<client::Verifier>> Commit() override {
    ++commits;
    if (restarts_before_commit) Restart();
    stable = data;
    const client::Verifier committed = verifier();
    const auto error = Failure();
    co_await Reply();
    if (error) co_return std::unexpected(*error);
    co_return committed;
  }
  Task<client::Result<void>> SetSize(uint64_t size) override {
    data.resize(size);
    co_return client::Result<void>();
  }
  Task<client::Result<void>> Lock(std::string, client::ByteRange, client::LockKind, Duration, Cancellation*) override {
    co_return client::Result<void>();
  }
  Task<client::Result<void>> Unlock(std::string, client::ByteRange) override { co_return client::Result<void>(); }
  Task<client::Result<std::optional<client::LockConflict>>> TestLock(std::string, client::ByteRange,
                                                                     client::LockKind) override {
    co_return std::nullopt;
  }
  Task<client::Result<void>> Close() override { co_return client::Result<void>(); }

 private:
  client::Verifier verifier() const { return {std::byte{life_}}; }
  std::optional<client::Error> Failure() const {
    if (fails == 0) return std::nullopt;
    return client::Error{"file: fails", std::nullopt, fails};
  }
  Task<void> Reply() {
    while (holds_replies) co_await released_;
    OneShot<> arrived;
    under_way_.push_back(&arrived);
    Spawn([](TestFile& self) -> Task<void> {
      co_await Sleep(self.loop_, Duration::zero());
      OneShot<>* const last = self.under_way_.back();
      self.under_way_.pop_back();
      last->Set();
    }(*this));
    co_await arrived;
  }

  Loop& loop_;
  uint8_t life_ = 1;
  Signal released_;
  std::vector<OneShot<>*> under_way_;
};

// Runs coroutines to their end.
class LoopFixture : public testing::Test {
 public:
  Loop loop;

  template <class T>
  T Finish(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> inner, std::optional<T>& out) -> Task<void> { out.emplace(co_await std::move(inner)); }(
                                                       std::move(task), result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    return *std::move(result);
  }
  void Finish(Task<void> task) {
    bool done = false;
    Spawn([](Task<void> inner, bool& out) -> Task<void> {
      co_await std::move(inner);
      out = true;
    }(std::move(task), done));
    EXPECT_TRUE(TurnUntil(loop, [&] { return done; }));
  }
};

}  // namespace penstock::fuse
