#include "client/copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/data.h"
#include "base/test_loop.h"

namespace penstock::client {
namespace {

// One file of a server, and the events that happen before certain calls.
struct FakeServer {
  std::string stable;      // survives a restart
  std::string current;     // the data for READ and GETATTR
  uint8_t life = 1;        // the number of the run of the server; makes the verifier
  int calls = 0;           // the number of executed calls
  std::set<int> restarts;  // the server restarts before the calls with these numbers; the first call is 1
  bool restarts_always = false;
  int changes_at = 0;  // before this call another client replaces the data by `changed`
  std::string changed;
  uint32_t longest = 1000;  // the most octets that one call transfers

  void Restart() {
    current = stable;
    ++life;
  }
  void BeforeCall() {
    ++calls;
    if (restarts_always || restarts.contains(calls)) Restart();
    if (changes_at == calls) current = changed;
  }
  Verifier verifier() const { return {std::byte{life}}; }
};

class FakeMount final : public Mount {
 public:
  FakeMount(Loop& loop, FakeServer& server, uint32_t size) : Mount(loop, Url()), server_(server) {
    sizes_ = {.read = size, .write = size, .directory = size};
  }

  Task<Result<Attributes>> GetAttributes(const Handle&, std::string_view) override {
    Attributes attributes;
    attributes.size = server_.current.size();
    co_return attributes;
  }

  // A copy calls none of these functions.
  Task<void> Unmount() override { co_return; }
  void Abort() override { ADD_FAILURE() << "not for a copy"; }
  std::string_view version() const override { return "3"; }
  uint64_t reconnections() const override { return 0; }
  SetupError trouble() const override { return {}; }
  Task<Result<void>> Ping() override { co_return Unexpected(); }
  Task<Result<Node>> Lookup(const Handle&, std::string_view) override { co_return Unexpected(); }
  Task<Result<std::string>> ReadLink(const Handle&, std::string_view) override { co_return Unexpected(); }
  Task<Result<Space>> GetSpace(const Handle&, std::string_view) override { co_return Unexpected(); }
  Task<Result<std::unique_ptr<File>>> OpenFile(const Node&, std::string_view, Access) override {
    co_return Unexpected();
  }
  Task<Result<std::unique_ptr<File>>> CreateFile(const Handle&, std::string_view, uint32_t, CreateMode,
                                                 Access) override {
    co_return Unexpected();
  }
  Task<Result<void>> SetAttributes(const Handle&, std::string_view, const NewAttributes&) override {
    co_return Unexpected();
  }
  Task<Result<Node>> MakeDirectory(const Handle&, std::string_view, uint32_t) override { co_return Unexpected(); }
  Task<Result<Node>> MakeSymlink(const Handle&, std::string_view, std::string_view) override { co_return Unexpected(); }
  Task<Result<void>> Link(const Handle&, const Handle&, std::string_view) override { co_return Unexpected(); }
  Task<Result<void>> Rename(const Handle&, std::string_view, const Handle&, std::string_view) override {
    co_return Unexpected();
  }
  Task<Result<void>> Remove(const Handle&, std::string_view) override { co_return Unexpected(); }
  Task<Result<void>> RemoveDirectory(const Handle&, std::string_view) override { co_return Unexpected(); }
  Task<Result<Node>> MakeNode(const Handle&, std::string_view, FileType, uint32_t, uint32_t, uint32_t) override {
    co_return Unexpected();
  }
  Task<Result<Granted>> CheckAccess(const Handle&, std::string_view, uint32_t) override { co_return Unexpected(); }
  Task<Result<Listing>> ListFrom(const Handle&, std::string_view, ListPosition, ListContent) override {
    co_return Unexpected();
  }

 private:
  static std::unexpected<Error> Unexpected() {
    ADD_FAILURE() << "not for a copy";
    return std::unexpected(Error{"not for a copy", std::nullopt});
  }

  FakeServer& server_;
};

// The server executes calls in their order. If several replies are on their way, the newest arrives first.
class FakeFile final : public File {
 public:
  FakeFile(Loop& loop, FakeServer& server) : File(Node(), "remote"), loop_(loop), server_(server) {}

