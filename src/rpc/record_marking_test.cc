#include "rpc/record_marking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <string>

namespace penstock::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Header(uint32_t length, bool last) {
  std::byte header[4];
  StoreBig(header, length | (last ? kLastFragment : 0));
  return std::string(AsText(header));
}
std::string Fragment(std::string_view data, bool last) {
  return Header(static_cast<uint32_t>(data.size()), last) + std::string(data);
}
std::string Pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + (i >> 8));
  return text;
}

// Feeds a stream to a reader in pieces and collects the records.
struct Feeder {
  explicit Feeder(size_t max_record = 1 << 20) : reader(pool, max_record) {}

  void Feed(std::string_view stream, size_t piece = SIZE_MAX) {
    while (Take() && !stream.empty()) {
      const Bytes want = reader.Want();
      ASSERT_FALSE(want.empty());
      const size_t count = std::min({want.size(), piece, stream.size()});
      CopyBytes(want, AsBytes(stream.substr(0, count)));
      reader.Received(count);
      stream.remove_prefix(count);
    }
  }
  // Takes all complete records. Returns false if the reader accepts no more octets.
  bool Take() {
    for (;;) {
      while (auto record = reader.TakeRecord()) records.emplace_back(AsText(record->bytes()));
      if (reader.failed() || reader.awaited() == 0) return !reader.failed();
      awaited.push_back(reader.awaited());
      reader.Admit();
    }
  }

  BufferPool pool;
  RecordReader reader;
  std::vector<std::string> records;
  std::vector<size_t> awaited;
};

TEST(RecordReader, ReturnsManyRecordsFromOneReceive) {
  Feeder feeder;
  feeder.Feed(Fragment("one", true) + Fragment("two", true) + Fragment("three", true));
  EXPECT_THAT(feeder.records, ElementsAre("one", "two", "three"));
  EXPECT_FALSE(feeder.reader.mid_record());
}

TEST(RecordReader, SmallRecordsAreViewsOfOneBuffer) {
  Feeder feeder;
  const std::string stream = Fragment("first", true) + Fragment("second", true);
  CopyBytes(feeder.reader.Want(), AsBytes(stream));
  feeder.reader.Received(stream.size());
  const Slice first = *feeder.reader.TakeRecord();
  const Slice second = *feeder.reader.TakeRecord();
  EXPECT_EQ(first.owner(), second.owner());
  // Octets that arrive meanwhile go to another buffer.
  EXPECT_GE(feeder.reader.Want().data(), second.data() + second.size());
  EXPECT_EQ(AsText(first.bytes()), "first");
}

TEST(RecordReader, JoinsFragmentsIncludingEmptyOnes) {
  Feeder feeder;
  feeder.Feed(Fragment("", false) + Fragment("ab", false) + Fragment("", false) + Fragment("c", false) +
              Fragment("", true));
  feeder.Feed(Fragment("", true) + Fragment("", false) + Fragment("", true) + Fragment("next", true));
  EXPECT_THAT(feeder.records, ElementsAre("abc", "", "", "next"));
  EXPECT_FALSE(feeder.reader.mid_record());
}

TEST(RecordReader, AcceptsAnySplitOfTheStream) {
  const std::string stream = Fragment("", false) + Fragment("hello ", false) + Fragment("world", true) +
                             Fragment("", true) + Fragment("x", true) + Fragment("yz", false) + Fragment("!", true);
  for (size_t first = 0; first <= stream.size(); ++first) {
    for (size_t second = first; second <= stream.size(); ++second) {
      Feeder feeder;
      feeder.Feed(stream.substr(0, first));
      feeder.Feed(stream.substr(first, second - first));
      feeder.Feed(stream.substr(second));
      ASSERT_THAT(feeder.records, ElementsAre("hello world", "", "x", "yz!")) << first << " " << second;
    }
  }
}

