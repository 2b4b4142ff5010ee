// The contexts of an acceptor by their handles: those that are established, and those that clients have begun to
// establish.
//
// Anybody can begin one, so that these are few, fewer still from one address, and do not stay long. Established ones
// belong to somebody who is known; when there are too many, that goes first which was used the longest time ago, and
// its client establishes another (RFC 2203 §5.3.3.3).
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/address.h"
#include "base/bytes.h"
#include "base/timer.h"
#include "rpc/gss/context.h"

namespace penstock::rpc::gss {

// Any thread.
class ContextTable {
 public:
  struct Limits {
    size_t established = 16384;
    size_t begun = 256;
    size_t begun_by_one_address = 32;
    // How long a client may take from one of its tokens to the next.
    Duration begun_for = std::chrono::seconds(30);
  };
  // Fills its argument with what nobody can foretell. Any thread.
  using Random = std::function<void(Bytes)>;

  ContextTable(const Limits& limits, Random random) : limits_(limits), random_(std::move(random)) {}

  // ---- establishing ----

  // A handle for a context that is begun: nothing where there are too many already whose tokens are just being looked
  // at. The caller looks at its first token now, and says by one of Continue(), Establish() and Abandon() what came of
  // it.
  std::optional<Handle> Begin(const IpAddress& from, TimePoint now);
  // More tokens are needed.
  void Continue(const Handle& handle, std::unique_ptr<MechanismContext> mechanism, TimePoint now);
  // The next token has come: gives what Continue() was given, and it is as after Begin(). Null where there is no such
  // context, or one of its tokens is being looked at.
  std::unique_ptr<MechanismContext> Resume(ConstBytes handle, TimePoint now);
  void Establish(std::shared_ptr<SecurityContext> context, TimePoint now);
  void Abandon(const Handle& handle);

  // ---- established ----

  struct Found {
    std::shared_ptr<SecurityContext> context;  // stays whatever becomes of it in the table
    bool expired = false;                      // then it is in the table no more
  };
  Found Find(ConstBytes handle, TimePoint now);
  void Remove(const Handle& handle);

  size_t established() const;
  size_t begun() const;

 private:
  struct HashOfHandle {
    size_t operator()(const Handle& handle) const { return LoadBig<uint64_t>(handle.data()); }  // random as it is
  };
  struct Begun {
    Handle handle;
    IpAddress from;
    std::unique_ptr<MechanismContext> mechanism;  // null while a token is being looked at
    TimePoint until;
  };
  using BegunList = std::list<Begun>;
  using EstablishedList = std::list<std::shared_ptr<SecurityContext>>;

  static std::optional<Handle> HandleOf(ConstBytes octets);
  BegunList::iterator FindBegun(const Handle& handle);
  bool MakeRoomToBegin(const IpAddress& from, TimePoint now);
  void Erase(EstablishedList::iterator at);

  const Limits limits_;
  const Random random_;
  mutable std::mutex mutex_;  // guards what follows; held for a look at it
  BegunList begun_;           // the oldest first
  EstablishedList used_;      // in the order of their last use, the latest first
  std::unordered_map<Handle, EstablishedList::iterator, HashOfHandle> established_;
};

}  // namespace penstock::rpc::gss
