#include "nfs/v4/state/stable/reply_record.h"

#include <cassert>

#include "base/mix.h"

namespace penstock::nfs::v4 {
namespace {

constexpr size_t kChecksum = 8;
constexpr size_t kItem = 8;

uint64_t ChecksumOf(ConstBytes record) { return Mix(record.size(), record.subspan(kChecksum)); }

Slice CopyTo(BufferPool& pool, ConstBytes octets) {
  BufferRef buffer = pool.Allocate(octets.size());
  CopyBytes(buffer->bytes(), octets);
  const ConstBytes copy(buffer->data(), octets.size());
  return {std::move(buffer), copy};
}

uint32_t WordAt(ConstBytes record, size_t offset) { return LoadBig<uint32_t>(record.data() + offset); }

}  // namespace

std::vector<std::byte> ReplyRecord::Serialize(const KeptReply& reply) {
  const xdr::Message& results = reply.results;
  assert(results.placed.empty());
  size_t size = kHeader + kItem * results.items.size() + results.stream.size();
  for (const xdr::Item& item : results.items) size += item.data.size();

  std::vector<std::byte> record(size);
  StoreBig(record.data() + 8, static_cast<uint32_t>(size));
  StoreBig(record.data() + 12, reply.sequence.value());
  StoreBig(record.data() + 16, reply.digest);
  StoreBig(record.data() + 24, static_cast<uint32_t>(results.stream.size()));
  StoreBig(record.data() + 28, static_cast<uint32_t>(results.items.size()));
  size_t at = kHeader;
  for (const xdr::Item& item : results.items) {
    StoreBig(record.data() + at, static_cast<uint32_t>(item.offset));
    StoreBig(record.data() + at + 4, static_cast<uint32_t>(item.data.size()));
    at += kItem;
  }
  const Bytes octets(record);
  CopyBytes(octets.subspan(at), results.stream.bytes());
  at += results.stream.size();
  for (const xdr::Item& item : results.items) {
    CopyBytes(octets.subspan(at), item.data.bytes());
    at += item.data.size();
  }
  StoreBig(record.data(), ChecksumOf(record));
  return record;
}

std::optional<size_t> ReplyRecord::SizeOf(ConstBytes header) {
  assert(header.size() >= kHeader);
  const size_t size = WordAt(header, 8);
  if (size < kHeader) return std::nullopt;
  return size;
}

std::optional<KeptReply> ReplyRecord::Parse(ConstBytes record, BufferPool& pool) {
  if (record.size() < kHeader || SizeOf(record) != record.size()) return std::nullopt;
  if (LoadBig<uint64_t>(record.data()) != ChecksumOf(record)) return std::nullopt;
  const size_t stream = WordAt(record, 24), items = WordAt(record, 28);
  ConstBytes rest = record.subspan(kHeader);
  if (items > rest.size() / kItem || stream > rest.size() - kItem * items) return std::nullopt;
  ConstBytes heads = rest.first(kItem * items);
  rest = rest.subspan(heads.size());

  KeptReply reply{.sequence = SequenceId(WordAt(record, 12)), .digest = LoadBig<uint64_t>(record.data() + 16)};
  reply.results.stream = CopyTo(pool, rest.first(stream));
  rest = rest.subspan(stream);
  for (; !heads.empty(); heads = heads.subspan(kItem)) {
    const size_t offset = WordAt(heads, 0), size = WordAt(heads, 4);
    const size_t before = reply.results.items.empty() ? 0 : reply.results.items.back().offset;
    if (offset < before || offset > stream || size > rest.size()) return std::nullopt;
    reply.results.items.push_back({offset, CopyTo(pool, rest.first(size))});
    rest = rest.subspan(size);
  }
  if (!rest.empty()) return std::nullopt;
  return reply;
}

}  // namespace penstock::nfs::v4
