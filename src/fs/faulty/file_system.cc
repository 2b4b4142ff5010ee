#include "fs/faulty/file_system.h"

#include <fcntl.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/loop.h"

namespace penstock::fs::faulty {
namespace {

// A reply of an operation that was not carried out.
template <class T>
Result<T> Failed(Error error, const Result<T>*) {
  return std::unexpected(error);
}
Renamed Failed(Error error, const Renamed*) { return {std::unexpected(error), {}, {}}; }
Linked Failed(Error error, const Linked*) { return {std::unexpected(error), {}, {}}; }
LeaseReply Failed(Error, const LeaseReply*) { return {}; }
template <class Reply>
Reply Failed(Error error, const Reply*) {
  return Reply{std::unexpected(error), {}};
}

// Replaces the result of a reply by an error. Keeps the attributes in the reply.
template <class T>
void Fail(Error error, Result<T>& reply) {
  reply = std::unexpected(error);
}
void Fail(Error, LeaseReply& reply) { reply = {}; }
template <class Reply>
void Fail(Error error, Reply& reply) {
  reply.result = std::unexpected(error);
}

// Returns data that cannot be loaded: its file is a directory.
Data UnreadableData(uint64_t offset, size_t size) {
  return {std::make_shared<const FileDescriptor>(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), offset, size};
}

bool Concerns(const Fault& fault, Operation operation, std::initializer_list<const Handle*> objects) {
  if (fault.operation && *fault.operation != operation) return false;
  using enum Operation;
  const bool moves_data = operation == kRead || operation == kWrite || operation == kCopy;
  if (fault.effect.kind == Effect::Kind::kShort && !moves_data) return false;
  if (fault.effect.kind == Effect::Kind::kUnreadable && operation != kRead) return false;
  return !fault.object || std::ranges::any_of(objects, [&](const Handle* each) { return *each == *fault.object; });
}

}  // namespace

FileSystem::FileSystem(std::shared_ptr<fs::FileSystem> files, const std::vector<Fault>& faults,
                       Surroundings surroundings)
    : files_(std::move(files)), surroundings_(std::move(surroundings)) {
  for (const Fault& fault : faults) Add(fault);
}

void FileSystem::Add(const Fault& fault) {
  assert(surroundings_.random || (fault.when.kind != When::Kind::kAtRandom && !fault.effect.random_delay));
  assert(surroundings_.kill || fault.effect.kind != Effect::Kind::kKill);
  const std::lock_guard lock(mutex_);
  faults_.push_back({fault});
}

void FileSystem::Clear() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
}

void FileSystem::Release() {
  std::vector<std::shared_ptr<Wait>> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
    ++releases_;
  }
  for (const auto& wait : waiting) {
    if (wait->loop) {
      wait->loop->Post([wait] { End(*wait); });
    } else {
      End(*wait);
    }
  }
}

void FileSystem::ForbidWaiting() {
  {
    const std::lock_guard lock(mutex_);
    may_wait_ = false;
  }
  Release();
}

void FileSystem::AllowWaiting() {
  const std::lock_guard lock(mutex_);
  may_wait_ = true;
}

size_t FileSystem::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

FileSystem::Plan FileSystem::Draw(Operation operation, std::initializer_list<const Handle*> objects) {
  Plan plan;
  const std::lock_guard lock(mutex_);
  plan.before.releases = plan.after.releases = releases_;
  for (Armed& armed : faults_) {
    if (Concerns(armed.fault, operation, objects) && IsDue(armed)) Apply(armed.fault.effect, plan);
  }
  return plan;
}

bool FileSystem::IsDue(Armed& armed) {
  const When& when = armed.fault.when;
  ++armed.calls;
  switch (when.kind) {
    case When::Kind::kAlways:
      return true;
    case When::Kind::kNth:
      return armed.calls == when.n;
    case When::Kind::kEachNth:
      return armed.calls % when.n == 0;
    case When::Kind::kAtRandom:
      // The distributions of <random> differ between libraries.
      return static_cast<double>(surroundings_.random() >> 11) * 0x1p-53 < when.probability;
  }
  return false;
}

