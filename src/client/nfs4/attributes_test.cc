#include "client/nfs4/attributes.h"

#include <gtest/gtest.h>

#include "base/buffer.h"
#include "xdr/encoder.h"

namespace penstock::client::v4 {
namespace {

class AttributesTest : public testing::Test {
 protected:
  // Takes the encoded octets as the values of the attributes in `mask`.
  nfs4::fattr4 Encoded(const nfs4::bitmap4& mask) {
    message = encoder.Finish();
    return {mask, message.stream.bytes()};
  }

  BufferPool pool;
  xdr::Encoder encoder{pool};
  xdr::Message message;
};

// The numbers are those of RFC 8881 §5.8. The test detects an exchange of two words of the mask.
TEST_F(AttributesTest, RequestsAttributesByTheirNumbers) {
  EXPECT_EQ(FileAttributes(), (nfs4::bitmap4{1u << 1 | 1u << 3 | 1u << 4 | 1u << 8 | 1u << 20,
                                             1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 9 | 1u << 13 | 1u << 15 |
                                                 1u << 20 | 1u << 21}));
  EXPECT_EQ(EntryAttributes(ListContent::kAttributes)[0], FileAttributes()[0] | 1u << 11);
  EXPECT_EQ(LimitAttributes(kVersion41), (nfs4::bitmap4{1u << 10 | 1u << 30 | 1u << 31}));
  EXPECT_EQ(LimitAttributes(kVersion42), (nfs4::bitmap4{1u << 10 | 1u << 30 | 1u << 31, 0, 1u << 22}));
}

TEST_F(AttributesTest, DecodesAttributesInTheOrderOfTheirNumbers) {
  encoder.U32(2);      // type: a directory
  encoder.U64(77);     // change
  encoder.U64(4096);   // size
  encoder.U64(0x801);  // fsid
  encoder.U64(0);
  encoder.U64(4711);          // fileid
  encoder.U32(0750);          // mode
  encoder.U32(3);             // numlinks
  encoder.String("1000");     // owner
  encoder.String("staff@x");  // owner_group
  encoder.U32(8);             // rawdev
  encoder.U32(9);
  encoder.U64(8192);  // space_used
  encoder.I64(10);    // time_access
  encoder.U32(11);
  encoder.I64(12);  // time_metadata
  encoder.U32(13);
  encoder.I64(-5);  // time_modify
  encoder.U32(999'999'999);
  const auto decoded = DecodeAttributes(Encoded(FileAttributes()));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->type, FileType::kDirectory);
  EXPECT_EQ(decoded->change, 77u);
  EXPECT_EQ(decoded->size, 4096u);
  EXPECT_EQ(decoded->mode, 0750u);
  EXPECT_EQ(decoded->links, 3u);
  EXPECT_EQ(decoded->owner, "1000");
  EXPECT_EQ(decoded->group, "staff@x");
  EXPECT_EQ(decoded->file_system, 0x801u);
  EXPECT_EQ(decoded->file_id, 4711u);
  EXPECT_EQ(decoded->device_major, 8u);
  EXPECT_EQ(decoded->device_minor, 9u);
  EXPECT_EQ(decoded->used, 8192u);
  EXPECT_EQ(decoded->accessed, (Time{10, 11}));
  EXPECT_EQ(decoded->changed, (Time{12, 13}));
  EXPECT_EQ(decoded->modified, (Time{-5, 999'999'999}));
}

TEST_F(AttributesTest, BothNumbersOfAnFsidIdentifyTheFileSystem) {
  const auto number_of = [&](uint64_t major, uint64_t minor) {
    encoder.U64(major);
    encoder.U64(minor);
    return DecodeAttributes(Encoded({1u << 8}))->file_system;
  };
  EXPECT_EQ(number_of(1, 2), number_of(1, 2));
  EXPECT_NE(number_of(1, 2), number_of(1, 3));
  EXPECT_NE(number_of(1, 2), number_of(2, 2));
  EXPECT_NE(number_of(1, 2), number_of(2, 1));
}

TEST_F(AttributesTest, AcceptsMissingAttributes) {
  encoder.U32(1);
  const auto decoded = DecodeAttributes(Encoded({1u << 1}));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->type, FileType::kRegular);
  EXPECT_TRUE(DecodeAttributes(Encoded({})));
}

TEST_F(AttributesTest, GivesNoAttributesForAnEntryWithAnError) {
  encoder.U32(70);
  EXPECT_FALSE(DecodeAttributes(Encoded({1u << 11})));
  encoder.U32(1);
  encoder.U32(0);
  EXPECT_TRUE(DecodeAttributes(Encoded({1u << 1 | 1u << 11})));
}

TEST_F(AttributesTest, TellsTheErrorOfAnEntryThatHasNothingElse) {
  encoder.U32(10019);
  EXPECT_EQ(DecodeError(Encoded({1u << 11})), nfs4::nfsstat4::NFS4ERR_MOVED);
  encoder.U64(1);  // fsid
  encoder.U64(2);
  encoder.U32(10019);
  EXPECT_EQ(DecodeError(Encoded({1u << 8 | 1u << 11})), nfs4::nfsstat4::NFS4ERR_MOVED);
  encoder.U32(1);
  encoder.U32(0);
  EXPECT_FALSE(DecodeError(Encoded({1u << 1 | 1u << 11})));
  encoder.U32(0);
  EXPECT_FALSE(DecodeError(Encoded({1u << 11}))) << "no error";
  EXPECT_FALSE(DecodeError(Encoded({})));
}

