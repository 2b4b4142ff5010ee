#include "server/locking.h"

#include <unistd.h>

#include <array>
#include <set>
#include <string>
#include <vector>

namespace penstock::server {
namespace {

constexpr Duration kSweepInterval = std::chrono::seconds(30);

std::string NameOfThisHost() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace

Locking::Locking(const nfs::Exports& exports, Nfs4& nfs4, const Discovery& discovery, Loop& home, bool nfs2)
    : nfs4_(nfs4),
      discovery_(discovery),
      calls_(home, {}),
      locks_(nfs4.services()),
      local_monitor_(calls_, home),
      manager_(exports, locks_, calls_, local_monitor_, &home, home),
      nfs2_(nfs2),
      status_monitor_(manager_, nfs::nlm::StateOf(nfs4.instance())),
      restart_notices_(calls_, home, {.name = NameOfThisHost(), .state = nfs::nlm::StateOf(nfs4.instance())}),
      sweep_(home.MakeTimer([this] { Sweep(); })) {
  nfs4_.NotifyHostsBy([this](const nfs::v4::LockNotice& notice) { manager_.Tell(notice); });
}

Locking::~Locking() { nfs4_.NotifyHostsBy(nullptr); }

std::vector<rpc::Program*> Locking::lock_managers() {
  if (!nfs2_) return {&nlm4_};
  return {&nlm1_, &nlm3_, &nlm4_};
}

void Locking::Start() {
  const std::vector<nfs::v4::RememberedHost> hosts = nfs4_.TakeRememberedHosts();
  std::set<IpAddress> addresses;
  for (const nfs::v4::RememberedHost& each : hosts) addresses.insert(each.name.address);
  local_monitor_.Use(discovery_.has_other_monitor());
  local_monitor_.EndEarlier(addresses);
  restart_notices_.Send(hosts);
  sweep_->ExpireAfter(kSweepInterval);
}

void Locking::Sweep() {
  local_monitor_.Use(discovery_.has_other_monitor());
  manager_.Sweep();
  sweep_->ExpireAfter(kSweepInterval);
}

Task<> Locking::Stop() {
  sweep_.reset();
  co_await local_monitor_.Stop();
  calls_.Abort();
  co_await restart_notices_.Stop();
  co_await manager_.Stop();
}

}  // namespace penstock::server
