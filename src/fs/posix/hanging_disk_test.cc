// Tests of a served directory on a disk that hangs: calls that wait for it do not stop other clients.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/failing_disk.h"
#include "fs/posix/failing_disk_test.h"
#include "fs/posix/test_backend.h"
#include "fs/suite/fixture.h"

namespace penstock::fs::posix {
namespace {

class HangingDiskTest : public FailingDiskTest {
 protected:
  void SetUp() override {
    FailingDiskTest::SetUp();
    Options options = With(HandleMethod::kBest);
    options.sync_metadata = true;
    backend_ = std::make_unique<PosixBackend>(kDisk, options, kThreads);
    root_ = fs().Root();
    caller_ = As(0, 0);
    for (uint64_t client = 1; client <= kClients; ++client) files_.push_back(Make(root_, std::to_string(client)));
    mends_ = backend_->loop()->MakeTimer([this] { disk_.Mend(); });
    mends_->ExpireAfter(std::chrono::minutes(1));  // ends the test with a failure if other clients are not served
  }
  void TearDown() override {
    mends_.reset();
    disk_.Mend();
    while (ended_ < begun_) backend_->RunOnce();
    FailingDiskTest::TearDown();
  }

  RequestContext ContextOf(uint64_t client) {
    RequestContext context = As(0, 0);
    context.client = {.host = client, .connection = client};
    return context;
  }
  // Each client makes many calls for its file, and the disk does not answer them. The first one must reach the disk.
  template <class Call>
  void HangFor(DiskCall fault, Call call) {
    for (uint64_t client = 1; client <= kClients; ++client) {
      disk_.Fail({.call = fault, .path = PathOf(std::to_string(client)), .hangs = true});
      Spawn(Count(ContextOf(client), files_[client - 1], call));
      // The other calls come behind one that hangs. Clients start one after the other, so that each takes as many
      // threads as it may.
      while (FailingDisk::CountHanging() < client) backend().RunSome();
      for (size_t i = 1; i < kCalls; ++i) Spawn(Count(ContextOf(client), files_[client - 1], call));
    }
  }
  template <class Call>
  Task<void> Count(RequestContext context, Handle file, Call call) {
    ++begun_;
    const bool done = co_await call(context, file);
    EXPECT_TRUE(done);
    ++ended_;
  }
  Task<bool> WriteLong(const RequestContext& context, const Handle& file, Stability stability) {
    const auto changed = co_await fs().Write(context, file, 0, long_, stability);
    co_return changed.result.has_value();
  }
  Task<bool> Commit(const RequestContext& context, const Handle& file) {
    const auto changed = co_await fs().Commit(context, file);
    co_return changed.result.has_value();
  }
  Task<bool> WriteShort(const RequestContext& context, const Handle& file) {
    const auto changed = co_await fs().Write(context, file, 0, short_, Stability::kUnstable);
    co_return changed.result.has_value();
  }
  Task<bool> Truncate(const RequestContext& context, const Handle& file) {
    NewAttributes values;
    values.size = 0;
    const auto changed = co_await fs().SetAttributes(context, file, values, std::nullopt);
    co_return changed.result.has_value();
  }
  Task<bool> ChangeMode(const RequestContext& context, const Handle& file) {
    NewAttributes values;
    values.mode = 0640;
    const auto changed = co_await fs().SetAttributes(context, file, values, std::nullopt);
    co_return changed.result.has_value();
  }

  void ExpectOthersAreServed() {
    caller_ = ContextOf(99);
    EXPECT_TRUE(Await(fs().MakeDirectory(caller_, root_, "directory", {})).result);
    const Handle file = Make(root_, "bystander");
    EXPECT_TRUE(Write(file, 0, "small").result);
    EXPECT_TRUE(Write(file, 0, "stable", Stability::kFileSync).result);
    EXPECT_TRUE(Await(fs().Commit(caller_, file)).result);
    EXPECT_EQ(ReadText(file), "stable");
    EXPECT_EQ(ended_, 0u) << "the other calls still hang";
  }

  static constexpr uint64_t kClients = 4;
  static constexpr size_t kCalls = 42;  // of up to three kinds in turn, so that all clients begin with the same
  static constexpr size_t kThreads = 64;
  const std::string text_ = suite::Pattern(100'000);
  const Data long_{Slice::Borrowed(AsBytes(text_))};
  const Data short_{Slice::Borrowed(AsBytes(std::string_view(text_).substr(0, 100)))};
  std::vector<Handle> files_;
  std::unique_ptr<Timer> mends_;
  size_t begun_ = 0, ended_ = 0;
};

TEST_P(HangingDiskTest, HangingWritesLeaveThreadsForOtherClients) {
  HangFor(DiskCall::kWrite, [this](const RequestContext& context, const Handle& file) {
    return WriteLong(context, file, Stability::kUnstable);
  });
  ExpectOthersAreServed();
}

TEST_P(HangingDiskTest, HangingShortWritesDoNotBlockTheLoop) {
  HangFor(DiskCall::kWrite,
          [this](const RequestContext& context, const Handle& file) { return WriteShort(context, file); });
  ExpectOthersAreServed();
}

TEST_P(HangingDiskTest, HangingSyncsLeaveThreadsForOtherClients) {
  HangFor(DiskCall::kSync, [this](const RequestContext& context, const Handle& file) { return Commit(context, file); });
  ExpectOthersAreServed();
}

TEST_P(HangingDiskTest, HangingStableWritesLeaveThreadsForOtherClients) {
  HangFor(DiskCall::kSync, [this](const RequestContext& context, const Handle& file) {
    return WriteLong(context, file, Stability::kFileSync);
  });
  ExpectOthersAreServed();
}

TEST_P(HangingDiskTest, AttributeChangesBehindAHangingWriteLeaveThreadsForOtherClients) {
  size_t turn = 0;
  HangFor(DiskCall::kWrite, [this, &turn](const RequestContext& context, const Handle& file) {
    switch (turn++ % 3) {
      case 0:
        return WriteLong(context, file, Stability::kUnstable);
      case 1:
        return Truncate(context, file);
      default:
        return ChangeMode(context, file);
    }
  });
  ExpectOthersAreServed();
}

INSTANTIATE_TEST_SUITE_P(Posix, HangingDiskTest, testing::Values(OnDisk("Disk", HandleMethod::kBest)), suite::NameOf);

}  // namespace
}  // namespace penstock::fs::posix
