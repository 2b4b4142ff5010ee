// The order in which functions of several clients get threads.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory_resource>
#include <optional>
#include <unordered_map>

#include "base/client_key.h"

namespace penstock {

// A queue for each client, served in turn, and an account of the threads that each has. The caller has a lock.
//
// A client gets another thread only where more than three times as many as it has are free, and the last free one goes to a
// host that has none. A client alone may so have a quarter of the threads. Functions cannot be interrupted: what is kept free is
// for the clients that come while those of others hang.
class Turns {
 public:
  using Function = std::move_only_function<void()>;

  static constexpr size_t kFreeForOne = 3;

  Turns() = default;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Behind what this client has posted before.
  void Push(const ClientKey& client, Function function);
  // The oldest function of the next client that may have another thread, where `free` threads are free. Finish() follows for
  // its client when it has run.
  struct Taken {
    ClientKey client;
    Function function;
  };
  std::optional<Taken> Take(size_t free);
  bool CanTake(size_t free) { return Find(free).host != nullptr; }
  void Finish(const ClientKey& client);

  // How many functions wait.
  size_t size() const { return size_; }
  // How many threads are held.
  size_t held() const { return held_; }
  // Gives up what waits; to be destroyed without the lock.
  std::list<Function> Clear();

 private:
  struct ConnectionTurns {
    explicit ConnectionTurns(std::pmr::memory_resource* memory) : waiting(memory) {}
    uint64_t key = 0;
    size_t held = 0;
    std::pmr::list<Function> waiting;
  };
  struct Host {
    explicit Host(std::pmr::memory_resource* memory) : connections(memory), in_turn(memory) {}
    uint64_t key = 0;
    size_t held = 0;
    std::pmr::unordered_map<uint64_t, ConnectionTurns> connections;  // that wait or hold
    std::pmr::list<ConnectionTurns*> in_turn;                        // that wait, the next one first
  };
  struct Next {
    Host* host = nullptr;
    std::pmr::list<Host*>::iterator host_at;
    std::pmr::list<ConnectionTurns*>::iterator connection_at;
  };
  // No more clients are passed over than threads are held: who holds none may have any that is free.
  Next Find(size_t free);

  // Posting is frequent, and its nodes are few and small.
  std::pmr::unsynchronized_pool_resource memory_;
  std::pmr::unordered_map<uint64_t, Host> hosts_{&memory_};  // that wait or hold
  std::pmr::list<Host*> in_turn_{&memory_};                  // that wait, the next one first
  size_t size_ = 0;
  size_t held_ = 0;
};

}  // namespace penstock
