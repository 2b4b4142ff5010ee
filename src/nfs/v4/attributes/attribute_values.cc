#include "nfs/v4/attributes/attribute_values.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/utf8.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/attributes/owner_texts.h"
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
  Revision since;  // the first revision that defines the attribute
  Use use;
  void (*encode)(Encoder&, const Values&);                          // null if a client cannot read the attribute
  nfsstat4 (*decode)(xdr::Decoder&, DecodedAttributes&) = nullptr;  // null if a client cannot set the attribute
  bool (*supported)(const fs::Properties&) = nullptr;               // null if every file system supports the attribute
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

// RFC 8275 §4: mode_umask is invalid together with mode or mode_set_masked.
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

nfsstat4 TakeTime(xdr::Decoder& from, std::optional<fs::Timestamp>& to) {
  nfstime4 time;
  if (!xdr::Decode(from, time)) return NFS4ERR_BADXDR;
  if (time.nseconds >= kNanosecondsPerSecond) return NFS4ERR_INVAL;
  to = fs::Timestamp{time.seconds, time.nseconds};
  return NFS4_OK;
}

// RFC 9754 §4. The server never signals that a delegation has become available.
void EncodeOpenArguments(Encoder& to, const Values& v) {
  using nfs_protocol::NumberSet;
  using Want = NumberSet<open_args_share_access_want4>;
  NumberSet<open_args_share_access4>{OPEN_ARGS_SHARE_ACCESS_READ, OPEN_ARGS_SHARE_ACCESS_WRITE,
                                     OPEN_ARGS_SHARE_ACCESS_BOTH}
      .Encode(to);
  NumberSet<open_args_share_deny4>{OPEN_ARGS_SHARE_DENY_NONE, OPEN_ARGS_SHARE_DENY_READ, OPEN_ARGS_SHARE_DENY_WRITE,
                                   OPEN_ARGS_SHARE_DENY_BOTH}
      .Encode(to);
  const Want always{OPEN_ARGS_SHARE_ACCESS_WANT_ANY_DELEG, OPEN_ARGS_SHARE_ACCESS_WANT_NO_DELEG,
                    OPEN_ARGS_SHARE_ACCESS_WANT_CANCEL};
  const Want with_delegations{OPEN_ARGS_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS,
                              OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION};
  (v.settings.delegations ? always | with_delegations : always).Encode(to);
  NumberSet<open_args_open_claim4>{OPEN_ARGS_OPEN_CLAIM_NULL, OPEN_ARGS_OPEN_CLAIM_PREVIOUS,
                                   OPEN_ARGS_OPEN_CLAIM_DELEGATE_CUR, OPEN_ARGS_OPEN_CLAIM_FH,
                                   OPEN_ARGS_OPEN_CLAIM_DELEG_CUR_FH}
      .Encode(to);
  NumberSet<open_args_createmode4>{OPEN_ARGS_CREATEMODE_UNCHECKED4, OPEN_ARGS_CREATE_MODE_GUARDED,
                                   OPEN_ARGS_CREATEMODE_EXCLUSIVE4, OPEN_ARGS_CREATE_MODE_EXCLUSIVE4_1}
      .Encode(to);
}

// RFC 8881 §6.2.2: only one of acl and dacl may be given, because both set the same list.
nfsstat4 TakeAcl(xdr::Decoder& from, DecodedAttributes& to) {
  if (to.acl) return NFS4ERR_INVAL;
  return DecodeAcl(from, to.acl.emplace());
}

nfsstat4 TakeDacl(xdr::Decoder& from, DecodedAttributes& to) {
  uint32_t flags;
  if (!from.U32(flags)) return NFS4ERR_BADXDR;
  if (const nfsstat4 status = CheckListFlags(flags); status != NFS4_OK) return status;
  return TakeAcl(from, to);
}

void EncodeList(Encoder& to, const Values& v) {
  EncodeAcl(to, v.acls, v.attributes.type == fs::FileType::kDirectory, v.owners);
}

bool KeepsAcls(const fs::Properties& properties) { return properties.acls; }
bool KeepsQuotas(const fs::Properties& properties) { return properties.quotas; }

