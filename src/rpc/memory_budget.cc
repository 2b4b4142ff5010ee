#include "rpc/memory_budget.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "base/host.h"
#include "base/log.h"

namespace penstock::rpc {

struct MemoryBudget::Host {
  size_t accounts = 0;
  size_t shared = 0;  // the sum over its accounts
  std::list<Account*> in_line;
};

MemoryBudget::MemoryBudget(Limits limits) : own_octets_(limits.own_octets), octets_(limits.octets) {}
MemoryBudget::~MemoryBudget() { assert(hosts_.empty() && shared_ == 0); }

std::unique_ptr<MemoryBudget::Account> MemoryBudget::Open(const IpAddress& peer) {
  return std::unique_ptr<Account>(new Account(*this, peer));
}

size_t MemoryBudget::shared_octets() const {
  const std::lock_guard lock(mutex_);
  return shared_;
}

size_t MemoryBudget::octets() const {
  const std::lock_guard lock(mutex_);
  return octets_;
}

void MemoryBudget::SetOctets(size_t octets) {
  Wakes wakes;
  {
    const std::lock_guard lock(mutex_);
    octets_ = octets;
    ServeLine(wakes);
  }
  for (const auto& wake : wakes) wake();
}

bool MemoryBudget::Fits(const Host& host, size_t octets) const {
  if (shared_ == 0) return true;  // nothing is in use, so waiting would not help
  const size_t left = octets_ - std::min(octets_, shared_);
  if (octets > left) return false;
  return host.shared == 0 || kLeftForOthers * (host.shared + octets) <= left - octets;
}

void MemoryBudget::Give(Host& host, size_t octets) {
  host.shared -= octets;
  shared_ -= octets;
}

// Takes the account out of the line, and gives up the memory that it was granted.
void MemoryBudget::Leave(Account& account) {
  Give(*account.host_, std::exchange(account.granted_, 0));
  if (std::exchange(account.wanted_, 0) == 0) return;
  std::list<Account*>& line = account.host_->in_line;
  line.remove(&account);
  if (line.empty()) in_line_.remove(account.host_);
}

// Grants memory to waiting accounts. Hosts take turns, and so do the accounts of each host. `caller` is not woken: it
// checks itself.
void MemoryBudget::ServeLine(Wakes& wakes, const Account* caller) {
  for (auto at = in_line_.begin(); at != in_line_.end();) {
    Host& host = **at;
    Account& account = *host.in_line.front();
    if (!Fits(host, account.wanted_)) {
      // Keep returned memory for a host that has none. Otherwise others would take it in small parts, and that host
      // would wait forever.
      if (host.shared == 0) return;
      ++at;
      continue;
    }
    account.granted_ = std::exchange(account.wanted_, 0);
    host.shared += account.granted_;
    shared_ += account.granted_;
    host.in_line.pop_front();
    at = in_line_.erase(at);
    if (!host.in_line.empty()) {
      const auto last = in_line_.insert(in_line_.end(), &host);
      if (at == in_line_.end()) at = last;
    }
    if (&account != caller) wakes.push_back(account.on_room_);
  }
}

void MemoryBudget::TellThatCallsWait(const IpAddress& host) {
  if (!told_.Allows(std::chrono::steady_clock::now())) return;
  constexpr size_t kMebibyte = 1 << 20;
  log::info("calls of {} wait for memory: {} of {} MiB are in use; a larger --memory lets more of them run at once",
            host.to_string(), shared_octets() / kMebibyte, octets() / kMebibyte);
}

// ---- accounts ----

MemoryAccount::MemoryAccount(MemoryBudget& budget, const IpAddress& address)
    : budget_(budget), address_(HostOf(address)) {
  const std::lock_guard lock(budget_.mutex_);
  host_ = &budget_.hosts_[address_];
  ++host_->accounts;
}

MemoryAccount::~MemoryAccount() {
  MemoryBudget::Wakes wakes;
  {
    const std::lock_guard lock(budget_.mutex_);
    budget_.Leave(*this);
    budget_.Give(*host_, shared_);
    if (--host_->accounts == 0) budget_.hosts_.erase(address_);
    budget_.ServeLine(wakes);
  }
  for (const auto& wake : wakes) wake();
}

void MemoryAccount::set_on_room(std::function<void()> on_room) {
  const std::lock_guard lock(budget_.mutex_);
  on_room_ = std::move(on_room);
}

size_t MemoryAccount::SharedFor(size_t octets) const { return octets - std::min(octets, budget_.own_octets_); }

bool MemoryAccount::Admit(size_t octets) {
  const size_t shared = SharedFor(used_ + reserved_ + octets);
  if (shared <= shared_) {
    StopWaiting();
    used_ += octets;
    return true;
  }
  const size_t more = shared - shared_;
  MemoryBudget::Wakes wakes;
  {
    const std::lock_guard lock(budget_.mutex_);
    const bool at_once = !waiting_ && budget_.in_line_.empty() && budget_.Fits(*host_, more);
    if (!at_once && granted_ < more) {
      budget_.Give(*host_, std::exchange(granted_, 0));
      if (wanted_ == 0) {
        if (host_->in_line.empty()) budget_.in_line_.push_back(host_);
        host_->in_line.push_back(this);
      }
      wanted_ = more;
      budget_.ServeLine(wakes, this);
    }
    waiting_ = !at_once && granted_ < more;
    if (!waiting_) {
      used_ += octets;
      shared_ = shared;
      host_->shared += more;
      budget_.shared_ += more;
      const size_t granted = std::exchange(granted_, 0);
      budget_.Give(*host_, granted);
      if (granted > more) budget_.ServeLine(wakes);
    }
  }
  for (const auto& wake : wakes) wake();
  if (waiting_) budget_.TellThatCallsWait(address_);
  return !waiting_;
}

void MemoryAccount::Update(size_t octets) {
  used_ = octets;
  Settle();
}

bool MemoryAccount::Reserve(size_t octets) {
  const size_t shared = SharedFor(used_ + reserved_ + octets);
  if (shared > shared_) {
    const std::lock_guard lock(budget_.mutex_);
    const size_t more = shared - shared_;
    if (!budget_.in_line_.empty() || !budget_.Fits(*host_, more)) return false;
    host_->shared += more;
    budget_.shared_ += more;
    shared_ = shared;
  }
  reserved_ += octets;
  return true;
}

void MemoryAccount::Unreserve(size_t octets) {
  reserved_ -= octets;
  Settle();
}

void MemoryAccount::Settle() {
  const size_t shared = SharedFor(used_ + reserved_);
  if (shared == shared_) return;
  MemoryBudget::Wakes wakes;
  {
    const std::lock_guard lock(budget_.mutex_);
    host_->shared += shared - shared_;
    budget_.shared_ += shared - shared_;
    const bool gave = shared < shared_;
    shared_ = shared;
    if (gave) budget_.ServeLine(wakes);
  }
  for (const auto& wake : wakes) wake();
}

void MemoryAccount::StopWaiting() {
  if (!waiting_) return;
  waiting_ = false;
  MemoryBudget::Wakes wakes;
  {
    const std::lock_guard lock(budget_.mutex_);
    budget_.Leave(*this);
    budget_.ServeLine(wakes);
  }
  for (const auto& wake : wakes) wake();
}

}  // namespace penstock::rpc
