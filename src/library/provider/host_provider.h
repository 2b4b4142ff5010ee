// The RDMA provider of a host (include/penstock/provider.h): its functions, its properties, and the numbers by which it
// names connections and listeners. The host is not trusted: what its functions return is checked, so that a mistake of
// the host becomes an error of one connection, and a line of the log.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "base/log_limit.h"
#include "base/timer.h"
#include "library/provider/events.h"
#include "penstock/provider.h"
#include "rdma/endpoint.h"

namespace penstock::library {

class HostListener;
class HostLoop;

struct ProviderProperties {
  std::string name;
  bool remote_invalidation = false;
  rdma::Limits limits;
  size_t max_private_data = 0;
  // How long the host may take to close a connection in order.
  Duration disconnect_limit = std::chrono::seconds(10);
};

// Whether the calling thread is in a function of a host's provider.
bool IsInProviderFunction();

// Marks the calling thread, see IsInProviderFunction().
class InProviderFunction {
 public:
  InProviderFunction();
  ~InProviderFunction();
  InProviderFunction(const InProviderFunction&) = delete;
  InProviderFunction& operator=(const InProviderFunction&) = delete;
};

// Any thread.
class HostProvider {
 public:
  // All required functions are there.
  HostProvider(const penstock_provider_ops& ops, void* self, ProviderProperties properties);
  ~HostProvider();
  HostProvider(const HostProvider&) = delete;
  HostProvider& operator=(const HostProvider&) = delete;

  const penstock_provider_ops& ops() const { return ops_; }
  void* self() const { return self_; }
  const ProviderProperties& properties() const { return properties_; }

  // Calls a function of the host. Returns zero or a positive errno.
  template <class... Parameters>
  int Call(const char* name, int (*function)(Parameters...), std::type_identity_t<Parameters>... arguments) const {
    int result = 0;
    Do(name, [&] { result = function(arguments...); }, [&] { result = -EIO; });
    return CheckResult(name, result);
  }
  // The same for a function without a result.
  template <class... Parameters>
  void Call(const char* name, void (*function)(Parameters...), std::type_identity_t<Parameters>... arguments) const {
    Do(name, [&] { function(arguments...); }, [] {});
  }

  // Logs a mistake of the host, now and then.
  void Blame(std::string_view function, std::string_view what) const;

  // Returns a number that no connection or listener of this process has had.
  static uint64_t NewNumber();
  // From now on statements about a connection go to this loop.
  void Register(uint64_t connection, std::shared_ptr<HostLoop> loop);
  // From now on peers of the listener go to `listener`.
  void Register(uint64_t listener_number, std::shared_ptr<HostListener> listener);
  // From now on the number is unknown.
  void Forget(uint64_t number);

  // Takes what the host tells. Both return zero or a positive errno.
  int Tell(Event event) const;
  // Sets `connection` before a function of the host can be called for it.
  int TellRequest(uint64_t listener, void* endpoint, std::unique_ptr<PeerFacts> peer, uint64_t& connection) const;

 private:
  template <class Function, class Failed>
  void Do(const char* name, Function function, Failed failed) const {
    try {
      const InProviderFunction in_function;
      function();
    } catch (const std::exception& thrown) {
      failed();
      Blame(name, fmt::format("has thrown an exception: {}", thrown.what()));
    } catch (...) {
      failed();
      Blame(name, "has thrown an exception");
    }
  }
  int CheckResult(const char* name, int result) const;

  const penstock_provider_ops ops_;
  void* const self_;
  const ProviderProperties properties_;
  mutable LogLimit told_{std::chrono::seconds(1)};
  mutable std::shared_mutex mutex_;  // guards the following members; no function of the host is called under it
  std::unordered_map<uint64_t, std::shared_ptr<HostLoop>> connections_;
  std::unordered_map<uint64_t, std::shared_ptr<HostListener>> listeners_;
};

}  // namespace penstock::library
