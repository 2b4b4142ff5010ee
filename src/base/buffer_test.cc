#include "base/buffer.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace penstock {
namespace {

TEST(BufferPool, RoundsUpToAPowerOfTwo) {
  BufferPool pool;
  EXPECT_EQ(pool.Allocate(0)->capacity(), 512u);
  EXPECT_EQ(pool.Allocate(512)->capacity(), 512u);
  EXPECT_EQ(pool.Allocate(513)->capacity(), 1024u);
  EXPECT_EQ(pool.Allocate(1 << 20)->capacity(), size_t{1} << 20);
  EXPECT_EQ(pool.Allocate((32 << 20) + 1)->capacity(), size_t{64} << 20);
}

TEST(BufferPool, AlignsLargeBuffersToPages) {
  BufferPool pool;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.Allocate(4096)->data()) % 4096, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.Allocate(700)->data()) % 64, 0u);
}

TEST(BufferPool, CountsBuffersInUse) {
  BufferPool pool;
  BufferRef first = pool.Allocate(100);
  BufferRef again = first;
  BufferRef second = pool.Allocate(100);
  EXPECT_EQ(pool.outstanding(), 2u);
  EXPECT_FALSE(first.unique());
  again.Reset();
  EXPECT_TRUE(first.unique());
  first.Reset();
  second.Reset();
  EXPECT_EQ(pool.outstanding(), 0u);
}

TEST(BufferPool, AcceptsReleasesFromOtherThreads) {
  BufferPool pool;
  BufferRef buffer = pool.Allocate(4096);
  std::thread([moved = std::move(buffer)]() mutable { moved.Reset(); }).join();
  EXPECT_EQ(pool.outstanding(), 0u);
  EXPECT_TRUE(pool.Allocate(4096).unique());
}

TEST(BufferPool, MayBeDestroyedBeforeItsBuffers) {
  std::optional<BufferPool> pool(std::in_place);
  BufferRef buffer = pool->Allocate(4096);
  pool.reset();
  buffer->data()[4095] = std::byte{1};
}

// A source of memory that counts the octets in use.
class Lender : public BufferSource {
 public:
  explicit Lender(size_t& lent) : lent_(lent) {}
  std::byte* Allocate(size_t size, size_t alignment) override {
    lent_ += size;
    EXPECT_EQ(alignment, AlignmentOf(size));
    return static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment}));
  }
  void Free(std::byte* memory, size_t size) override {
    lent_ -= size;
    ::operator delete(memory, std::align_val_t{AlignmentOf(size)});
  }

 private:
  static size_t AlignmentOf(size_t size) { return size < 4096 ? 64 : 4096; }

  size_t& lent_;
};

TEST(BufferPool, AllocatesFromItsSourceAndFreesToIt) {
  size_t lent = 0;
  std::optional<BufferPool> pool(std::make_shared<Lender>(lent));
  BufferRef buffer = pool->Allocate(5000);
  EXPECT_EQ(lent, 8192u);
  pool.reset();
  EXPECT_EQ(lent, 8192u) << "the source outlives the pool as long as a buffer is in use";
  buffer.Reset();
  EXPECT_EQ(lent, 0u);
}

// Tests of the idle memory of a pool. It sets the limit, because a pool under a sanitizer keeps no idle memory by
// default.
struct TrimTest : testing::Test {
  explicit TrimTest(size_t kept = size_t{64} << 20) { pool.set_kept_octets(kept); }
  std::vector<BufferRef> Take(size_t count, size_t size) {
    std::vector<BufferRef> buffers;
    for (size_t i = 0; i < count; ++i) buffers.push_back(pool.Allocate(size));
    return buffers;
  }

  size_t lent = 0;
  BufferPool pool{std::make_shared<Lender>(lent)};
};