// RFC 8881 §11.16
TEST_F(AttributesTest, DecodesLocations) {
  EXPECT_EQ(LocationsAttribute(), (nfs4::bitmap4{1u << 24}));
  encoder.U32(1);  // fs_root
  encoder.String("far");
  encoder.U32(1);  // locations
  encoder.U32(1);
  encoder.String("192.0.2.7.8.2");
  encoder.U32(2);
  encoder.String("srv");
  encoder.String("a");
  const auto decoded = DecodeLocations(Encoded({1u << 24}));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, std::vector{(Location{.host = "192.0.2.7", .port = 2050, .path = {"srv", "a"}})});
}

TEST_F(AttributesTest, AServerWithoutTheAttributeHasNoLocations) {
  const auto decoded = DecodeLocations(Encoded({}));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->empty());
}

TEST_F(AttributesTest, RejectsMalformedLocations) {
  encoder.U32(0);
  encoder.U32(0xffffffff);
  EXPECT_FALSE(DecodeLocations(Encoded({1u << 24})));
  encoder.U32(0);
  encoder.U32(0);
  encoder.U32(0);
  EXPECT_FALSE(DecodeLocations(Encoded({1u << 24}))) << "an extra word";
  encoder.U32(1);
  EXPECT_FALSE(DecodeLocations(Encoded({1u << 1})));
}

TEST_F(AttributesTest, RejectsAttributesThatWereNotRequested) {
  encoder.U32(1);
  EXPECT_FALSE(DecodeAttributes(Encoded({1u << 9})));  // unique_handles
  encoder.U32(1);
  EXPECT_FALSE(DecodeAttributes(Encoded({0, 0, 0, 1})));  // number 96
}

TEST_F(AttributesTest, RejectsMissingOrExtraOctets) {
  encoder.U32(1);
  EXPECT_FALSE(DecodeAttributes(Encoded({1u << 1 | 1u << 4})));
  encoder.U32(1);
  encoder.U32(1);
  EXPECT_FALSE(DecodeAttributes(Encoded({1u << 1})));
}

TEST_F(AttributesTest, EncodesOnlyTheGivenAttributes) {
  std::vector<std::byte> octets;
  const nfs4::fattr4 encoded = EncodeAttributes({.mode = 0640, .size = 7}, octets);
  const auto decoded = DecodeAttributes(encoded);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(encoded.attrmask, (nfs4::bitmap4{1u << 4, 1u << 1}));
  EXPECT_EQ(decoded->size, 7u);
  EXPECT_EQ(decoded->mode, 0640u);
}

TEST_F(AttributesTest, DecodesTheRoomOfAFileSystem) {
  EXPECT_EQ(SpaceAttributes(),
            (nfs4::bitmap4{1u << 21 | 1u << 22 | 1u << 23 | 1u << 29, 1u << 10 | 1u << 11 | 1u << 12}));
  for (uint64_t value = 1; value <= 3; ++value) encoder.U64(value);
  encoder.U32(255);
  for (uint64_t value = 4; value <= 6; ++value) encoder.U64(value);
  const auto space = DecodeSpace(Encoded(SpaceAttributes()));
  ASSERT_TRUE(space);
  EXPECT_EQ(space->available_files, 1u);
  EXPECT_EQ(space->free_files, 2u);
  EXPECT_EQ(space->total_files, 3u);
  EXPECT_EQ(space->available, 4u);
  EXPECT_EQ(space->free, 5u);
  EXPECT_EQ(space->total, 6u);
  EXPECT_EQ(space->longest_name, 255u);
}

TEST_F(AttributesTest, AServerNeedNotTellTheRoom) {
  encoder.U64(7);
  const auto space = DecodeSpace(Encoded({0, 1u << 10}));
  ASSERT_TRUE(space);
  EXPECT_EQ(space->available, 7u);
  EXPECT_EQ(space->total, 0u);
  EXPECT_TRUE(DecodeSpace(Encoded({})));
  encoder.U32(1);
  EXPECT_FALSE(DecodeSpace(Encoded({0, 1u << 10}))) << "half of a number";
}

TEST_F(AttributesTest, PadsOwnersToWholeWords) {
  std::vector<std::byte> octets;
  const nfs4::fattr4 encoded = EncodeAttributes({.owner = "12345", .group = "me@there"}, octets);
  EXPECT_EQ(octets.size(), 4u + 8 + 4 + 8);
  const auto decoded = DecodeAttributes(encoded);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->owner, "12345");
  EXPECT_EQ(decoded->group, "me@there");
}

// settime4: RFC 8881 §5.8.2.38, §5.8.2.44
TEST_F(AttributesTest, EncodesTheServersTimeOrAGivenTime) {
  std::vector<std::byte> octets;
  const nfs4::fattr4 encoded = EncodeAttributes({.accessed = ServerTime(), .modified = Time{0x0102, 3}}, octets);
  EXPECT_EQ(encoded.attrmask, (nfs4::bitmap4{0, 1u << (48 - 32) | 1u << (54 - 32)}));
  const auto words = [&](size_t at) { return LoadBig<uint32_t>(octets.data() + 4 * at); };
  ASSERT_EQ(octets.size(), 4u * 5);
  EXPECT_EQ(words(0), 0u);
  EXPECT_EQ(words(1), 1u);
  EXPECT_EQ(words(2), 0u);
  EXPECT_EQ(words(3), 0x0102u);
  EXPECT_EQ(words(4), 3u);
}

TEST_F(AttributesTest, EncodesAType) {
  std::vector<std::byte> octets;
  const auto decoded = DecodeAttributes(EncodeType(nfs4::nfs_ftype4::NF4DIR, octets));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->type, FileType::kDirectory);
}

}  // namespace
}  // namespace penstock::client::v4
