// The numbers of the owners and groups that a server names.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/loop.h"
#include "base/task.h"
#include "idmap/lookups.h"

namespace penstock::fuse {

// Belongs to the loop.
class Owners {
 public:
  // `lookups` outlives this object. `domain`: names of this domain are users of this host.
  Owners(Loop& loop, idmap::Lookups& lookups, std::string domain)
      : loop_(loop), lookups_(lookups), domain_(std::move(domain)) {}

  // Returns the number that `text` is or stands for; that of nobody if this host does not know it.
  Task<uint32_t> NumberOf(idmap::Kind kind, std::string text);

 private:
  Loop& loop_;
  idmap::Lookups& lookups_;
  const std::string domain_;
};

}  // namespace penstock::fuse
