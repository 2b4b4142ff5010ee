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

// Memory that somebody else hands out, and a note of what has come back.
class Lender : public BufferSource {
 public:
  explicit Lender(size_t& lent) : lent_(lent) {}
  std::byte* Allocate(size_t size, size_t alignment) override {
    lent_ += size;
    return static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment_ = alignment}));
  }
  void Free(std::byte* memory, size_t size) override {
    lent_ -= size;
    ::operator delete(memory, std::align_val_t{alignment_});
  }

 private:
  size_t& lent_;
  size_t alignment_ = 0;
};

TEST(BufferPool, TakesItsMemoryFromASourceAndGivesItBack) {
  size_t lent = 0;
  std::optional<BufferPool> pool(std::make_shared<Lender>(lent));
  BufferRef buffer = pool->Allocate(5000);
  EXPECT_EQ(lent, 8192u);
  pool.reset();
  EXPECT_EQ(lent, 8192u) << "the source outlives the pool while a buffer does";
  buffer.Reset();
  EXPECT_EQ(lent, 0u);
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