void FileSystem::Apply(const Effect& effect, Plan& plan) {
  Trouble& trouble = effect.moment == Effect::Moment::kBefore ? plan.before : plan.after;
  switch (effect.kind) {
    case Effect::Kind::kError:
      if (!trouble.error) trouble.error = effect.error;
      return;
    case Effect::Kind::kSlow: {
      const auto longest = static_cast<uint64_t>(effect.delay.count());
      trouble.delay += effect.random_delay ? Duration(surroundings_.random() % (longest + 1)) : effect.delay;
      return;
    }
    case Effect::Kind::kHang:
      trouble.hangs = true;
      return;
    case Effect::Kind::kShort:
      plan.at_most = std::min(plan.at_most.value_or(effect.at_most), effect.at_most);
      return;
    case Effect::Kind::kUnreadable:
      plan.unreadable = true;
      return;
    case Effect::Kind::kKill:
      plan.kills = true;
      return;
  }
}

void FileSystem::End(Wait& wait) {
  if (!wait.over.is_set()) wait.over.Set();
}

// Waits until the delay or the hang ends, on the loop or on Surroundings::timers.
Task<void> FileSystem::Endure(Trouble trouble, Loop* loop) {
  if (!trouble.hangs && trouble.delay == Duration::zero()) co_return;
  const auto wait = std::make_shared<Wait>(loop);
  {
    const std::lock_guard lock(mutex_);
    if (!may_wait_ || trouble.releases != releases_) co_return;
    waiting_.push_back(wait);
  }
  std::unique_ptr<Timer> timer;
  if (!trouble.hangs) {
    assert(loop || surroundings_.timers);
    TimerService& timers = loop ? *loop : *surroundings_.timers;
    timer = timers.MakeTimer([wait] { End(*wait); });
    timer->ExpireAfter(trouble.delay);
  }
  co_await wait->over;
  const std::lock_guard lock(mutex_);
  std::erase(waiting_, wait);
}

template <class Reply>
Task<Reply> FileSystem::Run(Plan plan, const RequestContext& context, Task<Reply> task) {
  co_await Endure(plan.before, context.loop);
  if (plan.before.error) co_return Failed(*plan.before.error, static_cast<const Reply*>(nullptr));
  Reply reply = co_await std::move(task);
  if (plan.kills) surroundings_.kill();
  co_await Endure(plan.after, context.loop);
  if (plan.after.error) Fail(*plan.after.error, reply);
  co_return reply;
}

template <class Reply>
Task<Reply> FileSystem::Pass(Operation operation, std::initializer_list<const Handle*> objects,
                             const RequestContext& context, Task<Reply> task) {
  return Run(Draw(operation, objects), context, std::move(task));
}

Handle FileSystem::Root() const { return files_->Root(); }
const Properties& FileSystem::GetProperties() const { return files_->GetProperties(); }
Result<Identity> FileSystem::Identify(const Handle& object) const { return files_->Identify(object); }

Task<Result<Attributes>> FileSystem::GetAttributes(const RequestContext& context, const Handle& object) {
  return Pass(Operation::kGetAttributes, {&object}, context, files_->GetAttributes(context, object));
}

Task<Changed<void>> FileSystem::SetAttributes(const RequestContext& context, const Handle& object,
                                              const NewAttributes& values, std::optional<Timestamp> guard) {
  return Pass(Operation::kSetAttributes, {&object}, context, files_->SetAttributes(context, object, values, guard));
}

Task<Observed<Node>> FileSystem::Lookup(const RequestContext& context, const Handle& directory, std::string_view name) {
  return Pass(Operation::kLookup, {&directory}, context, files_->Lookup(context, directory, name));
}

Task<Observed<AccessMask>> FileSystem::Access(const RequestContext& context, const Handle& object, AccessMask wanted) {
  return Pass(Operation::kAccess, {&object}, context, files_->Access(context, object, wanted));
}

Task<Observed<std::string>> FileSystem::ReadLink(const RequestContext& context, const Handle& symlink) {
  return Pass(Operation::kReadLink, {&symlink}, context, files_->ReadLink(context, symlink));
}

