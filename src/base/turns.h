// Decides which client's function gets the next thread of the pool.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory_resource>
#include <optional>
#include <unordered_map>

#include "base/client_key.h"
#include "base/host_shares.h"

namespace penstock {

// Keeps a queue of functions for each client, serves the clients in turn, and counts the threads of each. The caller
// holds a lock.
//
// A client with n threads gets another one only if more than 3n are free (kFreeForOne). So one client alone gets a
// quarter of the threads. A host gets threads while more than twice as many are free as it has, with all its
// connections: one host alone gets a third. Beyond that, only its connections without a thread get one each, and only
// while more than a quarter of the threads is free. The last free thread goes to a host that has none. Functions cannot
// be interrupted: the free threads are for clients that arrive while functions of others hang.
class Turns {
 public:
  using Function = std::move_only_function<void()>;

  Turns() = default;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Appends `function` to the client's queue.
  void Push(const ClientKey& client, Function function);
  // Removes and returns the oldest function of the next client that may have another thread, given `free` free threads.
  // Call Finish() for that client when the function has run.
  struct Taken {
    ClientKey client;
    Function function;
  };
  std::optional<Taken> Take(size_t free);
  bool CanTake(size_t free) { return Find(free).host != nullptr; }
  void Finish(const ClientKey& client);

  // The number of waiting functions.
  size_t size() const { return size_; }
  // The number of threads in use.
  size_t held() const { return held_; }
  // Removes and returns all waiting functions. Destroy them without holding the lock.
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
    std::pmr::unordered_map<uint64_t, ConnectionTurns> connections;  // with waiting functions or threads
    std::pmr::list<ConnectionTurns*> in_turn;                        // with waiting functions, the next one first
  };
  struct Next {
    Host* host = nullptr;
    std::pmr::list<Host*>::iterator host_at;
    std::pmr::list<ConnectionTurns*>::iterator connection_at;
  };
  // Skips at most as many clients as there are threads in use, because a client without a thread may have any free one.
  Next Find(size_t free);

  static constexpr size_t kFreeForHost = 2;
  // This part of the threads is not for hosts that have their share.
  static constexpr size_t kLeftForOtherHosts = 4;

  // Posting is frequent, and the nodes are few and small.
  std::pmr::unsynchronized_pool_resource memory_;
  std::pmr::unordered_map<uint64_t, Host> hosts_{&memory_};  // with waiting functions or threads
  std::pmr::list<Host*> in_turn_{&memory_};                  // with waiting functions, the next one first
  size_t size_ = 0;
  size_t held_ = 0;
};

}  // namespace penstock
