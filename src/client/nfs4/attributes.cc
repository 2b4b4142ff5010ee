#include "client/nfs4/attributes.h"

#include "base/mix.h"
#include "nfs_protocol/number_set.h"
#include "xdr/decode.h"
#include "xdr/decoder.h"

namespace penstock::client::v4 {
namespace {

using AttributeSet = nfs_protocol::NumberSet<uint32_t>;

constexpr AttributeSet kFileAttributes{nfs4::FATTR4_TYPE,          nfs4::FATTR4_CHANGE,     nfs4::FATTR4_SIZE,
                                       nfs4::FATTR4_FSID,          nfs4::FATTR4_FILEID,     nfs4::FATTR4_MODE,
                                       nfs4::FATTR4_NUMLINKS,      nfs4::FATTR4_OWNER,      nfs4::FATTR4_OWNER_GROUP,
                                       nfs4::FATTR4_RAWDEV,        nfs4::FATTR4_SPACE_USED, nfs4::FATTR4_TIME_ACCESS,
                                       nfs4::FATTR4_TIME_METADATA, nfs4::FATTR4_TIME_MODIFY};
constexpr AttributeSet kEntryAttributes = kFileAttributes | AttributeSet{nfs4::FATTR4_RDATTR_ERROR};
constexpr AttributeSet kEntryAttributesAndHandle = kEntryAttributes | AttributeSet{nfs4::FATTR4_FILEHANDLE};
constexpr AttributeSet kAclAttribute{nfs4::FATTR4_ACL};
constexpr AttributeSet kLocationsAttribute{nfs4::FATTR4_FS_LOCATIONS};
constexpr AttributeSet kLimitAttributes{nfs4::FATTR4_LEASE_TIME, nfs4::FATTR4_MAXREAD, nfs4::FATTR4_MAXWRITE};
constexpr AttributeSet kSpaceAttributes{nfs4::FATTR4_FILES_AVAIL, nfs4::FATTR4_FILES_FREE,  nfs4::FATTR4_FILES_TOTAL,
                                        nfs4::FATTR4_MAXNAME,     nfs4::FATTR4_SPACE_AVAIL, nfs4::FATTR4_SPACE_FREE,
                                        nfs4::FATTR4_SPACE_TOTAL};

// Calls `decode(number, decoder)` for each attribute in `encoded`, in the order of the numbers. Returns false if a call
// returns false, if octets are left over, or if the set has a number that AttributeSet cannot hold.
template <class Decode>
bool ForEach(const nfs4::fattr4& encoded, Decode decode) {
  const AttributeSet attributes(encoded.attrmask);
  if (attributes.IsBeyond()) return false;
  xdr::Message message;
  message.stream = Slice::Borrowed(encoded.attr_vals.bytes());
  xdr::Decoder decoder(message);
  return attributes.ForEach([&](uint32_t number) { return decode(number, decoder); }) && decoder.Finish();
}

// Encodes attributes. The caller adds them in the order of their numbers.
class AttributeWriter {
 public:
  explicit AttributeWriter(std::vector<std::byte>& octets) : octets_(octets) { octets_.clear(); }

  void U32(uint32_t number, uint32_t value) { Begin(number).Put(value); }
  void U64(uint32_t number, uint64_t value) { Begin(number).Put(value); }
  void Text(uint32_t number, std::string_view text) { Begin(number).Put(text); }
  void Acl(uint32_t number, const std::vector<Ace>& acl) {
    Begin(number).Put(static_cast<uint32_t>(acl.size()));
    for (const Ace& each : acl) {
      Put(each.type);
      Put(each.flags);
      Put(each.mask);
      Put(std::string_view(each.who));
    }
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
    attributes.attrmask = set_.ToBitmap();
    attributes.attr_vals = ConstBytes(octets_);
    return attributes;
  }

 private:
  AttributeWriter& Begin(uint32_t number) {
    set_.Add(number);
    return *this;
  }
  template <class T>
  void Put(T value) {
    octets_.resize(octets_.size() + sizeof value);
    StoreBig(octets_.data() + octets_.size() - sizeof value, value);
  }
  void Put(std::string_view text) {
    Put(static_cast<uint32_t>(text.size()));
    const ConstBytes bytes = AsBytes(text);
    octets_.insert(octets_.end(), bytes.begin(), bytes.end());
    octets_.resize((octets_.size() + 3) / 4 * 4);
  }

