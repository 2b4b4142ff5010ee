// The shards of NFSv4's state. What the requests of one client change most often, its sessions and its lease, belongs
// to the shard of that client. State locks one shard for such a request, so that clients of different shards do not
// wait for each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ranges>

#include "nfs/v4/state/ids.h"

namespace penstock::nfs::v4 {

class Shard {
 public:
  static constexpr size_t kCount = 16;

  static constexpr Shard Of(ClientId client) { return Shard(client.value()); }
  // The shard of the session's client: the last octet of a session's ID is that of the client ID. Any ID has a shard,
  // also if no such session exists.
  static constexpr Shard Of(const SessionId& session) { return Shard(std::to_integer<uint64_t>(session.back())); }
  // A shard for look-ups that concern a file, and no client that is known yet: such requests need any shard.
  static Shard Of(const NamedFile& file) { return Shard(NamedFileHash()(file)); }

  constexpr size_t index() const { return index_; }
  constexpr bool operator==(const Shard&) const = default;

 private:
  constexpr explicit Shard(uint64_t number) : index_(number % kCount) {}

  size_t index_;
};

// A value for each shard. No two of them share a cache line.
template <class Value>
class PerShard {
 public:
  Value& operator[](Shard shard) { return places_[shard.index()].value; }
  const Value& operator[](Shard shard) const { return places_[shard.index()].value; }
  auto all() const { return places_ | std::views::transform(&Place::value); }

 private:
  struct alignas(64) Place {
    Value value{};
  };
  std::array<Place, Shard::kCount> places_{};
};

}  // namespace penstock::nfs::v4
