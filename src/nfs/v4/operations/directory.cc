// READDIR.
//
// The file system delivers entries, perhaps on another thread. They are encoded into memory that was reserved before.
#include <algorithm>
#include <optional>
#include <utility>

#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/attributes/owner_texts.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/operations/attributes.h"
#include "nfs/v4/operations/operations.h"
#include "rpc/reply_room.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// The octets of READDIR4resok besides entries: verifier, the end of the list, eof.
constexpr size_t kListOverhead = NFS4_VERIFIER_SIZE + 4 + 4;
// More than the longest entry: a name of any file system, every attribute, owners with their domains. Access control
// lists are an exception: a list with too many entries is left out.
constexpr size_t kLongestEntry = 8192;
constexpr size_t kLongestList = 128 << 10;
constexpr size_t kMostListEntries = 64;
constexpr size_t kLongestName = 4096;

// Cookie 0 is the beginning. Cookies 1 and 2 are reserved for "." and "..", which READDIR does not return, so a client
// never sends them (RFC 8881 §18.23.3). The other cookies are the file system's, plus an offset.
constexpr uint64_t kReservedCookies = 2;

// The attributes of an entry that the directory itself provides.
constexpr AttributeSet kEntryAttributes{FATTR4_RDATTR_ERROR, FATTR4_MOUNTED_ON_FILEID};

// An entry that is replaced by the root of another export.
struct Entrance {
  Junction junction;
  std::optional<AttributeValues> values{};  // nullopt if the client may not see it
};

// The access control list of an entry, which the file system does not deliver with the entry.
struct Missing {
  fs::Handle object;
  uint32_t uid;
  uint32_t gid;
};

struct SuppliedList {
  fs::Handle of;
  fs::Result<fs::Acls> acls;
};

class Entries : public fs::EntrySink {
 public:
  // `room` limits the octets of entries. `names` limits them without attributes, as dircount does; zero means no limit.
  Entries(const AttributeSet& wanted, const AttributeValues& directory, OwnerTexts& owners,
          const std::vector<Entrance>& entrances, BufferPool& buffers, size_t room, uint32_t names)
      : wanted_(wanted),
        owners_(owners),
        directory_(directory),
        entrances_(entrances),
        room_(room),
        names_(names == 0 ? SIZE_MAX : names),
        memory_(RoundUp(room + kLongestEntry + (wanted & kAclAttributes).size() * kLongestList +
                            (wanted & kLocationAttributes).size() * kLongestLocations,
                        4)),
        encoder_(buffers, memory_) {
    const auto start = encoder_.mark();
    encoder_.Extend(memory_);
    encoder_.Rewind(start);
  }

  bool Add(const fs::DirectoryEntry& entry) override {
    missing_.reset();
    if (entry.name == "." || entry.name == ".." || entry.name.size() > kLongestName) return Pass(entry);
    const auto entrance = std::ranges::find(entrances_, entry.name, [](const Entrance& e) { return e.junction.name; });
    if (entrance != entrances_.end()) {
      if (!entrance->values) return Pass(entry);
      AttributeValues values = *entrance->values;
      values.mounted_on_fileid = entry.fileid;
      return Put(entry, values);
    }
    AttributeValues values = directory_;
    values.mounted_on_fileid = entry.fileid;
    if (entry.attributes && entry.handle) {
      values.attributes = *entry.attributes;
      values.handle.object = *entry.handle;
      if (Lacks(values)) return false;
    } else if (entry.error) {
      values.error = ToStatus(*entry.error);
    }
    // RFC 8881 §18.23.3: the entry reports its error in rdattr_error; without that attribute READDIR fails.
    if (values.error != NFS4_OK && !wanted_.Has(FATTR4_RDATTR_ERROR)) {
      failure_ = values.error;
      return false;
    }
    return Put(entry, values);
  }

  // True if the first entry was too long.
  bool too_small() const { return full_ && encoder_.size() == 0; }
  // Set if reading stopped because this list is missing. The caller supplies it, and reading continues.
  const std::optional<Missing>& missing() const { return missing_; }
  void Supply(SuppliedList list) { supplied_ = std::move(list); }
  // Set if reading stopped at an entry whose attributes are unavailable.
  const std::optional<nfsstat4>& failure() const { return failure_; }
  // The cookie after the last returned entry.
  fs::Cookie cookie() const { return cookie_; }
  void MoveTo(xdr::Encoder& results) {
    const xdr::Message entries = encoder_.Finish();
    results.Fixed(entries.stream.bytes());
  }

 private:
  bool Pass(const fs::DirectoryEntry& entry) {
    cookie_ = entry.cookie;
    return true;
  }

