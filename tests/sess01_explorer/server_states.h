// The servers that an exploration has reached. Most steps of a world are of the client or the network, so few servers
// belong to many states of the world. Each step of a server is computed once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "server.h"

namespace penstock::explorer {

class ServerStates {
 public:
  explicit ServerStates(std::unique_ptr<Server> first) { Add(std::move(first)); }

  enum class Action : uint8_t { kBind, kLose, kReceive, kFinish, kWithdraw };
  struct Step {
    uint32_t next = 0;
    Verdict verdict;  // kReceive
  };
  // Takes a step of server `from`. kBind and kLose use only `copy.over`.
  Step Take(uint32_t from, Action action, const Copy& copy);

  struct Facts {
    uint8_t bound = 0;
    uint32_t running = 0;
    const char* excess = nullptr;
  };
  const Facts& FactsOf(uint32_t server) const { return facts_[server]; }
  bool can_withdraw() const { return servers_.front()->can_withdraw(); }
  size_t count() const { return servers_.size(); }

 private:
  uint32_t Add(std::unique_ptr<Server> server);

  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<Facts> facts_;
  std::unordered_map<std::string, uint32_t> by_key_;
  std::unordered_map<uint64_t, Step> steps_;
};

}  // namespace penstock::explorer
