// What the servers of a cluster know of each other: an object in the store, which each of them changes by
// compare-and-write.
//
// A run of a server that has ended, and that had clients, is lost. Its clients reclaim their state at the same server,
// when it has started again. Until then no server may give away what they hold, so the cluster has a grace period as
// long as there is a lost run. With each loss an epoch begins:
//   1. every server enforces the period: it gives no new state any more;
//   2. once all do, the clients of servers that have started again reclaim;
//   3. a server that has started again ends its lost runs when their clients have reclaimed, or their time is over. The
//      lost runs of a server that does not start again, or starts again and again, are ended by the others;
//   4. without lost runs, the period is over.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/timer.h"

namespace penstock::cluster {

struct Members {
  // A run whose clients may reclaim.
  struct Lost {
    std::string node;
    uint32_t instance = 0;
    Duration lease{};   // that the server told its clients
    bool over = false;  // its clients have had their time: a server that starts from now on does not take them
    bool operator==(const Lost&) const = default;
  };
  struct Member {
    uint32_t instance = 0;
    Duration lease{};
    std::string server;     // the name that its state directory has (server::LoadServerId)
    uint64_t enforces = 0;  // the last epoch that it enforces
    bool operator==(const Member&) const = default;
  };

  std::string scope;           // the server scope of all members (RFC 8881 §2.10.4)
  uint32_t last_instance = 0;  // the greatest that a run of any member has had
  uint64_t epoch = 0;          // of the last loss
  std::vector<Lost> lost;      // in the order of their ends
  std::map<std::string, Member> nodes;

  bool in_grace() const { return !lost.empty(); }
  bool AllEnforce() const;
  // The names of those that do not.
  std::string Laggards() const;
  // The member of this node, if it is this run.
  Member* Find(const std::string& node, uint32_t instance);
  // The run of a member has ended. If it `had_clients`, it is lost.
  void Lose(const std::string& node, bool had_clients);
  // Whether this run is a member's, or lost.
  bool Knows(uint32_t instance) const;

  bool operator==(const Members&) const = default;
};

std::string ToText(const Members& members);
// Returns nothing for a text that ToText() does not write.
std::optional<Members> ParseMembers(std::string_view text);

}  // namespace penstock::cluster
