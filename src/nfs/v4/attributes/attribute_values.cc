#include "nfs/v4/attributes/attribute_values.h"

#include <array>
#include <span>

#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/attributes/owner_names.h"
#include "xdr/decode.h"
#include "xdr/encode.h"
#include "xdr/message.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

constexpr uint32_t kModeBits = 07777;
constexpr uint32_t kNanosecondsPerSecond = 1'000'000'000;

using xdr::Encoder;
using Values = AttributeValues;

enum class Use : uint8_t { kRead, kWrite, kBoth };

struct Row {
  uint32_t number;
  std::string_view name;
  uint8_t minor_version;  // the first that has it
  Use use;
  void (*encode)(Encoder&, const Values&);                          // null where it cannot be read
  nfsstat4 (*decode)(xdr::Decoder&, DecodedAttributes&) = nullptr;  // null where it cannot be set
  bool (*supported)(const fs::Properties&) = nullptr;               // null: by every file system
};

void EncodeTime(Encoder& to, const fs::Timestamp& time) { xdr::Encode(to, ToTime(time)); }

nfsstat4 TakeSize(xdr::Decoder& from, DecodedAttributes& to) {
  uint64_t size;
  if (!from.U64(size)) return NFS4ERR_BADXDR;
  to.values.size = size;
  return NFS4_OK;
}

nfsstat4 TakeMode(xdr::Decoder& from, DecodedAttributes& to) {
  uint32_t mode;
  if (!from.U32(mode)) return NFS4ERR_BADXDR;
  if ((mode & ~kModeBits) != 0) return NFS4ERR_INVAL;
  to.values.mode = mode;
  return NFS4_OK;
}

// RFC 8881 §6.2.5
nfsstat4 TakeMaskedMode(xdr::Decoder& from, DecodedAttributes& to) {
  mode_masked4 mode;
  if (!xdr::Decode(from, mode)) return NFS4ERR_BADXDR;
  if (((mode.mm_value_to_set | mode.mm_mask_bits) & ~kModeBits) != 0) return NFS4ERR_INVAL;
  if (to.values.mode) return NFS4ERR_INVAL;
  to.masked_mode = mode;
  return NFS4_OK;
}

// RFC 8275 §4: in one request with mode or mode_set_masked it makes no sense.
nfsstat4 TakeModeUmask(xdr::Decoder& from, DecodedAttributes& to) {
  mode_umask4 mode;
  if (!xdr::Decode(from, mode)) return NFS4ERR_BADXDR;
  if (to.values.mode || to.masked_mode || ((mode.mu_mode | mode.mu_umask) & ~kModeBits) != 0) return NFS4ERR_INVAL;
  if ((mode.mu_umask & ~0777u) != 0) return NFS4ERR_INVAL;
  to.values.mode = mode.mu_mode;
  to.values.umask = mode.mu_umask;
  return NFS4_OK;
}

nfsstat4 TakeName(xdr::Decoder& from, std::optional<std::string_view>& to) {
  ConstBytes bytes;
  if (!from.Opaque(bytes, xdr::kUnbounded)) return NFS4ERR_BADXDR;
  if (bytes.empty() || !IsUtf8(AsText(bytes))) return NFS4ERR_INVAL;
  to = AsText(bytes);
  return NFS4_OK;
}

nfsstat4 TakeSetTime(xdr::Decoder& from, fs::SetTime& to) {
  settime4 time;
  if (!xdr::Decode(from, time)) return NFS4ERR_BADXDR;
  if (!time.is_time()) {
    to.how = fs::SetTime::How::kServerTime;
    return NFS4_OK;
  }
  if (time.time().nseconds >= kNanosecondsPerSecond) return NFS4ERR_INVAL;
  to = {fs::SetTime::How::kGiven, {time.time().seconds, time.time().nseconds}};
  return NFS4_OK;
}

bool KeepsAcls(const fs::Properties& properties) { return properties.acls; }

