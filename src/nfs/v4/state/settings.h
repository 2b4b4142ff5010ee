// The settings of NFSv4.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/timer.h"

namespace penstock::nfs::v4 {

struct Settings {
  // The lease: how long a client may be silent before its state gives way to other clients (RFC 8881 §8.3). Grace: how
  // long a restarted server lets clients reclaim their state (RFC 8881 §8.4.2).
  Duration lease = std::chrono::seconds(90);
  Duration grace = std::chrono::seconds(90);
  // How long a silent client keeps state that conflicts with no other client.
  Duration courtesy = std::chrono::hours(24);
  // How long a client may take to answer a callback before its callback path counts as lost. The limit is short enough
  // for a client that keeps its lease to learn of the loss and to repair the path before delegations that could not be
  // recalled are revoked (RFC 8881 §10.4.5).
  Duration callback_limit() const { return std::min<Duration>(std::chrono::seconds(15), lease / 4); }
  // How long a client may take to follow CB_CREDITRECALL before its connections are closed.
  Duration credit_recall_limit() const { return lease / 4; }

  // The server's names (RFC 8881 §2.10.4, §2.10.5): the same for all of its addresses and after each restart, and
  // different from those of any other server.
  std::string server_owner = "penstock";
  std::string server_scope = "penstock";
  // nfs_impl_id4, for readers of captures (RFC 8881 §18.35.3 requires that both can be set).
  std::string implementation_domain{};
  std::string implementation_name = "penstock";

  uint32_t max_read = 1 << 20;
  uint32_t max_write = 1 << 20;

  // The limits of a session, regardless of its client's request (RFC 8881 §18.36).
  uint32_t max_request = (1 << 20) + (16 << 10);
  uint32_t max_response = (1 << 20) + (16 << 10);
  uint32_t max_cached_response = 8 << 10;
  uint32_t max_operations = 64;
  // The operations of a request of 2004, whose client cannot ask for this limit. A request is decoded at once when it
  // is judged.
  uint32_t max_bound_operations = 1024;
  uint32_t max_slots = 64;
  // The slots of all sessions together. With many sessions, each is told to use fewer slots (RFC 8881 §2.10.6.1).
  uint32_t max_total_slots = 64 << 10;
  // The octets of kept replies in memory, for all sessions, those of 2004 included. If there are more, slots and
  // streamids are taken back.
  size_t max_kept_octets = 256 << 20;

  uint32_t max_clients = 16 << 10;
  // Unconfirmed client IDs; the oldest makes room for the next.
  uint32_t max_unconfirmed_clients = 1 << 10;
  uint32_t max_sessions = 16;  // of one client
  // Persistent sessions, whose replies outlive the server (RFC 8881 §2.10.6.5), including those of the last run. Each
  // takes room on the disk for the replies of all its slots. Clients that ask for more get sessions that are not
  // persistent.
  uint32_t max_persistent_sessions = 1 << 10;

  // Whether the sessions of 2004 are offered (docs/sessions-2004.md).
  bool bound_sessions = false;
  // The most requests of one such session that may be under way at once.
  uint32_t max_streams = 64;

  // Whether delegations are given. If not, delegations that are reclaimed after a restart must be returned at once.
  bool delegations = true;
  // The most delegations that are given, of all clients together. From seven eighths on, clients must return some: see
  // DelegationPressure. docs/nfs4.md says how much memory one takes.
  uint32_t max_delegations = 1 << 17;
  // A larger limit has no effect: the last quarter of StateLimits::states is for opens and locks only.
  static constexpr uint32_t kMostDelegations = (1 << 20) / 4 * 3;
  // Whether the server copies from other servers, and lets other servers copy from it (RFC 7862 §4.5). If it does, its
  // clients make it connect to addresses of their choice.
  bool inter_server_copy = false;
  // The domain of owners and groups, which are then written as name@domain (RFC 8881 §5.9). Empty: all are numbers.
  std::string domain{};
  // Whether all clients get names. Otherwise only those get them that use RPCSEC_GSS, as from Linux.
  bool names_for_all = false;
};

}  // namespace penstock::nfs::v4
