// A queue of small writes that may block. A thread of the pool does several of them on one visit.
#pragma once

#include <compare>
#include <coroutine>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/client_key.h"
#include "base/loop.h"
#include "base/workers.h"
#include "fs/file_system.h"
#include "fs/posix/object.h"

namespace penstock::fs::posix {

// Any thread. The writes of a client to a file wait for each other (Object::changing), so one thread is as fast as
// several. To wake a thread, and then the loop, costs several times as much as a small write. So the thread does
// several writes at once, and the loop resumes them at once. A finished write may wait for up to three that follow
// it.
class WriteQueue {
 public:
  // `pool` outlives the queue, and the queue outlives all calls that wait in it.
  explicit WriteQueue(Workers& pool) : pool_(pool) {}

  // co_await queue.Run(context, object, write) runs write() on a thread of the pool and returns its result. Resumes
  // on the context's loop.
  template <class Write>
  auto Run(const RequestContext& context, const ObjectRef& object, Write write) {
    using Given = std::invoke_result_t<Write&>;
    struct Awaiter : Waiter {
      WriteQueue& queue;
      Key key;
      Write write;
      std::optional<Given> given;

      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> suspended) {
        this->handle = suspended;
        this->run = [this] { given.emplace(write()); };
        queue.Add(*this, key);
      }
      Given await_resume() { return std::move(*given); }
    };
    return Awaiter{{}, *this, {context.loop, context.client, object.get()}, std::move(write), std::nullopt};
  }

 private:
  // The client that writes, its loop, and the object.
  struct Key {
    Loop* loop;
    ClientKey client;
    const Object* object;

    auto operator<=>(const Key&) const = default;
  };
  struct Waiter {
    std::move_only_function<void()> run;
    std::coroutine_handle<> handle;
  };

  // The waiter lives in its coroutine and is destroyed when the coroutine resumes.
  void Add(Waiter& waiter, const Key& key);
  void Post(const Key& key);
  // Does the writes that wait at this time.
  void Serve(const Key& key);

  Workers& pool_;
  std::mutex mutex_;                            // guards the following members
  std::map<Key, std::deque<Waiter*>> waiting_;  // an entry exists while the pool has a task for the key
};

}  // namespace penstock::fs::posix
