#include "fs/ceph/tree.h"

#include <cerrno>
#include <ctime>

#include "fs/acl_octets.h"
#include "fs/errno.h"

namespace penstock::fs::ceph {
namespace {

// A directory that is deeper than this below the root is taken for one that is not below it.
constexpr int kDeepest = 4096;

bool Sets(const NewAttributes& values, SetTime::How how) { return values.atime.how == how || values.mtime.how == how; }

Timestamp Now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return {now.tv_sec, static_cast<uint32_t>(now.tv_nsec)};
}

// CephFS stores unsigned 32-bit seconds.
bool CanStore(const SetTime& time) {
  return time.how != SetTime::How::kGiven || (time.time.seconds >= 0 && time.time.seconds <= UINT32_MAX);
}

bool SetsAnything(const NewStat& values) {
  return values.mode || values.uid || values.gid || values.size || values.atime || values.mtime;
}

}  // namespace

Result<Tree::Call> Tree::Begin() const {
  SessionRef session = mount_->Current();
  if (!session) return std::unexpected(Error::kDelay);
  return Call{std::move(session)};
}

std::unexpected<Error> Tree::Failed(const Call& call, int code) const {
  switch (-code) {
    case ESHUTDOWN:
    case ENOTCONN:
      mount_->NoteEnded(call.session);
      return std::unexpected(Error::kDelay);
    case ETIMEDOUT:
      return std::unexpected(Error::kDelay);
    default:
      return std::unexpected(FromErrno(-code));
  }
}

Result<void> Tree::ResultOf(const Call& call, int code) const {
  if (code < 0) return Failed(call, code);
  return {};
}

Result<void> Tree::CheckCurrent(const Call& call) const {
  if (mount_->Current() != call.session) return std::unexpected(Error::kDelay);
  return {};
}

ObjectRef Tree::Enter(const Call& call, Inode* inode, const Stat& stat) const {
  return call.session->objects.Insert(
      std::make_shared<Object>(call.session->client, stat.number, inode, stat.attributes.type));
}

Result<Attributes> Tree::StatOf(const Call& call, const ObjectRef& object) const {
  Stat stat;
  const int code = call.client().GetAttributes(object->inode(), stat, Client::Freshness::kCurrent);
  if (code < 0) return Failed(call, code);
  if (stat.attributes.nlink == 0 && object->is_live() && !mount_->is_pinned(object->number())) {
    call.session->objects.Erase(object->number());
    return std::unexpected(Error::kStale);
  }
  return stat.attributes;
}

Result<Tree::Reached> Tree::Reach(const Call& call, const Handle& handle) const {
  PENSTOCK_TRY(const InodeNumber number, handles_.NumberOf(handle));
  ObjectRef object = call.session->objects.Find(number);
  if (!object) {
    Inode* inode = nullptr;
    int code = call.client().Find(number, inode);
    if (code == -ENOENT) code = -ESTALE;
    if (code < 0) return Failed(call, code);
    Stat stat;
    code = call.client().GetAttributes(inode, stat, Client::Freshness::kCurrent);
    // The call may have found another object: a snapshot that is gone, for example.
    if (code >= 0 && stat.number != number) code = -ESTALE;
    // What is in a snapshot does not move.
    const bool may_move = number.snapshot == kNoSnapshot || number.snapshot == kSnapshotDirectory;
    if (code >= 0 && stat.attributes.type == FileType::kDirectory && may_move) {
      if (const auto served = CheckServed(call, inode, number); !served) {
        call.client().Put(inode);
        return std::unexpected(served.error());
      }
    }
    if (code < 0) {
      call.client().Put(inode);
      return Failed(call, code);
    }
    object = Enter(call, inode, stat);
  }
  PENSTOCK_TRY(const Attributes attributes, StatOf(call, object));
  return Reached{std::move(object), attributes};
}