TEST_F(TrimTest, FreesMemoryThatWasIdleSinceTheLastTrim) {
  Take(10, 4096);
  EXPECT_EQ(lent, 40960u) << "kept for the next allocation";
  EXPECT_EQ(pool.Trim().given_back, 0u) << "it was in use since the last Trim()";
  Take(3, 4096);
  const BufferPool::Trimmed trimmed = pool.Trim();
  EXPECT_EQ(trimmed.given_back, 7 * 4096u);
  EXPECT_EQ(trimmed.left, 3 * 4096u);
  EXPECT_EQ(pool.Trim().left, 0u);
  EXPECT_EQ(lent, 0u);
}

TEST_F(TrimTest, FreesBuffersThatOtherThreadsReleased) {
  std::thread([buffers = Take(10, 4096)]() mutable { buffers.clear(); }).join();
  EXPECT_EQ(lent, 40960u);
  pool.Trim();
  EXPECT_EQ(pool.Trim().left, 0u);
  EXPECT_EQ(lent, 0u);
}

TEST_F(TrimTest, LimitsTheIdleMemoryOfAllSizesTogether) {
  pool.set_kept_octets(2 * 100'000);
  for (size_t size : {512, 4096, 16384, 32768, 65536}) Take(4, size);
  EXPECT_LE(lent, 100'000u);
  EXPECT_GE(lent, 40'000u);
  for (size_t size : {512, 4096, 16384, 32768, 65536}) {
    std::thread([buffers = Take(4, size)]() mutable { buffers.clear(); }).join();
  }
  EXPECT_LE(lent, 200'000u);
}

// A program that has written a file reads it: the memory of its READs is used again although that of its WRITEs, which
// have another size, is still there.
TEST_F(TrimTest, KeepsTheSizeInUseAndNotOneThatWasInUse) {
  constexpr size_t kKept = size_t{64} << 10;
  pool.set_kept_octets(2 * kKept);
  Take(16, 4096);
  Take(2, 8192);
  const std::vector<BufferRef> used = Take(2, 8192);
  EXPECT_EQ(lent, kKept);
}

TEST_F(TrimTest, KeepsTheSizeInUseIfOtherThreadsReleaseIt) {
  constexpr size_t kKept = size_t{64} << 10;
  pool.set_kept_octets(2 * kKept);
  for (const auto& [count, size] : {std::pair(16, 4096), std::pair(2, 8192)}) {
    std::thread([buffers = Take(count, size)]() mutable { buffers.clear(); }).join();
  }
  const std::vector<BufferRef> used = Take(2, 8192);
  EXPECT_EQ(lent, kKept);
}

TEST_F(TrimTest, CallsOnIdleOnceUntilNoIdleMemoryIsLeft) {
  int asked = 0;
  pool.set_on_idle([&asked] { ++asked; });
  Take(2, 4096);
  Take(2, 512);
  EXPECT_EQ(asked, 1);
  pool.Trim();
  Take(2, 512);
  EXPECT_EQ(asked, 1) << "idle memory is left since the last call of on_idle";
  EXPECT_GT(pool.Trim().left, 0u);
  EXPECT_EQ(pool.Trim().left, 0u);
  std::thread([buffer = pool.Allocate(512)]() mutable { buffer.Reset(); }).join();
  EXPECT_EQ(asked, 2);
}

TEST_F(TrimTest, DestroyedPoolDoesNotCallOnIdle) {
  int asked = 0;
  BufferRef buffer;
  {
    BufferPool gone;
    gone.set_kept_octets(1 << 20);
    gone.set_on_idle([&asked] { ++asked; });
    buffer = gone.Allocate(512);
  }
  buffer.Reset();
  EXPECT_EQ(asked, 0);
}

TEST(Slice, KeepsItsBufferAlive) {
  BufferPool pool;
  Slice tail;
  {
    BufferRef buffer = pool.Allocate(16);
    StoreBig<uint32_t>(buffer->data() + 8, 0x01020304);
    tail = Slice(buffer, buffer->bytes().first(16)).Sub(8, 4);
  }
  EXPECT_EQ(pool.outstanding(), 1u);
  EXPECT_EQ(LoadBig<uint32_t>(tail.data()), 0x01020304u);
}

}  // namespace
}  // namespace penstock
