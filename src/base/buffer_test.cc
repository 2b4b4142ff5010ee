#include "base/buffer.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

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

TEST(BufferPool, CountsWhatIsOut) {
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

TEST(BufferPool, TakesBuffersBackFromOtherThreads) {
  BufferPool pool;
  BufferRef buffer = pool.Allocate(4096);
  std::thread([moved = std::move(buffer)]() mutable { moved.Reset(); }).join();
  EXPECT_EQ(pool.outstanding(), 0u);
  EXPECT_TRUE(pool.Allocate(4096).unique());
}

TEST(BufferPool, MayGoBeforeItsBuffers) {
  std::optional<BufferPool> pool(std::in_place);
  BufferRef buffer = pool->Allocate(4096);
  pool.reset();
  buffer->data()[4095] = std::byte{1};
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