  Task<Result<FetchReply>> Fetch(uint64_t offset, Bytes into) override {
    server_.BeforeCall();
    const std::string& data = server_.current;
    size_t count = 0;
    if (offset < data.size()) {
      count = std::min<uint64_t>({into.size(), data.size() - offset, uint64_t{server_.longest}});
    }
    CopyBytes(into, AsBytes(data).subspan(std::min<size_t>(offset, data.size()), count));
    const FetchReply reply{Slice::Borrowed(into.first(count)), offset + count >= data.size()};
    co_await Reply();
    co_return reply;
  }

  Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from, Stability) override {
    server_.BeforeCall();
    from = from.first(std::min<size_t>(from.size(), server_.longest));
    std::string& data = server_.current;
    data.resize(std::max<size_t>(data.size(), offset + from.size()));
    std::ranges::transform(from, data.begin() + static_cast<ptrdiff_t>(offset), [](std::byte b) { return char(b); });
    const WriteReply reply{static_cast<uint32_t>(from.size()), server_.verifier()};
    co_await Reply();
    co_return reply;
  }

  Task<Result<Verifier>> Commit() override {
    server_.BeforeCall();
    server_.stable = server_.current;
    const Verifier verifier = server_.verifier();
    co_await Reply();
    co_return verifier;
  }

  Task<Result<void>> Lock(std::string, ByteRange, LockKind, Duration, Cancellation*) override {
    co_return Result<void>();
  }
  Task<Result<void>> Unlock(std::string, ByteRange) override { co_return Result<void>(); }
  Task<Result<std::optional<LockConflict>>> TestLock(std::string, ByteRange, LockKind) override {
    co_return std::nullopt;
  }
  Task<Result<void>> SetSize(uint64_t) override { co_return Result<void>(); }
  Task<Result<void>> Close() override { co_return Result<void>(); }

 private:
  Task<void> Reply() {
    OneShot<> arrived;
    under_way_.push_back(&arrived);
    Spawn([](FakeFile& self) -> Task<void> {
      co_await Sleep(self.loop_, Duration::zero());
      OneShot<>* last = self.under_way_.back();
      self.under_way_.pop_back();
      last->Set();
    }(*this));
    co_await arrived;
  }

  Loop& loop_;
  FakeServer& server_;
  std::vector<OneShot<>*> under_way_;
};

class CopyTest : public testing::Test {
 protected:
  using Copied = Result<uint64_t>;
  CopyTest() { WriteLocal("what was here"); }

