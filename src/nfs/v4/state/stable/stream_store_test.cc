// Tests both stream stores with one suite, and the store in files with another one.
#include "nfs/v4/state/stable/stream_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "xdr/flatten.h"

namespace {
bool disk_fails = false;
}  // namespace

// In place of the system's function, in this program: the disk fails on demand.
extern "C" [[gnu::visibility("default")]] int fdatasync(int file) {
  if (!disk_fails) return ::fsync(file);
  errno = EIO;
  return -1;
}

namespace penstock::nfs::v4 {
namespace {

using sess01::ChannelId;
using sess01::StreamId;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

BoundSessionRecord RecordOf(uint64_t id) {
  return {.id = id,
          .created = 0x1'0000'0002,
          .owner = "owner",
          .verifier = {std::byte{1}, std::byte{2}},
          .principal = {.flavor = rpc::AuthFlavor::RPCSEC_GSS, .name = "name"},
          .streams = 4,
          .reply = 1000};
}

StreamRecord Name(uint32_t channel, uint32_t xid) {
  return {.channel = ChannelId(channel), .xid = rpc::Xid(xid), .digest = 0x1122'3344'5566'7788};
}

// The text outlives the record.
StreamRecord Request(uint32_t channel, uint32_t xid, std::string_view text) {
  StreamRecord request = Name(channel, xid);
  request.results = xdr::Message::Whole(Slice::Borrowed(AsBytes(text)));
  return request;
}

std::string TextOf(const StreamRecord& request) {
  return request.results ? std::string(AsText(request.results->stream.bytes())) : "(none)";
}

class StreamStoreTest : public testing::TestWithParam<const char*> {
 protected:
  StreamStoreTest() {
    if (!in_memory()) {
      std::string name = testing::TempDir() + "/streams.XXXXXX";
      EXPECT_TRUE(::mkdtemp(name.data()));
      path_ = name;
    }
    EXPECT_THAT(Start(), IsEmpty());
  }
  ~StreamStoreTest() override {
    store_.reset();
    if (!in_memory()) std::filesystem::remove_all(path_);
  }
  bool in_memory() const { return std::string_view(GetParam()) == "memory"; }
  std::filesystem::path directory() const { return path_ / "sessions"; }
  std::filesystem::path file() const { return *std::filesystem::directory_iterator(directory()); }

  // Starts or restarts the server.
  std::vector<SavedBoundSession> Start() {
    if (in_memory()) {
      if (!store_) store_ = std::make_unique<MemoryStreamStore>();
    } else {
      store_.reset();
      auto opened = OpenStreamStore(directory().string());
      EXPECT_TRUE(opened) << opened.error().message;
      store_ = *std::move(opened);
    }
    return store_->Load();
  }
  // The last request of stream 2 of the only session, after a restart.
  StreamRecord LastAfterRestart() {
    auto saved = Start();
    EXPECT_THAT(saved, SizeIs(1));
    return saved.at(0).streams.at(2).value();
  }

  std::filesystem::path path_;
  std::unique_ptr<StreamStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, StreamStoreTest, testing::Values("memory", "files"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(StreamStoreTest, ASessionAndItsClientSurviveARestart) {
  ASSERT_TRUE(store_->Create(RecordOf(0xabcd)));
  const auto saved = Start();
  ASSERT_THAT(saved, SizeIs(1));
  EXPECT_EQ(saved[0].session.id, 0xabcdu);
  EXPECT_EQ(saved[0].session.created, 0x1'0000'0002u);
  EXPECT_EQ(saved[0].session.owner, "owner");
  EXPECT_EQ(saved[0].session.verifier, RecordOf(0).verifier);
  EXPECT_EQ(saved[0].session.principal, RecordOf(0).principal);
  EXPECT_EQ(saved[0].channels.end, ChannelId(0));
  EXPECT_THAT(saved[0].streams, SizeIs(4));
}

TEST_P(StreamStoreTest, ARequestThatWasBegunIsKnownWithoutResults) {
  const auto session = store_->Create(RecordOf(1));
  EXPECT_TRUE(session->Begin(StreamId(2), Name(3, 7), true));
  const StreamRecord last = LastAfterRestart();
  EXPECT_EQ(last.channel, ChannelId(3));
  EXPECT_EQ(last.xid, rpc::Xid(7));
  EXPECT_EQ(last.digest, 0x1122'3344'5566'7788u);
  EXPECT_FALSE(last.results);
}

TEST_P(StreamStoreTest, ARequestThatHasEndedIsKnownWithItsResults) {
  const auto session = store_->Create(RecordOf(1));
  EXPECT_TRUE(session->Begin(StreamId(2), Name(3, 7), true));
  EXPECT_TRUE(session->Keep(StreamId(2), Request(3, 7, "results."), true));
  const StreamRecord last = LastAfterRestart();
  EXPECT_EQ(last.xid, rpc::Xid(7));
  EXPECT_EQ(TextOf(last), "results.");
}

TEST_P(StreamStoreTest, TheResultsOfTheRequestBeforeAreNotThoseOfARequestThatWasBegun) {
  const auto session = store_->Create(RecordOf(1));
  EXPECT_TRUE(session->Begin(StreamId(2), Name(3, 7), true));
  EXPECT_TRUE(session->Keep(StreamId(2), Request(3, 7, "results."), true));
  // The same XID over another channel is another request.
  EXPECT_TRUE(session->Begin(StreamId(2), Name(4, 7), true));
  const StreamRecord last = LastAfterRestart();
  EXPECT_EQ(last.channel, ChannelId(4));
  EXPECT_FALSE(last.results);
}

TEST_P(StreamStoreTest, ChannelNumbersAndTheBackChannelSurviveARestart) {
  const auto session = store_->Create(RecordOf(1));
  EXPECT_TRUE(session->Reserve({.end = ChannelId(1025), .had_back = true}));
  EXPECT_TRUE(session->Reserve({.end = ChannelId(2049), .had_back = false}));
  auto saved = Start();
  EXPECT_EQ(saved.at(0).channels.end, ChannelId(2049));
  EXPECT_TRUE(saved[0].channels.had_back);
  EXPECT_TRUE(saved[0].storage->Reserve({.end = ChannelId(3073), .had_back = false}));
  saved = Start();
  EXPECT_EQ(saved.at(0).channels.end, ChannelId(3073));
  EXPECT_TRUE(saved[0].channels.had_back);
}

TEST_P(StreamStoreTest, TheNumberOfStreamIdsFallsAndSurvivesARestart) {
  const auto session = store_->Create(RecordOf(1));
  EXPECT_TRUE(session->Reserve({.end = ChannelId(1025), .had_back = true}));
  EXPECT_EQ(Start().at(0).channels.streams, 0u);
  auto saved = Start();
  EXPECT_TRUE(saved.at(0).storage->Reserve({.end = ChannelId(1025), .streams = 3}));
  saved = Start();
  EXPECT_EQ(saved.at(0).channels.streams, 3u);
  EXPECT_EQ(saved[0].channels.end, ChannelId(1025));
  EXPECT_TRUE(saved[0].channels.had_back);
  // A binding that began before the number has fallen.
  EXPECT_TRUE(saved[0].storage->Reserve({.end = ChannelId(2049)}));
  EXPECT_TRUE(saved[0].storage->Reserve({.end = ChannelId(1025), .streams = 2}));
  EXPECT_TRUE(saved[0].storage->Reserve({.end = ChannelId(1025), .streams = 3}));
  saved = Start();
  EXPECT_EQ(saved.at(0).channels.streams, 2u);
  EXPECT_EQ(saved[0].channels.end, ChannelId(2049));
  // The requests of all streamids still have their room.
  EXPECT_EQ(saved[0].streams.size(), RecordOf(1).streams);
}

TEST_P(StreamStoreTest, ASessionGoesOnAfterARestart) {
  store_->Create(RecordOf(1));
  auto saved = Start();
  EXPECT_TRUE(saved.at(0).storage->Begin(StreamId(2), Name(3, 7), false));
  EXPECT_TRUE(saved[0].storage->Keep(StreamId(2), Request(3, 7, "results."), false));
  EXPECT_EQ(TextOf(LastAfterRestart()), "results.");
}

TEST_P(StreamStoreTest, HasTheRequestedRoomForEachStream) {
  const auto session = store_->Create(RecordOf(1));
  const std::string text(1000, 'x');
  for (uint32_t stream = 0; stream < 4; ++stream) {
    EXPECT_TRUE(session->Begin(StreamId(stream), Name(3, stream), false));
    EXPECT_TRUE(session->Keep(StreamId(stream), Request(3, stream, text), false));
  }
  const auto saved = Start();
  for (uint32_t stream = 0; stream < 4; ++stream) {
    EXPECT_EQ(saved.at(0).streams.at(stream)->xid, rpc::Xid(stream));
    EXPECT_EQ(TextOf(*saved[0].streams[stream]), text);
  }
}

TEST_P(StreamStoreTest, HasRoomForASession) { EXPECT_TRUE(store_->HasRoomFor(RecordOf(1))); }

TEST_P(StreamStoreTest, ARemovedSessionIsForgotten) {
  const auto one = store_->Create(RecordOf(1)), two = store_->Create(RecordOf(2));
  EXPECT_TRUE(one->Remove(true));
  const auto saved = Start();
  ASSERT_THAT(saved, SizeIs(1));
  EXPECT_EQ(saved[0].session.id, 2u);
}

class StreamFilesTest : public StreamStoreTest {
 protected:
  // Changes one octet of the file.
  void Flip(size_t at) {
    std::fstream octets(file(), std::ios::binary | std::ios::in | std::ios::out);
    octets.seekg(static_cast<std::streamoff>(at));
    const auto octet = static_cast<char>(octets.get() ^ 1);
    octets.seekp(static_cast<std::streamoff>(at));
    octets.put(octet);
  }
  std::string Refusal() {
    store_.reset();
    const auto opened = OpenStreamStore(directory().string());
    return opened ? "" : opened.error().message;
  }
  void Put(std::streamoff at, std::string_view octets) {
    std::fstream(file(), std::ios::binary | std::ios::in | std::ios::out).seekp(at) << octets;
  }
  // Where the name of the last request of a stream is, and the request with its results.
  static size_t NameAt(size_t stream) { return 8192 + stream * (512 + 1536); }
  static size_t RecordAt(size_t stream) { return NameAt(stream) + 512; }
};
INSTANTIATE_TEST_SUITE_P(Stores, StreamFilesTest, testing::Values("files"));

// The name was being written when the server stopped, so the request was not executed.
TEST_P(StreamFilesTest, ATornNameLeavesTheRequestBefore) {
  const auto session = store_->Create(RecordOf(1));
  ASSERT_TRUE(session->Begin(StreamId(2), Name(3, 7), false));
  ASSERT_TRUE(session->Keep(StreamId(2), Request(3, 7, "results."), false));
  for (size_t i = 0; i < 24; ++i) {
    ASSERT_TRUE(session->Begin(StreamId(2), Name(4, 8), false));
    Flip(NameAt(2) + i);
    EXPECT_EQ(TextOf(LastAfterRestart()), "results.") << i;
  }
}

TEST_P(StreamFilesTest, TornResultsAreNoResults) {
  const auto session = store_->Create(RecordOf(1));
  ASSERT_TRUE(session->Begin(StreamId(2), Name(3, 7), false));
  for (size_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(session->Keep(StreamId(2), Request(3, 7, "results."), false));
    Flip(RecordAt(2) + i);
    const StreamRecord last = LastAfterRestart();
    EXPECT_EQ(last.xid, rpc::Xid(7)) << i;
    EXPECT_FALSE(last.results) << i;
  }
}

TEST_P(StreamFilesTest, ATornEndOfTheChannelNumbersLeavesTheOneBefore) {
  const auto session = store_->Create(RecordOf(1));
  ASSERT_TRUE(session->Reserve({.end = ChannelId(1025)}));
  for (size_t i = 0; i < 16; ++i) {
    Put(4096 + 512, std::string(16, '\0'));
    auto saved = Start();
    ASSERT_TRUE(saved.at(0).storage->Reserve({.end = ChannelId(2049)}));
    Flip(4096 + 512 + i);
    EXPECT_EQ(Start().at(0).channels.end, ChannelId(1025)) << i;
  }
}

TEST_P(StreamFilesTest, ATornNumberOfStreamIdsLeavesTheOneBefore) {
  const auto session = store_->Create(RecordOf(1));
  ASSERT_TRUE(session->Reserve({.end = ChannelId(1025), .streams = 3}));
  ASSERT_TRUE(session->Reserve({.end = ChannelId(1025), .streams = 2}));
  EXPECT_EQ(Start().at(0).channels.streams, 2u);
  Flip(4096 + 512 + 15);
  EXPECT_EQ(Start().at(0).channels.streams, 3u);
}

// Linux reports the failure once, and nobody knows which octets it concerns.
TEST_P(StreamFilesTest, ASessionKeepsNothingMoreAfterTheDiskHasFailed) {
  const auto session = store_->Create(RecordOf(1)), other = store_->Create(RecordOf(2));
  ASSERT_TRUE(session->Reserve({.end = ChannelId(1025)}));
  disk_fails = true;
  EXPECT_FALSE(session->Begin(StreamId(1), Name(3, 7), true));
  disk_fails = false;
  EXPECT_FALSE(session->Begin(StreamId(2), Name(3, 8), true));
  EXPECT_FALSE(session->Begin(StreamId(3), Name(3, 9), false));
  EXPECT_FALSE(session->Keep(StreamId(2), Request(3, 8, "results."), true));
  EXPECT_FALSE(session->Reserve({.end = ChannelId(2049)}));
  EXPECT_TRUE(session->Remove(true));
  EXPECT_TRUE(other->Begin(StreamId(2), Name(3, 7), true)) << "other sessions go on";
}

TEST_P(StreamFilesTest, RemovesAnUnfinishedFile) {
  for (const size_t size : {0, 20, 4096, 16384}) {
    store_->Create(RecordOf(1));
    std::filesystem::resize_file(file(), 0);
    std::filesystem::resize_file(file(), size);
    EXPECT_THAT(Start(), IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(directory()));
  }
  // The head was written in part.
  store_->Create(RecordOf(1));
  Put(3000, "x");
  EXPECT_THAT(Start(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(directory()));
}

TEST_P(StreamFilesTest, RefusesDamagedAndForeignFiles) {
  ASSERT_TRUE(store_->Create(RecordOf(1))->Reserve({.end = ChannelId(1025)}));
  ASSERT_EQ(Refusal(), "");
  Put(45, "x");
  EXPECT_THAT(Refusal(), HasSubstr(file().string() + " is damaged (its head is garbled)"));
  Put(8, "pnstst9");
  EXPECT_THAT(Refusal(), HasSubstr("another version"));
  Put(8, "something");
  EXPECT_THAT(Refusal(), HasSubstr("not a file of penstock's"));
}

TEST_P(StreamFilesTest, RefusesAndKeepsASmallForeignFile) {
  for (const std::string name : {"something", "0123456789abcdef"}) {
    std::ofstream(directory() / name) << "else, and longer than the magic number";
    EXPECT_THAT(Refusal(), HasSubstr((directory() / name).string()));
    EXPECT_TRUE(std::filesystem::exists(directory() / name));
    std::filesystem::remove(directory() / name);
  }
}

TEST_P(StreamFilesTest, RefusesAFileWithTheNameOfAnotherSession) {
  store_->Create(RecordOf(1));
  std::filesystem::rename(file(), directory() / std::string(16, '0'));
  EXPECT_THAT(Refusal(), HasSubstr("another session"));
}

TEST_P(StreamFilesTest, HasNoRoomForAClientWithAVeryLongName) {
  BoundSessionRecord session = RecordOf(1);
  session.principal.name.assign(4096, 'x');
  EXPECT_FALSE(store_->HasRoomFor(session));
  EXPECT_FALSE(store_->Create(session));
  EXPECT_TRUE(std::filesystem::is_empty(directory()));
}

}  // namespace
}  // namespace penstock::nfs::v4
