// The parts of a tree of several servers, and the objects in it that have moved from one part to another.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "client/known_names.h"
#include "client/nfs4/mount.h"
#include "client/url.h"

namespace penstock::client::v4 {

class MovingFile;

// The last part: whether the mount begins at an entrance, so that its root is not the server's.
using ServerKey = std::tuple<std::string, uint16_t, nfs_protocol::SecurityFlavor, bool>;
ServerKey KeyOf(const Url& url, bool has_entrance);

// A file system behind a referral, or under another security flavor, as it is seen from there.
struct TreePart {
  // How to mount its server.
  Url url;
  std::optional<Entrance> entrance;
  Handle root;   // as the server knows it
  Handle above;  // the directory before it: `..` leads from the root to it
};

// The parts of a tree by the numbers in Handle::part. The mounts of several users share it, so that a handle means the
// same object in each of them. Part 0 is the tree of the server that the URL names.
//
// An object of a file system that moves keeps the handle by which the users of the tree know it (`known`). Its place is
// the handle that it has now. For other objects both are the same.
class TreeParts {
 public:
  const TreePart& at(uint32_t number) const { return parts_[number - 1]; }
  uint32_t NumberOf(const TreePart& part);

  // Who knows the paths of objects, so that they can be found again. Null: nobody.
  const KnownNames* names() const { return names_; }
  void set_names(const KnownNames* names) { names_ = names; }

  Handle PlaceOf(const Handle& known) const;
  // The handle by which the users know the object at `place`.
  Handle KnownAs(const Handle& place) const;
  // Whether anything has ever moved.
  bool has_moves() const { return !moves_.empty(); }
  // Whether objects have moved from one of these parts to the other.
  bool HasMoved(uint32_t from, uint32_t to) const { return moves_.contains({from, to}); }
  // If the users know the object at `place` by that handle, too, as a file that they have met by another name, they
  // know it so from now on.
  void Move(const Handle& known, const Handle& place);
  // The number of objects that are at another place than when they were met.
  size_t moved_objects() const { return places_.size(); }

  // The open files of all users.
  std::set<MovingFile*>& files() { return files_; }
  // Whether an object that moves between these parts is the first one, since others have moved the other way.
  bool BeginsToMove(uint32_t from, uint32_t to) {
    moves_.erase({to, from});
    return moves_.insert({from, to}).second;
  }

  // Whether a file system has come to this part from another server.
  bool HasMovedHere(uint32_t part) const { return destinations_.contains(part); }
  void HandleMovedHere(uint32_t part) { destinations_.insert(part); }

 private:
  static constexpr size_t kFewObjects = 1024;
  // Forgets the objects that the users have forgotten, now and then.
  void Prune();

  std::deque<TreePart> parts_;
  std::map<std::tuple<Handle, ServerKey, Handle>, uint32_t> numbers_;
  const KnownNames* names_ = nullptr;
  std::map<Handle, Handle> places_;  // of the objects that have moved
  std::map<Handle, Handle> known_;   // by their places
  size_t prune_at_ = kFewObjects;    // the number of objects
  std::set<MovingFile*> files_;
  std::set<uint32_t> destinations_;
  std::set<std::pair<uint32_t, uint32_t>> moves_;  // from part to part
};

}  // namespace penstock::client::v4