  std::vector<std::byte>& octets_;
  AttributeSet set_;
};

template <class T, class U>
bool DecodeTo(xdr::Decoder& decoder, U& to) {
  T value{};
  if (!xdr::Decode(decoder, value)) return false;
  to = U(value);
  return true;
}

bool DecodeTime(xdr::Decoder& decoder, Time& to) {
  nfs4::nfstime4 time;
  if (!xdr::Decode(decoder, time)) return false;
  to = {time.seconds, time.nseconds};
  return true;
}

// Most servers leave the minor number at zero.
uint64_t FileSystemOf(const nfs4::fsid4& fsid) {
  return fsid.minor == 0 ? fsid.major : Mix(Mix(0, fsid.major), fsid.minor);
}

}  // namespace

const nfs4::bitmap4& FileAttributes() {
  static const nfs4::bitmap4 kMap = kFileAttributes.ToBitmap();
  return kMap;
}

const nfs4::bitmap4& EntryAttributes(ListContent content) {
  static const nfs4::bitmap4 kWithout = kEntryAttributes.ToBitmap();
  static const nfs4::bitmap4 kWith = kEntryAttributesAndHandle.ToBitmap();
  return content == ListContent::kAttributesAndHandles ? kWith : kWithout;
}

const nfs4::bitmap4& AclAttribute() {
  static const nfs4::bitmap4 kMap = kAclAttribute.ToBitmap();
  return kMap;
}

const nfs4::bitmap4& LocationsAttribute() {
  static const nfs4::bitmap4 kMap = kLocationsAttribute.ToBitmap();
  return kMap;
}

const nfs4::bitmap4& LimitAttributes(const Dialect& dialect) {
  static const nfs4::bitmap4 kMap = kLimitAttributes.ToBitmap();
  static const nfs4::bitmap4 kMapOf42 = (kLimitAttributes | AttributeSet{nfs4::FATTR4_OPEN_ARGUMENTS}).ToBitmap();
  return dialect.has_files_of_version_42 ? kMapOf42 : kMap;
}

const nfs4::bitmap4& SpaceAttributes() {
  static const nfs4::bitmap4 kMap = kSpaceAttributes.ToBitmap();
  return kMap;
}

std::optional<Attributes> DecodeAttributes(const nfs4::fattr4& encoded, std::optional<Handle>* handle) {
  Attributes attributes;
  const bool good = ForEach(encoded, [&](uint32_t number, xdr::Decoder& decoder) {
    switch (number) {
      case nfs4::FATTR4_TYPE: {
        nfs4::nfs_ftype4 type{};
        if (!xdr::Decode(decoder, type)) return false;
        attributes.type = FileTypeOf(static_cast<uint32_t>(type));
        return true;
      }
      case nfs4::FATTR4_CHANGE:
        return decoder.U64(attributes.change);
      case nfs4::FATTR4_SIZE:
        return decoder.U64(attributes.size);
      case nfs4::FATTR4_FSID: {
        nfs4::fsid4 fsid;
        if (!xdr::Decode(decoder, fsid)) return false;
        attributes.file_system = FileSystemOf(fsid);
        return true;
      }
      case nfs4::FATTR4_RDATTR_ERROR: {
        uint32_t status = 0;
        return decoder.U32(status) && status == 0;
      }
      case nfs4::FATTR4_FILEHANDLE: {
        nfs4::nfs_fh4 octets;
        if (!xdr::Decode(decoder, octets)) return false;
        if (handle) handle->emplace(octets);
        return true;
      }
      case nfs4::FATTR4_FILEID:
        return decoder.U64(attributes.file_id);
      case nfs4::FATTR4_MODE:
        return decoder.U32(attributes.mode);
      case nfs4::FATTR4_NUMLINKS:
        return decoder.U32(attributes.links);
      case nfs4::FATTR4_OWNER:
        return DecodeTo<xdr::StringView<xdr::kUnbounded>>(decoder, attributes.owner);
      case nfs4::FATTR4_OWNER_GROUP:
        return DecodeTo<xdr::StringView<xdr::kUnbounded>>(decoder, attributes.group);
      case nfs4::FATTR4_RAWDEV:
        return decoder.U32(attributes.device_major) && decoder.U32(attributes.device_minor);
      case nfs4::FATTR4_SPACE_USED:
        return decoder.U64(attributes.used);
      case nfs4::FATTR4_TIME_ACCESS:
        return DecodeTime(decoder, attributes.accessed);
      case nfs4::FATTR4_TIME_METADATA:
        return DecodeTime(decoder, attributes.changed);
      case nfs4::FATTR4_TIME_MODIFY:
        return DecodeTime(decoder, attributes.modified);
      default:
        return false;
    }
  });
  if (!good) return std::nullopt;
  return attributes;
}

std::optional<nfs4::nfsstat4> DecodeError(const nfs4::fattr4& encoded) {
  nfs4::nfsstat4 status{};
  const bool good = ForEach(encoded, [&](uint32_t number, xdr::Decoder& decoder) {
    // The root of an absent file system may have an fsid all the same (RFC 8881 §11.4.2).
    nfs4::fsid4 fsid;
    if (number == nfs4::FATTR4_FSID) return xdr::Decode(decoder, fsid);
    return number == nfs4::FATTR4_RDATTR_ERROR && xdr::Decode(decoder, status);
  });
  if (!good || status == nfs4::nfsstat4::NFS4_OK) return std::nullopt;
  return status;
}

std::optional<std::vector<Location>> DecodeLocations(const nfs4::fattr4& encoded) {
  nfs4::fs_locations4 locations;
  const bool good = ForEach(encoded, [&](uint32_t number, xdr::Decoder& decoder) {
    return number == nfs4::FATTR4_FS_LOCATIONS && xdr::Decode(decoder, locations);
  });
  if (!good) return std::nullopt;
  return LocationsOf(locations);
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
      case nfs4::FATTR4_OPEN_ARGUMENTS: {
        nfs4::open_arguments4 arguments;
        if (!xdr::Decode(decoder, arguments)) return false;
        using enum nfs4::open_args_share_access_want4;
        using Wants = nfs_protocol::NumberSet<nfs4::open_args_share_access_want4>;
        limits.opens_or_delegates =
            Wants(arguments.oa_share_access_want).Has(OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION);
        return true;
      }
      default:
        return false;
    }
  });
  if (!good) return std::nullopt;
  return limits;
}

