// Delegations (RFC 8881 §10.4) between a whole server and clients, over real sockets. To show that a client does
// something without the server, a test stops the server first.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "server/test_server.h"

namespace penstock::server {
namespace {

using client::Access;
using client::Mount;
using client::Node;

class DelegationsTest : public ServerTest {
 protected:
  using Result = client::Result<void>;

  void WriteFile(std::string_view text) const {
    std::ofstream(tree() / "file", std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
  }

  // Starts a server and runs `use` with a mount of it.
  void Run(Use use) {
    StartServer();
    const auto error = WithMount(std::move(use));
    EXPECT_FALSE(error) << error->message;
  }
};

Task<client::Result<void>> Write(client::File& file, uint64_t offset, std::string text) {
  PENSTOCK_CO_TRY(const auto written, co_await file.Write(offset, AsBytes(text)));
  EXPECT_EQ(written.count, text.size());
  co_return client::Result<void>();
}

// Lets another client write `text` over the beginning of the file.
Task<client::Result<void>> Overwrite(Mount& mount, std::string text) {
  PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
  PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", Access::kBoth));
  PENSTOCK_CO_CHECK(co_await Write(*file, 0, std::move(text)));
  PENSTOCK_CO_CHECK(co_await file->Commit());
  co_return co_await file->Close();
}

TEST_P(DelegationsTest, OpensADelegatedFileWithoutTheServer) {
  WriteFile("hello");
  Run([this](Mount& mount, Workers&) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
    PENSTOCK_CO_TRY(const auto first, co_await mount.OpenFile(node, "file", Access::kRead));
    PENSTOCK_CO_CHECK(co_await first->Close());
    StopServer();
    PENSTOCK_CO_TRY(const client::Attributes known, co_await mount.GetAttributes(node.handle, "file"));
    EXPECT_EQ(known.size, 5u);
    PENSTOCK_CO_TRY(const auto second, co_await mount.OpenFile(node, "file", Access::kRead));
    PENSTOCK_CO_TRY(const auto third, co_await mount.OpenFile(node, "file", Access::kRead));
    PENSTOCK_CO_CHECK(co_await third->Close());
    // The new server has never seen these opens; the client reclaims them.
    StartServer();
    PENSTOCK_CO_TRY(const std::string text, co_await ReadAll(*second));
    EXPECT_EQ(text, "hello");
    co_return co_await second->Close();
  });
}

TEST_P(DelegationsTest, ReclaimsTheDelegationOfAnOpenFile) {
  for (const Access access : {Access::kRead, Access::kBoth}) {
    WriteFile("hello");
    Run([this, access](Mount& mount, Workers&) -> Task<Result> {
      PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
      PENSTOCK_CO_TRY(const auto first, co_await mount.OpenFile(node, "file", access));
      PENSTOCK_CO_TRY(const auto second, co_await mount.OpenFile(node, "file", access));
      StopServer();
      StartServer();
      PENSTOCK_CO_TRY(const std::string text, co_await ReadAll(*first));
      EXPECT_EQ(text, "hello");
      PENSTOCK_CO_CHECK(co_await mount.GetAttributes(node.handle, "file"));
      StopServer();
      PENSTOCK_CO_TRY(const client::Attributes known, co_await mount.GetAttributes(node.handle, "file"));
      EXPECT_EQ(known.size, 5u);
      PENSTOCK_CO_TRY(const auto third, co_await mount.OpenFile(node, "file", access));
      StartServer();
      PENSTOCK_CO_CHECK(co_await third->Close());
      PENSTOCK_CO_CHECK(co_await second->Close());
      co_return co_await first->Close();
    });
    StopServer();
  }
}

TEST_P(DelegationsTest, ReturnsARecalledDelegationAndKeepsTheFileOpen) {
  WriteFile("hello");
  Run([this](Mount& mount, Workers& workers) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
    PENSTOCK_CO_TRY(const auto first, co_await mount.OpenFile(node, "file", Access::kRead));
    PENSTOCK_CO_CHECK(co_await first->Close());
    PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", Access::kRead));
    PENSTOCK_CO_TRY(const client::Attributes before, co_await mount.GetAttributes(node.handle, "file"));
    PENSTOCK_CO_CHECK(co_await WithAnotherMount(mount, workers,
                                                [](Mount& other, Workers&) { return Overwrite(other, "other data"); }));
    PENSTOCK_CO_TRY(const client::Attributes after, co_await mount.GetAttributes(node.handle, "file"));
    EXPECT_EQ(after.size, 10u);
    EXPECT_NE(after.change, before.change);
    PENSTOCK_CO_TRY(const std::string text, co_await ReadAll(*file));
    EXPECT_EQ(text, "other data");
    co_return co_await file->Close();
  });
}

TEST_P(DelegationsTest, TheHolderAndOtherClientsSeeTheWritesOfTheHolder) {
  Run([this](Mount& mount, Workers& workers) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    const client::Handle& handle = file->node().handle;
    PENSTOCK_CO_TRY(const client::Attributes empty, co_await mount.GetAttributes(handle, "file"));
    EXPECT_EQ(empty.size, 0u);
    PENSTOCK_CO_CHECK(co_await Write(*file, 0, "some data"));
    PENSTOCK_CO_TRY(const client::Attributes written, co_await mount.GetAttributes(handle, "file"));
    EXPECT_EQ(written.size, 9u);
    EXPECT_NE(written.change, empty.change);
    const auto look = [](Mount& other, Workers&) -> Task<Result> {
      // The server asks the holder (CB_GETATTR).
      PENSTOCK_CO_TRY(const Node found, co_await Find(other, "file"));
      EXPECT_EQ(found.attributes.size, 9u);
      co_return Result();
    };
    PENSTOCK_CO_CHECK(co_await WithAnotherMount(mount, workers, look));
    PENSTOCK_CO_CHECK(co_await mount.SetAttributes(handle, "file", {.mode = 0600, .size = 4}));
    PENSTOCK_CO_TRY(const client::Attributes cut, co_await mount.GetAttributes(handle, "file"));
    EXPECT_EQ(cut.size, 4u);
    EXPECT_EQ(cut.mode, 0600u);
    PENSTOCK_CO_CHECK(co_await mount.Link(handle, top.handle, "second name"));
    PENSTOCK_CO_TRY(const client::Attributes linked, co_await mount.GetAttributes(handle, "file"));
    EXPECT_EQ(linked.links, 2u);
    PENSTOCK_CO_CHECK(co_await mount.Remove(top.handle, "second name"));
    PENSTOCK_CO_TRY(const client::Attributes removed, co_await mount.GetAttributes(handle, "file"));
    EXPECT_EQ(removed.links, 1u);
    co_return co_await file->Close();
  });
}

