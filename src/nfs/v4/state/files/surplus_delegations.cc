// Takes delegations back while there are too many: asks clients for some (CB_RECALL_ANY), recalls others one by one,
// and revokes those that do not come back.
#include <algorithm>

#include "nfs/v4/state/files/delegations.h"

namespace penstock::nfs::v4 {
namespace {

// The clients that one call asks. With one call a second, as many calls are under way as the clients need seconds to
// answer, times this number.
constexpr size_t kAskedAtOnce = 256;
// The recalled delegations, of all clients and of one, up to which surplus ones are recalled. Each may be a call under
// way: the rest of CallbackSender::Options::max_calls is for recalls that a request waits for.
constexpr size_t kRecalled = 2048;
constexpr size_t kRecalledOfClient = kRecalled / 4;
// The delegations that one call revokes.
constexpr size_t kRevokedAtOnce = 1024;

// The most delegations that CB_RECALL_ANY can name.
uint32_t ToKeep(size_t level) { return static_cast<uint32_t>(std::min<size_t>(level, UINT32_MAX)); }

}  // namespace

void Delegations::ReduceSurplus(TimePoint now, const std::function<Reach(ClientId)>& reach) {
  if (!pressure_.on()) return;
  const std::vector<ClientFiles*> holders = AdaptPressure();
  if (!pressure_.on()) return;
  RevokeOverdue(now);
  size_t asked = 0;
  for (ClientFiles* const client : holders) {
    if (client->delegations <= pressure_.level()) continue;
    const Reach how = reach(client->id);
    if (how == Reach::kNone) continue;
    const AskedForAny& any = client->asked_for_any;
    if (how == Reach::kRecall || any.refused) {
      RecallDownTo(*client, pressure_.level(), now);
    } else if (any.keep) {
      // RFC 8881 §20.6.4: a client has a lease time at least to follow CB_RECALL_ANY. The level may have become lower
      // since; the client is asked for the difference when it has followed.
      if (now - *any.at >= records_.limits().lease) {
        RecallDownTo(*client, std::max<size_t>(pressure_.level(), *any.keep), now);
      }
    } else if (asked < kAskedAtOnce && MayAsk(*client, now)) {
      ++asked;
      Ask(*client, now);
    }
  }
}

// Sets the level anew, or ends the pressure. Returns the clients that have delegations; the client with the most comes
// first.
std::vector<ClientFiles*> Delegations::AdaptPressure() {
  std::vector<ClientFiles*> holders;
  std::vector<size_t> held;
  for (const auto& [id, client] : records_.clients()) {
    if (client->delegations == 0) continue;
    holders.push_back(client.get());
    held.push_back(client->delegations);
  }
  pressure_.Adapt(std::move(held));
  std::ranges::sort(holders, [](const ClientFiles* a, const ClientFiles* b) {
    return std::pair(b->delegations, a->id) < std::pair(a->delegations, b->id);
  });
  for (const auto& [id, client] : records_.clients()) {
    AskedForAny& any = client->asked_for_any;
    if (any.keep && (!pressure_.on() || client->delegations <= *any.keep)) any.keep.reset();
  }
  return holders;
}

void Delegations::RevokeOverdue(TimePoint now) {
  for (size_t more = kRevokedAtOnce; more > 0 && !recalled_.empty(); --more) {
    if (!IsOverdue(*recalled_.front(), now)) return;
    Revoke(*recalled_.front());
  }
}

// A client that follows is asked again after a quarter of the lease at the earliest.
bool Delegations::MayAsk(const ClientFiles& client, TimePoint now) const {
  const AskedForAny& any = client.asked_for_any;
  return !any.at || now - *any.at >= records_.limits().lease / 4;
}

void Delegations::Ask(ClientFiles& client, TimePoint now) {
  const uint32_t keep = ToKeep(pressure_.level());
  client.asked_for_any.at = now;
  client.asked_for_any.keep = keep;
  recall_anys_.push_back({client.id, keep});
}

// Recalls the oldest delegations of the client: the server does not know which ones the client still uses (RFC 8881
// §20.6.3).
void Delegations::RecallDownTo(ClientFiles& client, size_t keep, TimePoint now) {
  while (client.unrecalled.size() > keep && recalled_.size() < kRecalled &&
         client.delegations - client.unrecalled.size() < kRecalledOfClient) {
    SendRecall(*client.unrecalled.front(), now);
  }
}

bool Delegations::HasSurplus(ClientId client) const {
  const ClientFiles* const files = records_.FindClient(client);
  return files && pressure_.on() && files->delegations > pressure_.level();
}

bool Delegations::IsOwed(const RecallAny& asked) const {
  const ClientFiles* const files = records_.FindClient(asked.client);
  return files && files->asked_for_any.keep == asked.keep && files->delegations > asked.keep;
}

void Delegations::HandleRecallAnyRefused(ClientId client) {
  if (ClientFiles* const files = records_.FindClient(client)) files->asked_for_any.refused = true;
}

}  // namespace penstock::nfs::v4
