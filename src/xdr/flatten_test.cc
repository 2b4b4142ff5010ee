#include "xdr/flatten.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "xdr/encoder.h"
#include "xdr/testing.h"

namespace penstock::xdr {
namespace {

using ::testing::ElementsAre;
using testing::Hex;

class Flatten : public ::testing::Test {
 protected:
  static std::vector<std::string> Pieces(const Message& message) {
    std::vector<std::string> pieces;
    ForEachPiece(message, [&](const auto& piece) {
      if constexpr (std::same_as<std::decay_t<decltype(piece)>, Data>) {
        pieces.push_back(piece.is_file() ? "file" : "data " + std::string(AsText(piece.bytes())));
      } else {
        pieces.push_back(Hex(piece));
      }
    });
    return pieces;
  }

  BufferPool pool_;
  Encoder encoder_{pool_};
};

TEST_F(Flatten, AStreamWithoutItemsHasOnePiece) {
  encoder_.U32(1);
  const Message message = encoder_.Finish();
  EXPECT_THAT(Pieces(message), ElementsAre("00000001"));
  EXPECT_EQ(Unreduce(pool_, message).data(), message.stream.data());
}

TEST_F(Flatten, AnEmptyMessageHasNoPieces) { EXPECT_TRUE(Pieces(Message()).empty()); }

TEST_F(Flatten, InsertsItemsWithTheirPadding) {
  encoder_.Payload(Slice::Borrowed(AsBytes("abcde")));
  encoder_.U32(1);
  encoder_.Payload(Data());
  encoder_.Payload(Slice::Borrowed(AsBytes("fghi")));
  const Message message = encoder_.Finish();
  EXPECT_THAT(Pieces(message),
              ElementsAre("00000005", "data abcde", "000000", "00000001 00000000", "00000004", "data fghi"));
  EXPECT_EQ(Hex(Unreduce(pool_, message).bytes()), "00000005 61626364 65000000 00000001 00000000 00000004 66676869");
}

TEST_F(Flatten, ReadsFilesOnlyWhenTheyAreLoaded) {
  FileDescriptor file(::memfd_create("flatten_test", 0));
  ASSERT_EQ(::write(file.get(), "0123456789", 10), 10);
  encoder_.Payload(Data(std::make_shared<const FileDescriptor>(std::move(file)), 3, 2));
  Message message = encoder_.Finish();
  EXPECT_THAT(Pieces(message), ElementsAre("00000002", "file", "0000"));
  EXPECT_EQ(message.flat_size(), 8u);
  ASSERT_TRUE(LoadFiles(message, pool_));
  EXPECT_THAT(Pieces(message), ElementsAre("00000002", "data 34", "0000"));
  EXPECT_EQ(Hex(Unreduce(pool_, message).bytes()), "00000002 33340000");
}

// A directory can be opened, but not read.
TEST_F(Flatten, ReportsAFileThatCannotBeRead) {
  FileDescriptor directory(::open("/", O_RDONLY | O_DIRECTORY));
  encoder_.Payload(Data(std::make_shared<const FileDescriptor>(std::move(directory)), 0, 50));
  Message message = encoder_.Finish();
  const auto loaded = LoadFiles(message, pool_);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error(), std::errc::is_a_directory);
}

}  // namespace
}  // namespace penstock::xdr
