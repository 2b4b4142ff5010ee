// Registers the server's programs with the rpcbind of this host (RFC 1833), so that clients find their ports.
//
// rpcbind has one address for each program, version and network. A registration that leads elsewhere may belong to
// another server (the kernel's, a second Penstock), or to a server that was killed. The registrar asks the program at
// that address: if it answers, the registrar leaves the whole program to that server, since a client must not find one
// version here and another one there. If nothing listens there, the registration is stale, and the registrar replaces
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "rpc/client.h"
#include "rpcbind/blocking_channel.h"
#include "rpcbind/service.h"

namespace penstock::rpcbind {

// All functions block, each call of rpcbind for no longer than the limit. Any thread may call them; they take turns.
class Registrar {
 public:
  // Makes a channel whose calls do not suspend.
  using Connect = std::function<std::unique_ptr<rpc::Channel>(const Destination& to, BufferPool& pool)>;
  struct Options {
    // rpcbind's local socket is the first of these that something listens at. rpcbind knows the user of a caller there,
    // and accepts registrations only there.
    std::vector<std::string> sockets{"/run/rpcbind.sock", "/var/run/rpcbind.sock"};
    // Programs that another server of this host may have, which is no problem.
    std::set<uint32_t> may_be_elsewhere{};
    // Tests replace it.
    Connect connect = &ConnectBlocking;
  };

  explicit Registrar(std::vector<Service> services) : Registrar(std::move(services), Options()) {}
  Registrar(std::vector<Service> services, Options options);

  // Registers all services. Fails unless all of them are registered, or may be elsewhere.
  SetupResult<void> Require();
  // Registers the services that rpcbind does not have, and logs what has changed: rpcbind may have been started again
  // since the last call, or another server may have ended. Does nothing after Withdraw().
  void Refresh();
  // Whether the last attempt has found or made all registrations, but for those that may be elsewhere.
  bool has_all();
  // Where the last attempt has found a program.
  enum class Place : uint8_t {
    kUnknown,    // rpcbind has not answered
    kHere,       // all its services are registered
    kElsewhere,  // another server has it, as it may
    kNeither,    // there is a problem
  };
  Place PlaceOf(uint32_t program);
  // Removes the registrations that Require() and Refresh() have made, unless they lead elsewhere by now.
  void Withdraw();

 private:
  // An entry in rpcbind's list.
  struct Entry {
    uint32_t program = 0;
    uint32_t version = 0;
    std::string netid;
    std::string address;
    std::string owner;
  };
  // The outcome of an attempt to register everything.
  struct Report {
    bool reached = false;
    std::vector<uint32_t> added;                // programs
    std::map<uint32_t, std::string> problems;   // for each program that is not registered completely
    std::map<uint32_t, std::string> elsewhere;  // for each one that another server has, as it may
  };
  class Session;

  static std::unique_ptr<rpc::Channel> ConnectBlocking(const Destination& to, BufferPool& pool);
  static bool IsOurs(const Entry& entry, const Service& service);

  Report Register();
  void RegisterProgram(Session& session, uint32_t program, const std::vector<Entry>& entries, Report& report);
  // Returns true if the program at the address of the entry may still run.
  bool IsAlive(const Entry& entry, BufferPool& pool) const;
  void Tell(const Report& report);
  void TellElsewhere(const Report& report);

  const std::vector<Service> services_;
  const Options options_;
  std::atomic<bool> withdrawn_ = false;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<Service> registered_;       // by this registrar
  std::map<uint32_t, std::string> told_;  // the problems that were logged
  std::map<uint32_t, std::string> elsewhere_;
  bool told_missing_ = false;
  bool reached_ = false;  // by the last attempt
};

}  // namespace penstock::rpcbind
