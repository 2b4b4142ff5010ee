#include "client/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "client/connect.h"
#include "client/nfs4/operations.h"
#include "client/ports.h"
#include "client/set_up.h"
#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "protocol/nfs4.h"
#include "protocol/rpcb.h"
#include "rpc/client.h"
#include "rpc/tcp/channel.h"
#include "rpc/tls/session.h"
#include "rpc/universal_address.h"
#include "rpcbind/remote_program.h"
#include "rpcbind/service.h"
#include "rpcrdma/client.h"

namespace penstock::client {
namespace {

constexpr uint32_t kNfs = nfs3::NFSPROC3_NULL::kProgram;
constexpr uint32_t kMount = mount3::MOUNTPROC3_NULL::kProgram;
// The limit of each step.
constexpr uint32_t kStepSeconds = 5;

// ---- NULL calls ----

// Procedure 0 of any program.
template <uint32_t program, uint32_t version>
struct NullProcedure {
  static constexpr uint32_t kProgram = program;
  static constexpr uint32_t kVersion = version;
  static constexpr uint32_t kNumber = 0;
  using Arguments = xdr::Void;
  using Results = xdr::Void;
};

// Nothing: the connection is lost.
using Answer = std::optional<bool>;

template <uint32_t program, uint32_t version>
Task<Answer> HasProgram(rpc::Client& client) {
  const auto reply = co_await client.Call<NullProcedure<program, version>>({});
  if (reply) co_return true;
  if (reply.error().kind == rpc::Error::Kind::kTransport) co_return std::nullopt;
  co_return false;
}

struct Question {
  uint32_t program;
  uint32_t version;
  Task<Answer> (*ask)(rpc::Client& client);
};

template <uint32_t program, uint32_t version>
constexpr Question Asks() {
  return {program, version, &HasProgram<program, version>};
}

constexpr Question kQuestions[] = {
    Asks<kNfs, 2>(),   Asks<kNfs, 3>(),   Asks<kNfs, 4>(),   Asks<kMount, 1>(), Asks<kMount, 3>(), Asks<100227, 2>(),
    Asks<100227, 3>(), Asks<100021, 1>(), Asks<100021, 3>(), Asks<100021, 4>(), Asks<100011, 1>(), Asks<100011, 2>(),
};

// Whether the server executes a COMPOUND of this minor version. It has no operations, so that it needs no session (RFC
// 8881 §16.2.3).
Task<Answer> HasMinorVersion(rpc::Client& client, uint32_t minor_version) {
  const std::tuple<> none;
  v4::CompoundReply<> reply;
  const auto message = co_await client.CallWith<nfs4::NFSPROC4_COMPOUND>(
      [&](xdr::Encoder& encoder) { v4::EncodeCompound(encoder, minor_version, none); }, v4::ShapeOf(none, {}),
      [&](xdr::Decoder& decoder) { return v4::DecodeCompound(decoder, reply); });
  if (!message) {
    if (message.error().kind == rpc::Error::Kind::kTransport) co_return std::nullopt;
    co_return false;
  }
  co_return reply.status != nfs4::nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH;
}

// The versions 4.0 to 4.2 that the server has.
Task<std::vector<std::string>> MinorVersions(rpc::Client& client) {
  std::vector<std::string> versions;
  for (uint32_t minor = 0; minor <= 2; ++minor) {
    const Answer has = co_await HasMinorVersion(client, minor);
    if (!has) break;
    if (*has) versions.push_back(fmt::format("4.{}", minor));
  }
  // It may not say, for example because it demands Kerberos.
  if (versions.empty()) versions.emplace_back("4");
  co_return versions;
}

Task<std::vector<AnsweringProgram>> AskPrograms(rpc::Client& client) {
  std::vector<AnsweringProgram> programs;
  for (const Question& each : kQuestions) {
    const Answer has = co_await each.ask(client);
    if (!has) break;
    if (!*has) continue;
    if (programs.empty() || programs.back().program != each.program) {
      programs.push_back({.program = each.program, .name = DescribeProgram(each.program), .versions = {}});
    }
    std::vector<std::string>& versions = programs.back().versions;
    if (each.program == kNfs && each.version == 4) {
      std::vector<std::string> minors = co_await MinorVersions(client);
      std::ranges::move(minors, std::back_inserter(versions));
    } else {
      versions.push_back(std::to_string(each.version));
    }
  }
  co_return programs;
}

// ---- the parts of a report ----

class Prober {
 public:
  Prober(Loop& loop, Workers& workers, Url url, rdma::Provider& provider, ProbeOptions options)
      : loop_(loop), workers_(workers), url_(std::move(url)), provider_(provider), options_(options) {
    url_.recovery.LimitTo(kStepSeconds);
  }

  Task<SetupResult<HostReport>> Run();

 private:
  Task<void> AskRpcbind(HostReport& report, const SocketAddress& at);
  Task<PortReport> AskTcp(uint16_t port);
  Task<PortReport> AskRdma(uint16_t port);
  Task<std::optional<std::string>> AskTls(uint16_t port);
  Task<void> AskExports(HostReport& report);