// The holder of the delegation creates the file again, which truncates it.
TEST_P(DelegationsTest, TheHolderSeesThatItsCreateEmptiedAnExistingFile) {
  Run([](Mount& mount, Workers&) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const auto first, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_CHECK(co_await Write(*first, 0, "some data"));
    PENSTOCK_CO_TRY(const client::Attributes full, co_await mount.GetAttributes(first->node().handle, "file"));
    EXPECT_EQ(full.size, 9u);
    PENSTOCK_CO_TRY(const auto second, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_TRY(const client::Attributes cut, co_await mount.GetAttributes(first->node().handle, "file"));
    EXPECT_EQ(cut.size, 0u);
    PENSTOCK_CO_CHECK(co_await second->Close());
    co_return co_await first->Close();
  });
}

TEST_P(DelegationsTest, TheServerGrantsLocksAlsoUnderADelegation) {
  WriteFile("hello");
  Run([this](Mount& mount, Workers& workers) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
    PENSTOCK_CO_TRY(const auto first, co_await mount.OpenFile(node, "file", Access::kBoth));
    PENSTOCK_CO_CHECK(co_await first->Close());
    PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", Access::kBoth));
    PENSTOCK_CO_CHECK(co_await file->Lock("one", {0, 10}, client::LockKind::kExclusive));
    const auto lock = [](Mount& other, Workers&) -> Task<Result> {
      PENSTOCK_CO_TRY(const Node found, co_await Find(other, "file"));
      PENSTOCK_CO_TRY(const auto theirs, co_await other.OpenFile(found, "file", Access::kBoth));
      co_await ExpectRefusal(theirs->Lock("two", {5, 10}, client::LockKind::kShared), client::Status::kDenied);
      PENSTOCK_CO_CHECK(co_await theirs->Lock("two", {10, 10}, client::LockKind::kShared));
      co_return co_await theirs->Close();
    };
    PENSTOCK_CO_CHECK(co_await WithAnotherMount(mount, workers, lock));
    co_return co_await file->Close();
  });
}