  bool Lacks(AttributeValues& values) {
    const fs::Attributes& of = values.attributes;
    const bool lacks_names = wanted_.Intersects(kOwnerAttributes) && !owners_.LoadAtOnce(of.uid, of.gid);
    const bool has_acl = supplied_ && supplied_->of == values.handle.object;
    if (lacks_names || (wanted_.Intersects(kAclAttributes) && !has_acl)) {
      missing_ = Missing{values.handle.object, of.uid, of.gid};
      return true;
    }
    if (has_acl) {
      fs::Result<fs::Acls> acls = std::exchange(supplied_, {})->acls;
      if (acls) {
        values.acls = *std::move(acls);
      } else {
        values.error = ToStatus(acls.error());
      }
    }
    return false;
  }

  bool Put(const fs::DirectoryEntry& entry, const AttributeValues& values) {
    const size_t named = 8 + 4 + RoundUp(entry.name.size(), 4);
    const auto before = encoder_.mark();
    encoder_.Bool(true);
    encoder_.U64(entry.cookie.value() + kReservedCookies);
    encoder_.String(entry.name);
    AttributeSet set = values.error == NFS4_OK ? wanted_ : wanted_ & kEntryAttributes;
    if (!values.locations) {
      set = set - kLocationAttributes;
    } else if (values.locations->locations.referral) {
      set = wanted_ & (values.error == NFS4_OK ? kAbsentAttributes : kAbsentAttributes - kLocationAttributes);
    }
    if (values.acls.access.size() + values.acls.defaults.size() > kMostListEntries) set = set - kAclAttributes;
    EncodeAttributes(encoder_, set, values);
    // dircount does not limit the first entry.
    if (encoder_.size() > room_ || (before.size != 0 && named > names_)) {
      encoder_.Rewind(before);
      full_ = true;
      return false;
    }
    names_ -= std::min(named, names_);
    return Pass(entry);
  }

  const AttributeSet wanted_;
  OwnerTexts& owners_;
  const AttributeValues directory_;
  const std::vector<Entrance>& entrances_;
  const size_t room_;
  size_t names_;
  bool full_ = false;
  std::optional<Missing> missing_;
  std::optional<SuppliedList> supplied_;  // for the next entry, unless the directory has changed
  std::optional<nfsstat4> failure_;
  fs::Cookie cookie_;
  const size_t memory_;
  xdr::Encoder encoder_;
};

// Finds the roots of exports in the directory. Returns an error if the attributes of one are unavailable and
// rdattr_error was not requested.
Task<Result<std::vector<Entrance>, nfsstat4>> FindEntrances(Compound& compound, const Object& directory,
                                                            const AttributeSet& set) {
  std::vector<Entrance> entrances;
  AttributeSet own = set;
  own.Remove(FATTR4_MOUNTED_ON_FILEID);  // comes from the directory
  auto junctions = co_await compound.names->JunctionsIn(directory, compound.call.peer);
  for (const Junction& junction : junctions) {
    Entrance& entrance = entrances.emplace_back(Entrance{junction});
    const Export* leads_to = entrance.junction.leads_to;
    if (!leads_to) continue;
    const Object root(*leads_to, leads_to->file_system().Root(), compound.call);
    AttributeValues& values = entrance.values.emplace(ValuesOf(compound, root));
    // RFC 8881 §18.29.4: the entry reports NFS4ERR_WRONGSEC, never READDIR itself.
    values.error = compound.CheckFlavor(root);
    if (values.error != NFS4_OK) continue;
    if (leads_to->is_referral() && !set.Intersects(kLocationAttributes)) {
      // RFC 8881 §11.4.2
      values.error = NFS4ERR_MOVED;
      if (!set.Has(FATTR4_RDATTR_ERROR)) co_return std::unexpected(values.error);
      continue;
    }
    values.error = co_await LoadAttributes(compound, root, own, values);
    if (values.error != NFS4_OK && !set.Has(FATTR4_RDATTR_ERROR)) co_return std::unexpected(values.error);
  }
  co_return entrances;
}

// Loads the access control list that an entry lacks.
Task<> Supply(Compound& compound, const Object& directory, bool with_acl, Missing missing, Entries& entries) {
  OwnerTexts& owners = compound.owners;
  if (!owners.LoadAtOnce(missing.uid, missing.gid)) co_await owners.Load(missing.uid, missing.gid);
  if (!with_acl) co_return;
  auto acls = co_await directory.file_system().GetAcls(directory.context(), missing.object);
  SuppliedList list{missing.object, std::move(acls.result)};
  if (list.acls) co_await LoadTexts(owners, *list.acls);
  entries.Supply(std::move(list));
}