Task<Observed<ReadReply>> FileSystem::Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                           uint32_t count) {
  const Plan plan = Draw(Operation::kRead, {&file});
  const uint32_t most = std::min(count, plan.at_most.value_or(count));
  if (plan.unreadable) return ReadUnreadable(plan, context, file, offset, most);
  return Run(plan, context, files_->Read(context, file, offset, most));
}

Task<Observed<ReadReply>> FileSystem::ReadUnreadable(Plan plan, const RequestContext& context, const Handle& file,
                                                     uint64_t offset, uint32_t count) {
  Observed<ReadReply> reply = co_await Run(plan, context, files_->Read(context, file, offset, count));
  if (reply.result) reply.result->data = UnreadableData(offset, reply.result->data.size());
  co_return reply;
}

Task<Changed<WriteReply>> FileSystem::Write(const RequestContext& context, const Handle& file, uint64_t offset,
                                            const Data& data, Stability stability) {
  const Plan plan = Draw(Operation::kWrite, {&file});
  if (plan.at_most.value_or(UINT32_MAX) < data.size()) {
    return WriteSome(plan, context, file, offset, data, stability);
  }
  return Run(plan, context, files_->Write(context, file, offset, data, stability));
}

Task<Changed<WriteReply>> FileSystem::WriteSome(Plan plan, const RequestContext& context, const Handle& file,
                                                uint64_t offset, const Data& data, Stability stability) {
  const Data some = data.Sub(0, *plan.at_most);
  co_return co_await Run(plan, context, files_->Write(context, file, offset, some, stability));
}

Task<Changed<WriteVerifier>> FileSystem::Commit(const RequestContext& context, const Handle& file) {
  return Pass(Operation::kCommit, {&file}, context, files_->Commit(context, file));
}

Task<Changed<Node>> FileSystem::Create(const RequestContext& context, const Handle& directory, std::string_view name,
                                       const CreateHow& how) {
  return Pass(Operation::kCreate, {&directory}, context, files_->Create(context, directory, name, how));
}

Task<Changed<Node>> FileSystem::MakeDirectory(const RequestContext& context, const Handle& directory,
                                              std::string_view name, const NewAttributes& attributes) {
  return Pass(Operation::kMakeDirectory, {&directory}, context,
              files_->MakeDirectory(context, directory, name, attributes));
}

Task<Changed<Node>> FileSystem::MakeSymlink(const RequestContext& context, const Handle& directory,
                                            std::string_view name, std::string_view target,
                                            const NewAttributes& attributes) {
  return Pass(Operation::kMakeSymlink, {&directory}, context,
              files_->MakeSymlink(context, directory, name, target, attributes));
}

Task<Changed<Node>> FileSystem::MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                                         const NodeType& type, const NewAttributes& attributes) {
  return Pass(Operation::kMakeNode, {&directory}, context,
              files_->MakeNode(context, directory, name, type, attributes));
}

Task<Changed<void>> FileSystem::Remove(const RequestContext& context, const Handle& directory, std::string_view name) {
  return Pass(Operation::kRemove, {&directory}, context, files_->Remove(context, directory, name));
}

Task<Changed<void>> FileSystem::RemoveDirectory(const RequestContext& context, const Handle& directory,
                                                std::string_view name) {
  return Pass(Operation::kRemoveDirectory, {&directory}, context, files_->RemoveDirectory(context, directory, name));
}

Task<Renamed> FileSystem::Rename(const RequestContext& context, const Handle& from_directory,
                                 std::string_view from_name, const Handle& to_directory, std::string_view to_name) {
  return Pass(Operation::kRename, {&from_directory, &to_directory}, context,
              files_->Rename(context, from_directory, from_name, to_directory, to_name));
}

Task<Linked> FileSystem::Link(const RequestContext& context, const Handle& file, const Handle& directory,
                              std::string_view name) {
  return Pass(Operation::kLink, {&file, &directory}, context, files_->Link(context, file, directory, name));
}

Task<Observed<ReadDirectoryReply>> FileSystem::ReadDirectory(const RequestContext& context, const Handle& directory,
                                                             const ReadDirectoryArguments& arguments, EntrySink& sink) {
  return Pass(Operation::kReadDirectory, {&directory}, context,
              files_->ReadDirectory(context, directory, arguments, sink));
}