constexpr Row kRows[] = {
    {FATTR4_SUPPORTED_ATTRS, "supported_attrs", 0, Use::kRead,
     [](Encoder& to, const Values& v) { SupportedAttributes(v.properties, v.minor_version).Encode(to); }},
    {FATTR4_TYPE, "type", 0, Use::kRead,
     [](Encoder& to, const Values& v) { xdr::Encode(to, ToFileType(v.attributes.type)); }},
    {FATTR4_FH_EXPIRE_TYPE, "fh_expire_type", 0, Use::kRead,
     [](Encoder& to, const Values&) { to.U32(FH4_PERSISTENT); }},
    {FATTR4_CHANGE, "change", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U64(v.attributes.change); }},
    {FATTR4_SIZE, "size", 0, Use::kBoth, [](Encoder& to, const Values& v) { to.U64(v.attributes.size); }, TakeSize},
    {FATTR4_LINK_SUPPORT, "link_support", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.hard_links); }},
    {FATTR4_SYMLINK_SUPPORT, "symlink_support", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.symlinks); }},
    {FATTR4_NAMED_ATTR, "named_attr", 0, Use::kRead, [](Encoder& to, const Values&) { to.Bool(false); }},
    // Two exports of one file system are two to a client: what may be done in them differs (RFC 8881 §5.8.1.9).
    {FATTR4_FSID, "fsid", 0, Use::kRead,
     [](Encoder& to, const Values& v) {
       xdr::Encode(to, fsid4{.major = v.handle.export_id.value(), .minor = v.attributes.fsid});
     }},
    {FATTR4_UNIQUE_HANDLES, "unique_handles", 0, Use::kRead, [](Encoder& to, const Values&) { to.Bool(true); }},
    {FATTR4_LEASE_TIME, "lease_time", 0, Use::kRead,
     [](Encoder& to, const Values& v) {
       to.U32(static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(v.settings.lease).count()));
     }},
    {FATTR4_RDATTR_ERROR, "rdattr_error", 0, Use::kRead,
     [](Encoder& to, const Values& v) { xdr::Encode(to, v.error); }},
    {FATTR4_ACL, "acl", 0, Use::kBoth,
     [](Encoder& to, const Values& v) {
       EncodeAcl(to, v.acls, v.attributes.type == fs::FileType::kDirectory, v.owners);
     },
     [](xdr::Decoder& from, DecodedAttributes& to) { return DecodeAcl(from, to.acl.emplace()); }, KeepsAcls},
    {FATTR4_ACLSUPPORT, "aclsupport", 0, Use::kRead, [](Encoder& to, const Values&) { to.U32(kAclSupport); }, nullptr,
     KeepsAcls},
    {FATTR4_CANSETTIME, "cansettime", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.can_set_time); }},
    {FATTR4_CASE_INSENSITIVE, "case_insensitive", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.case_insensitive); }},
    {FATTR4_CASE_PRESERVING, "case_preserving", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.case_preserving); }},
    {FATTR4_CHOWN_RESTRICTED, "chown_restricted", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.chown_restricted); }},
    {FATTR4_FILEHANDLE, "filehandle", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.Opaque(EncodedHandle(v.handle).bytes()); }},
    {FATTR4_FILEID, "fileid", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U64(v.attributes.fileid); }},
    {FATTR4_FILES_AVAIL, "files_avail", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.available_files); }},
    {FATTR4_FILES_FREE, "files_free", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U64(v.space.free_files); }},
    {FATTR4_FILES_TOTAL, "files_total", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.total_files); }},
    {FATTR4_HOMOGENEOUS, "homogeneous", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.homogeneous); }},
    {FATTR4_MAXFILESIZE, "maxfilesize", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.properties.max_file_size); }},
    {FATTR4_MAXLINK, "maxlink", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U32(v.properties.link_max); }},
    {FATTR4_MAXNAME, "maxname", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U32(v.properties.name_max); }},
    {FATTR4_MAXREAD, "maxread", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U64(v.settings.max_read); }},
    {FATTR4_MAXWRITE, "maxwrite", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U64(v.settings.max_write); }},
    {FATTR4_MODE, "mode", 0, Use::kBoth, [](Encoder& to, const Values& v) { to.U32(v.attributes.mode & kModeBits); },
     TakeMode},
    {FATTR4_NO_TRUNC, "no_trunc", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.no_truncate); }},
    {FATTR4_NUMLINKS, "numlinks", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U32(v.attributes.nlink); }},
    {FATTR4_OWNER, "owner", 0, Use::kBoth,
     [](Encoder& to, const Values& v) { v.owners.EncodeUser(to, v.attributes.uid); },
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeName(from, to.owner); }},
    {FATTR4_OWNER_GROUP, "owner_group", 0, Use::kBoth,
     [](Encoder& to, const Values& v) { v.owners.EncodeGroup(to, v.attributes.gid); },
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeName(from, to.owner_group); }},
    {FATTR4_RAWDEV, "rawdev", 0, Use::kRead,
     [](Encoder& to, const Values& v) {
       xdr::Encode(to, specdata4{.specdata1 = v.attributes.rdev.major, .specdata2 = v.attributes.rdev.minor});
     }},
    {FATTR4_SPACE_AVAIL, "space_avail", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.available_bytes); }},
    {FATTR4_SPACE_FREE, "space_free", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U64(v.space.free_bytes); }},
    {FATTR4_SPACE_TOTAL, "space_total", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.total_bytes); }},
    {FATTR4_SPACE_USED, "space_used", 0, Use::kRead, [](Encoder& to, const Values& v) { to.U64(v.attributes.used); }},
    {FATTR4_TIME_ACCESS, "time_access", 0, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.attributes.atime); }},
    {FATTR4_TIME_ACCESS_SET, "time_access_set", 0, Use::kWrite, nullptr,
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeSetTime(from, to.values.atime); }},
    {FATTR4_TIME_CREATE, "time_create", 0, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.attributes.born.value_or(fs::Timestamp{})); }},
    {FATTR4_TIME_DELTA, "time_delta", 0, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.properties.time_granularity); }},
    {FATTR4_TIME_METADATA, "time_metadata", 0, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.attributes.ctime); }},
    {FATTR4_TIME_MODIFY, "time_modify", 0, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.attributes.mtime); }},
    {FATTR4_TIME_MODIFY_SET, "time_modify_set", 0, Use::kWrite, nullptr,
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeSetTime(from, to.values.mtime); }},
    {FATTR4_MOUNTED_ON_FILEID, "mounted_on_fileid", 0, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.mounted_on_fileid); }},
    {FATTR4_MODE_SET_MASKED, "mode_set_masked", 1, Use::kWrite, nullptr, TakeMaskedMode},
    {FATTR4_SUPPATTR_EXCLCREAT, "suppattr_exclcreat", 1, Use::kRead,
     [](Encoder& to, const Values& v) { ExclusiveCreateAttributes(v.properties, v.minor_version).Encode(to); }},
    // Names must be UTF-8 where they come from clients (CheckName); what was made on this host may be anything (RFC
    // 8881 §14.4).
    {FATTR4_FS_CHARSET_CAP, "fs_charset_cap", 1, Use::kRead,
     [](Encoder& to, const Values&) { to.U32(FSCHARSET_CAP4_CONTAINS_NON_UTF8 | FSCHARSET_CAP4_ALLOWS_ONLY_UTF8); }},
    {FATTR4_CLONE_BLKSIZE, "clone_blksize", 2, Use::kRead,
     [](Encoder& to, const Values& v) { to.U32(v.properties.clone_block_size); }, nullptr,
     [](const fs::Properties& properties) { return properties.clone_block_size != 0; }},
    {FATTR4_CHANGE_ATTR_TYPE, "change_attr_type", 2, Use::kRead,
     [](Encoder& to, const Values&) { xdr::Encode(to, NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR); }},
    {FATTR4_MODE_UMASK, "mode_umask", 2, Use::kWrite, nullptr, TakeModeUmask},
    {FATTR4_XATTR_SUPPORT, "xattr_support", 2, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.xattrs); }},
};

