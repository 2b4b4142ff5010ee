#include "rpcbind/registrar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "protocol/rpcb.h"

namespace penstock::rpcbind {

using namespace pmap;  // NOLINT: the protocol's own names, RFC 1833
using rpc::CallError;
using rpc::TransportKind;

namespace {

// rpcbind answers from its memory.
constexpr Duration kLimit = std::chrono::seconds(2);
// rpcbind's list is quoted in messages.
constexpr size_t kLongestQuote = 64;

// Runs a task that does not suspend.
template <class T>
T Finish(Task<T> task) {
  std::optional<T> result;
  Spawn([](Task<T> running, std::optional<T>& out) -> Task<void> { out.emplace(co_await std::move(running)); }(
                                                       std::move(task), result));
  assert(result);
  return *std::move(result);
}

// Replaces all but printable characters: rpcbind passes on what any local user has registered.
std::string Quoted(std::string_view text) {
  std::string quoted(text.substr(0, kLongestQuote));
  for (char& each : quoted) {
    if (each < ' ' || each > '~') each = '?';
  }
  return quoted;
}

}  // namespace

// Calls of rpcbind's local socket, in the latest version that it speaks.
class Registrar::Session {
 public:
  Session(const Options& options, BufferPool& pool) : options_(options), pool_(pool) {}

  // Fails if no rpcbind answers.
  Result<std::vector<Entry>, rpc::Error> Dump() {
    rpc::Error last{};
    for (const std::string& path : options_.sockets) {
      channel_ = options_.connect({.kind = Destination::Kind::kLocalSocket, .path = path}, pool_);
      client_.emplace(*channel_, pool_, rpc::RandomXid());
      auto entries = DumpBy<RPCB4PROC_DUMP>();
      if (!entries && entries.error().kind == rpc::Error::Kind::kProgramMismatch) {
        is_version_3_ = true;
        entries = DumpBy<RPCBPROC_DUMP>();
      }
      if (entries) return entries;
      last = entries.error();
    }
    return std::unexpected(last);
  }
  bool Set(const Service& service) {
    const std::string address = rpc::UniversalAddress(service.address);
    const std::string owner = std::to_string(::geteuid());
    const pmap::rpcb entry{.r_prog = service.program,
                           .r_vers = service.version,
                           .r_netid = rpc::ToString(service.netid),
                           .r_addr = address,
                           .r_owner = owner};
    return is_version_3_ ? Agreed<RPCBPROC_SET>(entry) : Agreed<RPCB4PROC_SET>(entry);
  }
  bool Unset(const Entry& entry) {
    const std::string owner = std::to_string(::geteuid());
    const pmap::rpcb given{.r_prog = entry.program,
                           .r_vers = entry.version,
                           .r_netid = entry.netid,
                           .r_addr = entry.address,
                           .r_owner = owner};
    return is_version_3_ ? Agreed<RPCBPROC_UNSET>(given) : Agreed<RPCB4PROC_UNSET>(given);
  }

 private:
  template <class Procedure>
  Result<std::vector<Entry>, rpc::Error> DumpBy() {
    const auto reply = Finish(client_->Call<Procedure>({}));
    if (!reply) return std::unexpected(reply.error());
    std::vector<Entry> entries;
    for (const rpcbnode& node : reply->results) {
      const pmap::rpcb& each = node.rpcb_map;
      entries.push_back(
          {each.r_prog, each.r_vers, std::string(each.r_netid), std::string(each.r_addr), std::string(each.r_owner)});
    }
    return entries;
  }
  template <class Procedure>
  bool Agreed(const pmap::rpcb& entry) {
    if (is_lost_) return false;
    const auto reply = Finish(client_->Call<Procedure>(entry));
    is_lost_ = !reply && reply.error().kind == rpc::Error::Kind::kTransport;
    return reply && reply->results;
  }

