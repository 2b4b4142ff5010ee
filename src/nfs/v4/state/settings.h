// What the operator may set about NFSv4.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/timer.h"

namespace penstock::nfs::v4 {

struct Settings {
  // How long a client may be silent before its state is at others' mercy (RFC 8881 §8.3), and how long a restarted server
  // lets clients reclaim what they held (RFC 8881 §8.4.2).
  Duration lease = std::chrono::seconds(90);
  Duration grace = std::chrono::seconds(90);
  // How long a silent client keeps what nobody else wants.
  Duration courtesy = std::chrono::hours(24);
  // How long a client may take to answer a callback, before the way to it is taken for lost: short enough for a client
  // that keeps its lease to hear of that, and to mend it, before what could not be recalled is revoked (RFC 8881
  // §10.4.5).
  Duration callback_limit() const { return std::min<Duration>(std::chrono::seconds(15), lease / 4); }

  // What the server calls itself (RFC 8881 §2.10.4, §2.10.5): the same over all of its addresses and after each restart, and
  // not that of any other server.
  std::string server_owner = "penstock";
  std::string server_scope = "penstock";
  // nfs_impl_id4: for people who look at captures (RFC 8881 §18.35.3 wants both to be settable).
  std::string implementation_domain{};
  std::string implementation_name = "penstock";

  uint32_t max_read = 1 << 20;
  uint32_t max_write = 1 << 20;

  // The most that a session gets, whatever its client asks for (RFC 8881 §18.36).
  uint32_t max_request = (1 << 20) + (16 << 10);
  uint32_t max_response = (1 << 20) + (16 << 10);
  uint32_t max_cached_response = 8 << 10;
  uint32_t max_operations = 64;
  uint32_t max_slots = 64;
  // Of all sessions together: where there are many, each is told to use fewer (RFC 8881 §2.10.6.1).
  uint32_t max_total_slots = 64 << 10;
  // Octets of the replies that are kept in memory for all sessions: where there are more, slots are taken back.
  size_t max_kept_octets = 256 << 20;

  uint32_t max_clients = 16 << 10;
  // Client IDs that nobody has confirmed yet; the oldest makes room for the next.
  uint32_t max_unconfirmed_clients = 1 << 10;
  uint32_t max_sessions = 16;  // of one client
  // Those whose replies outlive the server (RFC 8881 §2.10.6.5), those of its last run included, where it has a place
  // for them. Each takes room on the disk for the replies of all its slots. Clients that ask for more get sessions that
  // are not persistent.
  uint32_t max_persistent_sessions = 1 << 10;

  // Whether any are given. Those that are reclaimed after a restart are wanted back at once where not.
  bool delegations = true;
  // Owners and groups are written name@domain; as plain numbers where it is empty (RFC 8881 §5.9).
  std::string domain{};
};

}  // namespace penstock::nfs::v4