// Reads repeatedly, loading missing lists in between.
Task<fs::Observed<fs::ReadDirectoryReply>> ReadEntries(Compound& compound, const Object& directory,
                                                       fs::ReadDirectoryArguments arguments, bool with_acl,
                                                       Entries& entries) {
  for (;;) {
    auto observed =
        co_await directory.file_system().ReadDirectory(directory.context(), directory.object(), arguments, entries);
    const auto missing = entries.missing();
    if (!observed.result || !missing) co_return observed;
    co_await Supply(compound, directory, with_acl, *missing, entries);
    arguments.verifier = observed.result->verifier;
    if (entries.cookie() != fs::Cookie()) arguments.cookie = entries.cookie();
  }
}

// Checks the arguments that do not concern the file system.
nfsstat4 CheckArguments(const READDIR4args& arguments, const AttributeSet& known) {
  if (arguments.cookie != 0 && arguments.cookie <= kReservedCookies) return NFS4ERR_BAD_COOKIE;
  if (!ReadableAttributes().Contains(known)) return NFS4ERR_INVAL;
  return arguments.maxcount < kListOverhead ? NFS4ERR_TOOSMALL : NFS4_OK;
}

struct Outcome {
  nfsstat4 status;
  fs::ReadDirectoryReply reply{};
};

Task<Outcome> ReadInto(Compound& compound, const Object& directory, const READDIR4args& arguments,
                       const AttributeSet& known, Entries& entries) {
  const bool at_beginning = arguments.cookie == 0;
  const fs::ReadDirectoryArguments from{.cookie = fs::Cookie(at_beginning ? 0 : arguments.cookie - kReservedCookies),
                                        .verifier = FromVerifier<fs::CookieVerifier>(arguments.cookieverf),
                                        .with_nodes = !kEntryAttributes.Contains(known)};
  const auto observed = co_await ReadEntries(compound, directory, from, known.Intersects(kAclAttributes), entries);
  if (!observed.result) {
    const bool is_link = observed.attributes && observed.attributes->type == fs::FileType::kSymlink;
    const fs::Error error = observed.result.error();
    if (is_link && error == fs::Error::kNotDir) co_return Outcome{compound.dialect.errors().symlink_is_no_directory};
    co_return Outcome{ToStatus(error)};
  }
  if (entries.failure()) co_return Outcome{*entries.failure()};
  // The directory's cookies have become invalid.
  if (!at_beginning && observed.result->verifier != from.verifier) co_return Outcome{NFS4ERR_NOT_SAME};
  co_return Outcome{entries.too_small() ? NFS4ERR_TOOSMALL : NFS4_OK, *observed.result};
}

}  // namespace

// RFC 8881 §18.23
Task<nfsstat4> ReadDirectory(Compound& compound, const READDIR4args& arguments, xdr::Encoder& results) {
  const Object& directory = *compound.current;
  AttributeValues values = ValuesOf(compound, directory);
  // The root of another export may have locations if the directory has none.
  AttributeSet supported = SupportedBy(directory, compound.dialect);
  supported.Add(FATTR4_FS_LOCATIONS);
  if (compound.dialect.revision() >= Revision::kRfc8881) supported.Add(FATTR4_FS_LOCATIONS_INFO);
  const AttributeSet known = AttributeSet(arguments.attr_request) & supported;
  nfsstat4 status = CheckArguments(arguments, known);
  if (status == NFS4_OK && known.Intersects(kSpaceAttributes)) {
    status = co_await LoadAttributes(compound, directory, known & kSpaceAttributes, values);
  }
  std::optional<std::vector<Entrance>> entrances;
  if (status == NFS4_OK) {
    auto found = co_await FindEntrances(compound, directory, known);
    status = found ? NFS4_OK : found.error();
    if (found) entrances = std::move(*found);
  }
  if (status != NFS4_OK) {
    xdr::Encode(results, status);
    co_return status;
  }
  // maxcount does not count the status.
  const rpc::ReplyRoom room(compound.call.peer,
                            std::min<size_t>(arguments.maxcount, compound.room - std::min(compound.room, size_t{4})));
  Entries entries(known, values, compound.owners, *entrances, compound.buffers(),
                  room.octets() - std::min(room.octets(), kListOverhead), arguments.dircount);
  const Outcome outcome = co_await ReadInto(compound, directory, arguments, known, entries);
  xdr::Encode(results, outcome.status);
  if (outcome.status != NFS4_OK) co_return outcome.status;
  xdr::Encode(results, ToVerifier(outcome.reply.verifier));
  entries.MoveTo(results);
  results.Bool(false);
  results.Bool(outcome.reply.eof);
  co_return NFS4_OK;
}

}  // namespace penstock::nfs::v4
