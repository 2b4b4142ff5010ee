// The contexts of an acceptor, indexed by handle: established contexts, and pending ones whose establishment has begun.
//
// Any host can begin a context without authentication. So the table limits pending contexts to a small number, a
// smaller number for each address, and a short time. Established contexts belong to authenticated clients. If there are
// too many, the least recently used one is removed, and its client establishes a new one (RFC 2203 §5.3.3.3).
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

// Thread-safe.
class ContextTable {
 public:
  struct Limits {
    size_t established = 16384;
    size_t begun = 256;
    size_t begun_by_one_address = 32;
    // The time limit between two tokens of a client.
    Duration begun_for = std::chrono::seconds(30);
  };
  // Fills its argument with unpredictable octets. Thread-safe.
  using Random = std::function<void(Bytes)>;

  ContextTable(const Limits& limits, Random random) : limits_(limits), random_(std::move(random)) {}

  // ---- establishing ----

  // Begins a context and returns its handle, or nullopt if too many pending contexts are processing a token. The caller
  // then processes the first token, and reports the result by Continue(), Establish() or Abandon().
  std::optional<Handle> Begin(const IpAddress& from, TimePoint now);
  // Reports that more tokens are needed.
  void Continue(const Handle& handle, std::unique_ptr<MechanismContext> mechanism, TimePoint now);
  // Call when the next token has arrived. Returns the mechanism that Continue() received; the context is then in the
  // same state as after Begin(). Returns null if the context does not exist, or if it is processing a token.
  std::unique_ptr<MechanismContext> Resume(ConstBytes handle, TimePoint now);
  void Establish(std::shared_ptr<SecurityContext> context, TimePoint now);
  void Abandon(const Handle& handle);

  // ---- established ----

  struct Found {
    std::shared_ptr<SecurityContext> context;  // stays valid after its removal from the table
    bool expired = false;                      // if so, it has been removed from the table
  };
  // A CCM context exists only as long as its inner context. Its use is a use of the inner context as well.
  Found Find(ConstBytes handle, TimePoint now);
  void Remove(const Handle& handle);

  size_t established() const;
  size_t begun() const;

 private:
  struct HashOfHandle {
    size_t operator()(const Handle& handle) const { return LoadBig<uint64_t>(handle.data()); }  // the handle is random
  };
  struct Begun {
    Handle handle;
    IpAddress from;
    std::unique_ptr<MechanismContext> mechanism;  // null while a token is processed
    TimePoint until;
  };
  using BegunList = std::list<Begun>;
  using EstablishedList = std::list<std::shared_ptr<SecurityContext>>;

  static std::optional<Handle> HandleOf(ConstBytes octets);
  BegunList::iterator FindBegun(const Handle& handle);
  bool MakeRoomToBegin(const IpAddress& from, TimePoint now);
  void Erase(EstablishedList::iterator at);
  void MoveToFront(EstablishedList::iterator at) { used_.splice(used_.begin(), used_, at); }

  const Limits limits_;
  const Random random_;
  mutable std::mutex mutex_;  // guards the following members; held briefly
  BegunList begun_;           // the oldest first
  EstablishedList used_;      // in the order of their last use, the latest first
  std::unordered_map<Handle, EstablishedList::iterator, HashOfHandle> established_;
};

}  // namespace penstock::rpc::gss
