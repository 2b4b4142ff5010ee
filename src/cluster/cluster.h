// A server's part in a cluster of servers that serve the same files. What must survive a server is in a store that all
// of them share: who the members are, and which clients each of them has (nfs::v4::RecoveryStore).
//
// The objects:
//
//   members             see members.h
//   beats               an entry for each run: a number that grows while the server lives
//   clients-INSTANCE    an entry for each client of a run that holds state
//   replies-INSTANCE-*  see reply_objects.h
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/boot_time.h"
#include "base/result.h"
#include "base/timer.h"
#include "cluster/members.h"
#include "nfs/v4/state/stable/recovery.h"
#include "objects/store.h"

namespace penstock::cluster {

// Begin() comes first. After it, any thread may call any method. Every method may block.
class Cluster {
 public:
  struct Options {
    std::string name;    // for messages
    std::string node;    // of this server
    std::string server;  // the name in its state directory, which one process uses at a time
    // How long the clients of a server that does not come back have for that, if the lease was not longer.
    Duration grace = std::chrono::seconds(90);
    // How often the members are looked at, and the server shows that it lives.
    Duration interval = std::chrono::seconds(2);
    // A member that has not shown for so long that it lives is lost. A server that cannot show it for half of the time
    // gives no new state.
    Duration patience = std::chrono::seconds(20);
    // How long Begin() may wait for the other servers and for the store.
    Duration begin_limit = std::chrono::seconds(60);
    // Waits on the thread that calls Begin(). Returns false if Begin() must fail now, with ECANCELED.
    std::function<bool(Duration)> wait = [](Duration time) {
      std::this_thread::sleep_for(time);
      return true;
    };
    // For tests. The clock also runs while the machine is suspended.
    std::function<TimePoint()> now = &BootTime;
    bool has_threads = true;  // else the test calls Look(), Watch() and Tidy()
  };
  // What the server must do. Called on threads of the cluster, one at a time.
  struct Events {
    std::function<void()> hold;     // give no new state from now on
    std::function<void()> release;  // what hold() has begun is over
    // Others have taken this server for lost, or will soon: what its clients hold may be given away. Serve nobody.
    std::function<void(const std::string& why)> expelled;
  };

  Cluster(std::shared_ptr<objects::Store> store, Options options);
  // Ends the threads. The other servers see that this one is lost when their patience ends.
  ~Cluster() { Stop(); }

  // See nfs::v4::RecoveryStore. The clients of earlier runs of this node may reclaim. Waits until all other servers
  // enforce the grace period. Fails if another server with the name of this one may live.
  SetupResult<nfs::v4::RecoveryStore::Restart> Begin(Duration lease, std::chrono::sys_seconds wall_clock);
  bool Record(const nfs::v4::RecoveryRecord& client);
  bool Remove(const std::string& owner);
  bool EndGrace();
  // The store that does these. The cluster must outlive it.
  std::unique_ptr<nfs::v4::RecoveryStore> MakeRecoveryStore();

  const std::string& node() const { return options_.node; }
  const std::shared_ptr<objects::Store>& store() const { return store_; }
  // From Begin() on.
  const std::string& scope() const { return scope_; }
  uint32_t instance() const { return instance_; }
  // The earlier runs of this node whose clients may reclaim.
  const std::vector<uint32_t>& earlier_runs() const { return earlier_runs_; }

  // Tells events from now on, also one that has happened since Begin(). Until the first one, the server gives no new
  // state.
  void Start(Events events);
  // Ends the threads.
  void Stop();
  // Looks at the members once. A thread does so in each interval.
  void Look();
  // Looks whether the server has been able to show that it lives. Another thread does so, because calls to the store
  // may take long.
  void Watch();
  // Repairs what failed, and removes what ended runs have left. A thread of its own does so, because it may take long.
  void Tidy();
  // The last call: tells the other servers that this one ends.
  void Leave();