TEST(RecordReader, ReturnsRecordsOfEverySizeFromPiecesOfEverySize) {
  for (size_t size : {1u, 4000u, 16383u, 16384u, 16385u, 60000u, 65531u, 65532u, 65533u, 65536u, 200000u, 1048576u}) {
    const std::string data = Pattern(size);
    const std::string small = Fragment("small", true);
    const std::string halves = Fragment(data.substr(0, size / 2), false) + Fragment(data.substr(size / 2), true);
    for (size_t piece : {1000u, 4096u, 65536u, 1u << 21}) {
      Feeder feeder(2 << 20);
      feeder.Feed(small + Fragment(data, true) + small + Fragment(data, true) + halves + small, piece);
      ASSERT_THAT(feeder.records, ElementsAre("small", data, "small", data, data, "small")) << size << " " << piece;
    }
  }
}

TEST(RecordReader, JoinsManySmallFragmentsIntoALargeRecord) {
  const std::string data = Pattern(100'000);
  std::string stream;
  for (size_t i = 0; i < data.size(); i += 10) stream += Fragment(data.substr(i, 10), i + 10 == data.size());
  Feeder feeder;
  feeder.Feed(stream + Fragment("after", true), 777);
  EXPECT_THAT(feeder.records, ElementsAre(data, "after"));
}

TEST(RecordReader, ReceivesMostOfALargeRecordInPlace) {
  Feeder feeder(2 << 20);
  const std::string data = Pattern(1 << 20);
  feeder.Feed(Fragment(data, true));
  feeder.records.clear();
  // The reader now expects another large record. So it stages only the octets that it needs before it allocates the
  // record.
  const std::string stream = Fragment(data, true);
  const Bytes staged = feeder.reader.Want();
  EXPECT_LE(staged.size(), RecordReader::kBelievedFrom + kRecordHeaderSize);
  CopyBytes(staged, AsBytes(stream).first(staged.size()));
  feeder.reader.Received(staged.size());
  EXPECT_TRUE(feeder.Take());
  EXPECT_THAT(feeder.records, IsEmpty());
  EXPECT_EQ(feeder.reader.Want().size(), stream.size() - staged.size());
}

TEST(RecordReader, FailsAtARecordAboveTheLimit) {
  Feeder feeder(100);
  feeder.Feed(Fragment(Pattern(100), true));
  EXPECT_EQ(feeder.records.size(), 1u);
  feeder.Feed(Header(101, true));
  EXPECT_TRUE(feeder.reader.failed());

  Feeder sum(100);
  sum.Feed(Fragment(Pattern(60), false) + Fragment(Pattern(41), true));
  EXPECT_TRUE(sum.reader.failed());
  EXPECT_THAT(sum.records, IsEmpty());

  Feeder largest(100);
  largest.Feed(Header(0x7fff'ffff, true));
  EXPECT_TRUE(largest.reader.failed());
}

TEST(RecordReader, AllocatesNothingForAnAnnouncedLength) {
  Feeder feeder(1 << 30);
  feeder.Feed(Header(1 << 30, true) + std::string(1000, 'x'));
  // Only the staging buffer is in use.
  EXPECT_EQ(feeder.pool.outstanding(), 1u);
  EXPECT_LE(feeder.reader.Want().size(), RecordReader::kStagingSize);
  EXPECT_TRUE(feeder.reader.mid_record());
}

// A WRITE of 1 MiB needs a buffer of the next power of two.
TEST(RecordReader, AsksForMemoryOncePerLargeRecord) {
  Feeder feeder(2 << 20);
  feeder.Feed(Fragment(Pattern(16'000), true) + Fragment(Pattern(9'000), true));
  EXPECT_THAT(feeder.awaited, IsEmpty());
  feeder.Feed(Fragment(Pattern((1 << 20) + 100), true) + Fragment(Pattern(1 << 20), true), 10'000);
  EXPECT_THAT(feeder.awaited, ElementsAre(2 << 20, 1 << 20));
  feeder.awaited.clear();
  // It may grow up to the limit, and the reader does not ask again.
  feeder.Feed(Fragment(Pattern(100'000), false), 10'000);
  EXPECT_THAT(feeder.awaited, ElementsAre(2 << 20));
  feeder.Feed(Fragment(Pattern(1 << 20), false) + Fragment(Pattern(900'000), true), 10'000);
  EXPECT_THAT(feeder.awaited, ElementsAre(2 << 20));
  EXPECT_EQ(feeder.records.size(), 5u);
}

TEST(RecordReader, AllocatesALargeRecordOnlyAfterItIsAdmitted) {
  Feeder feeder(2 << 20);
  const std::string stream = Fragment(Pattern(1 << 20), true);
  CopyBytes(feeder.reader.Want(), AsBytes(stream).first(30'000));
  feeder.reader.Received(30'000);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(feeder.reader.TakeRecord());
    EXPECT_EQ(feeder.reader.awaited(), size_t{1} << 20);
  }
  EXPECT_EQ(feeder.pool.outstanding(), 1u) << "staging only";
  feeder.reader.Admit();
  EXPECT_FALSE(feeder.reader.TakeRecord());
  EXPECT_EQ(feeder.pool.outstanding(), 2u);
}

TEST(RecordReader, ReportsThatARecordHasBegun) {
  for (const std::string& begun : {std::string("\0", 1), Header(0, false), Header(5, true), Fragment("a", false)}) {
    Feeder feeder;
    EXPECT_FALSE(feeder.reader.mid_record());
    feeder.Feed(begun);
    EXPECT_TRUE(feeder.reader.mid_record());
  }
}

Slice View(std::string_view text) { return Slice::Borrowed(AsBytes(text)); }

std::string Drain(RecordWriter& writer, size_t step, size_t pieces) {
  std::string out;
  while (!writer.empty()) {
    if (auto file = writer.NextFile()) {
      const size_t length = std::min(step, file->length);
      std::string bytes(length, '\0');
      EXPECT_TRUE(file->data->Sub(file->offset, length).CopyTo(std::as_writable_bytes(std::span(bytes))));
      out += bytes;
      writer.Sent(length);
      continue;
    }
    std::vector<iovec> iov(pieces);
    const auto gathered = writer.Gather(iov);
    EXPECT_GT(gathered.octets, 0u);
    std::string all;
    for (size_t i = 0; i < gathered.count; ++i) all.append(static_cast<char*>(iov[i].iov_base), iov[i].iov_len);
    EXPECT_EQ(all.size(), gathered.octets);
    out += all.substr(0, step);
    writer.Sent(std::min(step, all.size()));
  }
  return out;
}

std::shared_ptr<FileDescriptor> FileOf(std::string_view text) {
  auto file = std::make_shared<FileDescriptor>(memfd_create("test", 0));
  EXPECT_EQ(::write(file->get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return file;
}

TEST(RecordWriter, PlacesItemsCorrectlyForAnySizeOfSend) {
  xdr::Message with_items;
  with_items.stream = View("AAAABBBBCCCC");
  with_items.items.push_back({4, Data(View("12345"))});
  with_items.items.push_back({8, Data(FileOf("__filebytes"), 2, 6)});
  with_items.items.push_back({8, Data(View(""))});
  with_items.items.push_back({12, Data(View("end!"))});
  const std::string expected = Header(32, true) + "AAAA" + "12345" + std::string(3, '\0') + "BBBB" + "fileby" +
                               std::string(2, '\0') + "CCCC" + "end!" + Header(3, true) + "two" + Header(0, true);
  for (size_t step = 1; step <= expected.size(); ++step) {
    for (size_t pieces : {1, 2, 64}) {
      RecordWriter writer;
      EXPECT_EQ(writer.Push(with_items), 1u);
      EXPECT_EQ(writer.Push({View("two"), {}, {}}), 2u);
      EXPECT_EQ(writer.Push({}), 3u);
      EXPECT_EQ(writer.queued_octets(), expected.size());
      ASSERT_EQ(Drain(writer, step, pieces), expected) << step << " " << pieces;
      EXPECT_EQ(writer.sent(), 3u);
      EXPECT_EQ(writer.queued_octets(), 0u);
    }
  }
}

TEST(RecordWriter, ReportsFollowingFilesAndFollowingOctets) {
  RecordWriter writer;
  xdr::Message message;
  message.stream = View("head");
  message.items.push_back({4, Data(FileOf("12345678"), 0, 8)});
  writer.Push(message);
  iovec iov[8];
  const auto pieces = writer.Gather(iov);
  EXPECT_TRUE(pieces.more);
  EXPECT_EQ(pieces.octets, 8u);
  EXPECT_FALSE(writer.NextFile());
  writer.Sent(8);
  ASSERT_TRUE(writer.NextFile());
  EXPECT_FALSE(writer.NextFile()->more);
  writer.Push(message);
  EXPECT_TRUE(writer.NextFile()->more);
}

TEST(RecordWriter, GathersNoMoreOctetsThanItMay) {
  RecordWriter writer;
  writer.Push({View("12345678"), {}, {}});
  writer.Push({View("abcdefgh"), {}, {}});
  iovec iov[8];
  const auto pieces = writer.Gather(iov, 4 + 8 + 4 + 3);
  EXPECT_EQ(pieces.count, 4u);
  EXPECT_EQ(pieces.octets, 19u);
  EXPECT_EQ(std::string_view(static_cast<const char*>(iov[3].iov_base), iov[3].iov_len), "abc");
  EXPECT_EQ(writer.Gather(iov, 4).count, 1u);
  writer.Sent(19);
  EXPECT_EQ(writer.Gather(iov, 100).octets, 5u);
}

TEST(RecordWriter, CountsCompletelySentMessages) {
  RecordWriter writer;
  for (int i = 0; i < 1000; ++i) {
    writer.Push({View("abcd"), {}, {}});
    writer.Push({View("efgh"), {}, {}});
    writer.Sent(12);
    EXPECT_EQ(writer.sent(), static_cast<uint64_t>((i + 1) * 12 / 8));
  }
  writer.Clear();
  EXPECT_TRUE(writer.empty());
  EXPECT_EQ(writer.queued_octets(), 0u);
}

// Even a small message occupies its whole buffer.
TEST(RecordWriter, CountsAllMemoryOfTheQueue) {
  BufferPool pool;
  RecordWriter writer;
  const auto message = [&pool](size_t size, size_t capacity) {
    BufferRef buffer = pool.Allocate(capacity);
    const ConstBytes bytes = buffer->bytes().first(size);
    return xdr::Message::Whole(Slice(std::move(buffer), bytes));
  };
  for (int i = 0; i < 100; ++i) writer.Push(message(28, 512));
  EXPECT_EQ(writer.queued_octets(), 3200u);
  EXPECT_GE(writer.queued_memory(), 100 * 512u);
  writer.Sent(32 + 31);
  const size_t left = writer.queued_memory();
  EXPECT_GE(left, 99 * 512u) << "the second message is not completely sent";
  writer.Push(message(4, 4096));
  EXPECT_GE(writer.queued_memory(), left + 4096);
  writer.Sent(writer.queued_octets());
  EXPECT_EQ(writer.queued_memory(), 0u);
  writer.Push(message(4, 4096));
  writer.Clear();
  EXPECT_EQ(writer.queued_memory(), 0u);
}

TEST(RecordWriter, CountsPayloadsInMemoryButNotInFiles) {
  BufferPool pool;
  RecordWriter small, large;
  xdr::Message message;
  BufferRef stream = pool.Allocate(512);
  message.stream = Slice(stream, stream->bytes().first(8));
  message.items.push_back({8, Data(FileOf(std::string(100'000, 'x')), 0, 100'000)});
  small.Push(message);
  EXPECT_LT(small.queued_memory(), 1024u);
  BufferRef payload = pool.Allocate(100'000);
  message.items[0].data = Slice(payload, payload->bytes().first(10));
  message.items.push_back({8, Data(Slice(payload, payload->bytes().subspan(20, 10)))});
  large.Push(message);
  EXPECT_GE(large.queued_memory(), 131'072u);
  EXPECT_LT(large.queued_memory(), 132'096u) << "counted once, although it holds two items";
}

}  // namespace
}  // namespace penstock::rpc
