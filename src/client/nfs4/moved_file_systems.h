// Finds out which file systems with state of this client have moved to another server, when a server says that some
// have (SEQ4_STATUS_LEASE_MOVED, RFC 8881 §11.13.2; NFS4ERR_LEASE_MOVED, RFC 7530 §9.14.3).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "client/nfs4/compound_caller.h"
#include "client/node.h"

namespace penstock::client::v4 {

// Belongs to the loop of `caller`.
class MovedFileSystems {
 public:
  // `caller` outlives this object.
  explicit MovedFileSystems(CompoundCaller& caller) : caller_(caller) {}

  // `follow` is called with the number of each file system (Attributes::file_system) that is found to have moved. The
  // server has then been asked for its locations.
  void set_follow(std::function<void(uint64_t file_system)> follow) { follow_ = std::move(follow); }
  // The client has opened this file of a file system. It may move, also when the client has closed all files in it.
  void HandleOpened(const Handle& file, uint64_t file_system);
  // The server says that some file system has moved. It says so until the client has asked for the locations of each of
  // them. A server that never stops to say so is asked about all file systems again, ever more seldom.
  void HandleLeaseMoved();

 private:
  Task<void> Find();
  // Whether the file system of `file` has moved. Then the server has told its locations.
  Task<bool> HasMoved(Handle file);

  CompoundCaller& caller_;
  std::function<void(uint64_t)> follow_;
  std::map<uint64_t, Handle> file_systems_;  // with a file of each of them
  bool finding_ = false;
  bool said_ = false;  // the server has said so since the last look
  Duration pause_ = Duration::zero();
  TimePoint find_again_{};
};

}  // namespace penstock::client::v4
