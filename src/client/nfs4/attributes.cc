#include "client/nfs4/attributes.h"

#include <initializer_list>

#include "xdr/decode.h"
#include "xdr/decoder.h"

namespace penstock::client::v4 {
namespace {

void Add(nfs4::bitmap4& map, uint32_t number) {
  if (map.size() <= number / 32) map.resize(number / 32 + 1);
  map[number / 32] |= 1u << number % 32;
}

nfs4::bitmap4 Bitmap(std::initializer_list<uint32_t> numbers) {
  nfs4::bitmap4 map;
  for (const uint32_t number : numbers) Add(map, number);
  return map;
}

bool Contains(const nfs4::bitmap4& map, uint32_t number) {
  return number / 32 < map.size() && (map[number / 32] >> number % 32 & 1);
}

// Calls `decode(number, decoder)` for each attribute that is there, in the order of the numbers. False where that
// fails, or octets are left over.
template <class Decode>
bool ForEach(const nfs4::fattr4& encoded, Decode decode) {
  xdr::Message message;
  message.stream = Slice::Borrowed(encoded.attr_vals.bytes());
  xdr::Decoder decoder(message);
  for (uint32_t number = 0; number < 32 * encoded.attrmask.size(); ++number) {
    if (Contains(encoded.attrmask, number) && !decode(number, decoder)) return false;
  }
  return decoder.Finish();
}

// Writes attributes, which come in the order of their numbers.
class AttributeWriter {
 public:
  explicit AttributeWriter(std::vector<std::byte>& octets) : octets_(octets) { octets_.clear(); }

  void U32(uint32_t number, uint32_t value) { Begin(number).Put(value); }
  void U64(uint32_t number, uint64_t value) { Begin(number).Put(value); }
  void Text(uint32_t number, std::string_view text) {
    Begin(number).Put(static_cast<uint32_t>(text.size()));
    const ConstBytes bytes = AsBytes(text);
    octets_.insert(octets_.end(), bytes.begin(), bytes.end());
    octets_.resize((octets_.size() + 3) / 4 * 4);
  }
  void Time(uint32_t number, const std::variant<ServerTime, client::Time>& time) {
    Begin(number);
    const auto* given = std::get_if<client::Time>(&time);
    Put(static_cast<uint32_t>(given ? nfs4::time_how4::SET_TO_CLIENT_TIME4 : nfs4::time_how4::SET_TO_SERVER_TIME4));
    if (!given) return;
    Put(static_cast<uint64_t>(given->seconds));
    Put(given->nanoseconds);
  }

  nfs4::fattr4 Finish() {
    nfs4::fattr4 attributes;
    attributes.attrmask = std::move(map_);
    attributes.attr_vals = ConstBytes(octets_);
    return attributes;
  }

 private:
  AttributeWriter& Begin(uint32_t number) {
    Add(map_, number);
    return *this;
  }
  template <class T>
  void Put(T value) {
    octets_.resize(octets_.size() + sizeof value);
    StoreBig(octets_.data() + octets_.size() - sizeof value, value);
  }

