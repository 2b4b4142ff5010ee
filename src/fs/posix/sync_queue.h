// Group commit: one sync of a file serves all calls that asked for it before it began.
#pragma once

#include <coroutine>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/client_key.h"
#include "base/loop.h"
#include "base/workers.h"
#include "fs/file_system.h"
#include "fs/posix/object.h"

namespace penstock::fs::posix {

// Any thread. Waiting calls hold no thread of the pool, and a file that is slow to sync holds one. Each client that
// waits asks the pool for its own turn, so that no client depends on the turn of another. The first turn serves all
// waiting calls. A call that is on a thread of the pool already syncs there, if no other call can share the sync.
class SyncQueue {
 public:
  // Calls fsync, or with `data_only` fdatasync, on an open file. May block.
  using SyncFile = std::function<Result<void>(int fd, bool data_only)>;

  // `pool` outlives the queue, and the queue outlives all calls that wait in it.
  SyncQueue(Workers& pool, SyncFile sync) : pool_(pool), sync_(std::move(sync)) {}

  // co_await queue.Sync(context, work, object, file, data_only) waits until all data written to the object is on the
  // disk. `file` is a descriptor of the object. Resumes on the context's loop. The error is that of the sync.
  auto Sync(const RequestContext& context, WorkKind work, ObjectRef object, SharedFile file, bool data_only) {
    struct Awaiter : Waiter {
      SyncQueue& queue;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> suspended) {
        this->handle = suspended;
        queue.Add(*this);
      }
      Result<void> await_resume() { return this->result; }
    };
    return Awaiter{{context.loop, {context.client, work}, std::move(object), std::move(file), data_only, {}, {}},
                   *this};
  }

  // For a thread of the pool, in a task of the kind of work that the sync is. Syncs the object at once, by `fd`, a
  // descriptor of it. Returns no value, and does nothing, if a sync of the object is running or asked for, or if tasks
  // wait for a thread: they may change the same object. Then Sync() shares the next sync.
  std::optional<Result<void>> SyncNow(const Object* object, int fd, bool data_only);

 private:
  // The client whose turn in the pool is used, and the kind of work.
  struct Turn {
    ClientKey client;
    WorkKind work;

    bool operator==(const Turn&) const = default;
  };
  struct Waiter {
    Loop* loop;
    Turn turn;
    ObjectRef object;
    SharedFile file;
    bool data_only;
    std::coroutine_handle<> handle;
    Result<void> result;
  };

  // The waiter lives in its coroutine and is destroyed when the coroutine resumes.
  void Add(Waiter& waiter);
  void Post(const Object* object, const Turn& turn);
  // Syncs for all calls that wait at this time.
  void Run(const Object* object);
  // The running sync of the object has ended. Asks for the next one if calls wait for it.
  void End(const Object* object);

  Workers& pool_;
  const SyncFile sync_;
  struct Syncs {
    bool running = false;
    std::vector<Waiter*> waiting;  // calls for the next sync
  };
  std::mutex mutex_;                                // guards the following members
  std::unordered_map<const Object*, Syncs> syncs_;  // the objects with a running or planned sync
};

}  // namespace penstock::fs::posix
