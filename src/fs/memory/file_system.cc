#include "fs/memory/file_system.h"

#include <algorithm>
#include <chrono>

#include "fs/memory/change.h"

namespace penstock::fs::memory {
namespace {

Timestamp SystemTime() {
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return {now / 1'000'000'000, static_cast<uint32_t>(now % 1'000'000'000)};
}

void SetTo(Timestamp& time, const SetTime& value, Timestamp now) {
  if (value.how == SetTime::How::kServerTime) time = now;
  if (value.how == SetTime::How::kGiven) time = value.time;
}

bool IsGiven(const SetTime& value) { return value.how == SetTime::How::kGiven; }
bool IsKept(const SetTime& value) { return value.how == SetTime::How::kKeep; }

}  // namespace

FileSystem::FileSystem(Options options) : options_(std::move(options)) {
  properties_.link_max = UINT32_MAX;
  properties_.name_max = kNameMax;
  properties_.max_file_size = INT64_MAX;
  properties_.xattrs = true;
  properties_.acls = true;
  properties_.clone_block_size = kCloneBlockSize;
  auto root = std::make_unique<Inode>();
  root->attributes.type = FileType::kDirectory;
  root->attributes.mode = options_.root_mode;
  root->attributes.nlink = 2;
  root->attributes.uid = options_.root_uid;
  root->attributes.gid = options_.root_gid;
  root->attributes.fsid = options_.instance;
  root->attributes.fileid = kRootId;
  root->parent = kRootId;
  Touch(*root, true);
  root->attributes.atime = last_time_;
  root->attributes.born = last_time_;
  inodes_.emplace(kRootId, std::move(root));
  next_fileid_ = kRootId + 1;
}

// { fileid, instance }
Handle FileSystem::HandleOf(uint64_t fileid) const {
  std::byte bytes[16];
  StoreBig<uint64_t>(bytes, fileid);
  StoreBig<uint64_t>(bytes + 8, options_.instance);
  return *Handle::FromBytes(bytes);
}

Handle FileSystem::Root() const { return HandleOf(kRootId); }

Result<Identity> FileSystem::Identify(const Handle& object) const {
  if (object.size() != 16) return std::unexpected(Error::kBadHandle);
  return Identity{options_.instance, object};
}

Result<Inode*> FileSystem::Find(const Handle& handle) {
  if (handle.size() != 16) return std::unexpected(Error::kBadHandle);
  const std::byte* bytes = handle.bytes().data();
  if (LoadBig<uint64_t>(bytes + 8) != options_.instance) return std::unexpected(Error::kStale);
  const auto found = inodes_.find(LoadBig<uint64_t>(bytes));
  if (found == inodes_.end()) return std::unexpected(Error::kStale);
  return found->second.get();
}

// Never returns the same time twice, so that every change shows in the ctime, however coarse the clock is.
Timestamp FileSystem::Now() {
  const Timestamp now = options_.clock ? options_.clock() : SystemTime();
  if (now > last_time_) {
    last_time_ = now;
  } else if (++last_time_.nanoseconds == 1'000'000'000) {
    last_time_ = {last_time_.seconds + 1, 0};
  }
  return last_time_;
}

void FileSystem::Touch(Inode& inode, bool data) {
  inode.attributes.ctime = Now();
  if (data) inode.attributes.mtime = inode.attributes.ctime;
  inode.attributes.change = ++last_change_;
}

Task<Result<Attributes>> FileSystem::GetAttributes(const RequestContext&, const Handle& object) {
  std::lock_guard lock(mutex_);
  const Result<Inode*> inode = Find(object);
  if (!inode) co_return std::unexpected(inode.error());
  co_return (*inode)->attributes;
}

Task<Changed<void>> FileSystem::SetAttributes(const RequestContext& context, const Handle& object,
                                              const NewAttributes& values, std::optional<Timestamp> guard) {
  co_return Change<void>(object, [&](Inode& inode) -> Result<void> {
    if (guard && *guard != inode.attributes.ctime) return std::unexpected(Error::kNotSync);
    return Apply(context.credentials, inode, values);
  });
}

// Applies all values or none: it checks all permissions before the first change.
Result<void> FileSystem::Apply(const Credentials& caller, Inode& inode, const NewAttributes& values) {
  Attributes& attributes = inode.attributes;
  const bool owner = IsOwner(attributes, caller);
  const Rights rights = inode.RightsOf(caller);
  if (values.uid && caller.uid != 0 && (!owner || *values.uid != attributes.uid)) return std::unexpected(Error::kPerm);
  if (values.gid && caller.uid != 0 && (!owner || !IsMember(caller, *values.gid))) return std::unexpected(Error::kPerm);
  if (values.mode && !owner) return std::unexpected(Error::kPerm);
  if ((IsGiven(values.atime) || IsGiven(values.mtime)) && !owner) return std::unexpected(Error::kPerm);
  if ((!IsKept(values.atime) || !IsKept(values.mtime)) && !owner && !rights.write) {
    return std::unexpected(Error::kAccess);
  }
  if (values.size) {
    PENSTOCK_CHECK(CheckRegular(attributes.type));
    if (!MayWriteData(attributes, caller, rights)) return std::unexpected(Error::kAccess);
    PENSTOCK_CHECK(Truncate(inode, *values.size));
    if (caller.uid != 0) DropSetId(attributes);
  }
  if (values.uid || values.gid) {
    attributes.uid = values.uid.value_or(attributes.uid);
    attributes.gid = values.gid.value_or(attributes.gid);
    if (!inode.is_directory()) DropSetId(attributes);
  }
  if (values.mode && attributes.type != FileType::kSymlink) {
    attributes.mode = *values.mode & 07777;
    if (!inode.acl.empty()) SetMode(inode.acl, attributes.mode);
    if (caller.uid != 0 && !IsMember(caller, attributes.gid)) attributes.mode &= ~02000u;
  }
  Touch(inode, values.size.has_value());
  SetTo(attributes.atime, values.atime, attributes.ctime);
  SetTo(attributes.mtime, values.mtime, attributes.ctime);
  return {};
}

