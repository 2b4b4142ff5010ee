#include "rpc/gss/context_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace penstock::rpc::gss {

std::optional<Handle> ContextTable::HandleOf(ConstBytes octets) {
  Handle handle;
  if (octets.size() != handle.size()) return std::nullopt;
  CopyBytes(handle, octets);
  return handle;
}

// The list is short.
ContextTable::BegunList::iterator ContextTable::FindBegun(const Handle& handle) {
  return std::ranges::find(begun_, handle, &Begun::handle);
}

// Removes expired contexts first. If the address is at its limit, removes its oldest context, otherwise the oldest of
// all. A context that is processing a token stays.
bool ContextTable::MakeRoomToBegin(const IpAddress& from, TimePoint now) {
  std::erase_if(begun_, [now](const Begun& begun) { return begun.mechanism && begun.until <= now; });
  const auto same = [&from](const Begun& begun) { return begun.from == from; };
  const bool too_many_here = static_cast<size_t>(std::ranges::count_if(begun_, same)) >= limits_.begun_by_one_address;
  if (!too_many_here && begun_.size() < limits_.begun) return true;
  const auto may_go = [&](const Begun& begun) { return begun.mechanism && (!too_many_here || same(begun)); };
  const auto oldest = std::ranges::find_if(begun_, may_go);
  if (oldest == begun_.end()) return false;
  begun_.erase(oldest);
  return true;
}

std::optional<Handle> ContextTable::Begin(const IpAddress& from, TimePoint now) {
  Begun begun{.handle = {}, .from = from, .mechanism = nullptr, .until = now};
  random_(begun.handle);
  const std::lock_guard lock(mutex_);
  if (!MakeRoomToBegin(from, now)) return std::nullopt;
  return begun_.emplace_back(std::move(begun)).handle;
}

void ContextTable::Continue(const Handle& handle, std::unique_ptr<MechanismContext> mechanism, TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto at = FindBegun(handle);
  assert(at != begun_.end() && !at->mechanism);
  at->mechanism = std::move(mechanism);
  at->until = now + limits_.begun_for;
}

std::unique_ptr<MechanismContext> ContextTable::Resume(ConstBytes handle, TimePoint now) {
  const auto known = HandleOf(handle);
  if (!known) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto at = FindBegun(*known);
  if (at == begun_.end() || !at->mechanism) return nullptr;
  if (at->until > now) return std::move(at->mechanism);
  begun_.erase(at);
  return nullptr;
}

void ContextTable::Establish(std::shared_ptr<SecurityContext> context, TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto at = FindBegun(context->handle);
  assert(at != begun_.end() && !at->mechanism);
  begun_.erase(at);
  // Contexts that were not used for long have mostly expired: for each new context, remove up to two expired ones.
  for (int i = 0; i < 2 && !used_.empty() && used_.back()->expires <= now; ++i) Erase(std::prev(used_.end()));
  while (!used_.empty() && used_.size() >= limits_.established) Erase(std::prev(used_.end()));
  used_.push_front(std::move(context));
  established_[used_.front()->handle] = used_.begin();
}

void ContextTable::Abandon(const Handle& handle) {
  const std::lock_guard lock(mutex_);
  const auto at = FindBegun(handle);
  assert(at != begun_.end());
  begun_.erase(at);
}

ContextTable::Found ContextTable::Find(ConstBytes handle, TimePoint now) {
  const auto known = HandleOf(handle);
  if (!known) return {};
  const std::lock_guard lock(mutex_);
  const auto found = established_.find(*known);
  if (found == established_.end()) return {};
  const EstablishedList::iterator at = found->second;
  Found result{.context = *at, .expired = (*at)->expires <= now};
  if (result.expired) {
    Erase(at);
    return result;
  }
  if (const auto& conjunction = result.context->conjunction) {
    const auto inner = established_.find(conjunction->inner);
    if (inner == established_.end()) {
      Erase(at);
      return {};
    }
    MoveToFront(inner->second);
  }
  MoveToFront(at);
  return result;
}

void ContextTable::Remove(const Handle& handle) {
  const std::lock_guard lock(mutex_);
  const auto found = established_.find(handle);
  if (found != established_.end()) Erase(found->second);
}

void ContextTable::Erase(EstablishedList::iterator at) {
  established_.erase((*at)->handle);
  used_.erase(at);
}

size_t ContextTable::established() const {
  const std::lock_guard lock(mutex_);
  return used_.size();
}

size_t ContextTable::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_.size();
}

}  // namespace penstock::rpc::gss