  Copied Run(Task<Copied> task) {
    std::optional<Copied> result;
    Spawn([](Task<Copied> inner, std::optional<Copied>& out) -> Task<void> { out.emplace(co_await std::move(inner)); }(
                                                                 std::move(task), result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    return *std::move(result);
  }
  Copied Get(CopyOptions options = {}) {
    FakeFile file(loop, server);
    FakeMount mount(loop, server, kPiece);
    return Run(Download(mount, workers, file, local.get(), std::move(options)));
  }
  Copied Put(const std::string& text, CopyOptions options = {}) {
    WriteLocal(text);
    FakeFile file(loop, server);
    FakeMount mount(loop, server, kPiece);
    return Run(Upload(mount, workers, local.get(), text.size(), file, std::move(options)));
  }
  void WriteLocal(std::string_view text) const {
    EXPECT_EQ(::ftruncate(local.get(), 0), 0);
    EXPECT_EQ(::pwrite(local.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  std::string ReadLocal() const {
    std::string text(1000, '\0');
    const ssize_t n = ::pread(local.get(), text.data(), text.size(), 0);
    text.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return text;
  }

  static constexpr uint32_t kPiece = 4;
  inline static const std::string kText = "seven pieces of four octets";
  Loop loop;
  Workers workers{2};
  FakeServer server;
  const FileDescriptor local{::memfd_create("local", MFD_CLOEXEC)};
};

TEST_F(CopyTest, DownloadCopiesAllDataAndTruncatesALongerFile) {
  for (const unsigned in_flight : {1u, 3u, 20u}) {
    for (const uint32_t longest : {1000u, 3u}) {
      server.current = kText;
      server.longest = longest;
      WriteLocal(kText + kText);
      const Copied copied = Get({.in_flight = in_flight});
      ASSERT_TRUE(copied) << copied.error().message;
      EXPECT_EQ(*copied, kText.size());
      EXPECT_EQ(ReadLocal(), kText);
    }
  }
}

// Before each of the reads another client truncates the file: to zero octets, within a piece, or between two pieces.
TEST_F(CopyTest, DownloadOfAFileThatShrinksFails) {
  for (int call = 1; call <= 7; ++call) {
    for (const size_t left : {0, 4, 5, 23}) {
      for (const unsigned in_flight : {1u, 3u}) {
        server = {};
        server.current = kText;
        server.changes_at = call;
        server.changed = kText.substr(0, left);
        const Copied copied = Get({.in_flight = in_flight});
        // All reads may have come before the truncation.
        if (copied) {
          EXPECT_EQ(*copied, kText.size());
          EXPECT_EQ(ReadLocal(), kText) << "call " << call << ", cut to " << left;
        }
        if (in_flight == 1 && left < 24) {
          ASSERT_FALSE(copied) << "call " << call << ", cut to " << left;
          EXPECT_NE(copied.error().message.find("remote: became shorter"), std::string::npos) << copied.error().message;
        }
      }
    }
  }
}

TEST_F(CopyTest, DownloadOfAGrowingFileCopiesTheSizeThatItHad) {
  for (const int call : {1, 3, 7}) {
    server = {};
    server.current = kText;
    server.changes_at = call;
    server.changed = kText + " and more";
    const Copied copied = Get({.in_flight = 2});
    ASSERT_TRUE(copied) << copied.error().message;
    EXPECT_EQ(*copied, kText.size());
    EXPECT_EQ(ReadLocal(), kText);
  }
}

TEST_F(CopyTest, DownloadIntoAPipeKeepsTheOrder) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor out(ends[0]);
  const FileDescriptor in(ends[1]);
  server.current = kText;
  server.longest = 3;
  FakeFile file(loop, server);
  FakeMount mount(loop, server, kPiece);
  const Copied copied = Run(Download(mount, workers, file, in.get(), {.in_flight = 8, .in_order = true}));
  ASSERT_TRUE(copied) << copied.error().message;
  std::string got(100, '\0');
  const ssize_t n = ::read(out.get(), got.data(), got.size());
  got.resize(n < 0 ? 0 : static_cast<size_t>(n));
  EXPECT_EQ(got, kText);
}

TEST_F(CopyTest, DownloadNamesTheLocalFileThatCannotBeWritten) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full) GTEST_SKIP() << "there is no /dev/full";
  server.current = kText;
  FakeFile file(loop, server);
  FakeMount mount(loop, server, kPiece);
  const Copied copied = Run(Download(mount, workers, file, full.get(), {.in_order = true, .local_name = "/dev/full"}));
  ASSERT_FALSE(copied);
  EXPECT_NE(copied.error().message.find("cannot write /dev/full: "), std::string::npos) << copied.error().message;
}

TEST_F(CopyTest, UploadOfAFileThatShrinksFails) {
  FakeFile file(loop, server);
  FakeMount mount(loop, server, kPiece);
  const Copied copied = Run(Upload(mount, workers, local.get(), 1000, file, {.local_name = "mine"}));
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().message, "mine became shorter while it was copied");
}

// RFC 1813 §4.11: a restart of the server loses uncommitted data. The server restarts before each call `first`,
// and again before the same or a later call `second`.
TEST_F(CopyTest, UploadSurvivesRestartsOfTheServerAtEveryPoint) {
  constexpr int kCalls = 17;  // twice seven WRITEs and a COMMIT, and one more call
  for (const unsigned in_flight : {1u, 3u}) {
    for (const uint32_t longest : {1000u, 3u}) {
      for (int first = 1; first <= kCalls; ++first) {
        for (int second = first; second <= kCalls; ++second) {
          server = {};
          server.longest = longest;
          server.restarts = {first, second};
          const Copied copied = Put(kText, {.in_flight = in_flight});
          ASSERT_TRUE(copied) << copied.error().message;
          server.Restart();
          ASSERT_EQ(server.current, kText) << "restarts before the calls " << first << " and " << second << " of "
                                           << server.calls << ", " << in_flight << " in flight";
        }
      }
    }
  }
}

TEST_F(CopyTest, UploadWithoutARestartWritesOnce) {
  ASSERT_TRUE(Put(kText));
  EXPECT_EQ(server.calls, 8);
  EXPECT_EQ(server.stable, kText);
}

TEST_F(CopyTest, UploadFailsIfTheServerAlwaysLosesTheData) {
  server.restarts_always = true;
  const Copied copied = Put(kText);
  ASSERT_FALSE(copied);
  EXPECT_NE(copied.error().message.find("remote: "), std::string::npos) << copied.error().message;
}

}  // namespace
}  // namespace penstock::client
