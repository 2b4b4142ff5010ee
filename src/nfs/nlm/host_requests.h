// The requests of hosts for locks and shares that are under way. They may wait: for a disk, for the store of hosts, or
// for the return of a delegation.
//
// Meanwhile the host may start again. Then it has forgotten the request, which must have no effect any more.
//
// Or the process may ask for something else. The requests of one process for one file are executed in the order in
// which they came: an UNLOCK that overtook a LOCK would leave a lock of which the process does not know.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/task.h"
#include "nfs/file_handle.h"
#include "nfs/v4/state/clients/lock_hosts.h"

namespace penstock::nfs::nlm {

// Belongs to the home loop, as do its requests. It outlives them.
class HostRequests {
 private:
  struct Key {
    v4::LockHostName host;
    std::string owner;
    bool operator<(const Key& other) const { return host == other.host ? owner < other.owner : host < other.host; }
  };

 public:
  class Request {
   public:
    // `owner` names a process of the host, or an owner of shares.
    Request(HostRequests& all, const v4::LockHostName& host, std::string owner, const NamedFile& file);
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    // May resume other requests.
    ~Request();

    // Waits until the earlier requests of this owner for this file have ended.
    Task<> Turn();
    // True once the host has started again: see HostLocks::Request::given_up. It stays where it is.
    const bool& is_void() const { return is_void_; }

   private:
    friend HostRequests;

    HostRequests& all_;
    const NamedFile file_;
    std::map<Key, std::list<Request*>>::iterator of_owner_;
    std::list<Request*>::iterator place_;
    // The neighbours in the queue for the file.
    Request* before_ = nullptr;
    Request* after_ = nullptr;
    bool waits_ = false;
    bool is_void_ = false;
    OneShot<> turn_;
  };

  HostRequests() = default;
  HostRequests(const HostRequests&) = delete;
  HostRequests& operator=(const HostRequests&) = delete;

  // The hosts at this address that have requests under way.
  std::vector<v4::LockHostName> HostsAt(const IpAddress& address) const;
  // These hosts have started again. Their requests wait for each other no more.
  void End(const std::vector<v4::LockHostName>& hosts);

  bool empty() const { return by_owner_.empty(); }

 private:
  void LetGoOn(Request& request);
  void ResumeReady();

  std::map<Key, std::list<Request*>> by_owner_;  // in the order of their arrival
  std::deque<Request*> ready_;                   // about to be resumed
  bool resuming_ = false;
};

}  // namespace penstock::nfs::nlm