  const Options& options_;
  BufferPool& pool_;
  std::unique_ptr<rpc::Channel> channel_;
  std::optional<rpc::Client> client_;
  bool is_version_3_ = false;
  bool is_lost_ = false;  // so that a hanging rpcbind is waited for only once
};

Registrar::Registrar(std::vector<Service> services, Options options)
    : services_(std::move(services)), options_(std::move(options)) {}

std::unique_ptr<rpc::Channel> Registrar::ConnectBlocking(const Destination& to, BufferPool& pool) {
  return std::make_unique<BlockingChannel>(to, pool, kLimit);
}

bool Registrar::IsOurs(const Entry& entry, const Service& service) {
  return entry.program == service.program && entry.version == service.version &&
         entry.netid == rpc::ToString(service.netid) && entry.address == rpc::UniversalAddress(service.address);
}

Registrar::Report Registrar::Register() {
  BufferPool pool;
  Session session(options_, pool);
  Report report;
  const auto entries = session.Dump();
  if (!entries) return report;
  report.reached = true;
  std::set<uint32_t> programs;
  for (const Service& each : services_) programs.insert(each.program);
  for (const uint32_t program : programs) {
    if (!withdrawn_) RegisterProgram(session, program, *entries, report);
  }
  return report;
}

void Registrar::RegisterProgram(Session& session, uint32_t program, const std::vector<Entry>& entries, Report& report) {
  // First the entries that lead elsewhere.
  BufferPool pool;
  std::vector<const Entry*> stale;
  for (const Entry& each : entries) {
    const auto is_ours = [&](const Service& service) { return IsOurs(each, service); };
    if (each.program != program || std::ranges::any_of(services_, is_ours)) continue;
    if (IsAlive(each, pool)) {
      const bool may = options_.may_be_elsewhere.contains(program);
      (may ? report.elsewhere : report.problems)[program] = fmt::format(
          "{} is registered with rpcbind by another server that runs (version {}, {}, address {}, owner {})",
          DescribeProgram(program), each.version, Quoted(each.netid), Quoted(each.address), Quoted(each.owner));
      return;
    }
    stale.push_back(&each);
  }
  for (const Service& service : services_) {
    if (service.program != program) continue;
    const auto is_ours = [&](const Entry& each) { return IsOurs(each, service); };
    const auto is_known = [&] { return std::ranges::find(registered_, service) != registered_.end(); };
    if (std::ranges::any_of(entries, is_ours)) {
      // This server has the port, so that no other one can have made the entry and still run.
      if (!is_known()) registered_.push_back(service);
      continue;
    }
    for (const Entry* each : stale) {
      if (each->version == service.version && each->netid == rpc::ToString(service.netid)) session.Unset(*each);
    }
    if (!session.Set(service)) {
      report.problems[program] =
          fmt::format("rpcbind refuses to register {}, version {}, {}, address {}", DescribeProgram(program),
                      service.version, rpc::ToString(service.netid), rpc::UniversalAddress(service.address));
      return;
    }
    if (!is_known()) registered_.push_back(service);
    if (report.added.empty() || report.added.back() != program) report.added.push_back(program);
  }
}

bool Registrar::IsAlive(const Entry& entry, BufferPool& pool) const {
  const auto netid = rpc::ParseNetid(entry.netid);
  auto address = netid ? rpc::ParseUniversalAddress(*netid, entry.address) : std::nullopt;
  if (!address) return true;  // nobody can tell
  // This server has the port: a server that listened on another address made the entry, and has ended.
  const auto has_port = [&](const Service& each) {
    const IpAddress& own = each.address.address();
    return each.netid.transport == netid->transport && each.address.port() == address->port() &&
           (own == address->address() || own.is_unspecified() || address->address().is_unspecified());
  };
  if (std::ranges::any_of(services_, has_port)) return false;
  // An adapter's ports are not those of TCP. A server with RDMA has TCP as well, and its entry for TCP decides.
  if (netid->transport == TransportKind::kRdma) return false;
  if (address->address().is_unspecified()) {
    address->address(netid->v6 ? IpAddress(asio::ip::address_v6::loopback())
                               : IpAddress(asio::ip::address_v4::loopback()));
  }
  const bool is_udp = netid->transport == TransportKind::kUdp;
  const auto channel =
      options_.connect({.kind = is_udp ? Destination::Kind::kUdp : Destination::Kind::kTcp, .address = *address}, pool);
  xdr::Encoder encoder(pool);
  const rpc::Xid xid = rpc::RandomXid();
  rpc::EncodeCallHeader(encoder, {xid, entry.program, entry.version, 0, {}, {}});
  const auto reply = Finish(channel->Call(encoder.Finish(), {.max_stream = rpc::kMaxReplyHeader, .results = {}}));
  if (!reply) return reply.error() != CallError::kRefused;
  xdr::Decoder decoder(*reply);
  rpc::ReplyHeader header;
  if (!rpc::DecodeReplyHeader(decoder, header) || header.xid != xid) return true;
  // Another program may have got the port.
  return !header.body.is_areply() || header.body.areply().reply_data.discriminant() != rpc::AcceptStatus::PROG_UNAVAIL;
}

SetupResult<void> Registrar::Require() {
  std::lock_guard lock(mutex_);
  const Report report = Register();
  reached_ = report.reached;
  if (!report.reached) {
    return std::unexpected(SetupError{fmt::format("no rpcbind answers at {}", fmt::join(options_.sockets, " or "))});
  }
  if (!report.problems.empty()) return std::unexpected(SetupError{report.problems.begin()->second});
  TellElsewhere(report);
  return {};
}

void Registrar::Refresh() {
  std::lock_guard lock(mutex_);
  if (withdrawn_) return;
  Tell(Register());
}

void Registrar::Tell(const Report& report) {
  if (reached_ && !report.reached) log::warn("rpcbind no longer answers: clients cannot ask it for this server");
  if (!report.reached && !std::exchange(told_missing_, true)) log::debug("no rpcbind answers at its local socket");
  reached_ = report.reached;
  if (!report.reached) return;
  for (const uint32_t program : report.added) log::info("registered with rpcbind: {}", DescribeProgram(program));
  for (const auto& [program, problem] : report.problems) {
    if (const auto told = told_.find(program); told != told_.end() && told->second == problem) continue;
    log::warn("{}: clients that ask rpcbind do not find this server", problem);
  }
  told_ = report.problems;
  TellElsewhere(report);
}

void Registrar::TellElsewhere(const Report& report) {
  for (const auto& [program, what] : report.elsewhere) {
    if (!elsewhere_.contains(program)) log::info("{}: it is left to that server", what);
  }
  elsewhere_ = report.elsewhere;
}

Registrar::Place Registrar::PlaceOf(uint32_t program) {
  std::lock_guard lock(mutex_);
  if (!reached_) return Place::kUnknown;
  if (elsewhere_.contains(program)) return Place::kElsewhere;
  return told_.contains(program) ? Place::kNeither : Place::kHere;
}

bool Registrar::has_all() {
  std::lock_guard lock(mutex_);
  return reached_ && told_.empty();
}

void Registrar::Withdraw() {
  withdrawn_ = true;  // before the lock, so that a Refresh() under way ends soon
  std::lock_guard lock(mutex_);
  if (registered_.empty()) return;
  BufferPool pool;
  Session session(options_, pool);
  const auto entries = session.Dump();
  if (!entries) return;
  for (const Entry& each : *entries) {
    const auto is_ours = [&](const Service& service) { return IsOurs(each, service); };
    if (std::ranges::any_of(registered_, is_ours)) session.Unset(each);
  }
  registered_.clear();
}

}  // namespace penstock::rpcbind