Task<Observed<Space>> FileSystem::GetSpace(const RequestContext& context, const Handle& object) {
  return Pass(Operation::kGetSpace, {&object}, context, files_->GetSpace(context, object));
}

Task<Result<std::optional<Quota>>> FileSystem::GetQuota(const RequestContext& context, QuotaKind kind, uint32_t id) {
  return Pass(Operation::kGetQuota, {}, context, files_->GetQuota(context, kind, id));
}

Task<Result<Pinned>> FileSystem::Pin(const RequestContext& context, const Handle& file) {
  return Pass(Operation::kPin, {&file}, context, files_->Pin(context, file));
}

Task<Result<std::shared_ptr<LocalLocks>>> FileSystem::OpenLocks(const RequestContext& context, const Handle& file,
                                                                bool exclusive) {
  return Pass(Operation::kOpenLocks, {&file}, context, files_->OpenLocks(context, file, exclusive));
}

Task<LeaseReply> FileSystem::OpenLease(const RequestContext& context, const Handle& file) {
  return Pass(Operation::kOpenLease, {&file}, context, files_->OpenLease(context, file));
}

Task<Observed<SeekReply>> FileSystem::Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                           SeekWhat what) {
  return Pass(Operation::kSeek, {&file}, context, files_->Seek(context, file, offset, what));
}

Task<Changed<void>> FileSystem::Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                         uint64_t length) {
  return Pass(Operation::kAllocate, {&file}, context, files_->Allocate(context, file, offset, length));
}

Task<Changed<void>> FileSystem::Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                           uint64_t length) {
  return Pass(Operation::kDeallocate, {&file}, context, files_->Deallocate(context, file, offset, length));
}

Task<Changed<CopyReply>> FileSystem::Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                          const Handle& to, uint64_t to_offset, uint64_t count) {
  const Plan plan = Draw(Operation::kCopy, {&from, &to});
  const uint64_t most = plan.at_most ? std::min<uint64_t>(count, *plan.at_most) : count;
  return Run(plan, context, files_->Copy(context, from, from_offset, to, to_offset, most));
}

Task<Changed<void>> FileSystem::Clone(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                      const Handle& to, uint64_t to_offset, uint64_t count) {
  return Pass(Operation::kClone, {&from, &to}, context,
              files_->Clone(context, from, from_offset, to, to_offset, count));
}

Task<Result<void>> FileSystem::Advise(const RequestContext& context, const Handle& file, uint64_t offset,
                                      uint64_t count, Advice advice) {
  return Pass(Operation::kAdvise, {&file}, context, files_->Advise(context, file, offset, count, advice));
}

Task<Observed<std::vector<std::byte>>> FileSystem::GetXattr(const RequestContext& context, const Handle& object,
                                                            std::string_view name) {
  return Pass(Operation::kGetXattr, {&object}, context, files_->GetXattr(context, object, name));
}

Task<Changed<void>> FileSystem::SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                                         ConstBytes value, XattrMode mode) {
  return Pass(Operation::kSetXattr, {&object}, context, files_->SetXattr(context, object, name, value, mode));
}

Task<Changed<void>> FileSystem::RemoveXattr(const RequestContext& context, const Handle& object,
                                            std::string_view name) {
  return Pass(Operation::kRemoveXattr, {&object}, context, files_->RemoveXattr(context, object, name));
}

Task<Observed<std::vector<std::string>>> FileSystem::ListXattrs(const RequestContext& context, const Handle& object) {
  return Pass(Operation::kListXattrs, {&object}, context, files_->ListXattrs(context, object));
}

Task<Observed<Acls>> FileSystem::GetAcls(const RequestContext& context, const Handle& object) {
  return Pass(Operation::kGetAcls, {&object}, context, files_->GetAcls(context, object));
}

Task<Changed<void>> FileSystem::SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) {
  return Pass(Operation::kSetAcls, {&object}, context, files_->SetAcls(context, object, acls));
}

}  // namespace penstock::fs::faulty