constexpr std::array<uint8_t, AttributeSet::kEnd> kNoRow = [] {
  std::array<uint8_t, AttributeSet::kEnd> none{};
  none.fill(UINT8_MAX);
  return none;
}();
constexpr auto kRowOf = [] {
  auto rows = kNoRow;
  for (size_t i = 0; i < std::size(kRows); ++i) rows[kRows[i].number] = static_cast<uint8_t>(i);
  return rows;
}();

template <class Predicate>
constexpr AttributeSet SetOf(Predicate predicate) {
  AttributeSet set;
  for (const Row& row : kRows) {
    if (predicate(row)) set.Add(row.number);
  }
  return set;
}

constexpr AttributeSet kReadable = SetOf([](const Row& row) { return row.encode != nullptr; });
constexpr AttributeSet kWritable = SetOf([](const Row& row) { return row.decode != nullptr; });
static_assert(SetOf([](const Row& row) { return row.use == Use::kRead; }) == kReadable - kWritable);
static_assert(SetOf([](const Row& row) { return row.use == Use::kBoth; }) == (kReadable & kWritable));

// Supported where the file system has it.
constexpr AttributeSet kDependent = SetOf([](const Row& row) { return row.supported != nullptr; });
constexpr std::array<AttributeSet, 3> kOfMinorVersion = {SetOf([](const Row& row) { return row.minor_version == 0; }),
                                                         SetOf([](const Row& row) { return row.minor_version <= 1; }),
                                                         SetOf([](const Row& row) { return row.minor_version <= 2; })};

}  // namespace

