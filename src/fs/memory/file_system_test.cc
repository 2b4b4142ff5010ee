#include "fs/memory/file_system.h"

#include "fs/file_system_suite.h"

namespace penstock::fs {
namespace {

class MemoryBackend : public suite::Backend {
 public:
  fs::FileSystem& fs() override { return file_system_; }

 private:
  memory::FileSystem file_system_{{.root_mode = 0777}};
};

const suite::Parameter kMemory{"Memory", [] { return std::make_unique<MemoryBackend>(); }};

class MemoryTest : public testing::Test {
 protected:
  template <class T>
  static T Await(Task<T> task) {
    std::optional<T> result;
    Spawn(Keep(std::move(task), result));
    return std::move(*result);  // no call waits
  }

  const RequestContext root_;

 private:
  template <class T>
  static Task<void> Keep(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }
};

TEST_F(MemoryTest, ReadSharesTheMemoryOfABlock) {
  memory::FileSystem fs({.root_uid = root_.credentials.uid});
  const Handle file = Await(fs.Create(root_, fs.Root(), "file", {})).result->handle;
  const std::string text(300'000, 'x');
  ASSERT_TRUE(Await(fs.Write(root_, file, 0, Data(Slice::Borrowed(AsBytes(text))), Stability::kUnstable)).result);
  const auto first = Await(fs.Read(root_, file, 0, 300'000));
  const auto second = Await(fs.Read(root_, file, 100'000, 1000));
  EXPECT_EQ(first.result->data.bytes().data() + 100'000, second.result->data.bytes().data());
}

TEST_F(MemoryTest, LimitsDataToItsCapacity) {
  memory::FileSystem fs({.capacity = 1000, .root_uid = root_.credentials.uid});
  const Handle file = Await(fs.Create(root_, fs.Root(), "file", {})).result->handle;
  const std::string text(600, 'x');
  const Data data(Slice::Borrowed(AsBytes(text)));
  EXPECT_TRUE(Await(fs.Write(root_, file, 0, data, Stability::kUnstable)).result);
  EXPECT_TRUE(Await(fs.Write(root_, file, 0, data, Stability::kUnstable)).result) << "overwriting needs no room";
  EXPECT_EQ(suite::ErrorOf(Await(fs.Write(root_, file, 600, data, Stability::kUnstable)).result), Error::kNoSpace);
  ASSERT_TRUE(Await(fs.Remove(root_, fs.Root(), "file")).result);
  EXPECT_EQ(Await(fs.GetSpace(root_, fs.Root())).result->free_bytes, 1000u);
}

TEST_F(MemoryTest, TakesTimesFromTheGivenClock) {
  memory::FileSystem fs({.clock = [] { return Timestamp{42, 0}; }});
  EXPECT_EQ(Await(fs.GetAttributes(root_, fs.Root()))->mtime.seconds, 42);
}

TEST_F(MemoryTest, HandleOfAnotherInstanceIsStale) {
  memory::FileSystem one({.instance = 1}), two({.instance = 2});
  EXPECT_EQ(suite::ErrorOf(Await(two.GetAttributes(root_, one.Root()))), Error::kStale);
}

}  // namespace
}  // namespace penstock::fs

PENSTOCK_FILE_SYSTEM_SUITE(Memory, testing::Values(penstock::fs::kMemory));
