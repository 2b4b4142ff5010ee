// The parts that all benchmarks of NFSv4's state use.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {

inline constexpr TimePoint kNow{std::chrono::hours(1)};

// Nanoseconds of the processor, so that other load of the machine does not count.
inline double ProcessorTime() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

// A program error: the tables refused what the program asked for.
inline void Require(bool good, std::string_view what) {
  if (good) return;
  fmt::print(stderr, "the state of NFSv4 is measured wrongly: {}\n", what);
  std::exit(1);
}

inline NamedFile FileNamed(std::string_view name) {
  const fs::Handle object = *fs::Handle::FromBytes(AsBytes(name));
  return {{ExportId(1), object}, {1, object}};
}

struct ClientWithSession {
  ClientId client;
  SessionId session;
};

// `number`: not zero, and of no other client.
inline ClientWithSession AddClientWithSession(StateTables& tables, uint64_t number,
                                              const SessionConnection& connection) {
  const std::string owner = fmt::format("client {}", number);
  const Principal root{rpc::AuthFlavor::AUTH_SYS, 0};
  const auto exchanged = tables.Exchange({.verifier = {}, .owner = owner, .dialect = DialectOf(1)}, root, kNow);
  Require(exchanged.has_value(), "EXCHANGE_ID failed");
  const nfs4::channel_attrs4 channel{.ca_headerpadsize = 0,
                                     .ca_maxrequestsize = 8192,
                                     .ca_maxresponsesize = 8192,
                                     .ca_maxresponsesize_cached = 8192,
                                     .ca_maxoperations = 16,
                                     .ca_maxrequests = 4,
                                     .ca_rdma_ird = {}};
  const auto created = tables.CreateSession({.client = exchanged->id,
                                             .sequence = exchanged->sequence,
                                             .back_channel = false,
                                             .fore = channel,
                                             .back = channel,
                                             .callback_program = 0x40000000},
                                            connection, root, number, kNow);
  Require(created.reply.csr_status() == nfs4::NFS4_OK, "CREATE_SESSION failed");
  return {exchanged->id, created.reply.csr_resok4().csr_sessionid};
}

}  // namespace penstock::nfs::v4
