// The owners and groups of a server's files as users of this host know them, for listings.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/task.h"
#include "idmap/lookups.h"

namespace penstock::idmap {

// Belongs to one listing: all look-ups together wait no longer than one. Without an answer of this host's databases,
// and for users and groups that this host does not have, a text stays as the server sent it.
class LocalOwners {
 public:
  // `lookups` outlives the object. `loop` is that of the caller. An empty domain: only numbers are those of this host.
  LocalOwners(std::string domain, Lookups& lookups, Loop* loop)
      : domain_(std::move(domain)), lookups_(lookups), caller_{.loop = loop} {}

  // Returns the name of a number, and the name before the domain of this host. Names of other domains stay whole, so
  // that they are not taken for users of this host.
  Task<std::string> NameOf(Kind kind, std::string text);
  // Returns the number of a name of this host's domain.
  Task<std::string> NumberOf(Kind kind, std::string text);

 private:
  // The user or group of this host that the text stands for.
  Task<std::optional<Account>> Find(Kind kind, const std::string& text);

  const std::string domain_;
  Lookups& lookups_;
  Caller caller_;
};

}  // namespace penstock::idmap
