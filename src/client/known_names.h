// The names of the objects that the user of a mount knows by their handles, so that the mount finds them again at
// another server when their file system moves there: a handle means nothing to that server.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/node.h"

namespace penstock::client {

// Belongs to the loop of the mount.
class KnownNames {
 public:
  struct Place {
    Handle directory;
    std::string name;  // empty: the object is the one at Mount::path()
    FileType type = FileType::kRegular;
  };
  // Returns nothing for an object that the user does not know, or whose name is gone.
  virtual std::optional<Place> PlaceOf(const Handle& object) const = 0;
  // Whether the user knows the object, and may use its handle again.
  virtual bool Knows(const Handle& object) const = 0;
  // Returns nothing if the user knows no object with this name.
  virtual std::optional<Handle> ObjectAt(const Handle& directory, std::string_view name) const = 0;

 protected:
  ~KnownNames() = default;
};

}  // namespace penstock::client