  Loop& loop_;
  Workers& workers_;
  Url url_;
  rdma::Provider& provider_;
  const ProbeOptions options_;
};

// Asks by version 4 of rpcbind, and by version 2 if it has no other.
Task<void> Prober::AskRpcbind(HostReport& report, const SocketAddress& at) {
  rpcbind::RemoteOptions options;
  options.limit = std::chrono::seconds(kStepSeconds);
  auto opened = co_await rpcbind::OpenRemoteAt(loop_, SocketAddress(at.address(), pmap::PMAP_PORT),
                                               rpc::TransportKind::kTcp, options);
  if (!opened) {
    report.rpcbind_error = "does not answer at port 111";
    co_return;
  }
  const std::unique_ptr<rpc::Channel> channel = *std::move(opened);
  rpc::Client client(*channel, loop_.buffers(), rpc::RandomXid());
  const rpc::ReplyBounds bounds{.open = 60 << 10, .results = {}};
  const auto listed = co_await client.Call<pmap::RPCB4PROC_DUMP>({}, bounds);
  if (listed) {
    for (const pmap::rpcbnode& node : listed->results) {
      const std::string netid(node.rpcb_map.r_netid);
      const auto address = rpc::ParseUniversalAddress(netid, node.rpcb_map.r_addr);
      if (!address) continue;  // of a local transport
      report.registered.push_back({node.rpcb_map.r_prog, node.rpcb_map.r_vers, netid, address->port()});
    }
  } else {
    const auto old = co_await client.Call<pmap::PMAPPROC_DUMP>({}, bounds);
    if (!old) report.rpcbind_error = rpc::Describe(old.error());
    if (old) {
      for (const pmap::pmapnode& node : old->results) {
        const std::string netid = node.map.prot == pmap::IPPROTO_UDP_NUMBER ? "udp" : "tcp";
        report.registered.push_back({node.map.prog, node.map.vers, netid, static_cast<uint16_t>(node.map.port)});
      }
    }
  }
  std::ranges::sort(report.registered);
  // The channel must outlive the turn of the loop that delivered its reply.
  co_await Sleep(loop_, Duration::zero());
}

Task<std::optional<std::string>> Prober::AskTls(uint16_t port) {
  Url url = url_;
  url.protocol = Protocol::kTcp;
  url.port = port;
  url.finds_port = false;
  if (url.transport_security == TransportSecurity::kNone) url.transport_security = TransportSecurity::kTls;
  const auto opened = co_await OpenChannel(loop_, workers_, url, nullptr);
  std::optional<std::string> said;
  if (!opened) {
    const std::string begin = fmt::format("{} port {}: ", url.host, url.port);
    std::string why = opened.error().message;
    if (why.starts_with(begin)) why.erase(0, begin.size());
    if (url.tls->HadTls(url.host, url.port)) said = fmt::format("offered, but {}", why);
  } else if (const auto* const tcp = dynamic_cast<const rpc::tcp::Channel*>(opened->get()); tcp && tcp->tls()) {
    said = tcp->tls()->ToString();
  }
  co_await Sleep(loop_, Duration::zero());
  co_return said;
}

Task<PortReport> Prober::AskTcp(uint16_t port) {
  PortReport report{.port = port};
  Url url = url_;
  url.protocol = Protocol::kTcp;
  url.port = port;
  url.finds_port = false;
  url.transport_security = TransportSecurity::kNone;
  auto opened = co_await OpenChannel(loop_, workers_, url, nullptr);
  if (!opened) {
    report.error = opened.error().message;
    co_return report;
  }
  const std::unique_ptr<rpc::Channel> channel = *std::move(opened);
  rpc::Client client(*channel, loop_.buffers(), rpc::RandomXid(), SystemCredentialOf(url_));
  report.programs = co_await AskPrograms(client);
  co_await Sleep(loop_, Duration::zero());
  if (!report.programs.empty()) report.tls = co_await AskTls(port);
  co_return report;
}

Task<PortReport> Prober::AskRdma(uint16_t port) {
  PortReport report{.port = port, .is_rdma = true};
  Url url = url_;
  url.protocol = Protocol::kRdma;
  url.port = port;
  url.transport_security = TransportSecurity::kNone;
  auto opened = co_await OpenChannel(loop_, workers_, url, &provider_);
  if (!opened) {
    report.error = opened.error().message;
    co_return report;
  }
  const std::unique_ptr<rpc::Channel> channel = *std::move(opened);
  if (const auto* const rdma = dynamic_cast<const rpcrdma::Client*>(channel.get())) {
    const rpcrdma::Thresholds& agreed = rdma->thresholds();
    report.rdma = RdmaFacts{.server_receives = agreed.send,
                            .server_sends = agreed.receive,
                            .remote_invalidation = agreed.remote_invalidation};
  }
  rpc::Client client(*channel, loop_.buffers(), rpc::RandomXid(), SystemCredentialOf(url_));
  report.programs = co_await AskPrograms(client);
  co_await Sleep(loop_, Duration::zero());
  co_return report;
}

Task<void> Prober::AskExports(HostReport& report) {
  auto opened = co_await MountCalls::Open(loop_, workers_, url_);
  if (!opened) {
    report.exports_error = std::move(opened).error().message;
    co_return;
  }
  const std::unique_ptr<MountCalls> calls = *std::move(opened);
  auto exports = co_await calls->ListExports();
  if (!exports) {
    report.exports_error = std::move(exports).error().message;
  } else {
    constexpr size_t kMost = 100;  // each takes two calls more
    for (ExportEntry& each : *exports) {
      ExportReport about{.entry = std::move(each)};
      if (report.exports.size() < kMost) {
        const auto flavors = co_await calls->FlavorsOf(about.entry.path);
        if (!flavors) about.error = flavors.error().message;
        if (flavors) {
          for (const auto flavor : *flavors) about.flavors.emplace_back(NameOf(flavor));
        }
      }
      report.exports.push_back(std::move(about));
    }
  }
  co_await calls->Close();
}

Task<SetupResult<HostReport>> Prober::Run() {
  HostReport report{.host = url_.host};
  const auto addresses = co_await FindAddresses(loop_, workers_, url_, nullptr);
  if (!addresses) {
    co_return std::unexpected(
        SetupError{fmt::format("{}: {}", url_.host, addresses.error().message), addresses.error().number});
  }
  for (const SocketAddress& each : *addresses) report.addresses.push_back(each.address().to_string());
  if (!options_.skip_rpcbind) co_await AskRpcbind(report, addresses->front());
  std::vector<uint16_t> ports = {url_.protocol == Protocol::kRdma ? uint16_t{2049} : url_.port,
                                 url_.mount_port.value_or(20048)};
  for (const RegisteredProgram& each : report.registered) {
    if ((each.program == kNfs || each.program == kMount) && each.netid == "tcp") ports.push_back(each.port);
  }
  std::set<uint16_t> asked;
  for (const uint16_t port : ports) {
    if (asked.insert(port).second) report.ports.push_back(co_await AskTcp(port));
  }
  const auto rdma_port = url_.protocol == Protocol::kRdma ? url_.port : options_.rdma_port;
  report.ports.push_back(co_await AskRdma(rdma_port));
  co_await AskExports(report);
  co_return report;
}

// The highest version of NFS at the port.
std::string BestVersion(const PortReport& port) {
  for (const AnsweringProgram& each : port.programs) {
    if (each.program == kNfs && !each.versions.empty()) return each.versions.back();
  }
  return {};
}

}  // namespace

std::string DescribeProgram(uint32_t program) {
  switch (program) {
    case 100227:
      return "NFSACL";
    case 100021:
      return "NLM";
    case 100024:
      return "NSM";
    case 100011:
      return "RQUOTA";
    case 100000:
      return "rpcbind";
    default: {
      const std::string name = rpcbind::DescribeProgram(program);
      return name.substr(0, name.find(" ("));
    }
  }
}

const PortReport* HostReport::NfsPort(bool is_rdma) const {
  for (const PortReport& each : ports) {
    if (each.is_rdma == is_rdma && !BestVersion(each).empty()) return &each;
  }
  return nullptr;
}

std::vector<std::string> MountLines(const HostReport& report) {
  std::vector<std::string> lines;
  const ExportReport* const first = report.exports.empty() ? nullptr : &report.exports.front();
  const std::string path = first ? first->entry.path : "/";
  const bool is_v6 = report.host.contains(':');
  const std::string host = is_v6 ? fmt::format("[{}]", report.host) : report.host;
  std::string sec;
  if (first && !first->flavors.empty() && first->flavors.front() != "sys") sec = first->flavors.front();
  for (const bool is_rdma : {false, true}) {
    const PortReport* const port = report.NfsPort(is_rdma);
    if (!port) continue;
    const std::string_view proto = is_rdma ? "rdma" : "tcp";
    std::string options = fmt::format("vers={},proto={}{}", BestVersion(*port), proto, is_v6 ? "6" : "");
    std::string query = fmt::format("vers={}&proto={}", BestVersion(*port), proto);
    // The kernel has no port of its own for RDMA.
    if (is_rdma || port->port != 2049) options += fmt::format(",port={}", port->port);
    if (!sec.empty()) {
      options += ",sec=" + sec;
      query += "&sec=" + sec;
    }
    const bool usual = port->port == Url::DefaultPort(is_rdma ? Protocol::kRdma : Protocol::kTcp);
    lines.push_back(fmt::format("mount -t nfs -o {} {}:{} /mnt", options, host, path));
    lines.push_back(fmt::format("penstock mount 'nfs://{}{}{}?{}' /mnt", host,
                                usual ? std::string() : fmt::format(":{}", port->port), path, query));
  }
  return lines;
}

Task<SetupResult<HostReport>> ProbeHost(Loop& loop, Workers& workers, const Url& url, rdma::Provider& provider,
                                        ProbeOptions options) {
  Prober prober(loop, workers, url, provider, options);
  co_return co_await prober.Run();
}

}  // namespace penstock::client