std::optional<Space> DecodeSpace(const nfs4::fattr4& encoded) {
  Space space;
  const bool good = ForEach(encoded, [&](uint32_t number, xdr::Decoder& decoder) {
    switch (number) {
      case nfs4::FATTR4_FILES_AVAIL:
        return decoder.U64(space.available_files);
      case nfs4::FATTR4_FILES_FREE:
        return decoder.U64(space.free_files);
      case nfs4::FATTR4_FILES_TOTAL:
        return decoder.U64(space.total_files);
      case nfs4::FATTR4_MAXNAME:
        return decoder.U32(space.longest_name);
      case nfs4::FATTR4_SPACE_AVAIL:
        return decoder.U64(space.available);
      case nfs4::FATTR4_SPACE_FREE:
        return decoder.U64(space.free);
      case nfs4::FATTR4_SPACE_TOTAL:
        return decoder.U64(space.total);
      default:
        return false;
    }
  });
  if (!good) return std::nullopt;
  return space;
}

std::optional<std::vector<Ace>> DecodeAcl(const nfs4::fattr4& encoded) {
  nfs4::fattr4_acl entries;
  const bool good = ForEach(encoded, [&](uint32_t number, xdr::Decoder& decoder) {
    return number == nfs4::FATTR4_ACL && xdr::Decode(decoder, entries);
  });
  if (!good) return std::nullopt;
  std::vector<Ace> acl;
  acl.reserve(entries.size());
  for (const nfs4::nfsace4& each : entries) {
    acl.push_back({each.type, each.flag, each.access_mask, std::string(each.who)});
  }
  return acl;
}

nfs4::fattr4 EncodeAcl(const std::vector<Ace>& acl, std::vector<std::byte>& octets) {
  AttributeWriter writer(octets);
  writer.Acl(nfs4::FATTR4_ACL, acl);
  return writer.Finish();
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
  const AttributeSet wanted(asked);
  AttributeWriter writer(octets);
  if (wanted.Has(nfs4::FATTR4_CHANGE)) writer.U64(nfs4::FATTR4_CHANGE, change);
  if (wanted.Has(nfs4::FATTR4_SIZE)) writer.U64(nfs4::FATTR4_SIZE, size);
  return writer.Finish();
}

nfs4::fattr4 EncodeType(nfs4::nfs_ftype4 type, std::vector<std::byte>& octets) {
  AttributeWriter writer(octets);
  writer.U32(nfs4::FATTR4_TYPE, static_cast<uint32_t>(type));
  return writer.Finish();
}

}  // namespace penstock::client::v4
