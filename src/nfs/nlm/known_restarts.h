// The restarts of which hosts have told lately, by SM_NOTIFY. A status monitor tells of a restart again if it has not
// got the reply, and may tell it once by each name of its host, with its domain and without. Only the first message may
// end locks: the host may have got others since.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/address.h"
#include "base/host_shares.h"
#include "base/timer.h"

namespace penstock::nfs::nlm {

class KnownRestarts {
 public:
  struct Settings {
    HostShares::Limits limits{.all = 1 << 12, .per_host = 64};  // further restarts are not remembered
    Duration kept = std::chrono::minutes(15);                   // as long as a monitor repeats its message
  };

  KnownRestarts() : KnownRestarts(Settings()) {}
  explicit KnownRestarts(const Settings& settings) : settings_(settings), shares_(settings.limits) {}

  // Returns whether a message from this address, with this name and number, is the first one about its restart. The
  // number of a host grows with each restart (X/Open XNFS, SM_NOTIFY).
  bool IsNew(const IpAddress& address, std::string_view name, int32_t state, TimePoint now) {
    while (!by_time_.empty() && now - by_time_.front()->second.at >= settings_.kept) Forget(by_time_.front());
    const auto known = restarts_.find(Key{address, ShortName(name)});
    if (known != restarts_.end()) {
      if (known->second.state == state) return false;
      Forget(known);
    }
    if (!shares_.Take(address)) return true;
    const auto added = restarts_.emplace(Key{address, ShortName(name)}, Restart{.state = state, .at = now}).first;
    added->second.place = by_time_.insert(by_time_.end(), added);
    return true;
  }
  size_t size() const { return restarts_.size(); }

 private:
  using Key = std::pair<IpAddress, std::string>;
  struct Restart;
  using Restarts = std::map<Key, Restart>;
  struct Restart {
    int32_t state = 0;
    TimePoint at{};
    std::list<Restarts::iterator>::iterator place{};
  };

  // Without the domain. An address has none.
  static std::string ShortName(std::string_view name) {
    asio::error_code error;
    asio::ip::make_address(std::string(name), error);
    return std::string(error ? name.substr(0, name.find('.')) : name);
  }
  void Forget(Restarts::iterator restart) {
    by_time_.erase(restart->second.place);
    shares_.Return(restart->first.first);
    restarts_.erase(restart);
  }

  const Settings settings_;
  HostShares shares_;
  Restarts restarts_;
  std::list<Restarts::iterator> by_time_;
};

}  // namespace penstock::nfs::nlm
