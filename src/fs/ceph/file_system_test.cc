// What the file system does when the cluster fails. How it serves a cluster that works: cluster_test.cc.
#include "fs/ceph/file_system.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include "base/loop.h"
#include "base/test_log.h"
#include "fs/ceph/test_client.h"
#include "fs/suite/fixture.h"

namespace penstock::fs::ceph {
namespace {

using std::chrono::milliseconds;

class CephFileSystemTest : public testing::Test {
 protected:
  std::shared_ptr<FileSystem> Serve(size_t threads = 8) {
    auto opened = FileSystem::Open({.path = "/x"}, module_,
                                   {.export_name = "/x",
                                    .sync_metadata = false,
                                    .threads = threads,
                                    .patience = std::chrono::seconds(1),
                                    .wait_for_thread = milliseconds(50)});
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
  template <class T>
  static Task<> Keep(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }
  template <class T>
  T Await(Task<T> task) {
    std::optional<T> result;
    Spawn(Keep(std::move(task), result));
    while (!result) loop_.context().run_one();
    return std::move(*result);
  }
  Handle FileOf(FileSystem& fs) { return Await(fs.Lookup(root_, fs.Root(), "file")).result.value().handle; }
  Changed<WriteReply> Write(FileSystem& fs, const Handle& file, std::string_view text,
                            Stability stability = Stability::kUnstable) {
    return Await(fs.Write(root_, file, 0, Data(Slice::Borrowed(AsBytes(text))), stability));
  }
  // Tries until the call gives another result than kDelay.
  Result<Attributes> StatPatiently(FileSystem& fs, const Handle& file) {
    for (;;) {
      const auto stat = Await(fs.GetAttributes(root_, file));
      if (stat || stat.error() != Error::kDelay) return stat;
    }
  }

  const std::shared_ptr<TestCluster> cluster_ = std::make_shared<TestCluster>();
  TestModule module_{cluster_};
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.context().get_executor()};
  const RequestContext root_{kAsRoot, &loop_};
};

TEST_F(CephFileSystemTest, ALossOfDataFailsOneCommitAndChangesTheVerifierForAll) {
  const auto fs = Serve();
  const Handle file = FileOf(*fs);
  const WriteVerifier before = Write(*fs, file, "text").result->verifier;
  cluster_->Set([&] { cluster_->sync_error = -EIO; });
  EXPECT_EQ(suite::ErrorOf(Await(fs->Commit(root_, file)).result), Error::kIo);
  const auto commit = Await(fs->Commit(root_, file)).result;
  ASSERT_TRUE(commit) << "the loss is told once";
  EXPECT_NE(*commit, before);
}

TEST_F(CephFileSystemTest, AStableWriteFailsIfItsDataAreLost) {
  const auto fs = Serve();
  const Handle file = FileOf(*fs);
  cluster_->Set([&] { cluster_->sync_error = -ENOSPC; });
  EXPECT_EQ(suite::ErrorOf(Write(*fs, file, "text", Stability::kFileSync).result), Error::kNoSpace);
}

// Otherwise another server could change a file while a client has a delegation.
TEST_F(CephFileSystemTest, NoFileHasALease) {
  const auto fs = Serve();
  const LeaseReply reply = Await(fs->OpenLease(root_, FileOf(*fs)));
  EXPECT_TRUE(!reply.lease && reply.contended);
  EXPECT_TRUE(fs->GetProperties().has_other_servers);
}

// The cluster tells a loss once: here, to the COMMIT.
TEST_F(CephFileSystemTest, AStableWriteFailsIfAnotherCallIsToldOfTheLoss) {
  const auto fs = Serve();
  const Handle file = FileOf(*fs);
  std::optional<Changed<WriteReply>> wrote;
  std::optional<Changed<WriteVerifier>> committed;
  ASSERT_TRUE(Write(*fs, file, "text").result);
  cluster_->Set([&] {
    cluster_->sync_error = -EIO;
    cluster_->syncs_hang = true;
  });
  Spawn(Keep(fs->Commit(root_, file), committed));
  while (!cluster_->Get(&TestCluster::is_syncing)) std::this_thread::sleep_for(milliseconds(1));
  const std::string_view text = "other";
  Spawn(Keep(fs->Write(root_, file, 0, Data(Slice::Borrowed(AsBytes(text))), Stability::kFileSync), wrote));
  while (cluster_->Get(&TestCluster::content) != "other") std::this_thread::sleep_for(milliseconds(1));
  cluster_->Set([&] { cluster_->syncs_hang = false; });
  while (!wrote || !committed) loop_.context().run_one();
  EXPECT_EQ(suite::ErrorOf(committed->result), Error::kIo);
  EXPECT_EQ(suite::ErrorOf(wrote->result), Error::kIo);
}

TEST_F(CephFileSystemTest, UnusedFilesAreSyncedAndClosed) {
  const auto fs = Serve();
  ASSERT_TRUE(Write(*fs, FileOf(*fs), "text").result);
  EXPECT_EQ(cluster_->Get(&TestCluster::open_files), 1u);
  while (cluster_->Get(&TestCluster::open_files) != 0) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(cluster_->Get(&TestCluster::syncs), 1u);
}

TEST_F(CephFileSystemTest, ALossWhenAnUnusedFileIsClosedChangesTheVerifier) {
  const auto fs = Serve();
  const Handle file = FileOf(*fs);
  const WriteVerifier before = Write(*fs, file, "text").result->verifier;
  cluster_->Set([&] { cluster_->sync_error = -EIO; });
  while (cluster_->Get(&TestCluster::open_files) != 0) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_NE(*Await(fs->Commit(root_, file)).result, before);
}

TEST_F(CephFileSystemTest, MountsAgainAfterTheClusterHasEndedTheMount) {
  const CapturedLog log;
  const auto fs = Serve();
  const Handle file = FileOf(*fs);
  const WriteVerifier before = Write(*fs, file, "text").result->verifier;
  cluster_->Set([&] {
    cluster_->error = -ESHUTDOWN;
    cluster_->mounts = false;
  });
  EXPECT_EQ(suite::ErrorOf(Await(fs->GetAttributes(root_, file))), Error::kDelay);
  EXPECT_EQ(suite::ErrorOf(Await(fs->GetAttributes(root_, file))), Error::kDelay) << "no mount yet";
  cluster_->Set([&] { cluster_->mounts = true; });
  EXPECT_TRUE(StatPatiently(*fs, file));
  EXPECT_NE(*Await(fs->Commit(root_, file)).result, before) << "data that were not synced may be lost";
}

TEST_F(CephFileSystemTest, APinOutlivesTheMount) {
  const CapturedLog log;
  const auto fs = Serve();
  const Handle file = FileOf(*fs);
  Result<Pinned> pinned = Await(fs->Pin(root_, file));
  ASSERT_TRUE(pinned);
  cluster_->Set([&] { cluster_->error = -ENOTCONN; });
  EXPECT_EQ(suite::ErrorOf(Await(fs->GetAttributes(root_, file))), Error::kDelay);
  EXPECT_TRUE(StatPatiently(*fs, file));
  EXPECT_GE(cluster_->Get(&TestCluster::open_files), 1u);
  pinned = nullptr;
  while (cluster_->Get(&TestCluster::open_files) != 0) std::this_thread::sleep_for(milliseconds(10));
}

TEST_F(CephFileSystemTest, ACallThatGetsNoThreadIsDelayed) {
  const auto fs = Serve(4);
  const Handle file = FileOf(*fs);
  cluster_->Set([&] { cluster_->hangs = true; });
  constexpr size_t kCalls = 20;
  std::vector<std::optional<Result<Attributes>>> results(kCalls);
  for (auto& each : results) Spawn(Keep(fs->GetAttributes(root_, file), each));
  const auto delayed = [&] {
    return std::ranges::count_if(results,
                                 [](const auto& each) { return each && suite::ErrorOf(*each) == Error::kDelay; });
  };
  const auto done = [&] { return std::ranges::count_if(results, [](const auto& each) { return each.has_value(); }); };
  while (delayed() < static_cast<ptrdiff_t>(kCalls - 4)) loop_.context().run_one();
  EXPECT_EQ(delayed(), done()) << "the others wait for the cluster";
  cluster_->Set([&] { cluster_->hangs = false; });
  while (done() < static_cast<ptrdiff_t>(kCalls)) loop_.context().run_one();
  EXPECT_TRUE(Await(fs->GetAttributes(root_, file)));
}

TEST_F(CephFileSystemTest, ItsEndGivesBackFilesAndReferences) {
  auto fs = Serve();
  ASSERT_TRUE(Write(*fs, FileOf(*fs), "text").result);
  fs.reset();
  EXPECT_EQ(cluster_->open_files, 0u);
  EXPECT_EQ(cluster_->references, 0u);
  EXPECT_EQ(cluster_->syncs, 1u);
}

TEST_F(CephFileSystemTest, TheEndOfAnExportDoesNotWaitForAClusterThatStalls) {
  const CapturedLog log;
  auto fs = Serve();
  const Handle file = FileOf(*fs);
  ASSERT_TRUE(Write(*fs, file, "text").result);
  cluster_->Set([&] { cluster_->hangs = true; });
  fs.reset();
  EXPECT_NE(log.text().find("the cluster does not answer"), std::string::npos);
  EXPECT_TRUE(Workers::have_left_threads());
  // It goes on.
  cluster_->Set([&] { cluster_->hangs = false; });
  while (cluster_->Get(&TestCluster::references) != 0 || cluster_->Get(&TestCluster::open_files) != 0) {
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace penstock::fs::ceph