AttributeSet SupportedAttributes(const fs::Properties& properties, uint32_t minor_version) {
  AttributeSet supported = kOfMinorVersion[minor_version];
  (supported & kDependent).ForEach([&](uint32_t number) {
    if (!kRows[kRowOf[number]].supported(properties)) supported.Remove(number);
    return true;
  });
  return supported;
}

AttributeSet ReadableAttributes() { return kReadable; }
AttributeSet WritableAttributes() { return kWritable; }

// The verifier may be kept in the times (fs::CreateHow), and a list is set when the file is there: both are to be set
// afterwards.
AttributeSet ExclusiveCreateAttributes(const fs::Properties& properties, uint32_t minor_version) {
  constexpr AttributeSet kAfterwards{FATTR4_ACL, FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET};
  return (SupportedAttributes(properties, minor_version) & kWritable) - kAfterwards;
}

void EncodeAttributes(xdr::Encoder& encoder, const AttributeSet& wanted, const AttributeValues& values) {
  AttributeSet set = wanted;
  if (!values.attributes.born) set.Remove(FATTR4_TIME_CREATE);
  set.Encode(encoder);
  const size_t length_at = encoder.reduced_size();
  encoder.U32(0);
  set.ForEach([&](uint32_t number) {
    kRows[kRowOf[number]].encode(encoder, values);
    return true;
  });
  encoder.PatchU32(length_at, static_cast<uint32_t>(encoder.reduced_size() - length_at - 4));
}

nfsstat4 DecodeAttributes(const AttributeSet& set, ConstBytes values, DecodedAttributes& to) {
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(values));
  xdr::Decoder decoder(message);
  nfsstat4 status = NFS4_OK;
  set.ForEach([&](uint32_t number) {
    status = kRows[kRowOf[number]].decode(decoder, to);
    return status == NFS4_OK;
  });
  if (status == NFS4_OK && !decoder.Finish()) return NFS4ERR_BADXDR;
  return status;
}

std::string_view AttributeName(uint32_t number) {
  if (number >= AttributeSet::kEnd || kRowOf[number] == UINT8_MAX) return {};
  return kRows[kRowOf[number]].name;
}

}  // namespace penstock::nfs::v4