 private:
  struct Beat {
    std::string value;
    TimePoint since;
  };
  struct Loss {
    TimePoint first;         // seen
    TimePoint absent_since;  // the server
  };
  // A client of an earlier run that may reclaim.
  struct Loaded {
    uint32_t run = 0;
    nfs::v4::RecoveryRecord client;
  };
  struct EntryName {
    uint32_t run = 0;
    std::string key;
    auto operator<=>(const EntryName&) const = default;
  };
  // Whether calls to the store fail. What looks at the members and what changes clients may fail for itself.
  struct Health {
    const char* effect;
    bool fails = false;
  };

  // Runs change(members) and writes the result, again if another server was first. Returns a negative errno;
  // -ECANCELED if `change` returns false.
  int Change(const std::function<bool(Members&)>& change);
  // -ENOENT if no server was ever a member.
  int ReadMembers(Members& members, uint64_t& version);
  // Makes the objects whose entries this run writes.
  int MakeObjects();
  // Whether this run has had clients. True if that cannot be known.
  bool HadClients(uint32_t instance);
  SetupResult<std::vector<nfs::v4::RecoveryRecord>> LoadClients();
  SetupResult<void> CheckNoTwin(const Members::Member& earlier);
  SetupResult<void> Join(Duration lease, std::chrono::sys_seconds wall_clock, nfs::v4::RecoveryStore::Restart& restart);
  // Once all servers enforce the grace period, loads the clients that may reclaim. Until then, fails with EAGAIN.
  SetupResult<void> EnterGrace(nfs::v4::RecoveryStore::Restart& restart);
  // Shows that this server lives, reads the members, and removes those that are lost. -ESTALE: this server is none.
  int LookAround(Members& members);
  int Enforce(Members& members);
  int EndOldLosses(Members& members);
  // Sets a cause for holding, and tells hold() or release() if that has changed.
  void Tell(bool& cause, const std::function<bool()>& is_so);
  void Expel(const std::string& why);
  bool IsSilentFor(Duration time);
  // Sets or removes the entry. Fails if others may take this server for lost, and read its clients.
  int SetClient(const EntryName& name, const nfs::v4::RecoveryRecord* client);
  void Repair();
  void RemoveLeftovers();
  // Logs once that calls fail, and once that they work again. Returns whether this one has worked.
  bool Report(Health& health, int code);
  void Repeat(Duration interval, void (Cluster::*work)());
  bool ends();

  const std::shared_ptr<objects::Store> store_;
  const Options options_;
  std::string scope_;
  uint32_t instance_ = 0;
  std::vector<uint32_t> attempts_;  // to become a member that may yet succeed, by their instances
  bool has_begun_ = false;
  Duration lease_{};
  std::vector<uint32_t> earlier_runs_;

  std::mutex looking_;               // one Look() at a time; guards the following
  std::map<uint32_t, Beat> beats_;   // of the other members
  std::map<uint32_t, Loss> losses_;  // of the lost runs
  uint64_t beat_ = 0;
  TimePoint last_look_{};  // that has succeeded, at its end

  std::mutex tidying_;  // one Tidy() at a time; guards the following
  std::vector<std::string> leftovers_;
  size_t tidied_ = 0;

  std::mutex telling_;  // guards the following
  Events events_;
  bool in_grace_ = true;
  bool is_silent_ = false;
  bool holds_ = true;
  std::string expelled_;  // why

  std::mutex recording_;  // one change of the clients at a time; guards the following
  std::map<std::string, nfs::v4::RecoveryRecord> recorded_;  // the clients of this run, by their keys
  std::map<std::string, Loaded> loaded_;                     // until the end of the grace period
  // What these entries should be, or none. A change of them has failed: it may have been made.
  std::map<EntryName, std::optional<nfs::v4::RecoveryRecord>> unsure_;

  std::mutex mutex_;  // guards the following
  TimePoint last_beat_{};
  Health looks_{
      "NFSv4 clients without state get no opens, silent clients keep their state, and a grace period does not "
      "end"};
  Health records_{"NFSv4 clients without state get no opens, and silent clients keep their state"};
  bool ends_ = false;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::cluster
