#include "rpc/connection_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/host.h"
#include "base/log.h"

namespace penstock::rpc {
namespace {

ConnectionTable::Limits Complete(ConnectionTable::Limits limits) {
  if (limits.per_address == 0) limits.per_address = std::max<size_t>(1, limits.connections / 4);
  return limits;
}

}  // namespace

ConnectionTable::ConnectionTable(Limits limits, std::shared_ptr<RefusalLog> refusals)
    : limits_(Complete(limits)), refusals_(std::move(refusals)) {}
ConnectionTable::~ConnectionTable() { assert(places_.empty()); }

ConnectionTable::Place::~Place() {
  const std::lock_guard lock(table_.mutex_);
  if (counted_) table_.Uncount(*this);
}

void ConnectionTable::Place::set_on_evicted(std::function<void()> on_evicted) {
  const std::lock_guard lock(table_.mutex_);
  on_evicted_ = std::move(on_evicted);
}

void ConnectionTable::Place::Describe(const Peer& peer) {
  const std::lock_guard lock(table_.mutex_);
  shown_ = {.number = peer.connection,
            .peer = peer.address,
            .transport = peer.transport,
            .protection = peer.protection,
            .stepped_up = peer.stepped_up};
}

void ConnectionTable::Place::HandleBusy() { idle_since_.store(kBusy, std::memory_order_relaxed); }
void ConnectionTable::Place::HandleIdle(TimePoint now) {
  idle_since_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

ConnectionTable::Admission ConnectionTable::Admit(const IpAddress& peer, TimePoint now) {
  const IpAddress key = HostOf(peer);
  std::function<void()> on_evicted;
  Admission admission;
  {
    const std::lock_guard lock(mutex_);
    if (admitted_ && !admitted_->contains(key)) {
      admission.refusal = Refusal::kDraining;
      LogRefusal(peer, admission.refusal);
      return admission;
    }
    const auto found = by_address_.find(key);
    const bool address_full = found != by_address_.end() && found->second >= limits_.per_address;
    const bool server_full = places_.size() >= limits_.connections;
    if (address_full || server_full) {
      Place* const idle = FindIdle(now, address_full ? &key : nullptr);
      if (!idle) {
        admission.refusal = server_full ? Refusal::kServerFull : Refusal::kAddressFull;
        LogRefusal(peer, admission.refusal);
        return admission;
      }
      log::info("a connection of {} that was idle makes room for one of {}", idle->key_.to_string(), peer.to_string());
      Uncount(*idle);
      on_evicted = std::exchange(idle->on_evicted_, nullptr);
    }
    admission.place.reset(new Place(*this, key));
    places_.insert(admission.place.get());
    ++by_address_[key];
  }
  if (on_evicted) on_evicted();
  return admission;
}

ConnectionTable::Limits ConnectionTable::limits() const {
  const std::lock_guard lock(mutex_);
  return limits_;
}

void ConnectionTable::SetLimits(Limits limits) {
  const std::lock_guard lock(mutex_);
  limits_ = Complete(limits);
}

size_t ConnectionTable::connections() const {
  const std::lock_guard lock(mutex_);
  return places_.size();
}

std::vector<ConnectionTable::Shown> ConnectionTable::List(TimePoint now) const {
  std::vector<Shown> all;
  {
    const std::lock_guard lock(mutex_);
    all.reserve(places_.size());
    for (const Place* const place : places_) {
      if (place->shown_.number == 0) continue;
      all.push_back(place->shown_);
      const Duration::rep since = place->idle_since_.load(std::memory_order_relaxed);
      if (since != Place::kBusy) all.back().idle = now.time_since_epoch() - Duration(since);
    }
  }
  std::ranges::sort(all, {}, &Shown::number);
  return all;
}

void ConnectionTable::SetDraining(bool draining) {
  const std::lock_guard lock(mutex_);
  if (draining && admitted_) return;  // clients that have lost their connections meanwhile are no new ones
  admitted_.reset();
  if (!draining) return;
  admitted_.emplace();
  for (const auto& [address, count] : by_address_) admitted_->insert(address);
}

bool ConnectionTable::is_draining() const {
  const std::lock_guard lock(mutex_);
  return admitted_.has_value();
}

// Returns the place that has been idle longest, for at least the idle limit; only among those of `key` if given.
ConnectionTable::Place* ConnectionTable::FindIdle(TimePoint now, const IpAddress* key) const {
  Place* longest = nullptr;
  Duration::rep earliest = (now - limits_.idle_limit).time_since_epoch().count();
  for (Place* const place : places_) {
    if (key && place->key_ != *key) continue;
    const Duration::rep since = place->idle_since_.load(std::memory_order_relaxed);
    if (since > earliest || (longest && since == earliest)) continue;
    longest = place;
    earliest = since;
  }
  return longest;
}

void ConnectionTable::Uncount(Place& place) {
  place.counted_ = false;
  places_.erase(&place);
  const auto found = by_address_.find(place.key_);
  if (--found->second == 0) by_address_.erase(found);
}

void ConnectionTable::LogRefusal(const IpAddress& peer, Refusal refusal) const {
  if (refusal == Refusal::kDraining) {
    return refusals_->Tell({.client = peer, .reason = "draining"}, [] {
      return RefusalDetails{.text =
                                "is refused a connection: the server drains and takes no new clients, because of "
                                "`penstock ctl drain on`"};
    });
  }
  refusals_->Tell({.client = peer, .reason = "connections"}, [&] {
    const bool is_full = refusal == Refusal::kServerFull;
    return RefusalDetails{
        .text = fmt::format("is refused a connection: {} ({} in all, {} for one address; option {} allows more)",
                            ToString(refusal), limits_.connections, limits_.per_address,
                            is_full ? "max-connections" : "max-connections-per-address")};
  });
}

std::string_view ToString(ConnectionTable::Refusal refusal) {
  switch (refusal) {
    case ConnectionTable::Refusal::kNone:
      return "";
    case ConnectionTable::Refusal::kServerFull:
      return "the server is full: it has as many connections as it takes";
    case ConnectionTable::Refusal::kAddressFull:
      return "the server is full for this address: it has as many connections as it takes from one";
    case ConnectionTable::Refusal::kDraining:
      return "the server drains: it takes no new clients";
  }
  return "";
}

metrics::ConnectionRefusal CountedAs(ConnectionTable::Refusal refusal) {
  switch (refusal) {
    case ConnectionTable::Refusal::kNone:
    case ConnectionTable::Refusal::kServerFull:
      return metrics::ConnectionRefusal::kServerFull;
    case ConnectionTable::Refusal::kAddressFull:
      return metrics::ConnectionRefusal::kAddressFull;
    case ConnectionTable::Refusal::kDraining:
      return metrics::ConnectionRefusal::kDraining;
  }
  std::unreachable();
}

}  // namespace penstock::rpc
