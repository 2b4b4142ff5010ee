#include "client/acl_values.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "protocol/nfs4_attributes.h"
#include "protocol/nfsacl.h"
#include "xdr/decode.h"
#include "xdr/decoder.h"

namespace penstock::client {
namespace {

constexpr uint32_t kPosixVersion = 2;
constexpr uint32_t kNoId = 0xffffffff;
constexpr size_t kHeader = 4;
constexpr size_t kEntry = 8;

template <class T>
void PutBig(std::vector<std::byte>& octets, T value) {
  octets.resize(octets.size() + sizeof value);
  StoreBig(octets.data() + octets.size() - sizeof value, value);
}

template <class T>
T Little(T value) {
  if constexpr (std::endian::native == std::endian::big) value = std::byteswap(value);
  return value;
}

template <class T>
void PutLittle(std::vector<std::byte>& octets, T value) {
  value = Little(value);
  const ConstBytes bytes = std::as_bytes(std::span(&value, 1));
  octets.insert(octets.end(), bytes.begin(), bytes.end());
}

template <class T>
T GetLittle(ConstBytes octets, size_t at) {
  T value;
  std::memcpy(&value, octets.data() + at, sizeof value);
  return Little(value);
}

bool HasId(uint32_t type) { return type == nfsacl::NA_USER || type == nfsacl::NA_GROUP; }

}  // namespace

std::vector<std::byte> EncodeNfs4Acl(const std::vector<Ace>& acl) {
  std::vector<std::byte> octets;
  PutBig(octets, static_cast<uint32_t>(acl.size()));
  for (const Ace& each : acl) {
    PutBig(octets, each.type);
    PutBig(octets, each.flags);
    PutBig(octets, each.mask);
    PutBig(octets, static_cast<uint32_t>(each.who.size()));
    const ConstBytes who = AsBytes(each.who);
    octets.insert(octets.end(), who.begin(), who.end());
    octets.resize(RoundUp(octets.size(), 4));
  }
  return octets;
}

std::optional<std::vector<Ace>> DecodeNfs4Acl(ConstBytes value) {
  xdr::Message message;
  message.stream = Slice::Borrowed(value);
  xdr::Decoder decoder(message);
  nfs4::fattr4_acl entries;
  if (!xdr::Decode(decoder, entries) || !decoder.Finish()) return std::nullopt;
  std::vector<Ace> acl;
  for (const nfs4::nfsace4& each : entries) {
    acl.push_back({each.type, each.flag, each.access_mask, std::string(each.who)});
  }
  return acl;
}

std::vector<std::byte> EncodePosixAcl(const std::vector<PosixAce>& entries) {
  std::vector<PosixAce> sorted = entries;
  std::ranges::sort(sorted, {}, [](const PosixAce& each) { return std::tuple(each.type, each.id); });
  std::vector<std::byte> octets;
  PutLittle(octets, kPosixVersion);
  for (const PosixAce& each : sorted) {
    PutLittle(octets, static_cast<uint16_t>(each.type));
    PutLittle(octets, static_cast<uint16_t>(each.permissions));
    PutLittle(octets, HasId(each.type) ? each.id : kNoId);
  }
  return octets;
}

std::optional<std::vector<PosixAce>> DecodePosixAcl(ConstBytes value) {
  if (value.size() < kHeader || (value.size() - kHeader) % kEntry != 0) return std::nullopt;
  if (GetLittle<uint32_t>(value, 0) != kPosixVersion) return std::nullopt;
  std::vector<PosixAce> entries;
  for (size_t at = kHeader; at < value.size(); at += kEntry) {
    PosixAce entry{.type = GetLittle<uint16_t>(value, at),
                   .id = GetLittle<uint32_t>(value, at + 4),
                   .permissions = GetLittle<uint16_t>(value, at + 2)};
    if (!HasId(entry.type)) entry.id = 0;
    entries.push_back(entry);
  }
  return entries;
}

bool HasNamedEntries(const std::vector<PosixAce>& entries) {
  return std::ranges::any_of(entries, [](const PosixAce& each) { return HasId(each.type); });
}

}  // namespace penstock::client
