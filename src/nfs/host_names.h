// The names of clients' hosts, for exports that name clients by host name, pattern or netgroup (exports(5)).
#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/address.h"
#include "base/client_key.h"
#include "base/log_limit.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "base/timer.h"
#include "base/users.h"
#include "base/workers.h"
#include "nfs/client_spec.h"
#include "rpc/forwarding_program.h"

namespace penstock::nfs {

// What the host's databases (DNS, /etc/hosts, netgroups) say about one address.
struct HostFacts {
  // Its names, in lower case. Only names that lead back to the address: who administers a network decides what its
  // addresses are called, but not which addresses a name has.
  std::vector<std::string> names;
  std::set<std::string, std::less<>> hosts;      // those of the exports' host names that have the address
  std::set<std::string, std::less<>> netgroups;  // those of the exports' netgroups that have one of the names
  // Whether the databases have answered all questions, now or before. Otherwise there may be more.
  bool complete = true;
};

// The databases. Any thread; may block.
class HostDatabase {
 public:
  virtual ~HostDatabase() = default;
  // The addresses of a name; none if it does not exist.
  virtual Result<std::vector<IpAddress>, NoAnswer> AddressesOf(const std::string& name) = 0;
  // The names of an address, as its own network gives them.
  virtual Result<std::vector<std::string>, NoAnswer> NamesOf(const IpAddress& address) = 0;
  virtual bool IsInNetgroup(const std::string& group, const std::string& host) = 0;
};

// getaddrinfo(3), gethostbyaddr_r(3), innetgr(3). Lives as long as the process.
HostDatabase& SystemHosts();

// A cache of the facts. Thread-safe.
class HostNames {
 public:
  struct Settings {
    Duration known_for = std::chrono::minutes(5);
    // After a look-up without an answer, which leaves the facts as they were.
    Duration again_after = std::chrono::seconds(5);
    // Facts that are older are not used while they are looked up again.
    Duration oldest = std::chrono::minutes(30);
    size_t hosts = 16384;  // remembered addresses
    // Look-ups under way, from which on senders of datagrams get none: their addresses may be forged.
    size_t under_way_for_datagrams = 8;
  };

  // `database` outlives this object, and `pool` outlives all calls. Without a pool, look-ups run at once.
  HostNames(HostDatabase& database, std::function<TimePoint()> now, Workers* pool)
      : HostNames(database, std::move(now), pool, Settings{}) {}
  HostNames(HostDatabase& database, std::function<TimePoint()> now, Workers* pool, const Settings& settings)
      : database_(database), now_(std::move(now)), pool_(pool), settings_(settings) {}

  // Asks for the addresses of the host names among these groups, which LookFor() will look for, so that no call waits
  // for that. Blocks until the database has answered, or has not within some seconds.
  void Prepare(const std::vector<ClientSpec>& specs);
  // Looks for these groups of clients from now on. The facts about known addresses stay in use until they are looked up
  // again.
  void LookFor(const std::vector<ClientSpec>& specs);
  // Whether a call from this address must wait for Load(), because nothing or too little is known of it. If its facts
  // are only old, this starts to look them up, and returns false.
  bool Lacks(const IpAddress& address);
  // Whether so many look-ups are under way that a datagram should not begin another one.
  bool IsBusy() const;
  // Looks up the facts, together with others who wait for the same. Resumes on `loop`; without a loop, returns when the
  // facts are there. `client` shares the pool with others. Errors of the databases leave what was known.
  Task<> Load(Loop* loop, IpAddress address, ClientKey client);
  // Returns null if nothing is known.
  std::shared_ptr<const HostFacts> Of(const IpAddress& address) const;

 private:
  // What is looked for.
  struct Questions {
    std::set<std::string, std::less<>> hosts, netgroups;
    bool names = false;  // patterns
    bool empty() const { return hosts.empty() && netgroups.empty() && !names; }
    bool operator==(const Questions&) const = default;
  };
  struct Waiting {
    Loop* loop;
    std::coroutine_handle<> who;
  };
  struct Entry {
    std::shared_ptr<const HostFacts> facts;
    TimePoint until;
    uint64_t answers = 0;  // the version of the questions that `facts` answer
  };
  using Entries = std::map<IpAddress, Entry>;
  // What is known of a name now. One caller has the answer of the database; others may get what was known before it.
  enum class Knowledge : uint8_t { kAnswered, kOld, kNoAnswer };
  struct Resolved {
    std::vector<IpAddress> addresses;
    TimePoint until;
    TimePoint answered;  // when the database answered last; if it never did, there are no addresses
    Knowledge knowledge = Knowledge::kNoAnswer;
  };
  struct Answers {
    HostFacts facts;
    bool complete = true;
    bool is_old = false;  // a part is of an earlier answer, and another caller is asking again
    uint64_t version = 0;
  };

  void Begin(const IpAddress& address, const ClientKey& client);
  // The caller of the next two holds mutex_.
  const Entry* Find(const IpAddress& address) const;
  Entry& Insert(const IpAddress& address);
  Answers Ask(const IpAddress& address);
  // The addresses of one of the exports' host names; remembered, because every address asks. While one caller asks
  // again, others get the addresses that were known: a slow name server does not make them wait. Addresses that the
  // database gave longer than Settings::oldest ago are not used.
  std::vector<IpAddress> Resolve(const std::string& name, Answers& answers);
  void Keep(const IpAddress& address, Answers answers);

  HostDatabase& database_;
  const std::function<TimePoint()> now_;
  Workers* const pool_;
  const Settings settings_;
  mutable std::mutex mutex_;  // guards the following members; held briefly
  std::shared_ptr<const Questions> questions_ = std::make_shared<const Questions>();
  std::atomic<bool> asks_ = false;  // whether there are questions; readers need no lock
  uint64_t version_ = 0;
  // When half of the hosts are in `recent_`, they become the older ones, and the older ones before are forgotten.
  Entries recent_, older_;
  std::map<IpAddress, std::vector<Waiting>> under_way_;
  std::unordered_map<std::string, Resolved> resolved_;
  LogLimit told_;
};

// Looks up the caller's host before it calls a program: see Export::OptionsFor().
class WithHostNames final : public rpc::ForwardingProgram {
 public:
  // Both must outlive this object.
  WithHostNames(rpc::Program& program, HostNames& hosts) : ForwardingProgram(program), hosts_(hosts) {}

  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  Task<rpc::AcceptStatus> LoadAndCall(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results);

  HostNames& hosts_;
};

}  // namespace penstock::nfs
