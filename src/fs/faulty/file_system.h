// A file system that forwards to another one and fails on demand: for tests, the simulation, and `penstock serve
// --faults`.
//
// It forwards each call to the other file system. A Fault makes a call fail, take longer, move less data or hang, or
// ends the process between the operation and its reply. Without faults it behaves like the other file system.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "base/timer.h"
#include "fs/faulty/fault.h"
#include "fs/file_system.h"

namespace penstock::fs::faulty {

struct Surroundings {
  // Delays calls whose context has no loop; calls with a loop are delayed on it. Outlives the file system.
  TimerService* timers = nullptr;
  // Returns 64 uniformly distributed bits for faults at random. It is called by one thread at a time.
  std::function<uint64_t()> random{};
  // Called between an operation and its reply (Effect::Kind::kKill). If this returns, the caller gets the reply.
  std::function<void()> kill{};
};

// Any thread may call any method.
class FileSystem : public fs::FileSystem {
 public:
  explicit FileSystem(std::shared_ptr<fs::FileSystem> files, const std::vector<Fault>& faults = {},
                      Surroundings surroundings = {});

  // Faults apply in the order in which they were added: delays add up, and the first error wins.
  void Add(const Fault& fault);
  // Removes all faults. Calls that already wait continue to wait.
  void Clear();
  // Ends the wait of all calls that hang or are delayed. Calls without a loop continue before this returns.
  void Release();
  // Calls Release(). From now on no call waits, until AllowWaiting() is called.
  void ForbidWaiting();
  void AllowWaiting();
  // Returns the number of calls that hang or are delayed.
  size_t waiting() const;

