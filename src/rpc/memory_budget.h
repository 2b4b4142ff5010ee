// Limits the memory of calls and replies of all clients, and shares it fairly between hosts.
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

// Shared by all servers of a process, on all loops. Thread-safe. Each connection has an Account. Each account has some
// memory of its own that it need not request, so that large calls do not delay small ones.
//
// A host gets more of the shared memory only if three times the host's new amount is left afterwards. So one host alone
// gets a quarter, and some memory is always left for the next host. A host that has no memory gets what is left.
class MemoryBudget {
 public:
  struct Limits {
    size_t octets = 256 << 20;      // shared by all accounts
    size_t own_octets = 256 << 10;  // extra, for each account
  };
  // The approximate memory of executing a call, besides the call's buffers.
  static constexpr size_t kCall = 4 << 10;
  // A host gets more memory only if this multiple of its new amount is left.
  static constexpr size_t kLeftForOthers = 3;

  using Account = MemoryAccount;

  MemoryBudget() : MemoryBudget(Limits()) {}
  explicit MemoryBudget(Limits limits);
  ~MemoryBudget();

  std::unique_ptr<Account> Open(const IpAddress& peer);
  // The used octets of the shared memory. Unexpectedly large replies can make it exceed the limit.
  size_t shared_octets() const;
  // The octets that all accounts share.
  size_t octets() const;
  // Changes them. If they are less than what is in use, calls wait until enough of it is free.
  void SetOctets(size_t octets);

 private:
  friend class MemoryAccount;
  struct Host;
  using Wakes = std::vector<std::function<void()>>;

  bool Fits(const Host& host, size_t octets) const;
  void Give(Host& host, size_t octets);
  void Leave(Account& account);
  void ServeLine(Wakes& wakes, const Account* caller = nullptr);
  // Logs once a minute that calls wait.
  void TellThatCallsWait(const IpAddress& host);

  const size_t own_octets_;
  mutable std::mutex mutex_;
  size_t octets_;
  std::map<IpAddress, Host> hosts_;  // hosts with accounts
  std::list<Host*> in_line_;         // hosts with waiting accounts, the next one first
  size_t shared_ = 0;                // used or granted
  LogLimit told_;
};

// The account of one connection. Belongs to the connection's loop, except for `on_room`. The budget must outlive it.
class MemoryAccount {
 public:
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Sets the function that the budget calls, on any thread, when Admit() would succeed after it has refused. The call
  // may come while another thread destroys the account, or soon after. The function must not use any account itself,
  // only schedule that. Set it before the first Admit().
  void set_on_room(std::function<void()> on_room);
  // Uses `octets` more and returns true if that is permitted. Otherwise returns false; the account then waits in line
  // for them until it calls Admit() again, or StopWaiting().
  [[nodiscard]] bool Admit(size_t octets);
  void StopWaiting();
  // Sets the used octets, besides the reserved ones, regardless of the limits.
  void Update(size_t octets);
  size_t used() const { return used_; }

  // Like Admit(), for memory that will be used soon, but without waiting in line on refusal. See ReplyRoom.
  [[nodiscard]] bool Reserve(size_t octets);
  void Unreserve(size_t octets);

 private:
  friend class MemoryBudget;
  MemoryAccount(MemoryBudget& budget, const IpAddress& address);
  // Returns the part of `octets` that counts as shared memory.
  size_t SharedFor(size_t octets) const;
  void Settle();

  MemoryBudget& budget_;
  const IpAddress address_;
  MemoryBudget::Host* host_;
  size_t used_ = 0;
  size_t reserved_ = 0;
  size_t shared_ = 0;     // the shared part of used_ and reserved_
  bool waiting_ = false;  // in line, or granted and not yet admitted
  // Guarded by the budget's mutex.
  size_t wanted_ = 0;   // shared memory that it waits for; in line while not 0
  size_t granted_ = 0;  // shared memory that is set aside for its next Admit()
  std::function<void()> on_room_;
};

}  // namespace penstock::rpc