int Tree::LookUpParent(const Call& call, const Credentials& caller, Inode* directory, const InodeNumber& number,
                       Inode*& parent, Stat& stat) const {
  InodeNumber above = number;
  if (number.snapshot == kSnapshotDirectory) {
    // libcephfs leads to the parent of the directory that it belongs to.
    above.snapshot = kNoSnapshot;
  } else if (number.ino == root_.ino && number.snapshot != kNoSnapshot) {
    // A snapshot of a directory above the root has a parent outside the export.
    above.snapshot = kSnapshotDirectory;
  } else {
    return call.client().Lookup(caller, directory, "..", parent, stat);
  }
  int code = call.client().Find(above, parent);
  if (code < 0) return code;
  code = call.client().GetAttributes(parent, stat, Client::Freshness::kCurrent);
  if (code < 0) call.client().Put(parent);
  return code;
}

// Somebody may have moved the directory out of the exported tree: its parents, which ".." leads to, are not exported.
Result<void> Tree::CheckServed(const Call& call, Inode* directory, const InodeNumber& number) const {
  Inode* inode = nullptr;
  InodeNumber at = number;
  Result<void> result;
  for (int depth = 0; result && at.ino != root_.ino; ++depth) {
    Inode* parent = nullptr;
    Stat stat;
    int code = covers_.Has(at) ? -ESTALE : LookUpParent(call, kAsRoot, inode ? inode : directory, at, parent, stat);
    if (inode) call.client().Put(inode);
    inode = code < 0 ? nullptr : parent;
    if (code >= 0) code = covers_.CheckPlaces(call.client(), parent, stat.number, at);
    // The root of the file system is its own parent.
    if (code == -ENOENT || (code >= 0 && (stat.number == at || depth == kDeepest))) code = -ESTALE;
    if (code < 0) result = Failed(call, code);
    at = stat.number;
  }
  if (inode) call.client().Put(inode);
  return result;
}

std::optional<Attributes> Tree::After(const Call& call, const ObjectRef& object, Client::Freshness freshness) const {
  Stat stat;
  if (call.client().GetAttributes(object->inode(), stat, freshness) < 0) return std::nullopt;
  return stat.attributes;
}

Result<void> Tree::SyncMetadata(const Call& call, const ObjectRef& object) const {
  if (!sync_metadata_) return {};
  const int code = call.client().SyncInode(object->inode());
  if (code >= 0) return {};
  const Error error = Failed(call, code).error();
  // The change was made, and may not last. The caller must not take it for one that was not made.
  return std::unexpected(error == Error::kNoSpace || error == Error::kQuota ? error : Error::kIo);
}

Result<Acl> Tree::AclOf(const Call& call, const ObjectRef& object, const char* which) const {
  if (object->type() == FileType::kSymlink) return Acl{};
  std::vector<std::byte> octets;
  const int code = call.client().GetXattr(kAsRoot, object->inode(), which, octets);
  if (code == -ENODATA || code == -EOPNOTSUPP || (code >= 0 && octets.empty())) return Acl{};
  if (code < 0) return Failed(call, code);
  return AclOfOctets(octets);
}

Result<Rights> Tree::RightsTo(const Call& call, const Reached& reached, const Credentials& caller) const {
  if (caller.uid == 0) return RightsOf(reached.attributes, caller);
  PENSTOCK_TRY(const Acl acl, AclOf(call, reached.object, kAccessAcl));
  return acl.empty() ? RightsOf(reached.attributes, caller) : RightsOf(acl, reached.attributes, caller);
}

Result<Attributes> Tree::GetAttributes(const Handle& handle) {
  PENSTOCK_TRY(const Call call, Begin());
  PENSTOCK_TRY(const Reached reached, Reach(call, handle));
  return reached.attributes;
}

Observed<AccessMask> Tree::Access(const Credentials& caller, const Handle& handle, AccessMask wanted) {
  return Observe<AccessMask>(handle, [&](const Call& call, const Reached& reached) -> Result<AccessMask> {
    PENSTOCK_TRY(const Rights rights, RightsTo(call, reached, caller));
    AccessMask mask = AccessOf(reached.object->type(), rights);
    constexpr AccessMask kChanges = kAccessModify | kAccessExtend | kAccessDelete | kAccessXattrWrite;
    if (!reached.object->is_live()) mask &= ~kChanges;
    return mask & wanted;
  });
}

