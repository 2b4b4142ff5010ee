#include "rdma/verbs/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock::rdma::verbs {
namespace {

TEST(Slabs, SmallBuffersShareASlab) {
  auto slabs = std::make_shared<Slabs>();
  BufferPool pool(slabs);
  std::vector<BufferRef> buffers;
  for (size_t size : {512, 4096, 100'000, 1 << 18}) buffers.push_back(pool.Allocate(size));
  EXPECT_EQ(slabs->size(), 1u);
  for (const BufferRef& buffer : buffers) {
    EXPECT_EQ(slabs->Find(buffer->bytes()), 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % (buffer->capacity() >= 4096 ? 4096 : 64), 0u);
  }
}

TEST(Slabs, BuffersDoNotOverlap) {
  auto slabs = std::make_shared<Slabs>();
  BufferPool pool(slabs);
  std::vector<BufferRef> buffers;
  for (int i = 0; i < 300; ++i) buffers.push_back(pool.Allocate(size_t{512} << (i % 9)));
  for (size_t i = 0; i < buffers.size(); ++i) std::ranges::fill(buffers[i]->bytes(), std::byte(i));
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_TRUE(std::ranges::all_of(buffers[i]->bytes(), [i](std::byte b) { return b == std::byte(i); })) << i;
  }
}

TEST(Slabs, ALargeBufferHasASlabOfItsOwn) {
  auto slabs = std::make_shared<Slabs>();
  BufferPool pool(slabs);
  BufferRef large = pool.Allocate(8 << 20);
  BufferRef small = pool.Allocate(512);
  EXPECT_EQ(slabs->size(), 2u);
  EXPECT_NE(slabs->Find(large->bytes()), slabs->Find(small->bytes()));
  EXPECT_EQ(slabs->slab(slabs->Find(large->bytes())).size(), large->capacity());
}

TEST(Slabs, MemoryFromElsewhereIsInNone) {
  auto slabs = std::make_shared<Slabs>();
  BufferPool pool(slabs);
  std::byte elsewhere[16];
  EXPECT_EQ(slabs->Find(elsewhere), Slabs::kNone) << "while there is none";
  BufferRef buffer = pool.Allocate(512);
  EXPECT_EQ(slabs->Find(elsewhere), Slabs::kNone);
  const Bytes slab = slabs->slab(0);
  EXPECT_EQ(slabs->Find({slab.data(), slab.size() + 1}), Slabs::kNone) << "beyond its end";
  EXPECT_EQ(slabs->Find({slab.data() + slab.size() - 1, 1}), 0u);
}

// What is registered stays registered: a slab is used again, and none comes in its place.
TEST(Slabs, WhatComesBackIsHandedOutAgain) {
  Slabs slabs;
  std::byte* first = slabs.Allocate(8 << 20, 4096);
  slabs.Free(first, 8 << 20);
  EXPECT_EQ(slabs.Allocate(8 << 20, 4096), first);
  EXPECT_EQ(slabs.size(), 1u);
}

}  // namespace
}  // namespace penstock::rdma::verbs