  std::vector<std::byte>& octets_;
  nfs4::bitmap4 map_;
};

template <class T, class U>
bool DecodeTo(xdr::Decoder& decoder, U& to) {
  T value{};
  if (!xdr::Decode(decoder, value)) return false;
  to = U(value);
  return true;
}

FileType TypeOf(nfs4::nfs_ftype4 type) {
  switch (type) {
    case nfs4::nfs_ftype4::NF4REG:
      return FileType::kRegular;
    case nfs4::nfs_ftype4::NF4DIR:
      return FileType::kDirectory;
    case nfs4::nfs_ftype4::NF4BLK:
      return FileType::kBlockDevice;
    case nfs4::nfs_ftype4::NF4CHR:
      return FileType::kCharacterDevice;
    case nfs4::nfs_ftype4::NF4LNK:
      return FileType::kSymlink;
    case nfs4::nfs_ftype4::NF4SOCK:
      return FileType::kSocket;
    case nfs4::nfs_ftype4::NF4FIFO:
      return FileType::kFifo;
    default:
      return FileType::kOther;
  }
}

}  // namespace

const nfs4::bitmap4& FileAttributes() {
  static const nfs4::bitmap4 kMap =
      Bitmap({nfs4::FATTR4_TYPE, nfs4::FATTR4_CHANGE, nfs4::FATTR4_SIZE, nfs4::FATTR4_MODE, nfs4::FATTR4_NUMLINKS,
              nfs4::FATTR4_OWNER, nfs4::FATTR4_OWNER_GROUP, nfs4::FATTR4_TIME_MODIFY});
  return kMap;
}

const nfs4::bitmap4& EntryAttributes() {
  static const nfs4::bitmap4 kMap = [] {
    nfs4::bitmap4 map = FileAttributes();
    Add(map, nfs4::FATTR4_RDATTR_ERROR);
    return map;
  }();
  return kMap;
}

std::optional<Attributes> DecodeAttributes(const nfs4::fattr4& encoded) {
  Attributes attributes;
  const bool good = ForEach(encoded, [&](uint32_t number, xdr::Decoder& decoder) {
    switch (number) {
      case nfs4::FATTR4_TYPE: {
        nfs4::nfs_ftype4 type{};
        if (!xdr::Decode(decoder, type)) return false;
        attributes.type = TypeOf(type);
        return true;
      }
      case nfs4::FATTR4_CHANGE:
        return decoder.U64(attributes.change);
      case nfs4::FATTR4_SIZE:
        return decoder.U64(attributes.size);
      case nfs4::FATTR4_RDATTR_ERROR: {
        uint32_t status = 0;
        return decoder.U32(status) && status == 0;
      }
      case nfs4::FATTR4_MODE:
        return decoder.U32(attributes.mode);
      case nfs4::FATTR4_NUMLINKS:
        return decoder.U32(attributes.links);
      case nfs4::FATTR4_OWNER:
        return DecodeTo<xdr::StringView<xdr::kUnbounded>>(decoder, attributes.owner);
      case nfs4::FATTR4_OWNER_GROUP:
        return DecodeTo<xdr::StringView<xdr::kUnbounded>>(decoder, attributes.group);
      case nfs4::FATTR4_TIME_MODIFY: {
        nfs4::nfstime4 time;
        if (!xdr::Decode(decoder, time)) return false;
        attributes.modified = time.seconds;
        return true;
      }
      default:
        return false;
    }
  });
  if (!good) return std::nullopt;
  return attributes;
}

const nfs4::bitmap4& LimitAttributes() {
  static const nfs4::bitmap4 kMap = Bitmap({nfs4::FATTR4_LEASE_TIME, nfs4::FATTR4_MAXREAD, nfs4::FATTR4_MAXWRITE});
  return kMap;
}

std::optional<ServerLimits> DecodeLimits(const nfs4::fattr4& encoded) {
  ServerLimits limits;
  const bool good = ForEach(encoded, [&](uint32_t number, xdr::Decoder& decoder) {
    switch (number) {
      case nfs4::FATTR4_LEASE_TIME:
        return decoder.U32(limits.lease_seconds);
      case nfs4::FATTR4_MAXREAD:
        return decoder.U64(limits.max_read);
      case nfs4::FATTR4_MAXWRITE:
        return decoder.U64(limits.max_write);
      default:
        return false;
    }
  });
  if (!good) return std::nullopt;
  return limits;
}

nfs4::fattr4 EncodeAttributes(const NewAttributes& attributes, std::vector<std::byte>& octets) {
  AttributeWriter writer(octets);
  if (attributes.size) writer.U64(nfs4::FATTR4_SIZE, *attributes.size);
  if (attributes.mode) writer.U32(nfs4::FATTR4_MODE, *attributes.mode);
  if (attributes.owner) writer.Text(nfs4::FATTR4_OWNER, *attributes.owner);
  if (attributes.group) writer.Text(nfs4::FATTR4_OWNER_GROUP, *attributes.group);
  if (attributes.accessed) writer.Time(nfs4::FATTR4_TIME_ACCESS_SET, *attributes.accessed);
  if (attributes.modified) writer.Time(nfs4::FATTR4_TIME_MODIFY_SET, *attributes.modified);
  return writer.Finish();
}

nfs4::fattr4 EncodeChange(const nfs4::bitmap4& asked, uint64_t change, uint64_t size, std::vector<std::byte>& octets) {
  AttributeWriter writer(octets);
  if (Contains(asked, nfs4::FATTR4_CHANGE)) writer.U64(nfs4::FATTR4_CHANGE, change);
  if (Contains(asked, nfs4::FATTR4_SIZE)) writer.U64(nfs4::FATTR4_SIZE, size);
  return writer.Finish();
}

nfs4::fattr4 EncodeType(nfs4::nfs_ftype4 type, std::vector<std::byte>& octets) {
  AttributeWriter writer(octets);
  writer.U32(nfs4::FATTR4_TYPE, static_cast<uint32_t>(type));
  return writer.Finish();
}

}  // namespace penstock::client::v4