Observed<std::string> Tree::ReadLink(const Handle& handle) {
  return Observe<std::string>(handle, [&](const Call& call, const Reached& reached) -> Result<std::string> {
    if (reached.object->type() != FileType::kSymlink) return std::unexpected(Error::kInvalid);
    std::string target;
    if (const int code = call.client().ReadLink(reached.object->inode(), target); code < 0) return Failed(call, code);
    return target;
  });
}

Observed<Space> Tree::GetSpace(const Handle& handle) {
  return Observe<Space>(handle, [&](const Call& call, const Reached& reached) -> Result<Space> {
    Totals totals;
    if (const int code = call.client().GetTotals(reached.object->inode(), totals); code < 0) return Failed(call, code);
    // Nothing limits the number of files.
    constexpr uint64_t kFreeFiles = uint64_t{1} << 32;
    return Space{totals.blocks * totals.block_size,
                 totals.free_blocks * totals.block_size,
                 totals.available_blocks * totals.block_size,
                 totals.files + kFreeFiles,
                 kFreeFiles,
                 kFreeFiles};
  });
}

Changed<void> Tree::SetAttributes(const Credentials& caller, const Handle& handle, const NewAttributes& values,
                                  std::optional<Timestamp> guard) {
  return Change<void>(handle, [&](const Call& call, const Reached& reached) -> Result<void> {
    if (guard && *guard != reached.attributes.ctime) return std::unexpected(Error::kNotSync);
    return Apply(call, caller, reached, values);
  });
}

// The size goes first, because the other values may take away the right to change it.
Result<void> Tree::Apply(const Call& call, const Credentials& caller, const Reached& reached,
                         const NewAttributes& values) const {
  NewStat as_root, as_caller;
  if (!CanStore(values.atime) || !CanStore(values.mtime)) return std::unexpected(Error::kInvalid);
  if (values.size) {
    PENSTOCK_CHECK(CheckWrite(call, caller, reached));
    if (*values.size > INT64_MAX) return std::unexpected(Error::kFileTooBig);
    as_root.size = values.size;
  }
  // A caller with write access may set the server's time, and the owner any other.
  if (Sets(values, SetTime::How::kServerTime)) {
    PENSTOCK_TRY(const Rights rights, RightsTo(call, reached, caller));
    if (!MayWriteData(reached.attributes, caller, rights)) return std::unexpected(Error::kAccess);
    const Timestamp now = Now();
    if (values.atime.how == SetTime::How::kServerTime) as_root.atime = now;
    if (values.mtime.how == SetTime::How::kServerTime) as_root.mtime = now;
  }
  as_caller.uid = values.uid;
  as_caller.gid = values.gid;
  // A symbolic link has no mode of its own.
  if (values.mode && reached.object->type() != FileType::kSymlink) as_caller.mode = *values.mode & 07777;
  if (values.atime.how == SetTime::How::kGiven) as_caller.atime = values.atime.time;
  if (values.mtime.how == SetTime::How::kGiven) as_caller.mtime = values.mtime.time;
  Inode* const inode = reached.object->inode();
  if (SetsAnything(as_root)) {
    PENSTOCK_CHECK(ResultOf(call, call.client().SetAttributes(kAsRoot, inode, as_root)));
    if (as_root.size) PENSTOCK_CHECK(DropSetId(call, caller, reached));
  }
  if (SetsAnything(as_caller)) {
    PENSTOCK_CHECK(ResultOf(call, call.client().SetAttributes(caller, inode, as_caller)));
  }
  return {};
}

Result<Pinned> Tree::Pin(const Handle& handle) {
  PENSTOCK_TRY(const Call call, Begin());
  PENSTOCK_TRY(const Reached reached, Reach(call, handle));
  PENSTOCK_CHECK(CheckRegular(reached.object->type()));
  PENSTOCK_CHECK(ResultOf(call, mount_->Pin(call.session, reached.object)));
  return Pinned(reached.object.get(),
                [mount = mount_, number = reached.object->number()](const void*) { mount->Unpin(number); });
}

}  // namespace penstock::fs::ceph
