// A mount with several connections (nconnect) to a whole server, whose loops share the connections.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "client/pieces.h"
#include "server/administration.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using client::Mount;
using client::Node;

constexpr uint32_t kConnections = 4;
constexpr uint32_t kPiece = 64 << 10;
constexpr size_t kSize = 64 * kPiece + 3;
constexpr unsigned kAtOnce = 16;

class SeveralConnectionsTest : public ServerTest {
 protected:
  using Result = client::Result<void>;

  SeveralConnectionsTest() {
    nconnect_ = kConnections;
    std::minstd_rand random(1);
    for (char& each : contents_) each = static_cast<char>(random());
  }

  bool HasSession() const { return version() == Version::k41 || version() == Version::k42; }
  Task<Result> WriteAll(client::File& file) {
    const auto write = [this, &file](uint64_t offset, uint32_t count) { return WritePiece(file, offset, count); };
    PENSTOCK_CO_CHECK(co_await client::MovePieces(kSize, kPiece, kAtOnce, write));
    PENSTOCK_CO_CHECK(co_await file.Commit());
    co_return Result();
  }
  Task<Result> WritePiece(client::File& file, uint64_t offset, uint32_t count) {
    const ConstBytes piece = AsBytes(contents_).subspan(offset, count);
    PENSTOCK_CO_TRY(const auto written, co_await file.Write(offset, piece));
    EXPECT_EQ(written.count, count);
    co_return Result();
  }
  Task<Result> ReadAll(client::File& file, std::string& into) {
    into.assign(kSize, '\0');
    const auto read = [&file, &into](uint64_t offset, uint32_t count) { return ReadPiece(file, into, offset, count); };
    co_return co_await client::MovePieces(kSize, kPiece, kAtOnce, read);
  }
  static Task<Result> ReadPiece(client::File& file, std::string& into, uint64_t offset, uint32_t count) {
    const Bytes piece = std::as_writable_bytes(std::span(into)).subspan(offset, count);
    PENSTOCK_CO_TRY(const auto got, co_await file.Read(offset, piece));
    EXPECT_EQ(got.count, count);
    co_return Result();
  }

  std::string contents_ = std::string(kSize, '\0');
};
INSTANTIATE_TEST_SUITE_P(All, SeveralConnectionsTest,
                         testing::Combine(testing::Values(Protocol::kTcp, Protocol::kRdma),
                                          testing::Values(Version::k3, Version::k40, Version::k41, Version::k42)),
                         [](const auto& test) {
                           return NameOf(std::get<0>(test.param)) + NameOf(std::get<1>(test.param));
                         });

TEST_P(SeveralConnectionsTest, AFileMovesOverAllOfThem) {
  StartServer();
  const auto error = WithMount([this](Mount& mount, Workers&) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node top, co_await mount.Resolve(mount.path()));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    std::string got;
    Administration administration(*server_);
    for (int i = 0; i < 100 && administration.Connections().size() < kConnections; ++i) {
      PENSTOCK_CO_CHECK(co_await WriteAll(*file));
      PENSTOCK_CO_CHECK(co_await ReadAll(*file, got));
      EXPECT_TRUE(got == contents_);
    }
    EXPECT_EQ(administration.Connections().size(), kConnections);
    ExpectAllConnectionsIn(HasSession() ? 1 : 0);
    co_return co_await file->Close();
  });
  EXPECT_FALSE(error) << error->message;
  EXPECT_TRUE(ReadFile(tree() / "file") == contents_);
}

TEST_P(SeveralConnectionsTest, AllComeBackAfterARestart) {
  StartServer();
  const auto error = WithMount([this](Mount& mount, Workers& workers) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node top, co_await mount.Resolve(mount.path()));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_CHECK(co_await WriteAll(*file));
    // The calls of the reader find that all connections are lost, while the server is away.
    co_await Offload(mount.loop(), workers, [this] {
      RestartServer();
      return true;
    });
    std::string got;
    for (int i = 0; i < 100 && Administration(*server_).Connections().size() < kConnections; ++i) {
      PENSTOCK_CO_CHECK(co_await ReadAll(*file, got));
      EXPECT_TRUE(got == contents_);
    }
    EXPECT_EQ(Administration(*server_).Connections().size(), kConnections);
    EXPECT_GE(mount.reconnections(), 1u);
    PENSTOCK_CO_CHECK(co_await WriteAll(*file));
    co_return co_await file->Close();
  });
  EXPECT_FALSE(error) << error->message;
  EXPECT_TRUE(ReadFile(tree() / "file") == contents_);
}

}  // namespace
}  // namespace penstock::server