Result<void> FileSystem::Truncate(Inode& inode, uint64_t size) {
  if (size > properties_.max_file_size) return std::unexpected(Error::kFileTooBig);
  used_ -= inode.content.used();
  inode.content.Truncate(size);
  used_ += inode.content.used();
  inode.attributes.size = size;
  inode.attributes.used = inode.content.used();
  return {};
}

Task<Observed<AccessMask>> FileSystem::Access(const RequestContext& context, const Handle& object, AccessMask wanted) {
  co_return Observe<AccessMask>(object, [&](Inode& inode) -> Result<AccessMask> {
    return wanted & AccessOf(inode.attributes.type, inode.RightsOf(context.credentials));
  });
}

Task<Observed<std::string>> FileSystem::ReadLink(const RequestContext&, const Handle& symlink) {
  co_return Observe<std::string>(symlink, [](Inode& inode) -> Result<std::string> {
    if (inode.attributes.type != FileType::kSymlink) return std::unexpected(Error::kInvalid);
    return inode.target;
  });
}

Task<Observed<ReadReply>> FileSystem::Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                           uint32_t count) {
  co_return Observe<ReadReply>(file, [&](Inode& inode) -> Result<ReadReply> {
    const Attributes& attributes = inode.attributes;
    PENSTOCK_CHECK(MayRead(context.credentials, inode));
    const uint64_t left = offset < attributes.size ? attributes.size - offset : 0;
    const auto length = static_cast<size_t>(std::min<uint64_t>(count, left));
    return ReadReply{inode.content.Read(offset, length, ThreadBuffers()), length == left};
  });
}

Result<void> FileSystem::MayRead(const Credentials& caller, const Inode& file) const {
  PENSTOCK_CHECK(CheckRegular(file.attributes.type));
  if (MayReadData(file.attributes, caller, file.RightsOf(caller))) return {};
  return std::unexpected(Error::kAccess);
}

Result<void> FileSystem::MayWrite(const Credentials& caller, const Inode& file) const {
  PENSTOCK_CHECK(CheckRegular(file.attributes.type));
  if (MayWriteData(file.attributes, caller, file.RightsOf(caller))) return {};
  return std::unexpected(Error::kAccess);
}

// Data in holes is counted after it was written, so one request may exceed the limit.
Result<void> FileSystem::MayGrow(const Inode& file, uint64_t offset, uint64_t length) const {
  if (offset > properties_.max_file_size || length > properties_.max_file_size - offset) {
    return std::unexpected(Error::kFileTooBig);
  }
  const uint64_t end = offset + length;
  const uint64_t growth = end > file.attributes.size ? std::min(end - file.attributes.size, length) : 0;
  if (growth > options_.capacity || used_ > options_.capacity - growth) return std::unexpected(Error::kNoSpace);
  return {};
}

Task<Changed<WriteReply>> FileSystem::Write(const RequestContext& context, const Handle& file, uint64_t offset,
                                            const Data& given, Stability) {
  (void)co_await given.AllArrived();
  const Data data = given.Sub(0, given.arrived());
  co_return Change<WriteReply>(file, [&](Inode& inode) -> Result<WriteReply> {
    PENSTOCK_CHECK(MayWrite(context.credentials, inode));
    PENSTOCK_CHECK(MayGrow(inode, offset, data.size()));
    const auto octets = data.Load(ThreadBuffers());
    if (!octets) return std::unexpected(Error::kIo);
    if (!data.empty()) {
      WriteRange(context.credentials, inode, offset + data.size(),
                 [&](Content& content) { content.Write(offset, octets->bytes(), ThreadBuffers()); });
    }
    // All data is as stable as this file system can make it.
    return WriteReply{static_cast<uint32_t>(data.size()), Stability::kFileSync, WriteVerifier(options_.instance)};
  });
}

Task<Changed<WriteVerifier>> FileSystem::Commit(const RequestContext&, const Handle& file) {
  co_return Change<WriteVerifier>(file, [&](Inode& inode) -> Result<WriteVerifier> {
    PENSTOCK_CHECK(CheckRegular(inode.attributes.type));
    return WriteVerifier(options_.instance);
  });
}

Task<Observed<Space>> FileSystem::GetSpace(const RequestContext&, const Handle& object) {
  co_return Observe<Space>(object, [&](Inode&) -> Result<Space> {
    const uint64_t free = options_.capacity - std::min(used_, options_.capacity);
    constexpr uint64_t kFiles = uint64_t{1} << 32;
    const uint64_t free_files = kFiles - std::min<uint64_t>(inodes_.size(), kFiles);
    return Space{options_.capacity, free, free, kFiles, free_files, free_files};
  });
}

}  // namespace penstock::fs::memory