  Handle Root() const override;
  const Properties& GetProperties() const override;
  Result<Identity> Identify(const Handle& object) const override;
  Task<Result<Attributes>> GetAttributes(const RequestContext& context, const Handle& object) override;
  Task<Changed<void>> SetAttributes(const RequestContext& context, const Handle& object, const NewAttributes& values,
                                    std::optional<Timestamp> guard) override;
  Task<Observed<Node>> Lookup(const RequestContext& context, const Handle& directory, std::string_view name) override;
  Task<Observed<AccessMask>> Access(const RequestContext& context, const Handle& object, AccessMask wanted) override;
  Task<Observed<std::string>> ReadLink(const RequestContext& context, const Handle& symlink) override;
  Task<Observed<ReadReply>> Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint32_t count) override;
  Task<Changed<WriteReply>> Write(const RequestContext& context, const Handle& file, uint64_t offset, const Data& data,
                                  Stability stability) override;
  Task<Changed<WriteVerifier>> Commit(const RequestContext& context, const Handle& file) override;
  Task<Changed<Node>> Create(const RequestContext& context, const Handle& directory, std::string_view name,
                             const CreateHow& how) override;
  Task<Changed<Node>> MakeDirectory(const RequestContext& context, const Handle& directory, std::string_view name,
                                    const NewAttributes& attributes) override;
  Task<Changed<Node>> MakeSymlink(const RequestContext& context, const Handle& directory, std::string_view name,
                                  std::string_view target, const NewAttributes& attributes) override;
  Task<Changed<Node>> MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                               const NodeType& type, const NewAttributes& attributes) override;
  Task<Changed<void>> Remove(const RequestContext& context, const Handle& directory, std::string_view name) override;
  Task<Changed<void>> RemoveDirectory(const RequestContext& context, const Handle& directory,
                                      std::string_view name) override;
  Task<Renamed> Rename(const RequestContext& context, const Handle& from_directory, std::string_view from_name,
                       const Handle& to_directory, std::string_view to_name) override;
  Task<Linked> Link(const RequestContext& context, const Handle& file, const Handle& directory,
                    std::string_view name) override;
  Task<Observed<ReadDirectoryReply>> ReadDirectory(const RequestContext& context, const Handle& directory,
                                                   const ReadDirectoryArguments& arguments, EntrySink& sink) override;
  Task<Observed<Space>> GetSpace(const RequestContext& context, const Handle& object) override;
  Task<Result<std::optional<Quota>>> GetQuota(const RequestContext& context, QuotaKind kind, uint32_t id) override;
  Task<Result<Pinned>> Pin(const RequestContext& context, const Handle& file) override;
  Task<Result<std::shared_ptr<LocalLocks>>> OpenLocks(const RequestContext& context, const Handle& file,
                                                      bool exclusive) override;
  // If a fault is an error, the reply has no lease.
  Task<LeaseReply> OpenLease(const RequestContext& context, const Handle& file) override;
  bool RecordsOpens() const override { return files_->RecordsOpens(); }
  void RecordOpen(const RequestContext& context, const OpenRecord& open) override { files_->RecordOpen(context, open); }
  std::string PathOf(const Handle& object) override { return files_->PathOf(object); }
  Task<Observed<SeekReply>> Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                 SeekWhat what) override;
  Task<Changed<void>> Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                               uint64_t length) override;
  Task<Changed<void>> Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint64_t length) override;
  Task<Changed<CopyReply>> Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                const Handle& to, uint64_t to_offset, uint64_t count) override;
  Task<Changed<void>> Clone(const RequestContext& context, const Handle& from, uint64_t from_offset, const Handle& to,
                            uint64_t to_offset, uint64_t count) override;
  Task<Result<void>> Advise(const RequestContext& context, const Handle& file, uint64_t offset, uint64_t count,
                            Advice advice) override;
  Task<Observed<std::vector<std::byte>>> GetXattr(const RequestContext& context, const Handle& object,
                                                  std::string_view name) override;
  Task<Changed<void>> SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                               ConstBytes value, XattrMode mode) override;
  Task<Changed<void>> RemoveXattr(const RequestContext& context, const Handle& object, std::string_view name) override;
  Task<Observed<std::vector<std::string>>> ListXattrs(const RequestContext& context, const Handle& object) override;
  Task<Observed<Acls>> GetAcls(const RequestContext& context, const Handle& object) override;
  Task<Changed<void>> SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) override;

 private:
  struct Armed {
    Fault fault;
    uint64_t calls = 0;  // the number of calls that match operation and object
  };
  // The faults of one call at one moment.
  struct Trouble {
    Duration delay{};
    bool hangs = false;
    std::optional<Error> error{};
    uint64_t releases = 0;  // those before it was drawn: a later one ends its wait, also if that has not begun
  };
  // The faults of one call.
  struct Plan {
    Trouble before{};
    Trouble after{};
    std::optional<uint32_t> at_most{};
    bool unreadable = false;
    bool kills = false;
  };
  // A call that hangs or is delayed.
  struct Wait {
    Loop* loop;
    OneShot<> over{};
  };

  Plan Draw(Operation operation, std::initializer_list<const Handle*> objects);
  bool IsDue(Armed& armed);
  void Apply(const Effect& effect, Plan& plan);

  // Carries out one call. `task` has not begun yet.
  template <class Reply>
  Task<Reply> Run(Plan plan, const RequestContext& context, Task<Reply> task);
  template <class Reply>
  Task<Reply> Pass(Operation operation, std::initializer_list<const Handle*> objects, const RequestContext& context,
                   Task<Reply> task);
  Task<Observed<ReadReply>> ReadUnreadable(Plan plan, const RequestContext& context, const Handle& file,
                                           uint64_t offset, uint32_t count);
  Task<Changed<WriteReply>> WriteSome(Plan plan, const RequestContext& context, const Handle& file, uint64_t offset,
                                      const Data& data, Stability stability);
  Task<void> Endure(Trouble trouble, Loop* loop);
  static void End(Wait& wait);

  const std::shared_ptr<fs::FileSystem> files_;
  const Surroundings surroundings_;
  mutable std::mutex mutex_;  // guards the following members
  std::vector<Armed> faults_;
  std::vector<std::shared_ptr<Wait>> waiting_;
  uint64_t releases_ = 0;
  bool may_wait_ = true;
};

}  // namespace penstock::fs::faulty