// The room below a limit.
uint64_t Below(uint64_t limit, uint64_t used) { return limit - std::min(limit, used); }

constexpr Row kRows[] = {
    {FATTR4_SUPPORTED_ATTRS, "supported_attrs", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) {
       static const Locations kNone;
       SupportedAttributes(v.properties, v.dialect, v.locations ? v.locations->locations : kNone).Encode(to);
     }},
    {FATTR4_TYPE, "type", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { xdr::Encode(to, ToFileType(v.attributes.type)); }},
    {FATTR4_FH_EXPIRE_TYPE, "fh_expire_type", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values&) { to.U32(FH4_PERSISTENT); }},
    {FATTR4_CHANGE, "change", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.attributes.change); }},
    {FATTR4_SIZE, "size", Revision::kRfc7530, Use::kBoth,
     [](Encoder& to, const Values& v) { to.U64(v.attributes.size); }, TakeSize},
    {FATTR4_LINK_SUPPORT, "link_support", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.hard_links); }},
    {FATTR4_SYMLINK_SUPPORT, "symlink_support", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.symlinks); }},
    {FATTR4_NAMED_ATTR, "named_attr", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values&) { to.Bool(false); }},
    // To a client, two exports of one file system are two file systems: their permissions may differ (RFC 8881
    // §5.8.1.9).
    {FATTR4_FSID, "fsid", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) {
       xdr::Encode(to, fsid4{.major = v.handle.export_id.value(), .minor = v.attributes.fsid});
     }},
    {FATTR4_UNIQUE_HANDLES, "unique_handles", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values&) { to.Bool(true); }},
    {FATTR4_LEASE_TIME, "lease_time", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) {
       to.U32(static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(v.settings.lease).count()));
     }},
    {FATTR4_RDATTR_ERROR, "rdattr_error", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { xdr::Encode(to, v.error); }},
    {FATTR4_ACL, "acl", Revision::kRfc7530, Use::kBoth, EncodeList, TakeAcl, KeepsAcls},
    {FATTR4_ACLSUPPORT, "aclsupport", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values&) { to.U32(kAclSupport); }, nullptr, KeepsAcls},
    {FATTR4_CANSETTIME, "cansettime", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.can_set_time); }},
    {FATTR4_CASE_INSENSITIVE, "case_insensitive", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.case_insensitive); }},
    {FATTR4_CASE_PRESERVING, "case_preserving", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.case_preserving); }},
    {FATTR4_CHOWN_RESTRICTED, "chown_restricted", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.chown_restricted); }},
    {FATTR4_FILEHANDLE, "filehandle", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.Opaque(EncodedHandle(v.handle).bytes()); }},
    {FATTR4_FILEID, "fileid", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.attributes.fileid); }},
    {FATTR4_FILES_AVAIL, "files_avail", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.available_files); }},
    {FATTR4_FILES_FREE, "files_free", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.free_files); }},
    {FATTR4_FILES_TOTAL, "files_total", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.total_files); }},
    {FATTR4_FS_LOCATIONS, "fs_locations", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeLocations(to, *v.locations); }},
    {FATTR4_HOMOGENEOUS, "homogeneous", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.homogeneous); }},
    {FATTR4_MAXFILESIZE, "maxfilesize", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.properties.max_file_size); }},
    {FATTR4_MAXLINK, "maxlink", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U32(v.properties.link_max); }},
    {FATTR4_MAXNAME, "maxname", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U32(v.properties.name_max); }},
    {FATTR4_MAXREAD, "maxread", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.settings.max_read); }},
    {FATTR4_MAXWRITE, "maxwrite", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.settings.max_write); }},
    {FATTR4_MODE, "mode", Revision::kRfc7530, Use::kBoth,
     [](Encoder& to, const Values& v) { to.U32(v.attributes.mode & kModeBits); }, TakeMode},
    {FATTR4_NO_TRUNC, "no_trunc", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.no_truncate); }},
    {FATTR4_NUMLINKS, "numlinks", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U32(v.attributes.nlink); }},
    {FATTR4_OWNER, "owner", Revision::kRfc7530, Use::kBoth,
     [](Encoder& to, const Values& v) { v.owners.EncodeUser(to, v.attributes.uid); },
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeName(from, to.owner); }},
    {FATTR4_OWNER_GROUP, "owner_group", Revision::kRfc7530, Use::kBoth,
     [](Encoder& to, const Values& v) { v.owners.EncodeGroup(to, v.attributes.gid); },
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeName(from, to.owner_group); }},
    {FATTR4_QUOTA_AVAIL_HARD, "quota_avail_hard", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(Below(v.quota->hard, v.quota->used)); }, nullptr, KeepsQuotas},
    {FATTR4_QUOTA_AVAIL_SOFT, "quota_avail_soft", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(Below(v.quota->soft, v.quota->used)); }, nullptr, KeepsQuotas},
    {FATTR4_QUOTA_USED, "quota_used", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.quota->used); }, nullptr, KeepsQuotas},
    {FATTR4_RAWDEV, "rawdev", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) {
       xdr::Encode(to, specdata4{.specdata1 = v.attributes.rdev.major, .specdata2 = v.attributes.rdev.minor});
     }},
    {FATTR4_SPACE_AVAIL, "space_avail", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.available_bytes); }},
    {FATTR4_SPACE_FREE, "space_free", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.free_bytes); }},
    {FATTR4_SPACE_TOTAL, "space_total", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.space.total_bytes); }},
    {FATTR4_SPACE_USED, "space_used", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.attributes.used); }},
    {FATTR4_TIME_ACCESS, "time_access", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.attributes.atime); }},
    {FATTR4_TIME_ACCESS_SET, "time_access_set", Revision::kRfc7530, Use::kWrite, nullptr,
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeSetTime(from, to.values.atime); }},
    {FATTR4_TIME_CREATE, "time_create", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.attributes.born.value_or(fs::Timestamp{})); }},
    {FATTR4_TIME_DELTA, "time_delta", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.properties.time_granularity); }},
    {FATTR4_TIME_METADATA, "time_metadata", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.attributes.ctime); }},
    {FATTR4_TIME_MODIFY, "time_modify", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeTime(to, v.attributes.mtime); }},
    {FATTR4_TIME_MODIFY_SET, "time_modify_set", Revision::kRfc7530, Use::kWrite, nullptr,
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeSetTime(from, to.values.mtime); }},
    {FATTR4_MOUNTED_ON_FILEID, "mounted_on_fileid", Revision::kRfc7530, Use::kRead,
     [](Encoder& to, const Values& v) { to.U64(v.mounted_on_fileid); }},
    {FATTR4_DACL, "dacl", Revision::kRfc8881, Use::kBoth,
     [](Encoder& to, const Values& v) {
       to.U32(kListFlags);
       EncodeList(to, v);
     },
     TakeDacl, KeepsAcls},
    {FATTR4_FS_LOCATIONS_INFO, "fs_locations_info", Revision::kRfc8881, Use::kRead,
     [](Encoder& to, const Values& v) { EncodeLocationsInfo(to, *v.locations); }},
    {FATTR4_MODE_SET_MASKED, "mode_set_masked", Revision::kRfc8881, Use::kWrite, nullptr, TakeMaskedMode},
    {FATTR4_SUPPATTR_EXCLCREAT, "suppattr_exclcreat", Revision::kRfc8881, Use::kRead,
     [](Encoder& to, const Values& v) { ExclusiveCreateAttributes(v.properties, v.dialect).Encode(to); }},
    // CheckName() accepts only UTF-8 from clients. Names that were made on this host may have any octets (RFC 8881
    // §14.4).
    {FATTR4_FS_CHARSET_CAP, "fs_charset_cap", Revision::kRfc8881, Use::kRead,
     [](Encoder& to, const Values&) { to.U32(FSCHARSET_CAP4_CONTAINS_NON_UTF8 | FSCHARSET_CAP4_ALLOWS_ONLY_UTF8); }},
    {FATTR4_CLONE_BLKSIZE, "clone_blksize", Revision::kRfc7862, Use::kRead,
     [](Encoder& to, const Values& v) { to.U32(v.properties.clone_block_size); }, nullptr,
     [](const fs::Properties& properties) { return properties.clone_block_size != 0; }},
    // The change attribute is time_metadata in nanoseconds, and a counter where the kernel's clock is too coarse for
    // two changes. It may decrease: the counters end with the server (fs/posix/change_counters.h), and the host's clock
    // may be set back. So it is not NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR.
    {FATTR4_CHANGE_ATTR_TYPE, "change_attr_type", Revision::kRfc7862, Use::kRead,
     [](Encoder& to, const Values&) { xdr::Encode(to, NFS4_CHANGE_TYPE_IS_TIME_METADATA); }},
    {FATTR4_MODE_UMASK, "mode_umask", Revision::kRfc7862, Use::kWrite, nullptr, TakeModeUmask},
    {FATTR4_XATTR_SUPPORT, "xattr_support", Revision::kRfc7862, Use::kRead,
     [](Encoder& to, const Values& v) { to.Bool(v.properties.xattrs); }},
    {FATTR4_TIME_DELEG_ACCESS, "time_deleg_access", Revision::kRfc7862, Use::kWrite, nullptr,
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeTime(from, to.delegated.access); }},
    {FATTR4_TIME_DELEG_MODIFY, "time_deleg_modify", Revision::kRfc7862, Use::kWrite, nullptr,
     [](xdr::Decoder& from, DecodedAttributes& to) { return TakeTime(from, to.delegated.modify); }},
    {FATTR4_OPEN_ARGUMENTS, "open_arguments", Revision::kRfc7862, Use::kRead, EncodeOpenArguments},
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

