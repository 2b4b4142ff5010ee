// Shares the places for calls to hosts, so that no host waits because others do not answer.
//
// A call to a host that does not answer holds its place for some seconds. So a host that has not answered its last call
// ("silent") has one call under way at most, in a place that is for silent hosts only. Any other host has one call
// under way until it answers, and then a few. Hosts take turns for the places of each kind, and the addresses of a host
// take turns within those of the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>

#include "base/address.h"
#include "base/cancellation.h"
#include "base/task.h"

namespace penstock::server {

// Without I/O. Belongs to one loop.
class CallPlaces {
 public:
  struct Limits {
    size_t places = 128;            // for hosts that are not silent
    size_t places_of_silent = 64;   // for silent ones
    size_t per_host = 4;            // places of each kind for one IPv4 address or IPv6 /64
    size_t known_silent = 1 << 14;  // silent addresses that are remembered; the oldest one is forgotten
  };
  enum class Kind : uint8_t { kNormal, kSilent };
  struct Place {
    IpAddress address;
    Kind kind = Kind::kNormal;
  };

  explicit CallPlaces(const Limits& limits) : limits_(limits), free_{limits.places, limits.places_of_silent} {}
  CallPlaces(const CallPlaces&) = delete;
  CallPlaces& operator=(const CallPlaces&) = delete;

  // Waits for a place. Calls of one address get theirs in their order. Returns nothing if meanwhile another call to the
  // address has got no answer, or if `cancellation`, which may be null, has ended the wait.
  Task<std::optional<Place>> Enter(IpAddress address, Cancellation* cancellation);
  // Gives the place back. `answered`: whether the host has answered; nothing if the call does not tell. Resumes calls
  // that wait.
  void Leave(Place place, std::optional<bool> answered);

  // The number of calls that have a place, and of addresses that are in use or remembered. For tests.
  size_t under_way() const;
  size_t known() const;

 private:
  static constexpr size_t kKinds = 2;
  struct Host;
  struct Line;
  struct Waiter {
    std::list<Waiter*>* in = nullptr;  // null once it does not wait any more
    Line* line = nullptr;              // null if `in` is not the line's list
    std::list<Waiter*>::iterator at{};
    OneShot<std::optional<Place>> over{};
  };
  // The places of a host of one kind, and the addresses that may have another one. The next one comes first.
  struct Share {
    size_t used = 0;
    std::list<Line*> turns;
    std::optional<std::list<Share*>::iterator> turn;  // among hosts
  };
  // The calls to one address.
  struct Line {
    Line(Host& of, const IpAddress& to) : host(of), address(to) {}

    Host& host;
    const IpAddress address;
    bool answered = false;  // the last call
    std::optional<std::list<Line*>::iterator> silent;
    size_t running = 0;
    std::list<Waiter*> waiting;
    std::optional<std::list<Line*>::iterator> turn;  // within the host
    Kind turn_kind = Kind::kNormal;
  };
  struct Host {
    std::array<Share, kKinds> shares;
    std::map<IpAddress, Line> lines;
  };

  static size_t At(Kind kind) { return static_cast<size_t>(kind); }
  static Kind KindOf(const Line& line) { return line.silent ? Kind::kSilent : Kind::kNormal; }
  Line& Get(const IpAddress& address);
  // These correct the turns after a change.
  void Update(Line& line);
  void Update(Host& host, Kind kind);
  void ForgetIfUnused(Line& line);
  void SetSilent(Line& line, bool silent);
  void GiveUp(Waiter& waiter);
  // Gives free places to those whose turn it is.
  void Start(Kind kind);

  const Limits limits_;
  std::array<size_t, kKinds> free_;
  std::array<std::list<Share*>, kKinds> turns_;  // hosts that may have another place, the next one first
  std::map<IpAddress, Host> hosts_;              // by HostOf()
  std::list<Line*> silent_;                      // the one that was silent first comes first
};

}  // namespace penstock::server
