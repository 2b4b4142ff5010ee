#include "rdma/verbs/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

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

TEST(Slabs, LargeBufferHasItsOwnSlab) {
  auto slabs = std::make_shared<Slabs>();
  BufferPool pool(slabs);
  BufferRef large = pool.Allocate(8 << 20);
  BufferRef small = pool.Allocate(512);
  EXPECT_EQ(slabs->size(), 2u);
  EXPECT_NE(slabs->Find(large->bytes()), slabs->Find(small->bytes()));
  EXPECT_EQ(slabs->slab(slabs->Find(large->bytes())).size(), large->capacity());
}

TEST(Slabs, FindsNoSlabForOtherMemory) {
  auto slabs = std::make_shared<Slabs>();
  BufferPool pool(slabs);
  std::byte elsewhere[16];
  EXPECT_EQ(slabs->Find(elsewhere), Slabs::kNone) << "the pool has no slab yet";
  BufferRef buffer = pool.Allocate(512);
  EXPECT_EQ(slabs->Find(elsewhere), Slabs::kNone);
  const Bytes slab = slabs->slab(0);
  EXPECT_EQ(slabs->Find({slab.data(), slab.size() + 1}), Slabs::kNone) << "one octet beyond the slab";
  EXPECT_EQ(slabs->Find({slab.data() + slab.size() - 1, 1}), 0u);
}

// Registered memory is used again before a new slab is made.
TEST(Slabs, HandsOutFreedMemoryAgain) {
  Slabs slabs;
  std::byte* first = slabs.Allocate(8 << 20, 4096);
  slabs.Free(first, 8 << 20);
  EXPECT_EQ(slabs.Allocate(8 << 20, 4096), first);
  EXPECT_EQ(slabs.size(), 1u);
}

struct Registrar : SlabUser {
  bool Forget(size_t slab) override {
    if (slab == kept) return false;
    forgotten.insert(slab);
    return true;
  }
  std::set<size_t> forgotten;
  size_t kept = Slabs::kNone;
};

constexpr size_t kLargeSlab = 4 << 20;

std::vector<std::byte*> AllocateAll(Slabs& slabs, size_t size, size_t octets) {
  std::vector<std::byte*> all;
  for (size_t sum = 0; sum < octets; sum += size) all.push_back(slabs.Allocate(size, 64));
  return all;
}

// After a peak of load its memory goes back to the system.
TEST(Slabs, GivesBackMuchIdleMemory) {
  for (size_t size : {size_t{4096}, size_t{256 << 10}, kLargeSlab}) {
    Slabs slabs;
    Registrar registrar;
    slabs.Add(registrar);
    const auto all = AllocateAll(slabs, size, 4 * Slabs::kKept);
    EXPECT_GE(slabs.octets(), 4 * Slabs::kKept);
    for (std::byte* each : all) slabs.Free(each, size);
    EXPECT_LE(slabs.octets(), Slabs::kKept + kLargeSlab) << size;
    EXPECT_FALSE(registrar.forgotten.empty());
    for (size_t index = 0; index < slabs.size(); ++index) {
      EXPECT_EQ(slabs.slab(index).empty(), registrar.forgotten.contains(index))
          << "each slab that is given back, and no other, is deregistered";
    }
    // The next peak of load allocates memory again.
    for (std::byte* each : AllocateAll(slabs, size, 4 * Slabs::kKept)) {
      EXPECT_NE(slabs.Find({each, size}), Slabs::kNone);
      each[0] = each[size - 1] = std::byte{1};
    }
  }
}

TEST(Slabs, KeepsASlabWithAUsedBuffer) {
  Slabs slabs;
  constexpr size_t kSize = Slabs::kSlabSize / 4;
  auto all = AllocateAll(slabs, kSize, 4 * Slabs::kKept);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 4 != 0) slabs.Free(all[i], kSize);
  }
  EXPECT_GE(slabs.octets(), 4 * Slabs::kKept);
  for (size_t i = 0; i < all.size(); i += 4) all[i][0] = all[i][kSize - 1] = std::byte{1};
}

TEST(Slabs, KeepsASlabThatAUserCannotDeregister) {
  Slabs slabs;
  Registrar registrar;
  registrar.kept = 2;
  slabs.Add(registrar);
  const auto all = AllocateAll(slabs, kLargeSlab, 4 * Slabs::kKept);
  for (std::byte* each : all) slabs.Free(each, kLargeSlab);
  EXPECT_TRUE(registrar.forgotten.contains(1));
  EXPECT_FALSE(slabs.slab(2).empty());
  EXPECT_TRUE(slabs.slab(1).empty());
  slabs.Remove(registrar);
}

}  // namespace
}  // namespace penstock::rdma::verbs
