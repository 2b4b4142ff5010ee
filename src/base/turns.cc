#include "base/turns.h"

#include <algorithm>
#include <utility>

namespace penstock {

void Turns::Push(const ClientKey& client, Function function) {
  Host& host = hosts_.try_emplace(client.host, &memory_).first->second;
  host.key = client.host;
  ConnectionTurns& connection = host.connections.try_emplace(client.connection, &memory_).first->second;
  connection.key = client.connection;
  if (host.in_turn.empty()) in_turn_.push_back(&host);
  if (connection.waiting.empty()) host.in_turn.push_back(&connection);
  connection.waiting.push_back(std::move(function));
  ++size_;
}

Turns::Next Turns::Find(size_t free) {
  if (free == 0) return {};
  for (auto host = in_turn_.begin(); host != in_turn_.end(); ++host) {
    // With its share, a host gets one thread more for each connection that has none, while many are left for others.
    const bool has_share = kFreeForHost * (*host)->held >= free;
    if (has_share && free <= std::max<size_t>(1, (free + held_) / kLeftForOtherHosts)) continue;
    for (auto at = (*host)->in_turn.begin(); at != (*host)->in_turn.end(); ++at) {
      const size_t held = (*at)->held;
      if (has_share ? held == 0 : kFreeForOne * held < free) return {*host, host, at};
    }
  }
  return {};
}

std::optional<Turns::Taken> Turns::Take(size_t free) {
  const Next next = Find(free);
  if (next.host == nullptr) return std::nullopt;
  Host& host = *next.host;
  ConnectionTurns& connection = **next.connection_at;
  Taken taken{{host.key, connection.key}, std::move(connection.waiting.front())};
  connection.waiting.pop_front();
  --size_;
  ++host.held;
  ++connection.held;
  ++held_;
  // Moves the connection behind the other waiting ones, or removes it until it waits again.
  if (connection.waiting.empty()) {
    host.in_turn.erase(next.connection_at);
  } else {
    host.in_turn.splice(host.in_turn.end(), host.in_turn, next.connection_at);
  }
  if (host.in_turn.empty()) {
    in_turn_.erase(next.host_at);
  } else {
    in_turn_.splice(in_turn_.end(), in_turn_, next.host_at);
  }
  return taken;
}

void Turns::Finish(const ClientKey& client) {
  const auto host = hosts_.find(client.host);
  const auto connection = host->second.connections.find(client.connection);
  --held_;
  --host->second.held;
  if (--connection->second.held == 0 && connection->second.waiting.empty()) {
    host->second.connections.erase(connection);
    if (host->second.connections.empty()) hosts_.erase(host);
  }
}

std::list<Turns::Function> Turns::Clear() {
  std::list<Function> waiting;
  for (Host* const host : in_turn_) {
    for (ConnectionTurns* const connection : host->in_turn) {
      for (Function& function : connection->waiting) waiting.push_back(std::move(function));
      connection->waiting.clear();
      if (connection->held == 0) host->connections.erase(connection->key);
    }
    host->in_turn.clear();
    if (host->connections.empty()) hosts_.erase(host->key);
  }
  in_turn_.clear();
  size_ = 0;
  return waiting;
}

}  // namespace penstock