// The attributes that only some file systems support.
constexpr AttributeSet kDependent = SetOf([](const Row& row) { return row.supported != nullptr; });

// The attributes that a revision of the protocol defines.
template <Revision kRevision>
constexpr AttributeSet kDefinedBy = SetOf([](const Row& row) { return row.since <= kRevision; });

const AttributeSet& DefinedBy(Revision revision) {
  switch (revision) {
    case Revision::kRfc7530:
      return kDefinedBy<Revision::kRfc7530>;
    case Revision::kRfc8881:
      return kDefinedBy<Revision::kRfc8881>;
    case Revision::kRfc7862:
      return kDefinedBy<Revision::kRfc7862>;
  }
  std::unreachable();
}

}  // namespace

AttributeSet SupportedAttributes(const fs::Properties& properties, const Dialect& dialect, const Locations& locations) {
  AttributeSet supported = DefinedBy(dialect.revision());
  if (locations.referral) return supported & kAbsentAttributes;
  if (locations.list.empty()) supported = supported - kLocationAttributes;
  (supported & kDependent).ForEach([&](uint32_t number) {
    if (!kRows[kRowOf[number]].supported(properties)) supported.Remove(number);
    return true;
  });
  return supported;
}

AttributeSet ReadableAttributes() { return kReadable; }
AttributeSet WritableAttributes() { return kWritable; }

// The client must set these attributes after the exclusive create: the times may hold the verifier (fs::CreateHow), and
// an access control list is set when the file exists.
AttributeSet ExclusiveCreateAttributes(const fs::Properties& properties, const Dialect& dialect) {
  constexpr AttributeSet kAfterwards =
      kAclAttributes | kDelegatedTimes | AttributeSet{FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET};
  return (SupportedAttributes(properties, dialect) & kWritable) - kAfterwards;
}

AttributeSet AttributesWithoutValue(const AttributeValues& values) {
  AttributeSet without = values.quota ? AttributeSet() : kQuotaAttributes;
  if (values.quota && values.quota->hard == 0) without.Add(FATTR4_QUOTA_AVAIL_HARD);
  if (values.quota && values.quota->soft == 0) without.Add(FATTR4_QUOTA_AVAIL_SOFT);
  if (!values.attributes.born) without.Add(FATTR4_TIME_CREATE);
  return without;
}

void EncodeAttributes(xdr::Encoder& encoder, const AttributeSet& wanted, const AttributeValues& values) {
  const AttributeSet set = wanted - AttributesWithoutValue(values);
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
