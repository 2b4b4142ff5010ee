// A table of numbers of 32 bits for directory cookies of 64 bits: see listing_cookies.h, which uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "fs/types.h"

namespace penstock::nfs::v2 {

// A number is a hash of the cookie, so a cookie gets the same number when the table has forgotten it, or after a
// restart. Two cookies of one directory with the same hash get different numbers. (A forgotten number can belong to
// another cookie of the same directory by then. The probability is 2^-31 for each number that was made since.)
//
// Each client (a host) has its own numbers, so that no client loses them to the listings of another. Thread-safe.
class CookieTable {
 public:
  // Whether the numbers have the highest bit set. None is zero.
  enum class Range : uint32_t { kLower = 0, kUpper = 0x8000'0000 };

  // Keeps at most `per_client` numbers for each of at most `clients` hosts, and forgets the ones that were used least
  // recently: a host as a whole, and the older half of the numbers of one host.
  CookieTable(size_t clients, size_t per_client) : clients_(clients), half_(per_client / 2) {}

  // Returns the number of a cookie in a directory, which always has numbers of the same range. `host` is
  // ClientKey::host.
  uint32_t NumberOf(uint64_t host, const fs::Identity& directory, fs::Cookie cookie, Range range);
  // Returns the cookie of a number, or nullopt if the table does not know it.
  std::optional<fs::Cookie> CookieOf(uint64_t host, const fs::Identity& directory, uint32_t number);

  // The number of cookies that are kept.
  size_t size() const;

 private:
  struct Place {
    size_t directory = 0;  // the hash of its identity
    uint32_t number = 0;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const { return place.directory ^ (place.number * 0x9e3779b97f4a7c15u); }
  };
  using Numbers = std::unordered_map<Place, uint64_t, PlaceHash>;
  struct Client {
    uint64_t host = 0;
    Numbers recent;
    Numbers older;
  };

  // The caller holds mutex_.
  Client& Use(uint64_t host);
  // Returns null if the place is unknown. A place that is found counts as recently used.
  const uint64_t* Find(Client& client, const Place& place);
  void Keep(Client& client, const Place& place, uint64_t cookie);

  const size_t clients_;
  const size_t half_;
  mutable std::mutex mutex_;
  std::list<Client> by_use_;  // the last used client first; guarded by mutex_
  std::unordered_map<uint64_t, std::list<Client>::iterator> by_host_;
};

}  // namespace penstock::nfs::v2
