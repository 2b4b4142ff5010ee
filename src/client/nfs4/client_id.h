// A client id of NFSv4.0 at a server. ClientId keeps its lease and obtains a new one if the server loses it (RFC 7530
// §9.1.1, §9.5, §9.6). ClientIdLease decides on the next step; this class makes its calls. The server gets no callback
// address, so it grants no delegations.
#pragma once

#include <string_view>

#include "client/nfs4/client_id_lease.h"
#include "client/nfs4/compound_caller.h"

namespace penstock::client::v4 {

class ClientId final : public CompoundCaller {
 public:
  ClientId(TimerService& timers, rpc::Client& client, CallerOptions options)
      : CompoundCaller(timers, client, std::move(options)) {}

  // No operation gives a client id back. The server forgets it when the lease expires.
  Task<void> Close() override { return EndBackground(); }

  const ClientIdLease& lease() const { return lease_; }
  nfs4::clientid4 client() const override { return lease_.client(); }
  uint64_t epoch() const override { return lease_.epoch(); }
  Duration lease_time() const override { return lease_.lease_time(); }

 private:
  Task<Result<Executed>> Execute(Compound& compound, std::string_view what) override;
  bool MayRepeat(const Compound& compound) const;

  bool ready() const override { return lease_.ready(); }
  int step() const override { return static_cast<int>(lease_.next()); }
  Task<Result<void>> TakeStep(std::string_view what) override;
  Task<Result<void>> SetClientId(std::string_view what);
  Task<Result<void>> Confirm(std::string_view what);
  Task<Result<void>> Renew(std::string_view what);

  TimePoint renewed_at() const override { return lease_.renewed_at(); }
  Task<void> RenewLease() override;
  void HandleLeaseTime(Duration time) override { lease_.set_lease_time(time); }

  ClientIdLease lease_;
};

}  // namespace penstock::client::v4