// RFC 8881 §10.4.5: the holder's loop does not run, so the holder does not receive the recall, and the server revokes.
TEST_P(DelegationsTest, TheClientStopsUsingARevokedDelegation) {
  grace_ = std::chrono::seconds(1);
  WriteFile("hello");
  Run([this](Mount& mount, Workers&) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
    PENSTOCK_CO_TRY(const auto first, co_await mount.OpenFile(node, "file", Access::kRead));
    PENSTOCK_CO_CHECK(co_await first->Close());
    PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", Access::kRead));
    std::optional<client::Error> failure;
    std::thread other(
        [&] { failure = WithMount([](Mount& theirs, Workers&) { return Overwrite(theirs, "other data"); }); });
    other.join();
    EXPECT_FALSE(failure) << failure->message;
    PENSTOCK_CO_TRY(const client::Attributes now, co_await mount.GetAttributes(node.handle, "file"));
    EXPECT_EQ(now.size, 10u);
    PENSTOCK_CO_TRY(const std::string text, co_await ReadAll(*file));
    EXPECT_EQ(text, "other data");
    co_return co_await file->Close();
  });
}

// RFC 8881 §10.4.5: the holder has not opened the file, so no operation fails; only the flags of SEQUENCE report the
// revocation.
TEST_P(DelegationsTest, TheClientLearnsOfARevocationFromSequenceAlone) {
  grace_ = std::chrono::seconds(1);
  WriteFile("hello");
  Run([this](Mount& mount, Workers&) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
    PENSTOCK_CO_TRY(const auto first, co_await mount.OpenFile(node, "file", Access::kRead));
    PENSTOCK_CO_CHECK(co_await first->Close());
    for (const std::string text : {"other data", "still other data"}) {
      std::optional<client::Error> failure;
      std::thread other([&] { failure = WithMount([&](Mount& theirs, Workers&) { return Overwrite(theirs, text); }); });
      other.join();
      EXPECT_FALSE(failure) << failure->message;
      for (int i = 0; i < 3; ++i) {
        PENSTOCK_CO_TRY(const client::Attributes now, co_await mount.GetAttributes(node.handle, "file"));
        EXPECT_EQ(now.size, text.size());
      }
    }
    co_return Result();
  });
}

// The server delegates more files than the client keeps delegations. The mount ends while it holds some.
TEST_P(DelegationsTest, TheClientReturnsDelegationsBeyondItsLimit) {
  delegations_ = 8;
  Run([](Mount& mount, Workers&) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
    for (int i = 0; i < 20; ++i) {
      PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, fmt::format("file {}", i), 0644));
      PENSTOCK_CO_CHECK(co_await Write(*file, 0, "x"));
      PENSTOCK_CO_CHECK(co_await file->Close());
    }
    for (int i = 0; i < 20; ++i) {
      PENSTOCK_CO_TRY(const Node node, co_await Find(mount, fmt::format("file {}", i)));
      PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", Access::kRead));
      PENSTOCK_CO_TRY(const std::string text, co_await ReadAll(*file));
      EXPECT_EQ(text, "x");
      PENSTOCK_CO_CHECK(co_await file->Close());
    }
    co_return Result();
  });
}

// Two clients that perform random operations on a few files in turn, and the expected contents of the files. Each
// client must see the changes of the other at once, whichever of them holds a delegation.
class Pair {
 public:
  Pair(Mount& one, Mount& other) : mounts_{&one, &other} {}

