// Small writes that may block: several on one visit to a thread of the pool.
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

// Any thread. A client's writes to a file wait for one another (Object::changing), so that one thread does them as fast
// as several. To wake a thread, and then the loop, costs several times what a small write does: so the thread does
// several in one go, and the loop resumes them in one go. A write that is done may wait for up to three behind it.
class WriteQueue {
 public:
  // `pool` outlives the queue, which outlives all that wait in it.
  explicit WriteQueue(Workers& pool) : pool_(pool) {}

  // co_await queue.Run(context, object, write): what write() gives, on a thread of the pool. Resumes on the context's
  // loop.
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
  // Whose writes, and to what.
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

  // The waiter belongs to its coroutine, and is gone when that is resumed.
  void Add(Waiter& waiter, const Key& key);
  void Post(const Key& key);
  // Does the writes that wait now.
  void Serve(const Key& key);

  Workers& pool_;
  std::mutex mutex_;                            // guards what follows
  std::map<Key, std::deque<Waiter*>> waiting_;  // an entry for as long as the pool knows of the key
};

}  // namespace penstock::fs::posix
