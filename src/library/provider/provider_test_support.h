// For tests: the network of examples/loopback_provider, which is written against the public headers only. This header
// declares C handles, because the names of the public C++ headers are those of the modules within.
#pragma once

#include <cstdint>
#include <memory>

#include "penstock/provider.h"

namespace penstock::library {

class LoopbackNetwork {
 public:
  LoopbackNetwork();
  // Fails the test if a runtime or a server still has the provider.
  ~LoopbackNetwork();
  LoopbackNetwork(const LoopbackNetwork&) = delete;
  LoopbackNetwork& operator=(const LoopbackNetwork&) = delete;

  penstock_provider* provider() const;
  // Loses all connections, as a network that fails does.
  void LoseAll();
  // The octets of all Sends, Writes and Reads so far.
  uint64_t moved() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::library