  Task<client::Result<void>> Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      // The server does not soon delegate a file again whose delegation it recalled, but it delegates new files.
      if (step % 12 == 0) PENSTOCK_CO_CHECK(co_await MakeFiles(step));
      PENSTOCK_CO_CHECK(co_await Step());
    }
    for (Open& open : open_) PENSTOCK_CO_CHECK(co_await open.file->Close());
    co_return client::Result<void>();
  }

 private:
  struct Known {
    client::Node node;
    size_t maker;  // the client that created the file and first holds its delegation
    std::string content;
  };
  struct Open {
    std::unique_ptr<client::File> file;
    size_t of;
    bool writes;
  };

  size_t Random(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

  Task<client::Result<void>> MakeFiles(int step) {
    for (size_t maker = 0; maker < 2; ++maker) {
      Mount& mount = *mounts_[maker];
      PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
      PENSTOCK_CO_TRY(auto file, co_await mount.CreateFile(top.handle, fmt::format("file {} {}", step, maker), 0644));
      files_.push_back({file->node(), maker, ""});
      open_.push_back({std::move(file), files_.size() - 1, true});
    }
    co_return client::Result<void>();
  }

  Task<client::Result<void>> Step() {
    // Uses the two newest files, mostly through the client that created the file.
    const size_t of = files_.size() - 1 - Random(2);
    Mount& mount = *mounts_[Random(6) > 0 ? files_[of].maker : 1 - files_[of].maker];
    switch (Random(8)) {
      case 0: {
        const bool writes = Random(2) == 0;
        const Access access = writes ? Access::kBoth : Access::kRead;
        PENSTOCK_CO_TRY(auto file, co_await mount.OpenFile(files_[of].node, "file", access));
        open_.push_back({std::move(file), of, writes});
        co_return client::Result<void>();
      }
      case 1: {
        if (open_.empty()) co_return client::Result<void>();
        const size_t which = Random(open_.size());
        const std::unique_ptr<client::File> file = std::move(open_[which].file);
        open_.erase(open_.begin() + static_cast<ptrdiff_t>(which));
        co_return co_await file->Close();
      }
      case 2: {
        files_[of].content.resize(Random(60));
        const client::NewAttributes cut{.size = files_[of].content.size()};
        co_return co_await mount.SetAttributes(files_[of].node.handle, "file", cut);
      }
      case 3:
      case 4:
      case 5: {
        PENSTOCK_CO_TRY(const client::Attributes told, co_await mount.GetAttributes(files_[of].node.handle, "file"));
        EXPECT_EQ(told.size, files_[of].content.size());
        co_return client::Result<void>();
      }
      default:
        if (open_.empty()) co_return client::Result<void>();
        co_return co_await Use(open_[open_.size() - 1 - Random(std::min<size_t>(open_.size(), 5))]);
    }
  }

  Task<client::Result<void>> Use(Open& open) {
    std::string& content = files_[open.of].content;
    if (open.writes && Random(2) == 0) {
      const size_t offset = Random(40);
      const std::string text = fmt::format("{:04}", Random(10000));
      content.resize(std::max(content.size(), offset + text.size()));
      content.replace(offset, text.size(), text);
      co_return co_await Write(*open.file, offset, text);
    }
    PENSTOCK_CO_TRY(const std::string text, co_await ReadAll(*open.file));
    EXPECT_EQ(text, content);
    co_return client::Result<void>();
  }

  const std::array<Mount*, 2> mounts_;
  std::vector<Known> files_;
  std::vector<Open> open_;
  std::mt19937 random_{12345};
};

TEST_P(DelegationsTest, TwoClientsSeeEachOthersChangesAtOnce) {
  Run([this](Mount& mount, Workers& workers) -> Task<Result> {
    co_return co_await WithAnotherMount(mount, workers, [&mount](Mount& other, Workers&) -> Task<Result> {
      Pair pair(mount, other);
      co_return co_await pair.Run(600);
    });
  });
}

INSTANTIATE_TEST_SUITE_P(All, DelegationsTest,
                         testing::Combine(testing::Values(Protocol::kTcp, Protocol::kRdma),
                                          testing::Values(Version::k41)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param) == Protocol::kTcp ? "Tcp" : "Rdma");
                         });

}  // namespace
}  // namespace penstock::server
