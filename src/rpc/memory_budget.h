// The memory that calls and replies of all clients may take, and who gets it when it runs short.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/address.h"
#include "base/log_limit.h"

namespace penstock::rpc {

class MemoryAccount;

// Shared by all servers of a process, on all loops. Any thread. Each connection has an Account, and each account some memory
// of its own, which it need not ask for: small calls go on whatever large ones do.
//
// A host gets more of what is shared only where three times as much as it would have then is left. So one host alone gets a
// quarter, and there is always something left for the next one. A host that has nothing gets what there is.
class MemoryBudget {
 public:
  struct Limits {
    size_t octets = 256 << 20;      // that all accounts share
    size_t own_octets = 256 << 10;  // of each account, beside those
  };
  // What executes a call costs about so much, beside the buffers that the call is in.
  static constexpr size_t kCall = 4 << 10;
  // What must be left, in parts of what a host would have.
  static constexpr size_t kLeftForOthers = 3;

  using Account = MemoryAccount;

  MemoryBudget() : MemoryBudget(Limits()) {}
  explicit MemoryBudget(Limits limits);
  ~MemoryBudget();

  std::unique_ptr<Account> Open(const IpAddress& peer);
  // Octets of the shared memory that are used. More than there are, where replies have come out large.
  size_t shared_octets() const;
  const Limits& limits() const { return limits_; }

 private:
  friend class MemoryAccount;
  struct Host;
  using Wakes = std::vector<std::function<void()>>;

  bool Fits(const Host& host, size_t octets) const;
  void Give(Host& host, size_t octets);
  void Leave(Account& account);
  void ServeLine(Wakes& wakes, const Account* caller = nullptr);
  // Says so once a minute.
  void TellThatCallsWait(const IpAddress& host);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::map<IpAddress, Host> hosts_;  // that have accounts
  std::list<Host*> in_line_;         // that have accounts in line, the next one first
  size_t shared_ = 0;                // used or granted
  LogLimit told_;
};

// One connection's. Belongs to its loop, but for `on_room`. Outlived by its budget.
class MemoryAccount {
 public:
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Called on any thread when Admit(), which has refused before, would admit now. May be called while the account is destroyed
  // on another thread, or soon after. Must not use any account itself, but have it done later. To be set before the first
  // Admit().
  void set_on_room(std::function<void()> on_room);
  // Whether so many octets more may be used; then they are. Where they may not, the account stands in line for them until it
  // asks again, or StopWaiting().
  [[nodiscard]] bool Admit(size_t octets);
  void StopWaiting();
  // Uses `octets` in all from now on, beside what is reserved, whatever the limits say.
  void Update(size_t octets);
  size_t used() const { return used_; }

  // As Admit(), for what is about to be used, and without a place in the line. See ReplyRoom.
  [[nodiscard]] bool Reserve(size_t octets);
  void Unreserve(size_t octets);

 private:
  friend class MemoryBudget;
  MemoryAccount(MemoryBudget& budget, const IpAddress& address);
  // What it has of the shared memory where it uses so much.
  size_t SharedFor(size_t octets) const;
  void Settle();

  MemoryBudget& budget_;
  const IpAddress address_;
  MemoryBudget::Host* host_;
  size_t used_ = 0;
  size_t reserved_ = 0;
  size_t shared_ = 0;     // of both: not its own
  bool waiting_ = false;  // in line, or granted and not asked again
  // Guarded by the budget's mutex.
  size_t wanted_ = 0;   // of the shared memory; in line while not 0
  size_t granted_ = 0;  // of the shared memory, and not asked for again
  std::function<void()> on_room_;
};

}  // namespace penstock::rpc
